"""Memory: labels that are no classes are refused before matrices of them are made; votes need none."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import conal
from conal import aggregation
from conal.aggregation import DawidSkene
from conal.data import problems as memory
from conal.data.annotations import Annotations
from conal.data.problems import looks_like
from conal.errors import InputError

VOTES = ("majority-vote", "wawa", "zero-based-skill", "gold-majority-vote")
NUMBERS, TEXTS, IDS = "looks like numbers", "looks like free text", "looks like ids"

pytestmark = [
    pytest.mark.filterwarnings("ignore:gold-majority-vote"),
    pytest.mark.filterwarnings("ignore::conal.errors.CollapseWarning"),
]


def crowd_of(labels: Any, n_annotators: int) -> Annotations:
    tasks, workers = np.divmod(np.arange(len(labels)), n_annotators)
    return Annotations.from_triples(tasks, workers, labels)


def scores() -> Annotations:
    """500 tasks, a number between 0 and 1 by each of 11 judges."""
    return crowd_of(np.random.default_rng(0).random(5500), 11)


def many_classes() -> Annotations:
    """2,000 classes and 100 annotators; 60 of 100 are right."""
    rng = np.random.default_rng(0)
    z = np.repeat(rng.integers(2000, size=300), 100)
    codes = np.where(rng.random(30_000) < 0.6, z, rng.integers(2000, size=30_000))
    return crowd_of(np.char.add("c", codes.astype(str)), 100)


def peak(work: Callable[[], object]) -> float:
    """Bytes that something allocates at once."""
    tracemalloc.start()
    try:
        work()
        return float(tracemalloc.get_traced_memory()[1])
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("make_crowd", [scores, many_classes])
@pytest.mark.parametrize("name", aggregation.names())
def test_a_crowd_without_classes_takes_no_gigabyte(name: str, make_crowd: Any) -> None:
    crowd = make_crowd()
    kind = NUMBERS if make_crowd is scores else IDS

    def fit() -> None:
        if name in VOTES:
            aggregation.make(name).fit(crowd)
        elif name != "kos":  # a vote, which takes minutes
            with pytest.raises(InputError, match=f"^{name} needs about .* GB .*the label column {kind}"):
                aggregation.make(name).fit(crowd)

    assert peak(fit) < 5e8


def test_a_vote_among_many_classes() -> None:
    crowd = many_classes()
    fitted = aggregation.make("majority-vote").fit(crowd)
    z = np.random.default_rng(0).integers(2000, size=300)
    assert (fitted.labels_ == np.char.add("c", z.astype(str))).all()
    assert np.abs(fitted.skills_ - 0.6).max() < 0.15
    with pytest.raises(InputError, match=r"majority-vote: confusion_ needs about 12.7 GB"):
        _ = fitted.confusion_


def test_classifiers_refuse_such_labels() -> None:
    crowd, x = scores(), np.zeros((500, 2), dtype=np.float32)

    def fit() -> None:
        for name in ("xconal", "conal", "dl-mv"):
            with pytest.raises(InputError, match=f"^{name} needs about .* {NUMBERS} .*: put them into a few bins"):
                conal.make(name, verbose=False).fit(x, crowd)

    assert peak(fit) < 5e8


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        (np.linspace(0, 1, 300), "numbers"),
        ([f"{k * 1.37:.2f}" for k in range(300)], "numbers"),
        (np.arange(300) ** 2, "numbers"),
        (np.arange(300), None),
        ([f"the {k}th of many remarks by a judge" for k in range(300)], "free text"),
        ([f"{k:08x}-{k:04x}" for k in range(300)], "ids"),
        ([a + b for a in "abcdefghij" for b in "klmnopqrst"], None),
        ([0.1, 0.2, 0.3], None),
    ],
)
def test_what_names_look_like(names: Any, kind: str | None) -> None:
    assert looks_like(np.asarray(names)) == kind


def test_a_worker_column_with_an_id_for_every_row() -> None:
    rows = np.arange(100_000)
    crowd = Annotations.from_triples(rows // 5, rows, rows % 60)
    with pytest.raises(InputError, match=r"the worker column looks like an id of every row \(0, 1, 2 and 99,997 more"):
        DawidSkene().fit(crowd)


def test_classes_are_limited_by_the_memory_that_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forty annotators of 400 classes with names like words need 1.2 GB by the estimate."""
    letters = ["x" + a + b for a in "abcdefghijklmnopqrst" for b in "abcdefghijklmnopqrst"]
    crowd = crowd_of(np.array(letters)[np.random.default_rng(0).integers(400, size=8000)], 40)
    monkeypatch.setattr(memory, "free_memory", lambda: 1.1e9)
    wanted = "400 classes, 40 annotators and 200 tasks, and 1.1 GB are free; join rare classes, or use majority-vote"
    with pytest.raises(InputError, match=wanted):
        DawidSkene()._check_memory(crowd)
    monkeypatch.setattr(memory, "free_memory", lambda: 4e9)
    DawidSkene()._check_memory(crowd)


def test_free_memory_is_a_number() -> None:
    assert memory.free_memory() > 0
