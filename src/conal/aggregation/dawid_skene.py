"""Dawid and Skene's model and its relatives: a confusion matrix per annotator, true labels as latent variables."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy

from conal._arrays import FloatArray
from conal.aggregation.base import register
from conal.aggregation.counts import (
    Votes,
    divergence,
    expected_log,
    logarithm,
    mostly_right,
    normalised,
    one_coin,
    ranks_of,
    softmax,
)
from conal.aggregation.em import MatrixAggregator, Run, Start, extrapolated
from conal.aggregation.engines import CompiledEngine, Engine, Expectation, SparseEngine, Sums
from conal.data.annotations import Annotations
from conal.data.encoding import MISSING
from conal.errors import ConvergenceWarning, DataWarning, warn
from conal.parameters import Doc, number, parameters

# Spectral start of Dawid-Skene: confusion matrices from how labels of three groups of annotators occur together.
#
# Annotators are dealt to three groups a, b, c. :math:`Z_a` (C,) is the mean of the labels, as unit vectors, that group
# a gave a task. Given the class, groups are independent. So with :math:`M_a` the mean confusion matrix of group a
# (observed class by row, true class by column) and :math:`w` the class shares,
#
# .. math::
#     \mathrm E\, Z_a Z_b^\top = M_a \operatorname{diag}(w) M_b^\top, \qquad
#     Z'_a = \mathrm E[Z_c Z_b^\top]\, \mathrm E[Z_a Z_b^\top]^{-1} Z_a, \qquad
#     Z'_b = \mathrm E[Z_c Z_a^\top]\, \mathrm E[Z_b Z_a^\top]^{-1} Z_b
#
# .. math::
#     \mathrm E\, Z'_a Z_b'^\top = \sum_l w_l\, \mu_l \mu_l^\top, \qquad
#     \mathrm E\, Z'_a \otimes Z'_b \otimes Z_c = \sum_l w_l\, \mu_l \otimes \mu_l \otimes \mu_l
#
# for the columns :math:`\mu_l` of :math:`M_c`: whitening by the first makes the second a sum of orthogonal terms, which
# the tensor power method finds. An annotator's matrix then follows from the labels that occur with those of the two
# other groups. Expectations are means over the tasks that all groups in question labelled.
#
# References
# ----------
# Zhang, Chen, Zhou and Jordan (2016). Spectral methods meet EM: a provably optimal algorithm for crowdsourcing. Journal
# of Machine Learning Research 17.

LEAST = 1e-6
"""No probability is taken as smaller."""
SINGULAR = 1e-6
"""A matrix of moments whose smallest singular value is below this share of the largest cannot be inverted."""
POWER_STARTS, POWER_STEPS = 20, 100
"""Random starts and steps of the tensor power method, for each class."""

Groups = npt.NDArray[np.int64]


class NoMoments(ValueError):  # noqa: N818 - a reason, not a defect
    """Why a crowd has no spectral start."""


class Moments(NamedTuple):
    """Of the means of the labels of three groups: pairs (C, C) by both groups, and all three (C, C, C)."""

    ca: FloatArray
    cb: FloatArray
    ab: FloatArray
    abc: FloatArray


def spectral_confusion(votes: Votes, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Class shares (C,) and confusion matrices (R, C, C), ``[r, true, observed]``; NoMoments where there are none."""
    _, R, C = votes.shape
    if int((votes.annotations.labels_per_annotator() > 0).sum()) < 3:
        raise NoMoments("fewer than three annotators have labels")
    groups = _dealt(votes, rng)
    Z = _means(votes, groups)
    found = [_group_confusion(Z[(c + 1) % 3], Z[(c + 2) % 3], Z[c], rng) for c in range(3)]
    w = np.maximum(np.mean([shares / shares.sum() for shares, _ in found], axis=0), LEAST)
    matrices = np.empty((R, C, C))
    for g in range(3):
        others = [(Z[h], found[h][1]) for h in range(3) if h != g]
        matrices[groups == g] = _annotator_confusion(votes, others, w / w.sum())[groups == g]
    return w / w.sum(), matrices


