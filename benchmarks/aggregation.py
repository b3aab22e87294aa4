"""Speed of Dawid-Skene and GLAD against crowd-kit, in one run: `make bench-aggregation`.

Every measurement is a fresh process on one thread; the two sides take turns, and ratios are within this run. Times are
of ``fit`` on the same pandas frame (task, worker, label), reading it included; making it is not.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from harness import THREADS, Row, clock, main, markdown, measure, store, take_turns

# ---------------------------------------------------------------- crowds


def simulated(
    n_tasks: int, n_workers: int, n_classes: int, per_task: int, skill: tuple[float, float] = (0.5, 0.95), seed: int = 0
) -> pd.DataFrame:
    """Workers right so often, evenly between two bounds, each with favourite mistakes; none twice on a task."""
    rng = np.random.default_rng(seed)
    truth = np.repeat(rng.integers(n_classes, size=n_tasks), per_task)
    first, step = rng.integers(n_workers, size=n_tasks), rng.integers(1, n_workers // per_task, size=n_tasks)
    worker = ((first[:, None] + step[:, None] * np.arange(per_task)) % n_workers).reshape(-1)
    right_share = np.linspace(*skill, n_workers)
    favourite = rng.integers(1, n_classes, size=(n_workers, n_classes))
    right = rng.random(len(truth)) < right_share[worker]
    fond = rng.random(len(truth)) < 0.5
    wrong = (truth + np.where(fond, favourite[worker, truth], rng.integers(1, n_classes, len(truth)))) % n_classes
    task = np.repeat(np.arange(n_tasks), per_task)
    return pd.DataFrame({"task": task, "worker": worker, "label": np.where(right, truth, wrong)})


# ---------------------------------------------------------------- what is measured

LARGE: dict[str, Any] = {"n_tasks": 200_000, "n_workers": 1_000, "n_classes": 10, "per_task": 5}
WEAK: dict[str, Any] = {**LARGE, "skill": (0.2, 0.6)}
MEDIUM: dict[str, Any] = {"n_tasks": 10_000, "n_workers": 500, "n_classes": 4, "per_task": 5}
TEN_MILLION: dict[str, Any] = {"n_tasks": 2_000_000, "n_workers": 10_000, "n_classes": 10, "per_task": 5}
CONVERGED = 1000
"""Iterations at most where the tolerance is to end them."""


def conal_dawid_skene(frame: pd.DataFrame, n_iter: int = 20, tol: float = 0.0) -> pd.Series:
    from conal.aggregation import DawidSkene

    return DawidSkene(n_iter=n_iter, tol=tol, verbose=False).fit_predict(frame)


def crowdkit_dawid_skene(frame: pd.DataFrame, n_iter: int = 20, tol: float = -np.inf) -> pd.Series:
    from crowdkit.aggregation import DawidSkene

    # Its first iteration is the E-step of the start, which ours does not count; -inf: it never stops early.
    return DawidSkene(n_iter=n_iter + 1, tol=tol).fit_predict(frame)


def conal_glad(frame: pd.DataFrame) -> pd.Series:
    from conal.aggregation import GLAD

    return GLAD(verbose=False).fit_predict(frame)


def crowdkit_glad(frame: pd.DataFrame) -> pd.Series:
    from crowdkit.aggregation import GLAD

    return GLAD(silent=True).fit_predict(frame)


def timed(fit: Callable[[pd.DataFrame], pd.Series], size: dict[str, Any], name: str) -> Row:
    """One fit in this process; labels by task go to a file, for comparison."""
    warnings.simplefilter("ignore")
    frame = simulated(**size)
    fit(frame.head(30_000))  # imports and compilation are not what is measured
    with clock() as row:
        labels = fit(frame)
    folder = os.environ.get("CONAL_BENCHMARK")
    if folder:
        np.save(Path(folder) / f"{name}.npy", labels.sort_index().to_numpy())
    return row


Fit = Callable[[pd.DataFrame], pd.Series]
KINDS: dict[str, tuple[str, dict[str, Any], Fit, Fit]] = {
    "dawid-skene": ("Dawid-Skene, 20 iterations", LARGE, conal_dawid_skene, crowdkit_dawid_skene),
    "converged": (
        "Dawid-Skene to convergence (gain per label below 1e-5)",
        WEAK,
        partial(conal_dawid_skene, n_iter=CONVERGED, tol=1e-5),
        partial(crowdkit_dawid_skene, n_iter=CONVERGED, tol=1e-5),
    ),
    "glad": ("GLAD", MEDIUM, conal_glad, crowdkit_glad),
}


def jobs() -> dict[str, Callable[[], Row]]:
    """All that can be measured."""
    made: dict[str, Callable[[], Row]] = {}
    for kind, (_, size, ours, theirs) in KINDS.items():
        made[f"conal {kind}"] = partial(timed, ours, size, f"conal {kind}")
        made[f"crowd-kit {kind}"] = partial(timed, theirs, size, f"crowd-kit {kind}")
    made["conal ten million"] = partial(timed, conal_dawid_skene, TEN_MILLION, "conal ten million")
    return made


def compare(kind: str, repeats: int) -> Row:
    """Both sides in turn; the best of each, the ratio, and how many labels are equal."""
    title, size, *_ = KINDS[kind]
    with tempfile.TemporaryDirectory() as folder:
        os.environ["CONAL_BENCHMARK"] = folder
        best = take_turns(__file__, [f"conal {kind}", f"crowd-kit {kind}"], repeats)
        labels = [np.load(Path(folder) / f"{side} {kind}.npy") for side in ("conal", "crowd-kit")]
        del os.environ["CONAL_BENCHMARK"]
    ours, theirs = best[f"conal {kind}"], best[f"crowd-kit {kind}"]
    equal = float(np.mean(labels[0] == labels[1]))
    n_labels = size["n_tasks"] * size["per_task"]
    ratio = theirs["cpu"] / ours["cpu"]
    print(f"{title}, {n_labels:,} labels: 1/{ratio:.0f} of crowd-kit's CPU time", flush=True)
    return {"title": title, "labels": n_labels, "ours": ours, "theirs": theirs, "equal": equal, "ratio": ratio}


def table(rows: list[Row]) -> str:
    """Both sides beside each other."""
    header = ["", "labels", "conal", "crowd-kit", "ratio", "peak memory", "equal labels"]
    body = [
        [
            row["title"],
            f"{row['labels']:,}",
            f"{row['ours']['cpu']:.2f} s",
            f"{row['theirs']['cpu']:.1f} s",
            f"1/{row['ratio']:.0f}",
            f"{row['ours']['peak_mb']:,.0f} / {row['theirs']['peak_mb']:,.0f} MB",
            f"{100 * row['equal']:.2f} %",
        ]
        for row in rows
    ]
    return markdown(header, body)


# ---------------------------------------------------------------- the command line, from file to file


def command_line() -> float:
    """Seconds of ``conal aggregate`` on a CSV of a million rows with ids of text, from start to end of the process."""
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
    print(f"conal aggregate: {len(frame):,} rows of CSV with ids of text to {rows:,} labels in {seconds:.1f} s")
    return seconds


def run(arguments: argparse.Namespace) -> None:
    """Both sides on one machine, then conal alone on ten million labels and from file to file."""
    if arguments.quick:
        print(measure(__file__, "conal glad"))
        return
    rows = [compare(kind, arguments.repeats) for kind in KINDS]
    print(table(rows), flush=True)
    seconds = command_line()
    large = measure(__file__, "conal ten million") or {}
    print(f"20 iterations on ten million labels: {large['wall']:.0f} s, {large['peak_mb']:,.0f} MB", flush=True)
    store("aggregation", {"rows": rows, "command_line_seconds": seconds, "ten_million": large})


if __name__ == "__main__":
    main(jobs(), run, __doc__)
