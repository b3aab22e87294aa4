"""Memory follows the number of annotations, not tasks x annotators."""

from __future__ import annotations

import subprocess
import sys

import pytest

from helpers.processes import one_thread

SCRIPT = """
from pathlib import Path
import numpy as np
import conal

N, R, C = 100_000, 20_000, 10
rng = np.random.default_rng(0)
x = rng.normal(size=(N, 64)).astype(np.float32)
tasks = np.repeat(np.arange(N), 3)
crowd = conal.Annotations.from_triples(tasks, rng.permutation(np.arange(3 * N) % R), rng.integers(0, C, 3 * N))
assert crowd.shape == (N, R), crowd
conal.CoNAL(epochs=1, verbose=False).fit(x, crowd)
status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
print(int(status["VmHWM"].split()[0]) / 2**20)  # of this program alone; ru_maxrss would remember who started it
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads its peak memory from /proc, as Linux has it")
def test_twenty_thousand_annotators_fit_in_one_and_a_half_gigabytes() -> None:
    """One epoch, 100,000 x 64 features, 3 labels each, 10 classes; a dense mask alone would take 2 GB."""
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCRIPT],
        capture_output=True,
        text=True,
        check=True,
        env=one_thread(),
    )
    assert float(run.stdout) < 1.5
