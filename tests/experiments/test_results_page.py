"""The page of all results: made from the tables of experiments, and the one in the docs is what its tables make."""

from __future__ import annotations

import re
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from conal.cli import main
from conal.cli.app import app
from conal.cli.reproduce import _check_places
from conal.errors import InputError
from conal.experiments import Store
from conal.experiments.bounds import Bound
from conal.experiments.comparisons import RULE
from conal.experiments.outputs import read_outputs, write_outputs
from conal.experiments.real_tables import Table2
from conal.experiments.recovery import Recovery
from conal.experiments.results_page import REFERENCE, results_page, slug
from conal.experiments.right_answers import packed
from conal.experiments.run_files import CARRIED, write_runs
from conal.experiments.store import Finished, versions

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def table_2(tmp_path: Path) -> Table2:
    """Table 2 of made-up figures, its files written."""
    experiment = Table2(seeds=2)
    with Store(":memory:") as store:
        for run in experiment.runs():
            figures = {"test_accuracy": 0.8 + 0.01 * run.seed, "label_accuracy": 0.9, "best_score": 0.5}
            store.add(run, figures | {"seconds": 1.0, "right": packed([True] * 1188)})
        write_outputs(experiment, store, tmp_path)
        assert read_outputs(experiment, tmp_path).drop("code").to_pylist() == experiment.table(store).to_pylist()
    return experiment


def test_a_page_has_what_was_run_one_level_down(tmp_path: Path, table_2: Table2) -> None:
    page = results_page(tmp_path, tmp_path.parent / "results.md")
    written = (tmp_path / "table-2.md").read_text(encoding="utf-8")
    assert RULE in written
    assert written.replace("# ", "## ").replace("####", "###").replace(RULE, REFERENCE) in page
    assert page.startswith("# Results\n")
    assert re.findall(r"^## (.*)$", page, re.MULTILINE) == ["How differences are judged", "Contents", table_2.title]
    assert page.count(RULE) == 1
    assert f"({tmp_path.name})" in page


def test_contents_link_to_the_sections_and_say_which_code_made_them(tmp_path: Path, table_2: Table2) -> None:
    line = f"| [{table_2.title}](#table-2-the-regularisation-term) | Table 2: the weight of the term"
    now = results_page(tmp_path, tmp_path / "page.md")
    (found,) = (text for text in now.splitlines() if text.startswith(line))
    assert found.endswith("| older |")  # with two seeds it is not the table of the full experiment
    with Store(":memory:") as store:
        for run in Table2().runs():
            figures = {"test_accuracy": 0.8, "label_accuracy": 0.9, "best_score": 0.5, "seconds": 1.0}
            store.add(run, figures | {"right": packed([True] * 1188)})
        write_outputs(Table2(), store, tmp_path)
    now = results_page(tmp_path, tmp_path / "page.md")
    (found,) = (text for text in now.splitlines() if text.startswith(line))
    assert found.endswith("| this version |")


def test_the_page_says_what_the_kept_runs_took(tmp_path: Path, table_2: Table2) -> None:
    assert "CPU hours" not in results_page(tmp_path, tmp_path / "page.md")
    with Store(":memory:") as store:
        for run in table_2.runs():
            store.add(run, {"test_accuracy": 0.8, "seconds": 3600.0 / len(table_2.runs())})
        write_runs(store, tmp_path / "runs")
    page = results_page(tmp_path, tmp_path.parent / "page.md")
    kept = f"{tmp_path.name}/runs"
    assert f"The {len(table_2.runs())} runs that are kept in [{kept}]({kept}) took 1.0 CPU hours." in page
    assert f"and their runs: {versions()['machine']} {len(table_2.runs())}." in page
    assert "earlier commit" not in page


def test_the_page_says_how_many_runs_are_by_an_earlier_commit(tmp_path: Path, table_2: Table2) -> None:
    one, two, *_ = table_2.runs()
    with Store(":memory:") as store:
        store.put(*(Finished(run, {"seconds": 1.0}, run.code, versions()) for run in (one, two)))
        store.put(Finished(one, {"seconds": 1.0}, "other", versions() | {CARRIED: "abc1234"}))
        write_runs(store, tmp_path / "runs")
        assert " 1 of them are by an earlier commit, which they name" in results_page(tmp_path, tmp_path / "page.md")
        store.put(Finished(two, {"seconds": 1.0}, "other", versions() | {CARRIED: "abc1234"}))
        write_runs(store, tmp_path / "runs")
    assert " All of them are by an earlier commit" in results_page(tmp_path, tmp_path / "page.md")


