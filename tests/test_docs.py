"""The documentation is true: examples run, and everything that is registered is described."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import typer

import conal
from conal.cli import app
from conal.estimator import CrowdClassifier
from conal.io import platforms, write_annotations, write_table
from conal.methods.base import methods as registry
from conal.parameters.reading import PLAIN_FORMATS
from conal.report.evidence import Evidence
from conal.report.findings import Findings, findings_registry
from helpers.commands import run_line
from helpers.guide import CONTRIBUTING, guide_code
from helpers.pages import commands

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
FILES = (ROOT / "docs" / "files.md").read_text(encoding="utf-8")
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


@pytest.mark.parametrize("code", blocks("python"))
def test_python_examples_run(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "README.md", "exec"), {})  # noqa: S102


def test_command_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands of the README, on files in the layout that it states."""
    monkeypatch.chdir(tmp_path)
    data = conal.datasets.synthetic(n_train=80, n_valid=10, n_test=10, n_classes=2, n_annotators=5, seed=0)
    crowd = data.annotations
    ids = np.array([f"img_{k:04}" for k in range(80)])
    named = conal.Annotations.from_triples(
        ids[crowd.tasks], crowd.annotators.astype(str), np.array(["cat", "dog"])[crowd.labels]
    )
    write_annotations(named, tmp_path / "labels.csv")
    features = pa.table({"task": ids.tolist(), **{f"f{k}": data.x[:, k] for k in range(data.x.shape[1])}})
    write_table(features, tmp_path / "features.csv")
    write_table(features.slice(0, 7), tmp_path / "new_features.csv")
    (tmp_path / "answers.csv").write_bytes((tmp_path / "labels.csv").read_bytes())
    rows = [f"{ids[k]},{('cat', 'dog')[data.y_true[k]]}" for k in range(0, 80, 2)]
    (tmp_path / "gold.csv").write_text("\n".join(["task,label", *rows]), encoding="utf-8")
    ran = [line for line in commands(ROOT / "README.md") if line.startswith("conal")]
    assert len(ran) == 4
    for command in ran:
        run_line(command)
    predictions = (tmp_path / "predictions.csv").read_text().splitlines()
    assert predictions[0] == "task,label,probability,proba_cat,proba_dog"
    assert len(predictions) == 8
    clean = (tmp_path / "clean.csv").read_text().splitlines()
    assert clean[0] == predictions[0]
    assert len(clean) == 1 + named.n_tasks
    assert (tmp_path / "jury" / "report.html").is_file()


def test_the_readme_is_short_and_has_a_picture() -> None:
    assert len(README.splitlines()) <= 150
    assert len(README.split()) <= 750
    (picture,) = re.findall(r"!\[[^]]+\]\(([^)]+)\)", README)
    assert (ROOT / picture).stat().st_size < 200_000


