"""Scores of items from pairwise preferences: Bradley and Terry's model, annotators, and biases that all share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import scipy

from conal._arrays import FloatArray, grouped_sums
from conal.data.encoding import MISSING, decode_position, name_column
from conal.data.preferences import LEFT, RIGHT, TIE, Preferences
from conal.errors import ConvergenceWarning, DataWarning, InputError, examples, people, warn
from conal.parameters import Doc, check_parameters, number, parameters, share, whole

Contrasts = Callable[[npt.NDArray[np.int64]], FloatArray]
Self = TypeVar("Self", bound="BradleyTerry")

POSITION, TIES = "position", "tie"
"""Names of the shared parameters beside covariates."""
TRUE_SCALE = 4.0
"""How reliable a true winner is, where annotators have 1 on average."""
TIE_PRECISION = 1e-3
CHUNK_COLUMNS = 256
"""Contrasts whose variances are computed at a time."""
CHUNK_ANNOTATORS = 2048
"""Columns of annotators that are dense at a time."""
MOST_DENSE_ITEMS = 4000
MIN_CURVATURE = 1e-12
NEARLY_ALL = 1 - 1e-6
"""Share of a covariate's squares from which on items explain all of it."""


class _Values(NamedTuple):
    """All parameters of the model."""

    items: FloatArray
    reliability: FloatArray
    position: FloatArray
    shared: FloatArray
    tie: float


@dataclass(frozen=True, eq=False)
class _Rows:
    """Comparisons as the model sees them; ``free`` is 0 for true winners, which no annotator gave, and 1 otherwise."""

    left: npt.NDArray[np.int32]
    right: npt.NDArray[np.int32]
    winner: npt.NDArray[np.int8]
    annotators: npt.NDArray[np.int32]
    clusters: npt.NDArray[np.int32]
    free: FloatArray
    shared: FloatArray
    """(P, K) what all annotators share: 1 for the position, and covariates in units of their spread."""


