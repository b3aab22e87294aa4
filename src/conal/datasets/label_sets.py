"""Public crowds of which labels and true labels are known: people, and language models with the texts they judged."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from conal.data.annotations import Annotations
from conal.data.encoding import MISSING
from conal.datasets.base import Folder, data_folder
from conal.datasets.files import require_files
from conal.errors import InputError

__all__ = ["JUDGES", "LABEL_SETS", "PEOPLE", "jury_texts", "label_set", "true_codes"]

PEOPLE = ("bluebird", "dog", "face", "product", "sentiment")
JUDGES = (
    "conv_go_awry",
    "discourse",
    "emotion",
    "flute",
    "persuasion",
    "raop",
    "semeval_stance",
    "wiki_politeness",
)
LABEL_SETS = (*PEOPLE, *JUDGES)
"""Five crowds of people and eight juries of 12 or 13 language models."""

FILES = ("label.csv", "truth.csv")
TEXTS = "texts.csv"


def label_set(name: str, folder: Folder = None) -> tuple[pa.Table, dict[str, str]]:
    """The labels of a crowd, in columns task, worker and label, and the true labels of its tasks; all of them text.

    Parameters
    ----------
    name : str
        One of ``LABEL_SETS``.
    folder : path, optional
        The folder with label.csv and truth.csv; by default ``aggregation/NAME`` (people) or ``llm-judges/NAME`` below
        the data folder (:func:`conal.datasets.base.data_folder`).

    References
    ----------
    Ziems, Held, Shaikh, Chen, Zhang and Yang (2024). Can large language models transform computational social science?
    Computational Linguistics 50 (the juries).
    """
    if name not in LABEL_SETS:
        raise InputError(f"no label set {name!r}; there are {', '.join(LABEL_SETS)}")
    root = _place(name, folder, FILES)
    tasks, workers, labels = _columns(root / FILES[0])
    table = pa.table({"task": tasks, "worker": workers, "label": labels})
    labelled, truth = set(tasks), dict(zip(*_columns(root / FILES[1]), strict=True))
    return table, {task: label for task, label in truth.items() if task in labelled}


def true_codes(crowd: Annotations, truth: dict[str, str]) -> npt.NDArray[np.int64]:
    """(N,) true classes of a label set's tasks; -1 where they are not known, or are classes that nobody used."""
    code_of = {name: code for code, name in enumerate(crowd.classes.tolist())}
    return np.array([code_of.get(truth.get(task, ""), MISSING) for task in crowd.task_ids.tolist()], dtype=np.int64)


def jury_texts(name: str, folder: Folder = None) -> dict[str, str]:
    """What a jury of language models has classified: texts by task; ``folder`` as for :func:`label_set`."""
    return dict(zip(*_columns(_place(name, folder, (TEXTS,)) / TEXTS), strict=True))


def _place(name: str, folder: Folder, files: tuple[str, ...]) -> Path:
    """The folder of a crowd, which has these files."""
    kind = "aggregation" if name in PEOPLE else "llm-judges"
    root = data_folder(f"{kind}/{name}", folder)
    require_files(root, files, "its archive")
    return root


def _columns(path: Path) -> list[list[str]]:
    """The columns of a CSV file below its header."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))[1:]
    return [list(column) for column in zip(*rows, strict=True)]
