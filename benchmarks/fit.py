"""Whole fits, from files to a model folder, as the data grow: `make bench-fit`.

384 features of single precision, 5 classes, 3 labels per task by 100 annotators, who all take a class for the next one
in four cases of ten. Every fit is a fresh process on one thread, and all begin with the same files. The exponent is the
slope of log CPU time over log tasks from 20,000 tasks on (from 1,000 if there is no larger size): 1 is linear.

`--sizes 20000,200000,1000000` chooses the sizes. A million tasks take 1.5 GB on disk.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from harness import Row, clock, main, markdown, measure, store

D, C, R, LABELS, N_TEST = 384, 5, 100, 3, 5_000
SIZES, LARGE = (1_000, 20_000), 20_000
PIECE = 100_000
CONFUSED = 0.4
"""How often annotators take a class for the next one, beyond chance."""
LIMIT = 3_600.0
TWO_STAGE = "Dawid-Skene + LogisticRegression"
GOLD = "true labels (gold)"
COMMANDS = {"xconal": "xconal", "conal": "conal", GOLD: "gold"}
CROWD_LAYER = "crowd-kit CrowdLayer"
FITS = (TWO_STAGE, GOLD, "conal", "xconal", CROWD_LAYER)


def write_files(folder: Path, n: int) -> None:
    """Features as .npy, crowd labels and true labels as CSV, and a test set; written piece by piece."""
    rng = np.random.default_rng(0)
    centre = (rng.normal(size=(C, D)) * 0.1).astype(np.float32)
    pi = np.eye(C) * 0.5 + 0.02
    pi[np.arange(C), (np.arange(C) + 1) % C] += CONFUSED
    edges = (pi / pi.sum(1, keepdims=True)).cumsum(1)
    features = np.lib.format.open_memmap(folder / "features.npy", mode="w+", dtype=np.float32, shape=(n, D))
    with (folder / "labels.csv").open("w") as labels, (folder / "gold.csv").open("w") as gold:
        labels.write("task,worker,label\n")
        gold.write("task,label\n")
        for start in range(0, n, PIECE):
            tasks = np.arange(start, min(start + PIECE, n))
            z = rng.integers(C, size=len(tasks))
            features[tasks[0] : tasks[-1] + 1] = centre[z] + rng.standard_normal((len(tasks), D), dtype=np.float32)
            given = (edges[z.repeat(LABELS)] < rng.random(len(tasks) * LABELS)[:, None]).sum(1).clip(0, C - 1)
            # Different annotators for a task: a random first, and every 31st after it.
            workers = (rng.integers(R, size=len(tasks))[:, None] + 31 * np.arange(LABELS)).reshape(-1) % R
            columns = np.column_stack([tasks.repeat(LABELS), workers, given])
            np.savetxt(labels, columns, fmt="%d", delimiter=",")
            np.savetxt(gold, np.column_stack([tasks, z]), fmt="%d", delimiter=",")
    features.flush()
    z = rng.integers(C, size=N_TEST)
    x = centre[z] + rng.standard_normal((N_TEST, D), dtype=np.float32)
    np.savez(folder / "test.npz", x=x, y=z)


def command(method: str) -> Row:
    """`conal fit` without the page, and the accuracy of the model that it wrote."""
    with tempfile.TemporaryDirectory() as place:
        labels = "gold.csv" if method == "gold" else "labels.csv"
        out = Path(place) / "model"
        with clock() as row:
            from conal.cli.app import app

            files = [_folder() / labels, "--features", _folder() / "features.npy", "--out", out]
            app(["fit", *map(str, files), "--method", method, "--quiet", "--no-report"], standalone_mode=False)
        import conal

        model = conal.load(out)
        epochs = json.loads((out / "metrics.json").read_text())["epochs"]
    return row | {"epochs": epochs} | _accuracy(lambda x: model.predict(x).astype(int))


def two_stage() -> Row:
    """What a user would do without conal's classifiers; the model is written by joblib."""
    with tempfile.TemporaryDirectory() as place, clock() as row:
        import joblib
        from sklearn.linear_model import LogisticRegression

        from conal import Annotations
        from conal.aggregation import DawidSkene

        inferred = DawidSkene(verbose=False).fit(Annotations.read(_folder() / "labels.csv"))
        x = np.load(_folder() / "features.npy", mmap_mode="r")[inferred.task_ids_.astype(int)]
        model = LogisticRegression(max_iter=300).fit(x, inferred.labels_.astype(int))
        joblib.dump(model, Path(place) / "model")
    return row | _accuracy(model.predict)


