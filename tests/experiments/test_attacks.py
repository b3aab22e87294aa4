"""The experiment about people who mean harm counts them as it says."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from conal.aggregation import DawidSkene
from conal.datasets import CrowdSettings, load, simulate_crowd
from conal.experiments import attacks
from conal.experiments.attacks import KEYS, Attacks, counted
from conal.metrics.suspicion import defended


@pytest.mark.parametrize("kind", ["clickers", "copyists"])
def test_counts(kind: str) -> None:
    settings = CrowdSettings(n_annotators=15, labels_per_instance=4, adversaries=kind, seed=1)
    crowd, truth = simulate_crowd(np.arange(300) % 5, np.ones((300, 1)), range(5), settings)
    assert truth.adversaries is not None
    found = defended(crowd, DawidSkene(verbose=False).fit(crowd).probas_).suspects
    assert counted(found, truth.adversaries) == {"harmful": 3, "found": 3, "named": 3, "false": 0}
    people = found.careless if kind == "clickers" else np.union1d(found.copies.first, found.copies.second)
    assert len(people)
    nobody = np.array(["honest"] * 15)
    truth.adversaries.source.fill(-1)
    object.__setattr__(truth.adversaries, "kind", nobody)
    assert counted(found, truth.adversaries) == {"harmful": 0, "found": 0, "named": 3, "false": 3}


def test_the_page() -> None:
    rows = [
        {"row": "accuracy", "kind": "ring", "share": 0.2, "seed": seed, "method": "dawid-skene"}
        | {"defended": made, "accuracy": 0.5 + 0.2 * made + 0.1 * seed}
        for made in (False, True)
        for seed in (0, 1)
    ]
    rows += [
        {"row": row, "kind": "ring", "share": 0.2, "seed": seed}
        | {"harmful": 10, "found": found + seed, "named": 10, "false": seed}
        for row, found in (("detection", 8), ("few", 6))
        for seed in (0, 1)
    ]
    page = Attacks().page(pa.Table.from_pylist([{key: row.get(key) for key in KEYS} for row in rows]))
    assert "55.0 → 75.0" in page
    assert "0.85, 5.0 %" in page
    assert "46 labels each in the mean" in page
    assert "0.65, 5.0 %" in page


def test_every_network_sees_the_crowd_with_and_without_defence() -> None:
    runs = Attacks(quick=True).runs()
    assert {(run.method, run.data["defend"]) for run in runs} == {
        (method, made) for method in attacks.NETWORKS for made in (False, True)
    }
    settings = {**runs[0].data, "n_train": 300, "n_annotators": 15}
    plain, left = (load("attacked", **(settings | {"defend": made})).annotations for made in (False, True))
    assert left.n_annotations < plain.n_annotations