def _dealt(votes: Votes, rng: np.random.Generator) -> Groups:
    """(R,) three groups with about as many labels each: the busiest annotators are dealt first, in turn."""
    given = votes.annotations.labels_per_annotator()
    shuffled = np.argsort(ranks_of(votes.annotations).annotators)[rng.permutation(len(given))]
    busiest_first = shuffled[np.argsort(-given[shuffled], kind="stable")]
    groups = np.empty(len(given), dtype=np.int64)
    groups[busiest_first] = np.resize([0, 1, 2, 2, 1, 0], len(given))
    return groups


def _means(votes: Votes, groups: Groups) -> list[FloatArray]:
    """Of each group (N, C): shares of the labels that it gave a task; all zero where it gave none."""
    crowd, (N, _, C) = votes.annotations, votes.shape
    means = []
    for g in range(3):
        mine = groups[crowd.annotators] == g
        cells = crowd.tasks[mine].astype(np.int64) * C + crowd.labels[mine]
        counts = np.bincount(cells, minlength=N * C).reshape(N, C)
        means.append(counts / np.maximum(counts.sum(1, keepdims=True), 1))
    return means


# ---------------------------------------------------------------- the matrix of a group


def _group_confusion(
    Z_a: FloatArray, Z_b: FloatArray, Z_c: FloatArray, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Class shares (C,) and the mean matrix of group c, (observed, true)."""
    weights, columns = decomposed(moments_of(Z_a, Z_b, Z_c), rng)
    columns = np.maximum(columns, LEAST)
    columns /= columns.sum(0)
    from scipy.optimize import linear_sum_assignment  # loading it takes a quarter of a second

    _, true = linear_sum_assignment(columns, maximize=True)  # the column that speaks most for each class, all different
    return weights[true], columns[:, true]


def moments_of(Z_a: FloatArray, Z_b: FloatArray, Z_c: FloatArray) -> Moments:
    """Means over the tasks that all groups in question labelled."""
    a, b, c = (Z.sum(1) > 0 for Z in (Z_a, Z_b, Z_c))
    all_three = a & b & c
    if not all_three.any():
        raise NoMoments("no task has labels of three groups of annotators")
    third = np.einsum("ia,ib,ic->abc", Z_a[all_three], Z_b[all_three], Z_c[all_three], optimize=True)
    return Moments(
        ca=Z_c.T @ Z_a / (c & a).sum(),
        cb=Z_c.T @ Z_b / (c & b).sum(),
        ab=Z_a.T @ Z_b / (a & b).sum(),
        abc=third / all_three.sum(),
    )


def decomposed(moments: Moments, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Class shares (C,) and the columns (C, C) of group c's matrix, in any order."""
    ca, cb, ab, abc = moments
    to_c_from_a, to_c_from_b = cb @ _inverse(ab), ca @ _inverse(ab.T)
    second = to_c_from_a @ ab @ to_c_from_b.T
    values, vectors = np.linalg.eigh((second + second.T) / 2)
    if values[0] < SINGULAR * values[-1]:
        raise NoMoments("some classes cannot be told apart by which labels occur together")
    whitening, back = vectors / np.sqrt(values), vectors * np.sqrt(values)
    tensor = np.einsum("abc,ax,by,cz->xyz", abc, to_c_from_a.T @ whitening, to_c_from_b.T @ whitening, whitening)
    strengths, directions = _tensor_eigenvectors(_symmetric(tensor), rng)
    return strengths**-2.0, back @ (directions * strengths)


def _inverse(matrix: FloatArray) -> FloatArray:
    singular = np.linalg.svd(matrix, compute_uv=False)
    if singular[-1] <= SINGULAR * singular[0]:
        raise NoMoments("some classes cannot be told apart by which labels occur together")
    return np.asarray(np.linalg.inv(matrix), dtype=np.float64)


def _symmetric(tensor: FloatArray) -> FloatArray:
    """The mean over all orders of the three axes; they differ by noise only."""
    orders = ((0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0))
    return np.asarray(np.mean([tensor.transpose(order) for order in orders], axis=0))


def _tensor_eigenvectors(tensor: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Strengths (C,) and directions (C, C), by column, of a sum of orthogonal terms: power method and deflation."""
    C = len(tensor)
    strengths, directions = np.empty(C), np.empty((C, C))
    for k in range(C):
        u = _unit(rng.normal(size=(POWER_STARTS, C)))
        for _ in range(POWER_STEPS):
            u = _unit(np.einsum("abc,sb,sc->sa", tensor, u, u))
        strength = np.einsum("abc,sa,sb,sc->s", tensor, u, u, u)
        best = int(strength.argmax())
        if strength[best] <= SINGULAR:
            raise NoMoments("some classes cannot be told apart by which labels occur together")
        strengths[k], directions[:, k] = strength[best], u[best]
        tensor = tensor - strengths[k] * np.einsum("a,b,c->abc", u[best], u[best], u[best])
    return strengths, directions


def _unit(vectors: FloatArray) -> FloatArray:
    return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.finfo(float).tiny))


# ---------------------------------------------------------------- the matrices of the annotators


def _annotator_confusion(votes: Votes, others: list[tuple[FloatArray, FloatArray]], w: FloatArray) -> FloatArray:
    """(R, C, C) true by observed, from labels of groups that the annotators do not belong to, and their matrices."""
    _, R, C = votes.shape
    found = np.zeros((R, C, C))
    for Z, matrix in others:
        together = np.asarray(votes.by_annotator @ Z).reshape(R, C, C)  # own label by label of the group
        n_tasks = np.maximum(together.sum((1, 2), keepdims=True), 1)
        found += _inverse(matrix * w) @ (together / n_tasks).transpose(0, 2, 1)
    found = np.maximum(found, LEAST)
    return np.asarray(found / found.sum(-1, keepdims=True))


# Dawid and Skene's model: a confusion matrix per annotator, and the true labels as latent variables.

INFERRED_TASKS = 50
"""Tasks that the class shares of inferred labels count beside those of known truth."""
SMOOTHING = 0.5
"""Pseudo-labels in every cell by inferred labels, so that true labels meet no zero."""


class Confusions(NamedTuple):
    """Class prior (C,) and confusion matrices (R, C, C), ``pi_r[r, c, l] = P(observe l | true c)``."""

    rho: FloatArray
    pi_r: FloatArray


@register("dawid-skene")
@parameters
class DawidSkene(MatrixAggregator[Confusions]):
    r"""A confusion matrix for every annotator, by maximum likelihood and EM.

    A task's class is drawn from :math:`\rho`. Annotator r labels class c as l with probability :math:`\pi^r_{cl}`:

    .. math::
        q_i(c) \propto \rho_c \prod_{r} \pi^r_{c, y_i^r}, \qquad
        \pi^r_{cl} = \frac{\sum_{i : y_i^r = l} q_i(c) + \alpha}{\sum_{i, l'} q_i(c) [y_i^r = l'] + C \alpha}, \qquad
        \rho_c = \tfrac1N \sum_i q_i(c)

    Cost per iteration scales with the number of labels times classes.

    True labels of some tasks are certain in every step. Where annotators err together, EM takes shared mistakes for the
    truth, and a few true labels among many inferred ones change little. In the end they therefore count anew: with
    :math:`t^r_{cl}` the labels on tasks of known truth, and :math:`\hat\pi^r, \hat\rho` by the other tasks,

    .. math::
        \pi^r_{cl} = \frac{t^r_{cl} + m \hat\pi^r_{cl}}{\sum_{l'} t^r_{cl'} + m}, \qquad
        \rho_c \propto \sum_{i \text{ known}} [z_i = c] + 50 \hat\rho_c

    (m = ``inferred_labels``) and the posterior follows from these.

    Use it where annotators gave many labels each and confuse particular classes: it is fast, and on public crowds no
    other single model is more accurate on average. Where annotators have few labels of a class, ``backoff`` borrows
    from the crowd; where tasks mislead many, ``minimax-entropy`` and ``multidimensional`` describe the tasks too. The
    spectral start mostly leads to the same labels as the votes, and takes longer; try it where you suspect the
    majority.

    Attributes
    ----------
    confusion_ : (R, C, C)
        ``confusion_[r, c, l]`` = P(observed l | true c): true before observed.
    class_prior_ : (C,)
    skills_ : (R,)
        Expected share of right labels, sum_c rho_c pi_r[c, c].

    References
    ----------
    Dawid and Skene (1979). Maximum likelihood estimation of observer error-rates using the EM algorithm. Applied
    Statistics 28, 20-28.

    Zhang, Chen, Zhou and Jordan (2016). Spectral methods meet EM: a provably optimal algorithm for crowdsourcing.
    Journal of Machine Learning Research 17 (``start="spectral"``).

    Examples
    --------
    >>> from conal import Annotations
    >>> crowd = Annotations.from_matrix([[0, 0, 1], [1, 1, 0], [0, 0, 1], [1, 1, 1]])
    >>> DawidSkene().fit(crowd).labels_.tolist()
    [0, 1, 0, 1]
    """

    sums_suffice = True
    remedies: ClassVar[Sequence[Mapping[str, Any]]] = (
        {"class_prior": "labels"},
        {"class_prior": "labels", "prior": 1.0},
    )

    prior: Annotated[
        float,
        number(at_least=0),
        Doc(
            r"Number of pseudo-labels :math:`\alpha` in every cell: the mode under a Dirichlet(:math:`1 + \alpha`) "
            r"prior on every row. 0 is maximum likelihood. A row without labels is uniform. A small prior does not "
            r"keep a rare class from taking hard tasks, it helps it to; ``guard`` notices."
        ),
    ] = 0.0
    accelerate: Annotated[
        bool,
        Doc(
            "Try a longer step after every iteration (SQUAREM), and take it unless the objective falls. It reaches "
            "the same result in fewer iterations. With ``tol=0``, exactly ``n_iter`` plain steps are made."
        ),
    ] = True

    class_prior: Annotated[
        Literal["estimate", "labels"],
        Doc(
            r"'estimate' takes :math:`\rho_c = \frac1N \sum_i q_i(c)`. 'labels' takes the shares of the labels, for "
            "crowds where the estimate puts all tasks into one class."
        ),
    ] = "estimate"

    start: Annotated[
        Literal["votes", "spectral"],
        Doc(
            "Where the first run starts. 'votes': the vote shares. 'spectral': matrices from how labels of three "
            "groups of annotators occur together, which do not rely on the majority being right. It needs many tasks "
            "with labels of several annotators, and ``seed`` deals the groups. Where there is no such start, a "
            "warning says so, and the votes are used."
        ),
    ] = "votes"

    inferred_labels: Annotated[
        float | None,
        number(above=0),
        Doc(
            "Number of labels m that every row of a matrix by inferred labels counts in the end, beside the labels on "
            "tasks of known truth; None leaves it at EM, where a true label counts as much as an inferred one."
        ),
    ] = 15.0

    def _starts(self) -> list[Start]:
        votes, *random = super()._starts()
        return [Start("spectral", self._by_spectrum) if self.start == "spectral" else votes, *random]

    def _by_spectrum(self, engine: Engine[Confusions]) -> FloatArray:
        """The posterior under the spectral matrices."""
        try:
            found = spectral_confusion(engine.votes, np.random.default_rng(self.seed))
        except NoMoments as why:
            warn(f"{self.name}: no spectral start, because {why}; it starts from the votes", DataWarning)
            return self._initialize(engine.votes, None)
        return softmax(self._log_joint(engine.votes, Confusions(*found)))

    def engine(self, votes: Votes, known: npt.NDArray[np.int64]) -> Engine[Confusions]:
        """A compiled pass if the crowd is large and there is a compiler, sparse products otherwise."""
        return CompiledEngine(votes, known) if CompiledEngine.pays(votes) else super().engine(votes, known)

    def _keep(self, engine: Engine[Confusions], best: Run[Confusions]) -> FloatArray:
        posterior = super()._keep(engine, best)
        if self.inferred_labels is None:
            return posterior
        truth = engine.start(np.zeros_like(posterior)).sums  # of tasks whose class is known, in all processes
        if not truth.shares.any():
            return posterior
        parameters = _beside_truth(truth, best.expectation.sums, self.inferred_labels)
        self._adopt(engine.votes, parameters)
        return engine.expect(parameters).posterior

    def _m_step(self, votes: Votes, expectation: Expectation, previous: Confusions | None) -> Confusions:
        counts, shares, n_tasks = expectation.sums
        if self.class_prior == "labels":
            given = counts.sum((0, 1))  # summed over true classes, so the labels of all processes
            return Confusions(given / max(given.sum(), 1), self._confusion(counts))
        return Confusions(shares / max(n_tasks, 1), self._confusion(counts))

    def _extrapolation(self) -> Callable[[Confusions, Confusions, Confusions], Confusions] | None:
        return (lambda *three: Confusions(*extrapolated(*three))) if self.accelerate else None

    def _confusion(self, counts: FloatArray) -> FloatArray:
        return normalised(counts + self.prior)

    def _log_parts(self, parameters: Confusions) -> tuple[FloatArray, FloatArray]:
        return logarithm(parameters.rho), logarithm(parameters.pi_r)

    def _log_prior(self, parameters: Confusions) -> float:
        return float(scipy.special.xlogy(self.prior, parameters.pi_r).sum()) if self.prior else 0.0

    def _adopt(self, votes: Votes, parameters: Confusions) -> None:
        self.class_prior_, self.confusion_ = parameters


def _beside_truth(truth: Sums, everything: Sums, inferred_labels: float) -> Confusions:
    """Matrices and class prior by tasks of known truth, drawn to those by all other tasks."""
    inferred = normalised(everything.counts - truth.counts + SMOOTHING)
    counts = truth.counts + inferred_labels * inferred
    shares = truth.shares + INFERRED_TASKS * normalised(everything.shares - truth.shares + SMOOTHING)
    return Confusions(normalised(shares), normalised(counts))


@register("one-coin")
@parameters
class OneCoinDawidSkene(DawidSkene):
    r"""Dawid-Skene with one number per annotator: right with probability :math:`p_r`.

    A wrong label is any of the other classes, with equal probability:

    .. math::
        \pi^r_{cl} = p_r \text{ if } l = c \text{ else } \frac{1 - p_r}{C - 1}, \qquad
        p_r = \frac{\sum_i q_i(y_i^r) + \alpha}{n_r + 2 \alpha}

    It has far fewer parameters. Use it where annotators gave few labels and no class is confused with a particular
    other one. Elsewhere it loses classes: on juries of language models it is among the least accurate.
    """

    remedies = ({"class_prior": "labels"},)

    inferred_labels: float | None = None

    prior: Annotated[
        float,
        number(at_least=0),
        Doc(
            r"Number of pseudo-labels :math:`\alpha`, right and wrong alike: the mode under a "
            r"Beta(:math:`1 + \alpha, 1 + \alpha`) prior."
        ),
    ] = 0.0

    def _confusion(self, counts: FloatArray) -> FloatArray:
        C = counts.shape[-1]
        right = np.einsum("rcc->r", counts) + self.prior
        total = counts.sum((1, 2)) + 2 * self.prior
        return one_coin(np.where(total > 0, right / np.where(total > 0, total, 1.0), 1.0 / C), C)

    def _log_prior(self, parameters: Confusions) -> float:
        skill = parameters.pi_r[:, 0, 0]
        return float((scipy.special.xlogy(self.prior, skill) + scipy.special.xlogy(self.prior, 1 - skill)).sum())


def posterior_by_dawid_skene(votes: Votes, known: npt.NDArray[np.int64], prior: float = 0.0) -> FloatArray:
    """(N, C) posterior of Dawid and Skene's model, as a start for others; whether it has converged does not matter."""
    model = DawidSkene(prior=prior, inferred_labels=None, verbose=False)
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        return model.learn(model.engine(votes, known))


# Dawid and Skene's model with the uncertainty of its parameters: variational Bayes.


class Beliefs(NamedTuple):
    """Dirichlet parameters of the class prior, ``rho`` (C,), and of every row of the matrices, ``pi_r`` (R, C, C)."""

    rho: FloatArray
    pi_r: FloatArray


@register("bayes-dawid-skene")
@parameters
class BayesianDawidSkene(MatrixAggregator[Beliefs]):
    r"""Dawid-Skene with distributions over the confusion matrices: Bayesian classifier combination.

    Maximum likelihood trusts the matrix of an annotator with two labels as much as that of one with two thousand. Here
    every row of a matrix has a distribution, which is wide where labels are few, and predictions average over it:

    .. math::
        \pi^r_{c \cdot} \sim \mathrm{Dirichlet}(\alpha_{c \cdot}), \qquad
        \alpha_{cl} = \alpha_\text{right} \text{ if } l = c \text{ else } \alpha_\text{wrong}, \qquad
        \rho \sim \mathrm{Dirichlet}(1)

    .. math::
        \hat\alpha^r_{cl} = \alpha_{cl} + \sum_{i : y_i^r = l} q_i(c), \qquad
        q_i(c) \propto \exp \Bigl( \mathrm E \log \rho_c + \sum_r \mathrm E \log \pi^r_{c, y_i^r} \Bigr), \qquad
        \mathrm E \log \pi^r_{cl} = \psi(\hat\alpha^r_{cl}) - \psi \bigl( \textstyle\sum_{l'} \hat\alpha^r_{cl'} \bigr)

    The objective is the evidence lower bound; it never falls. Use it where annotators gave few labels each: on
    simulated crowds with two or three labels per task it is more accurate than ``dawid-skene``. Not with many classes
    and weak annotators, nor where many make the same mistakes: its fixed prior holds matrices near "mostly right".
    ``backoff`` learns the prior.

    Attributes
    ----------
    confusion_ : (R, C, C)
        ``confusion_[r, c, l]`` = mean of P(observed l | true c): true before observed.
    class_prior_ : (C,)
    skills_ : (R,)
        Expected share of right labels, sum_c rho_c confusion_[r, c, c].

    References
    ----------
    Kim and Ghahramani (2012). Bayesian classifier combination. AISTATS.

    Simpson, Roberts, Psorakis and Smith (2013). Dynamic Bayesian combination of multiple imperfect classifiers.
    Decision Making and Imperfection, Springer.

    Examples
    --------
    >>> from conal import Annotations
    >>> crowd = Annotations.from_matrix([[0, 0, 1], [1, 1, 0], [0, 0, 1], [1, 1, 1]])
    >>> BayesianDawidSkene().fit(crowd).labels_.tolist()
    [0, 1, 0, 1]
    """

    n_iter: int = 500
    tol: float = 1e-6

    prior_right: Annotated[
        float,
        number(above=0),
        Doc(r":math:`\alpha_\text{right}`, on the diagonal. The defaults say that a label is more likely right."),
    ] = 3.0
    prior_wrong: Annotated[float, number(above=0), Doc(r":math:`\alpha_\text{wrong}`, off the diagonal.")] = 1.0

    def _m_step(self, votes: Votes, expectation: Expectation, previous: Beliefs | None) -> Beliefs:
        prior = mostly_right(votes.shape[2], self.prior_right, self.prior_wrong)
        return Beliefs(1.0 + expectation.shares, prior + expectation.counts)

    def _log_parts(self, parameters: Beliefs) -> tuple[FloatArray, FloatArray]:
        return expected_log(parameters.rho), expected_log(parameters.pi_r)

    def _log_prior(self, parameters: Beliefs) -> float:
        """The parameters' part of the evidence lower bound: -KL of their distributions from the priors."""
        C = len(parameters.rho)
        prior = mostly_right(C, self.prior_right, self.prior_wrong)
        return -float(divergence(parameters.rho, np.ones(C)) + divergence(parameters.pi_r, prior).sum())

    def _adopt(self, votes: Votes, parameters: Beliefs) -> None:
        self.class_prior_, self.confusion_ = (part / part.sum(-1, keepdims=True) for part in parameters)


# Fast Dawid-Skene: every task counts for its most probable class alone.


class HardEngine(SparseEngine[Confusions]):
    """E-steps that give every task its most probable class; the evidence is that of these classes."""

    def start(self, posterior: FloatArray) -> Expectation:
        """The most probable classes by a guess at the posterior."""
        return super().start(np.eye(posterior.shape[1])[posterior.argmax(1)])

    def expect(self, parameters: Confusions) -> Expectation:
        """The most probable classes under the parameters."""
        joint = self.log_joint(parameters)
        codes = np.where(self.known == MISSING, joint.argmax(1), self.known)
        evidence = joint[np.arange(len(joint)), codes].sum()
        return self._expectation(float(evidence), np.eye(joint.shape[1])[codes])


@register("fast-dawid-skene")
@parameters
class FastDawidSkene(DawidSkene):
    r"""Dawid-Skene with hard assignments, which ends after a few iterations.

    Each iteration counts every task for its most probable class alone, from the majority vote on:

    .. math::
        \hat z_i = \arg\max_c \rho_c \prod_r \pi^r_{c, y_i^r}, \qquad
        \pi^r_{cl} = \frac{\sum_{i : y_i^r = l} [\hat z_i = c] + \alpha}{\sum_{i : r} [\hat z_i = c] + C \alpha},
        \qquad \rho_c = \tfrac1N \sum_i [\hat z_i = c]

    The objective is the likelihood of the labels together with the assigned classes,
    :math:`\sum_i \log \rho_{\hat z_i} \prod_r \pi^r_{\hat z_i, y_i^r}`, plus the log-prior; it never falls. It ends
    when no label changes any more.

    Labels stay nearer to the majority vote than those of ``dawid-skene``, which is rarely slow here: its steps are
    compiled and accelerated. Use it as a quick first look, not where annotators are weak, as on juries of language
    models.

    Attributes
    ----------
    probas_ : (n_tasks, n_classes)
        The posterior under the last parameters; its most probable classes are the assigned ones.
    confusion_, class_prior_, skills_
        As for :class:`DawidSkene`.

    References
    ----------
    Sinha, Rao and Balasubramanian (2018). Fast Dawid-Skene: a fast vote aggregation scheme for sentiment
    classification. KDD workshop on issues of sentiment discovery and opinion mining.

    Examples
    --------
    >>> from conal import Annotations
    >>> crowd = Annotations.from_matrix([[0, 0, 1], [1, 1, 0], [0, 0, 1], [1, 1, 1]])
    >>> FastDawidSkene().fit(crowd).labels_.tolist()
    [0, 1, 0, 1]
    """

    sums_suffice = False

    accelerate: bool = False
    inferred_labels: float | None = None

    def engine(self, votes: Votes, known: npt.NDArray[np.int64]) -> Engine[Confusions]:
        """Hard assignments by sparse products."""
        return HardEngine(votes, known, partial(self._log_joint, votes))

    def _aggregate(self, crowd: Annotations, known: npt.NDArray[np.int64]) -> FloatArray:
        super()._aggregate(crowd, known)
        soft = MatrixAggregator.engine(self, Votes(crowd), known)
        return soft.expect(Confusions(self.class_prior_, self.confusion_)).posterior