def crowd_layer(epochs: int) -> Row:
    """crowd-kit's layer behind the same network, trained by a loop as anybody would write it, as long as conal's."""
    with tempfile.TemporaryDirectory() as place, clock() as row:
        import pandas as pd
        from crowdkit.learning import CrowdLayer
        from torch import nn
        from torch.nn.functional import cross_entropy

        frame = pd.read_csv(_folder() / "labels.csv")
        X = torch.from_numpy(np.load(_folder() / "features.npy"))
        A, Y = (torch.from_numpy(frame[name].to_numpy()).view(-1, LABELS) for name in ("worker", "label"))
        model = nn.Sequential(nn.Linear(D, 128), nn.ReLU(), nn.Dropout(0.5), nn.Linear(128, C))
        layer: Any = CrowdLayer(C, R, conn_type="mw")
        optimizer = torch.optim.Adam([*model.parameters(), *layer.parameters()], lr=0.01)
        for _ in range(epochs):
            for index in torch.randperm(len(X)).split(256):
                logits = model(X[index]).repeat_interleave(LABELS, 0)
                loss = cross_entropy(layer(logits, A[index].reshape(-1)), Y[index].reshape(-1))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        torch.save(model.state_dict(), Path(place) / "model")
    model.eval()
    return row | {"epochs": epochs} | _accuracy(lambda x: model(torch.from_numpy(x)).argmax(1).numpy())


def _accuracy(predict: Callable[[Any], Any]) -> Row:
    test = np.load(_folder() / "test.npz")
    return {"accuracy": float((predict(test["x"]) == test["y"]).mean())}


def _folder() -> Path:
    return Path(os.environ["CONAL_BENCHMARK"])


def jobs() -> dict[str, Callable[[], Row]]:
    """All that can be measured on the files in the folder that the environment names."""
    warnings.simplefilter("ignore")
    made: dict[str, Callable[[], Row]] = {name: partial(command, method) for name, method in COMMANDS.items()}
    return made | {TWO_STAGE: two_stage, CROWD_LAYER: lambda: crowd_layer(int(os.environ["CONAL_BENCHMARK_EPOCHS"]))}


def run(arguments: argparse.Namespace) -> None:
    """Every fit at every size, in turn, and again."""
    sizes = (300,) if arguments.quick else tuple(int(size) for size in arguments.sizes.split(","))
    found: dict[str, dict[str, Row]] = {}
    for n in sizes:
        with tempfile.TemporaryDirectory() as place:
            write_files(Path(place), n)
            os.environ["CONAL_BENCHMARK"] = place
            found[str(n)] = _at_one_size(1 if arguments.quick else arguments.repeats)
        print(table({str(n): found[str(n)]}), flush=True)
    print(growth(found))
    if not arguments.quick:
        store("fit", {"sizes": found, "learning_rates": learning_rates(sizes)})


def _at_one_size(repeats: int) -> dict[str, Row]:
    """The fit with the least CPU time of each kind; those over the limit are left out."""
    best: dict[str, Row] = {}
    for _ in range(repeats):
        for name in FITS:
            os.environ["CONAL_BENCHMARK_EPOCHS"] = str(best.get(GOLD, {}).get("epochs", 0))
            row = measure(__file__, name, LIMIT)
            if row is not None and (name not in best or row["cpu"] < best[name]["cpu"]):
                best[name] = row
    return best


def table(found: Mapping[str, Mapping[str, Row]]) -> str:
    """Accuracy, epochs, CPU time, also as a multiple of that on true labels, wall time and peak memory."""
    rows = []
    for n, fits in found.items():
        for name in (name for name in FITS if name in fits):
            row = fits[name]
            cells = [f"{100 * row['accuracy']:.1f}", str(row.get("epochs", "")), f"{row['cpu']:.1f}"]
            cells += [f"{row['cpu'] / fits[GOLD]['cpu']:.2f}", f"{row['wall']:.1f}", f"{row['peak_mb']:,.0f}"]
            rows.append([f"{int(n):,} tasks, {name}", *cells])
    header = ["", "test accuracy (%)", "epochs", "CPU s", "CPU / gold", "wall s", "peak MB"]
    return markdown(header, rows)


def learning_rates(sizes: Sequence[int]) -> dict[str, float]:
    """By what factor this version lowers the learning rate at every size."""
    from conal.parameters.training import Settings, plan

    return {str(n): plan(Settings(), n).lr_factor for n in sizes}


def unlike_now(found: Mapping[str, Any]) -> list[int]:
    """Sizes that were measured with another learning rate than this version has; results did not always say it."""
    sizes = sorted(map(int, found["sizes"]))
    then: Mapping[str, float] = found.get("learning_rates", {})
    return [n for n in sizes if then.get(str(n), 1.0) != learning_rates([n])[str(n)]]


def growth(found: Mapping[str, Mapping[str, Row]]) -> str:
    """The exponent of CPU time over tasks, for every fit that was measured at two sizes."""
    sizes = sorted(map(int, found))
    large = [n for n in sizes if n >= LARGE]
    sizes = large if len(large) > 1 else sizes
    parts = []
    for name in FITS if len(sizes) > 1 else ():
        times = {n: found[str(n)][name]["cpu"] for n in sizes if name in found[str(n)]}
        if len(times) > 1:
            slope = np.polyfit(np.log(list(times)), np.log(list(times.values())), 1)[0]
            parts.append(f"{name} {slope:.2f}")
    return f"Growth exponent from {sizes[0]:,} to {sizes[-1]:,} tasks: {', '.join(parts)}." if parts else ""


def sizes_option(parser: argparse.ArgumentParser) -> None:
    """`--sizes`."""
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), help="numbers of tasks, separated by commas")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(jobs(), run, __doc__, sizes_option)
