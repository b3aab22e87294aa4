"""Choose the scaling of features, from statistics computed in one pass."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from conal._arrays import FloatArray
from conal.errors import FeatureWarning, warn
from conal.networks import FeatureScaler
from conal.parameters import parameters_of
from conal.parameters.training import ClassifierParameters, Scaling
from conal.training.batches import Instances

# Cells of features that outweigh all others together: slips, overflows, and codes for missing values.

SAMPLE = 1000
"""Instances from which the usual size of the features is read."""
FAR = 100.0
"""How many times as large as nearly all others a cell must be. In LabelMe's and Music's features none comes near, and
rarely one of 60,000 log-normal numbers with sigma 2."""
NEARLY_ALL = 0.99
"""The share of a feature's cells, and of all cells that are not zero, by which the usual size is judged."""
SHOWN = 3


@dataclass
class Outliers:
    """Takes cells out that are beyond the limits of their features, and notes where they were.

    Parameters
    ----------
    limits : tensor
        The largest size that counts, for each feature.
    usual : tensor
        What takes the place of a positive outlier: the size that nearly all cells stay below.
    total : int
        Number of outliers so far.
    first : list of (row, feature, value)
        Some of them.
    """

    limits: Tensor
    usual: Tensor
    total: int = 0
    first: list[tuple[int, tuple[int, ...], float]] = field(default_factory=list)

    def fresh(self) -> Outliers:
        """The same limits, and nothing noted, for another pass."""
        return Outliers(self.limits, self.usual)

    def taken_out(self, values: Tensor, row: int) -> Tensor:
        """Instances from ``row`` on without outliers; the same tensor if there are none.

        A negative outlier becomes 0: features that are nowhere else negative must stay so.
        """
        far = values.abs() > self.limits
        if not far.any():
            return values
        places = far.nonzero()
        self.total += len(places)
        for at in places[: SHOWN - len(self.first)].tolist():
            self.first.append((row + at[0], tuple(at[1:]), float(values[tuple(at)])))
        return torch.where(far, torch.where(values > 0, self.usual, 0.0), values)

    def where(self, rows: npt.NDArray[np.int64] | None = None) -> str:
        """How many there are, and the places of the first; ``rows`` of the user's features, if in another order.

        >>> Outliers(torch.tensor(1.0), torch.tensor(1.0), 1, [(4, (2,), 1e8)]).where()
        'features: 1 cell is far outside: row 5, column 3 (1e+08)'
        """
        found = ((row if rows is None else int(rows[row]), at, value) for row, at, value in self.first)
        places = ", ".join(f"row {row + 1}, column {_column(at)} ({value:.4g})" for row, at, value in found)
        rest = f" and {self.total - len(self.first):,} more" if self.total > len(self.first) else ""
        counted = "1 cell is" if self.total == 1 else f"{self.total:,} cells are"
        return f"features: {counted} far outside: {places}{rest}"


def outlier_limits(instances: Instances) -> Outliers:
    r"""The limits beyond which cells are far larger than their like, and outweigh all others in the overall deviation.

    .. math::
        |x_{ij}| > \max\bigl( 100 \, u_j, \; \sqrt{N D} \, s \bigr), \qquad
        u_j = \max(Q_{0.99}(|x_{\cdot j}|), Q_{0.99}(|x| : x \ne 0))

    with the quantiles Q of a sample of instances, and s the root mean square of the sample, cut off at u. The first
    term leaves features with long tails alone, and those in other units than the rest. The second leaves alone what
    does no harm.
    """
    sample = instances.sample(SAMPLE).abs()
    usual = _usual(sample)
    overall = math.sqrt(len(instances) * sample[0].numel()) * float(sample.minimum(usual).square().mean().sqrt())
    limits = (FAR * usual).clamp(min=overall)
    return Outliers(torch.where(limits > 0, limits, torch.inf), usual)  # where all are zero, nothing has a size


def _usual(sample: Tensor) -> Tensor:
    """The size that nearly all cells of a feature, or of all features, stay below, whichever is larger."""
    own = _lower_quantile(sample)
    size = sample[sample > 0]
    return own.clamp(min=float(_lower_quantile(size))) if len(size) else own


