"""Crowds of every size, against what users would do without conal's classifiers: small ones, and as they grow."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from conal.datasets.label_sets import JUDGES
from conal.experiments.base import Experiment, register
from conal.experiments.comparisons import RULE, Difference, corrected, paired_difference
from conal.experiments.measurements import TWO_STAGE
from conal.experiments.runs import Run
from conal.experiments.store import Store
from conal.experiments.tables import Row, column, group_by, markdown, n_seeds, notes

__all__ = ["Sizes", "Small", "two_stage_gaps"]

Crowd = tuple[str, dict[str, Any], dict[str, Any]]
"""Dataset, its settings, and further settings of the sample. What is not said is as in the generator's defaults."""

SIMULATED: dict[str, Any] = {"n_train": 3000, "n_valid": 0, "n_test": 0}
SMALL: dict[str, Crowd] = {
    "simulated, 8 annotators": ("synthetic", SIMULATED | {"n_annotators": 8, "n_classes": 4}, {}),
    "simulated, common mistakes": ("synthetic", SIMULATED | {"n_annotators": 8, "common_strength": 0.7}, {}),
    "simulated, two classes, 9 : 1": (
        "synthetic",
        SIMULATED | {"n_annotators": 8, "n_classes": 2},
        {"shares": [0.9, 0.1]},
    ),
    "simulated jury, features that say little": (
        "synthetic",
        SIMULATED | {"n_annotators": 12, "labels_per_instance": 12, "separation": 0.2, "individual_strength": 0.5},
        {},
    ),
    "LabelMe": ("labelme", {}, {}),
    "texts, juries of language models": ("llm_jury", {}, {}),
}
GROWING: dict[str, Any] = {
    "n_train": 25_000,
    "n_valid": 0,
    "n_test": 0,
    "n_annotators": 100,
    "labels_per_instance": 3,
    "n_features": 100,
    "separation": 0.25,
}
LARGE: dict[str, Crowd] = {
    "no common mistakes": ("synthetic", GROWING | {"common_strength": 0.0}, {}),
    "common mistakes": ("synthetic", GROWING | {"common_strength": 0.7}, {}),
}
REAL = ("LabelMe", "texts, juries of language models")
ALL = "all"
KINDS = {"label_accuracy": "cleaned labels", "test_accuracy": "other tasks"}


