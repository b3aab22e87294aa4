"""A small part of the fuzzing, by a fixed seed, and files that once failed."""

from __future__ import annotations

import random
import shutil
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from conal.errors import ConalError
from conal.io import platforms
from fuzz.checks import check_file, run
from fuzz.commands import LABELS_ONLY, Stage, check_environment, check_full_disk, check_kill, make_stage
from fuzz.files import FILES
from fuzz.folders import check_folder, make_models
from fuzz.names import check_names, check_table
from helpers.platforms import EXPORTS

CASES = Path(__file__).with_name("cases")

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="forks, and limits time and files"),
    pytest.mark.filterwarnings("ignore"),
]


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    return make_stage(tmp_path_factory.mktemp("stage"), LABELS_ONLY)


def test_broken_files_are_read_or_refused(tmp_path: Path) -> None:
    outcomes = run(partial(check_file, folder=tmp_path), "files", 120)
    assert outcomes.keys() == {"read", "refused"}


def test_odd_names_come_out_as_they_went_in(tmp_path: Path) -> None:
    assert run(partial(check_names, folder=tmp_path), "names", 60)["unchanged"] > 30


def test_tampered_folders_are_refused_or_harmless(tmp_path: Path) -> None:
    outcomes = run(partial(check_folder, models=make_models(tmp_path)), "folders", 40)
    assert outcomes.keys() == {"accepted", "harmless", "refused"}


def test_killed_commands_leave_whole_results(stage: Stage) -> None:
    assert sum(run(partial(check_kill, stage=stage), "kills", 4).values()) == 4


def test_a_full_disk_leaves_whole_results(stage: Stage) -> None:
    assert run(partial(check_full_disk, stage=stage), "disks", 3)["refused"] > 0


def test_odd_environments_change_nothing(stage: Stage) -> None:
    assert sum(run(partial(check_environment, stage=stage), "environments", 1).values()) == 1


# ---------------------------------------------------------------- what once failed


@pytest.mark.parametrize(
    ("kind", "name", "options"),
    [
        ("labels", "latin-1.arrow", {}),
        ("labels", "decimals.arrow", {}),
        ("labels", "lost-rows.parquet", {}),
        ("labels", "other-columns.zip", {}),
        ("labels", "deep.eval", {"format": "inspect-ai"}),
        ("labels", "other-keys.json", {"format": "label-studio-min"}),
        ("labels", "mixed-numbers.csv", {"format": "wide"}),
        ("features", "scalar-ids.npz", {}),
        ("report", "huge-count.json", {}),
    ],
)
def test_files_that_once_ended_in_a_traceback(kind: str, name: str, options: dict[str, Any], tmp_path: Path) -> None:
    _, read, _ = FILES[kind]
    try:
        read(Path(shutil.copy(CASES / name, tmp_path)), options)
    except ConalError as error:
        assert str(error)  # noqa: PT017 - some are refused, others have rows enough


@pytest.mark.parametrize(
    "rows",
    [
        [("1e400", "a b", "-0"), ("א", "A", "3.0")],
        [("=1+1", "yes", "3"), ("=1+1", "no", "3.0"), ("4", "yes", "-0")],
        [("3.", "cat", "3.0"), ("${x}", "t2", "3")],
    ],
)
def test_tables_that_once_came_out_otherwise(rows: list[tuple[str, str, str]], tmp_path: Path) -> None:
    check_table(rows, ["triples", "wide"], random.Random(0), tmp_path)


def test_every_platform_is_fuzzed() -> None:
    assert sorted(EXPORTS) == platforms.names()
