"""What the paper and this library claim, and what the tables say about it: holds, fails, or cannot be told."""

from __future__ import annotations

from collections.abc import Callable

from conal.experiments.claims_on_crowds import falls_less, most_accurate_in, no_difference_without, recovered
from conal.experiments.claims_on_tables import (
    entropies,
    lambda_helps,
    more_parameters,
    most_accurate,
    omega_by_class,
    on_equal_terms,
    open_country,
    shared_mistakes,
)
from conal.experiments.comparisons import RULE
from conal.experiments.own_claims import OWN_CLAIMS
from conal.experiments.rulings import RULINGS, VERDICTS, Claim, Tables
from conal.experiments.tables import markdown, notes

__all__ = ["CLAIMS", "claims", "claims_section", "counted", "own_claims", "trial"]

CLAIMS: tuple[tuple[str, Callable[[Tables], list[Claim]]], ...] = (
    ("table-1", most_accurate),
    ("cifar10", most_accurate_in("cifar10", "CIFAR-10 features, at five strengths")),
    ("cifar10", falls_less("cifar10", "CIFAR-10 features")),
    ("synthetic", most_accurate_in("synthetic", "synthetic data, in all settings")),
    ("synthetic", no_difference_without("synthetic", "synthetic data")),
    ("synthetic", falls_less("synthetic", "synthetic data")),
    ("classes", open_country),
    ("table-2", lambda_helps),
    ("table-3", more_parameters),
    ("recovery", recovered),
    ("omega", omega_by_class),
)
"""The table that a claim needs, and how it is judged."""
TRIAL = "fair-trial"
"""The table of our own trial of the paper's main comparison, which is no claim of the paper."""
NOT_JUDGED = (
    "Not judged: that λ = 1e-5 is the best of all weights; which mistakes of single classes are common, beyond Figure "
    "1; and the sweep of the proportion on CIFAR-10, which is not run here."
)
"""Statements of the paper without a line."""
RECOUNTS: tuple[tuple[str, Callable[[Tables], str]], ...] = (("figure-1", shared_mistakes), ("classes", entropies))
"""Figures of the paper's data that are counted again; they say nothing about methods."""
COUNTING = (
    "A line is one result that the paper states, for one dataset where it names several. The set-up differs from the "
    "paper's in what Table 1 lists."
)
"""What counts as a claim."""
CHOSEN = (
    "No run sees true labels unless its line says so. But defaults were chosen on validation data with true labels: "
    "those of all methods on LabelMe and Music, those of `xconal` also on simulated crowds."
)
"""What readers should know of the defaults that these claims are about."""
NOT_THERE = {
    "cifar10": "Claims about CIFAR-10",
    "synthetic": "Claims about synthetic data",
    "classes": "Claims about single classes",
}


def claims(tables: Tables) -> list[Claim]:
    """All claims of the paper, judged by the tables that are there.

    Parameters
    ----------
    tables : mapping of str to pyarrow.Table
        Tables as experiments write them, by the names of the experiments.
    """
    found = [claim for needed, judge in CLAIMS for claim in _judged(needed, judge, tables)]
    return list(dict.fromkeys(found))  # several claims may need the same missing table


def trial(tables: Tables) -> list[Claim]:
    """Our own trial of the paper's main comparison, if it was run."""
    return on_equal_terms(tables) if TRIAL in tables else []


def own_claims(tables: Tables) -> list[Claim]:
    """What this library claims of itself, by the tables that are there; nothing of what was not measured."""
    return [claim for needed, judge in OWN_CLAIMS if needed in tables for claim in judge(tables)]


def claims_section(tables: Tables) -> str:
    """Two parts of the page: a line per claim of the paper, and one per claim of this library."""
    papers, own = claims(tables), own_claims(tables)
    parts = [
        "## What holds of the paper's claims",
        f"{counted(papers, 'the paper')}. {COUNTING} {NOT_JUDGED} Computed from the tables below. {RULE}",
        notes(*VERDICTS),
        _lines("the paper says", papers),
    ]
    if TRIAL in tables:
        parts += ["Our own trial of the paper's main comparison:", _lines("on equal terms", trial(tables))]
    again = [recount(tables) for needed, recount in RECOUNTS if needed in tables]
    parts += ["Counted again, without a model:", notes(*again)] if again else []
    if own:
        told = f"{counted(own, 'this library')}, each by what its line says; differences as above. {CHOSEN}"
        parts += ["## What holds of this library's own claims", told, _lines("this library says", own)]
    return "\n\n".join(parts) + "\n"


def _lines(header: str, found: list[Claim]) -> str:
    return markdown([header, "here", "why"], [[claim.text, f"**{claim.ruling}**", claim.why] for claim in found])


def counted(found: list[Claim], by: str) -> str:
    """How many claims hold, fail, and cannot be told.

    >>> counted([Claim("a", "holds", ""), Claim("b", "fails", ""), Claim("c", "holds", "")], "the paper")
    'Of 3 claims of the paper, 2 hold, 1 fails, 0 cannot be told'
    """
    numbers = {ruling: sum(claim.ruling == ruling for claim in found) for ruling in RULINGS}
    words = {ruling: ruling.removesuffix("s") if number != 1 else ruling for ruling, number in numbers.items()}
    counts = ", ".join(f"{number} {words[ruling]}" for ruling, number in numbers.items())
    return f"Of {len(found)} claims of {by}, {counts}"


def _judged(needed: str, judge: Callable[[Tables], list[Claim]], tables: Tables) -> list[Claim]:
    if needed in tables:
        return judge(tables)
    text = NOT_THERE.get(needed, f"Claims about {needed}")
    return [Claim(text, "cannot be told", f"`conal reproduce {needed}` has not been run.")]