def _lower_quantile(values: Tensor) -> Tensor:
    """Along the first axis; the lower of two neighbours, so that the largest of a few values is left out."""
    rank = math.floor(NEARLY_ALL * (len(values) - 1))
    return values.kthvalue(rank + 1, dim=0).values


def _column(at: tuple[int, ...]) -> str:
    """The place of a feature, counted from one: ``3``, or ``1/5/9`` in an image."""
    return "/".join(str(k + 1) for k in at) or "1"


# How well features explain the votes of few tasks: the leave-one-out error of ridge regression.


PENALTIES = np.geomspace(1e-3, 10.0, 9)
"""Candidates for the ridge, in units of the mean eigenvalue."""


def leave_one_out_error(x: FloatArray, targets: FloatArray) -> float:
    r"""Mean squared error of ridge regression on tasks that it was fitted without, under the best of nine penalties.

    .. math::
        S_\lambda = \tfrac1n 1 1^\top + G (G + \lambda I)^{-1}, \qquad
        \min_\lambda \frac1n \sum_i \Bigl\| \frac{q_i - (S_\lambda q)_i}{1 - S_{\lambda, ii}} \Bigr\|^2

    with the products G of centred instances: one decomposition of an (n, n) matrix, however many features there are.

    Parameters
    ----------
    x : (n, d)
        Instances.
    targets : (n, C)
        Vote shares.

    Examples
    --------
    >>> x, q = np.array([[-1.0], [-0.9], [0.9], [1.0]]), np.eye(2)[[0, 0, 1, 1]]
    >>> leave_one_out_error(x, q) < 0.1 < leave_one_out_error(x[[0, 2, 1, 3]], q)
    True
    """
    centred = x - x.mean(0)
    values, vectors = np.linalg.eigh(centred @ centred.T)
    values = values.clip(min=0)
    scale = values.mean() or 1.0
    return min(_error(values / (values + penalty * scale), vectors, targets) for penalty in PENALTIES)


def _error(kept: FloatArray, vectors: FloatArray, targets: FloatArray) -> float:
    """The error of a smoother, of which ``kept`` (n,) says how much of each direction stays."""
    n = len(targets)
    fitted = (vectors * kept) @ (vectors.T @ (targets - targets.mean(0))) + targets.mean(0)
    own = 1 / n + (vectors**2 * kept).sum(1)
    return float((((targets - fitted) / (1 - own).clip(min=1e-9)[:, None]) ** 2).sum(1).mean())


# Choose the scaling of features, from statistics computed in one pass.

LIMIT = 3.0
"""Standard deviations at which "robust" scaling cuts features off.

For `xconal` on held-out Music songs, whose features reach 18 of them, it was better than no limit. On LabelMe's
validation set, square roots were better than "global" scaling.
"""


GLOBAL_STD = 3.0
"""Standard deviation of all features together under "global" scaling.

On LabelMe's validation set accuracy is flat from 2 to 4, and lower at 1.
"""


EXACT = (torch.float32, torch.float16, torch.bfloat16, torch.uint8, torch.int8, torch.int16, torch.bool)
"""Numbers of these types are single-precision numbers too."""
DIGITS_LOST = 1e-4
"""Rounding to single precision, in deviations of a feature, from which features are scaled in double precision."""
ERASED = 0.01
"""Rounding from which a network without scaling is said to see too little of a feature."""
ROUNDING_OF_SUMS = 1e-14
"""Deviations below this share of a feature's size are rounding errors: the feature is constant."""
MOST_CHANNELS = 4
"""Grey, two, red-green-blue, and these with transparency: an axis of at most so many entries may be the channels."""


Votes = tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]
"""Some labelled instances (n,), and their (n, C) vote shares."""


