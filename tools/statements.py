"""Sentences and excerpts of the documentation that carry figures of docs/results, made from its tables."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa

from conal.experiments import Store, get, names
from conal.experiments.claims import claims, counted, own_claims, trial
from conal.experiments.comparisons import Difference, corrected, paired_difference
from conal.experiments.costs import estimate
from conal.experiments.gold_free import OURS, RECIPE, TITLES, WITH_PRIOR, GoldFree, beside_ensembles
from conal.experiments.outputs import read_outputs
from conal.experiments.real_tables import PAPER_FIGURES, PROTOCOLS_OF, Table1, chosen_rows
from conal.experiments.results_page import full_tables, in_order
from conal.experiments.rulings import Claim
from conal.experiments.tables import Row, column, group_by, markdown

__all__ = ["STATEMENTS", "wrapped"]

RESULTS = Path(__file__).parents[1] / "docs" / "results"
EXCERPT = {
    "gold": "true labels",
    "dl-mv": "majority vote (`dl-mv`)",
    "dl-cl": "crowd layer (`dl-cl`)",
    "dl-cl-over": "two crowd layers (`dl-cl-over`)",
    "max-mig": "Max-MIG (`max-mig`)",
    "conal": "CoNAL (`conal`)",
}
"""Rows of the README: true labels, the usual baseline, the strongest ones, and the paper's method."""
DEFAULT = {name: EXCERPT[name] for name in ("gold", "dl-mv", "dl-cl", "max-mig")} | {
    "aggnet": "EM with a matrix per annotator (`aggnet`)",
    "conal-em": "CoNAL by EM (`conal-em`)",
    "conal": EXCERPT["conal"],
    OURS: "**CoNAL, cross-fitted (`xconal`, the default)**",
}
"""Rows of the README without gold labels: `xconal` averages five networks itself."""
SELECTED = ("conal", "dl-cl", "max-mig")
OVERFIT = ("dl-mv", "dl-ds", "dl-glad", "dl-wc")
NOT_SINGLE = ("gold", OURS, RECIPE)
"""Rows that are no single network trained on crowd labels."""


@cache
def _gold_free() -> pa.Table:
    return read_outputs(GoldFree(), RESULTS)


def excerpt() -> str:
    """The README's part of Table 1, ours beside the paper's."""
    table = read_outputs(Table1(), RESULTS)
    shown = {name: chosen_rows(table, name, protocols[0]) for name, protocols in PROTOCOLS_OF.items()}
    body = []
    for row, title in EXCERPT.items():
        papers = PAPER_FIGURES.get(row, ("-", "-"))
        cells = [_percent(column(shown[name][row], "test_accuracy")) for name in shown]
        body.append([title, cells[0], papers[0], cells[1], papers[1]])
    header = ["test accuracy, %", "LabelMe, epoch and grid by 500 gold validation labels", "*paper*"]
    return markdown([*header, "Music, no gold label used", "*paper*"], body)


def default() -> str:
    """The README's part of *Without gold labels*: one fit, and an ensemble of five."""
    cells = _cells("estimate")
    body = []
    for row, title in DEFAULT.items():
        found = [cells[dataset, row, "own"] for dataset in TITLES]
        body.append([title, *(f"{_percent(_accuracies(some))}; {_ensemble(some):.1f}" for some in found)])
    return markdown(["test accuracy, %: one fit; ensemble of five", *TITLES.values()], body)


def verdict() -> str:
    """What a reviewer would write: how many of the paper's claims hold here, and which."""
    tables = full_tables(RESULTS)
    tried = "".join(f"\n\nOur own trial: {claim.text}: **{claim.ruling}**. {claim.why}" for claim in trial(tables))
    return _by_ruling(claims(tables), "the paper") + tried


def own_verdict() -> str:
    """What holds of what this library says about itself, told in the same way."""
    return _by_ruling(own_claims(full_tables(RESULTS)), "this library")


