"""Every study: one small run of each part, its summary, and the tables of 0.2.0, whose verdicts stay what they are."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conal.data.annotations import Annotations
from conal.datasets import CrowdDataset, synthetic
from conal.errors import InputError
from studies import STUDIES
from studies.__main__ import main
from studies.figure_1 import confusion_shares, label_entropies
from studies.omega import omega_halves
from studies.runs import Options, Setting, study_of
from studies.tables import flat, group_by, page, read_csv, write_csv

pytestmark = pytest.mark.filterwarnings("ignore::conal.errors.ConalWarning")  # tiny crowds, few epochs

RELEASE = Path(__file__).parents[2] / "studies" / "results" / "0.2.0"
SMALL: dict[str, Any] = {"n_train": 120, "n_valid": 40, "n_test": 40, "n_annotators": 12}
SLOW = ("gold-free", "little-gold")


def tiny(setting: Setting) -> Setting:
    """The same setting on few instances, for two epochs."""
    made = deepcopy(setting)
    if made.get("parameters") is not None and made.get("method") not in ("dawid-skene", "auto", "stacked-votes"):
        made["parameters"] |= {"epochs": 2}
    if "common_strength" in made.get("data", {}) or "n_train" in made.get("data", {}):
        made["data"] |= SMALL if made.get("dataset") != "cifar10" else {"n_train": 120, "n_valid": 40}
    if "sample" in made.get("data", {}):
        made["data"]["sample"]["n_tasks"] = 40
    made |= {name: 2 for name in ("draws", "rounds") if name in made}
    return made


def some_runs(name: str) -> list[Setting]:
    """The first and the last setting of each part, and of each kind of row if there are few."""
    settings = study_of(name).runs(Options(seeds=1))
    chosen = []
    for some in group_by(settings, "part").values():
        kinds = list(group_by(some, "row").values()) if "row" in some[0] and name == "attacks" else [some]
        chosen += [each for kind in kinds[:4] for each in (kind[0], kind[-1])]
    return chosen


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow if n in SLOW else ()) for n in STUDIES])
def test_every_study_runs_and_summarises_what_is_there(name: str, tmp_path: Path) -> None:
    study = study_of(name)
    tables: dict[str, Any] = {part: [] for part in study.PARTS}
    for setting in map(tiny, some_runs(name)):
        try:
            found = study.run(setting)
        except InputError as absent:
            if "no such folder" not in str(absent):
                raise
            pytest.skip(str(absent))
        for row in found if isinstance(found, list) else [found]:
            tables[setting["part"]].append(flat({**setting, **row}))
    for part, rows in tables.items():
        if rows:
            write_csv(rows, tmp_path / f"{part}.csv")
            assert len(read_csv(tmp_path / f"{part}.csv")) == len(rows)
    assert page("title", "made", study.summarise(tables)).startswith("# title\n")


@pytest.mark.parametrize("name", STUDIES)
def test_every_setting_is_plain_and_has_a_part(name: str) -> None:
    study = study_of(name)
    settings = study.runs(Options(seeds=2))
    assert {setting["part"] for setting in settings} <= set(study.PARTS)
    keys = [repr(sorted(setting.items(), key=str)) for setting in settings]
    assert len(set(keys)) == len(keys)
    with pytest.raises(InputError, match=r"--(datasets|methods): this study has no chess"):
        study.runs(Options(datasets=("chess",), methods=("chess",)))


VERDICTS = {
    "table-1": ["inconclusive", "fails", "holds", "fails"],
    "table-2": ["no difference beyond 2 points", "inconclusive"],
    "table-3": ["no difference beyond 2 points", "inconclusive", "fails", "fails"],
    "sweeps": ["inconclusive", "holds", "inconclusive", "inconclusive", "inconclusive"],
    "recovery": ["holds", "holds", "inconclusive"],
    "omega": ["holds", "inconclusive"],
    "gold-free": ["holds", "inconclusive", "inconclusive", "inconclusive", "inconclusive", "inconclusive", "holds"],
    "small": ["fails", "inconclusive", "inconclusive", "holds"],
    "little-gold": [
        *("inconclusive", "inconclusive", "fails", "holds"),
        *("inconclusive", "holds", "inconclusive", "inconclusive"),
    ],
    "plans": ["holds"],
}
"""What the tables of 0.2.0 say, claim by claim: as its own page of results did, in other words."""


@pytest.mark.large
@pytest.mark.parametrize("name", STUDIES)
def test_the_tables_of_the_release_say_what_they_said(name: str) -> None:
    study = study_of(name)
    files = {part: RELEASE / f"{part}.csv" for part in study.PARTS}
    summary = study.summarise({part: read_csv(path) if path.is_file() else [] for part, path in files.items()})
    assert summary.tables
    verdicts = [each.verdict for each in summary.claims if "Max-MIG" not in each.claim]  # which needs the data
    expected = [v for k, v in enumerate(VERDICTS.get(name, [])) if (name, k) != ("table-1", 2)]
    if name in VERDICTS:
        assert verdicts == expected
    for each in summary.claims:
        assert max(len(str(cell).split()) for cell in each) <= 20, each
    for table in summary.tables:
        assert {len(row) for row in table.body} <= {len(table.header)}, table.title


def test_figure_1_has_the_papers_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if main(["figure-1", "--out", str(tmp_path)]):
        pytest.skip("LabelMe and Music are not here (CONAL_DATA or ../shared/data)")
    rows = {(row["true"], row["observed"]): 100 * row["share"] for row in read_csv(tmp_path / "figure-1.csv")}
    pairs = (("street", "insidecity"), ("opencountry", "forest"), ("metal", "rock"), ("disco", "pop"))
    np.testing.assert_allclose([rows[pair] for pair in pairs], [61.0, 44.1, 63.6, 38.6], atol=0.05)
    entropies = {row["class"]: row["entropy"] for row in read_csv(tmp_path / "entropies.csv")}
    np.testing.assert_allclose([entropies["forest"], entropies["opencountry"]], [0.660, 1.287], atol=5e-4)
    assert ">61<" in (tmp_path / "figure-1.svg").read_text(encoding="utf-8")
    assert "| street | insidecity | 61.0 | 61.0 |" in capsys.readouterr().out


def test_shares_and_entropies_by_hand() -> None:
    """Three annotators: two took class 0 for 1 at some time, one took class 1 for 0, the third is always right."""
    crowd = Annotations.from_matrix([[1, 1, 0], [1, 0, 0], [1, 0, 1]])
    data = CrowdDataset("hand", np.zeros((3, 1), dtype=np.float32), crowd, np.array([0, 0, 1]))
    np.testing.assert_allclose(confusion_shares(data), [[2 / 3, 2 / 3], [1 / 3, 2 / 3]])
    expected = [np.log(2), np.log(3) / 3 + 2 / 3 * np.log(1.5)]
    np.testing.assert_allclose(label_entropies(crowd, data.y_true), expected)


def test_halves_by_mean_omega_by_hand() -> None:
    crowd = Annotations.from_matrix([[0, 1], [1, -1], [0, 0], [1, 1]])
    data = CrowdDataset("hand", np.zeros((4, 1), dtype=np.float32), crowd, np.array([0, 1, 0, 1]))
    omega = np.array([0.9, 0.5, 0.6, 0.1, 0.3, 0.8, 1.0])  # means by task: 0.7, 0.6, 0.2, 0.9
    top, bottom = omega_halves(omega, data)
    np.testing.assert_allclose([top, bottom], [[0.5, 0.5], [0.5, 0.5]])
    top, bottom = omega_halves(np.array([0.9, 0.9, 0.1, 0.8, 0.8, 0.2, 0.2]), data)
    np.testing.assert_allclose([top, bottom], [[1, 0], [0, 1]])


def test_the_bayes_rule_gains_by_knowing_the_gate() -> None:
    from studies.fits import bayes_label_accuracy

    data = synthetic(n_train=1500, n_valid=5, n_test=5, common_strength=0.8, seed=3)
    known, mean = bayes_label_accuracy(data), bayes_label_accuracy(data, gate=False)
    assert known > mean > 0.5
    with pytest.raises(InputError, match="unknown"):
        bayes_label_accuracy(CrowdDataset("none", data.x, data.annotations, data.y_true))
