"""Which training tasks get a true label: at random, or as ``conal plan --experts`` draws them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from conal.data.encoding import as_names, decode_position
from conal.data.true_labels import INCLUSION
from conal.datasets import CrowdDataset
from conal.estimator import CrowdClassifier
from conal.findings.expert_plan import expert_plan

__all__ = ["Draw", "planned_draw", "random_draw"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

GOLD_STREAM = 17
"""Keeps the draws of tasks apart from whatever else a seed decides."""


class Draw(NamedTuple):
    """Tasks whose true labels are known, and the probabilities by which they were drawn; None if at random."""

    rows: IntArray
    inclusion: FloatArray | None = None

    def table(self, data: CrowdDataset) -> pa.Table | None:
        """The true labels, as an expert's table; None if there are none."""
        if not len(self.rows):
            return None
        columns: dict[str, Any] = {"task": data.annotations.task_ids[self.rows].tolist()}
        columns["label"] = data.classes[data.y_true[self.rows]].tolist()
        return pa.table(columns if self.inclusion is None else columns | {INCLUSION: self.inclusion})


def random_draw(data: CrowdDataset, n: int, seed: int) -> Draw:
    """Random labelled tasks; with the same seed, a larger draw contains the smaller ones."""
    labelled = np.flatnonzero(data.annotations.labels_per_task())
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(GOLD_STREAM,)))
    return Draw(np.sort(rng.permutation(labelled)[:n]))


def planned_draw(fitted: CrowdClassifier, data: CrowdDataset, n: int, seed: int) -> Draw:
    """The tasks that ``conal plan --experts`` draws, by a model that knows no true label."""
    silent = data.annotations.labels_per_task() == 0
    plan = expert_plan(fitted.tables_["labels.csv"], n, seed=seed, leave_out=silent)
    rows = decode_position(data.annotations.task_ids, as_names(plan["task"].to_pylist()))
    order = np.argsort(rows)
    return Draw(rows[order], np.asarray(plan[INCLUSION].to_numpy())[order])