def test_links_of_the_published_page_lead_to_its_headings() -> None:
    text = (DOCS / "results.md").read_text(encoding="utf-8")
    headings = {slug(heading) for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE)}
    links = set(re.findall(r"\]\(#([^)]+)\)", text))
    assert len(links) > 20
    assert links <= headings


def test_reduced_size_says_so_everywhere_and_is_not_on_the_page(tmp_path: Path) -> None:
    with Store(":memory:") as store:
        files = write_outputs(Recovery(quick=True), filled(store, Recovery(quick=True)), tmp_path)
    assert sorted({file.stem for file in files}) == [
        "recovery",
        "recovery-synthetic-asymmetric",
        "recovery-synthetic-symmetric",
    ]
    assert "(reduced size)" in (tmp_path / "recovery-synthetic-symmetric.svg").read_text(encoding="utf-8")
    assert "Reduced size" in (tmp_path / "recovery.md").read_text(encoding="utf-8")
    assert set(read_outputs(Recovery(), tmp_path)["reduced_size"].to_pylist()) == {True}
    assert "\n## " not in results_page(tmp_path, tmp_path / "page.md")


def filled(store: Store, experiment: Recovery) -> Store:
    """The store with matrices for all runs."""
    eye = [[1.0, 0.0], [0.0, 1.0]]
    kept = {"classes": ["a", "b"], "annotators": ["x"], "common": eye, "individual": [eye]}
    for run in experiment.runs():
        store.add(run, {"confusion": kept | {"true_common": eye, "true_individual": [eye]}, "seconds": 1.0})
    return store


def test_a_file_is_no_place_for_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "f").write_text("mine")
    monkeypatch.setattr(sys, "argv", ["conal", "reproduce", "bound", "--quick", "--out", str(tmp_path / "f")])
    with pytest.raises(SystemExit) as exit_info:
        main()
    assert exit_info.value.code == 2
    assert "is a file; choose a folder" in capsys.readouterr().err
    assert (tmp_path / "f").read_text() == "mine"


def test_no_page_of_reduced_experiments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["reproduce", "bound", "--quick", "--out", str(tmp_path), "--page", str(tmp_path / "page.md")]
    monkeypatch.setattr(sys, "argv", ["conal", *arguments])
    with pytest.raises(SystemExit) as exit_info:
        main()
    assert exit_info.value.code == 2
    assert "--page needs the full experiments" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_the_command_writes_the_page(tmp_path: Path, table_2: Table2, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Bound, "full_size", (2, 20))
    page = tmp_path / "page.md"
    words = ["reproduce", "bound", "--out", str(tmp_path), "--page", str(page), "--quiet"]
    result = CliRunner().invoke(app, words)
    assert isinstance(result.exception, InputError)  # there are tables, but no store that says whose they are
    assert "but no results.sqlite of earlier runs" in str(result.exception)
    assert not page.exists()
    result = CliRunner().invoke(app, [*words, "--overwrite"])
    assert result.exit_code == 0, result.output
    _check_places(tmp_path, page, overwrite=False)  # its own results are replaced
    text = page.read_text(encoding="utf-8")
    assert "## Table 2" in text
    assert "## Theorem 1" in text


def test_a_page_of_the_user_is_not_replaced(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Thesis\n")
    words = ["reproduce", "bound", "--out", str(tmp_path / "r"), "--page", str(page)]
    result = CliRunner().invoke(app, words)
    assert "page.md: exists already" in str(result.exception)
    assert page.read_text() == "# Thesis\n"
    assert not (tmp_path / "r").exists()


def test_a_database_of_something_else_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    with closing(sqlite3.connect(path)) as mine:
        mine.execute("CREATE TABLE letters (text TEXT)")
        mine.commit()
    before = path.read_bytes()
    with pytest.raises(InputError, match=r"is not a store of results .*something else"):
        Store(path)
    assert path.read_bytes() == before


def test_the_published_page_is_what_its_tables_make() -> None:
    page = results_page(DOCS / "results", DOCS / "results.md")
    assert (DOCS / "results.md").read_text(encoding="utf-8") == page, "results.md is stale: run make pages"
