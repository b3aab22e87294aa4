"""Models of a confusion matrix per annotator: E-step and updates."""

from __future__ import annotations

import sys
from abc import abstractmethod
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from conal._arrays import FloatArray
from conal._system import kernel
from conal.aggregation.counts import FewVotes, Votes, clamped, normalised, softmax
from conal.aggregation.em import EMAggregator, Run
from conal.aggregation.engines import Engine, Expectation, Sums
from conal.data.annotations import Annotations
from conal.data.joining import Growth
from conal.errors import DriftWarning, warn

__all__ = ["REFIT_SHARE", "Drift", "Learned", "LogParts", "MatrixAggregator", "first_drift", "in_doubt"]


# Drift: how many labels may differ from those of a full E-step, after matrices have been updated.

REFIT_SHARE = 0.005
"""Share of labels that may differ from which on a refit is due."""
LARGEST = 600.0
"""Margins above this are taken as this: smaller probabilities are not exact."""


class LogParts(NamedTuple):
    """Logarithms by which an E-step goes: of the class prior (C,) and of the annotators' matrices (R, C, C)."""

    rho: FloatArray
    pi_r: FloatArray


class Drift(NamedTuple):
    """Where matrices were at the last fit, and by how much every task's label led there.

    Attributes
    ----------
    anchor : LogParts
        Of an annotator who came later, the matrix after the first update with labels of theirs.
    margin : (N,)
        Log-odds of the present label against the next best class, by the anchor; below 0 if that class is better.
    """

    anchor: LogParts
    margin: FloatArray

    def extended(self, present: LogParts, n_tasks: int) -> Drift:
        """With the new annotators' present matrices, and with room for new tasks."""
        known, new = len(self.anchor.pi_r), len(self.margin)
        pi_r = np.concatenate([self.anchor.pi_r, present.pi_r[known:]])
        return Drift(LogParts(self.anchor.rho, pi_r), np.append(self.margin, np.full(n_tasks - new, -np.inf)))

    def moved(self, tasks: npt.NDArray[np.int64], votes: Votes, codes: npt.NDArray[np.int64]) -> None:
        """Note the margins of tasks whose labels were inferred anew, by the anchor."""
        log_joint = self.anchor.rho + votes.log_evidence(self.anchor.pi_r)
        self.margin[tasks] = _margins(log_joint, codes)


def first_drift(anchor: LogParts, probas: FloatArray) -> Drift:
    """Right after a fit, whose posterior (N, C) is that of an E-step by the anchor."""
    best, second = probas[:, 0].copy(), np.zeros(len(probas))
    for column in probas.T[1:]:  # faster than to sort many short rows
        np.maximum(second, np.minimum(best, column), out=second)
        np.maximum(best, column, out=best)
    with np.errstate(divide="ignore"):
        margin = np.log(best / second)
    return Drift(anchor, np.minimum(margin, LARGEST))


def in_doubt(drift: Drift, present: LogParts, votes: Votes) -> npt.NDArray[np.int64]:
    r"""Tasks of which the label may differ from that of an E-step by the present matrices.

    With :math:`\Delta` the change since the anchor, a label y of annotator r moves the log-odds of any two classes by
    at most :math:`D_{ry}`. For a task whose margin is larger than all that together, the label is the same:

    .. math::
        D_{ry} = \max_c \Delta \log \pi^r_{cy} - \min_c \Delta \log \pi^r_{cy}, \qquad
        m_i > \sum_r D_{r, y_i^r} + \max_c \Delta \log \rho_c - \min_c \Delta \log \rho_c

    The cost is one addition per label.
    """
    moved = _spread(present.pi_r, drift.anchor.pi_r, axis=1).ravel()  # a number for every annotator and label
    prior = float(_spread(present.rho, drift.anchor.rho, axis=0))
    crowd = votes.annotations
    if bounding.usable and "numba" in sys.modules:  # loading it takes longer than all this
        doubtful = np.empty(crowd.n_tasks, dtype=np.bool_)
        codes = crowd.indptr, crowd.annotators, crowd.labels
        bounding(*codes, moved, crowd.n_classes, prior, drift.margin, doubtful)
        return np.flatnonzero(doubtful)
    bound = np.full(crowd.n_tasks, prior)
    given = np.flatnonzero(crowd.labels_per_task())
    if len(given):
        bound[given] += np.add.reduceat(moved[votes.cells], crowd.indptr[given])
    return np.flatnonzero(~(drift.margin > bound))  # also where either is not a number


