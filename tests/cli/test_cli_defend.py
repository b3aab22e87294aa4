"""``--defend`` leaves out answers that say nothing, and tells how many, without names."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.csv as pv

if TYPE_CHECKING:
    from cli.conftest import Run

SIZES = ("n_annotators=15", "n_train=300", "labels_per_instance=4", "n_valid=0", "n_test=5")
CROWD = [word for size in SIZES for word in ("--set", size)]


def test_simulated_attack_and_defence(conal: Run, tmp_path: Path) -> None:
    attack = ["--set", "adversaries=clickers,copyists", "--set", "adversary_share=0.3", "--set", "turn_after=20"]
    made = conal("simulate", "--out", tmp_path / "crowd", *CROWD, *attack, "--quiet")
    assert made.code == 0, made.err
    with np.load(tmp_path / "crowd" / "truth.npz") as truth:
        assert sorted(np.unique(truth["kind"])) == ["clickers", "copyists", "honest"]
        assert ((truth["source"] >= 0) == (truth["kind"] == "copyists")).all()
        time = truth["time"]
    table = pv.read_csv(tmp_path / "crowd" / "labels.csv")
    assert table["time"].to_pylist() == sorted(time.tolist())
    again = conal("simulate", "--out", tmp_path / "crowd", *CROWD, "--quiet", "--overwrite")
    assert again.code == 0, again.err  # it knows its own files
    conal("simulate", "--out", tmp_path / "crowd", *CROWD, *attack, "--quiet", "--overwrite")
    labels = tmp_path / "crowd" / "labels.csv"
    out = conal("aggregate", labels, "--out", tmp_path / "cleaned.csv", "--defend", "--method", "majority-vote")
    assert out.code == 0, out.err
    assert "labels are left out. Annotators:" in out.err
    assert pv.read_csv(tmp_path / "cleaned.csv").num_rows == 300
    wrong = conal("simulate", "--out", tmp_path / "other", "--set", "adversaries=thieves")
    assert "adversaries must be empty, or one or several of spammers" in wrong.refusal()
    assert not (tmp_path / "other").exists()
