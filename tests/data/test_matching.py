"""Names that look alike: a warning within one source, an error between two, by one rule for all kinds of names."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import conal
from conal import Annotations
from conal.aggregation import MajorityVote
from conal.data.annotator_info import AnnotatorInfo
from conal.data.encoding import as_names, encode
from conal.data.joining import align, append_labels, join_annotations
from conal.data.matching import _looks, look, lookalikes_allowed, warn_of_lookalikes
from conal.data.true_labels import known_codes
from conal.errors import DataWarning, InputError, people_hidden
from conal.io import read_annotations, read_gold

PAIRS = [
    ("140", "140.0"),
    ("140", "00140"),
    ("00140", "140.00"),
    ("t1", "T1"),
    ("t1", " t1"),
    ("t1", "t1\u00a0"),
    ("t1", "t1\u200b"),
    ("t1", "\ufefft1"),
    ("t1", "t\u00ad1"),
    ("t1", "\u202at1\u202c"),
    ("t1", "t1\ufe0f"),
    ("t1", "t1\x00"),
    ("t1", "\uff54\uff11"),
    ("7", "\uff17"),
    ("Jos\u00e9", "Jose\u0301"),
    ("Jos\u00e9", "JOSE\u200c\u0301"),
    ("a b", "a  b"),
    ("stra\u00dfe", "STRASSE"),
]
"""Names that people take for one."""

DIFFERENT = [
    "1",
    "10",
    "1.1",
    "1.10",
    "-1",
    "0.1",
    "1e1",
    "t1",
    "t01",
    "t 1",
    "v1.0",
    "v1",
    "\u0430",
    "a",
    "1,0",
    "t-1",
]
"""Names of which none looks like another."""


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_what_looks_alike(one: str, other: str) -> None:
    assert look(one) == look(other)


def test_what_does_not() -> None:
    assert len(set(map(look, DIFFERENT))) == len(DIFFERENT)
    warn_of_lookalikes(as_names(DIFFERENT), "tasks", "here")


def test_arrow_and_python_see_the_same() -> None:
    names = [name for pair in PAIRS for name in pair] + DIFFERENT + ["", " ", "+07", "-007.0", "-0", "000", ".0", "1."]
    assert _looks(as_names(names)).to_pylist() == list(map(look, names))
    assert _looks(as_names([1, 2])).to_pylist() == ["1", "2"]
    assert _looks(as_names([1, 2.0, "x", (1, 2)])).to_pylist() == ["1", "2", "x", "(1, 2)"]


def test_marks_without_end_take_no_time() -> None:
    """Unicode sorts marks by a method whose time goes with the square of their number."""
    name = "e" + "\u0301\u0323" * 100_000
    before = time.process_time()
    with pytest.warns(DataWarning, match="differ only in"):
        warn_of_lookalikes(as_names([name, name.replace("e", "E", 1)]), "tasks", "here")
    assert time.process_time() - before < 2


@pytest.mark.parametrize(("one", "other"), PAIRS)
@pytest.mark.parametrize("role", ["tasks", "annotators", "classes"])
def test_within_one_source_a_warning_with_examples(role: str, one: str, other: str) -> None:
    columns: dict[str, Any] = {"tasks": ["x", "y"], "annotators": ["v", "w"], "classes": ["k", "l"]} | {
        role: [one, other]
    }
    with pytest.warns(DataWarning, match=f"{role} .* and .* differ only in .*; they count as different {role}") as told:
        crowd = Annotations.from_triples(*columns.values())
    assert len(told) == 1
    assert (crowd.n_tasks, crowd.n_annotators, crowd.n_classes) == (2, 2, 2)


def labels(task: Any = "x", annotator: Any = "v", label: Any = "k") -> Annotations:
    """Two tasks, annotators and classes, of which some have the names that matter."""
    return Annotations.from_triples([task, "q", "q"], [annotator, "u", annotator], [label, "m", "m"])


@pytest.mark.parametrize(("one", "other"), PAIRS)
@pytest.mark.parametrize("role", ["task", "annotator", "label"])
def test_between_sources_of_labels_an_error_that_names_both_spellings(role: str, one: str, other: str) -> None:
    old, new = labels(**{role: one}), labels(**{role: other})
    kind = {"task": "tasks", "annotator": "annotators", "label": "classes"}[role]
    with pytest.raises(InputError) as refused:
        join_annotations([old, new], where="a.csv, b.csv")
    assert f"a.csv, b.csv: {kind} are spelled differently in these files" in str(refused.value)
    assert all(form in str(refused.value) for form in _spelled(one, other))
    message = "not among the 2 classes" if role == "label" else f"{kind} are spelled differently here and in the labels"
    with pytest.raises(InputError, match=message):
        append_labels(old, new)


def _spelled(one: str, other: str) -> list[str]:
    """As the message shows names: by code points where they look the same in print."""
    return [form for name in (one, other) for form in (repr(name), ascii(name)) if form == ascii(form)]


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_between_labels_and_what_is_joined_to_them(one: str, other: str, tmp_path: Path) -> None:
    crowd = labels(task=one)
    told = "tasks are spelled differently here and in the (labels|annotations)"
    with pytest.raises(InputError, match=f"features: {told}"):
        align(crowd, 2, ["q", other], allow_missing=True)
    with pytest.raises(InputError, match=f"true_labels: {told}"):
        known_codes(crowd, {"q": "m", other: "k"})
    with pytest.raises(InputError, match=f"true_labels: {told}"):
        MajorityVote().fit(crowd, true_labels=pd.DataFrame({"task": ["q", other], "label": ["m", "k"]}))
    path = tmp_path / "gold.parquet"
    pd.DataFrame({"task": ["q", other], "label": ["m", "k"]}).to_parquet(path)
    with pytest.raises(InputError, match=rf"gold\.parquet: {told}"):
        read_gold(path).for_tasks(crowd)
    with pytest.raises(InputError, match=r"features: tasks are spelled differently here and in .*gold\.parquet"):
        read_gold(path).for_rows(2, ["q", one])
    people = pd.DataFrame({"worker": ["u", other], "group": ["a", "b"]})
    with pytest.raises(InputError, match="annotators are spelled differently here and in the labels"):
        AnnotatorInfo.of(people, labels(annotator=one))


def test_every_pair_is_shown_once() -> None:
    """True labels repeat their classes; each pair is one thing to correct."""
    crowd = Annotations.from_triples([0, 1, 2, 3], list("aaaa"), ["cat", "dog", "cat", "dog"])
    truth = pd.DataFrame({"task": [0, 1, 2, 3], "label": ["Cat", "Dog", "Cat", "Dog"]})
    with pytest.raises(InputError, match="'Cat' and 'cat', 'Dog' and 'dog' differ only in case"):
        MajorityVote().fit(crowd, true_labels=truth)


def test_numbers_and_text_are_the_same_names_in_two_sources() -> None:
    """A column is text as soon as one of its names is."""
    numbers = Annotations.from_triples([140, 141], [1, 2], ["k", "m"])
    with pytest.raises(InputError, match=r"tasks are spelled differently .* so far: '00140' and '140'"):
        append_labels(numbers, Annotations.from_triples(["00140", "x"], ["1", "y"], ["k", "m"]))
    growth, _ = append_labels(numbers, Annotations.from_triples(["140", "x"], ["2", "y"], ["k", "m"]))
    assert growth.task_ids.tolist() == ["140", "141", "x"]
    assert known_codes(numbers, {"140": "m"}).tolist() == [1, -1]
    with pytest.raises(InputError, match=r"'140\.0' and 140 differ only in the way in which a number is written"):
        known_codes(numbers, {"140.0": "m"})
    mixed = Annotations.from_triples([140, "x"], [1, 1], ["k", "m"])
    with pytest.raises(InputError, match=r"'140' and 140 differ only in type \(number and text\)"):
        join_annotations([mixed, Annotations.from_triples(["140", "y"], [1, 1], ["k", "m"])])


def test_names_that_both_sources_distinguish_are_no_mistake_of_the_join() -> None:
    with pytest.warns(DataWarning, match="tasks 'Ab' and 'aB' differ only in case"):
        both = Annotations.from_triples(["aB", "Ab"], ["v", "w"], ["k", "m"])
    one = Annotations.from_triples(["Ab", "c"], ["u", "u"], ["k", "m"])
    assert join_annotations([both, one]).n_tasks == join_annotations([one, both]).n_tasks == 3
    assert append_labels(one, both)[0].n_tasks == 3


def test_names_are_hidden_where_they_must_be() -> None:
    with people_hidden(), pytest.raises(InputError) as refused:
        join_annotations([labels(annotator="Zoe"), labels(annotator="zoe")])
    assert "zoe" not in str(refused.value).lower()
    with lookalikes_allowed(), pytest.warns(DataWarning, match="repeat a"):
        assert join_annotations([labels(annotator="Zoe"), labels(annotator="zoe")]).n_annotators == 3


def test_a_model_knows_its_annotators_and_classes_by_their_names() -> None:
    rng = np.random.default_rng(0)
    x, z = rng.standard_normal((30, 2)).astype(np.float32), rng.choice(["cat", "dog"], 30)
    tasks, names = np.repeat(np.arange(30), 2), np.tile(["ann", "7"], 30)
    clf = conal.make("dl-mv", epochs=1, verbose=False).fit(x, Annotations.from_triples(tasks, names, np.repeat(z, 2)))
    with pytest.raises(InputError, match=r"annotators are spelled differently .*'Ann' and 'ann'"):
        clf.infer(x, Annotations.from_triples([0, 1], ["Ann", "7"], ["cat", "dog"]))
    with pytest.raises(InputError, match=r"classes are spelled differently .*'Cat' and 'cat'"):
        clf.infer(x, Annotations.from_triples([0, 1], ["ann", "7"], ["Cat", "dog"]))
    named, numbered = (Annotations.from_triples([0, 1], [who, who], ["cat", "dog"]) for who in ("7", 7))
    np.testing.assert_array_equal(clf.infer(x, named), clf.infer(x, numbered))


@pytest.mark.parametrize("spelled", ["140.0", "00140", " 140", "140\u200b"])
def test_files(tmp_path: Path, spelled: str) -> None:
    one, two = tmp_path / "one.csv", tmp_path / "two.csv"
    one.write_text("task,worker,label\n140,ann,x\n141,bob,y\nt,bob,y\n")
    two.write_text(f"task,worker,label\n{spelled},bob,x\n150,ann,y\nt,ann,y\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"one\.csv, .*two\.csv: tasks are spelled differently in these files"):
        read_annotations([one, two])
    two.write_text(f"task,worker,label\n{spelled},bob,x\n140,ann,y\nt,ann,y\n", encoding="utf-8")
    with pytest.warns(DataWarning, match=r"two\.csv: tasks .* differ only in .*; if they are one, give it one id"):
        read_annotations(two)


@pytest.mark.parametrize(
    ("spelled", "difference"),
    [("140\u200b", "invisible characters"), ("140.0", "the way in which a number is written")],
)
def test_in_what_numbers_differ(spelled: str, difference: str) -> None:
    with pytest.raises(InputError, match=f"differ only in {difference}"):
        append_labels(labels(task="140"), labels(task=spelled))


def test_a_million_names_take_less_than_reading_them() -> None:
    names = encode([f"task_{k}" for k in range(200_000)])[1]
    before = time.process_time()
    warn_of_lookalikes(names, "tasks", "here")
    assert time.process_time() - before < 2


def test_merged_names_have_the_most_frequent_spelling() -> None:
    columns = [1, 2, 3, 4], ["Ann", "ann ", "bob", "ann "], ["Yes", "no", "yes", "yes"]
    with pytest.warns(DataWarning) as told:
        crowd = Annotations.from_triples(*columns, merge_spelling=True)
    assert (crowd.annotator_ids.tolist(), crowd.classes.tolist()) == (["ann ", "bob"], ["no", "yes"])
    assert crowd.to_table()["label"].to_pylist() == ["yes", "no", "yes", "yes"]
    messages = [str(each.message) for each in told]
    assert ["count as one; they differ in case" in message for message in messages] == [True, True]


def test_listed_classes_say_how_merged_ones_are_spelled() -> None:
    columns = [1, 2, 3], ["a", "a", "b"], ["yes", "yes", "NO"]
    with pytest.raises(InputError, match="not among the 2 classes"):
        Annotations.from_triples(*columns, classes=["Yes", "No"])
    crowd = Annotations.from_triples(*columns, classes=["Yes", "No"], merge_spelling=True)  # none of which is alike
    assert crowd.to_table()["label"].to_pylist() == ["Yes", "Yes", "No"]


def test_of_merged_annotators_one_label_per_task_counts() -> None:
    with pytest.warns(DataWarning):
        crowd = Annotations.from_triples([1, 1, 2], ["ann", "Ann", "ann"], ["x", "y", "x"], merge_spelling=True)
    assert crowd.to_table().to_pydict() == {"task": [1, 2], "worker": ["ann", "ann"], "label": ["y", "x"]}


def test_names_of_several_files_can_be_merged(tmp_path: Path) -> None:
    paths = [tmp_path / "a.csv", tmp_path / "b.csv"]
    for path, worker in zip(paths, ["ann", "Ann"], strict=True):
        path.write_text(f"task,worker,label\n{path.stem},{worker},x\n{path.stem}2,{worker},y\n")
    with pytest.raises(InputError, match=r"spelled differently.*merge_spelling"):
        Annotations.read(paths)
    with pytest.warns(DataWarning, match="count as one"):
        assert Annotations.read(paths, merge_spelling=True).n_annotators == 1
