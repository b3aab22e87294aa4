"""Common confusions: the learned matrix, and the most frequent mistakes with intervals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa
from markupsafe import Markup

from conal._arrays import FloatArray, IntArray
from conal.data.encoding import Names, name_column
from conal.io.model_folder import ColumnKind
from conal.report.evidence import Evidence, Plain, Report
from conal.report.findings import Finding, Findings, register
from conal.report.intervals import Intervals
from conal.report.wording import count, interval, percent, short

MAX_PAIRS = 20
MAX_CLASSES = 25
"""A larger matrix cannot be read; of more classes, those with the most mistakes are shown."""


@register("common_confusion")
class CommonConfusion(Finding):
    """The common confusion of all annotators, and the most frequent mistakes.

    *ConfusedPair*: A mistake: tasks of class ``true`` that were labelled ``observed``. Keys: ``true``, ``observed``,
    ``share``, ``low``, ``high``, ``learned``, ``expected_count``, ``annotators_who_made_it``,
    ``annotators_who_met_it``.

    *ConfusionSection*: The common confusion as learned, for the classes that are shown, and the most frequent
    mistakes. Keys: ``classes_shown``, ``matrix``, ``pairs``, ``meaning`` (not always).
    """

    rank = 20
    table = "common_confusion.csv"

    def section(self, findings: Findings) -> Plain:
        """The matrix and the pairs."""
        evidence, shown = findings.evidence, shown_classes(findings.evidence)
        return {
            "classes_shown": shown.tolist(),
            "matrix": evidence.common[np.ix_(shown, shown)].tolist(),
            "pairs": _pairs(evidence, findings.intervals),
            "meaning": evidence.common_meaning,
        }

    def columns(self, findings: Findings) -> pa.Table:
        """Rows are true classes, columns observed ones; the first column names the true class."""
        classes = findings.evidence.annotations.classes
        observed = {str(name): findings.evidence.common[:, k] for k, name in enumerate(classes.tolist())}
        return pa.table({_true_column(classes): name_column(classes), **observed})

    def column_kinds(self, classes: Names) -> Mapping[str, ColumnKind]:
        """The first column contains names."""
        return {_true_column(classes): "class"}

    def headlines(self, section: Plain, report: Report) -> Iterator[Markup]:
        """The most frequent mistake, unless the next steps name it."""
        first = next((pair for pair in section["pairs"] if pair["annotators_who_made_it"]), None)
        if first is None:
            yield Markup("No two classes are confused often.")
        if first is None or _is_advised(first, report):
            return
        yield Markup(
            "Most frequent confusion, by inferred labels: <b>{}</b> is labelled <b>{}</b> in {} of its labels ({} "
            "interval {}), by {} of the {} who labelled such tasks."
        ).format(
            short(first["true"]),
            short(first["observed"]),
            percent(first["share"]),
            percent(report["confidence"]),
            interval(first["low"], first["high"]),
            first["annotators_who_made_it"],
            count(first["annotators_who_met_it"], "annotator", "annotators"),
        )


def _is_advised(pair: Plain, report: Report) -> bool:
    advised = report["next_steps"]["rewrite"] if "next_steps" in report else []
    return any({pair["true"], pair["observed"]} == {one["true"], one["observed"]} for one in advised)


def slips_of(shares: FloatArray) -> FloatArray:
    r"""(C,) :math:`\beta_c`, the share of slips of class c to each other class, given the shares of labels.

    It is the (lower) median of row c off its diagonal: slips spread evenly over the other classes. With two classes
    there is only one other class, and slips are taken to be equally frequent in both: the smaller of the two shares.

    >>> slips_of(np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.0, 0.0, 1.0]])).tolist()
    [0.1, 0.1, 0.0]
    """
    C = len(shares)
    if C == 1:  # no other class to confuse it with
        return np.ones(1)
    off = np.sort(shares[~np.eye(C, dtype=bool)].reshape(C, C - 1), axis=1)
    if C == 2:
        return np.full(C, off.min())
    return np.asarray(off[:, (C - 2) // 2])


def shown_classes(evidence: Evidence) -> IntArray:
    """Codes of the classes that matrices show: all, or those involved in the most mistakes."""
    C = len(evidence.common)
    if C <= MAX_CLASSES:
        return np.arange(C)
    mistakes = evidence.posterior.T @ evidence.votes
    np.fill_diagonal(mistakes, 0)
    return np.sort(np.argsort(-(mistakes.sum(0) + mistakes.sum(1)), kind="stable")[:MAX_CLASSES])


def _pairs(evidence: Evidence, found: Intervals) -> list[Plain]:
    """Largest shares first; only mistakes that are expected to have happened at least once."""
    (shares, low, high), counts = found.confusion, found.counts
    mistakes = np.where((counts >= 1) & ~np.eye(len(shares), dtype=bool), shares, 0.0)
    order = np.argsort(-mistakes, axis=None, kind="stable")[:MAX_PAIRS]
    names = evidence.class_names
    pairs: list[Plain] = []
    for true, observed in (divmod(int(k), len(shares)) for k in order if mistakes.flat[k] > 0):
        made, met = evidence.expected_counts[:, true, observed], evidence.classes_met[:, true]
        pairs.append(
            {
                "true": names[true],
                "observed": names[observed],
                "share": float(shares[true, observed]),
                "low": float(low[true, observed]),
                "high": float(high[true, observed]),
                "learned": float(evidence.common[true, observed]),
                "expected_count": float(counts[true, observed]),
                "annotators_who_made_it": int((made >= 0.5).sum()),  # at least once, rather than not
                "annotators_who_met_it": int((met >= 0.5).sum()),
            }
        )
    return pairs


def _true_column(classes: Names) -> str:
    """The name of the first column, different from that of every class."""
    taken = {str(name) for name in classes.tolist()}
    column = "true"
    while column in taken:
        column += "_"
    return column
