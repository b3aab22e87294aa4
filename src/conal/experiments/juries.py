"""Juries of language models: aggregators, models of families, classifiers with texts, and what true labels can do."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from scipy.stats import t as student

from conal import aggregation
from conal.data.encoding import as_names, decode_position
from conal.datasets.base import CrowdDataset
from conal.datasets.label_sets import JUDGES
from conal.datasets.llm_jury import llm_jury
from conal.errors import ConalWarning
from conal.estimator import make
from conal.experiments.aggregators import NEEDS_TRUTH
from conal.experiments.base import Experiment, register
from conal.experiments.stacked_votes import stacked_votes
from conal.experiments.store import Store
from conal.experiments.tables import Row, column, group_by, markdown, n_seeds, notes

__all__ = ["Juries", "family", "intervals"]

FloatArray = npt.NDArray[np.float64]
Right = FloatArray
"""(N,) 1 for tasks whose inferred label is right, 0 for others, NaN for those that are not judged."""
Way = Callable[[CrowdDataset, int], Right]

BASE = "`dawid-skene`"
ORACLE = "best judge, picked by true labels"
STACKED, N_TRUE = "stacked votes, 50 true labels", 50
ALL = "all juries"
DRAWS = 2000
ENDS = ("items_low", "items_high", "juries_low", "juries_high")
FAMILIES = {"flan-": "flan", "text-": "text"}
"""How the names of a family of models begin."""


def family(judge: str) -> str:
    """The family of a language model.

    >>> family("flan-ul2"), family("text-ada-001"), family("chatgpt")
    ('flan', 'text', 'chatgpt')
    """
    return next((name for start, name in FAMILIES.items() if judge.startswith(start)), judge)


@register("juries")
class Juries(Experiment):
    """Labels of eight juries, with and without families, texts and true labels, with two kinds of intervals."""

    title = "Juries of language models"
    minutes = 12.0

    def table(self, store: Store) -> pa.Table:
        """A row per jury, way and seed; then, per way, its difference from Dawid-Skene over all juries."""
        names = JUDGES[:2] if self.quick else JUDGES
        rows: list[Row] = []
        right: dict[str, list[Right]] = {way: [] for way in self.ways()}
        for name in names:
            data = llm_jury(jury=name)
            for way, (infer, seeds) in self.ways().items():
                found = _by_seeds(partial(infer, data), seeds)
                accuracies = _mean(found.T).tolist()
                rows += [_row(name, way, seed, each) for seed, each in zip(seeds, accuracies, strict=True)]
                right[way].append(_mean(found))
        rng = np.random.default_rng(0)
        rows += [_row(ALL, way, 0, **intervals(right[way], right[BASE], rng)) for way in right]
        return pa.Table.from_pylist(rows)

    def ways(self) -> dict[str, tuple[Way, Sequence[int]]]:
        """Every way to infer labels, with the seeds that it is tried with."""
        found: dict[str, tuple[Way, Sequence[int]]] = {}
        for name in aggregation.names():
            if name not in NEEDS_TRUTH and not aggregation.get(name).ordered:
                random = "seed" in aggregation.get(name).parameter_names()
                found[f"`{name}`"] = partial(_aggregated, name), self.seeds if random else range(1)
        found["`group-confusion`, families given"] = partial(_aggregated, "group-confusion", families=True), self.seeds
        if find_spec("crowdkit") is not None:
            found["crowd-kit's Dawid-Skene"] = _by_crowd_kit, range(1)
        found["`xconal` with the texts"] = partial(_classified), self.seeds
        found["`xconal` with the texts, families given"] = partial(_classified, families=True), self.seeds
        found[ORACLE] = _by_the_best, range(1)
        found[STACKED] = _stacked, self.seeds
        return found

    def page(self, table: pa.Table) -> str:
        """A line per way and a column per jury, with the difference from Dawid-Skene and its intervals."""
        rows = table.to_pylist()
        ways = group_by((row for row in rows if row["row"] != ALL), "method")
        left_out = "" if any("crowd-kit" in way for way in ways) else " crowd-kit is not installed, so it is left out."
        left_out += "" if any("texts" in way for way in ways) else " The classifiers with texts were not run."
        text = notes(
            f"Share of right labels in percent, mean of {n_seeds(table)} seeds, on {len(group_by(rows, 'row')) - 1} "
            "juries of 12 or 13 language models (`llm-judges`). Families are those of the models' names: flan, text "
            f"and chatgpt.{left_out}",
            "No true label is used, except by the last two: *best judge* is the model that is right most often, and "
            f"*stacked votes* a logistic regression on the labels of {N_TRUE} random tasks whose true labels are "
            "known, judged on the others.",
            f"The difference from {BASE} has two 95 % intervals: by a bootstrap over the items of every jury, for "
            "these juries, and by Student's distribution over the juries, for others. They are not corrected for "
            "several comparisons.",
        )
        juries = [name for name in group_by(rows, "row") if name != ALL]
        total = {row["method"]: row for row in rows if row["row"] == ALL}
        body = [[way, *_cells(some, juries), *_difference(total[way])] for way, some in ways.items()]
        return self.document(text, markdown(["", *juries, "mean", "difference", "by items", "by juries"], body))


def intervals(ours: Sequence[Right], theirs: Sequence[Right], rng: np.random.Generator) -> dict[str, float]:
    """Mean over juries of the difference in accuracy, with 95 % intervals for these juries and for others.

    For these, items are drawn again within every jury; for others, the juries' differences are a sample of
    Student's distribution. Items that one of both was not judged on are left out.

    >>> one, two = [np.array([1.0, 1.0, 0.0]), np.array([1.0, 0.0])], [np.array([1.0, 0.0, 0.0]), np.array([1.0, 0.0])]
    >>> found = intervals(one, two, np.random.default_rng(0))
    >>> round(found["gap"], 3), found["items_low"], round(found["juries_high"], 3)
    (0.167, 0.0, 2.284)
    """
    gaps = [(a - b)[np.isfinite(a - b)] for a, b in zip(ours, theirs, strict=True)]
    means = np.array([gap.mean() for gap in gaps])
    by_items = np.mean(
        [rng.multinomial(len(gap), np.full(len(gap), 1 / len(gap)), size=DRAWS) @ gap / len(gap) for gap in gaps],
        axis=0,
    )
    half = student.ppf(0.975, len(means) - 1) * means.std(ddof=1) / np.sqrt(len(means))
    ends = [*np.quantile(by_items, (0.025, 0.975)), means.mean() - half, means.mean() + half]
    return {"gap": float(means.mean())} | dict(zip(ENDS, map(float, ends), strict=True))


# ---------------------------------------------------------------- ways to infer labels


def _by_seeds(infer: Callable[[int], Right], seeds: Sequence[int]) -> FloatArray:
    """(S, N) the answers with every seed; where two seeds make no difference, the others are not tried."""
    found: list[Right] = []
    for seed in seeds:
        still = len(found) == 2 and np.array_equal(found[0], found[1], equal_nan=True)
        found.append(found[0] if still or (len(found) > 2 and found[2] is found[0]) else infer(seed))
    return np.stack(found)


def _aggregated(name: str, data: CrowdDataset, seed: int, *, families: bool = False) -> Right:
    settings = {"seed": seed, "verbose": False}
    known = aggregation.get(name).parameter_names()
    aggregator = aggregation.make(name, **{key: value for key, value in settings.items() if key in known})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConalWarning)
        fitted = aggregator.fit(data.annotations, annotator_info=_info(data) if families else None)
    return _right(fitted.codes_, data)


def _classified(data: CrowdDataset, seed: int, *, families: bool = False) -> Right:
    clf = make("xconal", seed=seed, verbose=False)
    texts = pa.table({"task": data.annotations.task_ids.tolist(), "text": data.x.tolist()})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConalWarning)
        clf.fit(texts, data.annotations, annotator_info=_info(data) if families else None)
    return _right(clf.probas_.argmax(1), data)


def _by_crowd_kit(data: CrowdDataset, seed: int) -> Right:
    from crowdkit.aggregation import DawidSkene

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its way with pandas
        labels: Mapping[Any, Any] = DawidSkene().fit_predict(data.annotations.to_table().to_pandas()).to_dict()
    found = as_names([labels[task] for task in data.annotations.task_ids.tolist()])
    return _right(decode_position(data.classes, found), data)


def _by_the_best(data: CrowdDataset, seed: int) -> Right:
    """The judge who is right most often, by true labels; a task that this judge skipped is wrong."""
    matrix = data.annotations.to_matrix()
    right = matrix == data.y_true[:, None]
    return np.asarray(right[:, right.mean(0).argmax()], dtype=np.float64)


def _stacked(data: CrowdDataset, seed: int) -> Right:
    rows = np.random.default_rng(seed).choice(len(data.y_true), N_TRUE, replace=False)
    right = _right(stacked_votes(data.annotations, rows, data.y_true[rows]).argmax(1), data)
    right[rows] = np.nan
    return right


def _right(codes: npt.NDArray[np.int64], data: CrowdDataset) -> Right:
    return np.asarray(codes == data.y_true, dtype=np.float64)


def _info(data: CrowdDataset) -> pa.Table:
    judges = data.annotations.annotator_ids.tolist()
    return pa.table({"worker": judges, "group": [family(judge) for judge in judges]})


# ---------------------------------------------------------------- rows


def _mean(found: FloatArray) -> FloatArray:
    """Means over the first axis of what was judged; NaN where nothing was."""
    judged = np.isfinite(found).sum(0)
    return np.where(judged > 0, np.nansum(found, axis=0) / np.maximum(judged, 1), np.nan)


def _row(name: str, way: str, seed: int, accuracy: float | None = None, **figures: float) -> Row:
    return {"row": name, "method": way, "seed": seed, "accuracy": accuracy} | dict.fromkeys(("gap", *ENDS)) | figures


def _cells(rows: list[Row], juries: list[str]) -> Iterator[str]:
    by = group_by(rows, "row")
    means = [100 * float(np.mean(column(by[name], "accuracy"))) for name in juries]
    yield from (f"{mean:.1f}" for mean in [*means, float(np.mean(means))])


def _difference(row: Row) -> list[str]:
    low, high, *juries = (100 * row[end] for end in ENDS)
    return [f"{100 * row['gap']:+.1f}", f"{low:+.1f} to {high:+.1f}", f"{juries[0]:+.1f} to {juries[1]:+.1f}"]
