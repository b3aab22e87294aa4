"""Cleaning of labels on input: which are missing, which are abstentions, and what to keep of repeated ones.

One rule for files, frames, lists and matrices. Nulls, NaN, masked values and blank text are missing in labels and in
ids. Of labels, words such as NA and null are missing too, and -1 in a matrix, unless the user lists other values or
lists the word as a class.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from conal.data.encoding import MISSING, Encoded, Names, as_names, decode_position, encode, numbers_or_text, spelling
from conal.data.matching import warn_of_lookalikes
from conal.errors import DataWarning, InputError, examples, people, warn

EXCEL_ERRORS = (
    *("#n/a", "#ref!", "#div/0!", "#value!", "#name?", "#num!", "#null!", "#spill!", "#calc!", "#getting_data"),
    *("#field!", "#blocked!", "#connect!", "#unknown!", "#busy!", "#external!", "#python!"),
)
MISSING_WORDS = frozenset({"na", "n/a", "<na>", "nan", "null", *EXCEL_ERRORS})
"""Text that means "no label", in upper or lower case. "None" is not among them: it is often a class."""

NOT_ANNOTATED = frozenset({"-1", "-1.0"})
"""The conventional missing label of annotation matrices."""

Rule = Callable[[Any], bool]


class Labels(NamedTuple):
    """A column of labels, encoded.

    Attributes
    ----------
    codes : (n,) int32
        Positions in ``names``; ``MISSING`` where there is no label.
    names : array
        The distinct labels, sorted.
    words : mapping
        Values that counted as missing, other than empty ones, to how often they occur.
    chosen : bool
        Whether the user listed these values.
    in_matrix : bool
        Whether these are the cells of a matrix, in which many are empty.
    abstained : (n,) int32, optional
        The position of the word for an abstention in ``abstention_words``; ``MISSING`` elsewhere, and where there is a
        label. None if no words for abstentions were listed.
    abstention_words : tuple of str
        These words, as they are spelled.
    """

    codes: npt.NDArray[np.int32]
    names: Names
    words: Mapping[Any, int]
    chosen: bool = False
    in_matrix: bool = False
    abstained: npt.NDArray[np.int32] | None = None
    abstention_words: tuple[str, ...] = ()

    def only(self, rows: npt.NDArray[np.bool_]) -> Labels:
        """The labels of some rows."""
        abstained = None if self.abstained is None else self.abstained[rows]
        return self._replace(codes=self.codes[rows], abstained=abstained)

    @property
    def answered(self) -> npt.NDArray[np.bool_]:
        """(n,) where there is a label or an abstention."""
        given: npt.NDArray[np.bool_] = self.codes != MISSING
        return given if self.abstained is None else np.logical_or(given, self.abstained != MISSING)


def read_labels(
    values: object,
    *,
    missing: Any = None,
    abstain: Any = None,
    classes: Any = None,
    in_matrix: bool = False,
    untyped: bool = False,
    where: str = "labels",
) -> Labels:
    """Encode labels; those that are missing get the code ``MISSING``.

    Parameters
    ----------
    missing : value or sequence of values, optional
        Values that mean "no label", in place of :data:`MISSING_WORDS` and of the -1 in matrices; "" stands for none.
    abstain : value or sequence of values, optional
        Values that mean "asked, but declined to answer"; they are no classes, and not missing either.
    classes : sequence, optional
        Values that are classes, also if they are such a word.
    untyped : bool
        The labels are from a text file: they become numbers if all that are not missing are numbers.

    >>> read_labels(["yes", "NA", "", "no"]).words
    {'NA': 1}
    """
    try:
        (found, every), rule = encode(values), missing_rule(missing, classes, in_matrix=in_matrix)
        abstention_texts = abstention_words(abstain, missing, classes)
    except InputError as error:
        raise InputError(f"{where}: label: {error}") from error
    declined = np.array([_place(name, abstention_texts) for name in every.tolist()], dtype=np.int32)
    absent = np.array([rule(name) for name in every.tolist()], dtype=bool) | (declined != MISSING)
    counts = np.bincount(found[found != MISSING], minlength=len(every))
    words = {
        name: int(counts[k])
        for k, name in enumerate(every.tolist())
        if absent[k] and declined[k] == MISSING and not _is_blank(name)
    }
    codes, names = _without(found, every, absent)
    if untyped:
        codes, names = _as_numbers(codes, names)
    has_empty_cells = isinstance(values, np.ndarray) and (found == MISSING).any()  # beside which -1 may be a class
    if in_matrix and not has_empty_cells:
        words = {name: count for name, count in words.items() if not _is_convention(name, names)}
    abstained = np.append(declined, np.int32(MISSING))[found] if abstention_texts else None
    return Labels(codes, names, words, missing is not None, in_matrix, abstained, abstention_texts)


def missing_rule(missing: Any = None, classes: Any = None, *, in_matrix: bool = False) -> Rule:
    """Whether a label means "no label".

    >>> rule = missing_rule()
    >>> rule("n/a"), rule(" "), rule("None"), missing_rule("")("n/a"), missing_rule([99])("99")
    (True, True, False, False, True)
    """
    kept = {_spelling(name) for name in ([] if classes is None else classes)}
    listed = _listed(missing)
    said = NOT_ANNOTATED if in_matrix and missing is None else {_spelling(value) for value in listed}
    words = MISSING_WORDS if missing is None else frozenset()
    both = [] if missing is None else sorted(said & kept)
    if both:
        raise InputError(f"{examples(both)} cannot be both a class and missing; correct classes or missing")

    def holds(name: Any) -> bool:
        if _is_blank(name):
            return True
        spelling = _spelling(name)
        if spelling in kept:
            return False
        return spelling in said or (isinstance(name, str) and spelling.casefold() in words)

    return holds


def abstention_words(abstain: Any, missing: Any = None, classes: Any = None) -> tuple[str, ...]:
    """The values that mean an abstention, as text spells them; an error if one is a class or missing too.

    >>> abstention_words(["refused", 99]), abstention_words(None)
    (('refused', '99'), ())
    """
    words = tuple(dict.fromkeys(_spelling(value) for value in _listed(abstain)))
    for others, what in ((classes, "a class"), (_listed(missing), "missing")):
        both = sorted(set(words) & {_spelling(name) for name in ([] if others is None else others)})
        if both:
            raise InputError(f"{examples(both)} cannot be both {what} and an abstention; correct abstain")
    return words


def drop_blank_names(ids: Encoded) -> Encoded:
    """Ids of which blank text is missing."""
    codes, names = ids
    if names.dtype != object:
        return ids
    blank = np.array([_is_blank(name) for name in names.tolist()], dtype=bool)
    return _without(codes, names, blank)


def warn_of_dropped(labels: Labels, where: str, unlabelled: Collection[Any] = ()) -> None:
    """Count the rows without a label in a warning, with the remedy if some may have one.

    ``unlabelled`` are tasks that have no label left. Of a matrix, empty cells are not mentioned, nor values that the
    user listed.
    """
    words = sum(labels.words.values())
    empty = 0 if labels.in_matrix else int((~labels.answered).sum()) - words
    if not words + empty or (labels.in_matrix and labels.chosen):
        return
    unit = "cells" if labels.in_matrix else "rows"
    counted = [f"{count:,} {name!r}" for name, count in labels.words.items()][:5]
    counted += [f"{len(labels.words) - 5} other words"] if len(labels.words) > 5 else []
    counted += [f"{empty:,} empty or NaN"] if empty else []
    reasons = ", ".join(counted) if words else "empty or NaN"
    message = f"{where}: dropped {words + empty:,} {unit} without a label ({reasons})"
    if unlabelled:
        message += f"; {len(unlabelled):,} tasks have no label left: {examples(unlabelled)}"
    advice = remedy_for(labels, "")
    warn(f"{message}; {advice}" if advice else message, DataWarning)


def remedy_for(labels: Labels, otherwise: str) -> str:
    """How to keep labels that are words for "missing", if there are any.

    >>> remedy_for(read_labels(["yes", "NA"]), "")
    "if 'NA' is a class, pass missing='' (--set missing=)"
    """
    if labels.chosen or not labels.words:
        return otherwise
    return f"if {' or '.join(map(repr, list(labels.words)[:3]))} is a class, pass missing='' (--set missing=)"


def _without(codes: npt.NDArray[np.int32], names: Names, absent: npt.NDArray[np.bool_]) -> Encoded:
    """The names that are not absent, and the codes into them."""
    if not absent.any():
        return codes, names
    position = np.append(np.where(absent, MISSING, np.cumsum(~absent) - 1), MISSING).astype(np.int32)
    names = names[~absent]
    if names.dtype == object:
        names = as_names(names.tolist())  # integers again, once the words among them are gone
    names.setflags(write=False)
    return position[codes], names


def _as_numbers(codes: npt.NDArray[np.int32], names: Names) -> tuple[npt.NDArray[np.int32], Names]:
    if names.dtype != object or not len(names) or not all(isinstance(name, str) for name in names.tolist()):
        return codes, names
    gap = [None] if (codes == MISSING).any() else []
    typed = numbers_or_text(pa.chunked_array([pa.array([*names.tolist(), *gap], pa.string())]))
    if pa.types.is_string(typed.type):
        return codes, names
    places, numbers = encode(typed.slice(0, len(names)))
    return np.append(places, np.int32(MISSING))[codes], numbers


def _listed(missing: Any) -> list[Any]:
    """One value, or several; the empty text stands for none."""
    if missing is None:
        return []
    several = isinstance(missing, list | tuple | set | frozenset | np.ndarray)
    return [value for value in (missing if several else [missing]) if not _is_blank(value)]


def _place(name: Any, words: tuple[str, ...]) -> int:
    """The position of a value among the words for abstentions."""
    text = _spelling(name) if words else ""
    return words.index(text) if text in words else MISSING


def _is_blank(name: Any) -> bool:
    return isinstance(name, str) and not name.strip()


def _is_convention(name: Any, labels: Names) -> bool:
    """Whether this is the -1 of matrices, which needs no warning.

    It may be a class where it is text among labels that are text, or a number beside other negative ones.
    """
    if isinstance(name, str) and (
        name not in NOT_ANNOTATED or any(isinstance(label, str) for label in labels.tolist())
    ):
        return False
    minus_one = isinstance(name, str) or (isinstance(name, int | float) and name == MISSING)
    return minus_one and not any(isinstance(label, int | float) and label < 0 for label in labels.tolist())


def _spelling(name: Any) -> str:
    return spelling(name.item() if isinstance(name, np.generic) else name).strip()


# What is rejected, dropped with a warning, or kept of several.

OnDuplicate = Literal["last", "first", "error"]
"""Which of several labels by one worker for one task counts."""


def refuse_missing_ids(codes: npt.NDArray[np.int32], role: str, where: str) -> None:
    """An annotation without a task or without a worker is an error."""
    if not len(codes):
        raise InputError(f"{where}: contains no annotations; expected one row per annotation (task, worker, label)")
    missing = np.flatnonzero(codes == MISSING)
    if len(missing):
        raise InputError(
            f"{where}: {len(missing):,} rows have no {role}, the first is row {missing[0] + 1}; "
            f"fill in the {role} or remove these rows"
        )


def match_classes(
    names: Names,
    codes: npt.NDArray[np.int32],
    classes: Sequence[Any] | Names | None,
    where: str,
    rows: npt.NDArray[np.int64] | None = None,
    *,
    mergeable: bool = False,
) -> tuple[Names, npt.NDArray[np.int32]]:
    """Class names and label codes in the order that the user asked for, or sorted.

    ``rows`` contains the row of each code, for the message, if it is not its position; ``mergeable`` says whether the
    user can have classes that look alike merged.
    """
    if classes is None:
        warn_of_lookalikes(names, "classes", where, mergeable=mergeable)
        return names, codes
    wanted = as_names(classes)
    if len(set(wanted.tolist())) < len(wanted):
        raise InputError(f"{where}: classes are listed twice in {wanted.tolist()}")
    position = decode_position(wanted, names)
    unknown = names[position == MISSING].tolist()
    if unknown:
        close = difflib.get_close_matches(str(unknown[0]), [str(name) for name in wanted], n=1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        first = int(np.flatnonzero(codes == names.tolist().index(unknown[0]))[0])
        row = first if rows is None else int(rows[first])
        raise InputError(
            f"{where}: row {row + 1}: {examples(unknown)} not among the {len(wanted)} classes; {hint}"
            "correct the labels or add them to the classes"
        )
    return wanted, np.append(position, MISSING).astype(np.int32)[codes]


def pair_order(tasks: npt.NDArray[np.int32], annotators: npt.NDArray[np.int32]) -> npt.NDArray[np.int64] | slice:
    """Rows by task, then annotator: all rows, or row numbers.

    Rows of one pair stay in the order in which they came. What is in order already, of which there may be hundreds
    of millions, is not copied.
    """
    if not len(tasks):
        return slice(None)
    pair = tasks.astype(np.int64)
    pair *= int(annotators.max()) + 1
    pair += annotators
    if (pair[1:] >= pair[:-1]).all():
        return slice(None)
    order: npt.NDArray[np.int64] = np.argsort(pair, kind="stable")
    return order


def resolve_duplicates(
    tasks: npt.NDArray[np.int32],
    annotators: npt.NDArray[np.int32],
    rule: OnDuplicate,
    where: str,
    names: tuple[Names, Names],
) -> npt.NDArray[np.int64] | slice:
    """Rows to keep in order, at most one per (task, worker)."""
    if rule not in ("last", "first", "error"):
        raise InputError(f"on_duplicate must be 'last', 'first' or 'error', not {rule!r}")
    order = pair_order(tasks, annotators)
    same = _repeats(tasks[order]) & _repeats(annotators[order])
    if not same.any():
        return order
    order = np.arange(len(tasks)) if isinstance(order, slice) else order
    first = order[np.flatnonzero(same)[0]]
    pair = f"task {examples([names[0][tasks[first]]])}, worker {people([names[1][annotators[first]]])}"
    count = int(same.sum())
    if rule == "error":
        raise InputError(
            f"{where}: {count:,} rows repeat a (task, worker) pair, the first is {pair}; "
            "remove them, or keep one of each with on_duplicate='last' or 'first'"
        )
    warn(
        f"{where}: {count:,} rows repeat a (task, worker) pair, the first is {pair}; kept the {rule} of each",
        DataWarning,
    )
    kept: npt.NDArray[np.int64] = order[np.append(~same, True) if rule == "last" else np.append(True, ~same)]
    return kept


def _repeats(codes: npt.NDArray[np.int32]) -> npt.NDArray[np.bool_]:
    """(n - 1,) whether each code is the one before it."""
    same: npt.NDArray[np.bool_] = codes[1:] == codes[:-1]
    return same
