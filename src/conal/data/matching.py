"""Names of one source among those of another, and names that look alike.

One rule for tasks, annotators and classes. Names look alike if they differ only in case, blanks around or between
words, the form of letters, invisible characters, the type (1 and "1"), or the way in which a whole number is written
(1, 1.0, 01). Within one source, they count as different, with a warning. Where two sources are joined, a name that only
one of them has and a look-alike that only the other has are an error: they would be two tasks, or two people.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from conal.data.encoding import MISSING, Encoded, Names, as_text, decode_position, encode, spelling
from conal.errors import DataWarning, InputError, person, warn

Kind = Literal["tasks", "annotators", "classes"]

MAX_COMPARED_CHARACTERS = 256
"""Of a longer name, only so many characters are looked at closely: Unicode's forms take time with the square of it."""
_WHOLE = re.compile(r"\+?(-?)0*([0-9]+)(?:\.0*)?", re.ASCII)
_INVISIBLE = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f"
    "\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f"
    "\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""Control characters, and what Unicode calls default ignorable: zero-width blanks, marks of direction and the like."""
_REMEDIES = {
    "tasks": ", give it one id",
    "annotators": " person, give them one name",
    "classes": ", correct the labels",
}
_ALLOWED: ContextVar[bool] = ContextVar("names that look alike are no error", default=False)


def look(name: Any) -> str:
    r"""What people see of a name.

    >>> look("Ann "), look("ann\u200b"), look("00140"), look(140.0), look("140.0"), look("1.10")
    ('ann', 'ann', '140', '140', '140', '1.10')
    """
    text = spelling(name).strip()
    head, rest = text[:MAX_COMPARED_CHARACTERS], text[MAX_COMPARED_CHARACTERS:]
    head = _INVISIBLE.sub("", head)
    if not head.isascii():
        head = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", head).casefold())
    plain = " ".join(head.casefold().split())
    return _WHOLE.sub(r"\1\2", plain) + rest if _WHOLE.fullmatch(plain) and not rest else plain + rest


def warn_of_lookalikes(names: Names, kind: Kind, where: str, *, mergeable: bool = False) -> None:
    """Warn of names in one source that people take for one, such as 'Ann' and 'ann ', or 1 and '1'."""
    alike = lookalikes(names)
    if alike:
        merge = ", or pass merge_spelling=True (--merge-spelling)" if mergeable else ""
        warn(
            f"{where}: {kind} {_shown(alike, kind)} differ only in {_difference(alike)}; they count as different "
            f"{kind}; if they are one{_REMEDIES[kind]}{merge}",
            DataWarning,
        )


def lookalikes(names: Names) -> list[list[Any]]:
    """Groups of several names that look alike."""
    if names.dtype != object:  # numbers of one type
        return []
    looks = _looks(names)
    if len(looks.unique()) == len(names):
        return []
    groups: dict[str, list[Any]] = {}
    for seen, name in zip(looks.to_pylist(), names.tolist(), strict=True):
        groups.setdefault(seen, []).append(name)
    return [
        sorted(group, key=lambda name: (isinstance(name, str), str(name)))
        for group in groups.values()
        if len(group) > 1
    ]


def merge_lookalikes(encoded: Encoded, kind: Kind, where: str, listed: Iterable[Any] = ()) -> Encoded:
    """Names that look alike as one: the one that the user listed, or the most frequent; with a warning.

    >>> import warnings
    >>> from conal.data.encoding import encode
    >>> from conal.errors import DataWarning
    >>> with warnings.catch_warnings(action="ignore", category=DataWarning):
    ...     merge_lookalikes(encode(["ann", "Ann", "bob", "ann"]), "annotators", "a.csv")[1].tolist()
    ['ann', 'bob']
    """
    codes, names = encoded
    wanted = {look(name): name for name in listed}
    spelled = [wanted.get(look(name), name) for name in names.tolist()] if wanted else names.tolist()
    at = {(type(name), name): k for k, name in enumerate(names.tolist())}
    counts = np.bincount(codes[codes != MISSING], minlength=len(names))
    alike = lookalikes(names)
    for group in alike:
        places = [at[type(name), name] for name in group]
        most = spelled[max(places, key=lambda k: (counts[k], -k))]
        for k in places:
            spelled[k] = most
    if alike:
        warn(f"{where}: {kind} {_shown(alike, kind)} count as one; they differ in {_difference(alike)}", DataWarning)
    positions, merged = encode(spelled)
    return np.append(positions, np.int32(MISSING))[codes], merged


