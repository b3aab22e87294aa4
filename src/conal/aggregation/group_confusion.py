"""Group confusion: what everybody confuses, what a group of annotators does, and what one of them does."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy

from conal._arrays import BoolArray, FloatArray
from conal.aggregation.base import Aggregator, register
from conal.aggregation.clustering import by_size, first_communities
from conal.aggregation.common_confusion import Backoff, Communities, fixed_point, memberships
from conal.aggregation.counts import Votes, log_normaliser, normalised, vote_shares
from conal.aggregation.em import Start
from conal.aggregation.engines import Engine, Expectation
from conal.aggregation.held_out import PARTS, TRIAL, held_out_scores, scores_of_all
from conal.data.annotations import Annotations
from conal.data.annotator_info import AnnotatorInfo, in_order_of
from conal.data.encoding import spelling
from conal.errors import ConvergenceWarning, InputError
from conal.parameters import Constraint, Doc, number, parameters, parameters_of, whole

# Groups of annotators by merging: those whose labels one matrix explains best become one, again and again.

MOST = 200
"""Annotators that are merged: those with the most labels. Pairs of all are too many in a large crowd."""


def merged_groups(counts: FloatArray, alpha: FloatArray, n: int) -> npt.NDArray[np.int64]:
    r"""(R,) the group of every annotator, from 0 to at most n - 1; -1 for annotators who were not merged.

    Every annotator starts alone. The two groups a and b whose merging raises the evidence most, or lowers it least,
    become one until n are left (:math:`n_{cl}` are a group's expected labels, B is the multivariate beta function):

    .. math::
        \sum_c \log \mathrm B(\alpha_{c \cdot} + n^a_{c \cdot} + n^b_{c \cdot}) + \log \mathrm B(\alpha_{c \cdot})
        - \log \mathrm B(\alpha_{c \cdot} + n^a_{c \cdot}) - \log \mathrm B(\alpha_{c \cdot} + n^b_{c \cdot})

    Parameters
    ----------
    counts : (R, C, C)
        Expected labels of every annotator, ``[r, true, observed]``.
    alpha : (C, C)
        Dirichlet parameters of a row of a group's matrix.
    n : int
        Number of groups.

    References
    ----------
    Heller and Ghahramani (2005). Bayesian hierarchical clustering. ICML.

    Examples
    --------
    >>> able, other = np.array([[9.0, 1.0], [1.0, 9.0]]), np.array([[5.0, 5.0], [5.0, 5.0]])
    >>> merged_groups(np.stack([able, other, able, other]), np.ones((2, 2)), 2).tolist()
    [0, 1, 0, 1]
    """
    chosen = np.sort(np.argsort(-counts.sum((1, 2)), kind="stable")[:MOST])
    groups = np.full(len(counts), -1, dtype=np.int64)
    groups[chosen] = np.arange(len(chosen))
    pooled = counts[chosen].copy()
    evidence = _evidence(pooled, alpha)
    gains = np.full((len(chosen), len(chosen)), -np.inf)  # of merging b into a, a < b
    for k in range(len(chosen)):
        gains[k, k + 1 :] = _evidence(pooled[k] + pooled[k + 1 :], alpha) - evidence[k] - evidence[k + 1 :]
    for _ in range(len(chosen) - n):
        a, b = divmod(int(gains.argmax()), len(chosen))
        groups[groups == b] = a
        pooled[a] += pooled[b]
        evidence[a] = _evidence(pooled[a], alpha)
        gains[b], gains[:, b] = -np.inf, -np.inf
        left = np.setdiff1d(np.unique(groups[chosen]), a)
        gain = _evidence(pooled[a] + pooled[left], alpha) - evidence[a] - evidence[left]
        gains[np.minimum(a, left), np.maximum(a, left)] = gain
    groups[chosen] = np.unique(groups[chosen], return_inverse=True)[1]
    return groups


def _evidence(counts: FloatArray, alpha: FloatArray) -> FloatArray:
    """Logarithm of the probability of a group's expected labels (..., C, C)."""
    return np.asarray((log_normaliser(alpha + counts) - log_normaliser(alpha)).sum(-1))


# Group confusion: what everybody confuses, what a family of annotators does, and what one of them does.

# Accuracy and learned groups on 80 simulated crowds of three families: studies/results/0.2.0/families.csv.
MOST_GROUPS = 5
"""The largest number of groups that "auto" tries."""
FIRST_POOLING = 1.0
"""Pooling of the groups to the crowd before it is learned."""
EASE = 0.02
"""h, rate of the prior of a group's pooling: 50 labels of a class before anything is known."""
EASE_OF_GROUPS = 1 / FIRST_POOLING
"""The same for the pooling of the groups."""
FIT_STEPS = 50
"""Steps on the pooling of the groups."""


class Membership(NamedTuple):
    """Names of the groups, and (R,) the position of every annotator's."""

    names: tuple[str, ...]
    codes: npt.NDArray[np.int64]


def _groups() -> Constraint:
    def holds(value: Any) -> bool:
        given = isinstance(value, Mapping | Sequence) and not isinstance(value, str)
        return value is None or value == "auto" or whole(1).holds(value) or given

    return Constraint("None, 'auto', a number of groups, or the group of every annotator", holds)


class Choices:
    """What is settled before EM; not parameters of the constructor."""

    n_groups_: int
    pooling_: float
    _stated: Membership | None = None
    """The groups that the user states."""
    _first_guess: FloatArray | None = None
    """The posterior to start from, where it is known already."""


@register("group-confusion")
@parameters
class GroupConfusion(Choices, Backoff):
    r"""Three levels of confusion: the crowd's, a group's and an annotator's, each drawn to the one above.

    The rows of an annotator's matrix are drawn from Dirichlet distributions around the matrix of the annotator's group,
    :math:`\mu^k`, and the groups' matrices are drawn to a common one, :math:`\mu^0`
    (:math:`n^r_{cl} = \sum_{i : y_i^r = l} q_i(c)`; group k has the members r; :math:`\alpha^k = b_k \mu^k`):

    .. math::
        \pi^r_{c \cdot} \sim \mathrm{Dirichlet}(b_k \mu^k_{c \cdot}), \qquad
        b_k \sim \mathrm{Gamma}(2, h)

    .. math::
        \log P(\mu^0, \mu^1, ...) = - \sum_{k, c} \bigl[ A\, \mathrm{KL}(\mu^0_{c \cdot} \,\|\, \mu^k_{c \cdot})
        + A_0\, \mathrm{KL}(a_{c \cdot} \,\|\, \mu^k_{c \cdot}) \bigr]
        - A_0 \sum_c \mathrm{KL}(\mu^0_{c \cdot} \,\|\, a_{c \cdot})

    .. math::
        m^k_{cl} = \alpha^k_{cl} \sum_r [\psi(\alpha^k_{cl} + n^r_{cl}) - \psi(\alpha^k_{cl})], \quad
        \mu^k_{cl} \propto m^k_{cl} + A\, \mu^0_{cl} + A_0\, a_{cl}, \quad
        b_k = \frac{\sum_{c, l} m^k_{cl} + 1}{\sum_{c, r} [\psi(b_k + n^r_{c \cdot}) - \psi(b_k)] + h}, \quad
        \mu^0_{cl} \propto \Bigl( a_{cl}^{A_0} \prod_k (\mu^k_{cl})^A \Bigr)^{1 / (A K + A_0)}

    How much is pooled is learned. :math:`b_k` is the number of labels of a class from which on an annotator's own
    matrix outweighs the group's; it is learned with the matrices. A is the same for a group and the crowd: of a group's
    labels, :math:`m^k_{cl}` count as independent, and A is the one under which these are most probable, by a first fit
    (:func:`pooling_of`). The objective is the evidence lower bound, with the priors; it never falls.

    Groups are given (``groups`` or ``annotator_info``), or learned. Then annotators whose labels one matrix explains
    best are merged until K groups are left, and EM refines who belongs where, as in ``cbcc``. Held-out labels choose K.
    It is the group-wise confusion that the paper names as future work.

    Use it where annotators come in families that err alike and have few labels each: on simulated crowds of three
    families, it is well above ``common-confusion`` and ``backoff`` if the families are given. Groups that it learns are
    the families where annotators have many labels, if their number is given; held-out labels often take two families
    that differ little for one. With fewer labels, groups whose number is learned too bring little. Juries of language
    models with hundreds of labels per judge do not need it.

    Attributes
    ----------
    common_confusion_ : (C, C)
        What everybody confuses, :math:`\mu^0`: ``common_confusion_[c, l]`` = P(observed l | true c).
    group_confusion_ : (G, C, C)
        What a group confuses, :math:`\mu^k`.
    groups_ : tuple of str
        Names of the groups; learned ones are called group 1, group 2, ... from the largest to the smallest.
    group_of_ : (R,)
        The group of every annotator, as a position in ``groups_``.
    membership_ : (R, G)
        ``membership_[r, k]`` = q(annotator r is in group k); 0 or 1 where groups are given.
    alpha_ : (G, C, C)
        :math:`\alpha^k`, the Dirichlet parameters of members' matrices.
    n_groups_ : int
        K, which may be more than the groups that have members.
    pooling_ : float
        A, how many independent labels of a class a group's matrix needs to outweigh the common one.
    individual_pooling_ : (G,)
        :math:`b_k`, how many labels of a class an annotator's own matrix needs to outweigh the group's.
    confusion_ : (R, C, C)
        What an annotator confuses, the mean of :math:`\pi`: ``confusion_[r, c, l]`` = P(observed l | true c).
    class_prior_ : (C,)
    skills_ : (R,)
        Expected share of right labels, sum_c rho_c confusion_[r, c, c].

    References
    ----------
    Chu, Ma, Wang. Learning from Crowds by Modeling Common Confusions. AAAI 2021. (Groups are its future work.)

    Minka (2000). Estimating a Dirichlet distribution. MIT.

    Examples
    --------
    >>> from conal import Annotations
    >>> crowd = Annotations.from_matrix([[0, 0, 0, 1, 1], [1, 1, 1, 0, 1]] * 10)
    >>> fitted = GroupConfusion(groups=["a", "a", "a", "b", "b"]).fit(crowd)
    >>> fitted.labels_[:2].tolist(), fitted.groups_, fitted.group_of_.tolist()
    ([0, 1], ('a', 'b'), [0, 0, 0, 1, 1])
    """

    groups: Annotated[
        Any,
        _groups(),
        Doc(
            "Who belongs together: a mapping from annotator to group, a list in the order of the annotators, the "
            f"number of groups to learn, or 'auto', the number up to {MOST_GROUPS} under which held-out labels are "
            "most probable. None takes the groups of ``annotator_info``, and is 'auto' where there are none."
        ),
    ] = None
    pooling: Annotated[
        float | Literal["auto"],
        number(above=0),
        Doc(
            "A, the number of labels of the common kind that are added to every row of a group's matrix: the higher, "
            "the more of its labels distinguish a group from the crowd. 'auto' learns it."
        ),
    ] = "auto"
    prior_strength: Annotated[
        float,
        number(above=0),
        Doc(
            "A_0, the same for a prior of all these matrices: a, which has the proportions of ``prior_right`` on the "
            "diagonal and ``prior_wrong`` elsewhere."
        ),
    ] = 1.0

    # ---------------------------------------------------------------- who belongs together, and how much is pooled

    def _numbers(self, crowd: Annotations) -> float:
        return super()._numbers(crowd) + 10 * crowd.n_annotations * crowd.n_classes  # where each label comes from

    def learn(self, engine: Engine[Communities]) -> FloatArray:
        """Choose the number of groups and the pooling, if that is asked for, and run EM."""
        self._stated = self._given(engine.votes.annotations)
        self.pooling_ = FIRST_POOLING if self.pooling == "auto" else self.pooling
        self.n_groups_ = self._number(engine)
        if self.pooling == "auto" and self.n_groups_ > 1:
            self.pooling_ = self._learned_pooling(engine)
        return super().learn(engine)

    def _given(self, crowd: Annotations) -> Membership | None:
        """The groups that the user states; None if they are to be learned."""
        groups = self.groups
        if groups is None:
            return None if self.annotator_info_ is None else _coded(self.annotator_info_)
        if not isinstance(groups, Mapping | Sequence) or isinstance(groups, str):
            return None
        if isinstance(groups, Mapping):
            names = list(groups.values())
            groups = [names[k] for k in in_order_of(crowd, list(groups), "groups")]
        if len(groups) != crowd.n_annotators:
            raise InputError(
                f"groups has {len(groups):,} entries for {crowd.n_annotators:,} annotators; pass one for each, in "
                "their order, or a mapping from annotator to group"
            )
        return _coded(AnnotatorInfo(crowd.annotator_ids, tuple(spelling(name) for name in groups)))

    def _number(self, engine: Engine[Communities]) -> int:
        """Number of groups: given, or the one under which held-out labels are most probable."""
        if self._stated is not None:
            return len(self._stated.names)
        if self.groups not in (None, "auto"):
            return int(self.groups)
        crowd = engine.votes.annotations
        start: FloatArray | None = None

        def scores(n: int, rest: Annotations, held_out: BoolArray) -> FloatArray:
            nonlocal start
            votes = Votes(rest)
            start = self._by_backoff(votes, engine.known) if n == 1 else start  # 1 comes first, and all start there
            trial = self._trial(groups=n, pooling=self.pooling_)
            trial._first_guess = start
            posterior = trial.learn(trial.engine(votes, engine.known))
            return held_out_scores(crowd, held_out, posterior, trial.confusion_)

        numbers = range(1, min(MOST_GROUPS, crowd.n_annotators) + 1)
        found = scores_of_all(crowd, numbers, scores, self.seed, parts=PARTS)
        return max(found, key=lambda n: found[n].sum())  # of equal ones the smallest

    def _learned_pooling(self, engine: Engine[Communities]) -> float:
        """The pooling under which the independent labels of the groups are most probable, by a first fit."""
        groups = self.n_groups_ if self._stated is None else [self._stated.names[k] for k in self._stated.codes]
        trial = self._trial(groups=groups, pooling=self.pooling_)
        trial._first_guess = self._first_guess
        with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
            trial.learn(engine)
        tables, _ = fixed_point(trial.alpha_, trial.membership_, trial._counts)
        return pooling_of(tables, trial.common_confusion_, self.pooling_)

    def _trial(self, **chosen: Any) -> GroupConfusion:
        return type(self)(**self.get_params() | TRIAL | chosen)

    def again(self) -> Aggregator:
        """As for all, with the number of groups and the pooling that were found; given groups go by name."""
        if not hasattr(self, "pooling_"):
            return super().again()
        groups, stated = self.groups, self._given(self.annotations_)
        if stated is None:
            groups = self.n_groups_
        elif groups is not None:
            names = [stated.names[k] for k in stated.codes]
            groups = dict(zip(self.annotator_ids_.tolist(), names, strict=True))
        return type(self)(**self.get_params() | {"groups": groups, "pooling": self.pooling_, "verbose": False})

    # ---------------------------------------------------------------- the start

    def _starts(self) -> list[Start]:
        """The posterior of ``backoff`` instead of the votes, and random starts if there are ``n_restarts``."""
        _, *random = super()._starts()
        return [Start("backoff", self._guess), *random]

    def _guess(self, engine: Engine[Communities]) -> FloatArray:
        guess = self._first_guess
        return self._by_backoff(engine.votes, engine.known) if guess is None else guess.copy()

    def _by_backoff(self, votes: Votes, known: npt.NDArray[np.int64]) -> FloatArray:
        """(N, C) posterior of the model without groups; whether it has converged does not matter."""
        shared = {name: value for name, value in self.get_params().items() if name in parameters_of(Backoff)}
        model = Backoff(**shared | TRIAL)
        with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
            return model.learn(model.engine(votes, known))

    def _initialize(self, votes: Votes, rng: np.random.Generator | None) -> FloatArray:
        return vote_shares(votes.annotations, None if self._stated is None else rng)  # or starts differ in their groups

    def _start_of_communities(
        self, votes: Votes, expectation: Expectation, rng: np.random.Generator | None
    ) -> tuple[FloatArray, FloatArray]:
        modes, counts = self._modes(votes.shape[2]), expectation.counts
        if self._stated is not None:
            return self._members(self._stated.codes), np.repeat(modes[None], self.n_groups_, axis=0)
        if rng is not None:
            return first_communities(votes, expectation, modes, self.n_groups_, rng)
        merged = self._members(merged_groups(counts, modes, self.n_groups_))
        alpha = normalised(np.einsum("rk,rcl->kcl", merged, counts) + modes) * modes.sum(-1)[:, None]
        return memberships(np.full(self.n_groups_, 1 / self.n_groups_), alpha, counts), alpha

    def _members(self, codes: npt.NDArray[np.int64]) -> FloatArray:
        """(R, K) 1 where an annotator is in a group; nowhere for a code of -1."""
        return np.asarray(codes[:, None] == np.arange(self.n_groups_), dtype=np.float64)

    # ---------------------------------------------------------------- the steps

    def _memberships(self, previous: Communities, counts: FloatArray) -> FloatArray:
        return super()._memberships(previous, counts) if self._stated is None else previous.membership

    def _better_alpha(self, alpha: FloatArray, membership: FloatArray, counts: FloatArray) -> FloatArray:
        """A step on the groups' matrices and on the pooling of their members, after the common matrix."""
        return self._alpha_of(alpha, *fixed_point(alpha, membership, counts))

    def _alpha_of(self, alpha: FloatArray, gained: FloatArray, spent: FloatArray) -> FloatArray:
        """The same step, from the sums of the fixed-point iteration."""
        prior = self.prior_strength * normalised(self._modes(alpha.shape[-1]))
        means = normalised(gained + self.pooling_ * self._common(alpha) + prior)
        sizes = (gained.sum((1, 2)) + 1.0) / (spent.sum(1) + EASE)
        return np.asarray(means * sizes[:, None, None])

    def _common(self, alpha: FloatArray) -> FloatArray:
        """(C, C) the common matrix: given the groups', the one that raises the objective most."""
        return normalised(np.exp(self._log_common(alpha)))

    def _log_common(self, alpha: FloatArray) -> FloatArray:
        """(C, C) weighted mean of the logarithms of the groups' matrices and of the prior."""
        A, A_0 = self.pooling_, self.prior_strength
        logs = A * np.log(normalised(alpha)).sum(0) + A_0 * np.log(normalised(self._modes(alpha.shape[-1])))
        return np.asarray(logs / (A * len(alpha) + A_0))

    def _log_prior_of(self, alpha: FloatArray) -> float:
        """With the best common matrix: the divergences from it are the logarithms of its rows' sums."""
        sizes, prior = alpha[:, 0].sum(-1), normalised(self._modes(alpha.shape[-1]))
        apart = (self.pooling_ * len(alpha) + self.prior_strength) * scipy.special.logsumexp(
            self._log_common(alpha), axis=-1
        ).sum()
        apart += self.prior_strength * (prior * np.log(normalised(alpha))).sum()
        return float(apart + (np.log(sizes) - EASE * sizes).sum())

    # ---------------------------------------------------------------- the results

    def _adopt(self, votes: Votes, parameters: Communities) -> None:
        super()._adopt(votes, parameters)
        order = np.arange(self.n_groups_) if self._stated is not None else self._by_size(parameters)
        self.alpha_, self._counts = parameters.alpha[order], parameters.counts
        self.common_confusion_, self.group_confusion_ = self._common(parameters.alpha), normalised(self.alpha_)
        self.individual_pooling_ = self.alpha_[:, 0].sum(-1)
        self.membership_ = parameters.membership[:, order]
        self.group_of_: npt.NDArray[np.int64] = self.membership_.argmax(1)
        self.groups_ = (
            tuple(f"group {k}" for k in range(1, len(order) + 1)) if self._stated is None else self._stated.names
        )

    def _by_size(self, parameters: Communities) -> npt.NDArray[np.int64]:
        """The groups that have members, from the largest to the smallest; of equal ones the more skilful first."""
        sizes = np.bincount(parameters.membership.argmax(1), minlength=self.n_groups_)
        order = by_size(sizes, self.class_prior_, normalised(parameters.alpha))
        return order[sizes[order] > 0]


def pooling_of(tables: FloatArray, common: FloatArray, start: float) -> float:
    r"""The pooling A under which the groups' independent labels are most probable.

    It is Minka's fixed-point iteration for the concentration of Dirichlet-multinomial distributions, with a
    Gamma prior; each step raises their probability.

    .. math::
        A \leftarrow \frac{\sum_{k, c, l} A \mu^0_{cl} [\psi(A \mu^0_{cl} + m^k_{cl}) - \psi(A \mu^0_{cl})] + 1}
        {\sum_{k, c} [\psi(A + m^k_{c \cdot}) - \psi(A)] + h_0}

    Parameters
    ----------
    tables : (K, C, C)
        Labels of every group that count as independent, :math:`m^k_{cl}`.
    common : (C, C)
        The common matrix.
    start : float

    Examples
    --------
    >>> common = np.array([[0.7, 0.3], [0.3, 0.7]])
    >>> alike, apart = 90 * np.stack([common] * 3), np.array([[[90.0, 0], [0, 90]], [[40, 50], [60, 30]]])
    >>> pooling_of(alike, common, 1.0) > 5 * pooling_of(apart, common, 1.0)
    True
    """
    found = start
    for _ in range(FIT_STEPS):
        gained, spent = fixed_point(found * common[None], np.ones((len(tables), 1)), tables)
        found = float((gained.sum() + 1.0) / (spent.sum() + EASE_OF_GROUPS))
    return found


def _coded(info: AnnotatorInfo) -> Membership | None:
    found = info.coded_groups()
    return None if found is None else Membership(*found)


# Three levels of confusion for labels that any model inferred: everybody's, a group's and an annotator's.

LEVEL_FIT_STEPS = 15
FIRST_SIZE = 50.0
"""Pseudo-labels in a row of a group's :math:`\\alpha` before the first step, as its prior expects."""
FIRST_SLOPE, FLATTEST = -0.3, -0.005
LONGEST = 1.0
"""Logarithm of the largest factor of one step."""
STILL = 1e-9


class Levels(NamedTuple):
    r"""The matrices of :class:`conal.aggregation.GroupConfusion`, for expected labels that stay as they are.

    Parameters
    ----------
    common : (C, C)
        :math:`\mu^0`, what everybody confuses.
    alpha : (K, C, C)
        :math:`\alpha^k`: its proportions are what a group confuses, and there is as much of it as the labels say that
        members are alike. ``alpha[codes]`` are pseudo-labels that draw the annotators' matrices to their groups'.
    independent : (K, C)
        How many labels of tasks of every class tell about a group: as many as its members gave if they are alike, and
        far fewer if they are not.
    """

    common: FloatArray
    alpha: FloatArray
    independent: FloatArray

    @property
    def groups(self) -> FloatArray:
        """(K, C, C) what each group confuses."""
        return normalised(self.alpha)


def levels_of(counts: FloatArray, codes: npt.NDArray[np.int64]) -> Levels:
    """Fit the matrices of the crowd and of its groups to expected labels.

    Parameters
    ----------
    counts : (R, C, C)
        Expected labels ``[annotator, true, observed]``.
    codes : (R,)
        The group of every annotator, from 0. Every group has a member.

    Examples
    --------
    >>> counts = np.array([[[80.0, 20.0], [10.0, 90.0]]] * 3 + [[[40.0, 60.0], [50.0, 50.0]]] * 3)
    >>> found = levels_of(counts, np.array([0, 0, 0, 1, 1, 1]))
    >>> found.groups[:, 0].round(1).tolist(), found.common[0].round(1).tolist()
    ([[0.8, 0.2], [0.4, 0.6]], [0.7, 0.3])
    """
    model = GroupConfusion()
    n_groups = model.n_groups_ = int(codes.max()) + 1
    model.pooling_ = FIRST_POOLING
    members = [counts[codes == k] for k in range(n_groups)]
    prior = normalised(model._modes(counts.shape[-1]))
    alpha = FIRST_SIZE * normalised(np.stack([own.sum(0) + prior for own in members]))
    sizes = SecantSteps(n_groups)
    for _ in range(LEVEL_FIT_STEPS):
        found = model._alpha_of(alpha, *_sums(alpha, members))
        alpha = normalised(found) * sizes.after(alpha[:, 0].sum(-1), found[:, 0].sum(-1))[:, None, None]
    return Levels(model._common(alpha), alpha, _sums(alpha, members)[0].sum(-1))


class SecantSteps:
    r"""Longer steps on positive numbers :math:`b_k` whose fixed-point iteration creeps.

    With :math:`\phi = \log b' - \log b`, the change by the iteration, the next is :math:`\log b - \phi / s`, where s is
    the slope of :math:`\phi` over the last two steps. The fixed points stay the same.

    >>> sizes, b = SecantSteps(1), np.array([1.0])
    >>> for _ in range(6):
    ...     b = sizes.after(b, b * (100 / b) ** 0.01)  # alone, this needs 500 steps to come near 100
    >>> b.round(2).tolist()
    [100.0]
    """

    def __init__(self, n: int) -> None:
        self.slopes = np.full(n, FIRST_SLOPE)
        self.before: tuple[FloatArray, FloatArray] | None = None

    def after(self, sizes: FloatArray, found: FloatArray) -> FloatArray:
        """The next numbers (K,), where the iteration finds these."""
        place = np.log(sizes)
        change = np.log(found) - place
        if self.before is not None:
            moved = place - self.before[0]
            there = np.abs(moved) > STILL
            slopes = (change - self.before[1]) / np.where(there, moved, 1.0)
            self.slopes = np.where(there, np.clip(slopes, -1.0, FLATTEST), self.slopes)
        self.before = (place, change)
        return np.asarray(np.exp(place + np.clip(-change / self.slopes, -LONGEST, LONGEST)))


def _sums(alpha: FloatArray, members: list[FloatArray]) -> tuple[FloatArray, FloatArray]:
    """The sums of the fixed-point iteration: every annotator counts for the own group alone."""
    each = [fixed_point(own[None], np.ones((len(some), 1)), some) for own, some in zip(alpha, members, strict=True)]
    gained, spent = zip(*each, strict=True)
    return np.concatenate(gained), np.concatenate(spent)
