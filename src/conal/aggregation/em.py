"""Expectation-maximisation: one loop for all aggregators that learn by it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from conal._arrays import BoolArray, FloatArray
from conal._progress import Progress, make_progress
from conal.aggregation.base import Aggregator, reading_of
from conal.aggregation.counts import Votes, beside, vote_shares
from conal.aggregation.engines import Engine, Expectation, SparseEngine
from conal.aggregation.guard import Collapse, collapse_of
from conal.aggregation.held_out import TRIAL, held_out_scores, strongest
from conal.data.annotations import Annotations
from conal.errors import ConvergenceWarning, warn
from conal.parameters import Doc, number, parameters, whole

# SQUAREM: longer steps where EM is slow.

KEEP = 0.1
"""A probability falls to no less than this share of what EM gives it: one that is zero would stay so for ever."""


def extrapolated(
    first: tuple[FloatArray, ...], second: tuple[FloatArray, ...], third: tuple[FloatArray, ...]
) -> tuple[FloatArray, ...]:
    r"""Extrapolate distributions (over the last axis) from three successive EM iterates.

    .. math::
        r = \theta_1 - \theta_0, \quad v = (\theta_2 - \theta_1) - r, \quad a = \max(1, \|r\| / \|v\|), \quad
        \theta' = \theta_0 + 2 a r + a^2 v

    Near its end EM is linear, and this is the point that it is heading for, as far as one number can tell. With a = 1
    it is :math:`\theta_2` itself.

    Parameters
    ----------
    first, second, third : tuples of arrays
        Successive parameters of EM.

    References
    ----------
    Varadhan and Roland (2008). Simple and globally convergent methods for accelerating the convergence of any EM
    algorithm. Scandinavian Journal of Statistics 35 (SQUAREM, step length S3).
    """
    r = [b - a for a, b in zip(first, second, strict=True)]
    v = [(c - b) - step for b, c, step in zip(second, third, r, strict=True)]
    length, bend = (np.sqrt(sum(float(np.vdot(part, part)) for part in parts)) for parts in (r, v))
    if not bend > 0:
        return third
    a = max(1.0, length / bend)
    made = []
    for start, step, curve, end in zip(
        first, r, v, third, strict=True
    ):  # in place: matrices of many annotators are large
        step *= 2 * a
        step += start
        curve *= a * a
        step += curve
        np.multiply(end, KEEP, out=curve)
        ahead = np.maximum(step, curve, out=step)
        made.append(np.divide(ahead, ahead.sum(-1, keepdims=True), out=ahead))
    return tuple(made)


# Steps uphill that are halved where they would go down: M-steps without a closed form.

HALVINGS = 20
"""How often a step that goes down is halved before its part stays where it is."""

ROUNDING = 1e-14
"""Relative loss that counts as rounding."""


def climb(objective: Callable[[FloatArray], FloatArray], start: FloatArray, step: FloatArray) -> FloatArray:
    """A step in all parts at once, in each halved until the part's own objective does not fall.

    Parameters
    ----------
    objective : callable
        From all parts (B, ...) to the objective (B,) of each.
    start, step : (B, ...)

    Examples
    --------
    >>> climb(lambda x: -((x - 1) ** 2), np.zeros(2), np.array([1.0, 3.0])).tolist()
    [1.0, 1.5]
    """
    before = objective(start)
    least = before - ROUNDING * np.abs(before)
    for _ in range(HALVINGS):
        falls = objective(start + step) < least
        if not falls.any():
            return start + step
        step = np.where(beside(falls, step), step / 2, step)
    return np.where(beside(objective(start + step) < least, step), start, start + step)


# Expectation-maximisation: one loop for all aggregators that learn by it.

Parameters = TypeVar("Parameters")

BAR_DELAY = 1.0
"""Seconds after which a progress bar appears."""
SMOOTHING = 0.1
"""Prior of Dawid-Skene where its posterior is a start for another model."""
RANDOM_STARTS = 2
"""Random starts that are tried after a collapse."""


class Start(NamedTuple):
    """Where a run of EM starts from: a name, and a function that makes a guess at the posterior (N, C).

    The guess is large, and not kept. ``rng`` is for what else a random start draws.
    """

    name: str
    posterior: Callable[[Engine[Any]], FloatArray]
    rng: np.random.Generator | None = None


class Run(Generic[Parameters]):
    """A run of EM from one start: its name, the current and previous parameters, and the course of the objective."""

    def __init__(self, start: str, parameters: Parameters, expectation: Expectation, objective: float) -> None:
        self.start = start
        self.previous = self.parameters = parameters
        self.ahead: Parameters | None = None  # result of the next M-step, if it has been made already
        self.expectation = expectation
        self.history = [objective]
        self.converged = False

    def go_to(self, parameters: Parameters, expectation: Expectation, objective: float) -> None:
        """Move to the next point."""
        self.previous, self.parameters, self.ahead = self.parameters, parameters, None
        self.expectation = expectation
        self.history.append(objective)

    @property
    def gain(self) -> float:
        """By how much the last step raised the objective."""
        return self.history[-1] - self.history[-2]


@parameters
class EMAggregator(Aggregator, Generic[Parameters]):
    r"""Expectation-maximisation: the loop, with restarts and a convergence test.

    A subclass supplies :meth:`_m_step`, :meth:`_log_joint` and :meth:`_adopt`. If it has priors, or further
    variational distributions, :meth:`_log_prior` gives their part of the objective, which is

    .. math::
        \sum_i \log \sum_c P(z_i = c, y_i \mid \theta) + \log P(\theta)

    and never falls. A task whose true class is known contributes its joint with that class.

    Attributes
    ----------
    objective_history_ : list of float
        The objective of the kept run after every E-step.
    n_iter_ : int
        Its iterations.
    converged_ : bool
        Whether it stopped by ``tol``.
    start_ : str
        The start of the kept run: "votes", "random 1", "previous fit" in an update, or another that the model names.
    """

    learns_from_abstentions: ClassVar[bool] = True
    sums_suffice: ClassVar[bool] = False
    """Whether the M-step needs only the expected counts, so that several processes can share the tasks."""
    remedies: ClassVar[Sequence[Mapping[str, Any]]] = ()
    """Parameters to try if the labels collapse from every start."""

    n_iter: Annotated[int, whole(1), Doc("Maximum number of iterations.")] = 100
    tol: Annotated[
        float, number(at_least=0), Doc("Stop when an iteration changes the objective by less than this per annotation.")
    ] = 1e-5
    n_restarts: Annotated[
        int,
        whole(1),
        Doc(
            "Number of runs from different starts; the one with the highest objective is kept. The first starts at "
            "the vote shares, the others at votes with random weight added to every class."
        ),
    ] = 1
    seed: Annotated[int, whole(0), Doc("Seed of the random starts.")] = 0
    verbose: Annotated[bool, Doc("Show progress of long fits in a terminal or notebook.")] = True

    # ---------------------------------------------------------------- what a subclass supplies

    @abstractmethod
    def _m_step(self, votes: Votes, expectation: Expectation, previous: Parameters | None) -> Parameters:
        """Parameters that fit the expectation at least as well as the ``previous`` ones (None at the start)."""

    @abstractmethod
    def _log_joint(self, votes: Votes, parameters: Parameters) -> FloatArray:
        """(N, C) log P(z = c, labels of the task), in a new array, which the caller may change."""

    @abstractmethod
    def _adopt(self, votes: Votes, parameters: Parameters) -> None:
        """Keep the parameters of the best run as attributes."""

    # ---------------------------------------------------------------- what a subclass may change

    def _log_prior(self, parameters: Parameters) -> float:
        """Log-prior of the parameters, up to a constant; 0 without one."""
        return 0.0

    def _initialize(self, votes: Votes, rng: np.random.Generator | None) -> FloatArray:
        """(N, C) posterior to start from; ``rng`` is None in the first run."""
        return vote_shares(votes.annotations, rng)

    def _first_parameters(self, votes: Votes, expectation: Expectation, rng: np.random.Generator | None) -> Parameters:
        """Parameters to start from, for a subclass whose starts differ in more than the posterior."""
        return self._m_step(votes, expectation, None)

    def _starts(self) -> list[Start]:
        """Where EM starts from: the votes, and random starts if there are ``n_restarts``; a subclass may add others."""
        return [self._from_votes("votes"), *self._random_starts(np.random.default_rng(self.seed), self.n_restarts - 1)]

    def _random_starts(self, rng: np.random.Generator, n: int) -> list[Start]:
        """Votes with random weight added."""
        return [self._from_votes(f"random {k}", each) for k, each in enumerate(rng.spawn(n), 1)]

    def _from_votes(self, name: str, rng: np.random.Generator | None = None) -> Start:
        return Start(name, lambda engine: self._initialize(engine.votes, rng), rng)

    def _extrapolation(self) -> Callable[[Parameters, Parameters, Parameters], Parameters] | None:
        """A function from three successive parameters to some further ahead, for a subclass that can accelerate."""
        return None

    def engine(self, votes: Votes, known: npt.NDArray[np.int64]) -> Engine[Parameters]:
        """What computes the E-step; ``known`` (N,) contains true classes of some tasks and -1 elsewhere."""
        return SparseEngine(votes, known, partial(self._log_joint, votes))

    def _held_out_scores(self, crowd: Annotations, held_out: BoolArray, posterior: FloatArray) -> FloatArray:
        """Log-probability of each held-out label, by what was learned from the other labels."""
        return held_out_scores(crowd, held_out, posterior, self.confusion_)

    # ---------------------------------------------------------------- the loop

    def _strongest(self, engine: Engine[Parameters], name: str, values: Iterable[float]) -> float:
        """The greatest value of a parameter under which held-out labels are about as probable as under the best."""
        crowd = engine.votes.annotations

        def scores(value: float, rest: Annotations, held_out: BoolArray) -> FloatArray:
            trial = type(self)(**self.get_params() | TRIAL | {name: value})
            posterior = trial.learn(trial.engine(Votes(rest), engine.known))
            return trial._held_out_scores(crowd, held_out, posterior)

        return strongest(crowd, values, scores, self.seed)

    def _aggregate(self, crowd: Annotations, known: npt.NDArray[np.int64]) -> FloatArray:
        return self.learn(self.engine(Votes(crowd), known))

    def _aggregate_from(self, start: FloatArray, crowd: Annotations, known: npt.NDArray[np.int64]) -> FloatArray:
        self._previous = start
        try:
            return self._aggregate(crowd, known)
        finally:
            self._previous = None

    def learn(self, engine: Engine[Parameters]) -> FloatArray:
        """Run EM from all starts, keep the parameters of the best run, and return its posterior (N, C)."""
        previous = self._previous
        starts = self._starts() if previous is None else [Start("previous fit", lambda _: previous)]
        with make_progress(type(self).__name__, self.verbose, BAR_DELAY) as progress:
            runs = (self._run(engine, start, progress, f"{k} of {len(starts)}") for k, start in enumerate(starts, 1))
            return self._keep(engine, max(runs, key=lambda run: run.history[-1]))  # of equal ones the first

    def _keep(self, engine: Engine[Parameters], best: Run[Parameters]) -> FloatArray:
        self.start_ = best.start
        self.objective_history_, self.converged_, self.n_iter_ = best.history, best.converged, len(best.history) - 1
        self._forget_defaults()
        self._adopt(engine.votes, best.parameters)
        if not best.converged:
            self._warn(best.gain / max(engine.n_annotations, 1))
        return best.expectation.posterior

    def _repaired(
        self, crowd: Annotations, known: npt.NDArray[np.int64], problem: Collapse
    ) -> tuple[FloatArray, str] | None:
        """Other starts; then, if a collapse is certain, other parameters of the same model.

        Where it is not, a start must reach the objective of the run that it replaces.
        """
        engine = self.engine(Votes(crowd), known)
        least = -np.inf if problem.certain else self.objective_history_[-1] - self.tol * engine.n_annotations
        with make_progress(type(self).__name__, self.verbose, BAR_DELAY) as progress:
            # One after the other: all together, the matrices of many annotators take much memory.
            runs = (self._run(engine, start, progress, "instead") for start in self._further_starts(crowd))
            reached = (run for run in runs if run.history[-1] >= least)
            good = (run for run in reached if not collapse_of(crowd, run.expectation.posterior, known))
            best = max(good, key=lambda run: run.history[-1], default=None)
        if best is not None:
            return self._keep(engine, best), f"The start {best.start!r}"
        return self._with_other_parameters(crowd, known) if problem.certain else None

    def _further_starts(self, crowd: Annotations) -> list[Start]:
        """Starts that are tried only after a collapse: Dawid-Skene, the winners of the votes, and random ones."""
        from conal.aggregation.dawid_skene import posterior_by_dawid_skene  # it is itself learned by this loop

        return [
            Start("dawid-skene", lambda engine: posterior_by_dawid_skene(engine.votes, engine.known, SMOOTHING)),
            Start("winners of votes", lambda _: np.eye(crowd.n_classes)[crowd.votes().argmax(1)]),
            *self._random_starts(np.random.default_rng([self.seed, 1]), RANDOM_STARTS),
        ]

    def _with_other_parameters(self, crowd: Annotations, known: npt.NDArray[np.int64]) -> tuple[FloatArray, str] | None:
        """The first of :attr:`remedies` that keeps all classes; its results become those of this aggregator."""
        for remedy in self.remedies:
            other = type(self)(**{**self.get_params(), **remedy, "guard": "off"})
            posterior = other._aggregate(crowd, known)
            if collapse_of(crowd, posterior, known) is None:
                vars(self).update({name: value for name, value in vars(other).items() if name.endswith("_")})
                return posterior, " and ".join(f"{name}={value!r}" for name, value in remedy.items())
        return None

    def _run(self, engine: Engine[Parameters], start: Start, progress: Progress, number: str) -> Run[Parameters]:
        """EM from a start, until it converges or ``n_iter`` is reached."""
        parameters = self._first_parameters(engine.votes, engine.start(start.posterior(engine)), start.rng)
        run = Run(start.name, parameters, *self._e_step(engine, parameters))
        shown = "" if number == "1 of 1" else f"start {number}  "
        while len(run.history) <= self.n_iter and not run.converged:
            self._step(engine, run)
            gain = run.gain / max(engine.n_annotations, 1)
            figures = f"{shown}objective {run.history[-1]:.6g}  gain per label {gain:.1e}"
            progress.update(len(run.history) - 1, self.n_iter, figures)
            run.converged = abs(gain) < self.tol
            if self.tol > 0 and not run.converged and len(run.history) <= self.n_iter:
                self._jump(engine, run)
        return run

    def _step(self, engine: Engine[Parameters], run: Run[Parameters]) -> None:
        """One iteration: an M-step, unless it has been made already, and an E-step."""
        parameters = run.ahead
        if parameters is None:
            parameters = self._m_step(engine.votes, run.expectation, run.parameters)
        run.go_to(parameters, *self._e_step(engine, parameters))

    def _jump(self, engine: Engine[Parameters], run: Run[Parameters]) -> None:
        """Try a longer step if the model can, and take it unless the objective falls."""
        extrapolate = self._extrapolation()
        if extrapolate is None:
            return
        run.ahead = self._m_step(engine.votes, run.expectation, run.parameters)
        farther = extrapolate(run.previous, run.parameters, run.ahead)
        expectation, objective = self._e_step(engine, farther)
        if objective >= run.history[-1]:
            run.go_to(farther, expectation, objective)

    def _e_step(self, engine: Engine[Parameters], parameters: Parameters) -> tuple[Expectation, float]:
        """The expectation and the objective under the parameters."""
        expectation = engine.expect(parameters)
        return expectation, expectation.log_evidence + self._log_prior(parameters)

    def _warn(self, gain: float) -> None:
        warn(
            f"{type(self).__name__} has not converged after {self.n_iter} iterations (last gain per annotation "
            f"{gain:.1e}); raise n_iter, or tol",
            ConvergenceWarning,
        )


# Models of a class prior and a confusion matrix per annotator.


@parameters
class MatrixAggregator(EMAggregator[Parameters]):
    r"""Base of EM aggregators whose E-step is by a class prior and a confusion matrix per annotator.

    .. math:: q_i(c) \propto \rho_c \prod_r \pi^r_{c, y_i^r}

    A subclass supplies :meth:`_log_parts` in place of ``_log_joint``.
    """

    @abstractmethod
    def _log_parts(self, parameters: Parameters) -> tuple[FloatArray, FloatArray]:
        """Logarithms of class prior (C,) and matrices (R, C, C), or their expectations."""

    def _readings(self) -> list[dict[str, Any]]:
        start, votes = reading_of(self.class_prior_, self.confusion_)
        return [{"weight": 1.0, "start": start, "votes": votes, "doubt": None, "logarithms": True}]

    def _log_joint(self, votes: Votes, parameters: Parameters) -> FloatArray:
        rho, pi_r = self._log_parts(parameters)
        log_joint = votes.log_evidence(pi_r)
        log_joint += rho
        return log_joint
