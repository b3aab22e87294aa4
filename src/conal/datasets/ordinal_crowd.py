"""A simulated crowd that grades on a scale: labels that fall off with the distance from the true level."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from conal._arrays import FloatArray, IntArray, draw_from_rows
from conal.data.annotations import Annotations
from conal.datasets.adversaries import stream
from conal.parameters.declaration import keywords_of
from conal.parameters.simulation import OrdinalSettings


@dataclass(frozen=True, eq=False)
class OrdinalTruth:
    """The truth of a simulated crowd on a scale, to measure recovery.

    Parameters
    ----------
    z : (N,) int64
        True levels, as positions in ``annotations.classes``.
    bias, slope, spread : (R,)
        How each annotator grades.
    confusion : (R, C, C)
        ``confusion[r, c, l]`` = P(observe l | true c, annotator r).
    settings : OrdinalSettings
        The settings of the generator.
    """

    z: IntArray
    bias: FloatArray
    slope: FloatArray
    spread: FloatArray
    confusion: FloatArray
    settings: OrdinalSettings


@keywords_of(OrdinalSettings)
def ordinal_crowd(settings: OrdinalSettings) -> tuple[Annotations, OrdinalTruth]:
    r"""Grades from 1 to C by annotators who each gave the same number of labels, with the full truth.

    True levels are equally likely. Annotator r has a bias :math:`a_r`, a slope :math:`b_r` and a spread :math:`s_r`,

    .. math::
        a_r \sim N(0, \text{bias}^2), \qquad b_r \sim N(1, \text{slope}^2), \qquad
        \log s_r \sim N(\log \text{spread}, \text{variation}^2)

    and grades level c as l with a probability that falls off with the distance from
    :math:`\mu^r_c = \bar l + a_r + b_r (c - \bar l)`, where :math:`\bar l` is the middle of the scale:

    .. math::
        P(l \mid c) \propto \exp \Bigl( -\frac{(l - \mu^r_c)^2}{2 s_r^2} \Bigr) \text{ ("discrete")}, \qquad
        l = \mathrm{round}(\mu^r_c + s_r \varepsilon), \text{ cut off at both ends ("rounded")}

    A share ``guesses`` of the labels is drawn at random instead. Annotators label tasks in blocks of random order:
    nobody labels a task twice, and every task gets ``labels_per_task`` labels.

    Returns
    -------
    annotations, truth : Annotations, OrdinalTruth

    Examples
    --------
    >>> ann, truth = ordinal_crowd(n_tasks=60, n_levels=7, labels_per_annotator=20, seed=1)
    >>> ann, ann.ordinal, ann.labels_per_annotator().tolist() == [20] * 15
    (Annotations(60 tasks, 15 annotators, 7 classes, 300 annotations), True, True)
    >>> truth.confusion.shape
    (15, 7, 7)
    """
    N, C, seed = settings.n_tasks, settings.n_levels, settings.seed
    z = stream(seed, "levels").integers(C, size=N)
    tasks, annotators = _blocks(settings)
    R = int(annotators.max()) + 1
    rng = stream(seed, "individual")
    bias, slope = rng.normal(0.0, settings.bias, R), rng.normal(1.0, settings.slope, R)
    spread = settings.spread * np.exp(rng.normal(0.0, settings.variation, R))
    confusion = _confusion(bias, slope, spread, settings)
    labels = draw_from_rows(confusion[annotators, z[tasks]], stream(seed, "labels").random(len(tasks)))
    annotations = Annotations(
        tasks,
        annotators,
        labels,
        task_ids=np.arange(N),
        annotator_ids=np.arange(R),
        classes=np.arange(1, C + 1),
        by_position=True,
        ordinal=True,
    )
    return annotations, OrdinalTruth(z, bias, slope, spread, confusion, settings)


def _blocks(settings: OrdinalSettings) -> tuple[IntArray, IntArray]:
    """Pairs (task, annotator): all tasks in random order, cut into blocks, once for every label of a task."""
    rng = stream(settings.seed, "assignment")
    N, n = settings.n_tasks, settings.labels_per_annotator
    blocks = np.arange(N) // n
    passes = range(settings.labels_per_task)
    tasks = np.concatenate([rng.permutation(N) for _ in passes])
    return tasks, np.concatenate([blocks + k * (blocks[-1] + 1) for k in passes])


def _confusion(bias: FloatArray, slope: FloatArray, spread: FloatArray, settings: OrdinalSettings) -> FloatArray:
    """(R, C, C) P(observed | true)."""
    from scipy.special import ndtr, softmax  # so that importing conal.datasets is light

    C = settings.n_levels
    levels = np.arange(C, dtype=np.float64)
    middle = levels.mean()
    expected = (middle + bias[:, None] + slope[:, None] * (levels - middle))[:, :, None]
    width = spread[:, None, None]
    if settings.fall_off == "discrete":
        near = softmax(-0.5 * ((levels - expected) / width) ** 2, axis=-1)
    else:
        below = ndtr((levels[:-1] + 0.5 - expected) / width)
        ends = np.zeros((*below.shape[:-1], 1))
        near = np.diff(np.concatenate([ends, below, ends + 1], axis=-1), axis=-1)
    return np.asarray((1 - settings.guesses) * near + settings.guesses / C)
