"""Stored text features transform as before, and what was tampered with is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from conal.estimator.folder import UNFIT
from conal.text import TextFeatures
from conal.text.features import VERSION

TEXTS = ["the cat sat", "a cat and a dog", "天气很好 cat", "dog 天气", "", "ein Hund sat 👍", "the dog 👍"]
State = tuple[dict[str, Any], dict[str, Any]]


def state() -> State:
    tensors, document = TextFeatures(4, seed=1).fit(TEXTS).state()
    return tensors, json.loads(json.dumps(document, ensure_ascii=False))


def test_transform_is_the_same_after_storing() -> None:
    made = TextFeatures(4, max_terms=30, seed=7).fit(TEXTS)
    tensors, document = made.state()
    restored = TextFeatures.from_state(tensors, json.loads(json.dumps(document)))
    new = [*TEXTS, "the the cat 天气", "unheard"]
    np.testing.assert_array_equal(restored.transform(new), made.transform(new))
    assert restored.get_params() == made.get_params()


def drop(name: str) -> Callable[[State], Any]:
    return lambda state: state[0].pop(name)


def tensor(name: str, change: Callable[[Any], Any]) -> Callable[[State], Any]:
    return lambda state: state[0].__setitem__(name, change(state[0][name]))


def words(change: Callable[[Any], Any]) -> Callable[[State], Any]:
    return lambda state: state[1]["vocabulary"].__setitem__("words", change(state[1]["vocabulary"]["words"]))


@pytest.mark.parametrize(
    ("tamper", "message"),
    [
        (drop("components"), "components"),
        (drop("words.idf"), r"words\.idf"),
        (tensor("mean", lambda a: a[:-1]), "components must be finite float32 of shape"),
        (tensor("mean", lambda a: a.astype(np.float32)), r"mean must be finite float64"),
        (tensor("components", lambda a: a[:, :-1]), "components must be finite float32 of shape"),
        (tensor("components", lambda a: a * np.nan), "components must be finite"),
        (tensor("pieces.idf", lambda a: a[None]), r"pieces\.idf must be finite"),
        (drop("style.mean"), r"style\.mean"),
        (tensor("style.factor", lambda a: a[:-1]), r"style\.factor must be finite float64 of shape \(10,\)"),
        (words(lambda v: v[:-1]), "different terms"),
        (words(lambda v: [*v[:-1], v[0]]), "different terms"),
        (words(lambda v: [*v[:-1], 3]), "different terms"),
        (words(lambda v: [*v[:-1], ""]), "different terms"),
        (words(lambda v: dict.fromkeys(v)), "different terms"),
        (lambda state: state[1]["vocabulary"].pop("pieces"), "pieces"),
        (lambda state: state[1].__setitem__("vocabulary", []), "list indices"),
        (lambda state: state[1]["parameters"].__setitem__("verbose", 1), "Invalid parameter 'verbose'"),
        (lambda state: state[1].__setitem__("version", VERSION + 1), "have version 3, this conal reads 2"),
        (lambda state: state[1].pop("version"), "version"),
    ],
)
def test_what_was_tampered_with_is_refused(tamper: Callable[[State], Any], message: str) -> None:
    tampered = state()
    tamper(tampered)
    with pytest.raises(UNFIT, match=message):
        TextFeatures.from_state(*tampered)
