"""Test accuracy of every method on LabelMe and Music, five seeds: `make accuracy`, or `make results` for the page.

LabelMe follows the paper: the best epoch on 500 validation images with gold labels. Music has no validation set, and
published code selects on the test set; here nothing but annotations selects: those of a tenth of the training songs
are held out, and the epoch with the highest likelihood of these is kept. Test labels are looked at once, at the end.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch

import conal
from conal.datasets import CrowdDataset
from conal.errors import ConalError, ConalWarning
from conal.experiments.base import markdown, mean_and_spread
from conal.experiments.real_tables import PAPER_METHODS, TITLES
from conal.experiments.runs import Protocol, Run, execute
from conal.io.atomic import atomic_file

# The paper: batch normalisation in each layer on Music. Everything else is the default.
PRESETS: dict[str, dict[str, Any]] = {"labelme": {}, "music": {"batch_norm": True}}
PROTOCOL_OF: dict[str, Protocol] = {"labelme": "gold", "music": "annotations"}
ORDER = ["gold", "dl-mv", "dl-ds", "dl-glad", "dl-wc", "two-stage", "dl-cl", "dl-cl-over", "anno-reg", "doctor-net"]
ORDER += ["max-mig", "aggnet", "conal-em", "conal"]

Rows = list[dict[str, Any]]


def in_order(names: list[str]) -> list[str]:
    """The paper's order; methods that it does not know come last."""
    return sorted(names, key=lambda name: (ORDER.index(name) if name in ORDER else len(ORDER), name))


def run(dataset: str, method: str, seed: int, parameters: dict[str, Any]) -> dict[str, Any]:
    """Fit one seed and measure it."""
    figures = execute(Run(dataset, method, seed, PROTOCOL_OF[dataset], parameters=parameters))
    return {"dataset": dataset, "method": method, **figures}


def spread(rows: Rows, name: str) -> str:
    """Mean and sample standard deviation over seeds, in percent."""
    return mean_and_spread([row[name] for row in rows])


def paper(method: str, dataset: str) -> str:
    """The paper's figure, where it has one."""
    return PAPER_METHODS[method][list(TITLES).index(dataset)].split()[0] if method in PAPER_METHODS else "-"


def summary(rows: Rows) -> str:
    """One line for the seeds of one method on one dataset."""
    first = rows[0]
    return (
        f"{first['dataset']:8} {first['method']:11} {spread(rows, 'test_accuracy'):>13}  "
        f"(worst {100 * min(row['test_accuracy'] for row in rows):.2f})  "
        f"training labels {spread(rows, 'label_accuracy')}  "
        f"{np.mean([row['seconds'] for row in rows]):5.1f} s  by {first['selection']:22} "
        f"paper {paper(first['method'], first['dataset'])}"
    )


def table(dataset: str, results: dict[str, Rows]) -> str:
    """A Markdown table of one dataset, the paper's figure beside ours."""
    body = []
    for method, rows in results.items():
        worst = 100 * min(row["test_accuracy"] for row in rows)
        seconds = np.mean([row["seconds"] for row in rows])
        labels = "(given)" if method == "gold" else spread(rows, "label_accuracy")
        cells = [f"`{method}`", spread(rows, "test_accuracy"), f"{worst:.2f}", labels, f"{seconds:.1f}"]
        body.append([*cells, paper(method, dataset)])
    return markdown(["method", "test accuracy", "worst seed", "cleaned training labels", "seconds", "paper"], body)


PROTOCOL = {
    "labelme": "The paper's protocol: {train:,} training images with {labels:,} labels by {workers} annotators; the "
    "epoch with the best accuracy on {valid} validation images with gold labels is kept; {test:,} test images.",
    "music": "No gold label is used at all: {train:,} training songs with {labels:,} labels by {workers} annotators; "
    "the annotations of a tenth of the songs are held out, and the epoch with the highest likelihood of these is kept; "
    "{test:,} test songs. Batch normalisation is on, as in the paper. Published code selects the epoch on the test "
    "set, and the paper's figures are above what this backbone reaches with gold labels on these features: they "
    "cannot be compared with ours.",
}


def section(data: CrowdDataset, results: dict[str, Rows]) -> str:
    """A dataset's part of the page."""
    assert data.test is not None
    crowd = data.annotations
    protocol = PROTOCOL[data.name].format(
        train=len(data.x),
        labels=crowd.n_annotations,
        workers=crowd.n_annotators,
        valid=0 if data.valid is None else len(data.valid.x),
        test=len(data.test.x),
    )
    usual = float(np.median([100 * row["test_accuracy"] for rows in results.values() for row in rows]))
    error = np.sqrt(usual * (100 - usual) / len(data.test.x))
    sampling = f"With so many, an accuracy of {usual:.0f} % has a sampling error of {error:.1f} points."
    return f"## {TITLES[data.name]}\n\n{protocol} {sampling}\n\n{table(data.name, results)}\n"


INTRODUCTION = """# Results

Made by `make results`; not edited by hand.

Accuracy in percent, mean ± sample standard deviation over {seeds} seeds. All methods share one backbone (one hidden
layer of 128 units, dropout 0.5), the training loop and its defaults (Adam, learning rate 0.01, 100 epochs, batches of
256); no grid was searched. `gold` is trained on the true labels: the ceiling. *Cleaned training labels* is the accuracy
of the labels that a method infers for the training instances from features and annotations together; the gold labels
there were seen by nothing but this column. Seconds are the time of a whole fit on one thread. *Paper* is the figure of
Chu, Ma and Wang (2021), Tables 1 and 3, where there is one.

{versions}
"""


def page(sections: list[str], seeds: int) -> str:
    """The whole page."""
    versions = f"conal {conal.__version__}, torch {torch.__version__}, numpy {np.__version__}"
    return "\n".join([INTRODUCTION.format(seeds=seeds, versions=versions), *sections])


def measure(data: CrowdDataset, methods: list[str], seeds: int, changes: dict[str, Any]) -> dict[str, Rows]:
    """All seeds of all methods on a dataset; a line each as it goes."""
    results = {}
    for method in methods:
        results[method] = [run(data.name, method, seed, PRESETS[data.name] | changes) for seed in range(seeds)]
        print(summary(results[method]), flush=True)
    return results


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", nargs="+", default=list(TITLES), choices=list(TITLES))
    parser.add_argument("--methods", nargs="+", default=in_order(conal.methods.names()))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=JSON", help="override a parameter")
    parser.add_argument("--out", type=Path, help="write the tables as a Markdown page")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("default", ConalWarning)
    changes = {key: json.loads(value) for key, value in (pair.split("=", 1) for pair in arguments.set)}
    sections = []
    for name in arguments.datasets:
        try:
            data = conal.datasets.load(name)
        except ConalError as error:
            sys.exit(f"error: {error}")
        sections.append(section(data, measure(data, arguments.methods, arguments.seeds, changes)))
    if arguments.out is not None:
        with atomic_file(arguments.out) as aside:
            aside.write_text(page(sections, arguments.seeds), encoding="utf-8")
        print(f"written: {arguments.out}")


if __name__ == "__main__":
    main()
