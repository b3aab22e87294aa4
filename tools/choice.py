"""The table of docs/choosing.md: which aggregator for which crowd, from the stored results of the benchmark."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from conal.datasets.label_sets import JUDGES
from conal.experiments.comparisons import paired_difference
from conal.experiments.outputs import read_outputs
from conal.experiments.simulated_labels import SimulatedLabels
from conal.experiments.tables import column, group_by

__all__ = ["KINDS", "RESULTS", "choice_notes", "choice_table", "recommended"]

RESULTS = Path(__file__).parents[1] / "docs" / "performance" / "aggregators.json"
"""Written by `make bench-aggregation`."""
WITHIN = 1.0
"""Points behind the most accurate one that still make a recommendation."""
MOST = 3
"""Recommendations per kind of crowd."""
VOTES = ("majority-vote", "wawa", "zero-based-skill")
ONE_NUMBER = ("glad", "one-coin", "mmsr", "kos", "wawa", "zero-based-skill")
"""Aggregators that know one number of every annotator."""
EQUAL_CLASSES = ("minimax-entropy", "mace", "multidimensional")
"""Aggregators that count all classes as equally frequent."""
SMALLEST, UNEVEN = "bluebird", "product"
"""The crowd with the fewest tasks, and one with a class that is far more frequent."""
AUTO = ("auto", "dawid-skene")
COMPARED = ("dawid-skene", "majority-vote")
"""Shown in every row, also where they are not recommended."""

Results = dict[str, Any]


class Kind(NamedTuple):
    """What a crowd looks like, and the crowds of the benchmark that do."""

    looks: str
    crowds: tuple[str, ...]


KINDS = (
    Kind("people; many labels for every task, and tasks that mislead many", ("bluebird",)),
    Kind("people; about ten labels per task, four classes", ("dog", "face")),
    Kind("people; few labels per task, and one class far more frequent", ("product",)),
    Kind("people; twenty labels per task, two classes", ("sentiment",)),
    Kind("a jury of language models, two classes", ("conv_go_awry", "persuasion")),
    Kind("a jury of language models, three or four classes", ("flute", "semeval_stance", "wiki_politeness")),
    Kind("a jury of language models, six or seven classes", ("discourse", "emotion", "raop")),
    Kind("few labels per annotator, and mistakes that many share", tuple(f"shared {k}" for k in range(1, 13))),
)


def choice_table() -> str:
    """A row for every kind of crowd, and three for what else may decide."""
    found: Results = json.loads(RESULTS.read_text(encoding="utf-8"))
    real = tuple(found["crowds"])
    rows = [_row("anything, and you do not want to choose", ["auto"], found, real, f"all {len(real)}")]
    rows += [_row(looks, recommended(found, crowds), found, crowds, _where(found, crowds)) for looks, crowds in KINDS]
    known = max(("gold-majority-vote", "dawid-skene, true labels"), key=lambda name: _mean(found, name, real))
    told = f"all {len(real)}, a fifth of the true labels given"
    rows.append(
        _row(
            "control questions with known answers (`--true-labels`)",
            [known],
            found,
            real,
            told,
            ("gold-majority-vote",),
        )
    )
    quick = max(VOTES, key=lambda name: _mean(found, name, real))
    rows.append(_row("you need one pass, or a figure to compare with", [quick], found, real, f"all {len(real)}"))
    return "\n".join(["| your crowd looks like | use | accuracy, % | measured on |", "|---|---|---|---|", *rows])


def choice_notes() -> str:
    """How to read the table, as a list: what a point is worth, and which aggregators fail where."""
    found: Results = json.loads(RESULTS.read_text(encoding="utf-8"))
    real, about = tuple(found["crowds"]), found["crowds"]
    sizes = [about[name]["tasks"] for name in real if name in JUDGES]
    behind = [_mean(found, "dawid-skene", real) - _mean(found, name, real) for name in ONE_NUMBER]
    uneven = {name: _mean(found, name, (UNEVEN,)) for name in (*EQUAL_CLASSES, "majority-vote", "dawid-skene")}
    figures = ", ".join(f"`{name}` {accuracy:.1f}" for name, accuracy in uneven.items())
    return (
        f"- Differences of a point are {_tasks([about[SMALLEST]['tasks']])} on {SMALLEST} ({about[SMALLEST]['tasks']} "
        f"tasks) and {_tasks(sizes)} on a jury ({min(sizes)} to {max(sizes)} tasks); do not read more into them. On "
        f"{len(real)} crowds some aggregator is the best by luck. If you have true labels of a hundred tasks, let "
        "`auto` choose by them (`--true-labels`): it takes a single aggregator only if it is clearly better than the "
        "mean.\n"
        f"- Aggregators with one number per annotator ({', '.join(f'`{name}`' for name in ONE_NUMBER)}) are "
        f"{min(behind):.0f} to {max(behind):.0f} points behind `dawid-skene` on average: on crowds whose annotators "
        "are weak, or confuse particular classes, one number is not enough.\n"
        f"- {', '.join(f'`{name}`' for name in EQUAL_CLASSES[:-1])} and `{EQUAL_CLASSES[-1]}` count all classes as "
        f"equally frequent. On {UNEVEN}, {100 * about[UNEVEN]['largest_class']:.0f} % of the tasks are of one class. "
        f"Right labels there, in percent: {figures}.\n"
        f"- {_auto(found, real)}"
    )


def _auto(found: Results, real: Sequence[str]) -> str:
    """What `auto` is worth, on the crowds that its members were chosen on, and on others."""
    accuracies = {name: [found["models"][name][crowd]["accuracy"] / 100 for crowd in real] for name in AUTO}
    simulated = read_outputs(SimulatedLabels(), RESULTS.parents[1] / "results").to_pylist()
    rows = group_by(simulated, "method")
    by_name = {name: 100 * float(np.mean(column(some, "accuracy"))) for name, some in rows.items()}
    best = max((name for name in by_name if name != AUTO[0]), key=lambda name: by_name[name])
    return (
        f"`auto` minus `dawid-skene` is {paired_difference((accuracies[AUTO[0]], accuracies[AUTO[1]]))} points over "
        f"these {len(real)} crowds, on which its members were chosen. On {len(rows[AUTO[0]])} simulated crowds, "
        f"`auto` has {by_name[AUTO[0]]:.1f} % right labels, `dawid-skene` {by_name[AUTO[1]]:.1f} and "
        f"`{best}`, the best there, {by_name[best]:.1f}."
    )


def _tasks(sizes: Sequence[int]) -> str:
    """How many tasks a point is."""
    ends = dict.fromkeys(f"{size / 100:.0f}" for size in (min(sizes), max(sizes)))
    return f"{' to '.join(ends)} task{'s' if max(sizes) >= 150 else ''}"


def recommended(found: Results, crowds: Sequence[str]) -> list[str]:
    """The most accurate aggregators on crowds, the best first; the mean of several (`auto`) is not one of them."""
    alone = [name for name in found["models"] if "," not in name and name not in ("auto", "gold-majority-vote")]
    ranked = sorted(alone, key=lambda name: -_mean(found, name, crowds))
    best = _mean(found, ranked[0], crowds)
    return [name for name in ranked[:MOST] if _mean(found, name, crowds) >= best - WITHIN]


def _row(
    looks: str, use: list[str], found: Results, crowds: Sequence[str], where: str, others: Sequence[str] = COMPARED
) -> str:
    compared = [name for name in others if name not in use]
    figures = ", ".join(f"{_mean(found, name, crowds):.1f}" for name in use)
    beside = ", ".join(f"`{name}` {_mean(found, name, crowds):.1f}" for name in compared)
    names = ", ".join(f"`{name.split(',')[0]}`" for name in use)
    return f"| {looks} | {names} | {figures}{f' ({beside})' if beside else ''} | {where} |"


def _mean(found: Results, name: str, crowds: Sequence[str]) -> float:
    each = [float(found["models"][name][crowd]["accuracy"]) for crowd in crowds]
    return sum(each) / len(each)


def _where(found: Results, crowds: Sequence[str]) -> str:
    """The crowds, with their labels per task and classes."""
    if crowds[0] not in found["crowds"]:
        return f"{len(crowds)} simulated crowds"
    about = [(name, found["crowds"][name]) for name in crowds]
    return ", ".join(f"{name} ({facts['labels_per_task']:.0f}; {facts['classes']})" for name, facts in about)
