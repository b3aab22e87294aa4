"""Which question of an export is read: one of several, or whether annotators ticked one choice of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from conal.errors import InputError, examples
from conal.io.platforms.base import choose_question

__all__ = ["NO", "NO_ANSWER", "OTHER_ANSWER", "SEVERAL_ANSWERS", "YES", "Question", "ask", "only_answer", "ticked"]

YES, NO = "yes", "no"
"""The classes of a question about one choice."""

NO_ANSWER = "without an answer"
SEVERAL_ANSWERS = "with several answers"
OTHER_ANSWER = "with an answer that is no single choice"


class Question(NamedTuple):
    """A question of an export; with a ``choice``, whether annotators ticked it.

    ``named`` is false where the platform has no name for its only question.

    >>> str(Question("topics", "sport"))
    'topics=sport'
    """

    name: str
    choice: str | None = None
    named: bool = True

    def __str__(self) -> str:
        return self.name if self.choice is None else f"{self.name}={self.choice}"

    def label(self, value: Any, *, blank_is_no: bool = False) -> tuple[Any, str | None]:
        """The label in an answer, or the reason why there is none.

        An annotator who chose something else says "no". Nothing chosen is no answer, unless ``blank_is_no``: few
        platforms tell "none of these" from "not answered".

        >>> Question("topics", "sport").label(["art", "sport"]), Question("topics", "sport").label(["art"])
        (('yes', None), ('no', None))
        >>> Question("topics").label(["art", "sport"])
        (None, 'with several answers')
        """
        if self.choice is None:
            return only_answer(value)
        chosen = ticked(value)
        if chosen or (blank_is_no and isinstance(value, list) and not value):
            return YES if self.choice in chosen else NO, None
        return only_answer(value)

    def check(self, known: Iterable[str], where: object) -> None:
        """Reject a choice that nobody made."""
        choices = list(dict.fromkeys(known))
        if self.choice is not None and self.choice not in choices:
            raise InputError(
                f"{where}: nobody chose {self.choice!r} in {self.name!r}; the choices are "
                f"{examples(choices, 20) or 'none'}"
            )


def ask(names: Iterable[str], wanted: str | None, where: object, kind: str) -> Question:
    """The question that is wanted, as ``NAME`` or ``NAME=CHOICE``, or the only one.

    >>> ask(["topics", "mood"], "topics=sport", "export.json", "control")
    Question(name='topics', choice='sport', named=True)
    """
    known = list(dict.fromkeys(names))
    if wanted is not None and wanted not in known:
        for name in sorted(known, key=len, reverse=True):  # names may contain "=" too
            if wanted.startswith(f"{name}="):
                return Question(name, wanted.removeprefix(f"{name}="))
    return Question(choose_question(known, wanted, where, kind))


def only_answer(value: Any) -> tuple[Any, str | None]:
    """The one answer in a value, or the reason why there is none.

    >>> only_answer(["cat"]), only_answer(["cat", "dog"]), only_answer([])
    (('cat', None), (None, 'with several answers'), (None, 'without an answer'))
    """
    if isinstance(value, list | tuple):
        if len(value) > 1:
            return None, SEVERAL_ANSWERS
        return only_answer(value[0]) if value else (None, NO_ANSWER)
    if value is None or value != value or (isinstance(value, str) and not value.strip()):
        return None, NO_ANSWER
    if isinstance(value, dict):
        return None, OTHER_ANSWER
    return value, None


def ticked(value: Any) -> list[str]:
    """The choices in an answer, as text; none if it is missing, no choice, or about several regions of a task.

    >>> ticked(["art", "sport"]), ticked(4), ticked([]), ticked([["cat"], ["dog"]])
    (['art', 'sport'], ['4'], [], [])
    """
    while isinstance(value, list | tuple) and len(value) == 1:
        value = value[0]
    values = value if isinstance(value, list | tuple) else [value]
    if any(isinstance(part, list | tuple | dict) for part in values):
        return []
    return [str(part) for part in values if only_answer(part)[1] is None]
