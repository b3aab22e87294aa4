"""``conal demo``: runs without any input, compares, and leaves a model folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.csv as pv
import pytest

import conal as package

if TYPE_CHECKING:
    from cli.conftest import Run

METHODS = {"gold", "dl-mv", "conal", "xconal"}


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the first test writes a result, and the second another."""
    return tmp_path_factory.mktemp("demo") / "demo"


def test_a_table_for_people_and_a_model_folder(conal: Run, out: Path) -> None:
    run = conal("demo", "--out", out, "--seeds", 1, "--epochs", 2)
    assert run.code == 0, run.err
    assert "1,000 images of digits" in run.out
    for words in ("true labels (ceiling)", "majority vote", "cross-fitted EM, the default", "no gold labels", str(out)):
        assert words in run.out
    assert "cross-fitted EM with 50 gold labels" in run.out
    loaded = package.load(out)
    assert loaded.method == "xconal"
    assert loaded.classes_.tolist() == list(range(10))
    assert loaded.metrics_["selection"] == "last"
    assert pv.read_csv(out / "labels.csv").num_rows == 1000
    assert [path.name for path in out.parent.iterdir()] == ["demo"]
    assert f"Report: {out / 'report.html'}" in run.out
    assert (out / "report.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert "exists already" in conal("demo", "--out", out).refusal()


def test_json_is_one_object_on_stdout_and_overwriting_is_asked_for(conal: Run, out: Path) -> None:
    run = conal("demo", "--out", out, "--json", "--seeds", 2, "--epochs", 1, "--overwrite")
    result = run.json()
    runs = {(row["method"], row["seed"]): row["test_accuracy"] for row in result["runs"]}
    assert set(runs) == {(method, seed) for method in METHODS | {"xconal-with-gold"} for seed in (0, 1)}
    assert all(0 <= accuracy <= 1 for accuracy in runs.values())
    for method, cell in result["table"].items():
        assert cell["mean"] == pytest.approx((runs[method, 0] + runs[method, 1]) / 2)
        assert cell["std"] == pytest.approx(abs(runs[method, 0] - runs[method, 1]) / 2**0.5)
    assert package.load(out).metrics_["seed"] == 0


@pytest.mark.parametrize("options", [("--seeds", 0), ("--epochs", 0), ("--seed", 1), ("--seeds", "some")])
def test_settings_that_cannot_be_meant_are_refused(conal: Run, tmp_path: Path, options: tuple[object, ...]) -> None:
    assert str(options[0]) in conal("demo", "--out", tmp_path / "demo", *options).refusal()
    assert list(tmp_path.iterdir()) == []
