"""How large the package is, and how much of it a run enters: ``python tools/measure.py [ROOT]``.

A code line has code on it; docstrings, comments and blank lines do not count. ROOT is the root of a checkout, so that
two versions can be compared.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

TRACER = r"""
import json, os, sys, threading
import numpy, pyarrow
import conal
root = os.path.dirname(conal.__file__)
entered, containers, importing = set(), set(), [0]
def own_fields(value):
    names = [name for each in type(value).__mro__ for name in getattr(each, "__slots__", ()) if isinstance(name, str)]
    slots = [getattr(value, name, None) for name in names if not name.startswith("__")]
    return [*getattr(value, "__dict__", {}).values(), *slots, *(value if isinstance(value, tuple) else ())]
def holds(value, depth=3):
    if isinstance(value, (numpy.ndarray, pyarrow.Table, pyarrow.Array, pyarrow.ChunkedArray)) or (
        type(value).__module__ in ("torch", "pandas", "pandas.core.frame")
    ):
        return hasattr(value, "__len__") and getattr(value, "ndim", 1) > 0 and len(value) == N_LABELS
    if depth == 0 or not type(value).__module__.startswith("conal"):
        return False
    return any(holds(each, depth - 1) for each in own_fields(value))
def profile(frame, event, arg):
    code = frame.f_code
    if not code.co_filename.startswith(root):
        return
    if code.co_name == "<module>":
        importing[0] += {"call": 1, "return": -1}.get(event, 0)
    if importing[0] or code.co_name == "<module>":
        return
    if event == "call":
        entered.add((code.co_filename, code.co_firstlineno, code.co_name))
    if event == "return":
        for value in (arg, frame.f_locals.get("self") if code.co_name == "__init__" else None):
            if type(value).__module__.startswith("conal") and holds(value):
                containers.add(type(value).__qualname__)
threading.setprofile(profile)
sys.setprofile(profile)
try:
    RUN
except SystemExit as ended:
    assert not ended.code, ended.code
finally:
    sys.setprofile(None)
    print("MEASURED" + json.dumps([len(entered), len({each[0] for each in entered}), sorted(containers)]))
"""
COMMAND = "from conal.cli import main; sys.argv = ['conal', *{arguments!r}]; main()"
FRAME = (
    "import pandas as pd; from conal.aggregation import DawidSkene; frame = pd.read_csv('labels.csv', dtype=str)\n"
    "    DawidSkene().fit_predict(frame)"
)
OPTIONS = r"""
import json, click, typer.main
from conal.cli.app import app
group = typer.main.get_command(app)
shown = {name: each for name, each in group.commands.items() if not each.hidden}
print("MEASURED" + json.dumps({name: sum(p.param_type_name == "option" and not p.hidden and p.name != "help"
                               for p in each.params) for name, each in shown.items()}))
"""
N_TASKS, N_ANNOTATORS = 251, 6


def main() -> None:
    """Print all counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", nargs="?", type=Path, default=Path(__file__).parents[1])
    root = parser.parse_args().root.resolve()
    for line in (*source_counts(root / "src"), *options(root), *runs(root)):
        print(line)


