"""Bounded contributions: labels counted beside public true labels, with a limit on what one person can add."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from conal.data.annotations import Annotations
from conal.data.encoding import MISSING, spelling
from conal.errors import InputError, examples

__all__ = ["UNIT", "bounded_counts", "plain_spelling", "positions"]

IntArray = npt.NDArray[np.int64]

UNIT = 1000
"""Counts are kept in thousandths of a label, so that they, and the noise, are whole numbers."""

_WHOLE_AS_DECIMAL = re.compile(r"(-?\d+)\.0")


def plain_spelling(name: Any) -> str:
    """How a name is compared: by its text, in which 7, 7.0, "7" and "7.0 " are the same, and True, "TRUE" and "true".

    Whether a column of a file is read as numbers, truth values or text depends on all rows of it, and so on everybody.
    Compared like this, it makes no difference to what the other people's rows count for.

    >>> plain_spelling(7), plain_spelling(7.0), plain_spelling("7.0 "), plain_spelling("007"), plain_spelling("7.10")
    ('7', '7', '7', '007', '7.10')
    >>> plain_spelling(True), plain_spelling("TRUE"), plain_spelling("Truely")
    ('true', 'true', 'Truely')
    """
    text = spelling(name).strip()
    if text.casefold() in ("true", "false"):
        return text.casefold()
    found = _WHOLE_AS_DECIMAL.fullmatch(text)
    return found[1] if found else text


def positions(names: Iterable[Any], what: str) -> dict[str, int]:
    """Spelling to position of public names; two that are spelled the same are an error."""
    found: dict[str, int] = {}
    for k, name in enumerate(names):
        if found.setdefault(plain_spelling(name), k) != k:
            raise InputError(f"{what} {examples([name])} is listed twice; list it once")
    return found


def bounded_counts(
    crowd: Annotations,
    true_codes: Mapping[str, int],
    classes: Mapping[str, int],
    max_labels: int,
    groups: tuple[Mapping[str, int], int] | None = None,
) -> IntArray:
    r"""(B, C, C) thousandths of labels by group of the annotator, true class and label.

    A person r with :math:`n_r` labels that count adds, to the cell of true class c and label l,

    .. math:: h_r[c, l] = \lfloor 1000 \min(1, m / n_r)\, n_r[c, l] \rfloor, \qquad \sum_{c, l} h_r[c, l] \le 1000\, m

    which depends on nobody else's labels. So adding or removing a person changes the result by at most 1000 m in
    total, and only in one direction. Labels of other tasks or classes do not count at all.

    Parameters
    ----------
    true_codes : mapping
        Spelling of a task to the position of its true class. Public.
    classes : mapping
        Spelling of a class to its position. Public.
    max_labels : int
        m: more labels of a person weigh as much as this many.
    groups : mapping of annotators' spellings to groups, and the number of groups; optional
        Annotators who are in none of the G groups are counted in a further one, so that B = G + 1.
    """
    n_classes = len(classes)
    true = _codes(crowd.task_ids, true_codes)[crowd.tasks]
    seen = _codes(crowd.classes, classes)[crowd.labels]
    counted = (true != MISSING) & (seen != MISSING)
    people = crowd.annotators[counted].astype(np.int64)
    cells = true[counted] * n_classes + seen[counted]
    given = np.bincount(people, minlength=crowd.n_annotators)
    pairs, number = np.unique(people * n_classes**2 + cells, return_counts=True)
    people, cells = np.divmod(pairs, n_classes**2)
    weights = UNIT * np.minimum(given[people], max_labels) * number // given[people]
    members, n_groups = groups or ({}, 0)
    group = np.where((found := _codes(crowd.annotator_ids, members)) == MISSING, n_groups, found)
    counts = np.zeros((n_groups + 1, n_classes**2), dtype=np.int64)
    np.add.at(counts, (group[people], cells), weights)
    return counts.reshape(n_groups + 1, n_classes, n_classes)


def _codes(names: npt.NDArray[Any], codes: Mapping[str, int]) -> IntArray:
    found = [codes.get(plain_spelling(name), MISSING) for name in names.tolist()]
    return np.array(found, dtype=np.int64)
