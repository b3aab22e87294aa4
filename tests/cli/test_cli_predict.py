"""``conal predict``: the same as the library, whatever the features come in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pv
import pyarrow.json as pj
import pyarrow.parquet as pq
import pytest

import conal as package

if TYPE_CHECKING:
    from cli.conftest import Crowd, Run

COLUMNS = ["task", "label", "probability", "proba_cat", "proba_dog", "proba_fish"]


def probas_of(table: Any) -> Any:
    return np.column_stack([table[name].to_numpy() for name in COLUMNS[3:]])


def test_predictions_are_those_of_the_library(conal: Run, model: Path, shared_crowd: Crowd, tmp_path: Path) -> None:
    run = conal("predict", model, shared_crowd.features, "--out", tmp_path / "p.csv")
    assert run.code == 0, run.err
    table = pv.read_csv(tmp_path / "p.csv")
    loaded = package.load(model)
    assert table.column_names == COLUMNS
    assert table["task"].to_pylist() == list(range(len(shared_crowd.x)))
    assert table["label"].to_pylist() == loaded.predict(shared_crowd.x).tolist()
    probas = probas_of(table)
    np.testing.assert_allclose(probas, loaded.predict_proba(shared_crowd.x), rtol=1e-12)
    np.testing.assert_allclose(probas.sum(1), 1)
    np.testing.assert_array_equal(table["probability"].to_numpy(), probas.max(1))
    assert [path.name for path in tmp_path.iterdir()] == ["p.csv"]
    labels = table["label"].to_pylist()
    first, second = run.out.splitlines()
    assert first == f"90 predictions: {tmp_path / 'p.csv'}"
    assert second == ", ".join(f"{name} {labels.count(name)}" for name in ("cat", "dog", "fish"))


@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet", "jsonl"])
def test_tables_in_every_format_say_the_same(
    conal: Run, model: Path, shared_crowd: Crowd, tmp_path: Path, ending: str
) -> None:
    out = tmp_path / f"p.{ending}"
    assert conal("predict", model, shared_crowd.features, "--out", out).code == 0
    readers = {
        "csv": pv.read_csv,
        "tsv": lambda path: pv.read_csv(path, parse_options=pv.ParseOptions(delimiter="\t")),
        "parquet": pq.read_table,
        "jsonl": pj.read_json,
    }
    table = readers[ending](out)
    assert table.column_names == COLUMNS
    np.testing.assert_allclose(probas_of(table), package.load(model).predict_proba(shared_crowd.x), rtol=1e-12)


@pytest.mark.parametrize("kind", ["csv", "npz", "parquet"])
def test_ids_are_carried_to_the_table(conal: Run, model: Path, shared_crowd: Crowd, tmp_path: Path, kind: str) -> None:
    order = np.random.default_rng(1).permutation(len(shared_crowd.x))
    ids, x = [f"bild-{k}" for k in order], shared_crowd.x[order]
    features = tmp_path / f"x.{kind}"
    table = pa.table({"picture": ids, **{f"f{k}": x[:, k] for k in range(5)}})
    if kind == "npz":
        np.savez(features, features=x, ids=np.array(ids))
    elif kind == "csv":
        pv.write_csv(table, features)
    else:
        pq.write_table(table, features)
    options = [] if kind == "npz" else ["--task-column", "picture"]
    run = conal("predict", model, features, "--out", tmp_path / "p.csv", *options)
    assert run.code == 0, run.err
    found = pv.read_csv(tmp_path / "p.csv")
    assert found["picture" if options else "task"].to_pylist() == ids
    np.testing.assert_allclose(probas_of(found), package.load(model).predict_proba(x), atol=1e-6)


def test_columns_in_another_order_do_not_change_predictions(conal: Run, shared_crowd: Crowd, tmp_path: Path) -> None:
    columns = {f"f{k}": shared_crowd.x[:, k] for k in range(5)}
    table = pa.table({"task": list(range(90)), **columns})
    pv.write_csv(table, tmp_path / "x.csv")
    pv.write_csv(table.select(["task", "f4", "f3", "f2", "f1", "f0"]), tmp_path / "turned.csv")
    end = ("--features", tmp_path / "x.csv", "--out", tmp_path / "m", "--epochs", 6)
    assert conal("fit", shared_crowd.labels, *end).code == 0
    assert conal("predict", tmp_path / "m", tmp_path / "x.csv", "--out", tmp_path / "p.csv").code == 0
    turned = conal("predict", tmp_path / "m", tmp_path / "turned.csv", "--out", tmp_path / "q.csv")
    if turned.code == 0:  # joined by name
        assert (tmp_path / "q.csv").read_bytes() == (tmp_path / "p.csv").read_bytes()
    else:
        assert "f4" in turned.refusal()


def test_json_is_one_object_on_stdout(conal: Run, model: Path, shared_crowd: Crowd, tmp_path: Path) -> None:
    run = conal("predict", model, shared_crowd.features, "--out", tmp_path / "p.csv", "--json")
    result = run.json()
    assert run.err == ""
    assert result["out"] == str(tmp_path / "p.csv")
    assert result["n"] == 90
    assert sum(result["counts"].values()) == 90
    assert list(result["counts"]) == ["cat", "dog", "fish"]


def test_quiet_says_nothing(conal: Run, model: Path, shared_crowd: Crowd, tmp_path: Path) -> None:
    run = conal("predict", model, shared_crowd.features, "--out", tmp_path / "p.csv", "--quiet")
    assert (run.code, run.out, run.err) == (0, "", "")
    assert (tmp_path / "p.csv").is_file()


def test_an_earlier_table_is_replaced_only_when_asked(
    conal: Run, model: Path, shared_crowd: Crowd, tmp_path: Path
) -> None:
    out = tmp_path / "p.csv"
    out.write_text("old", encoding="utf-8")
    refused = conal("predict", model, shared_crowd.features, "--out", out)
    assert (refused.code, out.read_text(encoding="utf-8")) == (2, "old")
    assert "p.csv: exists already" in refused.err
    assert conal("predict", model, shared_crowd.features, "--out", out, "--overwrite").code == 0
    assert pv.read_csv(out).num_rows == 90


def test_one_row_is_enough(conal: Run, model: Path, shared_crowd: Crowd, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", shared_crowd.x[7:8])
    assert conal("predict", model, tmp_path / "x.npy", "--out", tmp_path / "p.jsonl").code == 0
    (line,) = (tmp_path / "p.jsonl").read_text(encoding="utf-8").splitlines()
    row = json.loads(line)
    assert row["task"] == 0
    assert row["label"] == package.load(model).predict(shared_crowd.x[7:8])[0]


def test_a_model_folder_may_move(conal: Run, model: Path, shared_crowd: Crowd, tmp_path: Path) -> None:
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    for path in model.iterdir():
        (moved / path.name).write_bytes(path.read_bytes())
    assert conal("predict", moved, shared_crowd.features, "--out", tmp_path / "p.csv").code == 0
    assert pv.read_csv(tmp_path / "p.csv")["label"].to_pylist() == package.load(model).predict(shared_crowd.x).tolist()


def test_ids_under_another_name_are_never_row_numbers_without_a_word(
    conal: Run, shared_crowd: Crowd, tmp_path: Path
) -> None:
    """Shuffled pictures: beside the tasks of a file they are refused, alone they are numbered, with a warning."""
    order = np.random.default_rng(1).permutation(len(shared_crowd.x))
    columns = {f"f{k}": shared_crowd.x[:, k] for k in range(5)}
    pv.write_csv(pa.table({"task": list(range(90)), **columns}), tmp_path / "x.csv")
    shuffled = pa.table({"picture": order, **{name: values[order] for name, values in columns.items()}})
    pv.write_csv(shuffled, tmp_path / "shuffled.csv")
    model = tmp_path / "m"
    assert conal("fit", shared_crowd.labels, "--features", tmp_path / "x.csv", "--out", model, "--epochs", 6).code == 0
    alone = conal("predict", model, tmp_path / "shuffled.csv", "--out", tmp_path / "p.csv")
    assert alone.code == 0
    assert "tasks are called 0 to 89, and 'picture' counts for nothing" in alone.err
    out = ("--out", tmp_path / "q.csv")
    beside = conal("predict", model, shared_crowd.labels, "--features", tmp_path / "shuffled.csv", *out)
    assert "column 'picture' has the tasks' ids, but is not called so" in beside.refusal()
    assert not (tmp_path / "q.csv").exists()
