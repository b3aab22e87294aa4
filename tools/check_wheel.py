"""Does the built wheel work outside of the checkout? Run by `make test-wheel`, after `make dist`.

First as `pip install conal` installs it, where everything about labels alone must work; it must stay small. Then with
the extra `train`, where `conal demo` must run. ``PYTHONS=python3.12,python3.13`` tries the first part by these too.
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
MAX_MEGABYTES, MAX_PACKAGES = 500, 26
"""Of `pip install conal`, beside conal itself, pip and setuptools."""
NOT_NEEDED = ("torch", "lightning_fabric", "sklearn", "numba", "vl_convert", "PIL", "pandas")
LABELS = "task,worker,label\n" + "".join(
    f"{task},{worker},{(task + (worker > task)) % 2}\n" for task in range(6) for worker in range(4)
)


class Environment:
    """A virtual environment in a folder of its own, and commands that see nothing of this one."""

    def __init__(self, folder: Path, python: str = sys.executable) -> None:
        self.folder = folder
        self.python = folder / "venv" / "bin" / "python"
        subprocess.run([python, "-m", "venv", folder / "venv"], check=True)  # noqa: S603

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
    for python in filter(None, os.environ.get("PYTHONS", "").split(",")):
        with tempfile.TemporaryDirectory() as folder:
            place = Environment(Path(folder), python)
            place.install(wheel)
            check_labels_only(place)
    with tempfile.TemporaryDirectory() as folder:
        place = Environment(Path(folder))
        place.install(wheel)
        check_size(place)
        check_labels_only(place)
        place.install("torch")
        place.install(f"conal[train] @ {wheel.resolve().as_uri()}")
        check_everything(place)


def check_size(place: Environment) -> None:
    """What `pip install conal` takes, in megabytes and packages."""
    listing = "print(sysconfig.get_path('purelib'), *(each.name for each in distributions()))"
    code = f"import sysconfig; from importlib.metadata import distributions; {listing}"
    site, *names = place.run(("-c", code)).split()
    packages = sorted({name.lower() for name in names} - {"conal", "pip", "setuptools"})
    files = (path for path in Path(site).rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    ours = (path for path in files if path.relative_to(site).parts[0] not in ("pip", "setuptools", "pkg_resources"))
    megabytes = sum(path.stat().st_size for path in ours) / 1e6
    if megabytes > MAX_MEGABYTES or len(packages) > MAX_PACKAGES:
        raise SystemExit(
            f"pip install conal takes {megabytes:.0f} MB and {len(packages)} packages: {', '.join(packages)}"
        )
    sys.stdout.write(f"pip install conal: {megabytes:.0f} MB, {len(packages)} packages\n")


def check_labels_only(place: Environment) -> None:
    """Inspection, conversion, aggregation, updates, plans and reports; a sentence where a package is missing."""
    for name in NOT_NEEDED:
        place.run(("-c", f"import {name}"), code=1)
    (place.folder / "labels.csv").write_text(LABELS, encoding="utf-8")
    place.run(("-m", "conal", "inspect", "labels.csv"))
    place.run(("-m", "conal", "convert", "labels.csv", "--to", "parquet", "--out", "labels.parquet"))
    for method in place.run(("-c", "import conal.aggregation as a; print(*a.names())")).split():
        place.run(("-m", "conal", "aggregate", "labels.csv", "--method", method, "--out", f"{method}.csv"))
    aggregate = ("-m", "conal", "aggregate", "labels.csv", "--out", "clean.csv")
    place.run(aggregate, ("--report", "report", "--save", "saved"))
    place.run(("-m", "conal", "plan", "saved", "--experts", "2", "--out", "plan.csv"))
    (place.folder / "more.csv").write_text("task,worker,label\n9,1,0\n9,2,0\n", encoding="utf-8")
    place.run(("-m", "conal", "update", "saved", "more.csv"))
    (place.folder / "features.csv").write_text("task,x\n" + "".join(f"{k},{k}\n" for k in range(6)), encoding="utf-8")
    fit = ("-m", "conal", "fit", "labels.csv", "--features", "features.csv", "--out", "model")
    message = place.run(fit, code=1)
    if "needs torch, which is not installed; run: pip install 'conal[train]'" not in message:
        raise SystemExit(f"conal fit without torch says: {message}")
    message = place.run(("-c", "import conal; conal.CoNAL"), code=1)
    if "conal.CoNAL needs torch, which is not installed; run: pip install 'conal[train]'" not in message:
        raise SystemExit(f"conal.CoNAL without torch says: {message}")
    version = place.run(("-c", "import sys; print('{}.{}'.format(*sys.version_info))")).strip()
    sys.stdout.write(
        f"labels only, Python {version}: inspect, convert, every aggregator, report, plan and update work\n"
    )


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
