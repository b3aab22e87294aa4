"""Names and paths cannot control the terminal: their control characters are printed spelled out."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conal.cli.options import CONTROL, one_line, visible

if TYPE_CHECKING:
    from cli.conftest import Run

HEADER = ("task", "worker", "label")
RED, BELL, CSI, RIGHT_TO_LEFT = "\x1b[31m", "\x07", "\x9b31m", "\u202e"
ODD = f"a{RED}{BELL}{CSI}{RIGHT_TO_LEFT}b"
ROWS = [("t1", "v", ODD), ("t1", "w", ODD), ("t2", "v", "y"), ("t2", "w", "y\x0berror: forged")]


def quoted(path: Path, header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL).writerows([header, *rows])
    return path


@given(st.text())
def test_visible_text_controls_nothing_and_json_stays_the_same(text: str) -> None:
    assert not CONTROL.search(visible(text))
    assert json.loads(visible(json.dumps(text, ensure_ascii=False))) == text


def test_ordinary_text_is_unchanged() -> None:
    text = "naïve 漢字 🙂\tx\ny\u00a0z\u200d"
    assert visible(text) == text
    assert one_line(" a\r\n b ") == "a b"


@pytest.mark.parametrize("command", ["aggregate", "inspect", "convert"])
@pytest.mark.parametrize("as_json", [False, True])
def test_names_are_printed_with_their_control_characters_spelled_out(
    conal: Run, tmp_path: Path, command: str, as_json: bool
) -> None:
    labels = quoted(tmp_path / "a.csv", HEADER, ROWS)
    options = {"aggregate": ("--out", tmp_path / "l.parquet"), "convert": ("--to", "csv", "--out", tmp_path / "c.csv")}
    run = conal(command, labels, *options.get(command, ()), *(["--json"] if as_json else []))
    assert run.code == 0
    assert not CONTROL.search(run.out + run.err)
    if command != "convert":
        assert "\\u001b[31m" in run.out
    assert not [line for line in run.out.splitlines() if line.startswith("error: forged")]


def test_paths_and_values_in_errors_and_warnings(conal: Run, tmp_path: Path) -> None:
    run = conal("inspect", tmp_path / f"no{RED}file.csv")
    assert run.code == 2
    assert "no\\u001b[31mfile.csv" in run.err
    assert not CONTROL.search(run.err)
    labels = quoted(tmp_path / f"{RED}.csv", HEADER, [("t1", "v", "x"), ("t1", "v", "y"), ("t2", "v", "")])
    run = conal("aggregate", labels, "--out", tmp_path / "l.csv")
    assert "warning: " in run.err
    assert not CONTROL.search(run.err)


@pytest.mark.parametrize("name", ["=1+1", "@sum(a1)", "+cmd|' /c calc'!a0", "-2+3", "\t=1"])
def test_names_like_formulas_are_unchanged(conal: Run, tmp_path: Path, name: str) -> None:
    labels = quoted(tmp_path / "a.csv", HEADER, [("t1", "v", name), ("t1", "w", name), ("t2", "v", "y")])
    conal("convert", labels, "--to", "csv", "--out", tmp_path / "c.csv")
    both = [conal("inspect", path, "--json").json() for path in (labels, tmp_path / "c.csv")]
    assert both[0]["classes"] == both[1]["classes"] == {name: 2, "y": 1}
