"""Expectation-maximisation: one loop for all aggregators that learn by it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from conal._support.progress import Progress, make_progress
from conal.aggregation.base import Aggregator
from conal.aggregation.votes import FloatArray, Votes, clamped, lost_classes, vote_shares
from conal.data.annotations import Annotations
from conal.data.encoding import MISSING
from conal.errors import ConvergenceWarning, InputError, VanishedClassWarning, examples, warn
from conal.parameters import is_number, is_whole

__all__ = ["EMAggregator"]

Parameters = TypeVar("Parameters")

BAR_DELAY = 1.0
"""Seconds after which a progress bar appears."""


class Run(NamedTuple, Generic[Parameters]):
    """One run of EM from one start."""

    history: list[float]
    converged: bool
    parameters: Parameters
    posterior: Any
    """As the E-step gave it: (N, C), or whatever the M-step takes."""


class Course(Generic[Parameters]):
    """Where a run is, and where it was before."""

    def __init__(self, parameters: Parameters, posterior: Any, objective: float) -> None:
        self.previous = self.parameters = parameters
        self.ahead: Parameters | None = None  # of the next M-step, where it has been made already
        self.posterior = posterior
        self.history = [objective]

    def go_to(self, parameters: Parameters, posterior: Any, objective: float) -> float:
        """The next point; returns what was gained."""
        self.previous, self.parameters, self.ahead, self.posterior = self.parameters, parameters, None, posterior
        self.history.append(objective)
        return objective - self.history[-2]


class EMAggregator(Aggregator, Generic[Parameters]):
    r"""Expectation-maximisation: the loop, its restarts and its convergence, written once.

    A subclass supplies :meth:`_m_step` and :meth:`_log_joint`, and where it has priors, or further variational
    distributions, their part of the objective by :meth:`_log_prior`. The objective is

    .. math::
        \sum_i \log \sum_c P(z_i = c, y_i \mid \theta) + \log P(\theta)

    (known tasks contribute their joint), and it never falls.

    Parameters
    ----------
    n_iter : int
        Iterations at most.
    tol : float
        Stop when an iteration changes the objective by less than this per annotation.
    n_restarts : int
        Runs from different starts; the one with the highest objective is kept. The first starts at the vote shares,
        the others at votes with random weight added to every class.
    seed : int
        For the other starts.
    verbose : bool
        Show progress on long work, where standard error is a terminal.

    Attributes
    ----------
    objective_history_ : list of float
        The objective of the kept run after every E-step.
    n_iter_ : int
        Its iterations.
    converged_ : bool
        Whether it stopped by ``tol``.
    """

    objective_history_: list[float]
    n_iter_: int
    converged_: bool
    share: Callable[[FloatArray], FloatArray] | None = None
    """What sums an array over all processes, where several have a part of the tasks each."""
    accelerate: bool = False
    """Whether longer steps are tried; a subclass that can sets it, and supplies :meth:`_extrapolate`."""

    def __init__(
        self, *, n_iter: int = 100, tol: float = 1e-5, n_restarts: int = 1, seed: int = 0, verbose: bool = True
    ) -> None:
        self.n_iter = n_iter
        self.tol = tol
        self.n_restarts = n_restarts
        self.seed = seed
        self.verbose = verbose

    # ---------------------------------------------------------------- what a subclass supplies

    @abstractmethod
    def _m_step(self, votes: Votes, posterior: Any, previous: Parameters | None) -> Parameters:
        """Parameters that fit the posterior at least as well as the ``previous`` ones (None at the start)."""

    @abstractmethod
    def _log_joint(self, votes: Votes, parameters: Parameters) -> FloatArray:
        """(N, C) log P(z = c, labels of the task), in an array that nobody else keeps."""

    @abstractmethod
    def _adopt(self, votes: Votes, parameters: Parameters) -> None:
        """Keep the parameters of the best run as attributes."""

    def _log_prior(self, parameters: Parameters) -> float:
        """Log-prior of the parameters, up to a constant; 0 without one."""
        return 0.0

    def _extrapolate(self, first: Parameters, second: Parameters, third: Parameters) -> Parameters:
        """Parameters ahead of three that EM went through, for a subclass that can accelerate."""
        raise NotImplementedError

    def _posterior(self, votes: Votes, run: Run[Parameters], known: npt.NDArray[np.int64]) -> FloatArray:
        """(N, C) the posterior at the end of a run, where the E-step did not keep it."""
        posterior: FloatArray = run.posterior
        return posterior

    def _initialize(self, votes: Votes, rng: np.random.Generator | None) -> FloatArray:
        """(N, C) posterior to start from; ``rng`` is None for the usual start."""
        return vote_shares(votes.annotations, rng)

    def _first_parameters(self, votes: Votes, posterior: FloatArray, rng: np.random.Generator | None) -> Parameters:
        """Parameters to start from; for a subclass whose starts differ in more than the posterior."""
        return self._m_step(votes, posterior, None)

    # ---------------------------------------------------------------- the loop

    def _aggregate(self, crowd: Annotations, known: npt.NDArray[np.int64]) -> FloatArray:
        self._check()
        votes = Votes(crowd)
        streams = [None, *np.random.default_rng(self.seed).spawn(self.n_restarts - 1)]
        with make_progress(type(self).__name__, self.verbose, BAR_DELAY) as progress:
            best = self._run(votes, known, streams[0], progress, 1)
            for number, rng in enumerate(streams[1:], start=2):
                run = self._run(votes, known, rng, progress, number)
                best = run if run.history[-1] > best.history[-1] else best
        self.objective_history_, self.converged_, self.n_iter_ = best.history, best.converged, len(best.history) - 1
        self._adopt(votes, best.parameters)
        if not best.converged:
            self._warn(best.history, crowd.n_annotations)
        posterior = self._posterior(votes, best, known)
        if self.share is None:  # a part of the tasks says too little about them all
            _warn_of_lost_classes(crowd, posterior)
        return posterior

    def _run(
        self,
        votes: Votes,
        known: npt.NDArray[np.int64],
        rng: np.random.Generator | None,
        progress: Progress,
        number: int,
    ) -> Run[Parameters]:
        parameters = self._first_parameters(votes, clamped(self._initialize(votes, rng), known), rng)
        start = f"start {number} of {self.n_restarts}  " if self.n_restarts > 1 else ""
        course = Course(parameters, *self._e_step(votes, parameters, known))
        n_annotations = max(self._over_all(votes.annotations.n_annotations), 1)
        while len(course.history) <= self.n_iter:
            parameters = course.ahead or self._m_step(votes, course.posterior, course.parameters)
            posterior, objective = self._e_step(votes, parameters, known)
            gain = course.go_to(parameters, posterior, objective) / n_annotations
            text = f"{start}objective {objective:.6g}  gain per label {gain:.1e}"
            progress.update(len(course.history) - 1, self.n_iter, text)
            if abs(gain) < self.tol:
                return Run(course.history, True, course.parameters, course.posterior)
            if self.tol > 0 and self.accelerate and len(course.history) <= self.n_iter:
                self._jump(votes, known, course)
        return Run(course.history, False, course.parameters, course.posterior)

    def _over_all(self, number: float) -> float:
        """The sum of a number over all processes."""
        return number if self.share is None else float(self.share(np.array([number]))[0])

    def _jump(self, votes: Votes, known: npt.NDArray[np.int64], course: Course[Parameters]) -> None:
        """Try a longer step, and take it where the objective does not fall."""
        course.ahead = self._m_step(votes, course.posterior, course.parameters)
        farther = self._extrapolate(course.previous, course.parameters, course.ahead)
        posterior, objective = self._e_step(votes, farther, known)
        if objective >= course.history[-1]:
            course.go_to(farther, posterior, objective)

    def _e_step(self, votes: Votes, parameters: Parameters, known: npt.NDArray[np.int64]) -> tuple[Any, float]:
        """The posterior and the objective under the current parameters; known tasks contribute their joint."""
        weights = self._log_joint(votes, parameters)  # changed in place from here: it is large, and ours alone
        given = np.flatnonzero(known != MISSING)
        known_joint = weights[given, known[given]]
        top = weights.max(1)  # taken off first, so that nothing underflows
        weights -= top[:, None]
        np.exp(weights, out=weights)
        total = weights @ np.ones(weights.shape[1])  # faster than a sum over short rows
        weights /= total[:, None]
        evidence = top + np.log(total)
        evidence[given] = known_joint
        return clamped(weights, known), float(evidence.sum()) + self._log_prior(parameters)

    def _warn(self, history: list[float], n_annotations: int) -> None:
        gain = (history[-1] - history[-2]) / max(n_annotations, 1)
        warn(
            f"{type(self).__name__} has not converged after {self.n_iter} iterations (last gain per annotation "
            f"{gain:.1e}); raise n_iter, or tol",
            ConvergenceWarning,
        )

    def _check(self) -> None:
        for name, low in (("n_iter", 1), ("n_restarts", 1), ("seed", 0)):
            value = getattr(self, name)
            if not (is_whole(value) and value >= low):
                raise InputError(f"{name} must be a whole number of at least {low}, not {value!r}")
        self._check_not_negative("tol")

    def _check_not_negative(self, *names: str) -> None:
        for name in names:
            value = getattr(self, name)
            if not (is_number(value) and value >= 0):
                raise InputError(f"{name} must be a number of at least 0, not {value!r}")


def _warn_of_lost_classes(crowd: Annotations, posterior: FloatArray) -> None:
    """With too few labels per task, one class can explain everything: say so, for the probabilities do not."""
    labelled = crowd.labels_per_task() > 0
    winners = posterior.argmax(1)
    given = np.bincount(winners if labelled.all() else winners[labelled], minlength=crowd.n_classes)
    lost = lost_classes(crowd, given)
    if len(lost):
        per_task = crowd.n_annotations / max(int(labelled.sum()), 1)
        warn(
            f"classes {examples(crowd.classes[lost])} win votes but are given to hardly any task: other classes "
            f"explain their labels. With {per_task:.1f} labels per task there may be too little to go by; "
            "compare with 'majority-vote' or 'one-coin', or add true_labels",
            VanishedClassWarning,
        )
