"""Remedies for dropped annotations and for warnings about a file."""

from __future__ import annotations

__all__ = ["REMEDIES", "SEVERAL", "UNLABELLED", "remedy"]

SEVERAL = "several answers"
"""Why an annotation with several choices is left out."""

UNLABELLED = "tasks without a label"
"""Why a task has no annotation: nobody has labelled it yet. ``conal fit`` does not leave it out, but predicts it."""

REMEDIES = {
    SEVERAL: "ask about one choice at a time: --question NAME=CHOICE makes a yes-or-no question of it",
    "no single choice": "choose another question with --question",
    "without an answer": "nothing to do, unless it should have one: check --question and --label-column",
    "rejected by the requester": "keep them with --keep-rejected",
    "drafts or discarded": "export flat records: records.to_list(flatten=True), or records.to_datasets()",
    "tainted": "keep them with --keep-rejected",
    "contradict": "correct the true labels on the platform",
    "repeat a (task, worker) pair": "choose the first or last, or refuse them, with --on-duplicate",
    "differ only in case": "correct the labels, or they count as different classes",
    UNLABELLED: "nothing to do: conal fit predicts them, given their features or texts",
    "differ only in type": "make the labels all text or all numbers",
    "without an annotator": "let every annotator log in with a separate name",
}
"""What to do about a problem, by words that occur in it."""


def remedy(problem: str, otherwise: str = "nothing to do if this is meant") -> str:
    """The remedy for a problem.

    >>> remedy("rejected by the requester")
    'keep them with --keep-rejected'
    """
    return next((advice for words, advice in REMEDIES.items() if words in problem), otherwise)