def fit_scaler(
    instances: Instances, scaling: Scaling = "auto", votes: Votes | None = None, *, channels_first: bool = False
) -> FeatureScaler:
    """The scaler for these instances.

    * ``"global"``: one factor for all features, so that zeros stay zeros and relative sizes count;
    * ``"standard"``: every feature to mean 0 and standard deviation 1;
    * ``"none"``: as they are;
    * ``"auto"``: "global" where feature vectors are nowhere negative, as pooled ReLU activations, counts and pixels
      are, and "standard" otherwise, also where single precision would lose what is left of them;
    * ``"robust"``: "standard", of square roots where feature vectors are nowhere negative, cut off at three standard
      deviations elsewhere; of images "standard". Square roots have one factor for all features, if the vote shares of
      left-out tasks can be predicted better then.

    Cells that outweigh all others together (:mod:`conal.training.scaling`) do not count, and are cut off at the
    largest scaled value of the others; a warning says where they are. Features without such cells are cut off by
    "robust" only.

    Instances of three axes are images, which are scaled channel by channel wherever they are scaled feature by feature
    otherwise. The channels are the first or the last axis: the one with at most four entries; where both or neither
    have so few, the one that is left of a square; and where that does not tell either, the first, as in torch, with a
    warning. ``channels_first`` is for networks that have them there.

    Means and deviations are computed in double precision, batch by batch. Features that single precision would round
    by more than 0.0001 deviations, as an offset of 1e8 does, are also centred and scaled in double precision.
    """
    parameters_of(ClassifierParameters)["scaling"].check(scaling)
    if scaling in ("none", "global"):
        _warn_of_rounding(instances)
    if scaling == "none":
        return FeatureScaler()
    outliers = outlier_limits(instances)
    found = _moments(instances, outliers)
    if outliers.total:
        warn(f"{outliers.where(instances.rows)}; {_ADVICE}", FeatureWarning)
    is_image = found.mean.ndim == 3
    if scaling == "robust" and not is_image:
        root = found.smallest >= 0
        found = _moments(instances, outliers.fresh(), root=True) if root else found
        made = found.scaler(found.mean, found.variance, root=root)
        if root and votes is not None:
            one = found.scaler(found.mean, found.variance.mean().expand_as(found.variance), root=root)
            made = _better(made, one, instances, votes)
        return _cut_off(made, found.reach(made, outliers) if root else LIMIT)
    is_global = scaling == "auto" and not is_image and found.smallest >= 0 and not found.loses_digits(found.variance)
    if scaling == "global" or is_global:
        # Var(all) = E[Var within a feature] + Var(feature means), features being equally many.
        overall = found.variance.mean() + found.mean.var(correction=0)
        made = found.scaler(overall.new_zeros(()), overall / GLOBAL_STD**2)
    elif is_image:  # one mean and deviation per channel
        channels = 0 if channels_first else _channel_axis(found.mean.shape)
        pixels = [axis for axis in range(3) if axis != channels]
        mean = found.mean.mean(pixels, keepdim=True)
        made = found.scaler(mean, (found.variance + (found.mean - mean) ** 2).mean(pixels, keepdim=True))
    else:
        made = found.scaler(found.mean, found.variance)
    return _cut_off(made, found.reach(made, outliers))


_ADVICE = (
    "each outweighs all other cells together, so they do not count for the scaling and are cut off at the largest "
    "of the others; correct them, or fill in what they stand for if they mark missing values"
)


class Moments(NamedTuple):
    """Mean and variance of each feature, its least and largest value, and how far single precision rounds it."""

    mean: Tensor
    variance: Tensor
    low: Tensor
    high: Tensor
    rounding: Tensor

    @property
    def smallest(self) -> float:
        """The least value of all features."""
        return float(self.low.min())

    def scaler(self, mean: Tensor, variance: Tensor, *, root: bool = False) -> FeatureScaler:
        """From this mean and variance, in double precision where it must be; a constant feature has the factor 1."""
        factor = self._factor(variance)
        single = bool(factor.float().isfinite().all()) and not self.loses_digits(variance)
        kind = torch.float32 if single else torch.float64
        return FeatureScaler(mean.to(kind), factor.to(kind), root=root)

    def loses_digits(self, variance: Tensor) -> bool:
        """Whether single precision is too coarse for features of this variance."""
        return bool(((self.rounding * self._factor(variance) > DIGITS_LOST) & (self.high > self.low)).any())

    def _factor(self, variance: Tensor) -> Tensor:
        deviation = variance.sqrt()
        size = torch.maximum(self.low.abs(), self.high.abs())
        shared = [axis for axis in range(size.ndim) if deviation.ndim == 0 or deviation.shape[axis] < size.shape[axis]]
        if shared:  # one deviation for several features
            size = size.amax(shared, keepdim=deviation.ndim > 0)
        return torch.where(deviation > ROUNDING_OF_SUMS * size, 1 / deviation, 1.0)

    def reach(self, scaler: FeatureScaler, outliers: Outliers) -> float:
        """The largest scaled value, where there are outliers to cut off beyond it; infinite otherwise."""
        if not outliers.total:
            return float("inf")
        ends = torch.stack([self.low, self.high])
        return float(((ends - scaler.shift) * scaler.factor).abs().max())


