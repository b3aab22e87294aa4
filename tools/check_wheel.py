"""Does the built wheel work outside of the checkout? Run by `make test-wheel`, after `make dist`.

First in an environment without torch, Fabric, Altair and scikit-learn, where everything about labels alone must work;
then with all dependencies, where `conal demo` must run.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
CONSTRAINTS = ROOT / "constraints.txt"
LABELS_ONLY = ("markupsafe", "narwhals", "numpy", "pyarrow", "rich", "scipy", "typer")
"""What works on labels alone needs no more than these."""
LABELS = "task,worker,label\n" + "".join(
    f"{task},{worker},{(task + (worker > task)) % 2}\n" for task in range(6) for worker in range(4)
)


class Environment:
    """A virtual environment in a folder of its own, and commands that see nothing of this one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.python = folder / "venv" / "bin" / "python"
        subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)  # noqa: S603

    def install(self, *packages: str | Path) -> None:
        """Install with the versions that the project is developed with."""
        quiet = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        self.run(quiet, ("-c", CONSTRAINTS), packages)

    def run(self, *parts: Sequence[str | Path], code: int = 0) -> str:
        """Run Python with these arguments; another exit code than expected is an error."""
        words = [str(word) for part in parts for word in part]
        hidden = {"PYTHONPATH", "VIRTUAL_ENV"}
        plain = {name: value for name, value in os.environ.items() if name not in hidden}
        done = subprocess.run(  # noqa: S603
            [self.python, *words], cwd=self.folder, env=plain, capture_output=True, text=True, check=False
        )
        if done.returncode != code:
            raise SystemExit(f"{' '.join(words)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout + done.stderr


def check(wheel: Path) -> None:
    """What is in it, then both environments, one after the other."""
    strange = [name for name in zipfile.ZipFile(wheel).namelist() if not name.startswith(("conal/", "conal-"))]
    if strange:
        raise SystemExit(f"{wheel.name} contains more than the package: {', '.join(strange[:5])}")
    with tempfile.TemporaryDirectory() as folder:
        place = Environment(Path(folder))
        place.install(*LABELS_ONLY)
        place.run(("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", wheel))
        check_labels_only(place)
        place.install("torch")
        place.install(wheel)
        check_everything(place)


def check_labels_only(place: Environment) -> None:
    """Aggregation, inspection and conversion without torch, Fabric, Altair and scikit-learn."""
    for name in ("torch", "lightning_fabric", "altair", "sklearn"):
        place.run(("-c", f"import {name}"), code=1)
    (place.folder / "labels.csv").write_text(LABELS, encoding="utf-8")
    place.run(("-m", "conal", "inspect", "labels.csv"))
    place.run(("-m", "conal", "convert", "labels.csv", "--to", "parquet", "--out", "labels.parquet"))
    for method in place.run(("-c", "import conal.aggregation as a; print(*a.names())")).split():
        place.run(("-m", "conal", "aggregate", "labels.csv", "--method", method, "--out", f"{method}.csv"))
    (place.folder / "features.csv").write_text("task,x\n" + "".join(f"{k},{k}\n" for k in range(6)), encoding="utf-8")
    fit = ("-m", "conal", "fit", "labels.csv", "--features", "features.csv", "--out", "model")
    message = place.run(fit, code=1)
    if "needs torch" not in message:
        raise SystemExit(f"conal fit without torch says: {message}")
    sys.stdout.write("labels only: inspect, convert and every aggregator work\n")


def check_everything(place: Environment) -> None:
    """The main job, from a folder in which there is nothing of the checkout."""
    where = place.run(("-c", "import conal; print(conal.__version__, conal.__file__)"))
    sys.stdout.write(f"installed: {where}")
    sys.stdout.write(place.run(("-m", "conal", "demo", "--seeds", "1", "--epochs", "20", "--out", "demo")))
    if not (place.folder / "demo" / "report.html").is_file():
        raise SystemExit("conal demo left no report")


if __name__ == "__main__":
    (found,) = (ROOT / "dist").glob("conal-*.whl")
    check(found)
