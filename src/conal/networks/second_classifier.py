"""Linear discriminant analysis beside the networks, cross-fitted, and how much each of the two counts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, one_hot

from conal.networks.cross_fitting import Network, fit_temperature, mean_log_proba

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

    def discriminant(self, counts: Tensor, sums: Tensor, scatter: Tensor) -> Discriminant:
        """The Gaussian classifier of the components as a function of the features."""
        mean, basis = (each.double() for each in self)
        found = discriminant(counts, sums, scatter)
        weight = found.weight @ basis.T
        return Discriminant(weight.float(), (found.bias - weight @ mean).float())


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
MIN_TASKS_OF_CLASS = 0.5
"""A class has at least this many tasks in its prior, so that it never becomes impossible."""
TINY_VARIANCE = 1e-9
TINY_PROBABILITY = 1e-12


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
    bias = (counts.clamp(min=MIN_TASKS_OF_CLASS) / total).log() - (weight * means).sum(1) / 2
    return Discriminant(weight, bias)


class GaussianExpert(nn.Module):
    r"""A Gaussian classifier beside the networks, cross-fitted as they are, and the mixture of both.

    .. math:: \tilde f(x) = w_1 f(x)^{\beta_1} / Z_1 + w_2 g(x)^{\beta_2} / Z_2

    f are the networks, g is the Gaussian classifier of all instances, on principal components of the features, and each
    is at its own temperature. Until it is fitted, the networks count alone.

    The scatter of the instances does not depend on their labels. It is summed up once for every fold, and another fit
    takes one pass, for the sums of every class. Nothing is kept for every instance.

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
        self.n_folds = n_folds
        self.components: Components | None = None
        self.scatter: Tensor | None = None  # of every fold
        self.register_buffer("weight", torch.zeros(n_classes, n_features))
        self.register_buffer("bias", torch.zeros(n_classes))
        self.register_buffer("temperatures", torch.ones(2))
        self.register_buffer("shares", torch.tensor([1.0, 0.0]))

    def __getstate__(self) -> dict[str, Any]:
        """Without what another fit makes again: copies and pickled models do not need it."""
        return {**vars(self), "components": None, "scatter": None}

    def fit(self, blocks: Blocks, n_tasks: int) -> list[Network] | None:
        """Fit to soft labels of the same features as before: the classifiers that have not seen each fold.

        None if ``n_tasks``, those that are trained on, are too few.
        """
        count = min(n_tasks // TASKS_PER_COMPONENT, MAX_COMPONENTS)
        if count < 1:
            return None
        if self.components is None:
            self.components = principal_components(lambda: (x.float() for x, _, _ in blocks()), count)
        if self.scatter is None:
            self.scatter = scatter_by_fold(blocks, self.components, self.n_folds)
        counts, sums = sums_by_fold(blocks, self.components, self.n_folds)
        n, total, scatter = counts.sum(0), sums.sum(0), self.scatter.sum(0)
        self.weight[:], self.bias[:] = self.components.discriminant(n, total, scatter)
        parts = zip(counts, sums, self.scatter, strict=True)
        without = (self.components.discriminant(n - a, total - b, scatter - c) for a, b, c in parts)
        return [each.logits for each in without]

    @torch.no_grad()
    def reorder(self, order: Tensor) -> None:
        """Class c is from now on what was class ``order[c]``."""
        self.weight.copy_(self.weight[order])
        self.bias.copy_(self.bias[order])

    def calibrate(self, networks: Tensor, gaussian: Tensor, target: Tensor) -> None:
        """Fit both temperatures to (N, C) target distributions, from the log-probabilities of both."""
        self.temperatures.copy_(torch.stack([fit_temperature(each, target) for each in (networks, gaussian)]))

    def log_proba(self, x: Tensor) -> Tensor:
        """(N, C) log-probabilities by the Gaussian classifier alone, before its temperature."""
        return linear(x.to(self.weight.dtype), self.weight, self.bias).log_softmax(-1)

    def mixed(self, networks: Tensor, gaussian: Tensor) -> Tensor:
        """(N, C) log of the mixture, from the log-probabilities of both."""
        each = self.calibrated(networks, gaussian) + self.shares.clamp(min=TINY_PROBABILITY).log()[:, None, None]
        return each.logsumexp(0)

    def calibrated(self, networks: Tensor, gaussian: Tensor) -> Tensor:
        """(2, N, C) log-probabilities of both at their temperatures."""
        both = torch.stack([networks, gaussian.to(networks.dtype)])
        return (both * self.temperatures[:, None, None]).log_softmax(-1)


def scatter_by_fold(blocks: Blocks, components: Components, n_folds: int) -> Tensor:
    """(K, p, p) sums of products of the components."""
    width = components.basis.shape[1]
    total = components.mean.new_zeros(n_folds, width, width, dtype=torch.float64)
    for x, fold, _ in blocks():
        z = components.of(x)
        for k in range(n_folds):
            own = z[fold == k]
            total[k] += own.T @ own
    return total


def sums_by_fold(blocks: Blocks, components: Components, n_folds: int) -> tuple[Tensor, Tensor]:
    """(K, C) and (K, C, p): the instances of every class, and the sums of their components."""
    counts = sums = torch.zeros((), dtype=torch.float64, device=components.mean.device)
    for x, fold, q in blocks():
        member = one_hot(fold, n_folds).to(q.dtype)
        weights = torch.einsum("nk,nc->kcn", member, q).float()
        counts = counts + weights.double().sum(-1)
        sums = sums + (weights @ (x.float() - components.mean)).double()
    return counts, sums @ components.basis.double()


class MixtureOfExperts(nn.Module):
    """Networks, and a Gaussian classifier if there is one, as one module.

    Parameters
    ----------
    networks : iterable of nn.Module
        Each from scaled features to (N, C) class logits.
    gaussian : GaussianExpert, optional
        Without it, the networks count alone.
    """

    def __init__(self, networks: Iterable[nn.Module], gaussian: GaussianExpert | None = None) -> None:
        super().__init__()
        self.networks = nn.ModuleList(networks)
        self.gaussian = gaussian

    def forward(self, x: Tensor) -> Tensor:
        """(N, ...) scaled features to (N, C) log-probabilities."""
        networks = mean_log_proba(self.networks, x)
        return networks if self.gaussian is None else self.gaussian.mixed(networks, self.gaussian.log_proba(x))


# How much each of several experts counts.

ROUNDS = 100
TOLERANCE = 1e-6


def mixture_weights(log_likelihood: Tensor, rounds: int = ROUNDS) -> Tensor:
    r"""(M,) the weights of experts under which labels are most likely, by EM from equal ones.

    .. math:: w_m \leftarrow \frac1N \sum_i \frac{w_m L_{im}}{\sum_{m'} w_{m'} L_{im'}}

    Parameters
    ----------
    log_likelihood : (N, M)
        :math:`\log L_{im}`: how likely expert m makes the labels of task i.

    Examples
    --------
    >>> first, second = mixture_weights(torch.tensor([[0.9, 0.1], [0.9, 0.1], [0.1, 0.9]]).log())
    >>> round(float(first), 2), round(float(second), 2)
    (0.71, 0.29)
    """
    # A factor per task changes nothing. Experts come first: sums over many short rows would take most of the time.
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
