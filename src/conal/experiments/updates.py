"""Labels that come in parts: updates beside refits, and what the common confusion says about unseen annotators."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from conal import aggregation, datasets
from conal.aggregation.votes import normalised
from conal.data.annotations import Annotations
from conal.datasets.base import CrowdDataset
from conal.errors import ConalWarning
from conal.estimator import make
from conal.experiments.base import Experiment, register
from conal.experiments.comparisons import RULE, Difference, corrected, paired_difference
from conal.experiments.store import Store
from conal.experiments.tables import Row, column, group_by, markdown

__all__ = ["Updates"]

PARTS = 10
UNSEEN = 10
"""Annotators whose labels are held out."""
METHOD = "xconal"
HEARD = ("common", "majority", "uniform")
FloatArray = npt.NDArray[np.float64]


@register("updates")
class Updates(Experiment):
    """LabelMe in ten parts: a classifier that is updated with each, beside one that is fitted again."""

    title = "Labels that come in parts"
    minutes = 15.0

    def table(self, store: Store) -> pa.Table:
        """A row per seed and part, and per seed and way to hear unseen annotators."""
        data = datasets.load("labelme")
        epochs = {"epochs": 10} if self.quick else {}
        rows = [row for seed in self.seeds for row in revealed(data, seed, epochs)]
        return pa.Table.from_pylist([*rows, *(row for seed in range(5) for row in unseen(data, seed))])

    def page(self, table: pa.Table) -> str:
        """Accuracy after each part, its difference, and the share of the time; likelihoods."""
        rows = table.to_pylist()
        parts = [row for row in rows if row["row"] == "parts"]
        seeds = len(set(column(parts, "seed")))
        text = (
            f"The labels of LabelMe in {PARTS} random parts. `{METHOD}` is fitted to the first and updated with each "
            f"of the others; beside it, a fit to all labels so far. Accuracy on the test set, means of {seeds} seeds; "
            f"differences in points, starred unless they are level. {RULE} Time is CPU time of the "
            "update over that of the fit."
        )
        header = ["labels", "update", "fit", "difference", "share of the time"]
        by_part = dict(sorted(group_by(parts, "part").items()))
        gaps = corrected(
            {k: paired_difference((column(by_part[k], "update"), column(by_part[k], "fit"))) for k in by_part}
        )
        body = [_line(some, gaps[part]) for part, some in by_part.items()]
        return self.document(text, markdown(header, body), *_page_of_unseen(rows))


def revealed(data: CrowdDataset, seed: int, settings: dict[str, Any]) -> Iterator[Row]:
    """The labels in random parts: after each, accuracy and CPU time of an update and of a fit to all so far."""
    crowd = data.annotations
    part = np.random.default_rng(seed).permutation(crowd.n_annotations) % PARTS
    assert data.test is not None  # noqa: S101 - LabelMe has a test set
    test = data.test.x, data.classes[data.test.y]
    updated: Any = None
    for k in range(PARTS):
        so_far = _labelled(crowd, part <= k)
        again, fit_seconds = _timed(lambda: _fitted(data, so_far, seed, settings))  # noqa: B023
        if updated is None:
            updated, seconds = _quietly(lambda: _fitted(data, so_far, seed, settings)), fit_seconds  # noqa: B023
        else:
            _, seconds = _timed(lambda: updated.update(data.x, _labelled(crowd, part == k)))  # noqa: B023
        yield {
            "row": "parts",
            "part": k + 1,
            "seed": seed,
            "labels": so_far.n_annotations,
            "update": float(updated.score(*test)),
            "fit": float(again.score(*test)),
            "share": seconds / fit_seconds,
            "heard": None,
            "log_likelihood": None,
        }


def unseen(data: CrowdDataset, seed: int) -> Iterator[Row]:
    """Mean log-likelihood of the labels of annotators whom nobody has seen, in three ways to hear them."""
    crowd = data.annotations
    counts = crowd.labels_per_annotator()
    held = np.random.default_rng(seed).choice(np.flatnonzero(counts >= UNSEEN), UNSEEN, replace=False)
    mine = np.isin(crowd.annotators, held)
    rest = crowd.select(~mine)
    asked = np.flatnonzero(mine & (rest.labels_per_task()[crowd.tasks] > 0))
    tasks, labels = crowd.tasks[asked], crowd.labels[asked]
    model: Any = _quietly(lambda: aggregation.make("common-confusion", verbose=False).fit(rest))
    C = crowd.n_classes
    votes = normalised(rest.votes().astype(np.float64) + 1 / C)[tasks, labels]
    newcomers = model._newcomers(model.learned_.parameters, model._sums_of(rest).counts, 1)
    common = np.exp(model._log_parts(newcomers).pi_r[-1])
    heard = {
        "common": np.einsum("nc,cn->n", model.probas_[tasks], common[:, labels]),
        "majority": votes,
        "uniform": np.full(len(labels), 1 / C),
    }
    for name in HEARD:
        score = float(np.log(heard[name]).mean())
        empty = dict.fromkeys(("part", "labels", "update", "fit", "share"))
        yield {"row": "unseen", "seed": seed, **empty, "heard": name, "log_likelihood": score}


def _fitted(data: CrowdDataset, crowd: Annotations, seed: int, settings: dict[str, Any]) -> Any:
    made = make(METHOD, seed=seed, verbose=False, **settings)
    return made.fit(data.x[crowd.task_ids], crowd, task_ids=crowd.task_ids)


def _labelled(crowd: Annotations, kept: npt.NDArray[np.bool_]) -> Annotations:
    """These labels, and no tasks or annotators without any."""
    some = crowd.select(kept)
    table = some.to_table()
    return Annotations.from_triples(*(table[role] for role in ("task", "worker", "label")), classes=crowd.classes)


def _timed(work: Callable[[], Any]) -> tuple[Any, float]:
    began = time.process_time()
    found = _quietly(work)
    return found, time.process_time() - began


def _quietly(work: Callable[[], Any]) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConalWarning)
        return work()


def _line(rows: list[Row], gap: Difference) -> list[str]:
    update, fit = (100 * np.array(column(rows, name)) for name in ("update", "fit"))
    first = rows[0]["part"] == 1
    share = "" if first else f"{np.mean(column(rows, 'share')):.2f}"
    return [f"{rows[0]['labels']:,}", f"{update.mean():.2f}", f"{fit.mean():.2f}", gap.starred, share]


def _page_of_unseen(rows: list[Row]) -> list[str]:
    by = group_by((row for row in rows if row["row"] == "unseen"), "heard")
    text = (
        f"The labels of {UNSEEN} random annotators of LabelMe with {UNSEEN} labels or more, held out; five draws. Mean "
        "log-likelihood of their labels, by what `common-confusion` has learned from all others: the posterior of the "
        "task and the crowd's confusion, as an update hears new annotators; by the votes of the others on the task, "
        "with one vote spread over all classes; and by equal chances."
    )
    ours = column(by["common"], "log_likelihood")
    body = []
    for name in HEARD:
        theirs = column(by[name], "log_likelihood")
        beside = "" if name == "common" else paired_difference((theirs, ours), scale=1).written(3)
        body.append([name, f"{np.mean(theirs):.3f}", beside])
    return [
        "## Annotators nobody has seen",
        text,
        markdown(["heard by", "log-likelihood per label", "difference"], body),
    ]
