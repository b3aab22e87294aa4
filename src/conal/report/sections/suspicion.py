"""Annotators who are careless, collude or copy, the tasks that show it, and labels that are upside down."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from markupsafe import Markup

from conal._arrays import BoolArray, IntArray
from conal.report.evidence import Evidence, Plain, Report, plain
from conal.report.findings import Finding, Findings, register
from conal.report.wording import count, first_of, percent, short

MAX_ROWS = 100
MAX_TASKS = 10
"""Tasks that are listed as evidence for each row."""
MAX_NAMED = 3
MANY = 0.3
"""Share of the labels from which on a group may as well be right, and all others wrong."""
LATER = 0.9
"""Share of the equal answers that somebody gave after the other, to be said to follow."""
CONSTANT = 0.9
KINDS = {
    "careless": "answers do not depend on the task",
    "turned": "answers no longer depend on the task",
    "exchange": "exchanges classes as others of a group do",
    "followers": "makes the common mistakes nearly always",
    "copies": "same answers as somebody else",
}
"""What ``annotators.csv`` and the page say of each kind."""


@register("suspicion")
class Suspicion(Finding):
    """Careless and colluding annotators; there is no such section where nobody is striking.

    *EvidenceTask*: A task that shows it: the label that was given, and the one that the other labels speak for. Keys:
    ``task``, ``given``, ``others``.

    *SuspicionRow*: What is striking about an annotator, and the tasks that show it; ``shared_with`` lists whom it is
    shared with. Keys: ``annotator``, ``kind``, ``what``, ``shared_with``, ``labels``, ``p_value`` (not always),
    ``tasks``.

    *SuspicionSection*: What it means, and a row for each annotator, or for each pair with the same answers. Keys:
    ``text``, ``label_share``, ``rows``.
    """

    rank = 31
    title = "Suspicious annotators"
    table = "annotators.csv"

    def applies(self, evidence: Evidence) -> bool:
        """Whether anybody who may be named is striking; a model that may be upside down says nothing about people."""
        return bool(_flagged(evidence).any()) and contradiction(evidence) is None

    def section(self, findings: Findings) -> Plain:
        """One row for each annotator or pair, in the order of the annotators' section."""
        evidence = findings.evidence
        place = {row["worker"]: k for k, row in enumerate(findings.section("annotators")["rows"])}
        rows = sorted(_rows(evidence), key=lambda row: place.get(row["annotator"], len(place)))
        share = float(_flagged(evidence)[evidence.annotations.annotators].mean())
        return {"text": _text(evidence), "label_share": share, "rows": rows[:MAX_ROWS]}

    def columns(self, findings: Findings) -> pa.Table:
        """What is striking about each annotator, and the estimated share of careful answers."""
        evidence = findings.evidence
        R = evidence.annotations.n_annotators
        kinds: list[list[str]] = [[] for _ in range(R)]
        for kind, people in evidence.detections.by_kind.items():
            for r in people.tolist():
                kinds[r].append(KINDS[kind])
        share = evidence.detections.attention.share
        return pa.table(
            {
                "suspicion": pa.array(["; ".join(said) or None for said in kinds], pa.string()),
                "careful_share": pa.array(share, mask=np.isnan(share)),
            }
        )

    def headlines(self, section: Plain, report: Report) -> Iterator[Markup]:
        """Who is striking, in the order of the annotators' section."""
        names = list(dict.fromkeys(short(row["annotator"]) for row in section["rows"]))
        if names:
            kinds = [text for kind, text in KINDS.items() if kind in {row["kind"] for row in section["rows"]}]
            yield Markup("Suspicious: <b>{}</b>: {} ({} of the labels). <i>{}</i> has the tasks that show it.").format(
                first_of(names, MAX_NAMED), "; ".join(kinds), percent(section["label_share"]), self.title
            )


def _flagged(evidence: Evidence) -> BoolArray:
    """(R,) the annotators who are striking and may be shown."""
    flagged = np.concatenate(list(evidence.detections.by_kind.values()))
    return np.isin(np.arange(evidence.annotations.n_annotators), flagged) & evidence.visible_annotators


