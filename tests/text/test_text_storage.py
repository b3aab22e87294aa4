"""Stored text features transform as before, and what was tampered with is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from conal.errors import ModelFolderError
from conal.text import TextFeatures
from conal.text.features import ANALYZERS, STYLE
from conal.text.storage import VERSION, from_state, to_state

TEXTS = ["the cat sat", "a cat and a dog", "天气很好 cat", "dog 天气", "", "ein Hund sat 👍", "the dog 👍"]
State = tuple[dict[str, Any], dict[str, Any]]


def state() -> State:
    tensors, document = to_state(TextFeatures(4, seed=1).fit(TEXTS))
    return tensors, json.loads(json.dumps(document, ensure_ascii=False))


def test_transform_is_the_same_after_storing() -> None:
    made = TextFeatures(4, max_terms=30, seed=7).fit(TEXTS)
    tensors, document = to_state(made)
    restored = from_state(tensors, json.loads(json.dumps(document)), "here")
    new = [*TEXTS, "the the cat 天气", "unheard"]
    np.testing.assert_array_equal(restored.transform(new), made.transform(new))
    assert isinstance(restored, TextFeatures)
    assert restored.get_params() == made.get_params()


def test_a_model_of_the_first_version_counts_terms_and_knows_no_style() -> None:
    """Its weights are those of sublinear TF-IDF, and it is stored as it was."""
    tensors, document = state()
    old = {name: value for name, value in tensors.items() if not name.startswith("style.")}
    old["components"] = tensors["components"][:, : -len(STYLE)]
    document["version"] = 1
    restored = from_state(old, document, "here")
    assert isinstance(restored, TextFeatures)
    text = "cat cat cat dog"
    blocks = []
    for kind, analyzer in ANALYZERS.items():
        names, idf = document["vocabulary"][kind], tensors[f"{kind}.idf"]
        found = list(analyzer(text))
        row = np.array(
            [(1 + np.log(found.count(name))) * w if name in found else 0 for name, w in zip(names, idf, strict=True)]
        )
        blocks.append(row / np.linalg.norm(row) / np.sqrt(2))
    expected = np.concatenate(blocks) @ old["components"].T - tensors["mean"]
    np.testing.assert_allclose(restored.transform([text]), [expected], atol=1e-6)
    again, written = to_state(restored)
    assert written == document
    assert again.keys() == old.keys()


def drop(name: str) -> Callable[[State], Any]:
    return lambda state: state[0].pop(name)


def tensor(name: str, change: Callable[[Any], Any]) -> Callable[[State], Any]:
    return lambda state: state[0].__setitem__(name, change(state[0][name]))


def words(change: Callable[[Any], Any]) -> Callable[[State], Any]:
    return lambda state: state[1]["vocabulary"].__setitem__("words", change(state[1]["vocabulary"]["words"]))


@pytest.mark.parametrize(
    ("tamper", "message"),
    [
        (drop("components"), "'components' is missing"),
        (drop("words.idf"), r"'words\.idf' is missing"),
        (tensor("mean", lambda a: a[:-1]), "components have shape"),
        (tensor("mean", lambda a: a.astype(np.float32)), "not 1-dimensional float64"),
        (tensor("components", lambda a: a[:, :-1]), "components have shape"),
        (tensor("components", lambda a: a * np.nan), "'components'"),
        (tensor("pieces.idf", lambda a: a[None]), r"'pieces\.idf'"),
        (drop("style.mean"), r"'style\.mean' is missing"),
        (tensor("style.factor", lambda a: a[:-1]), "style must have 10 numbers"),
        (words(lambda v: v[:-1]), "different terms in"),
        (words(lambda v: [*v[:-1], v[0]]), "different terms in"),
        (words(lambda v: [*v[:-1], 3]), "must be a list of text"),
        (words(lambda v: [*v[:-1], ""]), "must be a list of text"),
        (words(lambda v: dict.fromkeys(v)), "must be a list of text"),
        (lambda state: state[1]["vocabulary"].pop("pieces"), "kinds of terms"),
        (lambda state: state[1].__setitem__("vocabulary", []), "vocabulary must be a JSON object"),
        (lambda state: state[1]["parameters"].__setitem__("verbose", 1), "parameters"),
        (lambda state: state[1].__setitem__("version", VERSION + 1), "upgrade conal"),
        (lambda state: state[1].pop("version"), "version None"),
    ],
)
def test_what_was_tampered_with_is_refused(tamper: Callable[[State], Any], message: str) -> None:
    tampered = state()
    tamper(tampered)
    with pytest.raises(ModelFolderError, match=message):
        from_state(*tampered, "here")
