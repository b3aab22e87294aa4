"""What makes any result of some labels doubtful, each with its remedy."""

from __future__ import annotations

from collections.abc import Iterator

from conal.data.annotations import Annotations
from conal.data.memory import odd_column
from conal.errors import DataWarning, warn

__all__ = ["MANY_CLASSES", "lone_annotator", "no_classes", "warn_of_problems"]

LONG_NAME = 100
MANY_CLASSES = 200


def warn_of_problems(crowd: Annotations, where: object) -> None:
    """Warn about one annotator, or labels that are no classes."""
    for problem, advice in (*lone_annotator(crowd), *no_classes(crowd)):
        warn(f"{where}: {problem}; {advice}", DataWarning)


def lone_annotator(crowd: Annotations) -> Iterator[tuple[str, str]]:
    """All labels by one annotator."""
    if crowd.n_annotators == 1:
        yield "one annotator", "mistakes cannot be estimated from one annotator; add others"


def no_classes(crowd: Annotations) -> Iterator[tuple[str, str]]:
    """Labels that are hardly classes: free text, numbers, ids."""
    names = [str(name) for name in crowd.classes.tolist()]
    long = [name for name in names if len(name) > LONG_NAME]
    if long:
        longest = max(map(len, long))
        yield (
            f"{len(long):,} class names are longer than {LONG_NAME} characters, the longest has {longest:,}",
            "is this free text? Choose another question with --question, or another --label-column",
        )
    if crowd.n_classes >= MANY_CLASSES or (crowd.n_classes > 20 and crowd.n_classes > crowd.n_annotations / 4):
        yield (
            f"{crowd.n_classes:,} classes in {crowd.n_annotations:,} labels",
            odd_column(crowd)
            or "is this free text, or a number? Choose another question with --question, or another --label-column",
        )
