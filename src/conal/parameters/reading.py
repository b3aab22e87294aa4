"""How a file of crowd labels is read."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Literal

from conal._registry import names_in_source
from conal.errors import InputError
from conal.parameters.constraints import anything, comma_separated, flag, maybe_none, one_of
from conal.parameters.declaration import Parameter, Parameterised, parameter

PLAIN_FORMATS = ("csv", "tsv", "parquet", "arrow", "xlsx", "jsonl", "npy")
"""Formats of no particular platform: one row per annotation, or a matrix."""


class GeneralOptions(Parameterised):
    """Options that apply to files of every format."""

    format: str | None = parameter(
        default=None,
        must_be=anything(),
        help="Name of the format; detected from the content by default: "
        f"{', '.join((*PLAIN_FORMATS, *names_in_source('conal.io.platforms')))}.",
        parse=str,
    )
    classes: Sequence[Any] | None = parameter(
        default=None,
        must_be=anything(),
        help="The classes in order; numbers may be given as text. A label outside them is an error. For a matrix of "
        "numbers, names of the labels 0, 1, 2, ...",
        flag="--classes",
        parse=comma_separated,
    )
    missing: Any = parameter(
        default=None,
        must_be=anything(),
        help="Labels that mean 'no label': one value or several, or '' for none. By default NA, N/A, null and nan, and "
        "-1 in a matrix. Empty cells and NaN are always missing.",
        parse=maybe_none,
    )
    abstain: Any = parameter(
        default=None,
        must_be=anything(),
        help="Labels that mean 'asked, but declined to answer', such as 'refused': one value or several. They are no "
        "classes. How often each annotator declines, and on which classes, then counts as evidence; by default such "
        "labels are classes, and with missing= they count for nothing.",
        parse=maybe_none,
    )
    ordinal: bool = parameter(
        default=False,
        must_be=flag(),
        help="The classes are a scale, such as grades from 1 to 5: numbers in their own order, others as listed in "
        "classes. Results then have the mean, the median and an interval of each task, and agreement counts distances.",
        flag="--ordinal",
    )
    on_duplicate: Literal["last", "first", "error"] = parameter(
        default="last",
        must_be=one_of("last", "first", "error"),
        help="Which label to keep if an annotator labelled a task twice; 'last' means latest if the file has times.",
        parse=str,
    )
    unlabelled: bool = parameter(
        default=False,
        must_be=flag(),
        help="Accept a file in which nobody has labelled a task yet, for its tasks.",
        parse=None,
    )


class ReadOptions(GeneralOptions):
    """How a file of crowd labels is read, from the command line to the reader of its format.

    ``format``, ``classes``, ``ordinal``, ``missing``, ``abstain``, ``on_duplicate`` and ``unlabelled`` apply to every
    format. Each format accepts some of the other options, and rejects the rest.

    Examples
    --------
    >>> ReadOptions(task="item").task
    'item'
    """

    task: str | None = parameter(
        default=None,
        must_be=anything(),
        help="Column with the task ids; in exports, the field of the task data with the task ids.",
        flag="--task-column",
        parse=str,
    )
    worker: str | None = parameter(
        default=None,
        must_be=anything(),
        help="Column with the annotators.",
        flag="--worker-column",
        parse=str,
    )
    label: str | None = parameter(
        default=None,
        must_be=anything(),
        help="Column with the labels.",
        flag="--label-column",
        parse=str,
    )
    question: str | None = parameter(
        default=None,
        must_be=anything(),
        help="Control, question or answer that contains the labels, if an export has several; NAME=CHOICE asks whether "
        "annotators ticked one choice, yes or no.",
        flag="--question",
        parse=str,
    )
    keep_rejected: bool = parameter(
        default=False,
        must_be=flag(),
        help="Keep rejected work (MTurk, Toloka).",
    )

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
        return self.replace(**{name: found.default for name, found in self._specific().items() if name not in takes})

    def _specific(self) -> dict[str, Parameter]:
        """Options that only some formats take."""
        return {name: found for name, found in self.declared.items() if name not in GeneralOptions.declared}


def _spelled(found: Parameter) -> str:
    """The parameter as Python and the command line spell it."""
    return f"{found.name}= ({found.flag or f'--set {found.name}'})"
