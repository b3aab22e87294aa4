"""What the library claims of itself: judged by made-up tables of which the answer is known."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import binomtest

from conal.datasets.label_sets import JUDGES
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
    lead = f"{100 * (0.9 - rival):+.1f}"
    assert found.why.startswith(f"`xconal` minus the best ensemble, `max-mig`, over test instances: {lead} (")
    assert found.why.endswith(counts)


def test_the_better_of_two_ensembles_counts() -> None:
    """Chosen without gold labels in two ways; one by gold labels does not count."""
    own, last, gold = (gold_free({"dl-mv": 0.7, "max-mig": share}).to_pylist() for share in (0.85, 0.95, 0.99))
    rows = [*own, *(row | {"protocol": "last"} for row in last), *(row | {"protocol": "gold"} for row in gold)]
    found = only("gold-free", pa.Table.from_pylist(rows))
    assert found.ruling == "fails"
    assert "`max-mig`, over test instances: -5.0 (" in found.why


def two_stages(lead: float, measure: str, other: str) -> pa.Table:
    """A lead over both ways on the second of two crowds, and ten points on the first; none by the other measure."""
    return pa.Table.from_pylist(
        [
            {"row": crowd, "tasks": 50, "seed": seed, measure: 0.8 + gap + 0.001 * (seed % 3)}
            | {other: 0.8 + 0.001 * (seed % 3)}
            | {f"{name} {each}": 0.8 for name in ("dawid-skene", "majority-vote") for each in (measure, other)}
            for crowd, gap in (("easy", 0.1), ("hard", lead))
            for seed in SEEDS
        ]
    )


@pytest.mark.parametrize(("lead", "ruling"), [(0.05, "holds"), (-0.05, "fails")])
@pytest.mark.parametrize("measures", [("test_accuracy", "label_accuracy"), ("label_accuracy", "test_accuracy")])
@pytest.mark.parametrize("experiment", ["small", "sizes"])
def test_every_crowd_counts(experiment: str, measures: tuple[str, str], lead: float, ruling: Ruling) -> None:
    both = own_claims({experiment: two_stages(lead, *measures)})
    found = both[measures[0] == "label_accuracy"]
    assert found.text.startswith(
        "`xconal` predicts" if measures[0] == "test_accuracy" else "More of the cleaned labels"
    )
    assert found.ruling == ruling
    assert (
        f"The smallest difference is on hard with 50 tasks, against `dawid-skene`: {100 * lead + 0.09:+.1f} ("
        in found.why
    )
    below = 2 * (lead < 0)
    assert f"Above in {4 - below} of 4 comparisons, level in 0, below in {below}." in found.why


@pytest.mark.parametrize(("held", "ruling"), [(100, "holds"), (92, "cannot be told"), (70, "fails")])
def test_annotators_count_once(held: int, ruling: Ruling) -> None:
    """A hundred annotators, judged by ten seeds; what another method says does not matter."""
    rows = [
        {"dataset": "music", "method": method, "seed": seed, "annotators_annotators": 100}
        | {"annotators_held": 0 if method == "conal" else held + seed % 2 - (held == 100) * (seed % 2)}
        for method in ("conal", "xconal")
        for seed in SEEDS
    ]
    found = only("calibration", pa.Table.from_pylist(rows))
    assert found.ruling == ruling
    interval = binomtest(round(held + 0.5 * (held < 100)), 100).proportion_ci(0.95)
    assert f"({100 * interval.low:.0f} to {100 * interval.high:.0f})" in found.why


def little_gold(gain: float = 0.0, claimed: float = 0.9) -> pa.Table:
    """Two crowds of people and the synthetic one, which gains ten points more; without labels, 90 % are right."""
    return pa.Table.from_pylist(
        [
            {"dataset": crowd, "row": "xconal, random tasks", "n": n, "seed": seed, "claimed": claimed + noise}
            | {"test_accuracy": 0.8 + (gain + 0.1 * (crowd == "synthetic") if n else 0) + 0.001 * ((seed + n) % 3)}
            | {"label_accuracy": 0.9 + (gain if n else 0), "label_accuracy_before": 0.9 - noise}
            for crowd in ("labelme", "music", "synthetic")
            for n in (0, 10, 50)
            for seed in SEEDS
            for noise in (0.001 * (seed % 2 - 0.5),)
        ]
    )


def about(table: pa.Table, text: str) -> list[Claim]:
    return [claim for claim in own_claims({"little-gold": table}) if text in claim.text]


@pytest.mark.parametrize(
    ("claimed", "ruling"), [(0.93, "holds"), (0.95, "cannot be told"), (0.97, "fails"), (0.83, "fails")]
)
def test_what_is_claimed_and_what_is_true(claimed: float, ruling: Ruling) -> None:
    people, simulated = about(little_gold(claimed=claimed), "points from the true one")
    assert people.ruling == simulated.ruling == ruling
    assert people.text.startswith("On people")
    assert f"Claimed minus true: LabelMe {100 * (claimed - 0.9):+.1f} (" in people.why


@pytest.mark.parametrize(("gain", "ruling"), [(0.02, "holds"), (0.0, "cannot be told"), (-0.02, "fails")])
def test_true_labels_must_help_on_every_kind_of_crowd(gain: float, ruling: Ruling) -> None:
    """Cleaned labels are compared on the same tasks, test data with the fits without true labels."""
    test, simulated, labels, _ = about(little_gold(gain), "improve")
    assert (test.ruling, labels.ruling, simulated.ruling) == (ruling, ruling, "holds")
    assert test.text.startswith("On people, 50 random true labels improve `xconal` in the mean: test")
    assert f"{100 * gain:+.1f} (" in labels.why
    assert "points, over the seeds of these crowds: LabelMe " in labels.why
    assert float(simulated.why.split()[0]) == pytest.approx(100 * gain + 10, abs=0.1)


@pytest.mark.parametrize(("shift", "ruling"), [(0.0, "holds"), (0.02, "cannot be told")])
def test_many_crowds_of_one_kind_are_units(shift: float, ruling: Ruling) -> None:
    """On eight juries a gain of a point each, or of three and minus one in turn, the same on all seeds."""
    rows = [
        row | {"dataset": jury, "test_accuracy": None, "label_accuracy": row["label_accuracy_before"] + gain}
        for k, jury in enumerate(JUDGES)
        for gain in (0.01 + shift * (-1) ** k + 0.0001 * k,)
        for row in little_gold().to_pylist()
        if row["dataset"] == "labelme"
    ]
    (found,) = about(pa.Table.from_pylist(rows), "improve")
    assert found.text.startswith("On juries of language models")
    assert found.ruling == ruling
    assert f"+1.0 ({'+1.0' if not shift else '-0.7'} to" in found.why


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
    fewer = only("plans", pa.Table.from_pylist([row for row in rows if row["strategy"] != "ActiveLab"]))
    assert fewer.ruling == "cannot be told"  # without its strongest rival


def test_what_was_not_measured_is_not_claimed() -> None:
    assert own_claims({}) == []
    section = claims_section({})
    assert "own claims" not in section
