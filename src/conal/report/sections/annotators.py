"""The annotators' quality with intervals, whether their mistakes are those of others, and who declines to answer."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from markupsafe import Markup

from conal._arrays import FloatArray, IntArray
from conal.aggregation.base import abstention_rates
from conal.data.encoding import name_column
from conal.io.model_folder import ColumnKind, annotator_table, mean_by_annotator, where_labelled
from conal.metrics.rates import MIN_OF_ANNOTATOR
from conal.report.evidence import BELIEF, MEASURED, Evidence, Plain, Report, plain, plain_names
from conal.report.findings import Finding, Findings, register
from conal.report.intervals import Estimate
from conal.report.sections.common_confusion import shown_classes
from conal.report.wording import called, count, first_of, interval, percent, short

MAX_SHOWN = 300
"""Annotators in the report."""
MAX_NAMED = 3
"""Annotators who are named in a sentence."""
MAX_CELLS = 60_000
"""Cells of all annotators' matrices in the report together."""
MAX_DOUBTFUL = 6
"""Labels of one annotator that are listed as doubtful."""
ENOUGH_MISTAKES = 5.0
"""Minimum number of expected mistakes to compare them with those of others."""
QUALITY = ("annotator_quality", "annotator_quality_low", "annotator_quality_high")
INDEPENDENT = "if annotators err independently"
"""What intervals of beliefs assume."""
THIN = 3.0
"""Tasks of a class below which the page calls an annotator's row unreliable."""


