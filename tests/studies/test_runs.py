"""The runner: what is finished is kept and not repeated, a failing run is reported, and others go on."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from conal.errors import InputError
from studies import __main__ as command
from studies import runs
from studies.runs import Options, Setting, finished, run_missing
from studies.tables import Summary, Table, Tables, read_csv

SETTINGS: list[Setting] = [{"part": "counts", "seed": seed, "nested": {"a": [1, 2]}} for seed in range(4)]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A study that notes its runs; that of seed 2 fails until the note "mended" is there."""
    made: list[int] = []
    study: Any = ModuleType("studies.counting", "Counts to four.\n\nMore.")

    def run(setting: Setting) -> dict[str, Any]:
        made.append(setting["seed"])
        if setting["seed"] == 2 and -1 not in made:
            raise ValueError("this one fails")
        return {"value": setting["seed"] / 3}

    def summarise(tables: Tables) -> Summary:
        return Summary([Table("Values", ["seed"], [[str(row["seed"])] for row in tables["counts"]])])

    study.PARTS, study.run, study.summarise = ("counts",), run, summarise
    study.runs = lambda options: SETTINGS[: len(options.seeds_or(4))]
    monkeypatch.setitem(sys.modules, "studies.counting", study)
    monkeypatch.setattr(command, "STUDIES", ("counting",))
    return made


def test_runs_are_kept_at_once_and_not_repeated(tmp_path: Path, calls: list[int]) -> None:
    calls.append(-1)
    file = tmp_path / "made" / "runs.jsonl"
    records, failures = run_missing("counting", SETTINGS[:2], file)
    assert ([r["rows"] for r in records], failures) == ([[{"value": 0.0}], [{"value": 1 / 3}]], [])
    shown: list[tuple[int, int]] = []
    records, _ = run_missing("counting", SETTINGS, file, show=lambda *at: shown.append(at))
    assert calls == [-1, 0, 1, 2, 3]
    assert [r["setting"]["seed"] for r in records] == [0, 1, 2, 3]
    assert shown == [(3, 4), (4, 4)]
    assert {"setting", "rows", "version", "commit", "software", "machine", "seconds", "date"} == set(records[0])
    assert list(finished(file)) == records


def test_a_line_that_was_cut_off_is_run_again(tmp_path: Path, calls: list[int]) -> None:
    calls.append(-1)
    file = tmp_path / "runs.jsonl"
    run_missing("counting", SETTINGS[:2], file)
    file.write_text(file.read_text(encoding="utf-8")[:-20], encoding="utf-8")
    records, _ = run_missing("counting", SETTINGS[:2], file)
    assert calls == [-1, 0, 1, 1]
    assert len(records) == len(list(finished(file))) == 2


@pytest.mark.parametrize(
    ("version", "commit", "repeated"),
    [("0.3.0", "other", False), ("0.3.1", "other", True), ("0.3.1.dev0", "other", True), ("0.9", "same", False)],
)
def test_a_run_counts_for_its_release_or_commit(
    version: str, commit: str, repeated: bool, tmp_path: Path, calls: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "runs.jsonl"
    monkeypatch.setattr(runs, "code", lambda: {"version": "0.3.0", "commit": "same", "software": ""})
    run_missing("counting", SETTINGS[:1], file)
    monkeypatch.setattr(runs, "code", lambda: {"version": version, "commit": commit, "software": ""})
    run_missing("counting", SETTINGS[:1], file)
    assert calls == ([0, 0] if repeated else [0])


def test_a_run_of_a_development_version_counts_for_its_commit_only(
    tmp_path: Path, calls: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "runs.jsonl"
    for commit in ("one", "two", "two"):
        made = {"version": "0.4.0.dev0", "commit": commit, "software": ""}
        monkeypatch.setattr(runs, "code", lambda made=made: made)
        run_missing("counting", SETTINGS[:1], file)
    assert calls == [0, 0]


def test_a_failing_run_is_reported_with_its_setting_and_others_go_on(
    tmp_path: Path, calls: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert command.main(["counting", "--out", str(out)]) == 1
    told = capsys.readouterr().err
    assert '"seed": 2' in told
    assert "ValueError: this one fails" in told
    assert "1 of 4 runs failed" in told
    assert calls == [0, 1, 2, 3]
    assert not (out / "counting.md").exists()
    calls.append(-1)
    assert command.main(["counting", "--out", str(out)]) == 0
    assert calls == [0, 1, 2, 3, -1, 2]
    assert "| 3 |" in (out / "counting.md").read_text(encoding="utf-8")
    rows = read_csv(out / "counts.csv")
    assert [row["value"] for row in rows] == [0, 1 / 3, 2 / 3, 1]
    assert json.loads(rows[0]["nested"]) == {"a": [1, 2]}
    capsys.readouterr()
    assert command.main(["counting", "--show", str(out)]) == 0
    assert "| 3 |" in capsys.readouterr().out


def test_further_settings_follow_from_what_the_first_have_found(
    tmp_path: Path, calls: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the chosen points of a search, which get more seeds; the first are not run again."""

    def more(tables: Tables, options: Options) -> list[Setting]:
        highest = max(tables["counts"], key=lambda row: float(row["value"]))
        return [SETTINGS[highest["seed"]] | {"seed": 10 * highest["seed"] + (options.seeds or 0)}]

    monkeypatch.setattr(sys.modules["studies.counting"], "more", more, raising=False)
    assert command.main(["counting", "--seeds", "2", "--out", str(tmp_path)]) == 0
    assert calls == [0, 1, 12]
    assert [row["seed"] for row in read_csv(tmp_path / "counts.csv")] == [0, 1, 12]


def test_worker_processes_make_the_same_rows(tmp_path: Path) -> None:
    """A study of the package, since other processes import it."""
    settings = [{"part": "bound", "crowd": k, "draws": 2} for k in range(2)]
    alone, _ = run_missing("bound", settings, tmp_path / "alone.jsonl")
    both, _ = run_missing("bound", settings, tmp_path / "both.jsonl", jobs=2)
    assert [r["rows"] for r in both] == [r["rows"] for r in alone]


@pytest.mark.usefixtures("calls")
def test_the_command_lists_studies_and_names_what_it_does_not_have(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main([]) == 0
    assert capsys.readouterr().out == "counting     Counts to four\n"
    assert command.main(["counting", "--show", str(tmp_path)]) == 2
    assert "has none of counts.csv" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        command.main(["table-9"])
    with pytest.raises(InputError, match=r"--methods: this study has no dl-x; it has dl-cl, conal"):
        Options(methods=("dl-x",)).pick_methods(("dl-cl", "conal"))
    assert Options(methods=("conal", "dl-cl")).pick_methods(("dl-cl", "conal")) == ["dl-cl", "conal"]
