"""A second witness beside the networks: a Gaussian classifier, and how much each of the two counts."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from conal.networks.calibration import fit_temperature
from conal.networks.cross_fitting import Network, mean_log_proba
from conal.networks.gaussian_classifier import Blocks, CrossFittedGaussian

__all__ = ["GaussianWitness", "MixtureOfWitnesses", "mixture_weights"]

ROUNDS = 100
TOLERANCE = 1e-6
TINY = 1e-12


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
        each = self.calibrated(networks, gaussian) + self.shares.clamp(min=TINY).log()[:, None, None]
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
