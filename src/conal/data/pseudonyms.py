"""Pseudonyms for annotators, and where their names occur in other texts."""

from __future__ import annotations

import base64
import hmac
import re
import secrets
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from conal.data.annotations import Annotations
from conal.data.cleaning import pair_order
from conal.data.encoding import Names, as_names

__all__ = ["KEY_BYTES", "mentions", "new_key", "pseudonyms", "renamed"]

KEY_BYTES = 32
STEM = "annotator-"
WIDTH = 8
"""Characters of a pseudonym after its stem: among 100,000 annotators, two are equal in one of 200 crowds."""
_WORD = re.compile(r"[^\W\d_]+|\d+")
SHORTEST = 3
"""Letters and digits of a name that is looked for: shorter ones occur in any text by chance."""
MANY_DIGITS = 6
"""Digits of a name without letters, likewise."""


def new_key() -> bytes:
    """A random key. Pseudonyms cannot be recomputed without it, so throw it away if nobody shall."""
    return secrets.token_bytes(KEY_BYTES)


def pseudonyms(names: Names, key: bytes) -> Names:
    """A pseudonym for every name, which depends on nothing but the name and the key (HMAC-SHA-256).

    Two pseudonyms that would be equal, or equal to a name, are longer, and so are all others of this crowd.

    >>> pseudonyms(as_names(["zoe", "ann"]), b"secret").tolist()
    ['annotator-yri6svfn', 'annotator-vlkomgm3']
    """
    texts = [str(name) for name in names.tolist()]
    taken = set(texts)
    if len(taken) < len(texts):  # 1 and "1"
        texts = [f"{type(name).__name__} {name}" for name in names.tolist()]
    codes = [_code(text, key) for text in texts]
    width = WIDTH
    while len(found := {STEM + code[:width] for code in codes}) < len(codes) or found & taken:
        width += 4
    return as_names([STEM + code[:width] for code in codes])


def _code(text: str, key: bytes) -> str:
    digest = hmac.digest(key, text.encode("utf-8", "surrogatepass"), "sha256")
    return base64.b32encode(digest).decode().lower().rstrip("=")


def renamed(annotations: Annotations, names: Names) -> tuple[Annotations, npt.NDArray[np.int64]]:
    """The annotations with other names for the annotators, which also decide their order.

    Returns them, and where each annotation was before: the order within a task follows that of the annotators.

    >>> crowd = Annotations.from_triples([0, 0], ["ann", "zoe"], ["x", "y"])
    >>> found, rows = renamed(crowd, as_names(["q", "p"]))
    >>> found.to_table().to_pydict()["label"], rows.tolist()
    (['y', 'x'], [1, 0])
    """
    order = np.argsort(names)
    position = np.empty(len(order), dtype=np.int32)
    position[order] = np.arange(len(order))
    annotators = position[annotations.annotators]
    rows = np.arange(annotations.n_annotations)[pair_order(annotations.tasks, annotators)]
    refused = annotations.abstentions
    if refused is not None:
        refused = refused.replace(annotators=position[refused.annotators], annotator_ids=names[order])
    made = annotations.replace(
        tasks=annotations.tasks[rows],
        annotators=annotators[rows],
        labels=annotations.labels[rows],
        annotator_ids=names[order],
        abstentions=refused,
        times=None if annotations.times is None else annotations.times[rows],
    )
    return made, rows


def mentions(names: Names, texts: Iterable[object]) -> list[int]:
    """Positions of the texts in which a name occurs as whole words, in upper or lower case.

    Names of one or two characters, and short numbers, are not looked for.

    >>> mentions(as_names(["Ann Lee", "bo", "w-17"]), ["photo by ann lee", "a bo", "W17_003", "annlee"])
    [0, 2]
    """
    wanted = {words for name in names.tolist() if _is_telling(words := _words(name))}
    lengths = sorted({len(words) for words in wanted})
    return [k for k, text in enumerate(texts) if _mentions_one(_words(text), wanted, lengths)]


def _words(text: object) -> tuple[str, ...]:
    return tuple(_WORD.findall(str(text).casefold()))


def _is_telling(words: tuple[str, ...]) -> bool:
    joined = "".join(words)
    return len(joined) >= (MANY_DIGITS if joined.isdigit() else SHORTEST)


def _mentions_one(words: tuple[str, ...], wanted: set[tuple[str, ...]], lengths: list[int]) -> bool:
    return any(words[k : k + n] in wanted for n in lengths for k in range(len(words) - n + 1))
