"""Skills from agreement: KOS and MMSR."""

from __future__ import annotations

from typing import Annotated

import numpy as np
import numpy.typing as npt
import scipy

from conal._arrays import FloatArray
from conal.aggregation.base import Aggregator, register
from conal.aggregation.counts import Votes, clamped, normalised, one_coin, softmax
from conal.aggregation.voting import VoteAggregator, weighted_votes
from conal.data.annotations import Annotations
from conal.data.encoding import MISSING
from conal.errors import ConvergenceWarning, warn
from conal.parameters import Doc, number, parameters, whole

# KOS: annotators and tasks exchange messages about who is reliable and what is true.

Codes = npt.NDArray[np.int64]

NO_MESSAGE = 1e-14
"""A message of this size is what rounding leaves of zero."""


@register("kos")
@parameters
class KOS(VoteAggregator):
    r"""Message passing between tasks and annotators, after Karger, Oh and Shah.

    For two classes, :math:`A_{ir} = \pm 1` is the label. A task tells annotator r what the other annotators say about
    it, weighted by their reliability. An annotator tells task i how well the labels agree with the other tasks:

    .. math::
        x_{i \to r} = \sum_{r' \ne r} A_{ir'}\, y_{r' \to i}, \qquad
        y_{r \to i} = \sum_{i' \ne i} A_{i'r}\, x_{i' \to r}, \qquad
        \hat z_i = \operatorname{sign} \sum_r A_{ir}\, y_{r \to i}

    Leaving out the receiver's own message is what separates it from power iteration on A. For more classes, each is
    told apart from all others, and the class with the largest share of reliability wins; for two classes that is the
    same.

    Messages are scaled to a largest one of 1, separately where parts of the crowd share no task. All reliabilities
    start at 1, the mean of the original's random start, so that the result does not depend on the order of the
    data. A task of known truth sends the largest message.

    With a handful of labels, messages may change sign in every round; the result is then arbitrary. Use it for what it
    was made for: tasks assigned at random, annotators with one accuracy each, two classes, few labels. On public
    crowds it is only as accurate as a majority vote on average: a few annotators who agree can draw all reliability to
    themselves.

    Attributes
    ----------
    probas_ : (n_tasks, n_classes)
        For each class, the share of the reliability of a task's annotators that speaks for it, scaled to sum 1. They
        are no posterior probabilities.
    skills_ : (n_annotators,)
        Share of the annotator's labels that agree with the winner.
    confusion_ : (n_annotators, n_classes, n_classes)
        ``confusion_[r, c, l]`` = share of l among the labels that annotator r gave where c won.

    References
    ----------
    Karger, Oh and Shah (2014). Budget-optimal task allocation for reliable crowdsourcing systems. Operations
    Research 62, 1-24.

    Examples
    --------
    >>> import numpy as np
    >>> labels = np.array([[0, 0, 0, 1], [1, 1, 0, 0], [0, 0, 0, 1], [1, 1, 1, 0], [1, 1, 1, 1]])
    >>> KOS().fit(labels).labels_.tolist()
    [0, 1, 0, 1, 1]
    """

    n_iter: Annotated[int, whole(1), Doc("Number of rounds of messages.")] = 100

    def _aggregate(self, crowd: Annotations, known: Codes) -> FloatArray:
        N, C = crowd.n_tasks, crowd.n_classes
        support = np.empty((N, C))
        for c in range(C):
            truth = np.where(known == MISSING, 0.0, np.where(known == c, 1.0, -1.0))
            A = np.where(crowd.labels == c, 1.0, -1.0)
            y = self._reliabilities(crowd, A, truth)
            said, most = (np.bincount(crowd.tasks, weights=w, minlength=N) for w in (A * y, np.abs(y)))
            support[:, c] = (1 + said / np.where(most > 0, most, 1.0)) / 2
        return clamped(normalised(support), known)

    def _reliabilities(self, crowd: Annotations, A: FloatArray, truth: FloatArray) -> FloatArray:
        """(n_annotations,) messages y from annotators to tasks; ``truth`` (N,) is 1 or -1 where known, else 0."""
        y = np.ones(len(A))
        certain, island = truth[crowd.tasks], _islands(crowd)
        for _ in range(self.n_iter):
            x = _scaled(_from_others(crowd.tasks, A * y, crowd.n_tasks), island, 0.0)
            x = np.where(certain != 0, certain, x)
            y = _scaled(_from_others(crowd.annotators, A * x, crowd.n_annotators), island, 1.0)
        return y


