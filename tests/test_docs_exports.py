"""The page about exported models is true: its examples run, and its service answers where conal cannot be imported."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conal.estimator.export import FORMATS
from helpers.commands import run_line
from helpers.exports import BLOCK_CONAL
from helpers.processes import one_thread

GUIDE = (Path(__file__).parents[1] / "docs" / "exports.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(python|console)\n(.*?)^```", flags=re.MULTILINE | re.DOTALL)
SERVICE = "# service.py\n"


@contextmanager
def served(code: str, folder: Path) -> Iterator[str]:
    """The address of the service, in a process that cannot import conal."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    assert code.count("8000") == 1
    words = [sys.executable, "-I", "-c", BLOCK_CONAL + code.replace("8000", port)]
    process = subprocess.Popen(words, cwd=folder, env=one_thread(), stderr=subprocess.PIPE, text=True)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.communicate()


def asked(address: str, rows: list[list[float]]) -> Any:
    """The answer, as soon as the service has started."""
    request = urllib.request.Request(address, json.dumps(rows).encode())  # noqa: S310 - this machine
    for _ in range(600):
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
                return json.load(answer)
        except urllib.error.URLError:
            time.sleep(0.1)
    raise AssertionError("the service does not answer")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::FutureWarning")  # torch, of its own code, when it loads a program
def test_the_guide_from_top_to_bottom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in FORMATS["onnx"].needs:
        pytest.importorskip(package, reason="ONNX needs optional packages: pip install conal[onnx]")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    services = []
    for language, code in BLOCK.findall(GUIDE):
        if code.startswith(SERVICE):
            services.append(code)
        elif language == "python":
            exec(compile(code, "exports.md", "exec"), names)  # noqa: S102
        else:
            for line in code.splitlines():
                run_line(line.removeprefix("$ "))
    clf, rows = names["clf"], names["data"].test.x[:5]
    (service,) = services
    with served(service, tmp_path) as address:
        answer = asked(address, rows.tolist())
    assert [each["label"] for each in answer] == clf.predict(rows).tolist()
    np.testing.assert_allclose([each["probabilities"] for each in answer], clf.predict_proba(rows), rtol=0, atol=1e-5)
    assert names["done"].largest_difference <= 1e-5


def test_the_guide_names_every_key_of_the_metadata() -> None:
    from conal import make
    from conal.estimator.export import describe

    x = np.random.default_rng(0).normal(size=(8, 2)).astype(np.float32)
    clf = make("dl-mv", epochs=1, verbose=False, selection="last").fit(x, np.arange(16).reshape(8, 2) % 3)
    for key in describe(clf):
        assert f"`{key}`" in GUIDE
