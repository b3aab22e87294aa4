"""Groups in the report: planted confusions are found on their level, random groups have none, and names stay text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

import conal
from conal import aggregation
from conal.aggregation.counts import Votes
from conal.aggregation.group_confusion import levels_of
from conal.data.annotations import Annotations
from conal.data.annotator_info import AnnotatorInfo
from conal.data.encoding import as_names
from conal.data.pseudonyms import anonymised
from conal.report.evidence import AnnotatorPrivacy, Evidence
from conal.report.findings import Findings, checked_report
from conal.report.labels_alone import findings_of_labels
from conal.report.page import render

FloatArray = npt.NDArray[np.float64]
HOSTILE = "<img src=x onerror=alert(1)>"
GROUPS = ["oak"] * 5 + ["elm"] * 5
N_TASKS, C = 300, 3


def planted(seed: int = 0, names: str = "w") -> tuple[Annotations, npt.NDArray[np.int64]]:
    """Ten annotators: all take 0 for 1 in 15 % of the cases, the second five also 1 for 2, and the last 2 for 0."""
    rng = np.random.default_rng(seed)
    z = rng.integers(C, size=N_TASKS)
    pi = np.tile(0.9 * np.eye(C) + 0.1 / C, (10, 1, 1))
    pi[:, 0] = [0.82, 0.15, 0.03]
    pi[5:, 1] = [0.05, 0.6, 0.35]
    pi[9, 2] = [0.45, 0.05, 0.5]
    drawn = (rng.random((N_TASKS, 10, 1)) > pi[:, z].swapaxes(0, 1).cumsum(-1)).sum(-1)
    crowd = Annotations.from_matrix(drawn, annotator_ids=[f"{names}{k}" for k in range(10)], classes=range(C))
    return crowd, z


def evidence_of(crowd: Annotations, z: npt.NDArray[np.int64], groups: list[Any], **more: Any) -> Evidence:
    sure = np.eye(C)[z]
    counts = Votes(crowd).counts(sure) + 1
    pi = counts / counts.sum(-1, keepdims=True)
    return Evidence(crowd, sure, None, pi.mean(0), pi, groups=as_names(groups), **more)


def section_of(groups: list[Any], seed: int = 0) -> Any:
    return Findings(evidence_of(*planted(seed), groups)).section("groups")


def test_each_mistake_is_found_on_its_level() -> None:
    found = section_of(GROUPS)
    assert [(pair["true"], pair["observed"]) for pair in found["everybody"]] == [(0, 1)]
    assert found["everybody"][0]["share"] == pytest.approx(0.15, abs=0.03)
    first = found["pairs"][0]
    assert (first["group"], first["true"], first["observed"]) == ("elm", 1, 2)
    assert first["low"] < 0.35 < first["high"]
    assert first["others"] == pytest.approx(0.03, abs=0.03)
    first = found["own"][0]
    assert (first["worker"], first["group"], first["true"], first["observed"]) == ("w9", "elm", 2, 0)
    assert first["low"] < 0.45 < first["high"]
    assert {(pair["group"], pair["true"], pair["observed"]) for pair in found["pairs"]} == {("elm", 1, 2)}
    assert {row["group"]: (row["annotators"], row["labels"]) for row in found["rows"]} == {
        "oak": (5, 1500),
        "elm": (5, 1500),
    }


def test_groups_by_chance_have_no_mistakes_of_their_own() -> None:
    """Both parts have members of both real groups: no mistake is that of a part."""
    mixed = ["p", "p", "p", "q", "q", "p", "p", "q", "q", "q"]
    found = [pair for seed in range(10) for pair in section_of(mixed, seed)["pairs"]]
    assert len(found) <= 3  # 120 cells were looked at


def test_shares_of_a_group_are_those_of_its_labels_where_there_are_many() -> None:
    crowd, z = planted()
    counts = Votes(crowd).counts(np.eye(C)[z])
    found = levels_of(counts, np.repeat([0, 1], 5))
    for k, members in enumerate((counts[:5], counts[5:])):
        pooled = members.sum(0) / members.sum((0, 2))[:, None]
        np.testing.assert_allclose(found.groups[k], pooled, atol=0.04)
    assert (found.independent <= np.stack([counts[:5], counts[5:]]).sum((1, 3)) + 1e-9).all()
    assert (found.independent[0] > 1.2 * found.independent[1]).all()  # alike there, one unlike the others here


def test_fast_steps_end_where_slow_ones_do() -> None:
    crowd, z = planted()
    counts, codes = Votes(crowd).counts(np.eye(C)[z]), np.repeat([0, 1], 5)
    model = aggregation.GroupConfusion()
    model.n_groups_, model.pooling_ = 2, 1.0
    alpha = np.tile(model._modes(C), (2, 1, 1))
    for _ in range(3000):
        alpha = model._better_alpha(alpha, np.eye(2)[codes], counts)
    np.testing.assert_allclose(levels_of(counts, codes).alpha, alpha, rtol=1e-4)


def test_matrices_are_those_that_group_confusion_fits() -> None:
    crowd, _ = planted()
    fitted = aggregation.GroupConfusion(groups=GROUPS, pooling=1.0, verbose=False).fit(crowd)
    rows = {row["group"]: row["matrix"] for row in fitted.results_.section("groups")["rows"]}
    for name, matrix in zip(fitted.groups_, fitted.group_confusion_, strict=True):
        np.testing.assert_allclose(rows[name], matrix, atol=0.002)


def test_learned_groups_are_shown() -> None:
    fitted = aggregation.GroupConfusion(groups=2, verbose=False).fit(planted()[0])
    assert {row["group"] for row in fitted.results_.section("groups")["rows"]} == {"group 1", "group 2"}


def test_names_of_groups_and_annotators_stay_text() -> None:
    crowd, _ = planted(names=HOSTILE)
    info = pa.table({"worker": crowd.annotator_ids.tolist(), "group": [HOSTILE + name for name in GROUPS]})
    fitted = aggregation.DawidSkene(verbose=False).fit(crowd, annotator_info=info)
    report = checked_report(json.loads(json.dumps(fitted.results_.report)))
    page = render(report)
    assert 'id="groups"' in page
    assert HOSTILE not in page
    assert fitted.plots.group(HOSTILE + "elm").to_dict()["title"]


def test_small_groups_are_not_told_where_names_are_hidden() -> None:
    crowd, _ = planted()
    info = pa.table({"worker": crowd.annotator_ids.tolist(), "group": ["ash", "fir"] + ["oak"] * 3 + ["elm"] * 5})
    fitted = aggregation.DawidSkene(verbose=False).fit(crowd, annotator_info=info)
    rows = findings_of_labels(fitted, AnnotatorPrivacy(10)).section("groups")["rows"]
    assert {row["group"]: row["annotators"] for row in rows} == {"elm": 5, "oak": 3, "others": 2}


def test_no_groups_no_section() -> None:
    assert "groups" not in aggregation.DawidSkene(verbose=False).fit(planted()[0]).results_.report


def train(*, names_hidden: bool) -> conal.CrossCoNAL:
    crowd, z = planted()
    rng = np.random.default_rng(0)
    x = np.eye(C)[z] + rng.normal(0, 0.7, (N_TASKS, C))
    costs = [0.1] * 5 + [1.0] * 4 + [5.0]
    groups = ["ash"] + ["oak"] * 4 + ["elm"] * 5
    info = pa.table({"worker": crowd.annotator_ids.tolist(), "group": groups, "cost": costs, "years": range(10)})
    about: AnnotatorInfo | None = AnnotatorInfo.of(info, crowd)
    if names_hidden:
        crowd, about = anonymised(crowd, about, key=b"key")
    return conal.CrossCoNAL(epochs=3, verbose=False).fit(x, crowd, annotator_info=about)


@pytest.fixture(scope="module")
def trained() -> conal.CrossCoNAL:
    return train(names_hidden=False)


def test_a_classifier_reports_groups_and_costs(trained: conal.CrossCoNAL, tmp_path: Path) -> None:
    report = trained.results_.report
    assert report["groups"]["pairs"][0]["group"] == "elm"
    assert {row["worker"]: (row["group"], row["cost"]) for row in report["jury"]["judges"]}["w9"] == ("elm", 5.0)
    trained.save(tmp_path / "model")
    loaded = conal.load(tmp_path / "model")
    info, stored = trained.annotator_info_, loaded.annotator_info_
    assert info is not None
    assert stored is not None
    assert (stored.groups, stored.feature_names) == (info.groups, info.feature_names)
    np.testing.assert_array_equal(stored.costs, info.costs)
    np.testing.assert_array_equal(stored.features, info.features)
    assert loaded.results_.report["groups"] == report["groups"]


def test_a_shared_model_tells_nothing_that_single_annotators_have(tmp_path: Path) -> None:
    train(names_hidden=True).save(tmp_path / "model")
    loaded = conal.load(tmp_path / "model")
    info = loaded.annotator_info_
    assert info is not None
    assert info.annotators.tolist() == loaded.annotator_ids_.tolist()
    assert sorted(info.groups or ()) == ["elm"] * 5 + ["oak"] * 4 + ["others"]
    assert info.costs is None
    assert info.features is None
    report = loaded.results_.report
    assert not any("cost" in row for row in report["jury"]["judges"])
    people = [row["worker"] for row in report["groups"]["own"]]
    assert people
    assert set(people) <= set(loaded.annotator_ids_.tolist())
    for file in ("report.json", "config.json"):
        text = (tmp_path / "model" / file).read_text(encoding="utf-8")
        assert '"ash"' not in text
        assert '"w9"' not in text


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"groups": ["oak"]}, "annotator_info.groups must be 10 names"),
        ({"groups": [1] * 10}, "annotator_info.groups must be 10 names"),
        ({"costs": [1.0] * 9}, "annotator_info.costs must be numbers"),
        ({"costs": [-1.0] * 10}, "annotator_info.costs must be numbers"),
        ({"features": [[1.0]] * 10}, "annotator_info.features must be numbers"),
        ([], "annotator_info must be an object"),
    ],
)
def test_a_damaged_folder_is_refused(wrong: Any, told: str) -> None:
    from conal.io.model_folder import annotator_info_from_json

    with pytest.raises(TypeError, match=told):
        annotator_info_from_json({"annotator_info": wrong}, as_names([f"w{k}" for k in range(10)]))