@register("annotators")
class Annotators(Finding):
    """Quality, expected mistakes and matrices of the annotators.

    *DoubtfulLabel*: A label that an annotator gave and that is probably wrong, and the label that is probably right.
    Keys: ``text`` (not always), ``link`` (not always), ``picture`` (not always), ``picture_link`` (not always),
    ``task``, ``given``, ``given_probability``, ``label``, ``probability``.

    *AnnotatorRow*: A row of ``annotators.csv``, and the annotator's matrix if the report has room for it. Keys:
    ``worker``, ``num_examples_labeled``, ``annotator_quality``, ``agreement_with_consensus``,
    ``num_examples_refused`` (not always), ``common_noise_rate`` (not always), ``annotator_quality_low``,
    ``annotator_quality_high``, ``quality_basis`` (not always), ``worst_class``, ``co_direction`` (not always),
    ``expected_mistakes``, ``labels_changed_without`` (not always), ``matrix`` (not always), ``classes_met`` (not
    always), ``name`` (not always), ``doubtful`` (not always).

    *AnnotatorSection*: How many annotators there are, and those with the most mistakes above the crowd's, reliable
    ones first. ``hidden`` annotators have fewer labels than ``hide_below`` and are in no list, where names are
    hidden. Keys: ``total``, ``rows``, ``hidden`` (not always), ``hide_below`` (not always).
    """

    rank = 30
    table = "annotators.csv"
    holds: ClassVar[Mapping[str, ColumnKind]] = {
        "worker": "annotator",
        "num_examples_labeled": "count",
        "num_examples_refused": "count",
        "worst_class": "class",
        "labels_changed_without": "count",
    }

    def section(self, findings: Findings) -> Plain:
        """The annotators with the most mistakes above the crowd's, and as many matrices of theirs as fit."""
        evidence, table = findings.evidence, findings.columns(self.name)
        shown = shown_classes(evidence)
        order = _worst_first(table, findings.section("crowd"))[:MAX_SHOWN]
        rows: list[Plain] = [
            {name: None if value is None else plain(value) for name, value in row.items()}
            for row in table.take(order).to_pylist()
        ]
        people = np.flatnonzero(evidence.visible_annotators)[order]
        for row, name in zip(rows, plain_names(evidence.annotations.annotator_ids[people]), strict=True):
            row["worker"] = name
        with_matrix = people[: MAX_CELLS // max(len(shown) ** 2, 1)]
        for row, r in zip(rows, with_matrix.tolist(), strict=False):
            row["matrix"], row["classes_met"] = _matrix(evidence, r, shown)
        if not evidence.privacy.hides_names:  # a list of somebody's tasks tells who it is
            for row, labels in zip(rows, _doubtful(evidence, people), strict=True):
                row["doubtful"] = labels
        found: Plain = {"total": evidence.annotations.n_annotators, "rows": rows}
        if evidence.privacy.hides_names:
            found |= {"hidden": int((~evidence.visible_annotators).sum()), "hide_below": evidence.privacy.hide_below}
        return found

    def columns(self, findings: Findings) -> pa.Table:
        """One row per annotator."""
        return annotators_table(findings.evidence, findings.intervals.quality)

    def headlines(self, section: Plain, report: Report) -> Iterator[Markup]:
        """Who is worse than the crowd."""
        known = [row for row in section["rows"] if row["annotator_quality"] is not None]
        if len(known) >= 2:
            yield _worse_than(report["crowd"], worse_annotators(known, report["crowd"]))


class Above(NamedTuple):
    """Mistakes of an annotator beyond those that the crowd's share gives for as many labels, with the interval."""

    value: float
    low: float
    high: float


def usual_share(row: Mapping[str, Any], crowd: Plain) -> float | None:
    """The crowd's share of right labels on the same basis as the annotator's: measured, or believed."""
    overall = crowd["expected_label_accuracy"]
    return overall if row.get("quality_basis") == MEASURED else crowd.get("believed_label_accuracy", overall)


def mistakes_above(row: Plain, crowd: Plain) -> Above | None:
    """Mistakes above the crowd's; None without an interval.

    >>> above = mistakes_above({"num_examples_labeled": 100, "annotator_quality": 0.5,
    ...     "annotator_quality_low": 0.4, "annotator_quality_high": 0.6}, {"expected_label_accuracy": 0.75})
    >>> [round(each, 6) for each in above]
    [25.0, 15.0, 35.0]
    """
    quality, low, high = (row[name] for name in QUALITY)
    overall = usual_share(row, crowd)
    if overall is None or quality is None or low is None or high is None:
        return None
    return Above(*(row["num_examples_labeled"] * (overall - share) for share in (quality, high, low)))


def worse_annotators(rows: list[Plain], crowd: Plain) -> list[Plain]:
    """Those who reliably make more mistakes than the crowd, most above it first: the one list of the whole page."""
    above = [(mistakes_above(row, crowd), row) for row in rows]
    worse = [(found.value, row) for found, row in above if found is not None and found.low > 0]
    return [row for _, row in sorted(worse, key=lambda pair: -pair[0])]


def shown_digits(worse: list[Plain], crowd: Plain) -> int:
    """Decimals that let readers see that each interval is below the crowd's share: one, where whole percents do not.

    >>> row = {"annotator_quality_high": 0.763}
    >>> [shown_digits([row], {"expected_label_accuracy": usual}) for usual in (0.764, 0.8)]
    [1, 0]
    """
    ends = [(row["annotator_quality_high"] or 0.0, usual_share(row, crowd) or 0.0) for row in worse]
    return int(any(math.ceil(round(100 * high, 6)) >= round(100 * usual) for high, usual in ends))


def _worse_than(crowd: Plain, worse: list[Plain]) -> Markup:
    """Who is reliably worse than the crowd; many are counted."""
    if not worse:
        return Markup("No annotator is reliably worse than the crowd average.")
    verb = "is" if len(worse) == 1 else "are"
    number, digits = count(len(worse), "annotator", "annotators"), shown_digits(worse, crowd)
    named = [
        Markup("<b>{}</b> ({} of {} right, {})").format(
            short(called(row)),
            percent(row["annotator_quality"], digits),
            count(row["num_examples_labeled"], "label", "labels"),
            interval(row["annotator_quality_low"], row["annotator_quality_high"], digits),
        )
        for row in worse
    ]
    usual = {percent(usual_share(row, crowd), digits) for row in worse}
    return Markup("<b>{}</b> {} reliably worse than the crowd average{}{}: {}.").format(
        number,
        verb,
        f" of {usual.pop()}" if len(usual) == 1 else "",
        _said_of(worse),
        Markup(first_of(named, MAX_NAMED)),  # noqa: S704 - the names are escaped
    )


def _said_of(worse: list[Plain]) -> str:
    """What their figures rest on, if that is not measured."""
    believed = sum(row.get("quality_basis") != MEASURED for row in worse)
    if not believed:
        return ""
    return f", {'' if believed == len(worse) else 'partly '}as the model believes and {INDEPENDENT}"


def mostly_measured(rows: list[Plain]) -> bool:
    """Whether most qualities were measured, so that the measured one of all labels is what to compare with."""
    known = [row for row in rows if row["annotator_quality"] is not None]
    return bool(2 * sum(row.get("quality_basis") == MEASURED for row in known) > len(known))


def worst_classes(evidence: Evidence) -> IntArray:
    """(R,) the class that an annotator gets right least often, of those met at least once; -1 if there is none."""
    right = np.diagonal(evidence.confusion_of(np.arange(len(evidence.individual))), axis1=1, axis2=2)
    met = evidence.classes_met >= 1
    return np.where(met.any(1), np.where(met, right, np.inf).argmin(1), -1)


def _directions(evidence: Evidence) -> FloatArray:
    """(R,) co-direction of an annotator's mistakes with those of the others; NaN if there are too few mistakes."""
    found = evidence.co_direction
    return np.where(found.mistakes >= ENOUGH_MISTAKES, found.by_annotator, np.nan)


def annotators_table(evidence: Evidence, quality: Estimate) -> pa.Table:
    """One row per annotator, with cleanlab's column names; empty cells where nothing is known.

    Quality is the share of the annotator's labels that are right: measured, where enough of the annotator's tasks have
    a true label, and otherwise the model's belief, by draws of the true labels.
    """
    crowd = evidence.annotations
    quality, basis = measured_quality(evidence, quality)
    table = annotator_table(crowd, where_labelled(crowd, quality.value), evidence.inferred)
    if evidence.omega is not None:
        table = table.append_column("common_noise_rate", mean_by_annotator(crowd, evidence.omega))
    worst, direction = worst_classes(evidence), _directions(evidence)
    columns = {
        "annotator_quality_low": where_labelled(crowd, quality.low),
        "annotator_quality_high": where_labelled(crowd, quality.high),
        "quality_basis": where_labelled(crowd, np.where(basis, MEASURED, BELIEF)),
        "worst_class": name_column(crowd.classes).take(pa.array(worst, mask=worst < 0)),
        "co_direction": pa.array(direction, mask=np.isnan(direction)),
        "expected_mistakes": where_labelled(crowd, crowd.labels_per_annotator() * (1 - quality.value)),
        "labels_changed_without": pa.array(evidence.left_out.changes()),
    }
    for name, column in columns.items():
        table = table.append_column(name, column)
    return _rounded(table, evidence) if evidence.privacy.hides_names else table


def measured_quality(evidence: Evidence, belief: Estimate) -> tuple[Estimate, npt.NDArray[np.bool_]]:
    """Beliefs replaced by what was measured, and of whom it was; nobody's, where names are hidden."""
    rates = [] if evidence.measured is None or evidence.privacy.hides_names else evidence.measured.annotators
    enough = np.array([rate.n_gold >= MIN_OF_ANNOTATOR for rate in rates] or np.zeros(len(belief.value)), dtype=bool)
    if not enough.any():
        return belief, enough
    found = np.array([rate[:3] for rate in rates]).T
    return Estimate(*(np.where(enough, new, old) for new, old in zip(found, belief, strict=True))), enough


def _rounded(table: pa.Table, evidence: Evidence) -> pa.Table:
    """Only visible annotators, with rounded figures; expected mistakes follow from the rounded ones."""
    privacy = evidence.privacy
    table = privacy.table(table, evidence.annotations.labels_per_annotator())
    labels = privacy.counts(table["num_examples_labeled"].to_numpy())
    quality = table["annotator_quality"].to_numpy(zero_copy_only=False).astype(float)
    columns = {"num_examples_labeled": labels, "expected_mistakes": privacy.shares(labels * (1 - quality))}
    for name in {"num_examples_refused", "labels_changed_without"} & set(table.column_names):
        columns[name] = privacy.counts(table[name].to_numpy())
    for name, column in columns.items():
        table = table.set_column(table.column_names.index(name), name, pa.array(column))
    return table


def _worst_first(table: pa.Table, crowd: Plain) -> IntArray:
    """Rows of the table: those reliably worse than the crowd, then the others, each by mistakes above the crowd's."""
    usual = [usual_share({"quality_basis": basis}, crowd) for basis in table["quality_basis"].to_pylist()]
    overall = np.array(usual, dtype=float)
    quality, high = (table[name].to_numpy(zero_copy_only=False).astype(float) for name in (QUALITY[0], QUALITY[2]))
    above = table["num_examples_labeled"].to_numpy() * (overall - quality)
    return np.lexsort((-np.nan_to_num(above, nan=-np.inf), ~(high < overall)))


def _matrix(evidence: Evidence, r: int, shown: IntArray) -> tuple[list[list[float]], list[float]]:
    """An annotator's matrix, and labelled tasks of each class; where names are hidden, whether there are enough."""
    met = evidence.classes_met[r][shown]
    if evidence.privacy.hides_names:
        met = np.where(met < THIN, 0.0, THIN)
    return evidence.privacy.shares(evidence.individual[r][np.ix_(shown, shown)]).tolist(), met.tolist()


def _doubtful(evidence: Evidence, people: IntArray) -> Iterator[list[Plain]]:
    """The labels of each annotator that are most probably wrong, if they rather are than not."""
    crowd, right = evidence.annotations, evidence.expected_right
    doubted = np.flatnonzero(right < 0.5)
    order = doubted[np.lexsort((right[doubted], crowd.annotators[doubted]))]
    starts = np.searchsorted(crowd.annotators[order], people)
    ends = np.searchsorted(crowd.annotators[order], people, side="right")
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        yield [_doubtful_label(evidence, int(k)) for k in order[start : min(end, start + MAX_DOUBTFUL)]]


def _doubtful_label(evidence: Evidence, k: int) -> Plain:
    i = int(evidence.annotations.tasks[k])
    return {
        **evidence.task_row(i),
        "given": evidence.class_names[evidence.annotations.labels[k]],
        "given_probability": float(evidence.expected_right[k]),
        "label": evidence.class_names[evidence.inferred[i]],
        "probability": float(evidence.posterior[i].max()),
    }


# Abstentions: who declines how often, and on which classes.


@register("refusals")
class Refusals(Finding):
    """How often annotators decline to answer, and on which classes; only where refused answers were listed.

    *RefusalRow*: An annotator who declined, and the class on whose tasks most often, with the rate there. Keys:
    ``annotator``, ``asked``, ``refused``, ``refused_share``, ``most_often_on``, ``there_share``.

    *RefusalSection*: How many answers were refused, in all and by whom. Keys: ``total``, ``refused_share``, ``text``,
    ``rows``.
    """

    title = "Refused answers"
    rank = 36

    def applies(self, evidence: Evidence) -> bool:
        """Whether somebody declined."""
        refused = evidence.annotations.abstentions
        return refused is not None and refused.n_annotations > 0

    def section(self, findings: Findings) -> Plain:
        """One row per annotator who declined and may be listed, the most frequent first."""
        evidence = findings.evidence
        crowd, privacy = evidence.annotations, evidence.privacy
        assert crowd.abstentions is not None  # noqa: S101 - it applies
        declined = crowd.abstentions.labels_per_annotator()
        asked = declined + crowd.labels_per_annotator()
        listed = np.flatnonzero((declined > 0) & evidence.visible_annotators)
        order = listed[np.argsort(-declined[listed], kind="stable")][:MAX_SHOWN]
        rates = abstention_rates(crowd, evidence.posterior)[order]
        people = zip(
            plain_names(crowd.annotator_ids[order]),
            privacy.counts(asked[order]).tolist(),
            privacy.counts(declined[order]).tolist(),
            rates.argmax(1).tolist(),
            privacy.shares(rates.max(1)).tolist(),
            strict=True,
        )
        rows = [
            {
                "annotator": name,
                "asked": n,
                "refused": refused,
                "refused_share": refused / max(n, 1),
                "most_often_on": evidence.class_names[most],
                "there_share": share,
            }
            for name, n, refused, most, share in people
        ]
        total = int(declined.sum())
        text = (
            "Rates by class are drawn to the annotator's overall rate where the annotator met few tasks of a class. "
            "Who declines some classes more often than others says something about the truth by declining; aggregators "
            "that infer probabilities use that, classifiers do not."
        )
        return {"total": total, "refused_share": total / max(int(asked.sum()), 1), "text": text, "rows": rows}

    def headlines(self, section: Plain, report: Report) -> Iterator[Markup]:
        """How many answers were refused, and by whom most often."""
        most = ""
        for row in section["rows"][:1]:
            most = f", most by {short(row['annotator'])}: {count(row['refused'])} of {count(row['asked'])}"
        verb = "was" if section["total"] == 1 else "were"
        yield Markup("<b>{}</b> ({}) {} refused{}.").format(
            count(section["total"], "answer", "answers"), percent(section["refused_share"], 1), verb, most
        )