def _by_ruling(found: list[Claim], by: str) -> str:
    """How many of each, those that fail, with the reason, and those that hold."""
    parts = [f"{counted(found, by)}, by the tables of docs/results, which list all with their reasons."]
    for ruling, title in (("fails", "These fail:"), ("holds", "These hold:")):
        why = ruling == "fails"
        lines = [f"- {claim.text}." + (f" {claim.why}" if why else "") for claim in found if claim.ruling == ruling]
        parts += [title, "\n".join(lines)] if lines else []
    return "\n\n".join(parts)


def without_gold() -> str:
    """How `xconal` compares without gold labels: with single fits, and with ensembles."""
    cells = _cells("estimate")
    gaps = {}
    for dataset in TITLES:
        others = [row for row in _rows(cells, dataset) if row not in NOT_SINGLE]
        best = max(others, key=lambda row: _mean(cells[dataset, row, "own"]))
        gaps[dataset, best] = _gap(cells[dataset, OURS, "own"], cells[dataset, best, "own"])
    text = "; ".join(f"{TITLES[d]} {gap} against `{row}` ({gap.verdict})" for (d, row), gap in corrected(gaps).items())
    return (
        "One fit of `xconal`, which averages five networks, minus one of the best other method, five fits each, in "
        f"points of test accuracy: {text}. {_beside()}"
    )


def _beside() -> str:
    gaps = beside_ensembles(_gold_free())
    if not gaps:
        return "Against ensembles of five of the other methods, this has not been measured by this version."
    parts = []
    for dataset in dict.fromkeys(key[0] for key in gaps):
        row, gap = min(((r, gap) for (d, r), gap in gaps.items() if d == dataset), key=lambda pair: pair[1].value)
        parts.append(f"{TITLES[dataset]} {gap} against `{row}` ({gap.verdict})")
    return f"Against the best ensemble of five networks: {'; '.join(parts)}."


def selection() -> str:
    """What a validation set with true labels changes."""
    cells = _cells("estimate")

    def changes(rows: tuple[str, ...]) -> str:
        each = [_mean(cells[d, row, "gold"]) - _mean(cells[d, row, "own"]) for d in TITLES for row in rows]
        return f"{min(each):+.1f} to {max(each):+.1f}"

    def behind(dataset: str) -> str:
        rows = [row for row in _rows(cells, dataset) if row not in NOT_SINGLE]
        best = max(rows, key=lambda row: _ensemble(cells[dataset, row, "gold"]))
        gap = _ensemble(cells[dataset, best, "gold"]) - _mean(cells[dataset, OURS, "own"])
        return f"{TITLES[dataset]} {gap:+.1f} (`{best}`)"

    names = ", ".join(f"`{row}`" for row in SELECTED)
    overfit = ", ".join(f"`{row}`" for row in OVERFIT)
    return (
        "Over the four crowds of *Without gold labels*, selecting the epoch by true labels changes the test accuracy "
        f"of {names} by {changes(SELECTED)} points, that of {overfit}, which overfit the crowd's labels, by "
        f"{changes(OVERFIT)}, and that of `anno-reg` by {changes(('anno-reg',))}. (On Music, the validation songs are "
        "taken from the training data.) The best ensemble of five of another method with that help, minus one fit of "
        f"`xconal` without it, in points: {'; '.join(map(behind, TITLES))}."
    )


def prior() -> str:
    """What a stated class prior is worth to `xconal`."""
    stated, plain = _cells("balanced"), _cells("estimate")
    parts = []
    for dataset in WITH_PRIOR:
        gap = _gap(stated[dataset, OURS, "own"], plain[dataset, OURS, "own"])
        others = [row for row in _rows(stated, dataset) if row not in NOT_SINGLE]
        best = max(others, key=lambda row: _ensemble(stated[dataset, row, "own"]))
        parts.append(
            f"on {TITLES[dataset]} by {gap} points over five fits, to {_mean(stated[dataset, OURS, 'own']):.1f} %; the "
            f"best ensemble of five of another method with the same prior, `{best}`, reaches "
            f"{_ensemble(stated[dataset, best, 'own']):.1f} %"
        )
    return f"A balanced prior changes the test accuracy of `xconal` without gold labels {'; '.join(parts)}."


