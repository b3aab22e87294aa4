"""Sentences and a table of docs/common-noise.md, made from the tables of docs/results."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from conal.datasets.label_sets import JUDGES
from conal.experiments.aggregators import BASE, DRAWS, N_TRUE, SOME, TRUTH, Aggregators, by_some, effective_numbers
from conal.experiments.commonness import CROWDS, LABELS_PER_TASK, Commonness, errors_of, holds, wrong_headline
from conal.experiments.outputs import read_outputs
from conal.experiments.tables import group_by

__all__ = ["commonness", "effective_number_of_juries", "effective_number_of_sparse_crowd"]

HALF = 0.5
SPARSE = "product"
"""A crowd of many people, with few labels per task."""
RESULTS = Path(__file__).parents[1] / "docs" / "results"
AGGREGATORS = RESULTS.parent / "performance" / "aggregators.json"
"""Has the number of labels per task of every crowd; written by `make bench-aggregation`."""
FEWEST, MOST_LABELS = min(each["n_annotators"] for each in CROWDS.values()), max(LABELS_PER_TASK)
"""Crowds on which the effective number by inferred labels is near: few annotators, or many labels per task."""


def commonness() -> str:
    """How far figures about shared mistakes by inferred labels are from those by true labels."""
    rows = read_outputs(Commonness(), RESULTS).to_pylist()
    crowds = len({(row["row"], row["labels"], row["proportion"], row["seed"]) for row in rows})
    told = [row for row in rows if row["value"] is not None]
    bounded = [row for row in rows if row["effective"] and row["effective_true"]]
    ratios = [row["effective_at_most"] / row["effective_true"] for row in bounded]
    near = [row for row in bounded if row["labels"] == MOST_LABELS or row["row"].startswith(f"{FEWEST} ")]
    many = [row["effective"] / row["effective_true"] for row in near]
    error, held = np.mean(errors_of(told)), _percent([holds(row) for row in told])
    wrong = sum(map(wrong_headline, rows)) or "No"
    half = [row["value"] for row in told if row["proportion"] == HALF]
    farthest = 100 * max(abs(ratio - 1) for ratio in many)
    return (
        f"On {crowds} crowds, co-direction by labels of `xconal` or Dawid-Skene is {error:.3f} from its value by true "
        f"labels in the mean. Its intervals contain that value in {held} of the fits: they allow for other annotators "
        "of the same kind too, and so are wider than inferred labels alone would need. It abstains in "
        f"{_percent([row['value'] is None for row in rows])}. {wrong} headlines were wrong. Where half of "
        f"all labels come from the common confusion, it is {min(half):.2f} to {max(half):.2f}.\n\n"
        f"The effective number by inferred labels is at most {farthest:.0f} % from its value by true labels on crowds "
        f"of {FEWEST} annotators, and on crowds with {MOST_LABELS} labels per task. Inferred labels hide shared "
        "mistakes, so without true labels a report says *at most*, and the upper end of the 95 % interval. This "
        f"bound is at least {min(ratios):.2f} of the value by true labels on all of these crowds."
    )


def effective_number_of_juries() -> str:
    """The effective number on juries of language models: how far the bound is, and how near some true labels come."""
    rows = [row for row in read_outputs(Aggregators(), RESULTS).to_pylist() if row["row"] in JUDGES]
    cells = group_by(rows, "row", "method")
    far, near, held = [], [], []
    for jury in dict.fromkeys(row["row"] for row in rows):
        (truth,), (bound,) = cells[jury, TRUTH], cells[jury, BASE]
        far.append(bound["effective_high"] / truth["effective"])
        told = [row for row in cells[jury, SOME] if row["effective_low"] is not None]
        near += [abs(row["effective"] / truth["effective"] - 1) for row in told]
        held += [row["effective_low"] <= truth["effective"] <= row["effective_high"] for row in told]
    text = (
        f"On {len(far)} juries of language models, whose members err together, the bound is {min(far):.1f} to "
        f"{max(far):.1f} times the value. {N_TRUE} true labels are {100 * np.mean(near):.0f} % off in the mean of "
        f"{DRAWS} draws, and {100 * np.mean(held):.0f} % of their intervals contain the value (`conal reproduce "
        "aggregators`)."
    )
    return f"{text}\n\n{effective_numbers(rows)}"


def effective_number_of_sparse_crowd() -> str:
    """How far 50 true labels lead where two annotators hardly share a task."""
    rows = group_by(read_outputs(Aggregators(), RESULTS).to_pylist(), "row", "method")
    (truth,), some = rows[SPARSE, TRUTH], rows[SPARSE, SOME]
    _, deviation, held = by_some(some, truth["effective"])
    labels = json.loads(AGGREGATORS.read_text(encoding="utf-8"))["crowds"][SPARSE]["labels_per_task"]
    return (
        f"With {labels:g} labels per task of many annotators, {N_TRUE} tasks are too few: two annotators then share "
        f"hardly any of them. On *{SPARSE}* they are {deviation} off in the mean, and {held} of the intervals contain "
        "the value."
    )


def _percent(found: list[bool]) -> str:
    return f"{100 * np.mean(found):.1f} %"
