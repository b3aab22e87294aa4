"""Figure 1: counted by hand, the paper's numbers on the real crowds, and a chart that can be read."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path

import numpy as np
import pytest

from conal.cli import main
from conal.data.annotations import Annotations
from conal.datasets import CrowdDataset
from conal.errors import InputError
from conal.experiments.figure_1 import confusion_shares


def test_shares_by_hand() -> None:
    """Three annotators: two took class 0 for 1 at some time, one took class 1 for 0, the third is always right."""
    crowd = Annotations.from_matrix([[1, 1, 0], [1, 0, 0], [1, 0, 1]])
    data = CrowdDataset("hand", np.zeros((3, 1), dtype=np.float32), crowd, np.array([0, 0, 1]))
    np.testing.assert_allclose(confusion_shares(data), [[2 / 3, 2 / 3], [1 / 3, 2 / 3]])


@pytest.fixture
def real_data(monkeypatch: pytest.MonkeyPatch) -> None:
    root = Path(os.environ.get("CONAL_DATA", Path(__file__).parents[3] / "shared" / "data"))
    if not (root / "labelme").is_dir():
        pytest.skip("LabelMe and Music are not here (CONAL_DATA or ../shared/data)")
    monkeypatch.setenv("CONAL_DATA", str(root))


@pytest.mark.usefixtures("real_data")
def test_the_papers_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["conal", "reproduce", "figure-1", "--out", str(tmp_path / "r"), "--json"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    assert json.loads(capsys.readouterr().out)["experiments"] == ["figure-1"]
    with (tmp_path / "r" / "figure-1.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["dataset", "true", "observed", "share", "code"]
    share = {(row["dataset"], row["true"], row["observed"]): 100 * float(row["share"]) for row in rows}
    expected = {
        ("labelme", "street", "insidecity"): 61.0,
        ("labelme", "opencountry", "forest"): 44.1,
        ("music", "metal", "rock"): 63.6,
        ("music", "disco", "pop"): 38.6,
    }
    for pair, figure in expected.items():
        assert share[pair] == pytest.approx(figure, abs=0.05)
    assert len(rows) == 8 * 7 + 10 * 9
    svg = (tmp_path / "r" / "figure-1.svg").read_text(encoding="utf-8")
    assert svg.count(">61<") >= 1
    assert "opencountry" in svg
    assert (tmp_path / "r" / "figure-1.png").read_bytes().startswith(b"\x89PNG")


def test_an_unknown_experiment_lists_the_known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from conal import experiments

    with pytest.raises(InputError, match="there is no experiment 'table-9'"):
        experiments.get("table-9")
    monkeypatch.setattr("sys.argv", ["conal", "reproduce", "table-9", "--out", str(tmp_path / "r")])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert not (tmp_path / "r").exists()
