"""An attack on anonymous model folders: whoever knows the labels and their authors looks for the authors' figures."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.csv as pv
from safetensors.numpy import load_file
from scipy.optimize import linear_sum_assignment

from conal.data.annotations import Annotations

__all__ = ["linked"]

FloatArray = npt.NDArray[np.float64]


def linked(folder: Path, crowd: Annotations) -> dict[Any, Any]:
    """Pseudonym to the author that fits best, by every figure about a pseudonym in the folder.

    Every figure that a label file allows to recompute is compared with that of every author, as are all rows of all
    tensors with what they can be made from. Distances of all figures are added, and pseudonyms assigned to authors so
    that the sum is least; a pseudonym that fits one author exactly is assigned to that one.
    """
    known = _Knowledge(folder, crowd)
    pseudonyms = json.loads((folder / "config.json").read_text(encoding="utf-8"))["annotator_ids"]
    distances = np.zeros((len(pseudonyms), crowd.n_annotators))
    exact: dict[Any, Any] = {}
    for seen, made in _figures(folder, pseudonyms, known):
        apart = np.abs(seen[:, None] - made[None]).reshape(len(seen), len(made), -1).mean(2)
        apart = np.where(np.isnan(apart), np.nanmean(apart) if np.isfinite(apart).any() else 0.0, apart)
        distances += apart / max(np.median(apart), 1e-12)
        for k, row in enumerate(apart):
            (same,) = np.nonzero(row < 1e-6)
            if len(same) == 1:
                exact[pseudonyms[k]] = crowd.annotator_ids[same[0]]
    rows, columns = linear_sum_assignment(distances)
    assigned = {pseudonyms[k]: crowd.annotator_ids[r] for k, r in zip(rows, columns, strict=True)}
    return assigned | exact


class _Knowledge:
    """What the label file and the tasks' table say about every author."""

    def __init__(self, folder: Path, crowd: Annotations) -> None:
        table = pv.read_csv(folder / "labels.csv")
        row = {str(task): k for k, task in enumerate(table["task"].to_pylist())}
        at = np.array([row[str(task)] for task in crowd.task_ids.tolist()])[crowd.tasks]
        self.q = np.column_stack([table[f"proba_{name}"].to_numpy() for name in crowd.classes.tolist()])[at]
        cleaned = np.array([str(label) for label in table["label"].to_pylist()])[at]
        agrees = cleaned == np.array([str(name) for name in crowd.classes.tolist()])[crowd.labels]
        R, C = crowd.n_annotators, crowd.n_classes
        self.labels = crowd.labels_per_annotator().astype(float)
        self.counts = np.zeros((R, C, C))
        for worker, label, q in zip(crowd.annotators, crowd.labels, self.q, strict=True):
            self.counts[worker, :, label] += q
        self.met = self.counts.sum(2)
        self.given = self.counts.sum(1)
        share = np.bincount(crowd.annotators, weights=agrees, minlength=R)
        self.agreement = share / np.maximum(self.labels, 1)
        common = pv.read_csv(folder / "common_confusion.csv")
        self.common = np.column_stack([common[str(name)].to_numpy() for name in crowd.classes.tolist()])
        self.matrices = (self.counts + self.common) / (self.met[:, :, None] + 1)  # one pseudo-label in every row
        self.quality = (self.met * np.diagonal(self.matrices, axis1=1, axis2=2)).sum(1) / np.maximum(self.labels, 1)


def _figures(folder: Path, pseudonyms: list[Any], known: _Knowledge) -> Iterator[tuple[FloatArray, FloatArray]]:
    """(P, ...) figures of the pseudonyms, NaN where there are none, and the same (R, ...) of the authors."""
    table = {row["worker"]: row for row in pv.read_csv(folder / "annotators.csv").to_pylist()}
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    section = {row["worker"]: row for row in report["annotators"]["rows"]}
    C = known.met.shape[1]
    expected = known.labels * (1 - known.quality)
    of_authors: dict[str, FloatArray] = {
        "num_examples_labeled": known.labels,
        "agreement_with_consensus": known.agreement,
        "annotator_quality": known.quality,
        "expected_mistakes": expected,
        "classes_met": known.met,
        "matrix": known.matrices,
    }
    for name, made in of_authors.items():
        for rows in (table, section):
            empty = np.full(made.shape[1:], np.nan)
            found = [rows.get(person, {}).get(name) for person in pseudonyms]
            yield np.array([empty if value is None else value for value in found], dtype=float), made
    # Tensors: whatever has a row per pseudonym is compared with all that has its shape.
    candidates = [known.labels, known.quality, known.met, known.given, known.counts, known.matrices]
    centred = known.matrices - known.matrices.mean(0)
    for tensor in load_file(folder / "model.safetensors").values():
        for axis in (k for k, size in enumerate(tensor.shape) if size == len(pseudonyms)):
            values = np.moveaxis(tensor.astype(float), axis, 0).squeeze()
            values = values[None] if len(pseudonyms) == 1 else values
            yield from ((values, made) for made in candidates if made.shape[1:] == values.shape[1:])
            if values.shape[1:] == (C, C):  # layers: how they differ from the others'
                yield values - values.mean(0), centred