def ensembles() -> str:
    """What ensembles of five add."""
    cells = _cells("estimate")

    def gains(datasets: tuple[str, ...], rows: list[str]) -> list[float]:
        lines = [cells[dataset, row, "own"] for dataset in datasets for row in rows]
        return [_ensemble(some) - _mean(some) for some in lines]

    single = [row for row in _rows(cells, WITH_PRIOR[0]) if row not in NOT_SINGLE]
    simulated = tuple(dataset for dataset in TITLES if dataset not in WITH_PRIOR)
    ours = gains(tuple(TITLES), [OURS])
    return (
        f"It adds {np.mean(gains(WITH_PRIOR, single)):.1f} points on average to single-network methods on the two real "
        f"crowds, and {np.mean(gains(simulated, single)):.1f} on the simulated ones. `xconal` already averages several "
        f"networks; it changes by {min(ours):+.1f} to {max(ours):+.1f} points."
    )


def costs() -> str:
    """Every experiment with its runs and estimated time, in the order in which `all` runs them."""
    planned = [get(name)() for name in in_order(names())]
    with Store(":memory:") as store:
        found = estimate(planned, store, Path("none"))
    body = [
        [f"`{cost.name}`", each.shows, f"{cost.runs:,}" if each.runs() else "none", _minutes(cost.seconds)]
        for each, cost in zip(planned, found, strict=True)
    ]
    total = ["all", "", f"{sum(cost.runs for cost in found):,}", _minutes(sum(cost.seconds for cost in found))]
    return markdown(["experiment", "content", "runs", "CPU minutes, about"], [*body, total])


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:,.0f}" if seconds >= 30 else "at once"


def _cells(prior: str) -> dict[tuple[str, str, str], list[Row]]:
    lines = [line for line in _gold_free().to_pylist() if line["prior"] == prior]
    return group_by(lines, "dataset", "row", "protocol")


def _rows(cells: dict[tuple[str, str, str], list[Row]], dataset: str) -> list[str]:
    return list(dict.fromkeys(row for name, row, _ in cells if name == dataset))


def _mean(lines: list[Row]) -> float:
    return float(100 * np.mean(_accuracies(lines)))


def _accuracies(lines: list[Row]) -> list[float]:
    return column(lines, "test_accuracy")


def _ensemble(lines: list[Row]) -> float:
    """In percent."""
    return float(100 * lines[0]["ensemble_accuracy"])


def _gap(ours: list[Row], theirs: list[Row]) -> Difference:
    return paired_difference((_accuracies(ours), _accuracies(theirs)))


def _percent(values: list[float]) -> str:
    return f"{100 * np.mean(values):.1f} ± {100 * np.std(values, ddof=1):.1f}"


def wrapped(make: Callable[[], str]) -> Callable[[], str]:
    """Lines of a page's width; a list item goes on below its text, and lines of tables stay."""

    def made() -> str:
        lines = make().splitlines()
        return "\n".join(_WRAP.fill(line) if line.startswith("- ") else _fill(line) for line in lines)

    return made


def _fill(line: str) -> str:
    return line if line.startswith("|") else textwrap.fill(line, WIDTH, break_long_words=False, break_on_hyphens=False)


WIDTH = 120
_WRAP = textwrap.TextWrapper(WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
STATEMENTS: dict[str, Callable[[], str]] = {"excerpt": excerpt, "default": default, "costs": costs} | {
    make.__name__: wrapped(make) for make in (verdict, own_verdict, without_gold, selection, prior, ensembles)
}
"""Parts of pages, by the names that pages call them."""
