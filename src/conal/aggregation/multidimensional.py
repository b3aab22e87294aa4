"""Multidimensional annotators: tasks are points, and every annotator has an own line that divides them."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy

from conal._arrays import FloatArray, grouped_sums
from conal.aggregation.base import Aggregator, register
from conal.aggregation.counts import Votes, clamped, class_shares, expected_skills, normalised, ranks_of, vote_shares
from conal.data.annotations import Annotations
from conal.data.encoding import MISSING
from conal.errors import ConvergenceWarning, warn
from conal.parameters import Doc, number, parameters, whole

NUDGE = 0.1
"""Random part of the start: equal dimensions would stay equal."""
PSEUDO_LABELS = 0.1
"""Labels in every cell of a confusion matrix that is counted."""

Codes = npt.NDArray[np.int64]


class Space(NamedTuple):
    """Points of the tasks ``x`` (N, D), weights ``w`` (R, D) and thresholds ``tau`` (R,) of the annotators."""

    x: FloatArray
    w: FloatArray
    tau: FloatArray

    def flat(self) -> FloatArray:
        """One vector."""
        return np.concatenate([part.ravel() for part in self])


@register("multidimensional")
@parameters
class Multidimensional(Aggregator):
    r"""Tasks as points in one or a few dimensions, and annotators with weights and thresholds of their own.

    Whether a bird is blue is a matter of its size, colour and posture, and annotators weigh these differently. A task
    is a point :math:`x_i` around one of two places, by its class. Annotators say yes beyond a line of their own:

    .. math::
        x_i \mid z_i = \pm 1 \sim \mathcal N \bigl( \pm \tfrac{1}{\sqrt D}, \sigma_x^2 \bigr), \qquad
        P(y_i^r = 1) = \Phi(w_r \cdot x_i - \tau_r), \qquad
        w_r \sim \mathcal N(1, \sigma_w^2), \quad \tau_r \sim \mathcal N(0, \sigma_\tau^2)

    Points, weights and thresholds are those of the highest posterior, and :math:`q_i(c) = P(z_i = c \mid x_i)`. The
    original climbs by alternating gradient steps; here a quasi-Newton method (L-BFGS) climbs in all of them at once, so
    that it converges. For more than two classes, each is told apart from all others, and the probabilities are scaled
    to sum 1.

    Use it where tasks differ in how clearly they belong to a class, and annotators in where they draw the line. One
    dimension mostly suffices. Not where one class is far more frequent, nor for confusions between particular classes
    of many.

    Attributes
    ----------
    x_ : (K, N, D)
        Points of the tasks, for each of the K questions: one for two classes (is it the second one?), otherwise one per
        class. 0 without labels.
    w_, tau_ : (K, R, D), (K, R)
        Weights and thresholds of the annotators.
    objective_ : (K,)
        Log-posterior of each question, up to a constant.
    n_iter_, converged_ : int, bool
        Steps of the question that took the most, and whether all of them converged.
    confusion_ : (R, C, C)
        ``confusion_[r, c, l]`` = share of l among the annotator's labels of class c, by the posterior.
    skills_ : (R,)
        Expected share of right labels.

    References
    ----------
    Welinder, Branson, Belongie and Perona (2010). The multidimensional wisdom of crowds. Advances in Neural Information
    Processing Systems 23.

    Examples
    --------
    >>> crowd = Annotations.from_matrix([[0, 0, 1], [1, 1, 0], [0, 0, 1], [1, 1, 1]])
    >>> Multidimensional().fit(crowd).labels_.tolist()
    [0, 1, 0, 1]
    """

    quick = False

    n_dims: Annotated[
        int,
        whole(1),
        Doc(
            "Number of dimensions D. With one, a task has a degree of being of the class, and annotators have "
            "thresholds and sharpness; more tell apart annotators who look at different things."
        ),
    ] = 1
    sigma_x: Annotated[float, number(above=0), Doc(r":math:`\sigma_x`, how far tasks spread.")] = 0.8
    sigma_w: Annotated[float, number(above=0), Doc(r":math:`\sigma_w`, how weights differ.")] = 1.0
    sigma_tau: Annotated[float, number(above=0), Doc(r":math:`\sigma_\tau`, how thresholds differ.")] = 3.0
    n_iter: Annotated[int, whole(1), Doc("Maximum number of steps, for each question.")] = 1000
    tol: Annotated[float, number(at_least=0), Doc("Stop when a step changes the objective by a smaller share.")] = 1e-9
    seed: Annotated[int, whole(0), Doc("Seed of the start.")] = 0

    # ---------------------------------------------------------------- questions

    def _aggregate(self, crowd: Annotations, known: Codes) -> FloatArray:
        C, votes = crowd.n_classes, Votes(crowd)
        self.converged_, self.n_iter_ = True, 0
        questions = range(1, C) if C <= 2 else range(C)
        found = [self._answered(votes, c, known) for c in questions]
        self.x_, self.w_, self.tau_ = (
            np.array([getattr(space, part) for space, _, _ in found]) for part in ("x", "w", "tau")
        )
        self.objective_ = np.array([objective for _, objective, _ in found])
        yes = np.array([q for _, _, q in found]).T
        posterior = np.ones((crowd.n_tasks, 1)) if C == 1 else np.hstack([1 - yes, yes]) if C == 2 else normalised(yes)
        posterior = clamped(posterior, known)
        self.confusion_ = normalised(votes.counts(posterior) + PSEUDO_LABELS)
        self.skills_ = expected_skills(class_shares(posterior), self.confusion_)
        return posterior

    def _answered(self, votes: Votes, c: int, known: Codes) -> tuple[Space, float, FloatArray]:
        """The space for the question whether a task is of class c, its objective, and (N,) the probability of yes."""
        from scipy.optimize import minimize  # loading it takes a quarter of a second

        question = Question(self, votes, c, known)
        start = question.start(np.random.default_rng([self.seed, c])).flat()
        options = {"maxiter": self.n_iter, "maxfun": 2 * self.n_iter, "ftol": self.tol, "gtol": 0.0}
        end: Any = minimize(question.loss, start, jac=True, method="L-BFGS-B", options=options)
        self.converged_, self.n_iter_ = self.converged_ and end.status == 0, max(self.n_iter_, int(end.nit))
        if end.status == 1:
            warn(
                f"multidimensional has not converged after {self.n_iter} steps; raise n_iter, or tol",
                ConvergenceWarning,
            )
        space = question.space(end.x)
        return space, -float(end.fun), question.places(space.x)[1]


class Question:
    """Is a task of class c? The labels as 1 and -1, and the log-posterior of a space with its gradient."""

    def __init__(self, model: Multidimensional, votes: Votes, c: int, known: Codes) -> None:
        self.model, self.votes = model, votes
        self.sizes = votes.shape[0], votes.shape[1], model.n_dims
        self.sign = np.where(votes.annotations.labels == c, 1.0, -1.0)
        self.share = vote_shares(votes.annotations)[:, c]
        yes = 1 / max(votes.shape[2], 2)
        self.log_prior = np.tile(np.log([1 - yes, yes]), (votes.shape[0], 1))
        self.log_prior[(known != MISSING) & (known != c), 1] = -np.inf
        self.log_prior[known == c, 0] = -np.inf
        self.place = np.array([-1.0, 1.0]) / np.sqrt(model.n_dims)

    def start(self, rng: np.random.Generator) -> Space:
        """Tasks between both places as their votes are, annotators alike."""
        N, R, D = self.sizes
        x = (2 * self.share - 1)[:, None] / np.sqrt(D) + np.zeros((N, D))
        w = np.ones((R, D)) + NUDGE * rng.normal(size=D) * (D > 1)
        if D > 1:
            w += NUDGE * rng.normal(size=(R, D))[ranks_of(self.votes.annotations).annotators]
        return Space(x, w, np.zeros(R))

    def space(self, flat: FloatArray) -> Space:
        """The parts of a vector."""
        N, R, D = self.sizes
        x, w, tau = np.split(flat, [N * D, (N + R) * D])
        return Space(x.reshape(N, D), w.reshape(R, D), tau)

    def places(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(N,) log-density of the points, up to a constant, and the probability that each is around the second."""
        gaps = ((x[:, None, :] - self.place[:, None]) ** 2).sum(2)
        joint = self.log_prior - gaps / (2 * self.model.sigma_x**2)
        log_density = np.asarray(scipy.special.logsumexp(joint, axis=1))
        return log_density, np.exp(joint[:, 1] - log_density)

    def loss(self, flat: FloatArray) -> tuple[float, FloatArray]:
        """Minus the log-posterior, and its gradient."""
        x, w, tau = self.space(flat)
        crowd, model = self.votes.annotations, self.model
        own_x, own_w = x[crowd.tasks], w[crowd.annotators]
        margin = self.sign * ((own_x * own_w).sum(1) - tau[crowd.annotators])
        fit = scipy.special.log_ndtr(margin)
        slope = self.sign * np.exp(-0.5 * margin**2 - 0.5 * np.log(2 * np.pi) - fit)
        log_density, yes = self.places(x)
        objective = fit.sum() + log_density.sum() - ((w - 1) ** 2).sum() / (2 * model.sigma_w**2)
        objective -= (tau**2).sum() / (2 * model.sigma_tau**2)
        toward = (self.place[0] + yes * (self.place[1] - self.place[0]))[:, None]
        in_x = grouped_sums(crowd.tasks, slope[:, None] * own_w, len(x)) - (x - toward) / model.sigma_x**2
        in_w = grouped_sums(crowd.annotators, slope[:, None] * own_x, len(w)) - (w - 1) / model.sigma_w**2
        in_tau = -grouped_sums(crowd.annotators, slope, len(w)) - tau / model.sigma_tau**2
        return -float(objective), -Space(in_x, in_w, in_tau).flat()
