"""Aggregators against crowd-kit, in one run: `make bench-aggregation`.

Every measurement is a fresh process on one thread; the two sides take turns, and ratios are within this run. Times are
of ``fit`` on the same pandas frame (task, worker, label), reading it included; making it is not.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

THREADS = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "ARROW_NUM_THREADS"), "1")
SETS = ("bluebird", "dog", "face", "product", "sentiment")
Labels = npt.NDArray[Any]


# ---------------------------------------------------------------- crowds


def simulated(n_tasks: int, n_workers: int, n_classes: int, per_task: int, seed: int = 0) -> pd.DataFrame:
    """Workers right 50 to 95 times in a hundred, each with favourite mistakes."""
    rng = np.random.default_rng(seed)
    truth = np.repeat(rng.integers(n_classes, size=n_tasks), per_task)
    worker = np.concatenate([rng.choice(n_workers, per_task, replace=False) for _ in range(n_tasks)])
    skill = np.linspace(0.5, 0.95, n_workers)
    favourite = rng.integers(1, n_classes, size=(n_workers, n_classes))
    right = rng.random(len(truth)) < skill[worker]
    fond = rng.random(len(truth)) < 0.5
    wrong = (truth + np.where(fond, favourite[worker, truth], rng.integers(1, n_classes, len(truth)))) % n_classes
    task = np.repeat(np.arange(n_tasks), per_task)
    return pd.DataFrame({"task": task, "worker": worker, "label": np.where(right, truth, wrong)})


def real(name: str) -> tuple[pd.DataFrame, pd.Series]:
    """One of the five public sets, with its true labels."""
    root = Path(os.environ.get("CONAL_DATA", Path(__file__).parents[2] / "shared" / "data")) / "aggregation" / name
    frame = pd.read_csv(root / "label.csv", names=["task", "worker", "label"], header=0)
    with (root / "truth.csv").open(newline="") as file:
        rows = list(csv.reader(file))[1:]
    return frame, pd.Series({int(task) if task.isdigit() else task: int(label) for task, label in rows})


# ---------------------------------------------------------------- what is measured


def conal_dawid_skene(frame: pd.DataFrame) -> pd.Series:
    from conal.aggregation import DawidSkene

    return DawidSkene(n_iter=20, tol=0, verbose=False).fit_predict(frame)


def crowdkit_dawid_skene(frame: pd.DataFrame) -> pd.Series:
    from crowdkit.aggregation import DawidSkene

    # Its first iteration is the E-step of the start, which ours does not count; -inf: it never stops early.
    return DawidSkene(n_iter=21, tol=-np.inf).fit_predict(frame)


def conal_glad(frame: pd.DataFrame) -> pd.Series:
    from conal.aggregation import GLAD

    return GLAD(verbose=False).fit_predict(frame)


def crowdkit_glad(frame: pd.DataFrame) -> pd.Series:
    from crowdkit.aggregation import GLAD

    return GLAD(silent=True).fit_predict(frame)


LARGE: dict[str, int] = {"n_tasks": 200_000, "n_workers": 1_000, "n_classes": 10, "per_task": 5}
MEDIUM: dict[str, int] = {"n_tasks": 10_000, "n_workers": 500, "n_classes": 4, "per_task": 5}
JOBS: dict[str, tuple[Callable[[pd.DataFrame], pd.Series], dict[str, int]]] = {
    "conal dawid-skene": (conal_dawid_skene, LARGE),
    "crowd-kit dawid-skene": (crowdkit_dawid_skene, LARGE),
    "conal glad": (conal_glad, MEDIUM),
    "crowd-kit glad": (crowdkit_glad, MEDIUM),
}


def child(job: str, out: Path) -> None:
    """Measure one job in this process; labels by task go to a file."""
    warnings.simplefilter("ignore")
    run, size = JOBS[job]
    frame = simulated(**size)
    run(frame.head(50))  # imports are not what is measured
    wall, cpu = time.perf_counter(), time.process_time()
    labels = run(frame)
    figures = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
    figures["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    np.save(out, labels.sort_index().to_numpy())
    print(json.dumps(figures))


def measured(job: str, folder: Path) -> tuple[dict[str, float], Labels]:
    """A job in a fresh process: its figures, and the labels it gave."""
    out = folder / "labels.npy"
    command = [sys.executable, __file__, "--child", job, "--out", str(out)]
    done = subprocess.run(command, env={**os.environ, **THREADS}, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"error: {job} failed:\n{done.stderr[-2000:]}")
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures, np.load(out)


def compare(kind: str, repeats: int) -> None:
    """Both sides in turn; the best of each, and the ratio."""
    best: dict[str, dict[str, float]] = {}
    labels = {}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(repeats):
            for side in ("conal", "crowd-kit"):
                figures, labels[side] = measured(f"{side} {kind}", Path(folder))
                if side not in best or figures["cpu"] < best[side]["cpu"]:
                    best[side] = figures
    size = JOBS[f"conal {kind}"][1]
    n_labels = size["n_tasks"] * size["per_task"]
    print(f"\n{kind}: {n_labels:,} labels, {size['n_workers']:,} workers, {size['n_classes']} classes, one thread")
    for side, figures in best.items():
        print(f"  {side:10} {figures['cpu']:7.2f} s CPU  {figures['wall']:7.2f} s  {figures['peak_mb']:6.0f} MB")
    equal = np.mean(labels["conal"] == labels["crowd-kit"])
    ratio = best["conal"]["cpu"] / best["crowd-kit"]["cpu"]
    print(f"  conal / crowd-kit: {ratio:.3f} of the CPU time, {100 * equal:.3f} % equal labels", flush=True)


# ---------------------------------------------------------------- the command line, from file to file


def command_line() -> None:
    """``conal aggregate`` on a CSV of a million rows with ids of text."""
    frame = simulated(**LARGE)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        named = pd.DataFrame(
            {
                "task": "task-" + frame["task"].astype(str).str.zfill(6),
                "worker": "worker-" + frame["worker"].astype(str).str.zfill(4),
                "label": "class " + frame["label"].astype(str),
            }
        )
        named.to_csv(folder / "labels.csv", index=False)
        began = time.perf_counter()
        command = [sys.executable, "-m", "conal", "aggregate", str(folder / "labels.csv")]
        subprocess.run(
            [*command, "--out", str(folder / "out.csv"), "--quiet"], env={**os.environ, **THREADS}, check=True
        )
        seconds = time.perf_counter() - began
        rows = sum(1 for _ in (folder / "out.csv").open()) - 1
    print(f"\nconal aggregate: {len(frame):,} rows of CSV with ids of text to {rows:,} labels in {seconds:.1f} s")


# ---------------------------------------------------------------- accuracy on real crowds


def crowdkit_models() -> dict[str, Callable[[], Any]]:
    """crowd-kit's label-only aggregators, as shipped; two cannot run with a current scikit-learn and are left out."""
    from crowdkit.aggregation import GLAD, KOS, MACE, MMSR, DawidSkene, MajorityVote, OneCoinDawidSkene

    return {
        "MajorityVote": MajorityVote,
        "DawidSkene": lambda: DawidSkene(n_iter=100),
        "DawidSkene, 1000 iterations": lambda: DawidSkene(n_iter=1000, tol=-np.inf),
        "OneCoinDawidSkene": lambda: OneCoinDawidSkene(n_iter=100),
        "GLAD": lambda: GLAD(silent=True),
        "MMSR": lambda: MMSR(n_iter=500, random_state=0),
        "MACE": lambda: MACE(random_state=0),
        "KOS": lambda: KOS(random_state=0),
    }


