"""What the true labels of a few tasks say about all: the size of every class, and how many labels are right."""

from __future__ import annotations

import numpy as np

from conal.metrics.rates import MIN_GOLD, MIN_OF_ANNOTATOR, GoldRates
from conal.report.evidence import Evidence, Plain
from conal.report.findings import Finding, Findings, register

MAX_ANNOTATORS = 50


@register("gold_rates")
class GoldRatesFinding(Finding):
    """Rates that were measured: predictions for all tasks, corrected where the truth is known.

    *RateFigure*: A share with its interval, and the number of random true labels that would give as narrow an
    interval. Keys: ``value``, ``low``, ``high``, ``n_gold``, ``n_effective``.

    *Above*: How far the share of right inferred labels is above another one of the same tasks, and ``share`` itself.
    The intervals of all such differences in a report hold together. Keys: ``value``, ``low``, ``high``, ``share``.

    *Comparison*: Of majority vote and annotators: how many were compared, are as good or better, and are reliably
    worse. Keys: ``compared``, ``as_good``, ``worse``.

    *ClassRate*: The share of one class. Keys: ``value``, ``low``, ``high``, ``n_gold``, ``n_effective``, ``true``.

    *AnnotatorRate*: The share of one annotator's labels that are right. Keys: ``value``, ``low``, ``high``,
    ``n_gold``, ``n_effective``, ``worker``, ``name`` (not always), ``above`` (not always).

    *GoldRatesSection*: Rates of all tasks that have labels. ``cleaned`` is the share of the inferred labels that are
    right, before true labels replace any, None where no fit judged them without these; ``claimed`` what the model
    says that it is, ``crowd`` the share of the crowd's labels, and ``majority`` that of the majority votes.
    ``design`` is "random", or "planned" if the true labels came with the probabilities by which their tasks were
    drawn. Keys: ``n_gold``, ``design``, ``cleaned``, ``claimed``, ``crowd``, ``by_class``, ``annotators``,
    ``majority`` (not always), ``above_majority`` (not always), ``comparison`` (not always).
    """

    rank = 8

    def applies(self, evidence: Evidence) -> bool:
        """Where enough true labels were supplied."""
        return int(evidence.judged.sum()) >= MIN_GOLD

    def section(self, findings: Findings) -> Plain:
        """All rates."""
        evidence = findings.evidence
        crowd, found = evidence.annotations, evidence.measured
        assert found is not None  # noqa: S101 - it applies
        labelled = crowd.labels_per_task() > 0
        judged = evidence.unseen_posterior is not None
        believed = (
            evidence.posterior[labelled & ~evidence.judged]
            if evidence.unseen_posterior is None
            else evidence.unseen_posterior[labelled]
        )
        section: Plain = {
            "n_gold": int(evidence.judged.sum()),
            "design": "random" if evidence.inclusion is None else "planned",
            "cleaned": found.cleaned._asdict() if judged else None,
            "claimed": float(believed.max(1).mean()) if len(believed) else 1.0,
            "crowd": found.crowd._asdict(),
            "by_class": [
                {"true": name, **rate._asdict()} for name, rate in zip(evidence.class_names, found.classes, strict=True)
            ],
            "annotators": _annotators(evidence, found),
            "majority": found.majority._asdict(),
        }
        if judged:
            above = [found.above_majority]
            if not evidence.privacy.hides_names:
                above += [each for each in found.above_annotators if np.isfinite(each.value)]
            section["above_majority"] = found.above_majority._asdict()
            section["comparison"] = {
                "compared": len(above),
                "as_good": sum(each.value <= 0 for each in above),
                "worse": sum(each.low > 0 for each in above),
            }
        return section


def _annotators(evidence: Evidence, found: GoldRates) -> list[Plain]:
    """Annotators with enough labels on judged tasks, the best beside the inferred labels of the same tasks first."""
    if evidence.privacy.hides_names:  # a few labels and their tasks would tell who somebody is
        return []
    rates, above = found.annotators, None if evidence.unseen_posterior is None else found.above_annotators
    listed = [r for r in np.flatnonzero(evidence.visible_annotators).tolist() if rates[r].n_gold >= MIN_OF_ANNOTATOR]
    listed.sort(key=lambda r: -rates[r].value if above is None else above[r].value)
    rows: list[Plain] = [{"worker": evidence.annotator_names[r], **rates[r]._asdict()} for r in listed[:MAX_ANNOTATORS]]
    if above is not None:
        for row, r in zip(rows, listed, strict=False):
            row["above"] = above[r]._asdict()
    return rows
