"""Write small model folders with the installed version of conal, for the versions after it to load.

Usage: python tests/estimator/folders/make.py tests/estimator/folders/<version>. Once a version is released, its folders
do not change.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import conal

__all__ = ["main"]

SMALL: dict[str, Any] = {"epochs": 6, "batch_size": 8, "hidden": [4], "seed": 1, "verbose": False}
WORDS = (("sun", "rain", "snow"), ("bread", "rice", "soup"))
N = 18


def main(out: Path) -> None:
    """One folder per model: ``model/``, and what it must give in ``expected.json``."""
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    z = rng.integers(2, size=N)
    x = (rng.normal(size=(N, 3)) + 2 * z[:, None]).round(3)
    texts = [" ".join(rng.choice(WORDS[c], 3).tolist()) for c in z]
    answers = np.where(rng.random((N, 4)) < 0.8, z[:, None], 1 - z[:, None])
    tasks, annotators = np.nonzero(rng.random((N, 4)) < 0.7)
    labels = np.array(["no", "yes"])[answers[tasks, annotators]]
    by_row = conal.Annotations.from_triples(tasks, annotators, labels)
    ids = [f"task {k}" for k in range(N)]
    named = conal.Annotations.from_triples([ids[k] for k in tasks], [f"w{k}" for k in annotators], labels)
    _write(out / "conal", conal.make("conal", **SMALL).fit(x, by_row), x.tolist())
    frame = pd.DataFrame(x, columns=["a", "b", "c"])
    _write(out / "xconal", conal.make("xconal", **SMALL).fit(frame.assign(task=ids), named), x.tolist())
    _write(out / "text", conal.make("conal", text_components=3, **SMALL).fit(texts, by_row), texts)


def _write(folder: Path, fitted: Any, inputs: list[Any]) -> None:
    fitted.save(folder / "model")
    expected = {
        "inputs": inputs,
        "predict_proba": fitted.predict_proba(inputs).tolist(),
        "probas": fitted.probas_.tolist(),
        "labels": fitted.labels_.tolist(),
        "task_ids": fitted.task_ids_.tolist(),
        "annotator_ids": fitted.annotator_ids_.tolist(),
    }
    text = json.dumps(expected, indent=1)
    (folder / "expected.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