def conal_models() -> dict[str, Callable[[], Any]]:
    """All aggregators at convergence, and Dawid-Skene at crowd-kit's number of iterations."""
    from conal import aggregation

    def converged(name: str) -> Callable[[], Any]:
        settings = {"n_iter": 5000, "tol": 1e-8, "verbose": False} if name != "majority-vote" else {}
        return lambda: aggregation.make(name, **settings)

    hundred = {"n_iter": 100, "tol": 0, "verbose": False}
    models = {name: converged(name) for name in aggregation.names()}
    return models | {"dawid-skene, 100 iterations": lambda: aggregation.make("dawid-skene", **hundred)}


def score(make: Callable[[], Any], frame: pd.DataFrame, truth: pd.Series) -> float | None:
    """Accuracy in percent; None where the aggregator cannot take this set."""
    try:
        labels = make().fit_predict(frame)
    except (ValueError, KeyError):
        return None
    common = labels.index.intersection(truth.index)
    return float(100 * (labels[common] == truth[common]).mean())


def accuracies() -> None:
    """A table of all aggregators on the five sets, ours and crowd-kit's."""
    try:
        sets = {name: real(name) for name in SETS}
    except FileNotFoundError as error:
        print(f"\naccuracy: skipped, the data are not there ({error.filename}); CONAL_DATA says where they are")
        return
    warnings.simplefilter("ignore")
    print("\naccuracy on real crowds, %\n" + " " * 42 + "".join(f"{name:>10}" for name in SETS))
    best: dict[str, list[float]] = {}
    for side, models in (("conal", conal_models()), ("crowd-kit", crowdkit_models())):
        table = []
        for name, make in models.items():
            row = [score(make, *data) for data in sets.values()]
            cells = "".join(f"{'-' if value is None else format(value, '.2f'):>10}" for value in row)
            print(f"{side:10} {name:30} {cells}", flush=True)
            table.append([-1.0 if value is None else value for value in row])
        best[side] = np.max(table, axis=0).tolist()
    for side, values in best.items():
        print(f"{side:10} {'best':30} " + "".join(f"{value:10.2f}" for value in values))


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", default=["speed", "cli", "accuracy"], help="of speed, cli, accuracy")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        child(arguments.child, arguments.out)
        return
    if "speed" in arguments.parts:
        compare("dawid-skene", arguments.repeats)
        compare("glad", arguments.repeats)
    if "cli" in arguments.parts:
        command_line()
    if "accuracy" in arguments.parts:
        accuracies()


if __name__ == "__main__":
    main()
