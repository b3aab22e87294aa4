"""``conal simulate``, and the way from there through fit to predictions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.csv as pv
import pytest

import conal as package

if TYPE_CHECKING:
    from cli.conftest import Run

SIZES = ("n_train=120", "n_valid=40", "n_test=30", "n_classes=3", "n_features=4", "n_annotators=8")
SMALL = [word for size in SIZES for word in ("--set", size)]
FILES = {
    "labels.csv",
    "features.npy",
    "valid_features.npy",
    "valid_labels.csv",
    "test_features.npy",
    "test_labels.csv",
    "truth.npz",
}


def test_the_folder_holds_the_simulated_crowd(conal: Run, tmp_path: Path) -> None:
    out = tmp_path / "s"
    run = conal("simulate", "--out", out, *SMALL, "--set", "seed=3")
    assert run.code == 0, run.err
    assert {path.name for path in out.iterdir()} == FILES
    assert [path.name for path in tmp_path.iterdir()] == ["s"]
    data = package.datasets.synthetic(
        n_train=120, n_valid=40, n_test=30, n_classes=3, n_features=4, n_annotators=8, seed=3
    )
    assert package.Annotations.read(out / "labels.csv") == data.annotations
    np.testing.assert_array_equal(np.load(out / "features.npy"), data.x)
    for name, split in (("valid", data.valid), ("test", data.test)):
        assert split is not None
        np.testing.assert_array_equal(np.load(out / f"{name}_features.npy"), split.x)
        table = pv.read_csv(out / f"{name}_labels.csv")
        assert table.column_names == ["task", "label"]
        assert table["task"].to_pylist() == list(range(len(split.y)))
        assert table["label"].to_pylist() == split.y.tolist()
    with np.load(out / "truth.npz") as truth:
        assert set(truth.files) == {"z", "s", "omega", "pi_g", "pi_r"}
        np.testing.assert_array_equal(truth["z"], data.y_true)
        assert truth["pi_g"].shape == (3, 3)
        assert truth["pi_r"].shape == (8, 3, 3)
        assert len(truth["s"]) == len(truth["omega"]) == data.annotations.n_annotations


def test_simulate_fit_predict(conal: Run, tmp_path: Path) -> None:
    sim, out = tmp_path / "s", tmp_path / "m"
    assert conal("simulate", "--out", sim, *SMALL, "--set", "common_strength=0.2", "--set", "separation=2").code == 0
    valid = ("--valid", sim / "valid_features.npy", "--valid-labels", sim / "valid_labels.csv")
    fitted = conal("fit", sim / "labels.csv", "--features", sim / "features.npy", "--out", out, "--epochs", 8, *valid)
    assert fitted.code == 0, fitted.err
    assert conal("predict", out, sim / "test_features.npy", "--out", tmp_path / "p.csv").code == 0
    predicted = pv.read_csv(tmp_path / "p.csv")["label"].to_pylist()
    assert predicted == package.load(out).predict(np.load(sim / "test_features.npy")).tolist()
    truth = pv.read_csv(sim / "test_labels.csv")["label"].to_numpy()
    assert (np.array(predicted) == truth).mean() > 0.6
    assert {path.name for path in tmp_path.iterdir()} == {"s", "m", "p.csv"}


def test_same_seed_same_files(conal: Run, tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        assert conal("simulate", "--out", tmp_path / name, *SMALL, "--set", f"seed={seed}", "--quiet").code == 0
    for name in ("labels.csv", "features.npy", "test_labels.csv"):
        a, b, c = ((tmp_path / folder / name).read_bytes() for folder in "abc")
        assert a == b != c


def test_json_is_one_object_on_stdout(conal: Run, tmp_path: Path) -> None:
    run = conal("simulate", "--out", tmp_path / "s", *SMALL, "--json")
    result = run.json()
    assert run.err == ""
    assert result["n_tasks"] == 120
    assert result["n_annotators"] == 8
    assert result["n_annotations"] == pv.read_csv(tmp_path / "s" / "labels.csv").num_rows
    assert 0 < result["annotation_accuracy"] < 1


def test_quiet_says_nothing(conal: Run, tmp_path: Path) -> None:
    run = conal("simulate", "--out", tmp_path / "s", *SMALL, "-q")
    assert (run.code, run.out, run.err) == (0, "", "")


def test_no_validation_and_test_set_if_none_is_wanted(conal: Run, tmp_path: Path) -> None:
    run = conal("simulate", "--out", tmp_path / "s", *SMALL, "--set", "n_valid=0", "--set", "n_test=0")
    assert run.code == 0, run.err
    assert {path.name for path in (tmp_path / "s").iterdir()} == {"labels.csv", "features.npy", "truth.npz"}


def test_overwrite_replaces_a_simulation_and_nothing_else(conal: Run, tmp_path: Path) -> None:
    sim, mine = tmp_path / "s", tmp_path / "mine"
    assert conal("simulate", "--out", sim, *SMALL).code == 0
    before = (sim / "labels.csv").read_bytes()
    assert "exists already" in conal("simulate", "--out", sim, *SMALL, "--set", "seed=1").refusal()
    assert (sim / "labels.csv").read_bytes() == before
    assert conal("simulate", "--out", sim, *SMALL, "--set", "seed=1", "--overwrite").code == 0
    assert (sim / "labels.csv").read_bytes() != before
    mine.mkdir()
    (mine / "thesis.tex").write_text("years of work", encoding="utf-8")
    assert "is not an earlier simulation" in conal("simulate", "--out", mine, *SMALL, "--overwrite").refusal()
    assert [path.name for path in mine.iterdir()] == ["thesis.tex"]
    assert {path.name for path in tmp_path.iterdir()} == {"s", "mine"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--set", "n_classes=1"), "n_classes must be a whole number of at least 2, not 1"),
        (("--set", "n_classes=0"), "classes"),
        (("--set", "n_classes=-3"), "classes"),
        (("--set", "n_train=0"), "n_train"),
        (("--set", "n_annotators=0"), "n_annotators must be a whole number of at least 1"),
        (("--set", "labels_per_instance=50"), "labels_per_instance must be at most n_annotators, 8, not 50"),
        (("--set", "common_strength=1.5"), "common_strength must be a number from 0 to 1, not 1.5"),
        (("--set", "proportion=nan"), "proportion must be a number from 0 to 1, not 'nan'"),
        (("--set", "separation=nan"), "separation"),
        (("--set", "separation=inf"), "separation"),
        (("--set", "embedding_dim=0"), "embedding_dim must be a whole number of at least 1"),
        (("--set", "common_type=sideways"), "common_type must be 'asymmetric' or 'symmetric', not 'sideways'"),
        (("--set", "seed=-1"), "seed must be a whole number of at least 0, not -1"),
        (("--set", "n_train=many"), "n_train must be a whole number of at least 1, not 'many'"),
        (("--set", "speed=3"), "--set speed: there is no such setting; known are n_train, n_valid"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(
    conal: Run, tmp_path: Path, options: tuple[object, ...], words: str
) -> None:
    assert words in conal("simulate", "--out", tmp_path / "s", *SMALL, *options).refusal()
    assert list(tmp_path.iterdir()) == []


def test_files_of_the_user_are_never_deleted(conal: Run, tmp_path: Path) -> None:
    place = tmp_path / "crowd"
    small = ("--set", "n_train=20", "--set", "n_valid=5", "--set", "n_test=5", "--out", place)
    assert conal("simulate", *small).code == 0
    (place / "notes.txt").write_text("mine")
    assert "contains 'notes.txt', which conal did not write" in conal("simulate", *small, "--overwrite").refusal()
    assert (place / "notes.txt").read_text() == "mine"
    (place / "notes.txt").unlink()
    assert conal("simulate", *small, "--overwrite", "--set", "seed=1").code == 0


def test_overwriting_deletes_no_files_of_the_user(conal: Run, tmp_path: Path) -> None:
    """A file called truth.npz does not make a folder a simulation, and neither do its other names."""
    out = tmp_path / "s"
    out.mkdir()
    np.savez(out / "truth.npz", answer=np.array([42]))
    (out / "labels.csv").write_text("years of work")
    message = conal("simulate", "--out", out, *SMALL, "--overwrite").refusal()
    assert "s: is not an earlier simulation, so it is not overwritten" in message
    assert (out / "labels.csv").read_text() == "years of work"
    (out / "truth.npz").unlink()
    (out / "labels.csv").unlink()
    assert conal("simulate", "--out", out, *SMALL).code == 0
    (out / "test_labels.csv").unlink()
    (out / "test_labels.csv").mkdir()
    (out / "test_labels.csv" / "thesis.txt").write_text("years of work")
    message = conal("simulate", "--out", out, *SMALL, "--overwrite").refusal()
    assert "s: contains 'test_labels.csv', which conal did not write" in message
    assert (out / "test_labels.csv" / "thesis.txt").read_text() == "years of work"


def test_families_come_with_a_table_of_annotators(conal: Run, tmp_path: Path) -> None:
    out = tmp_path / "s"
    assert conal("simulate", "--out", out, *SMALL, "--set", "families=2").code == 0
    assert {path.name for path in out.iterdir()} == FILES | {"annotators.csv"}
    assert pv.read_csv(out / "annotators.csv").to_pydict() == {
        "worker": list(range(8)),
        "group": ["family 0"] * 4 + ["family 1"] * 4,
    }
    with np.load(out / "truth.npz") as truth:
        assert truth["groups"].tolist() == [0] * 4 + [1] * 4
        assert truth["pi_f"].shape == (2, 3, 3)
    grouped = ("--method", "group-confusion", "--annotator-info", out / "annotators.csv")
    done = conal("aggregate", out / "labels.csv", *grouped, "--out", tmp_path / "clean.csv")
    assert done.code == 0, done.err
    again = conal("simulate", "--out", out, *SMALL, "--overwrite")
    assert again.code == 0, again.err
    assert {path.name for path in out.iterdir()} == FILES
