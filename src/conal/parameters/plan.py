"""How long to train: what the number of tasks says where the user says nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from conal.parameters.training import Settings

__all__ = ["Plan", "plan", "planned_epochs"]

USUAL_TASKS, USUAL_EPOCHS = 1_000, 100
"""The size at which the defaults were chosen."""
EXPONENT = 0.75
FEWEST, MOST = 10, 100
WARMUP = 5
"""Epochs of warm-up for a stated number of epochs, and for the usual one."""


class Plan(NamedTuple):
    """The length of training, in epochs; the warm-up can end within one."""

    epochs: int
    warmup_epochs: float


def plan(settings: Settings, n_tasks: int) -> Plan:
    """What ``settings`` mean for a number of labelled tasks.

    >>> from conal.parameters.training import Settings
    >>> plan(Settings(), 1_000), plan(Settings(epochs=50), 20_000)
    (Plan(epochs=100, warmup_epochs=5.0), Plan(epochs=50, warmup_epochs=5.0))
    """
    epochs = planned_epochs(settings.epochs, n_tasks)
    if settings.warmup_epochs != "auto":
        return Plan(epochs, float(settings.warmup_epochs))
    return Plan(epochs, epochs * WARMUP / USUAL_EPOCHS if settings.epochs == "auto" else float(WARMUP))


def planned_epochs(epochs: int | Literal["auto"], n_tasks: int) -> int:
    r"""The stated number of epochs; or, for "auto", a number that falls as the number N of labelled tasks grows.

    .. math:: E = 100 \, (1000 / N)^{3/4}, \qquad 10 \le E \le 100

    Large data need fewer passes, not the same number: with 20,000 tasks, 100 epochs are 20 times as many steps as with
    1,000, and networks spend most of them on learning the mistakes of the crowd by heart.

    >>> [planned_epochs("auto", n) for n in (100, 1_000, 4_000, 20_000, 1_000_000)]
    [100, 100, 35, 11, 10]
    """
    if epochs != "auto":
        return epochs
    wanted: float = USUAL_EPOCHS * (USUAL_TASKS / max(n_tasks, 1)) ** EXPONENT
    return round(min(max(wanted, FEWEST), MOST))
