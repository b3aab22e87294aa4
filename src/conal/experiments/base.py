"""An experiment: runs as data, a table of their results, and a page and charts made from the table."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import pyarrow as pa

from conal import methods
from conal._support.registry import Registry
from conal.errors import InputError
from conal.experiments.fingerprint import REPORTED, ROOMS, digest_of, findings_roots, fingerprint
from conal.experiments.runs import Run
from conal.experiments.store import Store

__all__ = ["PAPER_METHODS", "Experiment", "every_method", "experiments", "register"]

QUICK = "**Reduced size (`--quick`): fewer seeds, settings and epochs. Not the figures of the full experiment.**"

PAPER_METHODS = ("dl-mv", "dl-cl", "doctor-net", "anno-reg", "max-mig", "dl-glad", "dl-wc", "aggnet", "conal")
"""The methods of the paper's Table 1, in its order."""

experiments: Registry[type[Experiment]] = Registry("experiment", "conal.experiments")


def register(name: str) -> Callable[[type[Experiment]], type[Experiment]]:
    """Register an experiment under the name that the command line uses; it is kept as ``cls.name``."""

    def enter(cls: type[Experiment]) -> type[Experiment]:
        cls.name = name
        return experiments.register(name)(cls)

    return enter


class Experiment(ABC):
    """A table or figure of the paper.

    Parameters
    ----------
    quick : bool
        Run a reduced size; all output is marked as such.
    seeds : int, optional
        Number of seeds; by default five, or two if quick.
    images : bool
        Use images and VGG-16 instead of features, if the experiment supports it.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    supports_images: ClassVar[bool] = False
    reducible: ClassVar[bool] = True
    """Whether there is a reduced size; an experiment without runs has none."""

    minutes: ClassVar[float] = 0.0
    """CPU minutes that the table itself takes, beyond its runs."""

    def __init__(self, *, quick: bool = False, seeds: int | None = None, images: bool = False) -> None:
        if images and not self.supports_images:
            raise InputError(f"{self.name}: has no images; use cifar10")
        self.quick = quick and self.reducible
        self.images = images
        self.seeds = range(seeds if seeds is not None else 2 if quick else 5)

    @property
    def shows(self) -> str:
        """What it is about, in a line: the first of its docstring."""
        return inspect.cleandoc(type(self).__doc__ or "").partition("\n")[0].replace("``", "`").rstrip(".")

    @property
    def stem(self) -> str:
        """Name of the output files, without ending."""
        return f"{self.name}-images" if self.images else self.name

    def runs(self) -> list[Run]:
        """The runs that the table needs; none for an experiment that only counts labels."""
        return []

    def code(self, store: Store | None = None) -> str:
        """A fingerprint of the code that can change the table: the present one, or the one that made a store's runs."""
        runs = {run.hash: run.code for run in self.runs()}
        if not runs:
            code = fingerprint([type(self).__module__, *findings_roots()], rooms=(*ROOMS, REPORTED, "experiments"))
            return digest_of([code, f"{len(self.seeds)} seeds"])
        made = runs if store is None else store.codes()
        return digest_of(made.get(each, "") for each in runs)

    @abstractmethod
    def table(self, store: Store) -> pa.Table:
        """The unrounded numbers that are written as CSV, one row per point."""

    @abstractmethod
    def page(self, table: pa.Table) -> str:
        """The Markdown page: what was done, and our results beside the paper's."""

    def document(self, *parts: str) -> str:
        """A page with these parts below the title; a note comes first if the size is reduced."""
        head = [f"# {self.title}", *([QUICK] if self.quick else [])]
        return "\n\n".join([*head, *parts]) + "\n"

    def charts(self, table: pa.Table) -> dict[str, Any]:
        """File stem to Altair chart."""
        return {}


def every_method() -> list[str]:
    """Gold labels as the upper limit, the paper's methods in its order, then every other registered method."""
    known = ["gold", *PAPER_METHODS]
    return known + [name for name in methods.names() if name not in known]