def _islands(crowd: Annotations) -> npt.NDArray[np.int32]:
    """(n_annotations,) which part of the crowd a label is in; no annotator of one part labelled a task of another."""
    N, R = crowd.shape
    edges = scipy.sparse.csr_array(
        (np.ones(len(crowd.tasks)), (crowd.tasks, crowd.annotators + N)), shape=(N + R, N + R)
    )
    return np.asarray(scipy.sparse.csgraph.connected_components(edges, directed=False)[1])[crowd.tasks]


def _from_others(groups: npt.NDArray[np.int32], values: FloatArray, size: int) -> FloatArray:
    """For every label, the sum of the values of its group without its own."""
    return np.bincount(groups, weights=values, minlength=size)[groups] - values


def _scaled(messages: FloatArray, island: npt.NDArray[np.int32], empty: float) -> FloatArray:
    """Messages with a largest one of 1 on every island; ``empty`` on one whose messages are all zero.

    Messages grow at a different rate on every island. With one scale for all, those of all but one would vanish.
    """
    largest = np.zeros(island.max(initial=0) + 1)
    np.maximum.at(largest, island, np.abs(messages))
    scale = largest[island]
    scaled = np.where(scale > 0, messages / np.where(scale > 0, scale, 1.0), empty)
    return np.where(np.abs(scaled) < NO_MESSAGE, 0.0, scaled)


# MMSR: annotators' skills from the agreement of pairs, by robust rank-one matrix completion.

Mask = npt.NDArray[np.bool_]

NO_SKILL = 1e-9
"""An entry of an eigenvector of this size is what rounding leaves of zero."""


