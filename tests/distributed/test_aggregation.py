"""Aggregation by two real processes: the same posteriors as by one."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.csv as pv
import pytest

from conal.aggregation import DawidSkene
from conal.distributed import fit_shared
from conal.errors import InputError
from helpers.processes import one_thread

pytestmark = pytest.mark.slow

FITS = """
import os, sys, warnings
import numpy as np
from conal import Annotations
from conal.aggregation import DawidSkene, OneCoinDawidSkene
from conal.aggregation import engines
from conal.distributed import fit_shared, is_shared

warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
z = rng.integers(4, size=301)
matrix = np.where(rng.random((301, 9)) < np.linspace(0.3, 0.9, 9), z[:, None], rng.integers(4, size=(301, 9)))
matrix[rng.random(matrix.shape) < 0.5] = -1
crowd = Annotations.from_matrix(matrix, classes=range(4))
found = {}
for above in (0, 10**9):
    engines.COMPILED_FROM = above
    for name, made in (
        ("plain", DawidSkene(n_iter=30, tol=0)),
        ("prior", DawidSkene(prior=0.3, tol=1e-7, n_iter=500)),
        ("coin", OneCoinDawidSkene(tol=1e-7)),
    ):
        known = {3: 1, 4: 2} if name == "prior" else None
        fitted = fit_shared(made, crowd, true_labels=known) if is_shared() else made.fit(crowd, true_labels=known)
        found[f"{name} {above}"] = fitted.probas_
        found[f"confusion {name} {above}"] = fitted.confusion_
        found[f"objective {name} {above}"] = np.array(fitted.objective_history_)
if int(os.environ.get("RANK", "0")) == 1 or not is_shared():
    np.savez(sys.argv[1], **found)
"""


def torchrun(*words: object) -> subprocess.CompletedProcess[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", port, *words]
    environment = one_thread()
    texts = [str(word) for word in command]
    return subprocess.run(texts, env=environment, capture_output=True, text=True, check=False, timeout=200)


def test_two_processes_infer_what_one_does(tmp_path: Path) -> None:
    script = tmp_path / "fits.py"
    script.write_text(FITS, encoding="utf-8")
    words = [sys.executable, str(script), str(tmp_path / "one.npz")]
    alone = subprocess.run(words, capture_output=True, text=True, check=False, timeout=200)
    assert alone.returncode == 0, alone.stderr
    together = torchrun(script, tmp_path / "two.npz")
    assert together.returncode == 0, together.stderr
    one, two = np.load(tmp_path / "one.npz"), np.load(tmp_path / "two.npz")
    for name in one.files:
        scale = 1e-10 * max(1.0, float(np.abs(one[name]).max()))
        np.testing.assert_allclose(two[name], one[name], rtol=0, atol=scale, err_msg=name)


def test_the_command_under_the_launcher(tmp_path: Path) -> None:
    rows = ["task,worker,label", *(f"t{i},w{r},{'ab'[(i + (r == 2)) % 2]}" for i in range(40) for r in range(3))]
    (tmp_path / "labels.csv").write_text("\n".join(rows), encoding="utf-8")
    run = torchrun("-m", "conal", "aggregate", tmp_path / "labels.csv", "--out", tmp_path / "clean.csv")
    assert run.returncode == 0, run.stderr
    table = pv.read_csv(tmp_path / "clean.csv")
    found = dict(zip(table["task"].to_pylist(), table["label"].to_pylist(), strict=True))
    assert found == {f"t{i}": "ab"[i % 2] for i in range(40)}
    assert run.stdout.count("40 tasks") == 1
    refused = torchrun(
        "-m", "conal", "aggregate", tmp_path / "labels.csv", "--out", tmp_path / "g.csv", "--method", "glad"
    )
    assert refused.returncode != 0
    assert "glad runs in one process only" in refused.stderr


def test_a_start_that_needs_all_tasks_is_refused() -> None:
    with pytest.raises(InputError, match="the start 'spectral' needs all tasks in one process; use 'votes'"):
        fit_shared(DawidSkene(start="spectral"), [[0, 1, 0], [1, 1, 0]])
