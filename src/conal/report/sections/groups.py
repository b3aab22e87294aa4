"""Groups of annotators: what everybody, a group or one of its members confuses; which models may replace people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from markupsafe import Markup
from scipy.special import betaincinv

from conal._arrays import FloatArray, IntArray
from conal.aggregation.group_confusion import Levels, levels_of
from conal.data.encoding import Names, encode
from conal.errors import InputError
from conal.metrics.replacement import replacement_test
from conal.report.evidence import Evidence, Plain, Report, plain, plain_names
from conal.report.findings import Finding, Findings, register
from conal.report.intervals import CONFIDENCE
from conal.report.sections.common_confusion import shown_classes
from conal.report.wording import percent, short

MAX_GROUPS = 30
MAX_PAIRS = 20
MOST_OF_EVERYBODY = 8
SURE = 2.5
"""Standard errors by which a group differs from the others."""
TINY = 1e-9
CONFUSED = 0.05
"""Share of labels from which on everybody confuses two classes."""
APART = 0.02
"""Mistakes that a group, or a member, makes more often than the others by less than this are not worth a row."""


class Grouped(NamedTuple):
    """The annotators who gave labels and whose group is known, with their groups and expected labels."""

    names: list[Any]
    annotators: IntArray
    codes: IntArray
    counts: FloatArray
    levels: Levels


@register("groups")
class Groups(Finding):
    """Confusion of the crowd, of its groups and of their members, each drawn to the one above.

    The matrices are those of ``group-confusion`` for the labels that were inferred, whatever the method. A mistake is
    listed for a group if the group and most of its members make it reliably more often than the other groups, and for
    an annotator if the interval of its share is above the share in the group.

    *Pair*: Tasks of class ``true`` that were labelled ``observed``: the share of their labels, and two ends of it.
    ``low`` to ``high`` are those of an interval; for everybody, those of the groups' shares. Keys: ``true``,
    ``observed``, ``share``, ``low``, ``high``.

    *GroupPair*: A mistake that a group makes more often than the ``others``. Keys: ``true``, ``observed``, ``share``,
    ``low``, ``high``, ``group``, ``others``.

    *OwnPair*: A mistake that an annotator makes more often than the own group. Keys: ``true``, ``observed``,
    ``share``, ``low``, ``high``, ``worker``, ``name`` (not always), ``group``, ``in_group``.

    *GroupRow*: A group: members, labels, and its matrix for the classes that are shown. ``agreement_with_people`` is
    the share of other people's labels of the same tasks that equal a label of the group: none where nobody is known
    to be a person. By inferred labels, a group that gave most labels would judge itself. Keys: ``group``,
    ``annotators``, ``labels``, ``agreement_with_people`` (not always), ``matrix``.

    *GroupsSection*: Confusion on three levels. Keys: ``rows``, ``everybody``, ``pairs``, ``own``.
    """

    rank = 26

    def applies(self, evidence: Evidence) -> bool:
        """Where there are a few groups."""
        return evidence.annotations.n_classes > 1 and 2 <= len(_members(evidence)[0]) <= MAX_GROUPS

    def section(self, findings: Findings) -> Plain:
        """The three levels."""
        evidence = findings.evidence
        found = _grouped(evidence)
        return {
            "rows": _rows(evidence, found),
            "everybody": _everybody(evidence, found),
            "pairs": _of_groups(evidence, found),
            "own": _of_members(evidence, found),
        }

    def headlines(self, section: Plain, report: Report) -> Iterator[Markup]:
        """What a group confuses more than the others do."""
        for pair in section["pairs"][:1]:
            yield Markup(
                "By the inferred labels, the group <b>{}</b> labels <b>{}</b> as <b>{}</b> in {} of its labels, others "
                "in {}."
            ).format(
                short(pair["group"], 30),
                short(pair["true"]),
                short(pair["observed"]),
                percent(pair["share"]),
                percent(pair["others"]),
            )


def _members(evidence: Evidence) -> tuple[list[Any], IntArray, IntArray]:
    """Names of the groups, the annotators with labels and a group, and the position of the group of each."""
    given = evidence.annotations.labels_per_annotator()
    groups = [None] * len(given) if evidence.groups is None else evidence.groups.tolist()
    people = [r for r, group in enumerate(groups) if group is not None and given[r]]
    codes, names = encode([groups[r] for r in people])
    return plain_names(names), np.array(people, dtype=np.int64), codes.astype(np.int64)


def _grouped(evidence: Evidence) -> Grouped:
    names, people, codes = _members(evidence)
    counts = evidence.expected_counts[people]
    return Grouped(names, people, codes, counts, levels_of(counts, codes))


def _rows(evidence: Evidence, found: Grouped) -> list[Plain]:
    """The largest groups first."""
    shown, given = shown_classes(evidence), evidence.annotations.labels_per_annotator()
    agreement = _agreement_with_people(evidence)
    rows: list[Plain] = []
    for k, name in enumerate(found.names):
        own = found.codes == k
        labels = evidence.privacy.counts(given[found.annotators[own]].sum())
        rows.append(
            {
                "group": name,
                "annotators": int(own.sum()),
                "labels": int(labels),
                "matrix": evidence.privacy.shares(found.levels.groups[k][np.ix_(shown, shown)], 4).tolist(),
            }
        )
        if agreement is not None:
            mine = agreement[np.isin(evidence.annotations.annotators, found.annotators[own])]
            known = mine[~np.isnan(mine)]
            rows[-1]["agreement_with_people"] = _share(evidence, float(known.mean())) if len(known) else None
    return sorted(rows, key=lambda row: (-row["annotators"], -row["labels"]))


def _agreement_with_people(evidence: Evidence) -> FloatArray | None:
    """(n_annotations,) share of other people's labels of the task that equal a label; NaN where there are none."""
    crowd = evidence.annotations
    if evidence.groups is None or not (people := people_among(evidence.groups)[crowd.annotators]).any():
        return None
    cells = crowd.tasks.astype(np.int64) * crowd.n_classes + crowd.labels
    equal = np.bincount(cells[people], minlength=crowd.n_tasks * crowd.n_classes)[cells] - people
    others = np.bincount(crowd.tasks[people], minlength=crowd.n_tasks)[crowd.tasks] - people
    return np.where(others > 0, equal / np.maximum(others, 1), np.nan)


