"""Folders of the golden set: what `conal fit` and `conal aggregate` write, as plain data."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file

import conal
from conal.io import write_annotations
from helpers.commands import run_line
from helpers.files import write_csv

__all__ = ["COMMANDS", "run"]

COMMANDS = {
    "fit": "conal fit labels.csv --features features.npy --true-labels gold.csv --out fit --epochs 2 --seed 0"
    " --set hidden=[4] --set refits=0 -q",
    "aggregate": "conal aggregate labels.csv --out aggregate/labels.csv --annotators aggregate/annotators.csv"
    " --report aggregate/report -q",
}
VOLATILE = re.compile(
    r"version|seconds|date|time|python|torch|machine|digest|sha|command|created|commit|path|bytes|^when$"
)
"""Keys of JSON files and columns of tables whose values differ between machines and days."""


def write_inputs() -> None:
    """Labels, features and a few true labels, in the current folder."""
    data = conal.datasets.synthetic(
        n_train=40,
        n_valid=4,
        n_test=4,
        n_features=3,
        n_classes=3,
        n_annotators=5,
        seed=1,
        gate="interaction",
        gate_scale="wide",
    )
    write_annotations(data.annotations, Path("labels.csv"))
    np.save("features.npy", data.x)
    write_csv(Path("gold.csv"), ("task", "label"), enumerate(data.y_true[:12].tolist()))


def describe(folder: Path) -> dict[str, Any]:
    """Every file of a folder: rows of tables, objects of JSON, tensors as lists, and of other files the name."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): _content(path) for path in paths}


def _content(path: Path) -> Any:
    if path.suffix == ".csv":
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.reader(file))
        kept = [k for k, name in enumerate(rows[0]) if not VOLATILE.search(name)]
        return [[_number(row[k]) for k in kept] for row in rows]
    if path.suffix == ".json":
        return _without_volatile(json.loads(path.read_text(encoding="utf-8")))
    if path.suffix == ".safetensors":
        return {name: array.tolist() for name, array in sorted(load_file(path).items())}
    return None


def _number(cell: str) -> str | float:
    try:
        return float(cell)
    except ValueError:
        return cell


def _without_volatile(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_volatile(item) for key, item in value.items() if not VOLATILE.search(key)}
    return [_without_volatile(item) for item in value] if isinstance(value, list) else value


def run(name: str) -> dict[str, Any]:
    """What a command leaves in the current folder."""
    write_inputs()
    run_line(COMMANDS[name])
    return describe(Path(name))
