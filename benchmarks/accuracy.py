"""Test accuracy on LabelMe and Music, five seeds: `make accuracy`.

LabelMe follows the paper: the best epoch on 500 validation images with gold labels. Music has no validation set, and
published code selects on the test set; here nothing but annotations selects: those of a tenth of the training songs
are held out, and the epoch with the highest likelihood of these is kept. Test labels are looked at once, at the end.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from typing import Any

import numpy as np
import torch

import conal
from conal.datasets import CrowdDataset
from conal.errors import ConalError

# The paper: batch normalisation in each layer on Music. Everything else is the default.
PRESETS: dict[str, dict[str, Any]] = {"labelme": {}, "music": {"batch_norm": True}}
PAPER = {"labelme": 87.12, "music": 84.06}


def run(data: CrowdDataset, method: str, seed: int, parameters: dict[str, Any]) -> dict[str, Any]:
    """Fit one seed and measure it."""
    assert data.test is not None
    clf = conal.make(method, seed=seed, verbose=False, **parameters)
    gold_validation = None if data.valid is None else (data.valid.x, data.classes[data.valid.y])
    target = data.classes[data.y_true] if method == "gold" else data.annotations
    clf.fit(data.x, target, validation=gold_validation)
    return {
        "dataset": data.name,
        "method": method,
        "seed": seed,
        "test": 100 * clf.score(data.test.x, data.classes[data.test.y]),
        "selection": clf.metrics_["selection"],
        "epoch": clf.metrics_["best_epoch"],
        "restarts": clf.metrics_["restarts"],
        "seconds": clf.metrics_["seconds"],
    }


def summary(rows: list[dict[str, Any]]) -> str:
    """One line for the seeds of one method on one dataset."""
    test = np.array([row["test"] for row in rows])
    spread = test.std(ddof=1) if len(test) > 1 else 0.0
    first = rows[0]
    paper = f"paper {PAPER[first['dataset']]:.2f}" if first["method"] == "conal" else ""
    return (
        f"{first['dataset']:8} {first['method']:6} {test.mean():6.2f} ± {spread:4.2f}  "
        f"(worst {test.min():.2f})  by {first['selection']:22} {paper}"
    )


def main() -> None:
    """Run what was asked for and print a line each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", nargs="+", default=["labelme", "music"])
    parser.add_argument("--methods", nargs="+", default=["gold", "dl-mv", "conal"])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=JSON", help="override a parameter")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("default")
    changes = {key: json.loads(value) for key, value in (pair.split("=", 1) for pair in arguments.set)}
    for name in arguments.datasets:
        try:
            data = conal.datasets.load(name)
        except ConalError as error:
            sys.exit(f"error: {error}")
        for method in arguments.methods:
            rows = [run(data, method, seed, PRESETS[name] | changes) for seed in range(arguments.seeds)]
            print(summary(rows), flush=True)


if __name__ == "__main__":
    main()