@kernel
def bounding(  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    indptr, annotators, labels, moved, C, prior, margin, doubtful
):
    """Whether the sum of ``moved`` over a task's labels reaches its margin, for every task."""
    for i in range(len(margin)):
        left = margin[i] - prior
        for a in range(indptr[i], indptr[i + 1]):
            left -= moved[annotators[a] * C + labels[a]]
        doubtful[i] = not left > 0.0


def _spread(present: FloatArray, anchor: FloatArray, axis: int) -> Any:
    """By how much more a class has moved than another at most; infinite where a probability was or is zero alone."""
    with np.errstate(invalid="ignore"):
        change = present - anchor
    change[np.isneginf(present) & np.isneginf(anchor)] = 0.0
    with np.errstate(invalid="ignore"):
        spread = np.asarray(change.max(axis) - change.min(axis))
    return np.where(np.isnan(spread), np.inf, spread)


def _margins(log_joint: FloatArray, codes: npt.NDArray[np.int64]) -> FloatArray:
    """(n,) log-odds of the given classes against the best others; -inf where they are not defined."""
    own = np.take_along_axis(log_joint, codes[:, None], axis=1)[:, 0]
    others = log_joint.copy()
    np.put_along_axis(others, codes[:, None], -np.inf, axis=1)
    best = others.max(1, initial=-np.inf)
    with np.errstate(invalid="ignore"):
        margin = own - best
    return np.minimum(np.where(np.isnan(margin), -np.inf, margin), LARGEST)


# Models of a confusion matrix per annotator: their E-step, and updates that touch only what is new.

Parameters = TypeVar("Parameters", bound=Any)

SWEEPS = 3
"""Sweeps of EM over the touched tasks, at most."""
SETTLED = 1e-3
"""A sweep that changes no probability by more than this is the last."""
ROUNDING = 1e-10
"""Expected counts below this are what subtraction leaves of zero."""
PSEUDO_LABELS = 0.1
"""In every cell of the crowd's matrix, by which annotators are heard who are new."""
EVEN = 1e-9
"""Log-odds below this are a tie, which rounding decides."""


class Learned(NamedTuple):
    """What a fit has learned, and an update goes on from.

    Attributes
    ----------
    parameters : NamedTuple of arrays
        Those of the model.
    sums : Sums or None
        Expected counts by the posterior; None until somebody needs them.
    settings : dict
        Parameters of the aggregator that the guard changed.
    drift : Drift or None
        How far the matrices have moved since the fit; None right after it.
    """

    parameters: Any
    sums: Sums | None = None
    settings: Mapping[str, Any] = MappingProxyType({})
    drift: Drift | None = None


class Updated:
    """What a fit leaves for updates, and what they leave; not parameters of the constructor."""

    learned_: Learned
    n_touched_: int
    n_sweeps_: int
    _growing: Annotations
    """All labels, during an update."""


