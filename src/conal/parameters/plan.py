"""How to train: what the number of tasks says where the user says nothing."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from conal.parameters.training import Settings

__all__ = ["Plan", "is_large", "plan", "planned_epochs", "planned_folds", "planned_rounds"]

USUAL_TASKS, USUAL_EPOCHS = 2_500, 100
"""The largest size that is trained for the usual number of epochs."""
FEWEST, MOST = 5, 100
WARMUP = 5
"""Epochs of warm-up for a stated number of epochs, and for the usual one."""
MANY = 4_000
"""Labelled tasks from which methods that model annotators keep the last epoch."""
LARGE = 16_000
"""Labelled tasks from which the learning rate decays. With fewer, CoNAL's gate needs the full rate to the end."""
USUAL_FOLDS, FOLDS_OF_LARGE = 5, 3


class Plan(NamedTuple):
    """The length of training, in epochs, and its learning rate; the warm-up can end within an epoch.

    The learning rate is ``lr_factor`` times the one that was set.
    """

    epochs: int
    warmup_epochs: float
    schedule: Literal["constant", "cosine"]
    lr_factor: float = 1.0


def plan(settings: Settings, n_tasks: int) -> Plan:
    """What ``settings`` mean for a number of labelled tasks.

    >>> from conal.parameters.training import Settings
    >>> plan(Settings(), 1_000)
    Plan(epochs=100, warmup_epochs=5.0, schedule='constant', lr_factor=1.0)
    >>> plan(Settings(), 20_000)
    Plan(epochs=12, warmup_epochs=0.6, schedule='cosine', lr_factor=1.0)
    >>> plan(Settings(), 200_000)
    Plan(epochs=5, warmup_epochs=0.25, schedule='cosine', lr_factor=0.5)
    >>> plan(Settings(epochs=50), 20_000)
    Plan(epochs=50, warmup_epochs=5.0, schedule='constant', lr_factor=1.0)
    """
    epochs = planned_epochs(settings.epochs, n_tasks)
    warmup: float = WARMUP
    if settings.warmup_epochs != "auto":
        warmup = settings.warmup_epochs
    elif settings.epochs == "auto":
        warmup = epochs * WARMUP / USUAL_EPOCHS
    schedule = settings.schedule
    if schedule == "auto":
        schedule = "cosine" if settings.epochs == "auto" and n_tasks >= LARGE else "constant"
    return Plan(epochs, float(warmup), schedule, _lr_factor(settings.epochs, n_tasks))


def _lr_factor(epochs: int | Literal["auto"], n_tasks: int) -> float:
    r"""By how much the learning rate is lowered where "auto" means more steps than usual: :math:`\sqrt{50000 / N}`.

    Up to 50,000 tasks the number of steps is the same. Beyond, there are at least five epochs, and with the usual rate
    a method with layers of noise drifts: its layers explain more and more of the labels, and its classifier less.
    """
    most = USUAL_TASKS * USUAL_EPOCHS / FEWEST
    return math.sqrt(most / n_tasks) if epochs == "auto" and n_tasks > most else 1.0


def planned_epochs(epochs: int | Literal["auto"], n_tasks: int) -> int:
    r"""The stated number of epochs; or, for "auto", a number that falls as the number N of labelled tasks grows.

    .. math:: E = 100 \cdot 2500 / N, \qquad 5 \le E \le 100

    Large data need as many steps, not as many passes: with 20,000 tasks, 100 epochs are 20 times as many steps as with
    1,000, and networks spend most of them on learning the mistakes of the crowd by heart.

    >>> [planned_epochs("auto", n) for n in (100, 1_000, 4_000, 20_000, 1_000_000)]
    [100, 100, 62, 12, 5]
    """
    if epochs != "auto":
        return epochs
    wanted: float = USUAL_EPOCHS * USUAL_TASKS / max(n_tasks, 1)
    return round(min(max(wanted, FEWEST), MOST))


def planned_rounds(rounds: int, epochs: int | Literal["auto"], planned: int) -> int:
    """The number of E-steps: as stated, but with "auto" at most one for every second of the ``planned`` epochs.

    An E-step goes through all tasks. On large data it takes as long as half an epoch, and twice as many gain
    nothing.

    >>> [planned_rounds(17, "auto", n) for n in (100, 12, 5)], planned_rounds(17, 12, 12)
    ([17, 6, 3], 17)
    """
    return min(rounds, -(-planned // 2)) if epochs == "auto" else rounds


def planned_folds(folds: int | Literal["auto"], n_tasks: int) -> int:
    """The stated number of folds; or, for "auto", 5, and 3 for large data.

    A network is trained on all folds but one. On large data, two thirds teach as much as four fifths, and five
    networks are more alike.

    >>> planned_folds("auto", 1_000), planned_folds("auto", 20_000), planned_folds(10, 20_000)
    (5, 3, 10)
    """
    if folds != "auto":
        return folds
    return FOLDS_OF_LARGE if n_tasks >= LARGE else USUAL_FOLDS


def is_large(epochs: int | Literal["auto"], n_tasks: int) -> bool:
    """Whether "auto" means that the last epoch is kept: held-out labels would select one in which much is unlearned."""
    return epochs == "auto" and n_tasks >= MANY
