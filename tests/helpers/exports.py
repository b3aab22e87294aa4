"""Exported files, run by a process that cannot import conal."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from helpers.processes import one_thread

__all__ = ["BLOCK_CONAL", "predictions_without_conal"]

BLOCK_CONAL = """
import importlib.abc, sys

class Blocked(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "conal":
            raise ModuleNotFoundError(f"{name} is blocked")

sys.meta_path.insert(0, Blocked())
try:
    import conal
except ModuleNotFoundError:
    pass
else:
    raise SystemExit("conal can be imported")
"""

_RUN = {
    ".onnx": """
import onnxruntime
def load(path):
    session = onnxruntime.InferenceSession(path)
    facts = dict(session.get_modelmeta().custom_metadata_map)
    return facts, lambda rows: session.run(None, {facts["input"]: rows})[0]
""",
    ".pt2": """
import json, torch
def load(path):
    extra = {"conal.json": ""}
    with open(path, "rb") as file:
        module = torch.export.load(file, extra_files=extra).module()
    return json.loads(extra["conal.json"]), lambda rows: module(torch.from_numpy(rows)).numpy()
""",
}

_ALL = """
import json
import numpy as np
facts = {}
for path, sizes in json.loads(sys.argv[1]):
    rows = np.load(f"{path}.npy")
    facts[path], predict = load(path)
    np.savez(f"{path}.npz", *(predict(rows[:size]) for size in sizes))
assert not [name for name in sys.modules if name.partition(".")[0] == "conal"]
print(json.dumps({"facts": facts, "torch": "torch" in sys.modules}))
"""


def predictions_without_conal(
    files: dict[Path, npt.NDArray[np.float32]], sizes: tuple[int, ...] = (1, 7)
) -> tuple[dict[Path, list[npt.NDArray[np.float32]]], dict[str, Any]]:
    """What each file, all of one format, gives for the first rows; its metadata; and whether torch was loaded."""
    (ending,) = {path.suffix for path in files}
    for path, rows in files.items():
        np.save(f"{path}.npy", rows)
    asked = json.dumps([(str(path), sizes) for path in files])
    words = [sys.executable, "-I", "-W", "ignore", "-c", BLOCK_CONAL + _RUN[ending] + _ALL, asked]
    done = subprocess.run(words, env=one_thread(), capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    return {path: list(np.load(f"{path}.npz").values()) for path in files}, json.loads(done.stdout)
