"""Annotators whose labels do not speak for themselves: what speaks for that, and on which tasks it shows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from markupsafe import Markup

from conal._arrays import BoolArray, IntArray
from conal.report.evidence import Evidence, plain_names
from conal.report.section import Finding, Panel, Plain, Report, count, percent, register, short
from conal.report.sections.contradiction import contradiction

if TYPE_CHECKING:
    from conal.report.findings import Findings


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
        if not names:
            return
        shown = Markup(", ").join(Markup("<b>{}</b>").format(name) for name in names[:MAX_NAMED])
        rest = f" and {count(len(names) - MAX_NAMED)} more" if len(names) > MAX_NAMED else ""
        kinds = "; ".join(text for kind, text in KINDS.items() if kind in {row["kind"] for row in section["rows"]})
        yield Markup("Talk to {}{}: {} ({} of the labels). See <i>{}</i> for the tasks that show it.").format(
            shown, rest, kinds, percent(section["label_share"]), self.title
        )

    def panel(self, section: Plain) -> Panel:
        """A line for each row, with the tasks."""
        rows = [
            (row["annotator"], row["what"], row["labels"], list(map(_shown, row["tasks"]))) for row in section["rows"]
        ]
        return Panel(
            self.title, section["text"], ("annotator", "what is striking", "labels", "tasks"), rows, self.table
        )


def _shown(row: Plain) -> str:
    return f"{short(row['task'], 40)} ({short(row['given'], 40)}, others {short(row['others'], 40)})"


def _flagged(evidence: Evidence) -> BoolArray:
    """(R,) the annotators who are striking and may be shown."""
    flagged = np.concatenate(list(evidence.detections.by_kind.values()))
    return np.isin(np.arange(evidence.annotations.n_annotators), flagged) & evidence.visible_annotators


def _rows(evidence: Evidence) -> Iterator[Plain]:
    """A row for each annotator or pair who may be shown, by kind."""
    found, visible = evidence.detections, evidence.visible_annotators
    names = plain_names(evidence.annotations.annotator_ids)
    p_values = found.attention.p_value.tolist()
    for r in found.careless[visible[found.careless]].tolist():
        yield _row(evidence, r, "careless", _careless(evidence, r), _wrong(evidence, r), p_value=p_values[r])
    for r in found.turned[visible[found.turned]].tolist():
        before = count(int(found.before[r]), "label", "labels")
        when = "at some point" if evidence.privacy.hides_names else f"after {before}"
        tasks = _wrong(evidence, r, evidence.left_out.after(found.before))
        yield _row(evidence, r, "turned", f"{KINDS['turned']} {when}", tasks)
    for ring in found.rings:
        others_say, labels = evidence.left_out.posterior.argmax(1), evidence.annotations.labels
        moved = (ring.exchange[others_say] == labels) & (others_say != labels)
        members = ring.members[visible[ring.members]].tolist()
        for r in members:
            others = [names[s] for s in members if s != r]
            what = f"labels {_exchange(evidence, ring.exchange)}, like {_listed(others)}"
            yield _row(evidence, r, "exchange", what, _wrong(evidence, r, moved), others, p_values[r])
    for k in np.flatnonzero(visible[found.copies.first] & visible[found.copies.second]).tolist():
        yield _pair(evidence, k)


def _row(
    evidence: Evidence,
    r: int,
    kind: str,
    what: str,
    rows: IntArray,
    others: list[Any] | None = None,
    p_value: float = 1.0,
) -> Plain:
    crowd, privacy = evidence.annotations, evidence.privacy
    found: Plain = {
        "annotator": plain_names(crowd.annotator_ids[[r]])[0],
        "kind": kind,
        "what": what,
        "shared_with": others or [],
        "labels": int(privacy.counts(crowd.labels_per_annotator()[r])),
        # a list of somebody's tasks tells who it is
        "tasks": [] if privacy.hides_names else [_task(evidence, k) for k in rows[:MAX_TASKS].tolist()],
    }
    return found if privacy.hides_names or kind == "turned" else found | {"p_value": p_value}


def _task(evidence: Evidence, k: int) -> Plain:
    crowd = evidence.annotations
    names = plain_names(crowd.classes)
    return {
        "task": plain_names(crowd.task_ids[crowd.tasks[k] : crowd.tasks[k] + 1])[0],
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
    names = [short(name, 24) for name in plain_names(evidence.annotations.classes)]
    moved = np.flatnonzero(exchange != np.arange(len(exchange))).tolist()
    said = [f"{names[c]} as {names[exchange[c]]}" for c in moved[:MAX_NAMED]]
    return ", ".join(said) + (" and so on" if len(moved) > MAX_NAMED else "")


def _listed(names: list[Any]) -> str:
    shown = ", ".join(short(name, 24) for name in names[:MAX_NAMED])
    if not names:
        return "others"
    return shown + (f" and {count(len(names) - MAX_NAMED)} more" if len(names) > MAX_NAMED else "")


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
    name = plain_names(crowd.annotator_ids[[s]])[0]
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
