"""Linear discriminant analysis beside the networks, cross-fitted, and how much each of the two counts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, one_hot

from conal.networks.cross_fitting import Network, fit_temperature, held_out_log_proba, mean_log_proba

# Principal components of features, in passes over blocks of rows.

FeatureBlocks = Callable[[], Iterable[Tensor]]
"""Goes through all (n, d) blocks of rows, once for every call."""

EXACT_WIDTH = 1024
"""Up to this many features, the components come from the whole covariance matrix."""
PASSES, OVERSAMPLING = 4, 16
"""Of the subspace iteration for more features: rounds, and directions beyond those that are wanted."""


class Components(NamedTuple):
    """The mean of the features (d,), and an orthonormal basis (d, p) of the directions that vary most."""

    mean: Tensor
    basis: Tensor

    def of(self, x: Tensor) -> Tensor:
        """(n, p) components of (n, d) rows; a square basis is the identity."""
        centred = x.float() - self.mean
        return centred if self.basis.shape[0] == self.basis.shape[1] else centred @ self.basis


def principal_components(blocks: FeatureBlocks, count: int) -> Components:
    """The first ``count`` principal components, or all directions if there are no more.

    Many features have a large covariance matrix. Subspace iteration (Halko, Martinsson and Tropp 2011) then finds the
    components without it. It starts from fixed random directions: the same features give the same components.

    >>> rows = torch.tensor([[2.0, 0.0], [-2.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    >>> principal_components(lambda: [rows[:2], rows[2:]], 1).basis.abs().tolist()
    [[1.0], [0.0]]
    """
    mean = _mean(blocks)
    width = len(mean)
    if count >= width:
        return Components(mean, torch.eye(width, device=mean.device))
    if width <= EXACT_WIDTH:
        scatter = _scatter(blocks, mean)
        return Components(mean, torch.linalg.eigh(scatter).eigenvectors[:, -count:].flip(1).float())
    return Components(mean, _iterated(blocks, mean, count))


def _mean(blocks: FeatureBlocks) -> Tensor:
    number, total = 0, torch.zeros((), dtype=torch.float64)
    for x in blocks():
        number, total = number + len(x), total.to(x.device) + x.double().sum(0)
    return (total / max(number, 1)).float()


def _scatter(blocks: FeatureBlocks, mean: Tensor, basis: Tensor | None = None) -> Tensor:
    """(p, p) sum of products of centred rows, in double precision; along the directions of a basis, if there is one."""
    total: Tensor | None = None
    for x in blocks():
        centred = x - mean if basis is None else (x - mean) @ basis
        product = (centred.T @ centred).double()
        total = product if total is None else total.add_(product)
    assert total is not None  # noqa: S101 - there are rows
    return total


def _iterated(blocks: FeatureBlocks, mean: Tensor, count: int) -> Tensor:
    """The basis by subspace iteration: what varies most grows most when the scatter matrix is applied again."""
    width, wide = len(mean), min(count + OVERSAMPLING, len(mean))
    start = torch.randn(width, wide, generator=torch.Generator().manual_seed(0)).to(mean.device)
    basis = torch.linalg.qr(start).Q
    for _ in range(PASSES):
        applied = torch.zeros_like(basis)
        for x in blocks():
            centred = x - mean
            applied += centred.T @ (centred @ basis)
        basis = torch.linalg.qr(applied).Q
    within = torch.linalg.eigh(_scatter(blocks, mean, basis)).eigenvectors[:, -count:].flip(1)
    found: Tensor = basis @ within.float()
    return found


# Linear discriminant analysis with soft labels, cross-fitted: in closed form, from passes over blocks of rows.

Blocks = Callable[[], Iterable[tuple[Tensor, Tensor, Tensor]]]
"""Goes through the training instances, once for every call: (n, d) scaled features, (n,) folds, (n, C) soft labels."""

SHRINKAGE = 0.1
"""Share of the covariance that is replaced by equal variances without correlation."""
TASKS_PER_COMPONENT = 8
"""One principal component for this many tasks: a covariance of more is mostly noise."""
MAX_COMPONENTS = 512
FEWEST = 0.5
"""A class has at least this many tasks in its prior, so that it never becomes impossible."""
TINY_VARIANCE = 1e-9


class Discriminant(NamedTuple):
    """Class logits that are linear in the features: (C, d) weights and (C,) biases."""

    weight: Tensor
    bias: Tensor

    def logits(self, x: Tensor) -> Tensor:
        """(n, C) class logits of (n, d) features."""
        return linear(x.float(), self.weight, self.bias)


def discriminant(counts: Tensor, sums: Tensor, scatter: Tensor, shrinkage: float = SHRINKAGE) -> Discriminant:
    r"""The Gaussian classifier with one covariance for all classes, from its sufficient statistics.

    .. math::
        \Sigma = \frac{1 - s}{N} \Bigl( \sum_i z_i z_i^\top - \sum_c n_c \mu_c \mu_c^\top \Bigr) + s \bar\sigma^2 I,
        \quad \log g_c(z) = \mu_c^\top \Sigma^{-1} (z - \tfrac12 \mu_c) + \log \frac{n_c}{N} + \text{const}

    with :math:`\bar\sigma^2` the mean variance within classes.

    Parameters
    ----------
    counts, sums, scatter : (C,), (C, p) and (p, p) tensors in double precision
        :math:`n_c = \sum_i q_i(c)`, :math:`\sum_i q_i(c) z_i` and :math:`\sum_i z_i z_i^\top`.
    """
    total = counts.sum().clamp(min=TINY_VARIANCE)
    means = sums / counts.clamp(min=TINY_VARIANCE)[:, None]
    within = (scatter - means.T @ sums) / total
    variance = (within.trace() / len(within)).clamp(min=TINY_VARIANCE)
    identity = torch.eye(len(within), dtype=within.dtype, device=within.device)
    weight = torch.linalg.solve((1 - shrinkage) * within + shrinkage * variance * identity, means.T).T
    bias = (counts.clamp(min=FEWEST) / total).log() - (weight * means).sum(1) / 2
    return Discriminant(weight, bias)


class CrossFittedGaussian:
    """A Gaussian classifier without each fold, and one of all instances, on principal components of the features.

    The scatter of the instances does not depend on their labels. It is summed up once for every fold, and another fit
    takes one pass, for the sums of every class. Nothing is kept for every instance.

    Attributes
    ----------
    without : list of Discriminant
        Of every fold, the classifier that has not seen it.
    whole : Discriminant
        The one of all instances.
    """

    without: list[Discriminant]
    whole: Discriminant

    def __init__(self, n_folds: int) -> None:
        self.n_folds = n_folds
        self._components: Components | None = None
        self._scatter: Tensor

    def __getstate__(self) -> dict[str, Any]:
        """Nothing of a fit: copies and pickled models do not need it, and another fit makes it again."""
        return {"n_folds": self.n_folds, "_components": None}

    def fit(self, blocks: Blocks, n_tasks: int) -> bool:
        """Fit to soft labels; False if there are too few tasks. The features must be those of the first fit."""
        count = min(n_tasks // TASKS_PER_COMPONENT, MAX_COMPONENTS)
        if count < 1:
            return False
        if self._components is None:
            self._components = principal_components(lambda: (x.float() for x, _, _ in blocks()), count)
            self._scatter = self._scatter_by_fold(blocks, self._components)
        counts, sums = self._sums_by_fold(blocks, self._components)
        n, total, scatter = counts.sum(0), sums.sum(0), self._scatter.sum(0)
        self.without = [
            self._of_features(n - counts[k], total - sums[k], scatter - self._scatter[k]) for k in range(self.n_folds)
        ]
        self.whole = self._of_features(n, total, scatter)
        return True

    def held_out_log_proba(self, x: Tensor, fold: Tensor) -> Tensor:
        """(n, C) log-probabilities of instances by the classifier that has not seen their fold."""
        return held_out_log_proba([each.logits for each in self.without], x, fold)

    def _scatter_by_fold(self, blocks: Blocks, components: Components) -> Tensor:
        """(K, p, p) sums of products of the components."""
        width = components.basis.shape[1]
        total = components.mean.new_zeros(self.n_folds, width, width, dtype=torch.float64)
        for x, fold, _ in blocks():
            z = components.of(x)
            for k in range(self.n_folds):
                own = z[fold == k]
                total[k] += own.T @ own
        return total

    def _sums_by_fold(self, blocks: Blocks, components: Components) -> tuple[Tensor, Tensor]:
        """(K, C) and (K, C, p): the instances of every class, and the sums of their components."""
        zero = torch.zeros((), dtype=torch.float64, device=components.mean.device)
        counts, sums = zero, zero
        for x, fold, q in blocks():
            member = one_hot(fold, self.n_folds).to(q.dtype)
            weights = torch.einsum("nk,nc->kcn", member, q).float()
            counts = counts + weights.double().sum(-1)
            sums = sums + (weights @ (x.float() - components.mean)).double()
        return counts, sums @ components.basis.double()

    def _of_features(self, counts: Tensor, sums: Tensor, scatter: Tensor) -> Discriminant:
        """The classifier as a function of the features instead of their components."""
        assert self._components is not None  # noqa: S101 - it is fitted
        mean, basis = (each.double() for each in self._components)
        found = discriminant(counts, sums, scatter)
        weight = found.weight @ basis.T
        return Discriminant(weight.float(), (found.bias - weight @ mean).float())


# A second witness beside the networks: a Gaussian classifier, and how much each of the two counts.

ROUNDS = 100
TOLERANCE = 1e-6
TINY_PROBABILITY = 1e-12


def mixture_weights(log_likelihood: Tensor, rounds: int = ROUNDS) -> Tensor:
    r"""(M,) the weights of witnesses under which labels are most likely, by EM from equal ones.

    .. math:: w_m \leftarrow \frac1N \sum_i \frac{w_m L_{im}}{\sum_{m'} w_{m'} L_{im'}}

    Parameters
    ----------
    log_likelihood : (N, M)
        :math:`\log L_{im}`: how likely witness m makes the labels of task i.

    Examples
    --------
    >>> first, second = mixture_weights(torch.tensor([[0.9, 0.1], [0.9, 0.1], [0.1, 0.9]]).log())
    >>> round(float(first), 2), round(float(second), 2)
    (0.71, 0.29)
    """
    # A factor per task changes nothing. Witnesses come first: sums over many short rows would take most of the time.
    likelihood = log_likelihood.double().softmax(-1).T.contiguous()
    weights = likelihood.new_full(likelihood.shape[:1], 1 / len(likelihood))
    for _ in range(rounds):
        joint = likelihood * weights[:, None]
        found = joint.div_(joint.sum(0)).mean(1)
        moved = float((found - weights).abs().max())
        weights = found
        if moved < TOLERANCE:
            break
    return weights.to(log_likelihood.dtype)


class GaussianWitness(nn.Module):
    r"""What a model keeps of its second witness, and the mixture of both witnesses.

    .. math:: \tilde f(x) = w_1 f(x)^{\beta_1} / Z_1 + w_2 g(x)^{\beta_2} / Z_2

    f are the networks, g is the Gaussian classifier, and each is at its own temperature. Until it is fitted, the
    networks count alone.

    Parameters
    ----------
    n_features, n_classes, n_folds : int
        d, C and K.
    """

    weight: Tensor
    bias: Tensor
    temperatures: Tensor
    shares: Tensor

    def __init__(self, n_features: int, n_classes: int, n_folds: int) -> None:
        super().__init__()
        self.cross_fitted = CrossFittedGaussian(n_folds)
        self.register_buffer("weight", torch.zeros(n_classes, n_features))
        self.register_buffer("bias", torch.zeros(n_classes))
        self.register_buffer("temperatures", torch.ones(2))
        self.register_buffer("shares", torch.tensor([1.0, 0.0]))

    @torch.no_grad()
    def reorder(self, order: Tensor) -> None:
        """Class c is from now on what was class ``order[c]``."""
        self.weight.copy_(self.weight[order])
        self.bias.copy_(self.bias[order])

    def fit(self, blocks: Blocks, n_tasks: int) -> bool:
        """Fit the Gaussian classifiers to soft labels; False if there are too few tasks."""
        is_fitted = self.cross_fitted.fit(blocks, n_tasks)
        if is_fitted:
            self.weight.copy_(self.cross_fitted.whole.weight)
            self.bias.copy_(self.cross_fitted.whole.bias)
        return is_fitted

    @property
    def without(self) -> list[Network]:
        """The fitted Gaussian classifiers, each without one fold."""
        return [each.logits for each in self.cross_fitted.without]

    def calibrate(self, networks: Tensor, gaussian: Tensor, target: Tensor) -> None:
        """Fit both temperatures to (N, C) target distributions, from both witnesses' log-probabilities."""
        self.temperatures.copy_(torch.stack([fit_temperature(each, target) for each in (networks, gaussian)]))

    def log_proba(self, x: Tensor) -> Tensor:
        """(N, C) log-probabilities by the Gaussian classifier alone, before its temperature."""
        return linear(x.to(self.weight.dtype), self.weight, self.bias).log_softmax(-1)

    def mixed(self, networks: Tensor, gaussian: Tensor) -> Tensor:
        """(N, C) log of the mixture, from both witnesses' log-probabilities."""
        each = self.calibrated(networks, gaussian) + self.shares.clamp(min=TINY_PROBABILITY).log()[:, None, None]
        return each.logsumexp(0)

    def calibrated(self, networks: Tensor, gaussian: Tensor) -> Tensor:
        """(2, N, C) log-probabilities of both at their temperatures."""
        both = torch.stack([networks, gaussian.to(networks.dtype)])
        return (both * self.temperatures[:, None, None]).log_softmax(-1)


class MixtureOfWitnesses(nn.Module):
    """Networks and the second witness as one, from scaled features to the log of their mixture.

    Parameters
    ----------
    networks : iterable of nn.Module
        Each from scaled features to (N, C) class logits.
    witness : GaussianWitness
    """

    def __init__(self, networks: Iterable[nn.Module], witness: GaussianWitness) -> None:
        super().__init__()
        self.networks = nn.ModuleList(networks)
        self.witness = witness

    def forward(self, x: Tensor) -> Tensor:
        """(N, d) scaled features to (N, C) log-probabilities."""
        return self.witness.mixed(mean_log_proba(self.networks, x), self.witness.log_proba(x))
