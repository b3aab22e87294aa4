"""A small part of the torture campaign, by a fixed seed, and every case that once failed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from conal.io import platforms
from torture.commands import commands_covered, scenarios
from torture.documents import LAYOUTS
from torture.forge import apply, resign
from torture.intercept import build
from torture.page import table, write_page
from torture.tally import Tally

ROOT = Path(__file__).parents[1]
CASES = sorted((Path(__file__).parent / "torture_cases").glob("*.json"))

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the campaign forks and limits memory")

RUN = """
import json, sys
from pathlib import Path
from torture import job
from torture.replay import replay
from torture.tally import Tally
folder, seconds = Path(sys.argv[1]).resolve(), float(sys.argv[2])
job.prepare()
tally = Tally()
for part in sys.argv[3:]:
    job.run_part(part, folder, 1, seconds, tally)
(folder / "found.json").write_text(json.dumps(tally.as_json()))
"""
REPLAY = """
import json, sys
from pathlib import Path
from torture import job
from torture.replay import replay
folder = Path(sys.argv[1]).resolve()
job.prepare()
found = {}
for number, name in enumerate(sys.argv[2:]):
    place = folder / str(number)
    place.mkdir()
    found[name] = replay(Path(name), place)
(folder / "found.json").write_text(json.dumps(found))
"""


def python(code: str, folder: Path, *arguments: object) -> Any:
    """What a process that starts with the library found: it forks, and pytest must not."""
    library = build(folder)
    preload = {"LD_PRELOAD": str(library)} if isinstance(library, Path) else {}
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2", "PYTHONWARNINGS": "ignore", **preload}
    words = [sys.executable, "-c", code, str(folder), *map(str, arguments)]
    done = subprocess.run(words, env=environment, cwd=ROOT, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads((folder / "found.json").read_text())


@pytest.mark.slow
def test_a_short_campaign_finds_nothing(tmp_path: Path) -> None:
    found = python(RUN, tmp_path, 5, "fuzz", "names", "folders", "signals")
    assert [each["signature"] for each in found["failures"]] == []
    assert found["counts"]["fuzzed files"]["refused"] > 0
    assert found["counts"]["tables of odd names"]["unchanged"] > 0
    assert sum(found["counts"]["signals"].values()) > 0


@pytest.mark.slow
def test_cases_that_once_failed_do_not_fail_again(tmp_path: Path) -> None:
    found = python(REPLAY, tmp_path, *CASES)
    assert len(found) == len(CASES)
    assert {Path(name).stem: problem for name, problem in found.items() if problem} == {}


# ---------------------------------------------------------------- the campaign itself


def test_every_command_meets_signals() -> None:
    assert {scenario.command for scenario in scenarios()} == commands_covered()


def test_every_file_format_is_fuzzed() -> None:
    assert sorted(LAYOUTS) == sorted(["plain", "xlsx", *platforms.names()])


def test_forged_folders_never_change_what_a_link_leads_to(tmp_path: Path) -> None:
    outside, folder = tmp_path / "outside.json", tmp_path / "model"
    outside.write_text("precious")
    folder.mkdir()
    for name in ("config.json", "labels.csv"):
        (folder / name).write_text("{}")
    link = {"change": "link", "file": "config.json", "to": str(outside)}
    changes: list[dict[str, Any]] = [
        {"change": "flip", "file": "config.json", "byte": 0, "bit": 0},
        {"change": "cut", "file": "config.json", "share": 0.5},
        {"change": "write", "file": "config.json", "value": {}},
        {"change": "swap", "file": "labels.csv", "other": "config.json"},
    ]
    apply([link, *changes], folder)
    resign(folder)
    assert outside.read_text() == "precious"
    assert (folder / "labels.csv").read_text() == "{}"
    apply([{"change": "cut", "file": "labels.csv", "share": 0.5}], folder)
    assert (folder / "labels.csv").read_text() == "{"


def test_the_library_notes_files_that_are_opened(tmp_path: Path) -> None:
    if isinstance(build(tmp_path), str):
        pytest.skip("no compiler")
    code = """
import json, sys
from pathlib import Path
from torture.intercept import watch
folder = Path(sys.argv[1]).resolve()
secret, log = folder / "secret", folder / "log"
secret.mkdir()
(secret / "before").write_text("")
watch(secret, log)
(folder / "elsewhere").write_text("")
(secret / "written").write_text("hello")
(secret / "before").read_text()
(folder / "found.json").write_text(json.dumps([Path(line).name for line in log.read_text().splitlines()]))
"""
    assert python(code, tmp_path) == ["written", "before"]


def test_a_reader_that_crashes_hangs_or_raises_is_found_out(tmp_path: Path) -> None:
    code = """
import json, os, sys
from pathlib import Path
from torture import batches
batches.SECONDS = 1
def work(number):
    if number == 1:
        os.abort()
    if number == 2:
        while True:
            pass
    if number == 3:
        bytearray(3 * 2**30)
    return "read", str(number)
def guarded(number):
    try:
        return work(number)
    except MemoryError:
        return "failed", "no memory"
folder = Path(sys.argv[1])
(folder / "found.json").write_text(json.dumps(list(batches.batch(guarded, 5, folder / "log"))))
"""
    assert python(code, tmp_path) == [
        [0, "read", "0"],
        [1, "failed", "ends the process: SIGABRT"],
        [2, "failed", "takes more than 1 s"],
        [3, "failed", "no memory"],
        [4, "read", "4"],
    ]


def test_counts_of_two_jobs_add_up_and_the_smaller_case_is_kept() -> None:
    one, two = Tally(), Tally()
    one.count("signals", "KILL", 3)
    two.count("signals", "KILL", 4)
    one.fail("x", {"part": "fuzz", "base64": "aaaa"})
    two.fail("x", {"part": "fuzz", "base64": "a"})
    one.merge(two.as_json())
    found = one.as_json()
    assert found["counts"] == {"signals": {"KILL": 7}}
    assert found["failures"] == [{"signature": "x", "times": 2, "case": {"part": "fuzz", "base64": "a"}}]


def test_the_table_of_the_page_has_the_counts(tmp_path: Path) -> None:
    page = tmp_path / "SECURITY.md"
    page.write_text("before\n<!-- campaign -->\nold\n<!-- end -->\nafter\n")
    counts = {"fuzzed files": {"refused": 1500, "failed": 2}}
    summary = {"date": "2026-01-01", "seconds": 3600, "jobs": 2, "seed": 1, "counts": counts, "failures": [{}]}
    write_page(page, summary)
    assert page.read_text() == f"before\n<!-- campaign -->\n\n{table(summary)}\n\n<!-- end -->\nafter\n"
    assert "| broken files | 1,502 | refused 1,500 | 2 |" in page.read_text()
    assert "60 minutes, 2 processes, seed 1: 1 kinds of failure." in page.read_text()