def _rows(evidence: Evidence) -> Iterator[Plain]:
    """A row for each annotator or pair who may be shown, by kind."""
    found, visible = evidence.detections, evidence.visible_annotators
    p_values = found.attention.p_value.tolist()
    for r in found.careless[visible[found.careless]].tolist():
        yield _row(evidence, r, "careless", _careless(evidence, r), _wrong(evidence, r), [], p_values[r])
    for r in found.turned[visible[found.turned]].tolist():
        before = count(int(found.before[r]), "label", "labels")
        when = "at some point" if evidence.privacy.hides_names else f"after {before}"
        tasks = _wrong(evidence, r, evidence.left_out.after(found.before))
        yield _row(evidence, r, "turned", f"{KINDS['turned']} {when}", tasks, [], None)
    for ring in found.rings:
        others_say, labels = evidence.left_out.posterior.argmax(1), evidence.annotations.labels
        moved = (ring.exchange[others_say] == labels) & (others_say != labels)
        members = ring.members[visible[ring.members]].tolist()
        for r in members:
            others = [evidence.annotator_names[s] for s in members if s != r]
            like = first_of([short(name, 24) for name in others], MAX_NAMED) or "others"
            what = f"labels {_exchange(evidence, ring.exchange)}, like {like}"
            yield _row(evidence, r, "exchange", what, _wrong(evidence, r, moved), others, p_values[r])
    for r in found.followers[visible[found.followers]].tolist():
        yield _row(evidence, r, "followers", KINDS["followers"], _wrong(evidence, r), [], None)
    for k in np.flatnonzero(visible[found.copies.first] & visible[found.copies.second]).tolist():
        yield _pair(evidence, k)


def _row(
    evidence: Evidence, r: int, kind: str, what: str, labels: IntArray, others: list[Any], p_value: float | None
) -> Plain:
    """What is striking about an annotator, the labels (n,) that show it, and who else does it."""
    privacy, given = evidence.privacy, evidence.annotations.labels_per_annotator()
    found: Plain = {
        "annotator": evidence.annotator_names[r],
        "kind": kind,
        "what": what,
        "shared_with": others,
        "labels": int(privacy.counts(given[r])),
        # a list of somebody's tasks tells who it is
        "tasks": [] if privacy.hides_names else [_task(evidence, k) for k in labels[:MAX_TASKS].tolist()],
    }
    return found if privacy.hides_names or p_value is None else found | {"p_value": p_value}


def _task(evidence: Evidence, k: int) -> Plain:
    crowd, names = evidence.annotations, evidence.class_names
    return {
        "task": plain(crowd.task_ids[[crowd.tasks[k]]].tolist()[0]),
        "given": names[crowd.labels[k]],
        "others": names[int(evidence.left_out.posterior[k].argmax())],
    }


def _wrong(evidence: Evidence, r: int, kept: BoolArray | bool = True) -> IntArray:
    """Labels of an annotator that the other labels contradict, the clearest first."""
    crowd = evidence.annotations
    mine = np.flatnonzero((crowd.annotators == r) & kept)
    right = evidence.left_out.posterior[mine, crowd.labels[mine]]
    order = np.argsort(right, kind="stable")
    return mine[order[right[order] < 0.5]]


def _careless(evidence: Evidence, r: int) -> str:
    habits = evidence.left_out.habits[r]
    top = int(habits.argmax())
    if habits[top] < CONSTANT:
        return KINDS["careless"]
    return f"{KINDS['careless']}: {percent(float(habits[top]))} are {short(evidence.annotations.classes[top], 24)}"


def _exchange(evidence: Evidence, exchange: IntArray) -> str:
    names = [short(name, 24) for name in evidence.class_names]
    moved = np.flatnonzero(exchange != np.arange(len(exchange))).tolist()
    said = [f"{names[c]} as {names[exchange[c]]}" for c in moved[:MAX_NAMED]]
    return ", ".join(said) + (" and so on" if len(moved) > MAX_NAMED else "")


def _pair(evidence: Evidence, k: int) -> Plain:
    """Two annotators with the same answers; the first named is the one who answers later, where times tell."""
    copies, crowd, times = evidence.detections.copies, evidence.annotations, evidence.left_out.times
    r, s = int(copies.first[k]), int(copies.second[k])
    mine, theirs = _common(evidence, r, s)
    same = crowd.labels[mine] == crowd.labels[theirs]
    follows = "One of both copies, or both have a common source"
    if times is not None and same.any():
        later = float((times[mine] > times[theirs])[same].mean())
        if later < 1 - LATER:
            r, s, mine, theirs, later = s, r, theirs, mine, 1 - later
        follows = "The answers come after" if later > LATER else follows
    name = evidence.annotator_names[s]
    what = f"gives the same answers as {short(name, 24)}"
    if not evidence.privacy.hides_names:
        what = (
            f"agrees with {short(name, 24)} on {count(int(copies.agreed_mistakes[k]))} of "
            f"{count(int(copies.mistakes[k]), 'mistake', 'mistakes')} that either makes, and on "
            f"{count(int(copies.agreed[k]))} of {count(int(copies.shared[k]))} common tasks; "
            f"{count(round(float(copies.expected[k])))} would be expected. {follows}"
        )
    wrong = evidence.left_out.posterior[mine].argmax(1) != crowd.labels[mine]
    return _row(evidence, r, "copies", what, mine[same & wrong], [name], float(copies.p_value[k]))


