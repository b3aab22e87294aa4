"""Ordinal scales: labels that are near the true level more often than far from it, and own matrices around that."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
import scipy

from conal._arrays import FloatArray
from conal.aggregation.base import register
from conal.aggregation.counts import Votes, logarithm, normalised, softmax
from conal.aggregation.em import MatrixAggregator, climb
from conal.aggregation.engines import Engine, Expectation
from conal.data.annotations import Annotations
from conal.parameters import Doc, number, parameters

# Error against Dawid-Skene, mean and median on 400 simulated crowds of grades: studies/results/0.2.0/ordinal.csv.
STRENGTHS = (3.0, 10.0, 30.0, 100.0, 1000.0)
"""Values of ``strength`` that "auto" chooses from."""
GUESSES = 0.02
"""Share of an annotator's labels that may be anything: no single label, however far off, rules a level out."""
HABITS = np.array([0.0, 1.0, 0.0])
"""Bias, slope and log-spread beforehand."""
DEVIATIONS = np.array([0.5, 0.25, 0.5])
"""How far those of an annotator are spread around the crowd's, as standard deviations."""
CROWD = 1.0
"""Standard deviation of the crowd's log-spread around 0, a spread of one level."""
TASKS = 5.0
"""Tasks added to every class: the most likely shares are lumpy where neighbouring levels are hard to tell apart."""
FIRST_STEPS = 5
"""Newton steps at the start, where the parameters are far from the labels."""
LONGEST_STEP = 0.5


class Scale(NamedTuple):
    """Class prior (C,), matrices (R, C, C), their fall-off (R, C, C), habits (R, 3) and the crowd's log-spread.

    ``habits[r]`` are bias, slope and log-spread of annotator r.
    """

    rho: FloatArray
    pi_r: FloatArray
    near: FloatArray
    habits: FloatArray
    typical: float


def fall_off(habits: FloatArray, levels: FloatArray, guesses: float = GUESSES) -> FloatArray:
    r"""(R, C, C) ``[r, c, l]`` = P(annotator r says l | true c), by distance on the scale.

    .. math::
        m^r_{cl} = (1 - \epsilon)\, \mathrm{softmax}_l \Bigl( -\frac{(l - \mu^r_c)^2}{2 s_r^2} \Bigr)
        + \frac{\epsilon}{C}, \qquad \mu^r_c = \bar l + a_r + b_r (c - \bar l)

    Parameters
    ----------
    habits : (R, 3)
        Bias a, in levels at the middle of the scale, slope b, and the logarithm of the spread s.
    levels : (C,)
        The place of each class on the scale.
    guesses : float
        The share :math:`\epsilon` of labels that are given at random.

    Examples
    --------
    >>> fall_off(np.array([[0.0, 1.0, 0.0]]), np.arange(3.0), guesses=0.0)[0].round(2).tolist()
    [[0.57, 0.35, 0.08], [0.27, 0.45, 0.27], [0.08, 0.35, 0.57]]
    """
    return _mixed(_probable(habits, levels)[0], guesses)


