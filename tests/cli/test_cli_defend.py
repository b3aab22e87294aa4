"""``--defend`` leaves out answers that say nothing, and tells how many, without names."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.csv as pv
from typer.testing import CliRunner

from conal.cli.app import app

CROWD = ["--n-annotators", "15", "--n-train", "300", "--labels-per-instance", "4", "--n-valid", "0", "--n-test", "5"]


def test_simulated_attack_and_defence(tmp_path: Path) -> None:
    run = CliRunner().invoke
    attack = ["--adversaries", "clickers,copyists", "--adversary-share", "0.3", "--turn-after", "20"]
    made = run(app, ["simulate", "--out", str(tmp_path / "crowd"), *CROWD, *attack, "--quiet"])
    assert made.exit_code == 0, made.output
    with np.load(tmp_path / "crowd" / "truth.npz") as truth:
        assert sorted(np.unique(truth["kind"])) == ["clickers", "copyists", "honest"]
        assert ((truth["source"] >= 0) == (truth["kind"] == "copyists")).all()
        time = truth["time"]
    table = pv.read_csv(tmp_path / "crowd" / "labels.csv")
    assert table["time"].to_pylist() == sorted(time.tolist())
    again = run(app, ["simulate", "--out", str(tmp_path / "crowd"), *CROWD, "--quiet", "--overwrite"])
    assert again.exit_code == 0, again.output  # it knows its own files
    run(app, ["simulate", "--out", str(tmp_path / "crowd"), *CROWD, *attack, "--quiet", "--overwrite"])
    labels = str(tmp_path / "crowd" / "labels.csv")
    out = run(
        app, ["aggregate", labels, "--out", str(tmp_path / "cleaned.csv"), "--defend", "--method", "majority-vote"]
    )
    assert out.exit_code == 0, out.output
    assert "labels are left out. Annotators:" in out.output
    assert pv.read_csv(tmp_path / "cleaned.csv").num_rows == 300
    wrong = run(app, ["simulate", "--out", str(tmp_path / "other"), "--adversaries", "thieves"])
    assert wrong.exit_code == 2
    assert not (tmp_path / "other").exists()
