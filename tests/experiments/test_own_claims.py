"""What the library claims of itself: judged by made-up tables of which the answer is known."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from conal.experiments.claims import claims_section, own_claims
from conal.experiments.gold_free import N_TEST
from conal.experiments.right_answers import packed
from conal.experiments.rulings import Claim, Ruling

SEEDS = range(10)


def only(name: str, table: pa.Table) -> Claim:
    """The only claim of a table."""
    (found,) = own_claims({name: table})
    return found


def gold_free(ensembles: dict[str, float], ours: float = 0.9) -> pa.Table:
    """Five fits of `xconal` and an ensemble of every other, right on the first test digits."""
    n = N_TEST["digits"]

    def right(share: float) -> str:
        return packed(np.arange(n) < round(share * n))

    at = {"dataset": "digits", "prior": "estimate", "protocol": "own"}
    rows = [at | {"row": "xconal", "right": right(ours), "ensemble_right": ""} for _ in range(5)]
    rows += [at | {"row": row, "right": "", "ensemble_right": right(share)} for row, share in ensembles.items()]
    return pa.Table.from_pylist(rows)


@pytest.mark.parametrize(
    ("rival", "ruling", "counts"),
    [
        (0.85, "holds", "Above in 2 of 2 comparisons, level in 0, below in 0."),
        (0.9, "cannot be told", "Above in 1 of 2 comparisons, level in 1, below in 0."),
        (0.95, "fails", "Above in 1 of 2 comparisons, level in 0, below in 1."),
    ],
)
def test_every_ensemble_counts(rival: float, ruling: Ruling, counts: str) -> None:
    found = only("gold-free", gold_free({"dl-mv": 0.7, "max-mig": rival}))
    assert found.ruling == ruling
    assert found.text.endswith("ensembles of five of all other methods on Digits, simulated crowd")
    assert found.why.startswith(f"Less the best ensemble, `max-mig`: {100 * (0.9 - rival):+.1f} (")
    assert found.why.endswith(counts)


def two_stages(lead: float) -> pa.Table:
    """A lead over both ways on the second of two crowds, and ten points on the first."""
    return pa.Table.from_pylist(
        [
            {"row": crowd, "tasks": 50, "seed": seed, "test_accuracy": 0.8 + gap + 0.001 * (seed % 3)}
            | {f"{name} test_accuracy": 0.8 for name in ("dawid-skene", "majority-vote")}
            for crowd, gap in (("easy", 0.1), ("hard", lead))
            for seed in SEEDS
        ]
    )


@pytest.mark.parametrize(("lead", "ruling"), [(0.05, "holds"), (-0.05, "fails")])
@pytest.mark.parametrize("experiment", ["small", "sizes"])
def test_every_crowd_counts(experiment: str, lead: float, ruling: Ruling) -> None:
    found = only(experiment, two_stages(lead))
    assert found.ruling == ruling
    assert f"Least on hard, 50 tasks, against `dawid-skene`: {100 * lead + 0.09:+.1f} (" in found.why


def calibration(claimed: float, held: int) -> pa.Table:
    """Two crowds of 20 annotators; in the first all is well. What another method claims does not matter."""
    return pa.Table.from_pylist(
        [
            {"dataset": dataset, "method": method, "seed": seed, "label_accuracy": 0.9}
            | {"claimed": (0.99 if method == "conal" else says) + 0.001 * (seed % 3), "calibration_error": 0.05}
            | {
                "annotators_held": 0 if method == "conal" else hold,
                "annotators_annotators": 20,
                "annotators_width": 0.2,
            }
            for dataset, says, hold in (("labelme", 0.9, 20), ("music", claimed, held))
            for method in ("conal", "xconal")
            for seed in SEEDS
        ]
    )


@pytest.mark.parametrize(
    ("claimed", "held", "near", "hold"),
    [
        (0.93, 19, "holds", "holds"),
        (0.9495, 18, "cannot be told", "cannot be told"),
        (0.97, 12, "fails", "fails"),
        (0.83, 20, "fails", "holds"),
    ],
)
def test_what_is_claimed_and_what_is_true(claimed: float, held: int, near: Ruling, hold: Ruling) -> None:
    about, intervals = own_claims({"calibration": calibration(claimed, held)})
    assert (about.ruling, intervals.ruling) == (near, hold)
    assert f"Music {100 * (claimed - 0.9) + 0.09:+.1f} (" in about.why
    assert f"Music {5 * held} % (" in intervals.why


@pytest.mark.parametrize(("gain", "ruling"), [(0.02, "holds"), (0.0, "cannot be told"), (-0.02, "fails")])
def test_true_labels_by_the_mean_over_crowds(gain: float, ruling: Ruling) -> None:
    """Cleaned labels are compared on the same tasks, test data with the fits without true labels."""
    rows = [
        {"dataset": crowd, "row": "xconal, random tasks", "n": n, "seed": seed}
        | {"test_accuracy": 0.8 + (gain if n else 0) + 0.001 * ((seed + n) % 3)}
        | {"label_accuracy": 0.9 + gain, "label_accuracy_before": 0.9 + 0.001 * (seed % 2 - 0.5)}
        for crowd in ("labelme", "music")
        for n in (0, 10, 50)
        for seed in SEEDS
    ]
    found = only("little-gold", pa.Table.from_pylist(rows))
    assert found.ruling == ruling
    assert f"cleaned labels of the other tasks {100 * gain:+.1f} (" in found.why


@pytest.mark.parametrize(("rival", "ruling"), [(0.7, "holds"), (0.9, "fails")])
def test_plans_must_pay_against_all_strategies(rival: float, ruling: Ruling) -> None:
    rows = [
        {"dataset": crowd, "strategy": name, "round": number, "seed": seed}
        | {"label_accuracy": 0.0 if number == 0 else level + 0.001 * (seed % 3)}
        for crowd in ("LabelMe", "Music")
        for name, level in (("random", 0.6), ("ActiveLab", rival), ("plan", 0.8))
        for number in (0, 1, 2)
        for seed in SEEDS
    ]
    found = only("plans", pa.Table.from_pylist(rows))
    assert found.ruling == ruling
    assert f"+20.0 (+20.0 to +20.0) against random; {100 * (0.8 - rival):+.1f} (" in found.why


def test_what_was_not_measured_is_not_claimed() -> None:
    assert own_claims({}) == []
    section = claims_section({})
    assert "own claims" not in section