@register("ordinal")
@parameters
class Ordinal(MatrixAggregator[Scale]):
    r"""Labels on a scale: annotators miss the true level by a little more often than by a lot.

    Three numbers describe an annotator: a bias :math:`a_r` in levels, a slope :math:`b_r` (below 1 for those who avoid
    the ends of the scale), and a spread :math:`s_r`. They give a matrix :math:`m^r` that falls off with the distance
    between labels and true level (:func:`~conal.aggregation.ordinal.fall_off`). The annotator's own matrix
    :math:`\pi^r` is drawn towards it, not forced: :math:`\kappa` labels of a class are needed to outweigh it. With the
    expected counts :math:`n^r_{cl} = \sum_{i : y_i^r = l} q_i(c)`, EM maximises

    .. math::
        \sum_i \log \sum_c \rho_c \prod_r \pi^r_{c, y_i^r}
        - \kappa \sum_{r, c} \mathrm{KL}(m^r_c \,\|\, \pi^r_c) + \log P(a, b, s) + \log P(\rho)

    .. math::
        q_i(c) \propto \rho_c \prod_r \pi^r_{c, y_i^r}, \qquad
        \pi^r_{cl} = \frac{n^r_{cl} + \kappa\, m^r_{cl}}{n^r_{c \cdot} + \kappa}, \qquad
        \rho_c \propto \sum_i q_i(c) + 5

    A row of :math:`\pi^r` is the mode under a Dirichlet(:math:`1 + \kappa m^r_c`) prior, and :math:`\rho` under a
    Dirichlet(6): without it, levels that are hard to tell from their neighbours are lost. Biases, slopes and
    log-spreads have normal priors around 0, 1 and the crowd's own log-spread, which is learned too. The three have no
    closed form: with :math:`\pi^r` put in, an annotator's part of the objective is

    .. math::
        \sum_{c, l} \Bigl[ n^r_{cl} \log(n^r_{cl} + \kappa m^r_{cl})
        + \kappa m^r_{cl} \log \Bigl(1 + \frac{n^r_{cl}}{\kappa m^r_{cl}} \Bigr) \Bigr] + \log P(a_r, b_r, s_r)

    on which a Newton step with expected curvature is made, halved where it would lead down. So the objective never
    falls. Distances are those of places on the scale: grades 1, 2, 5 and 10 are equally far apart.

    Use it where classes are grades or levels (``--ordinal``), most of all where annotators gave few labels each: on
    simulated crowds its median is nearer to the true level than the labels of ``dawid-skene`` and than the median and
    the mean of the labels. Not where classes are kinds of things: numbers that are only names look like a scale.

    Attributes
    ----------
    bias_ : (R,)
        By how many levels an annotator's labels lie above the true level, in the middle of the scale.
    slope_ : (R,)
        By how much the labels rise where the true level rises by one.
    spread_ : (R,)
        How widely they scatter, in levels.
    fall_off_ : (R, C, C)
        :math:`m^r`, the matrices by bias, slope and spread alone.
    confusion_ : (R, C, C)
        :math:`\pi^r`: ``confusion_[r, c, l]`` = P(observed l | true c).
    strength_ : float
        The :math:`\kappa` that was used.
    class_prior_ : (C,)
    skills_ : (R,)
        Expected share of labels that are exactly right, sum_c rho_c confusion_[r, c, c].

    Examples
    --------
    >>> from conal import Annotations
    >>> crowd = Annotations.from_matrix([[1, 1, 2], [3, 3, 4], [5, 5, 5], [2, 2, 3], [4, 4, 5]] * 4)
    >>> fitted = Ordinal().fit(crowd)
    >>> fitted.labels_[:5].tolist(), bool(fitted.bias_[2] > fitted.bias_[0])
    ([1, 3, 5, 2, 4], True)
    >>> fitted.scores_.column_names
    ['task', 'mean', 'median', 'low', 'high']
    """

    ordered: ClassVar[bool] = True

    n_iter: int = 500

    strength: Annotated[
        float | Literal["auto"],
        number(above=0),
        Doc(
            r"How many labels of a class, :math:`\kappa`, an annotator's own matrix needs to outweigh the fall-off. "
            f"'auto' takes the greatest of {', '.join(f'{each:g}' for each in STRENGTHS)} under which a held-out fifth "
            "of the labels is not clearly less probable than under the best."
        ),
    ] = "auto"

    # ---------------------------------------------------------------- how firmly matrices are drawn to the fall-off

    def learn(self, engine: Engine[Scale]) -> FloatArray:
        """Choose the strength, if that is asked for, and run EM."""
        _levels(engine.votes)  # refuses classes without an order before any work
        self.strength_ = (
            self._strongest(engine, "strength", STRENGTHS) if isinstance(self.strength, str) else float(self.strength)
        )
        return super().learn(engine)

    def adopt_posterior(self, crowd: Annotations, probas: FloatArray) -> None:
        """Store the probabilities, and that the classes are a scale: who asks for this model says so."""
        super().adopt_posterior(crowd.replace(ordinal=True), probas)

    # ---------------------------------------------------------------- the steps

    def _m_step(self, votes: Votes, expectation: Expectation, previous: Scale | None) -> Scale:
        counts, levels = expectation.counts, _levels(votes)
        if previous is None:
            habits, typical, steps = np.tile(HABITS, (votes.shape[1], 1)), float(HABITS[-1]), FIRST_STEPS
        else:
            habits, typical, steps = previous.habits, previous.typical, 1
        for _ in range(steps):
            habits = _better(habits, typical, counts, levels, self.strength_)
            typical = _typical(habits)
        near = fall_off(habits, levels)
        pi_r = normalised(counts + self.strength_ * near)
        rho = normalised(expectation.shares + TASKS)
        return Scale(rho, pi_r, near, habits, typical)

    def _log_parts(self, parameters: Scale) -> tuple[FloatArray, FloatArray]:
        return logarithm(parameters.rho), logarithm(parameters.pi_r)

    def _log_prior(self, parameters: Scale) -> float:
        apart = self.strength_ * scipy.special.rel_entr(parameters.near, parameters.pi_r).sum()
        crowd = -0.5 * (parameters.typical / CROWD) ** 2 + TASKS * np.log(parameters.rho).sum()
        return float(_log_normal(parameters.habits, parameters.typical).sum() + crowd - apart)

    def _adopt(self, votes: Votes, parameters: Scale) -> None:
        self.class_prior_, self.confusion_, self.fall_off_, habits, _ = parameters
        self.bias_, self.slope_, self.spread_ = habits[:, 0], habits[:, 1], np.exp(habits[:, 2])