def _common(evidence: Evidence, r: int, s: int) -> tuple[IntArray, IntArray]:
    """Where the labels of two annotators are that they gave to the same tasks."""
    crowd = evidence.annotations
    mine, theirs = np.flatnonzero(crowd.annotators == r), np.flatnonzero(crowd.annotators == s)
    _, a, b = np.intersect1d(crowd.tasks[mine], crowd.tasks[theirs], assume_unique=True, return_indices=True)
    return mine[a], theirs[b]


def _text(evidence: Evidence) -> str:
    found = evidence.detections
    text = (
        "For each kind, the aim is at most one false alarm among twenty people who are named; the tests assume that "
        "honest people err independently of each other. There are honest reasons: a misread instruction, a broken "
        "page, two people who worked together, an account that is shared. Look at the tasks and ask before you judge. "
        "To infer the labels without these answers, use --defend."
    )
    share = float(np.isin(evidence.annotations.annotators, found.by_kind["exchange"]).mean())
    if share >= MANY:
        text += (
            f" The group who exchange classes gave {percent(share)} of the labels. By labels alone, nobody can say "
            "whether they or the others are right: label a few dozen tasks yourself."
        )
    if len(found.copies.first):
        text += (
            " Copied answers count as votes, so that people who do not copy seem worse than they are. With --defend, "
            "copies count once."
        )
    return text


# Labels that contradict the votes, and either Dawid-Skene or most annotators: the model may be upside down.

AGAINST_VOTES = 0.25
"""Least share of tasks whose label has fewer votes than another. Where colluders win `xconal` over, it is more.

Models that are right reach more, too, where most annotators guess or make the same mistakes, but these agree with
Dawid-Skene.
"""
AGAINST_DAWID_SKENE = 0.7
"""Least share of tasks for which Dawid-Skene infers another label, which is nearly all with these colluders.

Real crowds stay far below, and simulated crowds of guessers, where Dawid-Skene itself is weak, below.
"""
LEAST_TASKS = 100
"""On fewer labelled tasks such shares are chance."""


@register("contradiction")
class Contradiction(Finding):
    """A warning; most crowds have no such section.

    *ContradictionSection*: On which share of the labelled tasks the inferred label contradicts the votes, and Dawid-
    Skene's label. ``exchanged_share`` is the share of labels by annotators who exchange classes in one way, if it is
    more than half. Keys: ``text``, ``against_votes``, ``against_dawid_skene``, ``exchanged_share`` (not always).
    """

    rank = 5
    title = "The labels contradict the crowd"

    def applies(self, evidence: Evidence) -> bool:
        """Only where both are contradicted widely."""
        return contradiction(evidence) is not None

    def section(self, findings: Findings) -> Plain:
        """Both shares, and what they mean."""
        found = contradiction(findings.evidence)
        assert found is not None  # noqa: S101 - it applies
        return found

    def headlines(self, section: Plain, report: Report) -> Iterator[Markup]:
        """The warning."""
        yield Markup("<b>Warning:</b> {}").format(section["text"])


def contradiction(evidence: Evidence) -> Plain | None:
    """Whether the inferred labels contradict the votes and, widely, Dawid-Skene or most annotators; None if not.

    A group of annotators who all make the same exchange of classes explains the labels as well as the truth does. A
    model that follows the group flags everybody else. Dawid-Skene may fall for it too; then more than half of the
    labels follow one exchange of classes. Both are only looked at where the votes are contradicted already.
    """
    labelled = np.flatnonzero(evidence.annotations.labels_per_task())
    if len(labelled) < LEAST_TASKS:
        return None
    label = evidence.inferred[labelled]
    votes = evidence.votes[labelled]
    outvoted = float((votes[np.arange(len(label)), label] < votes.max(1)).mean())
    if outvoted < AGAINST_VOTES:
        return None
    apart = float((evidence.dawid_skene[labelled] != label).mean())
    found: Plain = {"text": "", "against_votes": outvoted, "against_dawid_skene": apart}
    against = f"the inferred labels contradict the votes on {percent(outvoted)} of the tasks"
    if apart >= AGAINST_DAWID_SKENE:
        remedy = "Label" if evidence.classifier is None else "Train for more epochs, label"
        return found | {
            "text": f"{against} and Dawid-Skene on {percent(apart)}. Either the model has not learned, or a group of "
            "annotators who exchange classes in the same way has turned it upside down: all figures about annotators "
            f"are then wrong. {remedy} a few dozen tasks yourself and compare them with labels.csv, and with conal "
            "aggregate --method dawid-skene."
        }
    exchanged = evidence.detections.upside_down
    if not exchanged:
        return None
    return found | {
        "text": f"{against}, and {percent(exchanged)} of the labels are by annotators who seem to exchange the classes "
        "in one way. Rather a smaller group does, and has turned the model upside down: all figures about annotators "
        "are then wrong. Label a few dozen tasks yourself and pass them as true labels.",
        "exchanged_share": exchanged,
    }
