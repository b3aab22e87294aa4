"""Fits of an ensemble: a seed for each, and the combined result."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from conal.methods import CrowdMethod
from conal.methods.ensemble import Ensemble
from conal.parameters.training import Settings
from conal.training import TrainingResult

__all__ = ["members_of", "merged", "settings_of_member"]

SPAWN = 0xE5
"""Keeps the members' seeds apart from those of restarts."""


def members_of(model: CrowdMethod) -> list[CrowdMethod]:
    """The members of an ensemble, or the model alone."""
    return model.each if isinstance(model, Ensemble) else [model]


def settings_of_member(settings: Settings, number: int) -> Settings:
    """The first member equals a fit without an ensemble; the other seeds are drawn from its seed."""
    if number == 0:
        return settings
    seed = np.random.SeedSequence(settings.seed, spawn_key=(SPAWN, number)).generate_state(1)[0]
    return settings.replace(seed=int(seed))


def merged(results: Sequence[TrainingResult]) -> TrainingResult:
    """One result: the averaged model, and the course of all trainings."""
    first = results[0]
    if len(results) == 1:
        return first
    method = Ensemble([result.method for result in results])
    method.scaler = first.method.scaler
    lost = sorted(set.intersection(*(set(result.lost_classes) for result in results)))
    scores = [result.best_score for result in results if result.best_score is not None]
    return TrainingResult(
        method.eval(),
        torch.stack([result.class_logits for result in results], 1),
        [{"member": k + 1} | row for k, result in enumerate(results) for row in result.history],
        first.best_epoch,
        float(np.mean(scores)) if scores else None,
        sum(result.restarts for result in results),
        lost,
        {"ensemble": len(results), "best_epochs": [result.best_epoch for result in results]},
    )
