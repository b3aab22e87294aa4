"""What to do next: instructions to rewrite, annotators to look at, tasks to label again, and what more labels bring."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import bdtrc

from conal._arrays import FloatArray
from conal.report.evidence import BELIEF, MEASURED, Evidence, Plain
from conal.report.findings import Finding, Findings, register
from conal.report.sections.annotators import QUALITY, worse_annotators
from conal.report.sections.common_confusion import slips_of

MAX_REWRITES = 3
MAX_PEOPLE = 5
LEAST_EXCESS = 0.05
"""Share of a class's labels, beyond slips, that a confusion must have to be worth an instruction."""
FEWEST_MAKERS = 3
"""Annotators: what two people do is a matter for these two."""
MOST_OF = 0.5
"""Share of the annotators that would be seen to make a confusion if all were equally prone to it."""
NO_INFORMATION = 0.1
"""See :func:`information`; the answers of careful annotators have far more."""
BULK = 0.8
"""Share of all that the queue can gain, which its first tasks are said to bring."""


@register("next_steps")
class NextSteps(Finding):
    """Advice from the numbers; the page shows it first.

    *Rewrite*: Two classes that many annotators confuse: ``true`` is labelled ``observed``. ``back_share`` is that of
    the confusion the other way round, if many make that one too. Keys: ``true``, ``observed``, ``share``,
    ``back_share``, ``expected_count``, ``annotators_who_make_it``, ``annotators_who_met_it``.

    *Person*: An annotator who is reliably worse than the crowd. ``place`` is the row in the annotators' section.
    ``true`` and ``observed`` are the most frequent mistake. Keys: ``worker``, ``name`` (not always), ``place``,
    ``num_examples_labeled``, ``annotator_quality``, ``annotator_quality_low``, ``annotator_quality_high``,
    ``quality_basis`` (not always), ``guesses``, ``true`` (not always), ``observed`` (not always).

    *Relabelling*: How many tasks of the queue bring most of what it can bring. Keys: ``tasks``, ``corrects``,
    ``queue``.

    *MoreLabels*: How many inferred labels are wrong, and how many are after one more answer on every task of the
    queue. ``basis`` says whether ``wrong`` was measured by true labels; what answers correct is the model's belief.
    Keys: ``tasks``, ``wrong``, ``wrong_after``, ``basis`` (not always).

    *NextStepsSection*: The four answers; empty lists and None where there is nothing to do. Keys: ``rewrite``,
    ``people``, ``relabel``, ``more_labels``.
    """

    rank = 6

    def section(self, findings: Findings) -> Plain:
        """The four answers."""
        evidence = findings.evidence
        shares = findings.intervals.confusion.value
        rewrite = _rewrites(evidence, shares, findings.section("common_confusion")["pairs"])
        gains = [row["expected_gain"] for row in findings.section("suggestions")["rows"]]
        return {
            "rewrite": rewrite,
            "people": _people(findings, findings.section("annotators")["rows"], rewrite),
            "relabel": _relabelling(gains),
            "more_labels": _more_labels(evidence, gains),
        }


def _rewrites(evidence: Evidence, shares: FloatArray, pairs: list[Plain]) -> list[Plain]:
    """The confusions that many annotators make, those with the most wrong labels first; each pair of classes once.

    Of two classes there are none: every mistake confuses them, so that nothing tells a confusion from slips.
    """
    if evidence.annotations.n_classes < 3:
        return []
    code = {name: c for c, name in enumerate(evidence.class_names)}
    slips = slips_of(shares)
    found: dict[tuple[int, int], Plain] = {}
    for pair in sorted(pairs, key=lambda pair: -pair["expected_count"]):
        true, observed = code[pair["true"]], code[pair["observed"]]
        if pair["share"] - slips[true] < LEAST_EXCESS or pair["low"] <= slips[true]:
            continue
        who, expected = _makers(evidence, true, observed, pair["share"], slips[true])
        if who < max(FEWEST_MAKERS, MOST_OF * expected):
            continue
        if (observed, true) in found:
            found[observed, true]["back_share"] = pair["share"]
            continue
        found[true, observed] = {name: pair[name] for name in ("true", "observed", "share", "expected_count")} | {
            "back_share": None,
            "annotators_who_make_it": pair["annotators_who_made_it"],
            "annotators_who_met_it": pair["annotators_who_met_it"],
        }
    return list(found.values())[:MAX_REWRITES]


