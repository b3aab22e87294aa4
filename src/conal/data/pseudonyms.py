"""Pseudonyms: annotators get other names before anything is fitted, and those with few labels are put together."""

from __future__ import annotations

import base64
import hmac
import re
import secrets
from collections.abc import Iterable, Mapping

import numpy as np

from conal._arrays import BoolArray, FloatArray, IntArray
from conal.data.annotations import Annotations
from conal.data.annotator_info import OTHER_GROUPS, AnnotatorInfo
from conal.data.encoding import Names, as_names
from conal.errors import PrivacyWarning, warn

KEY_BYTES = 32
STEM = "annotator-"
WIDTH = 8
"""Characters of a pseudonym after its stem: among 100,000 annotators, two are equal in one of 200 crowds."""
POOL = "several-annotators-"
"""What those with few labels are called together, with a number."""
_WORD = re.compile(r"[^\W\d_]+|\d+")
SHORTEST = 3
"""Letters and digits of a name that is looked for: shorter ones occur in any text by chance."""
MANY_DIGITS = 6
"""Digits of a name without letters, likewise."""


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


def anonymised(
    crowd: Annotations, info: AnnotatorInfo | None = None, *, key: bytes | None = None, hide_below: int = 10
) -> tuple[Annotations, AnnotatorInfo | None]:
    """The annotations under pseudonyms, in the order of these, and what is known about the annotators.

    Annotators with fewer than ``hide_below`` labels become a few common ones: the first of their labels of every task
    is by one, the second by another. A common one with fewer labels than that is left out. Results of these
    annotations show as much of single annotators as ``hide_below`` says.

    Parameters
    ----------
    info : AnnotatorInfo, optional
        Of these annotators, in their order.
    key : bytes, optional
        The same key gives an annotator the same pseudonym. By default a random key is used and thrown away.

    Examples
    --------
    >>> votes = [[0, 1, 1, -1], [1, 1, -1, 0]]  # the last two people gave a label each
    >>> made, _ = anonymised(Annotations.from_matrix(votes), key=b"secret", hide_below=2)
    >>> made.annotator_ids.tolist(), made.labels_per_annotator().tolist()
    (['annotator-c5472mzx', 'annotator-xuuo4fbm', 'several-annotators-1'], [2, 2, 2])
    """
    few = crowd.labels_per_annotator() < hide_below
    hidden = few[crowd.annotators]
    before = np.append(0, np.cumsum(hidden))
    pool = (before[1:] - 1 - before[crowd.indptr[crowd.tasks]])[hidden]  # labels are sorted by task
    large = np.bincount(pool) >= hide_below
    kept = ~hidden
    kept[hidden] = large[pool]
    if not kept.all():
        warn(
            f"left out {(~kept).sum():,} labels of annotators with fewer than {hide_below} labels, whom nobody is like",
            PrivacyWarning,
        )
    own = pseudonyms(crowd.annotator_ids, secrets.token_bytes(KEY_BYTES) if key is None else key)[~few]
    names = as_names([*own, *(f"{POOL}{k + 1}" for k in np.flatnonzero(large))])
    order = np.argsort(names)
    position = np.argsort(order)
    of_own = position[np.cumsum(~few) - 1]
    who = of_own[crowd.annotators]
    who[hidden] = position[np.minimum(len(own) + np.cumsum(large)[pool] - 1, len(names) - 1)]
    declined = crowd.abstentions
    if declined is not None:
        declined = declined.select(~few[declined.annotators])
        declined = declined.replace(annotators=of_own[declined.annotators], annotator_ids=names[order])
    made = crowd.replace(
        tasks=crowd.tasks[kept],
        annotators=who[kept],
        labels=crowd.labels[kept],
        annotator_ids=names[order],
        abstentions=declined,
        times=None if crowd.times is None else crowd.times[kept],
        hide_below=hide_below,
    )
    return made, None if info is None else _about(info, few, names, order)


def _about(info: AnnotatorInfo, few: BoolArray, names: Names, order: IntArray) -> AnnotatorInfo:
    """What is known about annotators under pseudonyms; those with few labels are together like their mean."""
    together = len(names) - int((~few).sum())

    def rows(values: FloatArray | None) -> FloatArray | None:
        if values is None:
            return None
        mean = values[few].mean(0, keepdims=True) if together else values[:0]
        return np.concatenate([values[~few], np.repeat(mean, together, axis=0)])[order]

    groups = None
    if info.groups is not None:
        own = [group for group, hidden in zip(info.groups, few.tolist(), strict=True) if not hidden]
        groups = tuple([*own, *[OTHER_GROUPS] * together][k] for k in order.tolist())
    return AnnotatorInfo(names[order], groups, rows(info.costs), rows(info.features), info.feature_names)


# Where names of annotators occur in other texts.


def warn_of_mentions(names: Names, texts: Mapping[str, Iterable[object]]) -> None:
    """Tell which kinds of texts contain an annotator's name, and how many of them, without repeating it.

    Parameters
    ----------
    texts : mapping
        What such texts are called, such as "task ids", to the texts.
    """
    for what, some in texts.items():
        if found := mentions(names, some):
            warn(
                f"{what} contain names of annotators ({len(found):,} of them, first at position {found[0] + 1:,}); "
                "only annotators get pseudonyms, so replace these names in your files before you share the result",
                PrivacyWarning,
            )


def mentions(names: Names, texts: Iterable[object]) -> list[int]:
    """Positions of the texts in which a name occurs as whole words, in upper or lower case.

    Names of one or two characters, and short numbers, are not looked for.

    >>> mentions(as_names(["Ann Lee", "bo", "w-17"]), ["photo by ann lee", "a bo", "W17_003", "annlee"])
    [0, 2]
    """
    wanted = {words for name in names.tolist() if _is_telling(words := _words(name))}
    lengths = sorted({len(words) for words in wanted})

    def mentions_one(words: tuple[str, ...]) -> bool:
        return any(words[k : k + n] in wanted for n in lengths for k in range(len(words) - n + 1))

    return [k for k, text in enumerate(texts) if mentions_one(_words(text))]


def _words(text: object) -> tuple[str, ...]:
    return tuple(_WORD.findall(str(text).casefold()))


def _is_telling(words: tuple[str, ...]) -> bool:
    joined = "".join(words)
    return len(joined) >= (MANY_DIGITS if joined.isdigit() else SHORTEST)
