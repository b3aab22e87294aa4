"""What the true labels of a few tasks say about all: the size of every class, and how many labels are right."""

from __future__ import annotations

import numpy as np
from markupsafe import Markup

from conal.metrics.rates import MIN_OF_ANNOTATOR, GoldRates
from conal.report.evidence import MIN_GOLD, Evidence, Plain
from conal.report.findings import Finding, Findings, register
from conal.report.wording import called, count, interval, percent, points, short

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

    *GoldRatesSection*: Rates of all tasks that have labels. ``cleaned`` is the share of the cleaned labels that are
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


def measured_lead(section: Plain) -> Markup:
    """What was measured, and whether one annotator, or the vote, is as good as the inferred labels."""
    cleaned, majority = section["cleaned"], section.get("majority")
    shares = [("inferred labels", cleaned), ("majority votes", majority), ("annotators' labels", section["crowd"])]
    measured = [
        Markup("<b>{}</b> of the {} ({})").format(percent(rate["value"]), name, interval(rate["low"], rate["high"]))
        for name, rate in shares
        if rate is not None
    ]
    lead = Markup("<b>Measured by {:,} true labels:</b> {} and {} are right").format(
        section["n_gold"], Markup(", ").join(measured[:-1]), measured[-1]
    )
    claimed = percent(section["claimed"])
    if cleaned is None:
        return lead + Markup(
            ". The inferred labels were not measured, because none were inferred without these true labels; the model "
            "believes that {} of them are right."
        ).format(claimed)
    return lead + Markup("; the model believed {} of the inferred labels. ").format(claimed) + _rivals(section)


def _rivals(section: Plain) -> Markup:
    """The best of the others beside the inferred labels; earlier reports do not compare them."""
    if "comparison" not in section or "above_majority" not in section:
        return Markup("")
    found, others = section["comparison"], [each for each in section["annotators"] if "above" in each]
    if not found["as_good"]:
        vote, people = section["above_majority"], count(found["compared"] - 1, "annotator", "annotators")
        return Markup(
            "They are above the majority vote (difference {} points){}, reliably so above {:,} of these {:,}."
        ).format(
            points(vote["low"], vote["high"]),
            f" and {people} with {MIN_OF_ANNOTATOR} true labels or more" if others else "",
            found["worse"],
            found["compared"],
        )
    above = [("The majority vote", section["above_majority"], section["n_gold"])]
    above += [(f"{short(called(each))} alone", each["above"], each["n_gold"]) for each in others]
    name, best, n_gold = min(above, key=lambda each: each[1]["value"])
    more = found["as_good"] - 1
    return Markup(
        "<b>{}</b>{} is {}: right on {}, the inferred labels on {} of the same tasks (by {:,} true labels; difference "
        "{} points, with allowance for picking the best of {:,})."
    ).format(
        name,
        f" (and {more:,} more)" if more else "",
        "better than the inferred labels" if best["high"] < 0 else "as good as the inferred labels or better",
        percent(best["share"] - best["value"]),
        percent(best["share"]),
        n_gold,
        points(-best["high"], -best["low"]),
        found["compared"],
    )


def _annotators(evidence: Evidence, found: GoldRates) -> list[Plain]:
    """Annotators with enough labels on judged tasks, the best beside the inferred labels of the same tasks first."""
    if evidence.privacy.hides_names:  # a few labels and their tasks would tell who somebody is
        return []
    rates = found.annotators
    listed = [int(r) for r in np.flatnonzero(evidence.visible_annotators) if rates[r].n_gold >= MIN_OF_ANNOTATOR]
    rows: list[Plain] = []
    rank = (
        [-each.value for each in rates]
        if evidence.unseen_posterior is None
        else [each.value for each in found.above_annotators]
    )
    for r in sorted(listed, key=lambda r: (rank[r], r))[:MAX_ANNOTATORS]:
        row: Plain = {"worker": evidence.annotator_names[r], **rates[r]._asdict()}
        if evidence.unseen_posterior is not None:
            row["above"] = found.above_annotators[r]._asdict()
        rows.append(row)
    return rows
