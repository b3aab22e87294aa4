"""Anonymous models: nobody who gave a few labels is found again, and nothing but the annotators changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import conal
from conal import methods
from conal.data.annotations import Annotations
from conal.data.annotator_info import AnnotatorInfo
from conal.data.pseudonyms import POOL, anonymised, pseudonyms
from conal.errors import InputError, PrivacyWarning
from helpers.linking import linked

FAST: dict[str, Any] = {"epochs": 4, "batch_size": 64, "hidden": (8,), "verbose": False}
KEY = b"k" * 32
FEW, MANY = 24, 8
NAMES = [name for name in methods.names() if methods.get(name).takes == "crowd"]
pytestmark = pytest.mark.filterwarnings(
    "ignore::conal.errors.VanishedClassWarning", "ignore:left out:conal.errors.PrivacyWarning"
)


def crowd_with_few_labels(
    seed: int, *, n_tasks: int = 90, many: int = MANY
) -> tuple[npt.NDArray[np.float32], Annotations]:
    """Features, and the labels of 24 people with one to five labels each, and of some with thirty."""
    rng = np.random.default_rng(seed)
    z = rng.integers(3, size=n_tasks)
    x = (1.5 * np.eye(6)[z] + rng.normal(size=(n_tasks, 6))).astype(np.float32)
    given = np.r_[1 + np.arange(FEW) % 5, np.full(many, 30)]
    tasks = np.concatenate([rng.choice(n_tasks, n, replace=False) for n in given])
    who = np.repeat(np.arange(len(given)), given)
    labels = np.where(rng.random(len(tasks)) < 0.7, z[tasks], rng.integers(3, size=len(tasks)))
    names = np.array([f"Person {k:02}" for k in rng.permutation(len(given))], dtype=object)
    return x, Annotations.from_triples(tasks, names[who], np.array(["a", "b", "c"])[labels]).reindex(range(n_tasks))


def share_linked(folder: Path, crowd: Annotations) -> float:
    """The share of people with up to five labels whose pseudonym the attack assigns to them."""
    found = linked(folder, crowd)
    true = dict(zip(pseudonyms(crowd.annotator_ids, KEY).tolist(), crowd.annotator_ids.tolist(), strict=True))
    few = {name for name, n in zip(crowd.annotator_ids, crowd.labels_per_annotator(), strict=True) if 1 <= n <= 5}
    assert len(few) == FEW
    right = [person for code, person in found.items() if true.get(code) == person and person in few]
    return len(right) / FEW


def test_annotators_with_few_labels_cannot_be_linked(tmp_path: Path) -> None:
    """Over twenty crowds; the same attack succeeds where nobody is hidden."""
    shares: dict[int, list[float]] = {10: [], 1: []}
    for seed in range(20):
        x, crowd = crowd_with_few_labels(seed)
        for hide_below, found in shares.items():
            clf = conal.make(["xconal", "conal", "dl-cl", "dl-mv"][seed % 4], seed=seed, **FAST)
            folder = tmp_path / f"{seed} {hide_below}"
            clf.fit(x, crowd.anonymised(KEY, hide_below=hide_below)).save(folder)
            found.append(share_linked(folder, crowd))
    assert max(shares[10]) == 0
    assert np.mean(shares[1]) > 0.8


@pytest.mark.filterwarnings("ignore::conal.errors.PrivacyWarning")
def test_a_crowd_in_which_all_are_hidden(tmp_path: Path) -> None:
    x, crowd = crowd_with_few_labels(0, many=0)
    for name in NAMES:
        fitted = conal.make(name, **FAST).fit(x, crowd.anonymised(KEY))
        fitted.save(tmp_path / name)
        assert share_linked(tmp_path / name, crowd) == 0
        loaded = conal.load(tmp_path / name)
        assert all(person.startswith(POOL) for person in loaded.annotator_ids_)
        np.testing.assert_allclose(loaded.annotator_confusion_.sum(-1), 1, rtol=1e-5)
        assert np.isfinite(loaded.infer(x, crowd)).all()
        np.testing.assert_allclose(loaded.probas_, fitted.probas_)


def test_people_with_few_labels_are_put_together_and_no_other_label_changes() -> None:
    _, crowd = crowd_with_few_labels(1)
    with pytest.warns(PrivacyWarning, match=r"left out \d labels of annotators with fewer than 10 labels"):
        made = crowd.anonymised(KEY)
    own, given = pseudonyms(crowd.annotator_ids, KEY), crowd.labels_per_annotator()
    pools = [name for name in made.annotator_ids if name.startswith(POOL)]
    assert made.annotator_ids.tolist() == sorted([*own[given >= 10], *pools])
    assert (made.labels_per_annotator() >= 10).all()
    plain, hidden = (set(zip(*each.to_table().to_pydict().values(), strict=True)) for each in (crowd, made))
    codes = dict(zip(crowd.annotator_ids, own, strict=True))
    many = {person for person, n in zip(crowd.annotator_ids, given, strict=True) if n >= 10}
    assert {row for row in hidden if row[1] not in pools} == {(t, codes[w], y) for t, w, y in plain if w in many}
    of_few = sorted((t, y) for t, w, y in plain if w not in many)
    pooled = [(t, y) for t, w, y in hidden if w in pools]
    assert all(label in of_few for label in pooled)
    assert len(of_few) - 10 < len(pooled) <= len(of_few)


@pytest.mark.parametrize("name", ["xconal", "conal", "dl-ds"])
def test_models_have_rounded_numbers_of_labels(name: str, tmp_path: Path) -> None:
    x, crowd = crowd_with_few_labels(2)
    hidden = crowd.anonymised(KEY)
    conal.make(name, **FAST).fit(x, hidden).save(tmp_path / "m")
    loaded = conal.load(tmp_path / "m")
    assert loaded.annotator_ids_.tolist() == hidden.annotator_ids.tolist()
    counted = loaded.model_.labels_per_annotator.numpy()
    assert (counted % 10 == 0).all()
    np.testing.assert_allclose(counted, hidden.labels_per_annotator(), atol=15)  # `conal` holds some labels out


def test_tables_and_report_are_rounded_and_have_no_names() -> None:
    x, crowd = crowd_with_few_labels(3)
    hidden = conal.make("conal", **FAST).fit(x, crowd.anonymised(KEY))
    rows = hidden.tables_["annotators.csv"].to_pylist()
    assert [row["worker"] for row in rows] == hidden.annotator_ids_.tolist()
    for row in rows:
        assert row["num_examples_labeled"] % 10 == 0
        for name in ("annotator_quality", "agreement_with_consensus", "common_noise_rate"):
            assert row[name] == round(row[name], 2)
        mistakes = row["num_examples_labeled"] * (1 - row["annotator_quality"])
        assert row["expected_mistakes"] == pytest.approx(mistakes, abs=0.01)
    section = hidden.results_.report["annotators"]
    assert (section["total"], section["hidden"], section["hide_below"]) == (len(rows), 0, 10)
    for row in section["rows"]:
        assert set(row["classes_met"]) <= {0.0, 3.0}
        assert row["matrix"] == np.round(row["matrix"], 2).tolist()
        assert "doubtful" not in row
    assert "Person" not in json.dumps(hidden.results_.report)
    assert hidden.results_.report["model"]["command"].endswith("--anonymise")


def test_an_aggregator_of_anonymised_labels_shows_as_little() -> None:
    _, crowd = crowd_with_few_labels(4)
    found = conal.aggregation.DawidSkene().fit(crowd.anonymised(KEY))
    numbers = found.table("annotators")["num_examples_labeled"].to_pylist()
    assert all(number % 10 == 0 for number in numbers)
    assert "Person" not in json.dumps(found.report().document)


def test_what_is_known_about_annotators_is_hidden_with_them() -> None:
    _, crowd = crowd_with_few_labels(5)
    few = crowd.labels_per_annotator() < 10
    groups = tuple("abcdefgh"[k % 8] if hidden else "many" for k, hidden in enumerate(few))
    features = np.random.default_rng(0).uniform(size=(len(few), 1))
    info = AnnotatorInfo(crowd.annotator_ids, groups, np.arange(1.0, len(few) + 1), features, ("years",))
    made, about = anonymised(crowd, info, key=KEY)
    assert about is not None
    assert about.annotators.tolist() == made.annotator_ids.tolist()
    shown = about.shareable()
    assert shown is not None
    assert (shown.costs, shown.features) == (None, None)  # of single annotators
    codes = dict(zip(pseudonyms(crowd.annotator_ids, KEY), features[:, 0], strict=True))
    assert about.features is not None
    assert about.groups is not None
    for name, group, (years,) in zip(made.annotator_ids, about.groups, about.features, strict=True):
        assert group == ("others" if name.startswith(POOL) else "many")
        assert years == pytest.approx(codes.get(name, features[few].mean()))


def test_times_and_refused_answers_go_with_their_annotators() -> None:
    tasks, people = np.repeat(np.arange(6), 2), ["zoe", "ann"] * 6
    times = np.datetime64("2024-01-01") + np.arange(12)
    crowd = Annotations.from_triples(tasks, people, ["x", "y", "x", "y", "no", "y"] * 2, abstain="no", times=times)
    made = crowd.anonymised(KEY, hide_below=5)
    zoe, ann = pseudonyms(np.array(["zoe", "ann"], dtype=object), KEY)
    assert made.annotator_ids.tolist() == [ann]  # four labels are not enough
    assert made.abstentions is not None
    assert made.abstentions.n_annotations == 0
    both = crowd.anonymised(KEY, hide_below=1)
    assert both.abstentions is not None
    assert both.abstentions.annotator_ids[both.abstentions.annotators].tolist() == [zoe] * 2
    assert both.times is not None
    assert crowd.times is not None
    rows = zip(both.annotator_ids[both.annotators], both.times.tolist(), strict=True)
    given = zip(crowd.annotator_ids[crowd.annotators], crowd.times.tolist(), strict=True)
    assert sorted(rows) == sorted(({"zoe": zoe, "ann": ann}[who], when) for who, when in given)


def test_names_in_task_ids_and_classes_are_told_without_the_names() -> None:
    _, crowd = crowd_with_few_labels(7, n_tasks=60)
    ids = [f"photo {k}" for k in range(60)]
    ids[4] = "by-person-03/4"
    named = crowd.replace(task_ids=ids, classes=["a", "b", "as PERSON 07"])
    with pytest.warns(PrivacyWarning) as caught:
        named.anonymised(hide_below=1)
    messages = [str(entry.message) for entry in caught]
    assert [message.split(" (")[0] for message in messages] == [
        "task ids contain names of annotators",
        "classes contain names of annotators",
    ]
    assert "(1 of them, first at position 5)" in messages[0]
    assert not any("person" in message.lower() for message in messages)


def test_a_wrong_limit_is_refused() -> None:
    with pytest.raises(InputError, match="hide_below must be a whole number of at least 1, not 0"):
        crowd_with_few_labels(8)[1].anonymised(hide_below=0)
