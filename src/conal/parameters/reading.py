"""How a file of crowd labels is read."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

from conal.errors import InputError
from conal.parameters import Doc, Option, Parameter, comma_separated, maybe_none, parameters, parameters_of

PLAIN_FORMATS = ("csv", "tsv", "parquet", "arrow", "xlsx", "jsonl", "npy")
"""Formats of no particular platform: one row per annotation, or a matrix."""
PLATFORMS = (
    "argilla, doccano, inspect-ai, label-studio, label-studio-min, lists, mlflow, mturk, peerannot, prodigy, toloka, "
    "wide, zooniverse"
)
"""Names for the help, which imports no reader; a test compares them with the registry."""


@parameters
class GeneralOptions:
    """Options that apply to files of every format."""

    format: Annotated[
        str | None,
        Doc(f"Name of the format; detected from the content by default: {', '.join(PLAIN_FORMATS)}, {PLATFORMS}."),
    ] = None
    classes: Annotated[
        Sequence[Any] | None,
        Doc(
            "The classes in order; numbers may be given as text. A label outside them is an error. For a matrix of "
            "numbers, names of the labels 0, 1, 2, ..."
        ),
        Option("--classes", parse=comma_separated),
    ] = None
    missing: Annotated[
        Any,
        Doc(
            "Labels that mean 'no label': one value or several, or '' for none. By default NA, N/A, null and nan, and "
            "-1 in a matrix. Empty cells and NaN are always missing."
        ),
        Option(parse=maybe_none),
    ] = None
    abstain: Annotated[
        Any,
        Doc(
            "Labels that mean 'asked, but declined to answer', such as 'refused': one value or several. They are no "
            "classes. How often each annotator declines, and on which classes, then counts as evidence; by default "
            "such labels are classes, and with missing= they count for nothing."
        ),
        Option(parse=maybe_none),
    ] = None
    ordinal: Annotated[
        bool,
        Doc(
            "The classes are a scale, such as grades from 1 to 5: numbers in their own order, others as listed in "
            "classes. Results then have the mean, the median and an interval of each task, and agreement counts "
            "distances."
        ),
        Option("--ordinal"),
    ] = False
    encoding: Annotated[
        str | None,
        Doc("Encoding of text files that is not UTF-8 and has no byte-order mark, such as latin-1 or cp1252."),
        Option("--encoding", parse=str),
    ] = None
    without: Annotated[
        Sequence[Any] | None,
        Doc("Annotators to leave out, with all their labels."),
        Option("--without", parse=comma_separated),
    ] = None
    merge_spelling: Annotated[
        bool,
        Doc(
            "Count annotators, and classes, that look alike as one, in their most frequent spelling: names that differ "
            "in case, blanks, the form of letters or the way in which a number is written."
        ),
        Option("--merge-spelling"),
    ] = False
    on_duplicate: Annotated[
        Literal["last", "first", "error"],
        Doc("Which label to keep if an annotator labelled a task twice; 'last' means latest if the file has times."),
    ] = "last"
    unlabelled: Annotated[
        bool, Doc("Accept a file in which nobody has labelled a task yet, for its tasks."), Option(parse=None)
    ] = False


@parameters
class ReadOptions(GeneralOptions):
    """How a file of crowd labels is read, from the command line to the reader of its format.

    ``format``, ``classes``, ``ordinal``, ``missing``, ``abstain``, ``encoding``, ``without``, ``merge_spelling``,
    ``on_duplicate`` and ``unlabelled`` apply to every format. Each format accepts some of the other options, and
    rejects the rest.

    Examples
    --------
    >>> ReadOptions(task="item").task
    'item'
    """

    task: Annotated[
        str | None,
        Doc("Column with the task ids; in exports, the field of the task data with the task ids."),
        Option("--task-column"),
    ] = None
    worker: Annotated[str | None, Doc("Column with the annotators."), Option("--worker-column")] = None
    label: Annotated[str | None, Doc("Column with the labels."), Option("--label-column")] = None
    question: Annotated[
        str | None,
        Doc(
            "Control, question or answer that contains the labels, if an export has several; NAME=CHOICE asks whether "
            "annotators ticked one choice, yes or no."
        ),
        Option("--question"),
    ] = None
    keep_rejected: Annotated[bool, Doc("Keep rejected work (MTurk, Toloka).")] = False

    def refuse_unused(self, takes: Collection[str], title: str) -> None:
        """Reject an option that the format does not use, instead of ignoring it.

        >>> ReadOptions(question="mood").refuse_unused(["task"], "wide tables")
        Traceback (most recent call last):
        conal.errors.InputError: question= (--question) does not apply to wide tables; it takes task= (--task-column)
        """
        specific = self._specific()
        given = [found for found in specific.values() if getattr(self, found.name) != found.default]
        unused = next((found for found in given if found.name not in takes), None)
        if unused is not None:
            known = ", ".join(_spelled(specific[name]) for name in takes) or "none of these"
            raise InputError(f"{_spelled(unused)} does not apply to {title}; it takes {known}")

    def only(self, takes: Collection[str]) -> ReadOptions:
        """The options that a format takes; the others, which are for files of other formats, as by default.

        >>> ReadOptions(question="mood", missing="?").only(["task"]).question is None
        True
        """
        return replace(self, **{name: found.default for name, found in self._specific().items() if name not in takes})

    def _specific(self) -> dict[str, Parameter]:
        """Options that only some formats take."""
        return {name: found for name, found in parameters_of(self).items() if name not in parameters_of(GeneralOptions)}


def _spelled(found: Parameter) -> str:
    """The parameter as Python and the command line spell it."""
    return f"{found.name}= ({found.option.flag or f'--set {found.name}'})"
