"""Linear discriminant analysis with soft labels, cross-fitted: in closed form, from passes over blocks of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import linear, one_hot

from conal.networks.cross_fitting import held_out_log_proba
from conal.networks.principal_components import Components, principal_components

__all__ = ["Blocks", "CrossFittedGaussian", "Discriminant", "discriminant"]

Blocks = Callable[[], Iterable[tuple[Tensor, Tensor, Tensor]]]
"""Goes through the training instances, once for every call: (n, d) scaled features, (n,) folds, (n, C) soft labels."""

SHRINKAGE = 0.1
"""Share of the covariance that is replaced by equal variances without correlation."""
TASKS_PER_COMPONENT = 8
"""One principal component for this many tasks: a covariance of more is mostly noise."""
MAX_COMPONENTS = 512
FEWEST = 0.5
"""A class has at least this many tasks in its prior, so that it never becomes impossible."""
TINY = 1e-9


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
    total = counts.sum().clamp(min=TINY)
    means = sums / counts.clamp(min=TINY)[:, None]
    within = (scatter - means.T @ sums) / total
    variance = (within.trace() / len(within)).clamp(min=TINY)
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
