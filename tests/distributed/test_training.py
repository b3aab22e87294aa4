"""Several processes, real ones: the same model as one process makes, and what happens when one of them dies."""

from __future__ import annotations

import json
import os
import signal
import time
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open

import conal
from conal.distributed import guarded, make_fabric
from conal.errors import InputError, TrainingError
from helpers.processes import code_of, conal_here, fork, fork_pair

pytestmark = pytest.mark.slow


def fit_all(path: Path) -> None:
    """Weights and losses of small fits, written by the first process."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    n = 400
    x = rng.standard_normal((n, 6)).astype("float32")
    z = rng.integers(3, size=n)
    tasks = np.repeat(np.arange(n), 3)
    found: dict[str, Any] = {}
    fixed: dict[str, Any] = {"epochs": 4, "batch_size": 200, "selection": "last", "verbose": False}
    for n_annotators in (20, 1500):
        workers = (np.repeat(rng.integers(n_annotators, size=n), 3) + np.tile([0, 3, 7], n)) % n_annotators
        labels = np.where(rng.random(3 * n) < 0.7, z[tasks], rng.integers(3, size=3 * n))
        crowd = conal.Annotations.from_triples(tasks, workers, labels)
        for name in ("conal", "dl-cl", *(("xconal", "aggnet") if n_annotators == 20 else ())):
            precision = "64-true" if name in ("conal", "xconal") else "32-true"
            undrawn = {"mixup": False} if name == "xconal" else {}
            fitted = conal.make(name, **fixed, **undrawn, dropout=0.0, input_dropout=0.0, precision=precision).fit(
                x, crowd
            )
            weights = [tensor.numpy().ravel() for tensor in fitted.model_.state_dict().values()]
            found[f"{name} {n_annotators}"] = np.concatenate(weights).astype("float64")
            found[f"loss {name} {n_annotators}"] = np.array([row["loss"] for row in fitted.history_])
    far = conal.make("dl-cl", **fixed, dropout=0.0).fit(x.astype("float64") + 1e8, crowd)
    found["far"] = np.concatenate([tensor.numpy().ravel() for tensor in far.model_.backbone.state_dict().values()])
    found["factor"] = far.model_.scaler.factor.numpy()
    try:
        conal.make("max-mig", epochs=1, verbose=False).fit(x, crowd)
    except InputError as error:
        found["refused"] = np.array(str(error))
    if os.environ.get("RANK", "0") == "0":
        np.savez(path, **found)


@pytest.fixture(scope="module")
def by_one_and_by_two(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], dict[str, Any]]:
    """The same fits by one process and by two."""
    folder = tmp_path_factory.mktemp("fits")
    assert code_of(fork(partial(fit_all, folder / "one.npz"), folder / "said.txt")) == 0, (
        folder / "said.txt"
    ).read_text()
    codes = [code_of(child) for child in fork_pair(partial(fit_all, folder / "two.npz"), folder)]
    assert codes == [0, 0], (folder / "0.txt").read_text()
    return dict(np.load(folder / "one.npz")), dict(np.load(folder / "two.npz"))


def test_two_processes_make_the_model_of_one(by_one_and_by_two: tuple[dict[str, Any], dict[str, Any]]) -> None:
    """Eight steps without dropout; short tables of annotators, and long ones of the methods that have tables.

    CoNAL and its cross-fitted form are compared in double precision. Its layers start equal, so that the gate's first
    gradients are nothing but rounding errors, of which Adam makes steps; EM makes more of them in every round.
    """
    one, two = by_one_and_by_two
    assert len(one) == 14
    for name in one:
        np.testing.assert_allclose(two[name], one[name], rtol=0, atol=1e-5, err_msg=name)


def test_processes_cannot_share_what_is_no_sum(by_one_and_by_two: tuple[dict[str, Any], dict[str, Any]]) -> None:
    assert "max-mig compares all instances of a batch" in str(by_one_and_by_two[1]["refused"])


@pytest.fixture
def crowd_files(tmp_path: Path) -> list[object]:
    rng = np.random.default_rng(1)
    z = rng.integers(3, size=60)
    np.save(tmp_path / "x.npy", (np.eye(3)[z] + 0.5 * rng.standard_normal((60, 3))).astype(np.float32))
    rows = [f"{i},{r},{z[i] if rng.random() < 0.8 else rng.integers(3)}" for i in range(60) for r in range(4)]
    (tmp_path / "labels.csv").write_text("\n".join(["task,worker,label", *rows]), encoding="utf-8")
    return ["fit", tmp_path / "labels.csv", "--features", tmp_path / "x.npy", "--set", "lr=0.003", "--method", "conal"]


def test_a_dead_worker_ends_the_other_and_the_checkpoint_goes_on(tmp_path: Path, crowd_files: list[object]) -> None:
    out, checkpoint = tmp_path / "m", tmp_path / "m.checkpoint"
    fit = [*crowd_files, "--out", out]
    first, second = fork_pair(partial(conal_here, *fit, "--epochs", 100_000), tmp_path)
    deadline = time.monotonic() + 120
    while not checkpoint.exists():
        assert time.monotonic() < deadline
        assert os.waitpid(first, os.WNOHANG) == (0, 0), (tmp_path / "0.txt").read_text()
        time.sleep(0.05)
    os.kill(second, signal.SIGKILL)
    began = time.monotonic()
    assert [code_of(first), code_of(second)] == [1, -signal.SIGKILL]
    assert time.monotonic() - began < 60
    said = (tmp_path / "0.txt").read_text()
    assert "another process of this run has ended" in said
    assert "--resume" in said
    assert "Traceback" not in said
    assert not out.exists()

    epochs = ("--epochs", epoch_of(checkpoint) + 5)
    for command in ([*fit, *epochs, "--resume"], [*crowd_files, "--out", tmp_path / "whole", *epochs]):
        pair = fork_pair(partial(conal_here, *command), tmp_path)
        assert [code_of(child) for child in pair] == [0, 0], (tmp_path / "0.txt").read_text()
        assert "labels by 4 annotators" in (tmp_path / "0.txt").read_text()  # one process speaks for all
        assert (tmp_path / "1.txt").read_text() == ""
    for name in ("model.safetensors", "labels.csv", "annotators.csv"):
        assert (out / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert not checkpoint.exists()


def epoch_of(checkpoint: Path) -> int:
    with safe_open(checkpoint, framework="pt") as file:
        return int(json.loads(file.metadata()["state"])["epoch"])


def test_the_launcher_says_how_many_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.setenv("RANK", "0")
    with pytest.raises(InputError, match="torchrun started 2 processes on each of 2 nodes"):
        make_fabric("cpu", "32-true", devices=3)


def test_only_lost_connections_are_explained() -> None:
    with pytest.raises(TrainingError, match="another process of this run"), guarded(True):
        raise RuntimeError("[gloo/transport/tcp/pair.cc] Connection closed by peer")
    with pytest.raises(RuntimeError, match="shape"), guarded(True):
        raise RuntimeError("shape mismatch")
    with pytest.raises(RuntimeError, match="gloo"), guarded(False):
        raise RuntimeError("gloo")
    assert torch.distributed.is_available()
