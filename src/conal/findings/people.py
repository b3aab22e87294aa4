"""Whom to trust: annotators' quality with intervals, and how common or individual their mistakes are."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from conal.findings.common_confusion import label_shares
from conal.findings.evidence import Evidence, plain, plain_names
from conal.findings.intervals import Interval
from conal.io.results import annotator_table, mean_by_annotator, name_column, where_labelled

__all__ = [
    "annotators_table",
    "common_column",
    "common_mistake_share",
    "direction",
    "expected_accuracy",
    "people_findings",
    "quality_table",
]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

MAX_SHOWN = 300
MAX_CELLS = 60_000
"""Cells of all annotators' matrices together."""
ENOUGH_MISTAKES = 5.0
"""Of fewer expected mistakes nobody can say whether they are common."""
CHUNK = 2_000_000
"""Cells of annotators' matrices that are worked on at a time."""


def expected_accuracy(evidence: Evidence) -> FloatArray:
    r"""(n_annotations,) P(right) by the learned confusion.

    .. math::
        \sum_c q_i(c) \, [\omega \pi^g + (1 - \omega) \pi^r]_{cc}
    """
    crowd = evidence.annotations
    share = np.zeros(crowd.n_annotations) if evidence.omega is None else evidence.omega
    individual = np.diagonal(evidence.individual, axis1=1, axis2=2)[crowd.annotators]
    right = share[:, None] * np.diagonal(evidence.common) + (1 - share[:, None]) * individual
    return np.asarray((evidence.posterior[crowd.tasks] * right).sum(1))


def common_mistake_share(evidence: Evidence) -> FloatArray:
    r"""(R,) share of an annotator's mistakes that everybody's confusion explains; NaN where there are too few.

    .. math::
        \frac{\sum_c n_{rc} \sum_{l \ne c} \min(\mu^r_{cl}, \delta_{cl})}{\sum_c n_{rc} \sum_{l \ne c} \mu^r_{cl}}

    with the annotator's confusion :math:`\mu^r`, the direction :math:`\delta` of the crowd's mistakes
    (:func:`direction`), and :math:`n_{rc}` the expected number of tasks of class c that r labelled. Near one: the
    annotator's mistakes go where everybody's go. Near zero: they are his or her own, or mere slips, which may be as
    many with everybody but have no direction. Unlike omega, which says the same by the model and is hardly identified
    where it does not vary, this can be read off the data.
    """
    shares = direction(label_shares(evidence))
    R, C = evidence.classes_met.shape
    found = np.full(R, np.nan)
    off = ~np.eye(C, dtype=bool)
    step = max(1, CHUNK // (C * C))
    for start in range(0, R, step):
        some = np.arange(start, min(start + step, R))
        own = evidence.confusion_of(some) * off
        met = evidence.classes_met[some]
        mistakes = (met * own.sum(2)).sum(1)
        explained = (met * np.minimum(own, shares).sum(2)).sum(1)
        enough = mistakes >= ENOUGH_MISTAKES
        found[some[enough]] = explained[enough] / mistakes[enough]
    return found


def direction(shares: FloatArray) -> FloatArray:
    r"""(C, C) how much more often class c is called l than careless slips alone would have it.

    .. math:: \delta_{cl} = \max(\kappa_{cl} - \beta_c, 0)

    with the shares :math:`\kappa` of labels, and :math:`\beta_c` the (lower) median of row c off its diagonal: slips
    fall on all other classes alike. With two classes there is only one other, and slips are as frequent in both:
    :math:`\beta` is the smaller of the two shares.

    >>> direction(np.array([[0.7, 0.3], [0.1, 0.9]])).round(2).tolist()
    [[0.0, 0.2], [0.0, 0.0]]
    """
    C = len(shares)
    if C == 1:  # nothing to be mistaken for
        return np.zeros_like(shares)
    off = np.sort(shares[~np.eye(C, dtype=bool)].reshape(C, C - 1), axis=1)
    slips = np.full(C, off.min()) if C == 2 else off[:, (C - 2) // 2]
    found = np.maximum(shares - slips[:, None], 0.0)
    np.fill_diagonal(found, 0.0)
    return found


def worst_classes(evidence: Evidence) -> IntArray:
    """(R,) the class that an annotator gets right least, of those met at least once; -1 where there is none."""
    diagonal = np.diagonal(evidence.individual, axis1=1, axis2=2)
    share = evidence.common_share[:, None]
    right = share * np.diagonal(evidence.common) + (1 - share) * diagonal
    met = evidence.classes_met >= 1
    return np.where(met.any(1), np.where(met, right, np.inf).argmin(1), -1)


def quality_table(evidence: Evidence) -> pa.Table:
    """One row per annotator: labels given, quality, agreement with the inferred labels and, where it is known, omega.

    Quality is the probability of a right label by the learned confusion, averaged over the tasks that the annotator
    labelled. Cells of those without labels are empty.
    """
    crowd = evidence.annotations
    table = annotator_table(crowd, mean_by_annotator(crowd, expected_accuracy(evidence)), evidence.inferred)
    if evidence.omega is None:
        return table
    return table.append_column("common_noise_rate", mean_by_annotator(crowd, evidence.omega))


def common_column(evidence: Evidence) -> pa.Array:
    """The share of common mistakes; empty where there are too few."""
    common = common_mistake_share(evidence)
    return pa.array(common, mask=np.isnan(common))


def annotators_table(evidence: Evidence, interval: Interval) -> pa.Table:
    """One row per annotator, with cleanlab's names of columns; empty cells where nothing is known."""
    crowd, table = evidence.annotations, quality_table(evidence)
    values = table["annotator_quality"].to_numpy()
    worst = worst_classes(evidence)
    columns = {
        "annotator_quality_low": where_labelled(crowd, np.fmin(interval.low, values)),
        "annotator_quality_high": where_labelled(crowd, np.fmax(interval.high, values)),
        "worst_class": name_column(crowd.classes).take(pa.array(worst, mask=worst < 0)),
        "common_mistake_share": common_column(evidence),
        "expected_mistakes": where_labelled(crowd, crowd.labels_per_annotator() * (1 - values)),
    }
    for name, column in columns.items():
        table = table.append_column(name, column)
    return table


def people_findings(evidence: Evidence, table: pa.Table, shown_classes: IntArray) -> dict[str, Any]:
    """The annotators with the most expected mistakes, and the matrices of as many of them as a page can hold."""
    mistakes = table["expected_mistakes"].to_numpy(zero_copy_only=False)
    order = np.argsort(-np.nan_to_num(mistakes, nan=-1.0), kind="stable")[:MAX_SHOWN]
    rows = [{name: plain_or_none(value) for name, value in row.items()} for row in table.take(order).to_pylist()]
    for row, name in zip(rows, plain_names(evidence.annotations.annotator_ids[order]), strict=True):
        row["worker"] = name
    with_matrix = order[: MAX_CELLS // max(len(shown_classes) ** 2, 1)]
    cells = np.ix_(shown_classes, shown_classes)
    for row, r in zip(rows, with_matrix.tolist(), strict=False):
        row["matrix"] = evidence.individual[r][cells].tolist()
        row["classes_met"] = evidence.classes_met[r][shown_classes].tolist()
    return {"total": evidence.annotations.n_annotators, "rows": rows}


def plain_or_none(value: Any) -> Any:
    """A cell of a table as JSON has it."""
    return None if value is None else plain(value)
