"""How a model came about, for reports without one."""

from __future__ import annotations

from typing import Any

__all__ = ["model_section"]


def model_section() -> Any:
    """How a model came about, as an estimator writes it."""
    metrics = {"selection": "holdout_log_likelihood", "best_epoch": 2, "epochs": 3, "best_score": -1.25, "seconds": 1.5}
    metrics |= {"n_tasks_labelled": 60, "n_tasks_trained_on": 54, "seed": 7, "lost_classes": []}
    metrics |= {"method": "conal", "restarts": 0, "n_tasks": 60, "n_annotators": 25, "n_annotations": 300}
    history = [{"epoch": k, "loss": 1 / k, "holdout_log_likelihood": -1.5 + 0.1 * k, "seconds": 0.5} for k in (1, 2, 3)]
    return {
        "method": "conal",
        "separates_noise": True,
        "metrics": metrics,
        "history": history,
        "parameters": {"epochs": 3, "hidden": [128]},
        "versions": {"conal": "0.1.0", "numpy": "2.0"},
        "command": "conal fit LABELS --features FEATURES --out FOLDER --method conal --seed 7",
    }
