"""Several processes, real ones: the same model as one process makes, and what happens when one of them dies."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from conal.distributed import guarded, make_fabric
from conal.errors import InputError, TrainingError
from helpers.processes import one_thread

pytestmark = pytest.mark.slow
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port"]

FITS = """
import os, sys, warnings
import numpy as np, torch
import conal

warnings.simplefilter("ignore")
torch.set_num_threads(1)
rng = np.random.default_rng(0)
n = 400
x = rng.standard_normal((n, 6)).astype("float32")
z = rng.integers(3, size=n)
tasks = np.repeat(np.arange(n), 3)
found = {}
for n_annotators in (20, 1500):
    workers = (np.repeat(rng.integers(n_annotators, size=n), 3) + np.tile([0, 3, 7], n)) % n_annotators
    labels = np.where(rng.random(3 * n) < 0.7, z[tasks], rng.integers(3, size=3 * n))
    crowd = conal.Annotations.from_triples(tasks, workers, labels)
    for name in ("conal", "dl-cl", *(("xconal", "aggnet") if n_annotators == 20 else ())):
        fixed = {"epochs": 4, "batch_size": 200, "selection": "last", "verbose": False}
        double = name in ("conal", "xconal")
        exact = {"dropout": 0.0, "input_dropout": 0.0, "precision": "64-true" if double else "32-true"}
        fitted = conal.make(name, **fixed, **exact).fit(x, crowd)
        weights = [tensor.numpy().ravel() for tensor in fitted.model_.state_dict().values()]
        found[f"{name} {n_annotators}"] = np.concatenate(weights).astype("float64")
        found[f"loss {name} {n_annotators}"] = np.array([row["loss"] for row in fitted.history_])
far = conal.make("dl-cl", **fixed, dropout=0.0).fit(x.astype("float64") + 1e8, crowd)
found["far"] = np.concatenate([tensor.numpy().ravel() for tensor in far.model_.backbone.state_dict().values()])
found["factor"] = far.model_.scaler.factor.numpy()
try:
    conal.make("max-mig", epochs=1, verbose=False).fit(x, crowd)
except conal.errors.InputError as error:
    found["refused"] = np.array(str(error))
if int(os.environ.get("RANK", "0")) == 0:
    np.savez(sys.argv[1], **found)
"""


def run(command: list[object], **extra: str) -> subprocess.CompletedProcess[str]:
    words = [str(word) for word in command]
    return subprocess.run(words, env=one_thread(**extra), capture_output=True, text=True, check=False, timeout=300)


@pytest.fixture(scope="module")
def by_one_and_by_two(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], dict[str, Any]]:
    """The same fits by one process and by two: weights and losses."""
    folder = tmp_path_factory.mktemp("fits")
    script = folder / "fits.py"
    script.write_text(FITS, encoding="utf-8")
    alone = run([sys.executable, script, folder / "one.npz"])
    assert alone.returncode == 0, alone.stderr
    together = run([*TORCHRUN, a_free_port(), script, folder / "two.npz"])
    assert together.returncode == 0, together.stderr
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


def a_free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def free_port() -> int:
    return a_free_port()


@pytest.fixture
def crowd_files(tmp_path: Path) -> list[object]:
    rng = np.random.default_rng(1)
    z = rng.integers(3, size=60)
    np.save(tmp_path / "x.npy", (np.eye(3)[z] + 0.5 * rng.standard_normal((60, 3))).astype(np.float32))
    rows = [f"{i},{r},{z[i] if rng.random() < 0.8 else rng.integers(3)}" for i in range(60) for r in range(4)]
    (tmp_path / "labels.csv").write_text("\n".join(["task,worker,label", *rows]), encoding="utf-8")
    return ["fit", tmp_path / "labels.csv", "--features", tmp_path / "x.npy", "--lr", 0.003, "--method", "conal"]


def start(rank: int, port: int, command: list[object]) -> subprocess.Popen[str]:
    """One of two processes, as torchrun would start it, but without anybody who looks after them."""
    identity = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": 2, "LOCAL_WORLD_SIZE": 2, "GROUP_RANK": 0}
    where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "TORCHELASTIC_RUN_ID": "test"}
    environment = one_thread(**{k: str(v) for k, v in (identity | where).items()})
    words = [sys.executable, "-m", "conal", *map(str, command)]
    return subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_a_dead_worker_ends_the_other_and_the_checkpoint_goes_on(
    tmp_path: Path, crowd_files: list[object], free_port: int
) -> None:
    out, checkpoint = tmp_path / "m", tmp_path / "m.checkpoint"
    fit = [*crowd_files, "--out", out]
    pair = [start(rank, free_port, [*fit, "--epochs", 100_000]) for rank in (0, 1)]
    deadline = time.monotonic() + 120
    while not checkpoint.exists():
        assert time.monotonic() < deadline
        assert all(process.poll() is None for process in pair), pair[0].communicate()
        time.sleep(0.1)
    pair[1].send_signal(signal.SIGKILL)
    began = time.monotonic()
    _, said = pair[0].communicate(timeout=60)
    pair[1].communicate()
    assert time.monotonic() - began < 60
    assert pair[0].returncode == 1
    assert "another process of this run has ended" in said
    assert "--resume" in said
    assert "Traceback" not in said
    assert not out.exists()
    reached = epoch_of(checkpoint)

    epochs = ["--epochs", reached + 5]
    resumed = run([*TORCHRUN, free_port, "-m", "conal", *fit, *epochs, "--resume"])
    assert resumed.returncode == 0, resumed.stderr
    whole = run([*TORCHRUN, free_port, "-m", "conal", *crowd_files, "--out", tmp_path / "whole", *epochs])
    assert whole.returncode == 0, whole.stderr
    assert whole.stdout.count("labels by 4 annotators") == 1  # one process speaks for all
    for name in ("model.safetensors", "labels.csv", "annotators.csv"):
        assert (out / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert not checkpoint.exists()


def epoch_of(checkpoint: Path) -> int:
    import json

    from safetensors import safe_open

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
