"""``conal rank``: the table, the summary, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from conal.aggregation.pairwise import MODELS, SharedBiasBradleyTerry
from conal.cli import rank
from conal.datasets import simulate_pairs
from conal.io.tables import read_table, write_table


@pytest.fixture
def files(tmp_path: Path) -> Path:
    pairs = simulate_pairs(n_items=12, n_annotators=9, n_tasks=300).preferences
    columns: dict[str, Any] = {"task": pairs.tasks, "worker": [f"w{k}" for k in pairs.annotators]}
    columns |= {"left": [f"m{k}" for k in pairs.left], "right": [f"m{k}" for k in pairs.right]}
    columns |= {"winner": [("tie", "left", "right")[k] for k in pairs.winner], "length": pairs.covariates[:, 0]}
    write_table(pa.table(columns), tmp_path / "pairs.csv")
    return tmp_path


def test_the_table_is_the_models(conal: Any, files: Path) -> None:
    out = files / "ranking.csv"
    done = conal(
        "rank", files / "pairs.csv", "--covariate", "length", "--out", out, "--annotators", files / "who.csv", "--json"
    )
    from conal.data.preferences import Preferences

    model = SharedBiasBradleyTerry().fit(Preferences.read(files / "pairs.csv", covariates=["length"]))
    assert read_table(out)["item"].to_pylist() == model.ranking()["item"].to_pylist()
    assert read_table(files / "who.csv").num_rows == 9
    printed = done.json()
    assert [row["bias"] for row in printed["shared_biases"]] == ["position", "length", "tie"]
    assert printed["ranking"][0]["score"] == pytest.approx(model.scores_.max())
    assert (printed["n_comparisons"], printed["n_parts"]) == (1200, 1)


def test_people_see_the_best_items_and_the_shared_biases(conal: Any, files: Path) -> None:
    done = conal("rank", files / "pairs.csv", "--out", files / "ranking.csv")
    assert "1,200 comparisons of 12 items by 9 annotators" in done.out
    assert "shared position: +" in done.out
    assert "and 2 items more" in done.out


def test_the_help_names_the_models() -> None:
    assert sorted(rank.NAMES.split(", ")) == sorted(MODELS)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--method", "elo"], "there is no such model"),
        (["--set", "lr=1"], "there is no such parameter"),
        (["--set", "prior=0"], "prior must be"),
        (["--covariate", "size"], "no covariate 'size'"),
        (["--covariate", "length", "--method", "bradley-terry"], "does not apply to bradley-terry"),
    ],
)
def test_wrong_options_are_refused(conal: Any, files: Path, options: list[str], message: str) -> None:
    done = conal("rank", files / "pairs.csv", "--out", files / "ranking.csv", *options)
    assert done.code == 2
    assert message in done.err
    assert not (files / "ranking.csv").exists()


def test_a_winner_that_is_neither_side_names_row_and_file(conal: Any, tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("worker,left,right,winner\na,x,y,x\nb,x,y,z\n")
    done = conal("rank", tmp_path / "p.csv", "--out", tmp_path / "r.csv")
    assert done.code == 2
    assert "p.csv: row 2: the winner 'z' is neither the left item 'x' nor the right item 'y'" in done.err


def test_true_winners_are_read(conal: Any, tmp_path: Path) -> None:
    header = "worker,left,right,winner\n"
    (tmp_path / "p.csv").write_text(header + "a,x,y,x\nb,x,y,x\n")
    (tmp_path / "t.csv").write_text(header + "e,x,y,y\n" * 9)
    told = ["--true-winners", tmp_path / "t.csv", "--method", "bradley-terry"]
    ranking = conal("rank", tmp_path / "p.csv", "--out", tmp_path / "r.csv", *told, "--json").json()["ranking"]
    assert [row["item"] for row in ranking] == ["y", "x"]
