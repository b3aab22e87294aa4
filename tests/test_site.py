"""The documentation site: it builds without a warning, its reference is current and its examples run."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import cli_reference
import methods_reference
import notebook
from conal import aggregation, methods
from docstrings import readable
from helpers.pages import run_page

ROOT = Path(__file__).parents[1]


@pytest.mark.large
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    pytest.importorskip("zensical", reason="the site is built with zensical: make install")
    for name in ("docs", "src", "tools"):
        shutil.copytree(ROOT / name, tmp_path / name)
    shutil.copy(ROOT / "mkdocs.yml", tmp_path)
    notebook.write_page(tmp_path / "docs")
    done = subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--strict"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    page = (tmp_path / "site" / "api" / "aggregation" / "index.html").read_text(encoding="utf-8")
    assert "DawidSkene" in page
    assert "<math" in page
    assert ":math:" not in page


def test_the_reference_of_commands_is_current() -> None:
    """Up to lists of methods and aggregators: a new one touches no other file."""
    written = cli_reference.PAGE.read_text(encoding="utf-8")
    assert _without_names(written) == _without_names(cli_reference.page()), "run `make pages`"


def test_the_page_of_methods_and_aggregators_is_current() -> None:
    written = methods_reference.PAGE.read_text(encoding="utf-8")
    assert written == methods_reference.page(), "run `make pages`"


def _without_names(page: str) -> str:
    page = re.sub(r"\s", "", page)
    for name in sorted({*aggregation.names(), *methods.names()}, key=len, reverse=True):
        page = page.replace(f"{name},", "").replace(name, "")
    return page


def test_docstrings_become_markdown() -> None:
    assert readable("By :func:`conal.make` of :class:`~conal.CoNAL`.") == "By `conal.make` of `conal.CoNAL`."
    text = readable(
        "Rate:\n\n.. math:: a_b\n   = 1\n\nParameters\n----------\nx, y : int\n    Both.\nz : int\n    One.\n"
    )
    assert '<math xmlns="http://www.w3.org/1998/Math/MathML" display="block">' in text
    assert "<msub><mi>a</mi><mi>b</mi></msub>" in text
    assert text.endswith("x : int\n    Both.\ny : int\n    Both.\nz : int\n    One.")


@pytest.mark.slow
def test_the_examples_of_the_page_about_confusion_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_page(ROOT / "docs" / "explanation" / "confusion.md")