def _everybody(evidence: Evidence, found: Grouped) -> list[Plain]:
    """Mistakes that no group is free of, the most frequent first."""
    matrices = found.levels.groups
    low, met = matrices.min(0), found.counts.sum((0, 2))[:, None] >= 1
    shares = matrices.mean(0), low, matrices.max(0)
    places = _worst(low[None], (met & (low >= CONFUSED))[None])[:MOST_OF_EVERYBODY]
    pairs = [_pair(evidence, true, observed, shares, (true, observed)) for _, true, observed in places]
    return sorted(pairs, key=lambda pair: -pair["share"])


def _of_groups(evidence: Evidence, found: Grouped) -> list[Plain]:
    """Mistakes that a group, and most of its members, make reliably more often than the others."""
    matrices, sizes = found.levels.groups, found.levels.independent[:, :, None] + 1.0
    low, high = _ends(matrices * sizes, sizes)
    others, spread = _others(found, matrices * (1 - matrices) / (sizes + 1))
    reliable = (matrices - others > np.maximum(APART, SURE * spread)) & _usual(found, others)
    return [
        {
            **_pair(evidence, *at[1:], (matrices, low, high), at),
            "group": found.names[at[0]],
            "others": _share(evidence, others[at]),
        }
        for at in _worst(matrices - others, reliable)
    ]


