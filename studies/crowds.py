"""Crowds of the studies: public label sets, juries of language models with their texts, parts of datasets, attacks."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from conal import datasets
from conal._arrays import IntArray
from conal.aggregation import DawidSkene
from conal.data.annotations import Annotations
from conal.data.encoding import MISSING
from conal.datasets import CrowdDataset, Split
from conal.datasets.base import Folder, data_folder, require_files
from conal.errors import InputError
from conal.metrics.suspicion import defended

PEOPLE = ("bluebird", "dog", "face", "product", "sentiment")
JUDGES = (
    *("conv_go_awry", "discourse", "emotion", "flute", "persuasion", "raop", "semeval_stance"),
    "wiki_politeness",
)
"""Juries of 12 or 13 language models (Ziems et al. 2024, Computational Linguistics 50)."""
LABEL_SETS = (*PEOPLE, *JUDGES)
FILES, TEXTS = ("label.csv", "truth.csv"), "texts.csv"


def load(name: str, data: dict[str, Any]) -> CrowdDataset:
    """A dataset with its settings, kept for the next run of this process.

    Juries go by their own names. ``data["sample"]`` are the arguments of :func:`sampled`, for a part of the dataset.
    """
    return _load(name, json.dumps(data, sort_keys=True))


@lru_cache(maxsize=4)
def _load(name: str, settings: str) -> CrowdDataset:
    options = json.loads(settings)
    part = options.pop("sample", None)
    if name in JUDGES:
        data = llm_jury(jury=name)
    elif name in ("attacked", "llm_jury"):
        data = (attacked if name == "attacked" else llm_jury)(**options)
    else:
        data = datasets.load(name, **options)
    return data if part is None else sampled(data, **part)


def label_set(name: str, folder: Folder = None) -> tuple[pa.Table, dict[str, str]]:
    """The labels of a crowd, in columns task, worker and label, and the true labels of its tasks; all of them text.

    The folder has label.csv and truth.csv; by default it is ``aggregation/NAME`` (people) or ``llm-judges/NAME`` below
    the data folder (:func:`conal.datasets.base.data_folder`).
    """
    if name not in LABEL_SETS:
        raise InputError(f"no label set {name!r}; there are {', '.join(LABEL_SETS)}")
    root = _place(name, folder, FILES)
    tasks, workers, labels = _columns(root / FILES[0])
    table = pa.table({"task": tasks, "worker": workers, "label": labels})
    labelled, truth = set(tasks), dict(zip(*_columns(root / FILES[1]), strict=True))
    return table, {task: label for task, label in truth.items() if task in labelled}


def true_codes(crowd: Annotations, truth: dict[str, str]) -> IntArray:
    """(N,) true classes of a label set's tasks; -1 where they are not known, or are classes that nobody used."""
    code_of = {name: code for code, name in enumerate(crowd.classes.tolist())}
    return np.array([code_of.get(truth.get(task, ""), MISSING) for task in crowd.task_ids.tolist()], dtype=np.int64)


def llm_jury(folder: Folder = None, *, jury: str = "emotion") -> CrowdDataset:
    """Texts labelled by a jury of language models: 399 to 500 texts of each of eight kinds, without test data.

    >>> llm_jury(jury="chess")
    Traceback (most recent call last):
    ...
    conal.errors.InputError: no jury 'chess'; there are conv_go_awry, discourse, emotion, flute, persuasion, raop, ...
    """
    if jury not in JUDGES:
        raise InputError(f"no jury {jury!r}; there are {', '.join(JUDGES)}")
    labels, truth = label_set(jury, folder)
    texts = dict(zip(*_columns(_place(jury, folder, (TEXTS,)) / TEXTS), strict=True))
    crowd = Annotations.of(labels)
    codes, names = true_codes(crowd, truth), crowd.task_ids.tolist()
    kept = [row for row, task in enumerate(names) if task in texts and codes[row] >= 0]
    x = np.array([texts[names[row]] for row in kept], dtype=object)
    return CrowdDataset("llm_jury", x, crowd[kept], codes[kept])


def _place(name: str, folder: Folder, files: tuple[str, ...]) -> Path:
    """The folder of a crowd, which has these files."""
    root = data_folder(f"{'aggregation' if name in PEOPLE else 'llm-judges'}/{name}", folder)
    require_files(root, files, "its archive")
    return root


def _columns(path: Path) -> list[list[str]]:
    """The columns of a CSV file below its header."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))[1:]
    return [list(column) for column in zip(*rows, strict=True)]


def attacked(*, defend: bool = False, **settings: Any) -> CrowdDataset:
    """The synthetic dataset with annotators who mean harm; with ``defend``, the labels that a defence leaves.

    The truth behind the crowd is left out: it is that of labels by independent annotators.
    """
    data = datasets.synthetic(**settings)
    crowd = data.annotations
    if defend and data.truth is not None and data.truth.adversaries is not None:
        posterior = DawidSkene(verbose=False).fit(crowd).probas_
        crowd = defended(crowd, posterior, times=data.truth.adversaries.time).annotations
    return replace(data, name="attacked", annotations=crowd, truth=None)


def sampled(data: CrowdDataset, n_tasks: int, *, seed: int = 0, shares: Sequence[float] | None = None) -> CrowdDataset:
    """Some labelled training tasks of a dataset, with all their labels; the other labelled tasks are its test data.

    With ``shares``, these are the shares of the true classes among the drawn tasks and the test data.

    >>> few = sampled(datasets.synthetic(n_train=200, n_classes=2, seed=1), 50, seed=3, shares=(0.9, 0.1))
    >>> len(few.x), np.bincount(few.y_true).tolist()
    (50, [45, 5])
    """
    order = np.random.default_rng(seed).permutation(np.flatnonzero(data.annotations.labels_per_task()))
    if n_tasks > len(order):
        raise InputError(f"{data.name}: has {len(order):,} labelled tasks, of which {n_tasks:,} cannot be drawn")
    drawn = order[:n_tasks] if shares is None else _by_class(order, data.y_true, n_tasks, shares)
    rest = np.setdiff1d(order, drawn)
    if shares is not None:  # as many as there are; one less per class, for rounding
        there = np.bincount(data.y_true[rest], minlength=len(shares))
        most = int(min((n - 1) / share for n, share in zip(there, shares, strict=True) if share > 0))
        rest = _by_class(rest, data.y_true, most, shares)
    test = Split(data.x[rest], data.y_true[rest])
    return CrowdDataset(data.name, data.x[drawn], data.annotations[drawn], data.y_true[drawn], test=test)


def _by_class(order: IntArray, y: IntArray, n_tasks: int, shares: Sequence[float]) -> IntArray:
    """The first tasks in this order of every class, as many as its share says."""
    counts = np.diff(np.round(n_tasks * np.cumsum(shares)).astype(int), prepend=0)
    found = [order[y[order] == c][:count] for c, count in enumerate(counts)]
    if any(len(each) < count for each, count in zip(found, counts, strict=True)):
        raise InputError(f"there are fewer tasks of a class than the shares say, {counts.tolist()}; draw fewer")
    return np.concatenate(found)