def _better(own: FeatureScaler, one: FeatureScaler, instances: Instances, votes: Votes) -> FeatureScaler:
    """The scaler under which left-out votes are predicted better; the first, if both are as good.

    A feature that only a few tasks have says little about others, and a factor of its own makes it as large as any
    other. Features in different units need one each. The votes tell which is the case. On small parts of LabelMe's
    training data, one factor for all made labels and predictions far better; with 1,000 tasks, a little.
    """
    rows, shares = votes
    if len(rows) < 3:
        return own
    x = instances.take(rows)
    errors = [leave_one_out_error(scaler(x).flatten(1).double().numpy(), shares) for scaler in (own, one)]
    return one if errors[1] < errors[0] else own


def _cut_off(scaler: FeatureScaler, limit: float) -> FeatureScaler:
    return FeatureScaler(scaler.shift, scaler.factor, limit, scaler.root)


def _channel_axis(shape: Sequence[int]) -> int:
    """The axis of an image that has the channels."""
    first, last = shape[0] <= MOST_CHANNELS, shape[2] <= MOST_CHANNELS
    if first == last:  # squares tell
        first, last = shape[1] == shape[2] != shape[0], shape[0] == shape[1] != shape[2]
    if first == last:
        warn(
            f"features: images of shape {tuple(shape)}: the first or the last axis may be the channels; the first is "
            "taken, as in torch, for a mean and a deviation each. If that is wrong, transpose the images, or scale "
            "them yourself and set scaling='none'",
            FeatureWarning,
        )
    return 2 if last and not first else 0


def _warn_of_rounding(instances: Instances) -> None:
    """Networks compute in single precision; without a shift they do not see small differences of large numbers."""
    x = instances.sample(SAMPLE)
    deviation = x.std(0, correction=0)
    error = (x - x.float()).abs().mean(0)
    lost = (error > ERASED * deviation) & (deviation > ROUNDING_OF_SUMS * x.abs().amax(0))
    if lost.any():
        at = tuple(lost.nonzero()[0].tolist())
        place = "/".join(str(k + 1) for k in at) or "1"
        warn(
            f"features: {int(lost.sum()):,} of {lost.numel():,} differ by less than single precision resolves, such as "
            f"column {place} ({float(x[(0, *at)]):.4g} and others, deviation {float(deviation[at]):.2g}), so that the "
            "network does not see their differences; subtract their means, or set scaling='standard'",
            FeatureWarning,
        )


def _moments(instances: Instances, outliers: Outliers, *, root: bool = False) -> Moments:
    """Moments of the features without outliers (Chan's parallel update, in float64)."""
    count = 0
    mean = torch.zeros((), dtype=torch.float64)
    scatter = torch.zeros((), dtype=torch.float64)
    low = torch.full((), torch.inf, dtype=torch.float64)
    high = -low
    rounding = torch.zeros((), dtype=torch.float64)
    for chunk in instances.chunks():
        kept = outliers.taken_out(chunk.to(torch.float64), row=count)
        values = kept.sqrt() if root else kept
        fresh_mean = values.mean(0)
        delta = fresh_mean - mean
        total = count + len(values)
        scatter = scatter + ((values - fresh_mean) ** 2).sum(0) + delta**2 * (count * len(values) / total)
        mean = mean + delta * (len(values) / total)
        low, high = torch.minimum(low, values.amin(0)), torch.maximum(high, values.amax(0))
        if chunk.dtype not in EXACT:
            rounding = rounding + (values - values.float()).abs().sum(0)
        count = total
    return Moments(mean, scatter / max(count, 1), low, high, rounding / max(count, 1))
