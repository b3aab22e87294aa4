"""Minimax conditional entropy: labels depend on scores of the annotator and of the task."""

from __future__ import annotations

import math
from typing import Annotated, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy

from conal._arrays import BoolArray, FloatArray, grouped_sums
from conal._system import kernel
from conal.aggregation.base import register
from conal.aggregation.counts import Votes, class_shares, normalised, softmax
from conal.aggregation.em import EMAggregator, climb
from conal.aggregation.engines import Engine, Expectation
from conal.data.annotations import Annotations
from conal.parameters import Doc, number, parameters

# Labels by scores of the annotator and of the task: probabilities, and Newton steps on the scores of one kind.

COMPILED_FROM = 20_000
"""Number of annotations times squared classes from which compiled loops repay the time they take to load."""

Codes = npt.NDArray[np.integer]


def log_prob(scores: FloatArray, labels: Codes) -> FloatArray:
    """(A,) log-probability of the labels by scores (A, C): log softmax."""
    return np.asarray(scipy.special.log_softmax(scores, axis=1)[np.arange(len(labels)), labels])


class Kind(NamedTuple):
    """Scores of one kind, annotators or tasks, for one true class, and the labels that they explain together.

    Attributes
    ----------
    whose, others, labels : (A,)
        Whose each label is, the codes of the other kind, and the labels.
    """

    whose: Codes
    others: Codes
    labels: Codes

    def log_evidence(self, own: FloatArray, other: FloatArray, weights: FloatArray) -> FloatArray:
        """(B,) weighted sum of the log-probabilities of the labels, by scores (B, C) and those of the other kind."""
        if self._compiled(own):
            C, evidence = own.shape[1], np.zeros(len(own))
            _add_up(*self, weights, own, other, evidence, np.empty((0, C)), np.empty((0, C, C)))
            return evidence
        scores = own[self.whose] + other[self.others]
        return grouped_sums(self.whose, weights * log_prob(scores, self.labels), len(own))

    def better(self, own: FloatArray, other: FloatArray, weights: FloatArray, penalty: float) -> FloatArray:
        """A Newton step on all scores (B, C), each halved where its penalised evidence would fall."""

        def objective(own: FloatArray) -> FloatArray:
            return np.asarray(self.log_evidence(own, other, weights) - 0.5 * penalty * (own**2).sum(1))

        gradient, curvature = self._slopes(own, other, weights)
        gradient -= penalty * own
        curvature += penalty * np.eye(own.shape[1])
        step = np.asarray(np.linalg.solve(curvature, gradient[:, :, None])[:, :, 0], dtype=np.float64)
        return climb(objective, own, step)

    def _slopes(self, own: FloatArray, other: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(B, C) gradient and (B, C, C) curvature of the evidence: sums of weight (1[y] - p) and (diag p - p p^T)."""
        B, C = own.shape
        if self._compiled(own):
            gradient, curvature = np.zeros((B, C)), np.zeros((B, C, C))
            _add_up(*self, weights, own, other, np.zeros(B), gradient, curvature)
            return gradient, curvature
        p = np.exp(scipy.special.log_softmax(own[self.whose] + other[self.others], axis=1))
        expected = weights[:, None] * p
        missing = -expected
        missing[np.arange(len(p)), self.labels] += weights
        columns = [grouped_sums(self.whose, expected * p[:, [k]], B) for k in range(C)]
        diagonal = grouped_sums(self.whose, expected, B)[:, :, None] * np.eye(C)
        return grouped_sums(self.whose, missing, B), diagonal - np.stack(columns, axis=2)

    def _compiled(self, own: FloatArray) -> bool:
        return len(self.labels) * own.shape[1] ** 2 >= COMPILED_FROM and _add_up.usable


@kernel
def _add_up(  # type: ignore[no-untyped-def]  # pragma: no cover
    whose, others, labels, weights, own, other, evidence, gradient, curvature
):
    """Add to ``evidence`` (B,), and to ``gradient`` (B, C) and ``curvature`` (B, C, C), which are empty if not wanted.

    See :meth:`Kind.log_evidence` and :meth:`Kind._slopes`.
    """
    C = own.shape[1]
    p = np.empty(C)
    for a in range(len(labels)):
        weight = weights[a]
        if weight == 0.0:
            continue
        b, o, y = whose[a], others[a], labels[a]
        top = -math.inf
        for k in range(C):
            top = max(top, own[b, k] + other[o, k])
        total = 0.0
        for k in range(C):
            p[k] = math.exp(own[b, k] + other[o, k] - top)
            total += p[k]
        evidence[b] += weight * (own[b, y] + other[o, y] - top - math.log(total))
        if len(gradient) == 0:
            continue
        for k in range(C):
            p[k] /= total
        gradient[b, y] += weight
        for k in range(C):
            gradient[b, k] -= weight * p[k]
            curvature[b, k, k] += weight * p[k]
            for m in range(C):
                curvature[b, k, m] -= weight * p[k] * p[m]


# Minimax conditional entropy: what annotators say depends on scores of the annotator and of the task.

GAMMAS = (0.125, 0.25, 0.5, 1.0)
"""Values of ``gamma`` that "auto" chooses from."""
PSEUDO_LABELS = 0.1
"""Labels in every cell of a confusion matrix that is counted."""


class Scores(NamedTuple):
    """Scores ``[.., true, observed]`` of annotators, ``sigma`` (R, C, C), and of tasks, ``tau`` (N, C, C).

    ``alpha`` and ``beta`` say how firmly they are held near zero.
    """

    sigma: FloatArray
    tau: FloatArray
    alpha: float
    beta: float


@register("minimax-entropy")
@parameters
class MinimaxEntropy(EMAggregator[Scores]):
    r"""Confusion that depends on the annotator and on the task, by the minimax conditional entropy principle.

    Dawid-Skene gives an annotator one confusion matrix for all tasks. But some tasks look like a particular other
    class, to everybody. Here the labels have the largest entropy given the classes, among all distributions that match
    two kinds of counts: how often each annotator says l where c is true, and how often each task is called l where it
    is c. The classes are those for which this entropy is least. The distribution is then a product of an annotator's
    and a task's confusion:

    .. math::
        P(y_i^r = l \mid z_i = c) = \frac{\exp(\sigma^r_{cl} + \tau^i_{cl})}
        {\sum_{l'} \exp(\sigma^r_{cl'} + \tau^i_{cl'})}, \qquad
        q_i(c) \propto \prod_r P(y_i^r \mid z_i = c)

    .. math::
        \max_{\sigma, \tau} \sum_i \log \sum_c \tfrac1C \prod_r P(y_i^r \mid z_i = c)
        - \tfrac\alpha2 \sum_r \|\sigma^r\|^2 - \tfrac\beta2 \sum_i \|\tau^i\|^2, \qquad
        \alpha = (\gamma C)^2, \quad \beta = \alpha N / R

    The second line is the dual of the minimax problem, with counts matched up to a tolerance that the penalties stand
    for. N and R count the tasks and annotators with labels. The M-step has no closed form: it makes a Newton step on
    the rows of all :math:`\sigma`, then on those of all :math:`\tau`, each halved where its own objective would fall.
    So the objective never falls. Classes count as equally frequent beforehand.

    Use it where tasks have many labels, and some mislead many annotators. Not where one class is far more
    frequent than the others, and not in a hurry: it is the slowest one.

    Attributes
    ----------
    gamma_ : float
        :math:`\gamma`, as it was given or chosen.
    sigma_ : (R, C, C)
        ``sigma_[r, c, l]``, the scores of annotators; 0 without labels.
    tau_ : (N, C, C)
        ``tau_[i, c, l]``, the scores of tasks: above 0 where the task tempts annotators to say l.
    confusion_ : (R, C, C)
        ``confusion_[r, c, l]`` = share of l among the annotator's labels of class c, by the posterior: the counts that
        the model matches.
    class_prior_ : (C,)
        Shares of the classes by the posterior.
    skills_ : (R,)
        Expected share of right labels, sum_c class_prior_[c] confusion_[r, c, c].

    References
    ----------
    Zhou, Platt, Basu and Mao (2012). Learning from the wisdom of crowds by minimax entropy. Advances in Neural
    Information Processing Systems 25.

    Zhou, Liu, Platt and Meek (2014). Aggregating ordinal labels from crowds by minimax conditional entropy. ICML.

    Examples
    --------
    >>> from conal import Annotations
    >>> crowd = Annotations.from_matrix([[0, 0, 1], [1, 1, 0], [0, 0, 1], [1, 1, 1]])
    >>> MinimaxEntropy().fit(crowd).labels_.tolist()
    [0, 1, 0, 1]
    """

    quick = False

    n_iter: int = 500

    gamma: Annotated[
        float | Literal["auto"],
        number(above=0),
        Doc(
            r":math:`\gamma`, how firmly all scores are held near zero. 'auto' takes the greatest of 1/8, 1/4, 1/2 "
            "and 1 under which held-out labels are not clearly less probable than under the best (authors: 0.5)."
        ),
    ] = "auto"

    def _numbers(self, crowd: Annotations) -> float:
        return 10 * (crowd.n_tasks + crowd.n_annotators) * crowd.n_classes**2

    # ---------------------------------------------------------------- how firmly scores are held

    def learn(self, engine: Engine[Scores]) -> FloatArray:
        """Choose gamma, if that is asked for, and run EM."""
        self.gamma_ = self._strongest(engine, "gamma", GAMMAS) if isinstance(self.gamma, str) else self.gamma
        return super().learn(engine)

    def _held_out_scores(self, crowd: Annotations, held_out: BoolArray, posterior: FloatArray) -> FloatArray:
        """Log-probability of each held-out label, by the scores and the posterior from the other labels."""
        tasks, annotators, labels = crowd.tasks[held_out], crowd.annotators[held_out], crowd.labels[held_out]
        given = np.zeros(len(labels))
        for c in range(crowd.n_classes):
            given += posterior[tasks, c] * np.exp(log_prob(self.sigma_[annotators, c] + self.tau_[tasks, c], labels))
        return np.log(given)

    def _penalties(self, votes: Votes) -> tuple[float, float]:
        crowd, C = votes.annotations, votes.shape[2]
        N, R = (max(int((given > 0).sum()), 1) for given in (crowd.labels_per_task(), crowd.labels_per_annotator()))
        alpha = (self.gamma_ * C) ** 2
        return alpha, alpha * N / R

    # ---------------------------------------------------------------- the steps

    def _m_step(self, votes: Votes, expectation: Expectation, previous: Scores | None) -> Scores:
        crowd, (N, R, C) = votes.annotations, votes.shape
        sigma, tau, alpha, beta = previous or Scores(np.zeros((R, C, C)), np.zeros((N, C, C)), *self._penalties(votes))
        sigma, tau = sigma.copy(), tau.copy()
        annotators = Kind(crowd.annotators, crowd.tasks, crowd.labels)
        tasks = Kind(crowd.tasks, crowd.annotators, crowd.labels)
        for c in range(C):
            weights = expectation.posterior[crowd.tasks, c]
            sigma[:, c] = annotators.better(sigma[:, c], tau[:, c], weights, alpha)
            tau[:, c] = tasks.better(tau[:, c], sigma[:, c], weights, beta)
        return Scores(sigma, tau, alpha, beta)

    def _log_joint(self, votes: Votes, parameters: Scores) -> FloatArray:
        crowd, C = votes.annotations, votes.shape[2]
        sigma, tau, ones = parameters.sigma, parameters.tau, np.ones(crowd.n_annotations)
        tasks = Kind(crowd.tasks, crowd.annotators, crowd.labels)
        by_class = [tasks.log_evidence(tau[:, c], sigma[:, c], ones) for c in range(C)]
        return np.asarray(np.stack(by_class, axis=1) - np.log(C))

    def _log_prior(self, parameters: Scores) -> float:
        sigma, tau, alpha, beta = parameters
        return -0.5 * float(alpha * (sigma**2).sum() + beta * (tau**2).sum())

    def _adopt(self, votes: Votes, parameters: Scores) -> None:
        self.sigma_, self.tau_ = parameters.sigma, parameters.tau
        posterior = softmax(self._log_joint(votes, parameters))
        self.class_prior_ = class_shares(posterior)
        self.confusion_ = normalised(votes.counts(posterior) + PSEUDO_LABELS)