def match_names(names: Names, wanted: Names, kind: Kind, where: str, other: str) -> npt.NDArray[np.int64]:
    """Position of each of ``wanted`` among ``names``, ``MISSING`` where it is not there; look-alikes are an error.

    Where one source has numbers and the other text, names are compared as a text file spells them: 7 is "7".

    >>> from conal.data.encoding import as_names
    >>> match_names(as_names([7, 8]), as_names(["8", "x"]), "tasks", "new.csv", "old.csv").tolist()
    [1, -1]
    """
    position = decode_position(names, wanted)
    lost = position == MISSING
    if lost.any() and differ_in_type([names, wanted]):
        position[lost] = decode_position(as_text(names), as_text(wanted[lost]))
    refuse_lookalikes(*unmatched(names, wanted, position), kind, where, f"here and in {other}")
    return position


def differ_in_type(parts: Iterable[Names]) -> bool:
    """Whether some of these names are numbers and others text, or truth values."""
    return len({"f" if names.dtype.kind in "iuf" else names.dtype.kind for names in parts if len(names)}) > 1


def refuse_lookalikes(
    here: Names, there: Names, kind: Kind, where: str, between: str, *, mergeable: bool = False
) -> None:
    """An error if a name that only one source has looks like one that only the other has."""
    numbers = here.dtype.kind in "iu" and there.dtype.kind in "iu"
    if not len(here) or not len(there) or numbers or _ALLOWED.get():
        return
    import pyarrow.compute as pc

    mine, others = _looks(here), _looks(there)
    found = pc.is_in(mine, value_set=others)
    if not pc.any(found).as_py():
        return
    first = dict(zip(reversed(others.to_pylist()), reversed(there.tolist()), strict=True))
    rows = np.flatnonzero(found.to_numpy(zero_copy_only=False)).tolist()
    alike = [[here[k].item() if isinstance(here[k], np.generic) else here[k], first[mine[k].as_py()]] for k in rows]
    pairs = list({tuple(map(repr, pair)): pair for pair in alike}.values())  # true labels repeat their classes
    merge = ", or pass merge_spelling=True (--merge-spelling)" if mergeable else ""
    raise InputError(
        f"{where}: {kind} are spelled differently {between}: {_shown(pairs, kind)} differ only in "
        f"{_difference(pairs)}. Spell them alike, or rename those that are different {kind}{merge}"
    )


@contextmanager
def lookalikes_allowed() -> Iterator[None]:
    """While this lasts, names that look alike are no error, because an error would tell of them."""
    before = _ALLOWED.set(True)
    try:
        yield
    finally:
        _ALLOWED.reset(before)


def unmatched(names: Names, wanted: Names, position: npt.NDArray[np.int64]) -> tuple[Names, Names]:
    """Those of ``wanted`` that are not among ``names``, and those of ``names`` that nobody wants."""
    unwanted = np.full(len(names), True)
    unwanted[position[position != MISSING]] = False
    return wanted[position == MISSING], names[unwanted]


def _looks(names: Names) -> pa.Array:
    """:func:`look` of every name; Arrow does it for plain ASCII, because there may be millions."""
    import pyarrow.compute as pc

    plain = names.tolist()
    texts = pa.array(plain if all(type(name) is str for name in plain) else map(spelling, plain), pa.large_string())
    seen = pc.ascii_lower(pc.ascii_trim_whitespace(texts))
    if pc.any(pc.match_substring(seen, "  ")).as_py():
        seen = pc.replace_substring_regex(seen, "  +", " ")
    seen = pc.replace_substring_regex(seen, rf"^{_WHOLE.pattern}$", r"\1\2")
    other = pc.match_substring_regex(texts, "[^ -~]")
    if not pc.any(other).as_py():
        return seen
    rest = [look(name) for name in texts.filter(other).to_pylist()]
    return pc.replace_with_mask(seen, other, pa.array(rest, pa.large_string()))


def _difference(groups: list[list[Any]]) -> str:
    """In what the names of these groups differ, as far as it is clear."""
    return " or ".join(dict.fromkeys(map(_difference_of, groups)))


def _difference_of(names: list[Any]) -> str:
    if len(set(map(spelling, names))) < len(names):
        return "type (number and text)"
    if any(_INVISIBLE.search(spelling(name), 0, MAX_COMPARED_CHARACTERS) for name in names):
        return "invisible characters"
    if _WHOLE.fullmatch(look(names[0])):
        return "the way in which a number is written"
    return "case, spaces or the form of letters"


def _shown(groups: list[list[Any]], kind: Kind) -> str:
    """The first three groups, and how many more there are; annotators may have to be hidden."""
    rest = f" and {len(groups) - 3:,} more" if len(groups) > 3 else ""
    shown = ", ".join(map(_side_by_side, groups[:3])) + rest
    return person(shown) if kind == "annotators" else shown


def _side_by_side(names: list[Any]) -> str:
    """``'Ann' and 'ann'``; by their code points where they look the same in print, too."""
    short = [name[:MAX_COMPARED_CHARACTERS] if isinstance(name, str) else name for name in names[:3]]
    printed = {unicodedata.normalize("NFC", repr(name)) for name in short}
    return " and ".join((repr if len(printed) == len(short) else ascii)(name) for name in short)