@register("small")
class Small(Experiment):
    """`xconal` with its defaults on few tasks, against aggregation and then scikit-learn's logistic regression."""

    title = "Small crowds"
    crowds: ClassVar[dict[str, Crowd]] = SMALL
    sizes: ClassVar[tuple[int, ...]] = (50, 100, 300)
    n_crowds: ClassVar[int] = 20
    story: ClassVar[str] = (
        "simulated ones, random parts of LabelMe's training data, and of texts that eight juries of language models "
        "classified, each jury in turn"
    )

    def __init__(self, *, quick: bool = False, seeds: int | None = None, images: bool = False) -> None:
        super().__init__(quick=quick, seeds=seeds or (2 if quick else self.n_crowds), images=images)

    def points(self) -> list[tuple[str, int, int]]:
        """Crowd, number of tasks and seed; every seed draws another crowd, or another part of it."""
        crowds = [name for k, name in enumerate(self.crowds) if not self.quick or k == 0 or name == REAL[0]]
        sizes = self.sizes[:2] if self.quick else self.sizes
        return [(crowd, size, seed) for crowd in crowds for size in sizes for seed in self.seeds]

    def runs(self) -> list[Run]:
        """A fit of xconal to every crowd; what it is compared with is fitted beside it."""
        return [self._run(*point) for point in self.points()]

    def _run(self, crowd: str, size: int, seed: int) -> Run:
        dataset, settings, sample = self.crowds[crowd]
        if dataset == "synthetic":
            settings = settings | {"seed": seed}
        elif dataset == "llm_jury":
            settings = settings | {"jury": JUDGES[seed % len(JUDGES)]}
        data = settings | {"sample": sample | {"n_tasks": size, "seed": seed}}
        return Run(dataset, "xconal", seed, "own", data, {"epochs": "auto"}, keep=("two_stage",))

    def table(self, store: Store) -> pa.Table:
        """A row per crowd: shares of right labels, and of other tasks that are classified rightly."""
        rows = []
        for crowd, size, seed in self.points():
            found = store.require(self._run(crowd, size, seed))
            row = {"row": crowd, "tasks": size, "seed": seed} | {kind: found[kind] for kind in KINDS}
            rivals = found["two_stage"]
            rows.append(row | {f"{name} {kind}": rivals[name][kind] for name in TWO_STAGE for kind in KINDS})
        return pa.Table.from_pylist(rows)

    def page(self, table: pa.Table) -> str:
        """Accuracy, and the paired difference with its interval."""
        text = notes(
            "`xconal` with its defaults, against Dawid-Skene or majority vote, and scikit-learn's `LogisticRegression` "
            "with its defaults, trained on the result with the features as they are.",
            f"{n_seeds(table)} crowds each: {self.story}.",
            "*Cleaned labels* are those of the tasks that were labelled, *other tasks* are tasks of the same crowd "
            f"that were not drawn. Accuracy in percent; differences in points. {RULE} \\* marks those that are not "
            "level.",
            "Some defaults of `xconal` were chosen on crowds like these, though not on these draws.",
        )
        rows = table.to_pylist()
        parts = [text]
        for kind, title in KINDS.items():
            header = ["", "tasks", "`xconal`"]
            header += [label for name in TWO_STAGE for label in (f"`{name}`", "difference")]
            groups = _groups(rows)
            gaps = _gaps(groups, kind)
            body = [
                [at[0], str(at[1]), *_cells(some, kind, {name: gaps[*at, name] for name in TWO_STAGE})]
                for at, some in groups.items()
            ]
            parts += [f"## {title.capitalize()}", markdown(header, body)]
        return self.document(*parts)


@register("sizes")
class Sizes(Small):
    """The same comparison as the number of tasks grows, with and without common mistakes."""

    title = "From 300 to 20,000 tasks"
    crowds: ClassVar[dict[str, Crowd]] = LARGE
    sizes: ClassVar[tuple[int, ...]] = (300, 1_000, 5_000, 20_000)
    n_crowds: ClassVar[int] = 10
    story: ClassVar[str] = (
        "simulated ones of six classes and 100 features, three labels per task by 100 annotators, with the noise of "
        "the generator's defaults and either no common mistakes or strong ones"
    )


def two_stage_gaps(table: pa.Table, kind: str) -> dict[tuple[str, int, str], Difference]:
    """`xconal` minus every other way, by crowd, number of tasks and way, corrected for all of them."""
    return _gaps(group_by(table.to_pylist(), "row", "tasks"), kind)


def _gaps(groups: dict[tuple[str, Any], list[Row]], kind: str) -> dict[tuple[str, Any, str], Difference]:
    return corrected({(*at, name): _gap(some, name, kind) for at, some in groups.items() for name in TWO_STAGE})


def _groups(rows: list[Row]) -> dict[tuple[str, Any], list[Row]]:
    """Rows by crowd and size, by size, and all."""
    pooled = {(ALL, size): some for size, some in group_by(rows, "tasks").items()}
    return group_by(rows, "row", "tasks") | pooled | {(ALL, ALL): rows}


def _cells(rows: list[Row], kind: str, gaps: dict[str, Difference]) -> list[str]:
    cells = [_percent(rows, kind)]
    for name, gap in gaps.items():
        cells += [_percent(rows, f"{name} {kind}"), gap.starred]
    return cells


def _percent(rows: list[Row], name: str) -> str:
    return f"{100 * np.mean(column(rows, name)):.1f}"


def _gap(rows: list[Row], name: str, kind: str) -> Difference:
    """Over crowds: a smaller part of a crowd is part of the larger, so that its sizes count as one."""
    crowds = group_by(rows, "row", "seed").values()
    ours, theirs = ([float(np.mean(column(some, which))) for some in crowds] for which in (kind, f"{name} {kind}"))
    return paired_difference((ours, theirs))