def _others(found: Grouped, variance: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(K, C, C) mean of the other groups' matrices by their labels, and the standard error of the distance from it."""
    K = len(found.names)
    weights = np.stack([found.counts[found.codes == k].sum((0, 2)) for k in range(K)]) + TINY
    shares = weights[None] * ~np.eye(K, dtype=bool)[:, :, None]
    shares /= shares.sum(1, keepdims=True)
    mean = np.einsum("kjc,jcl->kcl", shares, found.levels.groups)
    return mean, np.sqrt(variance + np.einsum("kjc,jcl->kcl", shares**2, variance))


def _usual(found: Grouped, others: FloatArray) -> npt.NDArray[np.bool_]:
    """(K, C, C) whether most members who met the class make the mistake more often than the others do."""
    met = found.counts.sum(-1)
    own = found.counts / np.maximum(met, TINY)[:, :, None]
    more = (own > others[found.codes]) & (met >= 1)[:, :, None]
    members = np.eye(len(found.names))[found.codes]
    made, all_met = np.einsum("rk,rcl->kcl", members, more), members.T @ (met >= 1)
    return np.asarray((2 * made > all_met[:, :, None]) & (all_met > 0)[:, :, None])


def _of_members(evidence: Evidence, found: Grouped) -> list[Plain]:
    """Mistakes that an annotator who may be shown makes reliably more often than the own group."""
    people = evidence.annotator_names
    drawn = found.levels.alpha[found.codes] + found.counts
    sizes = drawn.sum(-1, keepdims=True)
    low, high = _ends(drawn, sizes)
    own, groups = drawn / sizes, found.levels.groups[found.codes]
    visible = evidence.visible_annotators[found.annotators][:, None] & (found.counts.sum(-1) >= 1)
    reliable = (low > groups) & (own - groups >= APART) & visible[:, :, None]
    return [
        {
            **_pair(evidence, *at[1:], (own, low, high), at),
            "worker": people[found.annotators[at[0]]],
            "group": found.names[found.codes[at[0]]],
            "in_group": _share(evidence, groups[at]),
        }
        for at in _worst(own - groups, reliable)
    ]


def _pair(evidence: Evidence, true: int, observed: int, shares: tuple[FloatArray, ...], at: tuple[int, ...]) -> Plain:
    """A mistake, with the share and its ends at this place of three arrays."""
    share, low, high = (_share(evidence, array[at]) for array in shares)
    names = evidence.class_names
    return {"true": names[true], "observed": names[observed], "share": share, "low": low, "high": high}


def _ends(parameters: FloatArray, sizes: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Ends of the intervals of the cells of Dirichlet distributions."""
    tail = (1 - CONFIDENCE) / 2
    rest = np.maximum(sizes - parameters, TINY)
    return np.asarray(betaincinv(parameters, rest, tail)), np.asarray(betaincinv(parameters, rest, 1 - tail))


def _worst(gaps: FloatArray, reliable: npt.NDArray[np.bool_]) -> list[tuple[int, int, int]]:
    """The reliable mistakes (of whom, true, observed), largest gaps first."""
    found = np.where(reliable & ~np.eye(gaps.shape[-1], dtype=bool), gaps, 0.0)
    order = np.argsort(-found, axis=None, kind="stable")[:MAX_PAIRS]
    places = np.stack(np.unravel_index(order[found.flat[order] > 0], found.shape), axis=1)
    return [(int(who), int(true), int(observed)) for who, true, observed in places]


def _share(evidence: Evidence, value: float) -> float:
    """A share as it is shown; in whole percents where names are hidden."""
    return float(evidence.privacy.shares(value, 4))


# May models replace people? The alternative annotator test, where it is known who is a person.

PEOPLE = ("human", "humans", "people", "person", "persons")
"""Groups of people, in lower case; all other groups are models."""
HANDICAPS = (0.2, 0.15, 0.1)
"""What the authors of the test take for experts, which the verdict is by, for trained people and for a crowd."""


@register("replacement")
class ReplacementFinding(Finding):
    """Whether models agree with people as well as people agree with each other.

    *VerdictRow*: The verdict about one model. Keys: ``model``, ``winning_share``, ``advantage_share``, ``people``,
    ``replaces``.

    *Count*: How many models may replace people with another handicap. Keys: ``epsilon``, ``models``.

    *ReplacementSection*: A verdict per model, the best first, or the reason why there is none. ``epsilon`` is the
    people's handicap. With ``scale``, agreement is by distance on the scale of the classes. Keys: ``epsilon``,
    ``rows``, ``reason``, ``scale`` (not always), ``counts`` (not always).
    """

    rank = 28

    def applies(self, evidence: Evidence) -> bool:
        """Where groups say who is a person, and there are others."""
        return all(_people_and_models(evidence))

    def section(self, findings: Findings) -> Plain:
        """The test, or why it cannot be made."""
        evidence, handicap = findings.evidence, HANDICAPS[0]
        crowd = evidence.annotations
        people, models = _people_and_models(evidence)
        try:
            found = {each: replacement_test(crowd, models, people=people, epsilon=each) for each in HANDICAPS}
        except InputError as error:
            return {"epsilon": handicap, "rows": [], "reason": str(error)}
        rows = [
            {
                "model": plain(each.model),
                "winning_share": each.winning_rate,
                "advantage_share": each.advantage_probability,
                "people": len(each.people),
                "replaces": each.replaces,
            }
            for each in sorted(found[handicap], key=lambda each: (-each.winning_rate, -each.advantage_probability))
        ]
        counts = [
            {"epsilon": epsilon, "models": sum(each.replaces for each in found[epsilon])} for epsilon in HANDICAPS
        ]
        return {"epsilon": handicap, "rows": rows, "reason": "", "scale": crowd.ordinal, "counts": counts}

    def headlines(self, section: Plain, report: Report) -> Iterator[Markup]:
        """Which models may."""
        good = [short(row["model"], 30) for row in section["rows"] if row["replaces"]]
        if good:
            yield Markup(
                "<b>{}</b> of {} models may replace people by the alternative annotator test, with a handicap of {:g} "
                "for people: {}."
            ).format(len(good), len(section["rows"]), section["epsilon"], ", ".join(good[:6]))
        elif section["rows"]:
            yield Markup(
                "No model may replace people by the alternative annotator test, with a handicap of {:g} for people."
            ).format(section["epsilon"])


def _people_and_models(evidence: Evidence) -> tuple[list[Any], list[Any]]:
    """Names of the people and of the models, with labels and a group, who may be shown."""
    if evidence.groups is None:
        return [], []
    shown = evidence.visible_annotators & (evidence.annotations.labels_per_annotator() > 0)
    people = people_among(evidence.groups)
    models = ~people & np.array([group is not None for group in evidence.groups.tolist()])
    names = evidence.annotations.annotator_ids
    return names[shown & people].tolist(), names[shown & models].tolist()


def people_among(groups: Names) -> npt.NDArray[np.bool_]:
    """(R,) the annotators whose group says that they are people.

    >>> people_among(np.array(["human", "llm", None, "People"], dtype=object)).tolist()
    [True, False, False, True]
    """
    return np.array([str(group).casefold() in PEOPLE for group in groups.tolist()], dtype=bool)