class MatrixAggregator(Updated, EMAggregator[Parameters]):
    r"""Base of EM aggregators whose E-step is by a class prior and a confusion matrix per annotator.

    .. math:: q_i(c) \propto \rho_c \prod_r \pi^r_{c, y_i^r}

    A subclass supplies :meth:`_log_parts` in place of ``_log_joint``, and an M-step that needs the expected counts
    alone. It can then be updated with new labels (:meth:`update`).

    Attributes
    ----------
    learned_ : Learned
        Parameters and expected counts.
    stale_share_ : float
        After an update: share of tasks whose label differs, up to ties, from that of a full E-step with the present
        matrices.
    n_touched_ : int
        After an update: number of labels that it read to learn from, in every sweep.
    n_sweeps_ : int
        After an update: number of sweeps.
    """

    by_annotator: ClassVar[tuple[str, ...]] = ("pi_r",)
    """Fields of the parameters that have a row for every annotator."""

    updatable = True
    parameters_type: ClassVar[Any]
    """The NamedTuple of arrays that the parameters are."""

    # ---------------------------------------------------------------- what a subclass supplies

    @abstractmethod
    def _log_parts(self, parameters: Parameters) -> LogParts:
        """Logarithms of class prior and matrices, or their expectations."""

    def _newcomers(self, parameters: Parameters, counts: FloatArray, n: int) -> Parameters:
        """The parameters with n more annotators, who are heard by what is common to all; ``counts`` are the crowd's."""
        common = normalised(counts.sum(0) + PSEUDO_LABELS)
        more: Parameters = parameters._replace(
            pi_r=np.concatenate([parameters.pi_r, np.repeat(common[None], n, axis=0)])
        )
        return more

    def _first_parts(self, parameters: Parameters, counts: FloatArray) -> LogParts:
        """What the first E-step of an update goes by; ``counts`` are the expected labels of all tasks before it."""
        return self._log_parts(parameters)

    def _refined(self, votes: Votes, sums: Sums, previous: Parameters) -> Parameters:
        """The M-step of an update, from the expected counts of all tasks; ``votes`` are of those that it touches."""
        return self._m_step(votes, _expected(sums), previous)

    # ---------------------------------------------------------------- EM

    def _log_joint(self, votes: Votes, parameters: Parameters) -> FloatArray:
        rho, pi_r = self._log_parts(parameters)
        log_joint = votes.log_evidence(pi_r)
        log_joint += rho
        return log_joint

    def _keep(self, engine: Engine[Parameters], best: Run[Parameters]) -> FloatArray:
        self.learned_ = Learned(best.parameters, best.expectation.known_sums)
        return super()._keep(engine, best)

    # ---------------------------------------------------------------- update

    def _note_remedy(self, remedy: Mapping[str, Any]) -> None:
        self.learned_ = self.learned_._replace(settings=dict(remedy))

    def _as_learned(self) -> MatrixAggregator[Parameters]:
        """This aggregator with the parameters that its results are by, if the guard had to change them."""
        if not self.learned_.settings:
            return self
        model = type(self)(**{**self.get_params(), **self.learned_.settings})
        vars(model).update({name: value for name, value in vars(self).items() if name not in self.declared})
        return model

    def _absorb(self, growth: Growth) -> FloatArray:
        self._growing = growth.annotations
        model = self._as_learned()
        crowd, touched = growth.annotations, growth.touched
        old = self.annotations_
        sums = self._sums_of(old)
        parts = self._log_parts(self.learned_.parameters)
        drift = self.learned_.drift or first_drift(parts, self.probas_)
        parameters = self.learned_.parameters
        if crowd.n_annotators > old.n_annotators:
            parameters = model._newcomers(parameters, sums.counts, crowd.n_annotators - old.n_annotators)
        probas = np.concatenate([self.probas_, np.zeros((crowd.n_tasks - old.n_tasks, crowd.n_classes))])
        before = _without(sums, old, self.probas_, touched[:0], crowd)
        rest = _without(sums, old, self.probas_, touched[touched < old.n_tasks], crowd)
        votes, known = FewVotes(crowd[touched]), self.known_codes_[touched]
        # By what is known of all tasks: an update that touches each of them leaves no rest to begin with.
        first = _inferred(votes, known, model._first_parts(parameters, before.counts))
        parameters, sums, probas[touched] = model._sweep(votes, known, rest, parameters, first)
        self.n_touched_, self.n_sweeps_ = model.n_touched_, model.n_sweeps_
        self.learned_ = Learned(parameters, sums, self.learned_.settings)
        del self._growing
        self._adopt(Votes(crowd), parameters)
        self._measure(model, crowd, drift, probas, (touched, votes))
        return probas

    def _sums_of(self, crowd: Annotations) -> Sums:
        if self.learned_.sums is not None:
            return self.learned_.sums
        return Sums(Votes(crowd).counts(self.probas_), self.probas_.sum(0), crowd.n_tasks)

    def _sweep(
        self, votes: Votes, known: npt.NDArray[np.int64], rest: Sums, parameters: Parameters, posterior: FloatArray
    ) -> tuple[Parameters, Sums, FloatArray]:
        """EM over some tasks and their annotators, ``rest`` being what all other tasks count; ends with an E-step."""
        mine = np.zeros(votes.shape[1], dtype=bool)
        mine[votes.annotations.annotators] = True
        self.n_touched_ = votes.annotations.n_annotations
        for self.n_sweeps_ in range(1, SWEEPS + 1):
            parameters = self._stepped(votes, _with(rest, votes, posterior), parameters, mine)
            before, posterior = posterior, _inferred(votes, known, self._log_parts(parameters))
            if np.abs(posterior - before).max(initial=0.0) < SETTLED:
                break
        return parameters, _with(rest, votes, posterior), posterior

    def _stepped(self, votes: Votes, sums: Sums, previous: Parameters, mine: npt.NDArray[np.bool_]) -> Parameters:
        """An M-step in which only some annotators' matrices change."""
        found = self._refined(votes, sums, previous)
        kept = {
            name: np.where(mine.reshape(-1, *[1] * (new.ndim - 1)), new, getattr(previous, name))
            for name in self.by_annotator
            if (new := getattr(found, name)) is not None
        }
        made: Parameters = found._replace(**kept)
        return made

    def _measure(
        self,
        model: MatrixAggregator[Parameters],
        crowd: Annotations,
        drift: Drift,
        probas: FloatArray,
        touched: tuple[npt.NDArray[np.int64], Votes],
    ) -> None:
        """How many labels may differ from those of a full E-step; a warning if a refit is due."""
        parameters = self.learned_.parameters
        present = model._log_parts(parameters)
        drift = drift.extended(present, crowd.n_tasks)
        codes = np.append(self.codes_, np.zeros(crowd.n_tasks - len(self.codes_), dtype=np.int64))
        codes[touched[0]] = self._winners(probas[touched[0]])
        drift.moved(*touched, codes[touched[0]])
        doubtful = in_doubt(drift, present, Votes(crowd))
        doubtful = doubtful[self.known_codes_[doubtful] < 0]
        log_joint = model._log_joint(FewVotes(crowd[doubtful]), parameters)
        own = log_joint[np.arange(len(doubtful)), codes[doubtful]]
        log_joint[np.arange(len(doubtful)), codes[doubtful]] = -np.inf
        stale = ~(own - log_joint.max(1, initial=-np.inf) > EVEN)
        self.learned_ = self.learned_._replace(drift=drift)
        self.stale_share_ = float(stale.sum() / max(crowd.n_tasks, 1))
        if self.stale_share_ > REFIT_SHARE:
            warn(
                f"{self.name}: after this update, {self.stale_share_:.1%} of the tasks may have another label than all "
                f"labels together would give them; a refit is due (fit old and new labels together)",
                DriftWarning,
            )


