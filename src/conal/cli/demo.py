"""``conal demo``: a full example on the digits dataset, which is included."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from conal.cli import options
from conal.cli.options import say

if TYPE_CHECKING:
    from conal.datasets import CrowdDataset
    from conal.estimator import CrowdClassifier


TAUGHT, N_TAUGHT = "xconal-with-gold", 50
"""The default method with true labels of some random training tasks, and how many."""
TITLES = {
    "gold": "true labels (ceiling)",
    "dl-mv": "majority vote",
    "conal": "CoNAL",
    "xconal": "cross-fitted EM, the default",
    TAUGHT: f"cross-fitted EM with {N_TAUGHT} gold labels",
}
TITLE_WIDTH = 42


def demo(
    out: Annotated[Path, typer.Option(help="Output model folder.")] = Path("conal-demo"),
    seeds: Annotated[int, typer.Option(min=1, help="Number of runs of each method, with the seeds 0, 1, ...")] = 5,
    epochs: Annotated[int, typer.Option(min=1, help="Number of passes over the data.")] = 100,
    overwrite: options.Overwrite = False,
    quiet: options.Quiet = False,
    as_json: options.AsJson = False,
) -> None:
    """Train on handwritten digits with labels of a simulated noisy crowd, and compare methods.

    Compares true labels, majority vote, the paper's CoNAL and cross-fitted EM, the default of conal fit, the last also
    with true labels of 50 training tasks, with several seeds each. Prints test accuracies and writes a model folder of
    the cross-fitted model.
    """

    from conal.datasets import digits
    from conal.estimator.folder import save
    from conal.io.model_folder import check_target
    from conal.report.page import render

    data = digits()
    check_target(out, overwrite=overwrite)
    if not (quiet or as_json):
        say(_story(data))
    runs = _run_all(data, range(seeds), epochs, show=not quiet)
    model = next(run["model"] for run in runs if run["method"] == options.DEFAULT_METHOD)
    save(model, out, page=render(model.results_.report), overwrite=overwrite)
    rows = [{key: run[key] for key in ("method", "seed", "test_accuracy")} for run in runs]
    options.emit(
        {"out": out, "runs": rows, "table": _table(rows)}, _report(rows, model, out), as_json=as_json, quiet=quiet
    )


def _story(data: CrowdDataset) -> str:
    from conal.aggregation import MajorityVote

    crowd = data.annotations
    right = (crowd.labels == data.y_true[crowd.tasks]).mean()
    votes = (MajorityVote().fit(crowd).codes_ == data.y_true).mean()
    return (
        f"{crowd.n_tasks:,} images of digits, {crowd.n_annotations:,} labels by {crowd.n_annotators} simulated "
        "annotators, who share confusions between look-alikes.\n"
        f"{100 * right:.1f} % of the labels are right, {100 * votes:.1f} % of the majority votes."
    )


def _run_all(data: CrowdDataset, seeds: range, epochs: int, *, show: bool) -> list[dict[str, Any]]:
    from rich.console import Console
    from rich.progress import Progress

    jobs = [(method, seed) for method in TITLES for seed in seeds]
    console = Console(stderr=True)
    runs = []
    with Progress(console=console, transient=True, disable=not (show and console.is_terminal)) as bar:
        task = bar.add_task("training", total=len(jobs))
        for method, seed in jobs:
            bar.update(task, description=f"{method}, seed {seed}")
            runs.append(_run(data, method, seed, epochs))
            bar.advance(task)
    return runs


def _run(data: CrowdDataset, method: str, seed: int, epochs: int) -> dict[str, Any]:
    from conal.errors import DataWarning
    from conal.estimator import make

    assert data.test is not None  # noqa: S101 - the digits have one
    model = make(options.DEFAULT_METHOD if method == TAUGHT else method, seed=seed, epochs=epochs, verbose=False)
    target = data.classes[data.y_true] if method == "gold" else data.annotations
    known = None
    if method == TAUGHT:
        known = _expert(data, seed)
        model.set_params(refits=0)  # test data judge it
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # that the crowd is often wrong is the point of the demo
        model.fit(data.x, target, true_labels=known)
    accuracy = model.score(data.test.x, data.classes[data.test.y])
    return {"method": method, "seed": seed, "test_accuracy": accuracy, "model": model}


def _expert(data: CrowdDataset, seed: int) -> dict[Any, Any]:
    """True labels of random training tasks."""
    import numpy as np

    chosen = np.random.default_rng(seed).permutation(len(data.y_true))[:N_TAUGHT]
    tasks, labels = data.annotations.task_ids[chosen], data.classes[data.y_true[chosen]]
    return dict(zip(tasks.tolist(), labels.tolist(), strict=True))


def _table(rows: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """method -> mean and sample standard deviation over seeds, which is 0 for a single seed."""
    import numpy as np

    found = {}
    for method in TITLES:
        values = [row["test_accuracy"] for row in rows if row["method"] == method]
        std = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
        found[method] = {"mean": float(np.mean(values)), "std": std}
    return found


def _report(rows: list[dict[str, Any]], model: CrowdClassifier, out: Path) -> str:
    count = len({row["seed"] for row in rows})
    lines = [f"\nTest accuracy, mean ± standard deviation over {count} {'seed' if count == 1 else 'seeds'} (%)"]
    for method, cell in _table(rows).items():
        lines.append(f"{TITLES[method]:{TITLE_WIDTH}}{100 * cell['mean']:.1f} ± {100 * cell['std']:.1f}")
    lines += ["", f"Learned common confusions: {_top_confusions(model)}"]
    lines += [f"Model folder ({TITLES[model.method]}, no gold labels): {out}", f"Cleaned labels: {out / 'labels.csv'}"]
    lines.append(f"Report: {out / 'report.html'}")
    return "\n".join(lines)


def _top_confusions(model: CrowdClassifier, count: int = 5) -> str:
    import numpy as np

    confusion = model.common_confusion_ * (1 - np.eye(len(model.classes_)))
    order = np.argsort(-confusion, axis=None)[:count]
    pairs = [divmod(int(k), len(model.classes_)) for k in order]
    return ", ".join(f"{model.classes_[c]} as {model.classes_[k]} ({100 * confusion[c, k]:.0f} %)" for c, k in pairs)
