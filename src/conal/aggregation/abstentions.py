"""Refused answers as evidence: how often each annotator declines tasks of each class."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy

from conal.aggregation.arrays import FloatArray
from conal.data.annotations import Annotations
from conal.data.container import LabelArrays

__all__ = ["Abstained", "abstention_rates", "with_abstentions"]

STRENGTH = 4.0
"""Tasks of a class that an annotator's rate for it needs to outweigh the annotator's rate for all classes."""
CROWD = 1.0
"""Tasks by which an annotator's overall rate is drawn to the crowd's."""
N_ITER = 200
TOLERANCE = 1e-9
"""Gain of the objective per task below which EM stops."""


class Abstained(NamedTuple):
    """Posterior (N, C), rates (R, C) = P(annotator r declines | true c), and the objective after every step."""

    posterior: FloatArray
    rates: FloatArray
    history: list[float]


class Asked(NamedTuple):
    """Which annotator was asked about which task, (R, N) sparse: refused and answered; and rates beforehand (R,)."""

    refused: scipy.sparse.csr_array
    answered: scipy.sparse.csr_array
    usual: FloatArray


def with_abstentions(crowd: Annotations, posterior: FloatArray) -> Abstained:
    r"""The posterior once refused answers count.

    Whether annotator r declines a task of class c is a coin with probability :math:`e_{rc}`, independent of the label
    that is given otherwise. So the posterior :math:`q_i` by the labels is multiplied by one factor per annotator who
    was asked, and the rates follow from it, by EM:

    .. math::
        q'_i(c) \propto q_i(c) \prod_{r \text{ declined}} e_{rc} \prod_{r \text{ answered}} (1 - e_{rc}), \qquad
        e_{rc} = \frac{\sum_{i \text{ declined}} q'_i(c) + s\, \bar e_r}{\sum_{i \text{ asked}} q'_i(c) + s}

    :math:`\bar e_r` is the annotator's rate over all tasks: the mode under a Beta prior of strength s = 4 around it.
    An annotator who declines all classes alike says nothing about the truth. The objective never falls.

    Parameters
    ----------
    crowd : Annotations
        With ``abstentions``.
    posterior : (N, C)
        By the labels alone; a class that it rules out stays ruled out.

    Examples
    --------
    >>> crowd = Annotations.from_matrix([[0, 0, "?"], [0, 1, "?"], [1, 1, 1], [1, 1, 1]] * 5, abstain="?")
    >>> even = np.tile([[0.9, 0.1], [0.5, 0.5], [0.1, 0.9], [0.1, 0.9]], (5, 1))
    >>> found = with_abstentions(crowd, even)
    >>> bool(found.posterior[1, 0] > 0.75), (found.rates[2] > 0.5).tolist()
    (True, [True, False])
    """
    asked = _asked(crowd)
    rates, current, history = _rates(asked, posterior), posterior, [-np.inf]
    for _ in range(N_ITER):
        current, evidence = _expected(asked, posterior, rates)
        history.append(evidence + _log_prior(asked, rates))
        if history[-1] - history[-2] < TOLERANCE * max(crowd.n_tasks, 1):
            break
        rates = _rates(asked, current)
    return Abstained(current, rates, history[1:])


def abstention_rates(crowd: Annotations, posterior: FloatArray) -> FloatArray:
    """(R, C) P(annotator r declines | true c), by a posterior (N, C) that is taken as it is."""
    return _rates(_asked(crowd), posterior)


def _asked(crowd: Annotations) -> Asked:
    refused, answered = (_pairs(crowd, each) for each in (crowd.abstentions, crowd))
    declined, total = (np.asarray(each.sum(1)).ravel() for each in (refused, refused + answered))
    usual = (declined + CROWD * declined.sum() / max(total.sum(), 1)) / (total + CROWD)
    return Asked(refused, answered, usual)


def _pairs(crowd: Annotations, given: LabelArrays | None) -> scipy.sparse.csr_array:
    shape = crowd.n_annotators, crowd.n_tasks
    if given is None:
        return scipy.sparse.csr_array(shape)
    return scipy.sparse.csr_array((np.ones(given.n_annotations), (given.annotators, given.tasks)), shape=shape)


def _rates(asked: Asked, posterior: FloatArray) -> FloatArray:
    declined, answered = asked.refused @ posterior, asked.answered @ posterior
    return np.asarray((declined + STRENGTH * asked.usual[:, None]) / (declined + answered + STRENGTH))


def _expected(asked: Asked, posterior: FloatArray, rates: FloatArray) -> tuple[FloatArray, float]:
    """The E-step, and the log-probability of the refusals."""
    with np.errstate(divide="ignore"):  # of classes that are ruled out, and of annotators who never or always decline
        logs = np.log(posterior) + asked.refused.T @ np.log(rates) + asked.answered.T @ np.log1p(-rates)
    top = logs.max(1, keepdims=True)
    weights = np.exp(logs - top)
    total = weights.sum(1, keepdims=True)
    return weights / total, float((top + np.log(total)).sum())


def _log_prior(asked: Asked, rates: FloatArray) -> float:
    usual = asked.usual[:, None]
    return float(STRENGTH * (scipy.special.xlogy(usual, rates) + scipy.special.xlogy(1 - usual, 1 - rates)).sum())