def _inferred(votes: Votes, known: npt.NDArray[np.int64], parts: LogParts) -> FloatArray:
    """(T, C) posterior by class prior and matrices, with known true labels certain."""
    log_joint = votes.log_evidence(parts.pi_r)
    log_joint += parts.rho
    return clamped(softmax(log_joint), known)


def _expected(sums: Sums) -> Expectation:
    """Sums as the result of an E-step, of which nobody has the posterior."""

    def posterior() -> FloatArray:
        raise AssertionError("an update has the posterior of touched tasks only")

    return Expectation(0.0, sums, posterior)


def _with(rest: Sums, votes: Votes, posterior: FloatArray) -> Sums:
    """Expected counts of all tasks, once those of some tasks are added."""
    return Sums(rest.counts + votes.counts(posterior), rest.shares + posterior.sum(0), rest.n_tasks + len(posterior))


def _without(
    sums: Sums, old: Annotations, probas: FloatArray, tasks: npt.NDArray[np.int64], crowd: Annotations
) -> Sums:
    """Expected counts without those of some tasks, with rows for the annotators of the whole crowd."""
    counts = np.zeros((crowd.n_annotators, crowd.n_classes, crowd.n_classes))
    mine = probas[tasks]
    counts[: old.n_annotators] = sums.counts - FewVotes(old[tasks]).counts(mine)
    return Sums(np.where(counts < ROUNDING, 0.0, counts), sums.shares - mine.sum(0), sums.n_tasks - len(tasks))
