"""How careful the people of a crowd are, estimated together: who is careless, and who turned careless at some point."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from conal.metrics.suspicion.left_out import LeftOut

__all__ = ["FEWEST_AFTER", "Population", "in_time", "population"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

SHARES = np.linspace(0.0, 1.0, 21)
"""Shares of careful answers that people may have."""
CARELESS = SHARES <= 0.25
"""Those that no honest annotator has."""
BEFORE = SHARES >= 0.3
"""Those that people have who turn later."""
FEWEST_AFTER = 5
"""Labels before and after a turn, at least."""
HABIT = 15.0
"""Labels that what all people say counts beside an annotator's own, in the habit by which a label is judged."""
PSEUDO_PEOPLE = 0.05
"""Annotators of every kind and share, beside those of the crowd."""
STEPS = 300
LEAST = 1e-12


class Population(NamedTuple):
    """How probably annotators are careless or turned, by their labels and by what others of the crowd do.

    Attributes
    ----------
    careless : (R,)
        P(the share of careful answers is at most 0.25); NaN where too few labels were given.
    turned : (R,)
        P(answers are careful up to a point in time, and not afterwards); 0 where times are unknown or labels few.
    before : (R,)
        Number of labels before the most probable turn.
    """

    careless: FloatArray
    turned: FloatArray
    before: IntArray


class _Labels(NamedTuple):
    """Of every label, how probable it is if the answer was careful, and if it was given by habit."""

    careful: FloatArray
    by_habit: FloatArray

    def logs(self, rows: IntArray | slice = slice(None), shares: FloatArray = SHARES) -> FloatArray:
        """(shares, rows) logarithms of the probabilities of labels."""
        a = shares[:, None]
        return np.asarray(np.log(np.maximum(a * self.careful[rows] + (1 - a) * self.by_habit[rows], LEAST)))


def population(found: LeftOut, fewest: int, times: npt.NDArray[np.generic] | None = None) -> Population:
    r"""Who is careless and who turned, by a mixture for all annotators of the crowd.

    If a share a of the answers of annotator r is careful, label y of task i has the probability
    :math:`f_a = a m_i^r(y) + (1 - a) h^r_y` (:class:`LeftOut`; the habit h is by the other labels of the annotator).
    People of a crowd have different shares, or turn after t labels, all t alike:

    .. math::
        L_r = \sum_a w_a \prod_k f_a(y_k) + \sum_a v_a \frac1{|T|} \sum_{t \in T} \prod_{k \le t} f_a(y_k)
        \prod_{k > t} f_0(y_k)

    The weights w and v are those under which the labels of all annotators are most probable (nonparametric maximum
    likelihood, by EM), and the posterior says who is what. So 30 labels are enough to know a clicker among people who
    are careful otherwise, while in a crowd with all shares between, nobody stands out.

    Parameters
    ----------
    found : LeftOut
    fewest : int
        Annotators with fewer labels are not judged, and with fewer than twice as many not said to have turned.
    times : (n_annotations,), optional
        When each label was given; anything that sorts.

    References
    ----------
    Kiefer and Wolfowitz (1956). Consistency of the maximum likelihood estimator in the presence of infinitely many
    incidental parameters. Annals of Mathematical Statistics 27.
    """
    crowd, R = found.crowd, found.crowd.n_annotators
    labels = _judged(found)
    steady = np.stack([found.sums(labels.logs(shares=SHARES[k : k + 1])[0]) for k in range(len(SHARES))], axis=1)
    turning, before = np.full((R, int(BEFORE.sum())), -np.inf), crowd.labels_per_annotator().astype(np.int64)
    for r, rows in _in_order(found, 2 * fewest, times):
        turning[r], before[r] = _turns(labels.logs(rows), steady[r, 0])
    enough = crowd.labels_per_annotator() >= fewest
    posterior = np.full((R, len(SHARES) + turning.shape[1]), np.nan)
    posterior[enough] = _mixed(np.concatenate([steady, turning], axis=1)[enough])
    turned = np.where(enough, posterior[:, len(SHARES) :].sum(1), 0.0)
    return Population(posterior[:, : len(SHARES)][:, CARELESS].sum(1), turned, before)


def _judged(found: LeftOut) -> _Labels:
    """Every label by the typical annotator, and by the habit that the annotator's other labels show."""
    crowd, R, C = found.crowd, found.crowd.n_annotators, found.crowd.n_classes
    cells = crowd.annotators.astype(np.int64) * C + crowd.labels
    given = np.bincount(cells, minlength=R * C)
    usual = np.bincount(crowd.labels, minlength=C) + 1.0
    drawn = HABIT * (usual / usual.sum())[crowd.labels]
    others = crowd.labels_per_annotator()[crowd.annotators] - 1
    careful = found.expected[np.arange(crowd.n_annotations), crowd.labels]
    return _Labels(careful, (given[cells] - 1 + drawn) / (others + HABIT))


def _in_order(found: LeftOut, fewest: int, times: npt.NDArray[np.generic] | None) -> list[tuple[int, IntArray]]:
    """Annotators with enough labels, all of which have a time, and their labels in the order of time."""
    if times is None:
        return []
    annotators, R = found.crowd.annotators, found.crowd.n_annotators
    missing = np.isnat(times) if times.dtype.kind in "mM" else np.zeros(len(times), dtype=bool)
    order, starts = in_time(found, times)
    tested = (np.diff(starts) >= fewest) & (np.bincount(annotators[missing], minlength=R) == 0)
    return [(r, order[starts[r] : starts[r + 1]]) for r in np.flatnonzero(tested).tolist()]


def in_time(found: LeftOut, times: npt.NDArray[np.generic]) -> tuple[IntArray, IntArray]:
    """Labels by annotator and time, and where those of each annotator begin; one entry more is their number."""
    annotators = found.crowd.annotators
    order = np.lexsort((times, annotators))
    return order, np.searchsorted(annotators[order], np.arange(found.crowd.n_annotators + 1))


def _turns(logs: FloatArray, by_habit: float) -> tuple[FloatArray, int]:
    """Log-likelihoods of a turn somewhere, for every share before, and after how many labels it is most probable.

    ``logs`` (shares, n) are of labels in the order of time, and ``by_habit`` is the sum of the first row.
    """
    gained = np.cumsum(logs[BEFORE] - logs[0], axis=1)[:, FEWEST_AFTER - 1 : logs.shape[1] - FEWEST_AFTER]
    top = gained.max(1, keepdims=True)
    by_share = np.log(np.exp(gained - top).mean(1)) + top[:, 0]
    places = np.exp(gained - top.max()).sum(0)
    return by_habit + by_share, int(places.argmax()) + FEWEST_AFTER


def _mixed(logs: FloatArray) -> FloatArray:
    """(R, K) posterior of the parts of a mixture, from log-likelihoods (R, K), with weights by EM."""
    likelihood: FloatArray = np.exp(logs - logs.max(1, keepdims=True, initial=-np.inf))
    weights = np.full(logs.shape[1], 1 / logs.shape[1])
    posterior: FloatArray = likelihood
    for _ in range(STEPS):
        posterior = likelihood * weights
        posterior /= posterior.sum(1, keepdims=True)
        weights = posterior.sum(0) + PSEUDO_PEOPLE
        weights /= weights.sum()
    return posterior