def source_counts(src: Path) -> Iterator[str]:
    """Counts of the source as it is written."""
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(src.rglob("conal/**/*.py"))}
    trees = {path: ast.parse(text) for path, text in texts.items()}
    code = {path: code_lines(text, trees[path]) for path, text in texts.items()}
    largest = max(code, key=lambda path: len(code[path]))
    functions = [
        (len(set(range(node.lineno, (node.end_lineno or 0) + 1)) & code[path]), f"{path.name}:{node.name}")
        for path, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    yield f"files: {len(texts)}"
    yield f"lines: {sum(text.count(chr(10)) for text in texts.values()):,}"
    yield f"code lines: {sum(map(len, code.values())):,}"
    yield f"largest file: {largest.relative_to(src)}, {len(code[largest])} code lines"
    yield "largest function: {1}, {0} code lines of {2:,} functions".format(*max(functions), len(functions))
    importers = importers_of({module_name(src, path): tree for path, tree in trees.items()})
    yield f"modules with one importer: {sum(len(each) == 1 for each in importers.values())}"
    yield f"names in __all__: {sum(map(exported, trees.values())):,}"
    packages: Counter[str] = Counter()
    for path, lines in code.items():
        parts = path.relative_to(src / "conal").parts
        packages[parts[0] if len(parts) > 1 else "."] += len(lines)
    yield "by package: " + ", ".join(f"{name} {n:,}" for name, n in packages.most_common())


def code_lines(text: str, tree: ast.Module) -> set[int]:
    """Numbers of the lines that have code on them."""
    prose: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            prose.update(range(node.lineno, (node.end_lineno or 0) + 1))
    lines = enumerate(text.splitlines(), 1)
    return {k for k, line in lines if line.strip() and not line.strip().startswith("#") and k not in prose}


def module_name(src: Path, path: Path) -> str:
    return ".".join(path.with_suffix("").relative_to(src).parts).removesuffix(".__init__")


def importers_of(trees: dict[str, ast.Module]) -> dict[str, set[str]]:
    """Which modules import each module, anywhere in their code."""
    importers: dict[str, set[str]] = defaultdict(set)
    for name, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                for target in {node.module, *(f"{node.module}.{each.name}" for each in node.names)}:
                    importers[target].add(name)
            elif isinstance(node, ast.Import):
                for each in node.names:
                    importers[each.name].add(name)
    return {name: importers[name] - {name} for name in trees}


def exported(tree: ast.Module) -> int:
    """The number of names in the module's ``__all__``."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets):
            return len(getattr(node.value, "elts", []))
    return 0


def options(root: Path) -> Iterator[str]:
    """Commands and their options."""
    found = measured(root, OPTIONS, Path.cwd())
    if not isinstance(found, dict):
        return
    yield f"commands: {len(found)}"
    yield f"options: {sum(found.values())} ({', '.join(f'{name} {n}' for name, n in found.items())})"


def runs(root: Path) -> Iterator[str]:
    """What three runs on a small crowd enter and hold; imports do not count."""
    fit = ["fit", "labels.csv", "--features", "features.npy", "--out", "model", "--epochs", "2", "--quiet"]
    scripts = {
        "conal fit": COMMAND.format(arguments=fit),
        "conal aggregate": COMMAND.format(arguments=["aggregate", "labels.csv", "--out", "out.csv", "--quiet"]),
        "DawidSkene().fit_predict(frame)": FRAME,
    }
    for name, script in scripts.items():
        with tempfile.TemporaryDirectory() as folder:
            n_labels = write_crowd(Path(folder))
            tracer = TRACER.replace("N_LABELS", str(n_labels)).replace("RUN", script)
            found = measured(root, tracer, Path(folder))
        if isinstance(found, list):
            entered, files, containers = found
            yield f"{name}: {entered} code objects in {files} files"
            yield f"  containers of labels: {len(containers)} ({', '.join(containers)})"


def write_crowd(folder: Path) -> int:
    """Write labels.csv and features.npy; how many labels there are."""
    import numpy as np

    rng = np.random.default_rng(0)
    truth = rng.integers(3, size=N_TASKS)
    right = rng.random((N_TASKS, N_ANNOTATORS)) < 0.7
    labels = np.where(right, truth[:, None], rng.integers(3, size=right.shape))
    labelled = rng.random(right.shape) < 0.7
    rows = (f"{i},w{r},c{labels[i, r]}" for i, r in zip(*np.nonzero(labelled), strict=True))
    (folder / "labels.csv").write_text("\n".join(["task,worker,label", *rows, ""]), encoding="utf-8")
    np.save(folder / "features.npy", rng.normal(size=(N_TASKS, 4)) + truth[:, None])
    return int(labelled.sum())


def measured(root: Path, script: str, folder: Path) -> object:
    """What a script printed last, run with the package of ``root``; None if it failed."""
    environment = os.environ | {"PYTHONPATH": str(root / "src")}
    run = subprocess.run([sys.executable, "-c", script], cwd=folder, env=environment, capture_output=True, text=True)
    found = [line for line in run.stdout.splitlines() if line.startswith("MEASURED")]
    if not found:
        print(run.stderr[-2000:], file=sys.stderr)
        return None
    result: object = json.loads(found[-1].removeprefix("MEASURED"))
    return result


if __name__ == "__main__":
    main()
