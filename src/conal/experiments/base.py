"""What an experiment is: runs as data, tables from their results, a page and charts from the tables."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from conal import methods
from conal._support.registry import Registry
from conal.errors import InputError
from conal.experiments.runs import Run
from conal.experiments.store import Store

__all__ = [
    "PAPER_METHODS",
    "Experiment",
    "every_method",
    "experiments",
    "gap_and_error",
    "markdown",
    "mean_and_spread",
    "n_seeds",
    "register",
]

QUICK = "**Reduced size (`--quick`): fewer seeds, settings and epochs. Not the figures of the full experiment.**"

PAPER_METHODS = ("dl-mv", "dl-cl", "doctor-net", "anno-reg", "max-mig", "dl-glad", "dl-wc", "aggnet", "conal")
"""The methods of the paper's Table 1, in its order."""

experiments: Registry[type[Experiment]] = Registry("experiment", "conal.experiments")


def register(name: str) -> Callable[[type[Experiment]], type[Experiment]]:
    """Enter an experiment under the name that the command line knows; it is kept as ``cls.name``."""

    def enter(cls: type[Experiment]) -> type[Experiment]:
        cls.name = name
        return experiments.register(name)(cls)

    return enter


class Experiment(ABC):
    """A table or figure of the paper.

    Parameters
    ----------
    quick : bool
        Reduced size, which every output says.
    seeds : int, optional
        How many; five, and two if quick.
    images : bool
        Images and VGG-16 instead of features, for an experiment that can.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    knows_images: ClassVar[bool] = False
    reducible: ClassVar[bool] = True
    """Whether there is a reduced size; what only counts has none."""

    def __init__(self, *, quick: bool = False, seeds: int | None = None, images: bool = False) -> None:
        if images and not self.knows_images:
            raise InputError(f"{self.name}: has no form with images; cifar10 has")
        self.quick = quick and self.reducible
        self.images = images
        self.seeds = range(seeds if seeds is not None else 2 if quick else 5)

    @property
    def stem(self) -> str:
        """What the files are called."""
        return f"{self.name}-images" if self.images else self.name

    def runs(self) -> list[Run]:
        """What must be fitted; nothing for an experiment that only counts."""
        return []

    @abstractmethod
    def table(self, store: Store) -> pa.Table:
        """The numbers, unrounded, one row per point: the CSV that carries the experiment's name."""

    @abstractmethod
    def page(self, table: pa.Table) -> str:
        """The Markdown page: what was done, and a table beside the paper's."""

    def document(self, *parts: str) -> str:
        """A page of these parts under the experiment's title; one of reduced size says so first."""
        head = [f"# {self.title}", *([QUICK] if self.quick else [])]
        return "\n\n".join([*head, *parts]) + "\n"

    def charts(self, table: pa.Table) -> dict[str, Any]:
        """File stem to Altair chart."""
        return {}


def every_method() -> list[str]:
    """Gold labels as the ceiling, the paper's methods in its order, then all others: a new file is a new row."""
    known = ["gold", *PAPER_METHODS]
    return known + [name for name in methods.names() if name not in known]


def markdown(header: list[str], rows: list[list[str]]) -> str:
    """A Markdown table.

    >>> print(markdown(["a", "b"], [["1", "2"]]))
    | a | b |
    |---|---|
    | 1 | 2 |
    """
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def n_seeds(table: pa.Table) -> int:
    """How many seeds the runs of a table have."""
    return len(table["seed"].unique())


def mean_and_spread(values: list[float]) -> str:
    """Mean and sample standard deviation of shares, in percent; of a single one there is no deviation.

    >>> mean_and_spread([0.8, 0.9]), mean_and_spread([0.8])
    ('85.00 ± 7.07', '80.00')
    """
    percent = 100 * np.array(values)
    return f"{percent.mean():.2f}" + (f" ± {percent.std(ddof=1):.2f}" if len(percent) > 1 else "")


def gap_and_error(ours: list[float], theirs: list[float]) -> tuple[float, float | None]:
    """Mean difference of paired shares in points, and its standard error, which a single pair has not.

    >>> gap_and_error([0.9, 0.8], [0.8, 0.8])
    (5.0, 5.0)
    """
    gaps = 100 * (np.array(ours) - np.array(theirs))
    error = round(float(gaps.std(ddof=1) / len(gaps) ** 0.5), 9) if len(gaps) > 1 else None
    return round(float(gaps.mean()), 9), error