def _makers(evidence: Evidence, true: int, observed: int, share: float, slips: float) -> tuple[int, float]:
    r"""How many annotators often make a confusion, and how many would if all were alike.

    An annotator who met n tasks of the class makes the confusion with at least :math:`\max(1, n (\kappa + \beta) / 2)`
    of them, half-way between slips and the crowd's share. If all had the crowd's share, the binomial distribution says
    how many would: few, where n is small.
    """
    made, met = evidence.expected_counts[:, true, observed], evidence.classes_met[:, true]
    least = np.maximum(0.5, met * (share + slips) / 2)
    n = np.round(met[met >= 0.5])
    expected = bdtrc(np.maximum(1, np.ceil(n * (share + slips) / 2)) - 1, n.astype(np.int64), share)
    return int((made >= least).sum()), float(expected.sum())


def _people(findings: Findings, rows: list[Plain], rewrite: list[Plain]) -> list[Plain]:
    """The first of those who are reliably worse than the crowd, in the order of the annotators' section."""
    evidence, crowd = findings.evidence, findings.section("crowd")
    number = {name: r for r, name in enumerate(evidence.annotator_names)}
    place = {row["worker"]: k for k, row in enumerate(rows)}
    found: list[Plain] = []
    for row in worse_annotators(rows, crowd)[:MAX_PEOPLE]:
        r = number[row["worker"]]
        person: Plain = {name: row[name] for name in ("worker", "num_examples_labeled", *QUALITY, "quality_basis")}
        person |= {"place": place[row["worker"]], "guesses": bool(information(evidence, r) < NO_INFORMATION)}
        if not evidence.privacy.hides_names and not person["guesses"]:
            person.update(_main_mistake(evidence, r, rewrite))
        found.append(person)
    return found


def information(evidence: Evidence, annotator: int) -> float:
    r"""How much an annotator's answers depend on the true class, from 0 for guesses to 1 for right answers.

    .. math::
        \sum_c w_c \, \tfrac12 \sum_l |\mu_{cl} - \bar\mu_l|, \qquad \bar\mu = \sum_c w_c \mu_c

    with the annotator's confusion :math:`\mu` and the shares :math:`w` of the classes among the tasks labelled,
    divided by what right answers have.
    """
    met = evidence.classes_met[annotator]
    shares = met / max(met.sum(), 1e-300)
    rows = evidence.confusion_of(np.array([annotator]))[0]
    mean = shares @ rows
    most = float((shares * (1 - shares)).sum())
    return float((shares * np.abs(rows - mean).sum(1)).sum() / 2 / most) if most > 0 else 1.0


def _main_mistake(evidence: Evidence, annotator: int, rewrite: list[Plain]) -> dict[str, Any]:
    """The confusion that an annotator makes most often, beside those that many make, if it happened a few times."""
    names, counts = evidence.class_names, evidence.expected_counts[annotator].copy()
    np.fill_diagonal(counts, 0.0)
    for pair in rewrite:
        true, observed = names.index(pair["true"]), names.index(pair["observed"])
        counts[true, observed] = 0.0
        if pair["back_share"] is not None:
            counts[observed, true] = 0.0
    true, observed = divmod(int(counts.argmax()), len(names))
    return {"true": names[true], "observed": names[observed]} if counts[true, observed] >= 2 else {}


def _relabelling(gains: list[float]) -> Plain | None:
    if not gains:
        return None
    sums = np.cumsum(gains)
    first = min(int(np.searchsorted(sums, BULK * sums[-1] - 1e-12)) + 1, len(gains))
    return {"tasks": first, "corrects": float(sums[first - 1]), "queue": len(gains)}


def _more_labels(evidence: Evidence, gains: list[float]) -> Plain | None:
    tasks = int(evidence.informed.sum())
    if not tasks:
        return None
    wrong, basis = float((1 - evidence.posterior[evidence.informed].max(1)).sum()), BELIEF
    if evidence.inferred_rate is not None:
        tasks, basis = int((evidence.annotations.labels_per_task() > 0).sum()), MEASURED
        wrong = tasks * (1 - evidence.inferred_rate.value)
    return {"tasks": tasks, "wrong": wrong, "wrong_after": max(wrong - sum(gains), 0.0), "basis": basis}
