"""Aggregation by two real processes: the same posteriors as by one."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv as pv
import pytest

from conal import Annotations
from conal.aggregation import DawidSkene, OneCoinDawidSkene, engines, make
from conal.distributed import fit_shared, is_shared
from conal.errors import InputError
from helpers.processes import code_of, fork, fork_pair, one_thread

pytestmark = pytest.mark.slow


def fit_all(path: Path) -> None:
    """Posteriors, matrices and objectives, written by the second process."""
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    z = rng.integers(4, size=301)
    matrix = np.where(rng.random((301, 9)) < np.linspace(0.3, 0.9, 9), z[:, None], rng.integers(4, size=(301, 9)))
    matrix[rng.random(matrix.shape) < 0.5] = -1
    crowd = Annotations.from_matrix(matrix, classes=range(4))
    found: dict[str, Any] = {}
    for above in (0, 10**9):
        engines.COMPILED_FROM = above
        for name, made in (
            ("plain", DawidSkene(n_iter=30, tol=0)),
            ("prior", DawidSkene(prior=0.3, tol=1e-7, n_iter=500)),
            ("coin", OneCoinDawidSkene(tol=1e-7)),
        ):
            known = {3: 1, 4: 2} if name == "prior" else None
            shared = fit_shared(made, crowd, true_labels=known) if is_shared() else made.fit(crowd, true_labels=known)
            found[f"{name} {above}"] = shared.probas_
            found[f"confusion {name} {above}"] = shared.confusion_
            found[f"objective {name} {above}"] = np.array(shared.objective_history_)
    if os.environ.get("RANK") != "0":
        np.savez(path, **found)


def test_two_processes_infer_what_one_does(tmp_path: Path) -> None:
    assert code_of(fork(partial(fit_all, tmp_path / "one.npz"), tmp_path / "said.txt")) == 0
    codes = [code_of(child) for child in fork_pair(partial(fit_all, tmp_path / "two.npz"), tmp_path)]
    assert codes == [0, 0], (tmp_path / "0.txt").read_text()
    one, two = np.load(tmp_path / "one.npz"), np.load(tmp_path / "two.npz")
    assert len(one.files) == 18
    for name in one.files:
        scale = 1e-10 * max(1.0, float(np.abs(one[name]).max()))
        np.testing.assert_allclose(two[name], one[name], rtol=0, atol=scale, err_msg=name)


def test_the_command_under_the_launcher(tmp_path: Path) -> None:
    """Of all tests the one that starts ``torchrun``, which loads everything three times."""
    rows = ["task,worker,label", *(f"t{i},w{r},{'ab'[(i + (r == 2)) % 2]}" for i in range(40) for r in range(3))]
    (tmp_path / "labels.csv").write_text("\n".join(rows), encoding="utf-8")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    words = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", port]
    words += ["-m", "conal", "aggregate", str(tmp_path / "labels.csv"), "--out", str(tmp_path / "clean.csv")]
    run = subprocess.run(words, env=one_thread(), capture_output=True, text=True, check=False, timeout=200)
    assert run.returncode == 0, run.stderr
    table = pv.read_csv(tmp_path / "clean.csv")
    found = dict(zip(table["task"].to_pylist(), table["label"].to_pylist(), strict=True))
    assert found == {f"t{i}": "ab"[i % 2] for i in range(40)}
    assert run.stdout.count("40 tasks") == 1


def test_what_cannot_be_shared_is_refused() -> None:
    with pytest.raises(InputError, match="glad runs in one process only"):
        fit_shared(make("glad"), [[0, 1, 0], [1, 1, 0]])