@pytest.mark.parametrize("name", ["SoftVotes", "SmoothedVotes", "LabelsGiven"])
def test_the_examples_of_the_contributing_guide_pass_the_linter(name: str, tmp_path: Path) -> None:
    place = tmp_path / "my_file.py"
    place.write_text(guide_code(name), encoding="utf-8")
    pytest.importorskip("ruff")
    ruff = [sys.executable, "-m", "ruff", "check", "--isolated", "--select", "F,I,B,UP,RUF", "--line-length", "120"]
    done = subprocess.run([*ruff, str(place)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_finding_of_the_contributing_guide_works(monkeypatch: pytest.MonkeyPatch) -> None:
    findings_registry.discover()
    monkeypatch.setattr(findings_registry, "_entries", dict(findings_registry._entries))
    exec(compile(guide_code("LabelsGiven"), "CONTRIBUTING.md", "exec"), {"__name__": "guide"})  # noqa: S102
    crowd = conal.Annotations.from_triples([0, 0, 1], ["<b>", "ann", "ann"], ["x", "y", "x"])
    found = Findings(Evidence(crowd, np.eye(2), np.eye(2), np.eye(2), np.stack([np.eye(2)] * 2)))
    ann, other = found.section("labels_given")["rows"]
    assert ann == {"annotator": "ann", "labels": 2, "label_share": pytest.approx(2 / 3)}
    assert other == {"annotator": "<b>", "labels": 1, "label_share": pytest.approx(1 / 3)}
    sentences = findings_registry.get("labels_given").headlines({"rows": [other]}, found.report)
    assert list(sentences) == ["<b>&lt;b&gt;</b> gave most labels: 1 label."]


def test_the_method_of_the_contributing_guide_works(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a file of its own would: registered, made by name with its own parameter, fitted."""
    code = guide_code("SoftVotes")
    monkeypatch.setattr(registry, "_entries", dict(registry._entries))
    monkeypatch.setattr(CrowdClassifier, "by_method", dict(CrowdClassifier.by_method))
    monkeypatch.setitem(sys.modules, "guide", guide := ModuleType("guide"))
    exec(compile(code, "CONTRIBUTING.md", "exec"), vars(guide))  # noqa: S102
    data = conal.datasets.synthetic(n_train=200, n_valid=10, n_test=100, n_classes=3, seed=1)
    assert data.test is not None
    clf = conal.make("soft-votes", smoothing=0.1, epochs=20, batch_size=32, verbose=False)
    assert clf.fit(data.x, data.annotations).score(data.test.x, data.test.y) > 0.6


@pytest.mark.parametrize("file", ["labels.csv", "annotators.csv"])
def test_every_column_of_the_tables_is_documented(file: str) -> None:
    crowd = conal.Annotations.from_triples([0, 0, 1], ["ann", "bob", "ann"], ["x", "CLASS", "x"])
    omega, pi = np.full(3, 0.5), np.stack([np.eye(2)] * 2)
    known = np.array([0, -1])  # with true labels there are more columns
    table = Findings(Evidence(crowd, np.eye(2), np.eye(2), np.eye(2), pi, omega, known=known)).tables[file]
    (text,) = re.findall(rf"^Columns of `{file}`:\n\n(.*?)\n\n", FILES, flags=re.MULTILINE | re.DOTALL)
    assert set(table.column_names) - {"proba_x"} <= set(re.findall(r"`(\w+)`", text))


def test_every_format_is_in_the_table_of_formats_with_its_options() -> None:
    rows = re.findall(r"^\| (`[^|]+`) \| ([^|]+) \| [^|]+ \| ([^|]*) ?\|$", FILES, flags=re.MULTILINE)
    documented = {name.strip("`"): (what, options) for names, what, options in rows for name in names.split(", ")}
    del documented["--set format"]
    assert sorted(documented) == sorted((*PLAIN_FORMATS, *platforms.names()))
    words = {name: f"--{name}-column" for name in ("task", "worker", "label")}
    words |= {"question": "--question", "keep_rejected": "--set keep_rejected=true"}
    for name in platforms.names():
        what, options = documented[name]
        taken = {option for option, word in words.items() if f"`{word}`" in options}
        assert taken == set(platforms.get(name).takes), name
        assert platforms.get(name).title.removeprefix("a ").split()[0] in what, name


def test_the_python_example_of_true_labels_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", FILES, flags=re.DOTALL)
    found: dict[str, Any] = {}
    exec(compile(code, "files.md", "exec"), found)  # noqa: S102
    assert repr(found["file"].annotations) == "Annotations(1 tasks, 2 annotators, 2 classes, 2 annotations)"
    assert found["file"].true_labels == {"h1": "cat"}
    assert found["file"].data.column_names == ["task", "text"]


def test_every_make_target_of_the_readme_exists() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"`?make ([a-z-]+)`?", README):
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target


def test_ci_calls_the_test_command_of_the_readme() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert re.search(r"^make test$", script, flags=re.MULTILINE)
    assert re.search(r"^\$ make test\b", README, flags=re.MULTILINE)


def touched() -> dict[str, list[str]]:
    """What a contributor adds, and the files that the guide names for it."""
    rows = re.findall(r"^\| (an? [^|]+) \| ([^|]+) \|$", CONTRIBUTING, flags=re.MULTILINE)
    return {what: re.findall(r"`([^`]+)`", files) for what, files in rows}


def test_the_guide_names_places_that_exist() -> None:
    assert len(touched()) > 10
    for what, files in touched().items():
        for name in files:
            assert (ROOT / name).parent.is_dir(), what
            assert "/my_" in name or (ROOT / name).is_file(), what


@pytest.mark.parametrize("text", [CONTRIBUTING, ARCHITECTURE], ids=["CONTRIBUTING", "architecture"])
def test_files_that_are_named_exist(text: str) -> None:
    names = {name for name in re.findall(r"`([\w./]+\.py)`", text) if "my_" not in name}
    assert len(names) > 5
    assert all((ROOT / name).is_file() or (ROOT / "src" / "conal" / name).is_file() for name in names), names


def test_every_package_is_in_the_architecture() -> None:
    source = ROOT / "src" / "conal"
    names = {f"{path.parent.name}/" for path in source.glob("*/__init__.py")}
    names |= {path.stem for path in source.glob("*.py")} - {"__init__", "__main__"}
    for name in names:
        assert re.search(rf"^  .*\b{name}", ARCHITECTURE, flags=re.MULTILINE), name


def test_the_commands_have_help() -> None:
    group = typer.main.get_group(app)
    assert set(group.commands) >= {"aggregate", "demo", "fit", "predict", "simulate"}
    for name, command in group.commands.items():
        assert command.help, name
        for parameter in command.params:
            assert getattr(parameter, "help", None), f"{name}: {parameter.name}"


PAGES = [*(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")), *(ROOT / "docs").rglob("*.md")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_that_exist(page: Path) -> None:
    """Headings are checked when the site is built."""
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        if ":" not in target and not target.endswith("notebook.md"):  # a page that is made of the notebook
            assert (page.parent / target).exists(), target


def test_pages_that_the_source_names_exist() -> None:
    texts = [
        path.read_text(encoding="utf-8")
        for folder in ("src", "tools", "tests")
        for path in (ROOT / folder).rglob("*.py")
    ]
    names = {name for text in texts for name in re.findall(r"\bdocs/[\w/-]+\.md", text)}
    assert len(names) > 3
    assert all((ROOT / name).is_file() for name in names), names