def _levels(votes: Votes) -> FloatArray:
    return votes.annotations.levels().astype(np.float64)


def _mixed(probable: FloatArray, guesses: float = GUESSES) -> FloatArray:
    return np.asarray((1 - guesses) * probable + guesses / probable.shape[-1])


def _probable(habits: FloatArray, levels: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(R, C, C) the fall-off without guesses, and how far each label lies from what is expected, in spreads."""
    bias, slope, log_spread = (habits[:, k, None, None] for k in range(3))
    middle = levels.mean()
    expected = middle + bias + slope * (levels[:, None] - middle)
    apart = (levels - expected) * np.exp(-log_spread)
    return softmax(-0.5 * apart**2), apart


def _slopes_of_fall_off(habits: FloatArray, levels: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The fall-off (R, C, C), and its derivatives by bias, slope and log-spread (R, C, C, 3)."""
    probable, apart = _probable(habits, levels)
    shifts = apart * np.exp(-habits[:, 2, None, None])  # of the exponent, where the expected label moves by one
    exponents = np.stack([shifts, shifts * (levels - levels.mean())[:, None], apart**2], axis=-1)
    means = np.einsum("rcl,rclk->rck", probable, exponents)[:, :, None]
    return _mixed(probable), (1 - GUESSES) * probable[..., None] * (exponents - means)


def _log_normal(habits: FloatArray, typical: float) -> FloatArray:
    """(R,) log-density of the habits, without its constant."""
    return np.asarray(-0.5 * (((habits - _centre(typical)) / DEVIATIONS) ** 2).sum(-1))


def _centre(typical: float) -> FloatArray:
    return np.array([*HABITS[:2], typical])


def _typical(habits: FloatArray) -> float:
    """The crowd's log-spread that is most probable, given those of the annotators."""
    firmness = DEVIATIONS[-1] ** -2
    return float(firmness * habits[:, -1].sum() / (firmness * len(habits) + CROWD**-2))


def _better(habits: FloatArray, typical: float, counts: FloatArray, levels: FloatArray, strength: float) -> FloatArray:
    """One Newton step on the habits of every annotator, with the curvature that is expected near the optimum."""

    def objective(habits: FloatArray) -> FloatArray:
        return _profile(counts, strength * fall_off(habits, levels)) + _log_normal(habits, typical)

    near, slopes = _slopes_of_fall_off(habits, levels)
    gradient = np.einsum("rcl,rclk->rk", strength * np.log1p(counts / (strength * near)), slopes)
    weights = counts / (near * (near + counts / strength))
    curvature = np.einsum("rcl,rclk,rclj->rkj", weights, slopes, slopes)
    gradient -= (habits - _centre(typical)) / DEVIATIONS**2
    curvature += np.diag(DEVIATIONS**-2)
    step: Any = np.linalg.solve(curvature, gradient[..., None])[..., 0]
    return climb(objective, habits, np.clip(step, -LONGEST_STEP, LONGEST_STEP))


def _profile(counts: FloatArray, pseudo: FloatArray) -> FloatArray:
    """(R,) what an annotator's labels are worth with the best matrix near the fall-off, up to a constant.

    ``pseudo`` are kappa times the fall-off: n log(n + k m) + k m log(1 + n / (k m)) loses no digits for large kappa.
    """
    cells = counts * np.log(counts + pseudo) + pseudo * np.log1p(counts / pseudo)
    return np.asarray(cells.sum((1, 2)))
