"""When a claim of the paper holds, fails, or cannot be told."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

import pyarrow as pa

from conal.experiments.base import PAPER_METHODS
from conal.experiments.comparisons import Difference

__all__ = ["BASELINES", "OURS", "RULINGS", "VERDICTS", "Claim", "Ruling", "Tables", "all_of", "judged"]

Tables = Mapping[str, pa.Table]
"""Tables as experiments write them, by the names of the experiments."""
Ruling = Literal["holds", "fails", "cannot be told"]

RULINGS: tuple[Ruling, ...] = ("holds", "fails", "cannot be told")
OURS = "conal"
BASELINES = (*PAPER_METHODS[:-1], "dl-cl-over")
VERDICTS = (
    "*Holds*: the difference is in the claim's favour. *Fails*: it is against the claim; or it is level, and the "
    "interval leaves out the difference that the paper has. *Cannot be told*: everything else. Where a claim is about "
    "several comparisons, it holds if all do, and fails if one does."
)


class Claim(NamedTuple):
    """A sentence of the paper, and what the tables say about it."""

    text: str
    ruling: Ruling
    why: str


def judged(gap: Difference, paper: float | None = None) -> Ruling:
    """The ruling on a claim that a difference is above 0.

    >>> judged(Difference(2.0, 1.0, 3.0, 0.001)), judged(Difference(-2.0, -3.0, -1.0, 0.001))
    ('holds', 'fails')
    >>> judged(Difference(0.1, -1.0, 1.2, 0.8)), judged(Difference(0.1, -1.0, 1.2, 0.8), paper=3.0)
    ('cannot be told', 'fails')
    """
    if gap.verdict == "above":
        return "holds"
    if gap.verdict == "below" or (gap.verdict == "level" and paper is not None and gap.high < paper):
        return "fails"
    return "cannot be told"


def all_of(rulings: Iterable[Ruling]) -> Ruling:
    """The ruling on a claim about several comparisons."""
    found = set(rulings)
    return "fails" if "fails" in found else "holds" if found == {"holds"} else "cannot be told"
