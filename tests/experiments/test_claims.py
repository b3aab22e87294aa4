"""The paper's claims: judged by made-up tables of which the answer is known, and by those of the docs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from conal.experiments.claims import claims, claims_section, own_claims
from conal.experiments.comparisons import RULE, Difference
from conal.experiments.real_tables import PROTOCOLS_OF
from conal.experiments.results_page import REFERENCE, full_tables
from conal.experiments.rulings import BASELINES, Claim, Ruling, all_of, judged

DOCS = Path(__file__).parents[2] / "docs"
SEEDS = range(5)


def real(accuracy: Callable[[str, str], float], rows: tuple[str, ...]) -> pa.Table:
    """Accuracies by dataset and row, with a spread of some tenths of a point."""
    return pa.Table.from_pylist(
        [
            {"dataset": dataset, "protocol": protocol, "row": row, "seed": seed, "chosen": True}
            | {"test_accuracy": accuracy(dataset, row) + 0.001 * ((seed * (1 + k)) % 3)}
            for dataset, protocols in PROTOCOLS_OF.items()
            for protocol in protocols
            for k, row in enumerate(rows)
            for seed in SEEDS
        ]
    )


def rulings(**tables: pa.Table) -> dict[str, Ruling]:
    found = claims({name.replace("_", "-"): table for name, table in tables.items()})
    return {claim.text: claim.ruling for claim in found}


@pytest.mark.parametrize(("lead", "ruling"), [(0.02, "holds"), (-0.02, "fails"), (0.0, "fails")])
def test_the_best_method(lead: float, ruling: Ruling) -> None:
    """Level is a failure as well, where the interval leaves out the paper's lead of two points or more."""
    table = real(lambda _, row: 0.8 + lead * (row == "conal"), ("conal", *BASELINES))
    found = rulings(table_1=table)
    about = {text: each for text, each in found.items() if "all baselines on" in text}
    assert len(about) == 3
    assert set(about.values()) == {ruling}


def test_one_baseline_above_is_enough_to_fail() -> None:
    table = real(lambda _, row: {"conal": 0.85, "dl-cl": 0.87}.get(row, 0.8), ("conal", *BASELINES))
    (first, *_) = claims({"table-1": table})
    assert first.ruling == "fails"
    assert "Less `dl-cl`, the best baseline: -1.9 (" in first.why
    assert "in the paper +3.9" in first.why
    assert f"Above {len(BASELINES) - 1} baselines, level with 0, below 1 (`dl-cl`)." in first.why


def test_lambda_and_more_parameters() -> None:
    weights = real(lambda dataset, row: 0.8 + 0.02 * (row == "1e-05") * (dataset == "music"), ("0", "1e-05", "1e-06"))
    layers = real(
        lambda _, row: {"dl-cl": 0.85, "dl-cl-over": 0.8, "conal": 0.8}[row], ("dl-cl", "dl-cl-over", "conal")
    )
    found = rulings(table_2=weights, table_3=layers)
    assert found["λ > 0 helps on LabelMe (Table 2)"] == "fails"
    assert found["λ > 0 helps on Music (Table 2)"] == "holds"
    assert found["DL-CL_Over is less accurate than DL-CL (Table 3)"] == "holds"
    assert found["CoNAL is more accurate than DL-CL_Over (Table 3)"] == "fails"


def sweep(accuracy: Callable[[str, float], float]) -> pa.Table:
    return pa.Table.from_pylist(
        [
            {"gate": gate, "varies": "strength", "value": value, "common_type": kind, "individual_strength": 0.3}
            | {"method": method, "seed": seed}
            | {"test_accuracy": (0.1 if gate != "effects" else accuracy(method, value)) + 0.0001 * ((seed * k) % 3)}
            for gate in ("effects", "interaction")
            for value in (0.4, 0.8)
            for kind in ("asymmetric", "symmetric")
            for k, method in enumerate(("conal", *BASELINES))
            for seed in SEEDS
        ]
    )


def test_sweeps() -> None:
    best, falls = (f"{text} on CIFAR-10" for text in (_BEST, _FALLS))
    ahead = sweep(lambda method, value: 0.9 + 0.02 * (method == "conal") - (method != "conal") * (value > 0.5) * 0.1)
    assert rulings(cifar10=ahead) | {best: "holds", falls: "holds"} == rulings(cifar10=ahead)
    level = sweep(lambda method, value: 0.9)
    assert rulings(cifar10=level)[best] == rulings(cifar10=level)[falls] == "cannot be told"
    behind = sweep(lambda method, value: 0.9 + 0.02 * (method == "dl-cl") * (value > 0.5))
    assert rulings(cifar10=behind)[best] == rulings(cifar10=behind)[falls] == "fails"
    (about, *_) = [claim for claim in claims({"cifar10": behind}) if claim.text == best]
    assert "Of 4 settings, CoNAL is above all baselines in 0, below one or more in 2" in about.why
    other = sweep(lambda method, value: 0.9).drop(["gate"])  # a table of earlier versions, with the other gate
    (told,) = [claim for claim in claims({"cifar10": other}) if "CIFAR-10" in claim.text]
    assert told.why == "`conal reproduce cifar10` has not been run with the gate of Equation 3."


_BEST = "CoNAL is more accurate than all baselines in all settings"
_FALLS = "Strong common noise costs CoNAL less than all baselines"


def test_recovery_is_about_the_most_frequent_mistake() -> None:
    def matrices(wrong: int) -> pa.Table:
        rows = []
        for c in range(20):
            for k in range(20):
                truth = 0.6 if c == k else 0.4 * (k == (c + 1) % 20)
                taken = (c + 2) % 20 if c < wrong else (c + 1) % 20
                at = {"dataset": "synthetic", "common_type": "symmetric", "who": "common", "truth": truth}
                rows.append(at | {"true": str(c), "observed": str(k), "learned": 0.6 if c == k else 0.4 * (k == taken)})
        return pa.Table.from_pylist([*rows, *(row | {"who": "ann"} for row in rows)])

    text = "The common matrix is recovered in most cases"
    assert [rulings(recovery=matrices(wrong))[text] for wrong in (0, 9, 20)] == ["holds", "cannot be told", "fails"]


def test_several_comparisons() -> None:
    assert all_of(["holds", "holds"]) == "holds"
    assert all_of(["holds", "cannot be told"]) == "cannot be told"
    assert all_of(["holds", "cannot be told", "fails"]) == "fails"


def test_a_single_seed_tells_nothing() -> None:
    nothing = Difference(5.0, float("nan"), float("nan"), float("nan"))
    assert judged(nothing) == judged(nothing, paper=9.0) == "cannot be told"


def test_missing_tables_are_named_once() -> None:
    found = claims({})
    assert {claim.ruling for claim in found} == {"cannot be told"}
    assert len({claim.text for claim in found}) == len(found)
    assert Claim("Claims about CIFAR-10", "cannot be told", "`conal reproduce cifar10` has not been run.") in found


def test_the_docs_judge_by_their_own_tables() -> None:
    tables = full_tables(DOCS / "results")
    section = claims_section(tables)
    assert section.replace(RULE, REFERENCE) in (DOCS / "results.md").read_text(encoding="utf-8")
    assert section.count("\n| ") == 2 + len(claims(tables)) + len(own_claims(tables))
