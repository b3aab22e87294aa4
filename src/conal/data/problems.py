"""Memory that a fit needs, columns that are no classes or annotators, and labels that make results doubtful."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from conal.data.annotations import Annotations
from conal.data.encoding import Names
from conal.errors import DataWarning, InputError, examples, people, warn

# Memory that a fit needs, estimated before it starts, and columns that are no classes or annotators.

FREE_BYTES = 1e9
"""Bytes with which a fit always starts; with more, labels must look like classes."""
PLAUSIBLE_CLASSES = 20
"""So many classes are plausible in any crowd."""
TEXT_CHARACTERS, TEXT_WORDS = 40, 4
"""Mean characters, or words, of a name from which on names are free text."""
MIN_ALIKE_SHARE = 0.9
"""Share of the names that must look alike."""


def check_memory(crowd: Annotations, numbers: float, what: str, *, matrices: bool = True) -> None:
    """Refuse a fit that needs more memory than is free, or much memory for labels that are no classes.

    Parameters
    ----------
    crowd : Annotations
    numbers : float
        About how many numbers of 8 bytes it keeps at once.
    what : str
        What needs them, such as the name of an aggregator.
    matrices : bool
        Whether it makes a confusion matrix for every annotator.
    """
    need = 8 * numbers
    if need <= FREE_BYTES:
        return
    R, C, A = crowd.n_annotators, crowd.n_classes, crowd.n_annotations
    odd = odd_column(crowd) if A < R * C else None  # fewer labels than one of every class by every annotator
    free = free_memory()
    if need <= free and odd is None:
        return
    remedy = odd or "join rare classes" + (", or use majority-vote, which needs no matrices" if matrices else "")
    raise InputError(
        f"{what} needs about {need / 1e9:,.1f} GB for {C:,} classes, {R:,} annotators and {crowd.n_tasks:,} tasks"
        f"{f', and {free / 1e9:,.1f} GB are free' if need > free else ''}; {remedy}"
    )


def odd_column(crowd: Annotations) -> str | None:
    """Which column looks like something else than classes or annotators, and what to do; None if none does."""
    R, C, A = crowd.n_annotators, crowd.n_classes, crowd.n_annotations
    if R > A / 2 and C <= A / 4:
        return (
            f"the worker column looks like an id of every row ({people(crowd.annotator_ids)}): choose another with "
            "worker= (--worker-column)"
        )
    kind = looks_like(crowd.classes)
    if kind is None:
        return None
    own = {
        "numbers": "put them into a few bins first (pandas.cut)",
        "free text": "code them as a few classes first",
        "ids": "join them to a few classes first",
    }
    return (
        f"the label column looks like {kind} ({examples(crowd.classes)}): {own[kind]}, or choose another column or "
        "question with label= (--label-column, --question)"
    )


def looks_like(names: Names) -> str | None:
    """What many names of classes look like: "numbers", "free text" or "ids"; None if they may be classes.

    Whole numbers in a row are codes of classes.

    >>> import numpy as np
    >>> looks_like(np.linspace(0, 1, 100)), looks_like(np.array([f"u{k}" for k in range(100)]))
    ('numbers', 'ids')
    """
    if len(names) <= PLAUSIBLE_CLASSES:
        return None
    texts = [str(name) for name in names.tolist()]
    numbers = [float(text) for text in texts if _is_number(text)]
    if len(numbers) > MIN_ALIKE_SHARE * len(texts):
        codes = all(map(float.is_integer, numbers)) and max(numbers) - min(numbers) < 2 * len(numbers)
        return None if codes else "numbers"
    if sum(map(len, texts)) > TEXT_CHARACTERS * len(texts) or sum(
        len(text.split()) for text in texts
    ) > TEXT_WORDS * len(texts):
        return "free text"
    if sum(any(map(str.isdigit, text)) and " " not in text for text in texts) > MIN_ALIKE_SHARE * len(texts):
        return "ids"
    return None


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def free_memory() -> float:
    """Bytes that this process can still get: of the machine, and of its container."""
    found = [float("inf")]
    with suppress(AttributeError, OSError, ValueError):  # as much as there is at all, if nothing more is known
        found = [float(os.sysconf("SC_PHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE")]
    with suppress(OSError, ValueError, IndexError):
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        found += [1024.0 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable")]
    with suppress(OSError, ValueError):
        folder = Path("/sys/fs/cgroup")
        most, used = (int((folder / f"memory.{name}").read_text(encoding="ascii")) for name in ("max", "current"))
        found.append(float(most - used))
    return min(found)


# What makes any result of some labels doubtful, each with its remedy.

MAX_NAME_CHARACTERS = 100
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
    long = [name for name in names if len(name) > MAX_NAME_CHARACTERS]
    if long:
        longest = max(map(len, long))
        yield (
            f"{len(long):,} class names are longer than {MAX_NAME_CHARACTERS} characters, the longest has {longest:,}",
            "is this free text? Choose another question with --question, or another --label-column",
        )
    if crowd.n_classes >= MANY_CLASSES or (crowd.n_classes > 20 and crowd.n_classes > crowd.n_annotations / 4):
        yield (
            f"{crowd.n_classes:,} classes in {crowd.n_annotations:,} labels",
            odd_column(crowd)
            or "is this free text, or a number? Choose another question with --question, or another --label-column",
        )
