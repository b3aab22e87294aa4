"""When a claim of the paper holds, fails, or cannot be told."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

import pyarrow as pa

from conal.experiments.base import PAPER_METHODS
from conal.experiments.comparisons import Difference

__all__ = ["BASELINES", "OURS", "RULINGS", "VERDICTS", "Claim", "Ruling", "Tables", "beside_paper", "counts", "ruled"]

Tables = Mapping[str, pa.Table]
"""Tables as experiments write them, by the names of the experiments."""
Ruling = Literal["holds", "fails", "cannot be told"]

RULINGS: tuple[Ruling, ...] = ("holds", "fails", "cannot be told")
OURS = "conal"
BASELINES = PAPER_METHODS[:-1]
VERDICTS = (
    "*Holds*: every difference that the claim is about has an interval on the claim's side of 0. This needs no "
    "correction for several comparisons, since all of them must speak for the claim.",
    "*Fails*: one difference is significantly on the other side; or the one to the best baseline is level, and "
    "significantly below the paper's, whose error over five runs counts as well; or, of a sweep, the mean over all "
    "settings is significantly on the other side. After Holm's correction, for a comparison with the paper over the "
    "datasets of its table.",
    "*Cannot be told*: everything else.",
)
"""What each ruling means."""


class Claim(NamedTuple):
    """A sentence of the paper, and what the tables say about it."""

    text: str
    ruling: Ruling
    why: str


def ruled(gaps: Sequence[Difference], beyond: Sequence[Difference] = ()) -> Ruling:
    """The ruling on a claim that all of some differences are above 0.

    Parameters
    ----------
    gaps : sequence of Difference
        With p-values corrected for all comparisons of their table.
    beyond : sequence of Difference
        How far the first of them are above the paper's differences, if there are any, corrected as well.

    Examples
    --------
    >>> ruled([Difference(2.0, 1.0, 3.0, 0.09)]), ruled([Difference(-2.0, -3.0, -1.0, 0.001)])
    ('holds', 'fails')
    >>> level, less = Difference(0.1, -1.0, 1.2, 0.8), Difference(-2.9, -4.0, -1.8, 0.01)
    >>> ruled([level]), ruled([level], [less])
    ('cannot be told', 'fails')
    """
    if gaps and all(gap.low > 0 for gap in gaps):
        return "holds"
    if any(gap.verdict == "below" for gap in gaps):
        return "fails"
    short = (gap.low <= 0 and more.verdict == "below" for gap, more in zip(gaps, beyond, strict=False))
    return "fails" if any(short) else "cannot be told"


def beside_paper(papers: float, beyond: Difference) -> str:
    """The paper's difference, and how far ours is above it.

    >>> beside_paper(1.8, Difference(-1.8, -3.6, 0.1, 0.101))
    'in the paper +1.8; ours minus that: -1.8 (-3.6 to +0.1), p = 0.101'
    """
    return f"in the paper {papers:+.1f}; ours minus that: {beyond}, p = {beyond.p:#.3g}"


def counts(gaps: Iterable[Difference]) -> str:
    """How many differences are above 0, level and below, and how many would be without a correction of their p-values.

    >>> counts([Difference(2.0, 1.0, 3.0, 0.001), Difference(0.1, -1.0, 1.2, 0.8)])
    'Above in 1 of 2 comparisons, level in 1, below in 0.'
    >>> counts([Difference(2.0, 1.0, 3.0, 0.2)])
    "Above in 0 of 1 comparisons, level in 1, below in 0 (without Holm's correction above in 1, below in 0)."
    """
    gaps = list(gaps)
    found = [gap.verdict for gap in gaps]
    above, below = found.count("above"), found.count("below")
    by_interval = sum(gap.low > 0 for gap in gaps), sum(gap.high < 0 for gap in gaps)
    plain = "" if by_interval == (above, below) else " (without Holm's correction above in {}, below in {})"
    level = len(found) - above - below
    return (
        f"Above in {above} of {len(found)} comparisons, level in {level}, below in {below}{plain.format(*by_interval)}."
    )