@dataclass(frozen=True, eq=False)
class _Problem:
    """The log posterior of all parameters in one vector: items, annotators' reliability and position, shared, ties."""

    rows: _Rows
    n_items: int
    n_annotators: int
    """0 where annotators have no parameters of their own."""
    precision: FloatArray
    has_ties: bool

    @property
    def n_shared(self) -> int:
        return int(self.rows.shared.shape[1])

    @property
    def size(self) -> int:
        return self.n_items + 2 * self.n_annotators + self.n_shared + self.has_ties

    @cached_property
    def mean(self) -> FloatArray:
        """The prior mean, which is also the start: reliability 1, and 0 elsewhere."""
        mean = np.zeros(self.size)
        mean[self.n_items : self.n_items + self.n_annotators] = 1.0
        return mean

    def values(self, vector: FloatArray) -> _Values:
        """The parameters by name; an annotator without own ones has reliability 1."""
        M, A = self.n_items, self.n_annotators
        ends = np.cumsum([M, A, A, self.n_shared])
        items, reliability, position, shared, tie = np.split(vector, ends)
        if not A:
            n = int(self.rows.annotators.max()) + 1
            reliability, position = np.ones(n), np.zeros(n)
        return _Values(items, reliability, position, shared, float(tie[0]) if self.has_ties else -np.inf)

    def scores(self, vector: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """(P,) each: the log-odds that left wins, the difference of the items, and what multiplies it."""
        rows, values = self.rows, self.values(vector)
        difference = values.items[rows.left] - values.items[rows.right]
        scale = np.where(rows.free > 0, values.reliability[rows.annotators], TRUE_SCALE)
        bias = rows.free * (values.position[rows.annotators] + rows.shared @ values.shared)
        return scale * difference + bias, difference, scale

    def objective(self, vector: FloatArray) -> float:
        """Log-likelihood plus log prior, without its constant."""
        log_p = log_probabilities(self.scores(vector)[0], self.values(vector).tie)
        chosen = log_p[1 - self.rows.winner, np.arange(len(self.rows.winner))]
        return float(chosen.sum() - 0.5 * (self.precision * (vector - self.mean) ** 2).sum())

    def residuals(self, vector: FloatArray) -> tuple[Any, FloatArray, FloatArray]:
        """The design (P, size) without its column of ties, and the derivatives by log-odds and by ties."""
        log_odds, difference, scale = self.scores(vector)
        left, tie, right = np.exp(log_probabilities(log_odds, self.values(vector).tie))
        by_odds = (self.rows.winner - (left - right)) / 2
        return self._design(difference, scale, np.zeros(len(scale))), by_odds, (self.rows.winner == TIE) - tie

    def gradient(self, vector: FloatArray) -> FloatArray:
        """(size,) of the objective."""
        design, by_odds, by_tie = self.residuals(vector)
        gradient = design.T @ by_odds - self.precision * (vector - self.mean)
        if self.has_ties:
            gradient[-1] += by_tie.sum()
        return np.asarray(gradient)

    def information(self, vector: FloatArray) -> Any:
        """The expected information and the precision of the prior, sparse: positive definite everywhere."""
        log_odds, difference, scale = self.scores(vector)
        left, tie, right = np.exp(log_probabilities(log_odds, self.values(vector).tie))
        weight = np.maximum((left + right - (left - right) ** 2) / 4, MIN_CURVATURE)
        with_tie = -(left - right) * tie / 2
        design = self._design(difference, scale, with_tie / weight)
        diagonal = self.precision.copy()
        if self.has_ties:  # what is left of the ties' own information
            diagonal[-1] += np.maximum(tie * (1 - tie) - with_tie**2 / weight, 0).sum()
        weighted = design.copy()
        weighted.data *= np.repeat(weight, np.diff(design.indptr))
        return (design.T @ weighted + scipy.sparse.diags_array(diagonal)).tocsc()

    def scatter(self, vector: FloatArray) -> tuple[Any, int]:
        """Sum over clusters of the outer products of their scores, sparse, and the number of clusters."""
        design, by_odds, by_tie = self.residuals(vector)
        design.data *= np.repeat(by_odds, np.diff(design.indptr))
        if self.has_ties:
            design.data[self._width() - 1 :: self._width()] = by_tie
        n_rows, n = len(by_odds), int(self.rows.clusters.max()) + 1
        groups = scipy.sparse.csr_array((np.ones(n_rows), (self.rows.clusters, np.arange(n_rows))), shape=(n, n_rows))
        summed = groups @ design
        return (summed.T @ summed).tocsr(), n

    def _width(self) -> int:
        return 2 + 2 * (self.n_annotators > 0) + self.n_shared + self.has_ties

    def _design(self, difference: FloatArray, scale: FloatArray, ties: FloatArray) -> Any:
        """(P, size) derivatives of the log-odds, sparse, with the given column of ties."""
        rows, free = self.rows, self.rows.free
        data = [scale, -scale]
        if self.n_annotators:
            data += [free * difference, free]
        data += [*(rows.shared.T * free), *([ties] if self.has_ties else [])]
        stacked = np.stack(data, axis=1)
        return scipy.sparse.csr_array(
            (stacked.ravel(), self._columns, np.arange(len(stacked) + 1) * stacked.shape[1]),
            shape=(len(stacked), self.size),
        )

    @cached_property
    def _columns(self) -> npt.NDArray[np.int32]:
        """The columns of the entries of the design, row by row."""
        rows, M, A = self.rows, self.n_items, self.n_annotators
        own = [M + rows.annotators, M + A + rows.annotators] if A else []
        common = [np.full(len(rows.left), k) for k in range(M + 2 * A, self.size)]
        return np.stack([rows.left, rows.right, *own, *common], axis=1).ravel().astype(np.int32)


def log_probabilities(log_odds: FloatArray, tie: float) -> FloatArray:
    """(3, P) log-probabilities that left wins, of a tie, and that right wins: Davidson's model.

    >>> np.exp(log_probabilities(np.array([0.0]), 0.0)).round(3).ravel().tolist()
    [0.333, 0.333, 0.333]
    """
    parts = np.stack([log_odds / 2, np.full(len(log_odds), tie), -log_odds / 2])
    return np.asarray(parts - np.logaddexp(np.logaddexp(parts[0], parts[2]), parts[1]))


@parameters
class BradleyTerry:
    r"""Scores of items from pairwise preferences: Bradley and Terry's model, with Davidson's ties.

    The left item l wins against the right item r with log-odds :math:`\eta = s_l - s_r`. If there are ties,

    .. math::
        P(\text{left}) \propto e^{\eta / 2}, \qquad P(\text{right}) \propto e^{-\eta / 2}, \qquad
        P(\text{tie}) \propto e^\nu

    Subclasses add what annotators do of their own, and what all of them do:

    .. math::
        \eta = a_k (s_l - s_r) + b_k + b + g^\top x

    where annotator k has the reliability :math:`a_k` (1 on average, 0 for guesses, below 0 if reversed) and the own
    position bias :math:`b_k`, and all share the position bias b and the weights g of covariates x. Scores are the mode
    of the posterior, by Newton's method with expected information; every step raises it.

    Intervals take comparisons of one task as dependent: they are the wider ones of the sandwich estimate clustered by
    task and of the model's own. A score and its interval are relative to the mean of the item's part: items that
    no comparisons link, not even indirectly, have no common order.

    Attributes
    ----------
    item_ids_, annotator_ids_ : arrays
        What the user called them.
    scores_ : (n_items,)
        Log-odds; the mean of every part is 0.
    parts_ : (n_items,)
        The connected part of each item.
    reliability_, position_bias_ : (n_annotators,)
        Of each annotator; the position bias is the shared one and its own together, in favour of the left item.
    shared_ : dict
        The shared position bias, the weight of each covariate per unit, and the log-odds of ties, as far as the model
        has them.
    objective_ : list of float
        The log posterior before every step, and at last.
    n_iter_, converged_
        How many steps were made, and whether that was enough.

    References
    ----------
    Bradley and Terry (1952). Rank analysis of incomplete block designs. Biometrika 39, 324-345.
    Davidson (1970). On extending the Bradley-Terry model to accommodate ties. JASA 65, 317-328.

    Examples
    --------
    >>> won = {"left": ["x", "y", "x", "x"], "right": ["y", "z", "z", "y"], "winner": ["x", "y", "x", "x"]}
    >>> pairs = Preferences.from_columns(worker=["ann", "bob", "ann", "bob"], **won)
    >>> BradleyTerry().fit(pairs).ranking()["item"].to_pylist()
    ['x', 'y', 'z']
    """

    individual: ClassVar[bool] = False
    """Whether annotators have a reliability and a position bias of their own."""
    shared: ClassVar[bool] = False
    """Whether all annotators share a position bias and weights of covariates."""

    prior: Annotated[
        float, number(above=0), Doc("Precision of the prior of scores and shared weights around 0; small is weak.")
    ] = 0.1
    own_prior: Annotated[
        float,
        number(above=0),
        Doc("Precision of the prior of annotators' reliability around 1, and of their own position bias around 0."),
    ] = 4.0
    confidence: Annotated[float, share(), Doc("Probability that an interval contains what it is about.")] = 0.95
    n_iter: Annotated[int, whole(1), Doc("Largest number of Newton steps.")] = 100
    tol: Annotated[float, number(at_least=0), Doc("Stop when a step would raise the log posterior by less.")] = 1e-6

    def fit(self: Self, preferences: Preferences, true_winners: Preferences | None = None) -> Self:
        """Learn scores from comparisons and, if there are any, true winners of the same items.

        A true winner counts as one comparison by somebody without bias who is four times as reliable as the average. A
        few of them do not turn a crowd that mostly errs. Their annotators, tasks and covariates do not matter.
        """
        check_parameters(self)
        self.preferences_, self.true_winners_ = preferences, true_winners
        self.item_ids_, self.annotator_ids_ = preferences.item_ids, preferences.annotator_ids
        rows, self._spread = self._rows(preferences, true_winners)
        self._problem = problem = self._pose(preferences, rows)
        self.parts_ = _parts(problem.n_items, rows)
        self._warn(preferences, problem)
        self._vector = self._newton(problem)
        values = problem.values(self._vector)
        self.scores_ = values.items - _means(values.items, self.parts_)[self.parts_]
        self.reliability_ = values.reliability
        self.position_bias_ = values.position + (values.shared[0] if self.shared else 0.0)
        self.shared_ = dict(zip(self._shared_names(), (self._vector / self._units())[self._at_shared()], strict=True))
        return self

    def predict_proba(self, preferences: Preferences) -> FloatArray:
        """(P, 3) probabilities that left wins, of a tie, and that right wins; unknown annotators count as average."""
        items = self._known_items(preferences)
        if self.shared and preferences.covariate_names != self.preferences_.covariate_names:
            raise InputError(f"pass the covariates {list(self.preferences_.covariate_names)}, as for fit")
        at = decode_position(self.annotator_ids_, preferences.annotator_ids)[preferences.annotators]
        values = self._problem.values(self._vector)
        scale = np.where(at == MISSING, 1.0, values.reliability[at])
        own = np.where(at == MISSING, 0.0, values.position[at])
        bias = _shared_columns(preferences, self._spread) @ values.shared if self.shared else 0.0
        difference = values.items[items[preferences.left]] - values.items[items[preferences.right]]
        return np.exp(log_probabilities(scale * difference + own + bias, values.tie)).T

    def score(self, preferences: Preferences) -> float:
        """Mean log-likelihood of comparisons; higher is better."""
        probabilities = self.predict_proba(preferences)[np.arange(len(preferences)), 1 - preferences.winner]
        return float(np.log(np.maximum(probabilities, np.finfo(float).tiny)).mean())

    def ranking(self) -> pa.Table:
        """Items by part and score, with intervals, and the probability that each is better than the next one."""
        order = np.lexsort((-self.scores_, self.parts_))
        parts, pairs = self.parts_[order], self.preferences_
        deviation, step = self._uncertainty.of(len(order), lambda chunk: self._item_contrasts(order[chunk]))
        last = np.append(np.diff(parts) > 0, True)
        drop = -np.diff(self.scores_[order], append=np.nan)
        above = scipy.special.ndtr(drop / np.where(last, 1.0, step))
        n, wins = self._wins(pairs)
        columns: dict[str, Any] = {"part": parts + 1, "rank": _ranks(parts), "item": name_column(self.item_ids_[order])}
        columns |= self._interval(self.scores_[order], deviation, "score")
        columns |= {"p_above_next": pa.array(above, mask=last), "n_comparisons": n[order].astype(np.int64)}
        return pa.table(columns | {"win_share": pa.array((wins / np.maximum(n, 1))[order], mask=n[order] == 0)})

    def annotators(self) -> pa.Table:
        """Every annotator's comparisons, share of ties, reliability and position bias, the latter with intervals."""
        pairs, n_annotators = self.preferences_, len(self.annotator_ids_)
        n = np.bincount(pairs.annotators, minlength=n_annotators)
        ties = grouped_sums(pairs.annotators, pairs.winner == TIE, n_annotators)
        columns: dict[str, Any] = {"worker": name_column(self.annotator_ids_), "n_comparisons": n}
        columns["tie_share"] = ties / np.maximum(n, 1)
        if self._problem.n_annotators:
            uncertainty = self._uncertainty
            first = self._problem.n_items
            deviation, _ = uncertainty.of(n_annotators, lambda chunk: self._unit_contrasts(first + chunk))
            columns |= self._interval(self.reliability_, deviation, "reliability")
            deviation, _ = uncertainty.of(n_annotators, self._position_contrasts)
            columns |= self._interval(self.position_bias_, deviation, "position_bias")
        return pa.table(columns)

    def shared_biases(self) -> pa.Table:
        """The shared position bias, the weight of each covariate, and the log-odds of ties, with intervals."""
        at = np.arange(self._problem.size)[self._at_shared()]
        deviation = self._uncertainty.of(len(at), lambda chunk: self._unit_contrasts(at[chunk]))[0] / self._units()[at]
        names = pa.array(self._shared_names(), pa.string())
        return pa.table({"bias": names} | self._interval(np.array(list(self.shared_.values())), deviation, "value"))

    def _rows(self, pairs: Preferences, true: Preferences | None) -> tuple[_Rows, FloatArray]:
        """The comparisons, those of true winners last, and the spread of each covariate."""
        spread = np.sqrt((pairs.covariates**2).mean(0))
        spread[spread == 0] = 1.0
        shared = _shared_columns(pairs, spread) if self.shared else np.zeros((len(pairs), 0))
        columns: list[Any] = [pairs.left, pairs.right, pairs.winner, pairs.annotators, pairs.tasks]
        if true is None:
            return _stacked(columns, np.ones(len(pairs)), shared), spread
        if true.has_ties:
            raise InputError("true_winners has ties; leave them out")
        items, n = self._known_items(true), len(true)
        zeros = np.zeros(n, dtype=np.int32)
        further: list[Any] = [
            items[true.left],
            items[true.right],
            true.winner,
            zeros,
            len(pairs.task_ids) + np.arange(n),
        ]
        both: list[Any] = [np.concatenate(each).astype(each[0].dtype) for each in zip(columns, further, strict=True)]
        free = np.concatenate([np.ones(len(pairs)), np.zeros(n)])
        return _stacked(both, free, np.concatenate([shared, np.zeros((n, shared.shape[1]))])), spread

    def _pose(self, pairs: Preferences, rows: _Rows) -> _Problem:
        """The problem with its prior; a single annotator has nothing of its own."""
        n_own = len(pairs.annotator_ids) if self.individual and len(pairs.annotator_ids) > 1 else 0
        precision = [self.prior, self.own_prior, self.prior, TIE_PRECISION]
        sizes = [len(pairs.item_ids), 2 * n_own, rows.shared.shape[1], int(pairs.has_ties)]
        return _Problem(rows, len(pairs.item_ids), n_own, np.repeat(precision, sizes), pairs.has_ties)

    def _newton(self, problem: _Problem) -> FloatArray:
        """The mode, by steps that are halved until they raise the objective enough."""
        vector, self.objective_ = problem.mean, [problem.objective(problem.mean)]
        self.n_iter_, self.converged_ = 0, False
        while self.n_iter_ < self.n_iter:
            self.n_iter_ += 1
            gradient = problem.gradient(vector)
            step = _Factor(problem, vector).solve(gradient)
            rise, size = float(gradient @ step), 1.0
            self.converged_ = rise / 2 <= self.tol
            if self.converged_:
                return vector
            while (value := problem.objective(vector + size * step)) < self.objective_[-1] + 1e-4 * size * rise:
                size /= 2
                if size < 1e-9:  # rounding: no step is seen to rise
                    self.converged_ = True
                    return vector
            vector = vector + size * step
            self.objective_.append(value)
        warn(f"no convergence after {self.n_iter} steps; pass a higher n_iter", ConvergenceWarning)
        return vector

    def _warn(self, pairs: Preferences, problem: _Problem) -> None:
        """Say what the comparisons cannot tell."""
        if self.individual and not problem.n_annotators:
            warn(
                f"a single annotator, {people(pairs.annotator_ids)}: its own reliability and position bias cannot be "
                "told from the scores and from what all share, and are left out",
                DataWarning,
            )
        n_parts = int(self.parts_.max()) + 1
        if n_parts > 1:
            first = "; ".join(examples(self.item_ids_[self.parts_ == k]) for k in range(min(n_parts, 2)))
            warn(
                f"the comparisons fall apart into {n_parts:,} parts, which no comparison links: {first}"
                f"{' and so on' if n_parts > 2 else ''}. Items are ranked within their part only; compare items of "
                "different parts to rank all",
                DataWarning,
            )
        for name in self._explained_by_items(pairs) if self.true_winners_ is None else []:
            warn(
                f"covariate {name!r} is a difference of fixed values of the items, so that it cannot be told from "
                "their scores: its weight follows from the prior. Pass true winners, or leave it out",
                DataWarning,
            )

    def _explained_by_items(self, pairs: Preferences) -> Iterator[str]:
        """Covariates that are the difference of a value of the left item and one of the right item."""
        n = np.arange(len(pairs))
        for k, name in enumerate(pairs.covariate_names if self.shared else ()):
            sides = scipy.sparse.csr_array(
                (np.repeat([1.0, -1.0], len(n)), (np.tile(n, 2), np.concatenate([pairs.left, pairs.right]))),
                shape=(len(n), len(pairs.item_ids)),
            )
            found = scipy.sparse.linalg.lsqr(sides, pairs.covariates[:, k], atol=1e-8, btol=1e-8)
            total = (pairs.covariates[:, k] ** 2).sum()
            if total > 0 and found[3] ** 2 <= (1 - NEARLY_ALL) * total:
                yield name

    def _known_items(self, pairs: Preferences) -> npt.NDArray[np.int64]:
        """Positions of the items among those of the fit; an unknown one is an error."""
        places = decode_position(self.item_ids_, pairs.item_ids)
        unknown = pairs.item_ids[places == MISSING]
        if len(unknown):
            raise InputError(f"{len(unknown):,} items were never compared in fit: {examples(unknown)}; leave them out")
        return places

    def _shared_names(self) -> list[str]:
        names = [POSITION, *self.preferences_.covariate_names] if self.shared else []
        return names + ([TIES] if self._problem.has_ties else [])

    def _at_shared(self) -> slice:
        return slice(self._problem.n_items + 2 * self._problem.n_annotators, self._problem.size)

    def _units(self) -> FloatArray:
        """What one unit of each parameter is in the user's units: covariates were divided by their spread."""
        units = np.ones(self._problem.size)
        if self.shared:
            start = self._at_shared().start + 1
            units[start : start + len(self._spread)] = self._spread
        return units

    def _wins(self, pairs: Preferences) -> tuple[FloatArray, FloatArray]:
        """(M,) each: how many comparisons an item is in, and how many it won; a tie is half of it."""
        sides, n = np.concatenate([pairs.left, pairs.right]), len(self.item_ids_)
        won = np.concatenate([pairs.winner == LEFT, pairs.winner == RIGHT]) + np.tile(pairs.winner == TIE, 2) / 2
        return np.bincount(sides, minlength=n).astype(np.float64), grouped_sums(sides, won, n)

    def _unit_contrasts(self, positions: npt.NDArray[np.int64]) -> FloatArray:
        """(size, n) of parameters by themselves."""
        contrasts = np.zeros((self._problem.size, len(positions)))
        contrasts[positions, np.arange(len(positions))] = 1.0
        return contrasts

    def _item_contrasts(self, items: npt.NDArray[np.int64]) -> FloatArray:
        """(size, n) of items against the mean of their part."""
        contrasts, part = self._unit_contrasts(items), self.parts_[items]
        same = self.parts_[:, None] == part
        contrasts[: len(self.parts_)] -= np.where(same, 1 / np.bincount(self.parts_)[part], 0.0)
        return contrasts

    def _position_contrasts(self, annotators: npt.NDArray[np.int64]) -> FloatArray:
        """(size, n) of annotators' own position bias and the shared one together."""
        contrasts = self._unit_contrasts(self._problem.n_items + self._problem.n_annotators + annotators)
        if self.shared:
            contrasts[self._at_shared().start] = 1.0
        return contrasts

    @property
    def _uncertainty(self) -> _Uncertainty:
        return _Uncertainty.at(self._problem, self._vector)

    def _interval(self, value: FloatArray, deviation: FloatArray, name: str) -> dict[str, FloatArray]:
        reach = scipy.special.ndtri((1 + self.confidence) / 2) * deviation
        prefix = "" if name in ("score", "value") else f"{name}_"
        return {name: value, f"{prefix}low": value - reach, f"{prefix}high": value + reach}


@parameters
class AnnotatorBradleyTerry(BradleyTerry):
    """Bradley-Terry with a reliability and a position bias of every annotator's own.

    Attributes and methods are those of :class:`BradleyTerry`. Use it where annotators differ and all see both orders.
    """

    individual = True


@parameters
class SharedBiasBradleyTerry(BradleyTerry):
    """Bradley-Terry with what annotators do of their own, and with biases that all of them share.

    Attributes and methods are those of :class:`BradleyTerry`. Use it for judges that are language models: most of
    them favour the first answer, or the longer one, and a common bias does not cancel where many of them vote.
    Comparisons in both orders tell the position bias from the scores. A covariate can be told from the scores where
    it varies between comparisons of the same items, or by true winners.
    """

    individual = True
    shared = True


MODELS: dict[str, type[BradleyTerry]] = {
    "bradley-terry": BradleyTerry,
    "annotator-bias": AnnotatorBradleyTerry,
    "shared-bias": SharedBiasBradleyTerry,
}
"""Models by their names on the command line."""


class _Uncertainty(NamedTuple):
    """Standard deviations of contrasts of parameters: of the sandwich and of the model, whichever is larger."""

    factor: Any
    scatter: Any
    correction: float

    @classmethod
    def at(cls, problem: _Problem, vector: FloatArray) -> _Uncertainty:
        """Of the mode."""
        scatter, n = problem.scatter(vector)
        return cls(_Factor(problem, vector), scatter, n / max(n - 1, 1))

    def _deviations(self, contrasts: FloatArray, solved: FloatArray) -> FloatArray:
        """(m,) of contrasts (size, m), for which the information has been solved."""
        by_model = (contrasts * solved).sum(0)
        by_clusters = (solved * (self.scatter @ solved)).sum(0) * self.correction
        return np.asarray(np.sqrt(np.maximum(by_model, by_clusters)))

    def of(self, n: int, contrasts: Contrasts) -> tuple[FloatArray, FloatArray]:
        """(n,) of each of n contrasts, and of its difference from the next one, which the last does not have."""
        own, step = np.empty(n), np.full(n, np.nan)
        for start in range(0, n, CHUNK_COLUMNS):
            chunk = np.arange(start, min(start + CHUNK_COLUMNS + 1, n))
            wanted = contrasts(chunk)
            solved = self.factor.solve(wanted)
            n_own = min(CHUNK_COLUMNS, n - start)
            own[start : start + n_own] = self._deviations(wanted, solved)[:n_own]
            step[start : start + len(chunk) - 1] = self._deviations(np.diff(wanted, axis=1), np.diff(solved, axis=1))
        return own, step


class _DenseFactor:
    """Solves by the information about items and all that is shared, annotators taken out: they are independent then."""

    def __init__(self, information: Any, n_items: int, n_annotators: int) -> None:
        ends = n_items, n_items + 2 * n_annotators
        self._own = np.arange(*ends)
        self._common = np.delete(np.arange(information.shape[0]), self._own)
        columns = information[:, self._own].tocsr()
        self._cross = columns[self._common].tocsc()
        self._inverse = _inverse_pairs(columns[self._own], n_annotators)
        schur = information[:, self._common].tocsr()[self._common].toarray()
        solved = (self._inverse @ self._cross.T).tocsr()
        for start in range(0, len(self._own), CHUNK_ANNOTATORS):
            chunk = slice(start, start + CHUNK_ANNOTATORS)
            schur -= self._cross[:, chunk] @ solved[chunk].toarray()
        self._factor = scipy.linalg.cho_factor(schur, overwrite_a=True)

    def solve(self, right: FloatArray) -> FloatArray:
        """The solution for one vector, or for the columns of a matrix."""
        own = self._inverse @ right[self._own]
        found = np.empty_like(right)
        found[self._common] = scipy.linalg.cho_solve(self._factor, right[self._common] - self._cross @ own)
        found[self._own] = own - self._inverse @ (self._cross.T @ found[self._common])
        return found


def _inverse_pairs(block: Any, n: int) -> Any:
    """The inverse of a matrix in which rows k and n + k only have entries in columns k and n + k."""
    if not n:
        return scipy.sparse.csr_array((0, 0))
    first, second, both = block.diagonal()[:n], block.diagonal()[n:], block.diagonal(n)
    determinant = first * second - both**2
    diagonal = np.concatenate([second / determinant, first / determinant])
    off = -both / determinant
    return scipy.sparse.diags_array([diagonal, off, off], offsets=[0, n, -n]).tocsr()


class _Factor:
    """Solves by the information, among steps and contrasts that leave the mean reliability at 1."""

    def __init__(self, problem: _Problem, vector: FloatArray) -> None:
        information = problem.information(vector)
        M, A = problem.n_items, problem.n_annotators
        if M <= MOST_DENSE_ITEMS:
            self._free = _DenseFactor(information, M, A).solve
        else:
            options = {"SymmetricMode": True, "DiagPivotThresh": 0.0}
            self._free = scipy.sparse.linalg.splu(information, permc_spec="MMD_AT_PLUS_A", options=options).solve
        self._fixed = np.zeros(problem.size)
        self._fixed[M : M + A] = 1.0
        self._direction = self._free(self._fixed) if A else self._fixed

    def solve(self, right: FloatArray) -> FloatArray:
        """The solution for one vector, or for the columns of a matrix."""
        found = self._free(right)
        if not self._fixed.any():
            return found
        excess = (self._fixed @ found) / (self._fixed @ self._direction)
        return np.asarray(found - (self._direction[:, None] * excess if right.ndim > 1 else self._direction * excess))


def _stacked(columns: Sequence[Any], free: FloatArray, shared: FloatArray) -> _Rows:
    left, right, winner, annotators, clusters = columns
    return _Rows(left, right, winner, annotators, clusters, free, shared)


def _shared_columns(pairs: Preferences, spread: FloatArray) -> FloatArray:
    return np.column_stack([np.ones(len(pairs)), pairs.covariates / spread])


def _parts(n: int, rows: _Rows) -> npt.NDArray[np.int32]:
    """(n,) connected part of each item, the largest first."""
    graph = scipy.sparse.coo_array((np.ones(len(rows.left)), (rows.left, rows.right)), shape=(n, n))
    found = scipy.sparse.csgraph.connected_components(graph, directed=False)[1]
    rank = np.argsort(np.argsort(-np.bincount(found), kind="stable"), kind="stable")
    return np.asarray(rank[found], dtype=np.int32)


def _means(values: FloatArray, groups: npt.NDArray[np.int32]) -> FloatArray:
    return grouped_sums(groups, values, int(groups.max()) + 1) / np.bincount(groups)


def _ranks(parts: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
    """Ranks from 1 within each part, of sorted parts."""
    begin = np.searchsorted(parts, parts)
    return np.asarray(np.arange(len(parts)) - begin + 1)