@register("mmsr")
@parameters
class MMSR(Aggregator):
    r"""Skills from how often pairs of annotators agree, with extreme pairs left out (M-MSR).

    If annotator r is right with probability :math:`p_r`, and errs evenly among the other classes, then the agreement
    of a pair, corrected for chance, is a product of two skills (:math:`a_{rr'}` is the share of common tasks on which
    r and r' agree):

    .. math::
        X_{rr'} = \frac{C a_{rr'} - 1}{C - 1} \approx s_r s_{r'}, \qquad s_r = \frac{C p_r - 1}{C - 1}

    Matrix-mean-subsequence-reduced iteration fits :math:`|X| \approx u v^\top`: in turn, :math:`v_j` becomes the mean
    of :math:`|X_{ij}| / u_i` over the annotators i that share tasks with j, without up to F of them above and F below
    the present :math:`v_j`. F is half of the fewest partners that anybody has, minus one, so adversaries cannot
    move a skill far. The signs of s are those of the leading eigenvector of the signs of X, such that most
    annotators are better than chance. The label is the most probable one, for :math:`s_r` held
    :math:`1 / \sqrt N` away from its bounds:

    .. math:: q_i(c) \propto \prod_r \Bigl( \frac{(C - 1) p_r}{1 - p_r} \Bigr)^{[y_i^r = c]}

    Use it against coordinated adversaries, where every pair of annotators shares many tasks. Pairs that share few
    make noise of X, and one number per annotator cannot describe confusions of particular classes. It holds a matrix of
    all pairs of annotators: memory and time grow with their number squared.

    Attributes
    ----------
    skills_ : (R,)
        p; of the average annotator for those who share no task with anybody.
    weights_ : (R,)
        Logarithm of (C - 1) p / (1 - p), the weight of a vote; crowd-kit calls it skill.
    confusion_ : (R, C, C)
        ``confusion_[r, c, l]`` = P(observed l | true c): the skill on the diagonal, the rest shared equally.
    n_iter_ : int
    converged_ : bool
        Whether it stopped by ``tol``.

    References
    ----------
    Ma and Olshevsky (2020). Adversarial crowdsourcing through robust rank-one matrix completion. Advances in Neural
    Information Processing Systems 33.

    Examples
    --------
    >>> import numpy as np
    >>> fitted = MMSR().fit(np.array([[0, 0, 0, 1], [1, 1, 1, 0], [0, 0, 1, 0], [1, 1, 1, 1], [0, 1, 0, 1]]))
    >>> fitted.labels_.tolist()
    [0, 1, 0, 1, 0]
    """

    n_iter: Annotated[int, whole(1), Doc("Maximum number of iterations.")] = 10_000
    tol: Annotated[float, number(at_least=0), Doc("Stop when an iteration changes the matrix by less (norm).")] = 1e-10

    def _numbers(self, crowd: Annotations) -> float:
        return super()._numbers(crowd) + 10 * crowd.n_annotators**2  # agreement of all pairs

    def _aggregate(self, crowd: Annotations, known: npt.NDArray[np.int64]) -> FloatArray:
        N, C = crowd.n_tasks, crowd.n_classes
        if C < 2:
            self.skills_, self.n_iter_, self.converged_ = np.ones(crowd.n_annotators), 0, True
        else:
            margin = 1 / np.sqrt(max(N, 1))
            s = np.clip(self._abilities(crowd), -1 / (C - 1) + margin, 1 - margin)
            # With a handful of tasks the bounds cross; nobody is then better than chance.
            self.skills_ = np.clip(s * (C - 1) / C + 1 / C, margin / C, 1 - margin / C)
        self.weights_ = _log_odds(self.skills_, C)
        self.confusion_ = one_coin(self.skills_, C)
        return clamped(softmax(weighted_votes(crowd, self.weights_)), known)

    def _abilities(self, crowd: Annotations) -> FloatArray:
        """(R,) s; the mean where an annotator shares no task with anybody."""
        X, shared = _corrected_agreement(crowd)
        start = _leading(np.where(shared, X, 0.0))
        s = self._completed(np.abs(X), shared, np.abs(start), crowd.n_tasks) * _signs(start)
        partnered = shared.any(0)
        return np.where(partnered, s, s[partnered].mean() if partnered.any() else 0.5)

    def _completed(self, X: FloatArray, shared: Mask, start: FloatArray, n_tasks: int) -> FloatArray:
        """(R,) u, with u u^T about X where ``shared``, by iteration from ``start``."""
        F = max(int(shared.sum(0).min()) // 2 - 1, 0) if len(X) else 0
        floor = 1 / np.sqrt(max(n_tasks, 1))
        u = v = start
        self.converged_ = False
        for iteration in range(1, self.n_iter + 1):
            self.n_iter_ = iteration
            before = np.outer(u, v)
            v = _reduced_means(X, u, v, shared, F, floor)
            u = _reduced_means(X, v, u, shared, F, floor)
            change = float(np.linalg.norm(np.outer(u, v) - before))
            if change <= self.tol:
                self.converged_ = True
                break
        else:
            warn(
                f"MMSR has not converged after {self.n_iter} iterations (last change {change:.1e}); raise n_iter, "
                "or tol",
                ConvergenceWarning,
            )
        size = np.linalg.norm(u)
        return u * np.sqrt(np.linalg.norm(v) / size) if size > 0 else u


def _corrected_agreement(crowd: Annotations) -> tuple[FloatArray, Mask]:
    """(R, R) agreement of pairs corrected for chance, and which pairs share tasks; nobody is paired with himself."""
    C, R = crowd.n_classes, crowd.n_annotators
    one_hot = Votes(crowd).by_task
    by_class = [one_hot[:, c::C] for c in range(C)]
    same = sum((part.T @ part).toarray() for part in by_class) + np.zeros((R, R))
    given = sum(by_class)
    common = (given.T @ given).toarray()
    np.fill_diagonal(common, 0)
    share = same / np.maximum(common, 1)
    return (C * share - 1) / (C - 1), common > 0


def _reduced_means(X: FloatArray, u: FloatArray, v: FloatArray, shared: Mask, F: int, floor: float) -> FloatArray:
    """(R,) means of X[:, j] / u without up to F values below and F above the present v[j]; v[j] without values."""
    ratio = np.where(shared, X / np.where(u > 0, u, floor)[:, None], np.inf)
    below = ((ratio < v) & shared).sum(0)
    above = ((ratio > v) & shared).sum(0)
    rank = np.arange(len(X))[:, None]
    kept = (rank >= np.minimum(below, F)) & (rank < shared.sum(0) - np.minimum(above, F))
    total = np.where(kept, np.sort(ratio, axis=0), 0.0).sum(0)
    number_kept = kept.sum(0)
    means = np.where(number_kept > 0, total / np.maximum(number_kept, 1), v)
    return np.where((number_kept == 1) & (means == 0), floor, means)


def _leading(X: FloatArray) -> FloatArray:
    """(R,) the leading eigenvector, times the root of its eigenvalue: the best rank-one fit if all pairs were known."""
    values, vectors = np.linalg.eigh(X)
    return np.asarray(vectors[:, -1] * np.sqrt(max(values[-1], 0.0)))


def _signs(start: FloatArray) -> FloatArray:
    """(R,) 1 or -1 as in the start, mostly 1."""
    signs = np.where(np.abs(start) < NO_SKILL, 0.0, np.sign(start))
    signs *= -1.0 if signs.sum() < 0 else 1.0
    return np.where(signs == 0, 1.0, signs)


def _log_odds(skill: FloatArray, C: int) -> FloatArray:
    """Logarithm of the odds of a label being right, against each other class."""
    return np.zeros_like(skill) if C < 2 else np.asarray(np.log((C - 1) * skill / (1 - skill)))
