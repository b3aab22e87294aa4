"""What ``conal aggregate`` prints: figures about labels and their aggregation, and a summary of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from conal.cli.options import told
from conal.cli.terminal import class_name, one_line

if TYPE_CHECKING:
    from conal.aggregation.base import Aggregator
    from conal.io import AnnotationFile

__all__ = ["figures_of", "summary_of"]

MOST_CLASSES = 50
"""Classes that the summary lists."""


def figures_of(fitted: Aggregator, file: AnnotationFile) -> dict[str, Any]:
    """How much was read, and what was inferred."""
    import numpy as np

    from conal.io.results import labelled_tasks

    crowd, labelled = fitted.annotations_, labelled_tasks(fitted)
    counts = np.bincount(fitted.codes_[labelled], minlength=crowd.n_classes).tolist()
    return {
        "files": file.contributions(),
        "n_annotations": crowd.n_annotations,
        "n_refused": None if crowd.abstentions is None else crowd.abstentions.n_annotations,
        "n_annotators": crowd.n_annotators,
        "n_tasks": crowd.n_tasks,
        "n_unlabelled": int((~labelled).sum()),
        "n_classes": crowd.n_classes,
        "converged": getattr(fitted, "converged_", None),  # majority vote does not iterate
        "n_iter": getattr(fitted, "n_iter_", None),
        "why": getattr(fitted, "why_", None),  # of an aggregator that chooses
        "counts": {str(name): count for name, count in zip(crowd.classes.tolist(), counts, strict=True)},
    }


def summary_of(result: dict[str, Any]) -> str:
    """The same for people."""
    known = f"; {result['n_true_labels']:,} known true labels" if result["n_true_labels"] else ""
    refused = "" if result["n_refused"] is None else f" and {result['n_refused']:,} refused answers"
    lines = [
        f"{result['method']}: {result['n_annotations']:,} labels{refused} by {result['n_annotators']:,} annotators on "
        f"{result['n_tasks']:,} tasks, {result['n_classes']} classes",
        *told(result["files"]),
        *([f"chosen: {one_line(result['why'])}"] if result["why"] else []),
        f"{_convergence(result)}{result['seconds']:.1f} s{known}",
        _class_counts(result["counts"]),
    ]
    titles = {
        "out": "labels",
        "annotators": "annotators",
        "confusion": "confusion",
        "report": "report",
        "saved": "saved",
    }
    return "\n".join(lines + [f"{title}: {result[key]}" for key, title in titles.items() if result[key] is not None])


def _class_counts(counts: dict[str, int]) -> str:
    """How many tasks each class has; of very many classes, those with most."""
    more = len(counts) - MOST_CLASSES
    shown = list(counts.items()) if more <= 0 else sorted(counts.items(), key=lambda pair: -pair[1])[:MOST_CLASSES]
    listed = ", ".join(f"{class_name(name)} {count:,}" for name, count in shown)
    return listed if more <= 0 else f"{listed} and {more:,} more classes"


def _convergence(result: dict[str, Any]) -> str:
    if result["converged"] is None:
        return ""
    word = "converged" if result["converged"] else "not converged"
    return f"{word} after {result['n_iter']:,} iterations; "
