"""Base of cross-fitted EM: K networks and a second witness, none of which predicts instances that it was fitted to."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import torch
from torch import Tensor, nn

from conal.data.annotations import Annotations
from conal.methods.base import Batch, Problem
from conal.methods.em import EMMethod
from conal.methods.held_out_predictions import (
    Predictions,
    ScaledBatches,
    fit_witness,
    held_out_predictions,
    mixed_predictions,
)
from conal.networks.averaging import WeightAverage
from conal.networks.backbones import fresh_copy, reorder_outputs
from conal.networks.calibration import fit_temperature
from conal.networks.cross_fitting import cross_fitted_loss, mean_log_proba, stacked_loss
from conal.networks.deployed import MeanOfNetworks
from conal.networks.stacked import StackedNetworks, stack
from conal.networks.witness import GaussianWitness, MixtureOfWitnesses
from conal.parameters import either, flag, number, one_of, parameter, whole
from conal.parameters.plan import planned_folds

__all__ = ["CrossFittedEM"]


class CrossFittedEM(EMMethod):
    r"""EM whose E-step takes every instance's prediction from the network for which it was held out.

    The networks are trained as one where they can be. Predictions, in the E-step and after training, are those of the
    moving averages of their weights, mixed with a Gaussian classifier of the features.

    A subclass draws the folds in :meth:`prepare` (:meth:`draw_folds`), infers the first labels there, and supplies the
    annotators' side: how likely labels are given a class, and with which weight (:meth:`weighted_evidence`).
    """

    fold_of: Tensor
    held_out: Tensor
    labelled: Tensor
    temperature: Tensor

    folds: int | Literal["auto"] = parameter(
        default="auto",
        must_be=either(whole(2), one_of("auto")),
        help="Number K of networks and folds. 'auto' is 5, and 3 for 16,000 labelled tasks or more.",
    )
    averaging: float = parameter(
        default=0.98,
        must_be=number(at_least=0, below=1),
        help="Decay of the moving average of the weights, per step; 0 for none.",
    )
    calibrate: bool = parameter(default=True, must_be=flag(), help="Fit the networks' temperature before each E-step.")
    # With and without it on 17 crowds: studies/results/0.2.0/witness.csv.
    witness: Literal["gaussian", "none"] = parameter(
        default="gaussian",
        must_be=one_of("gaussian", "none"),
        help="Second witness beside the networks, in the E-step and in predictions: 'gaussian', a Gaussian classifier "
        "of the features (linear discriminant analysis on principal components), or 'none'. Images have none.",
        before="none",
    )
    n_jobs: int = parameter(
        default=1,
        must_be=whole(1),
        help="Number of threads in which networks are trained one by one. With 1, all networks are trained as one if "
        "possible, which takes the least CPU time. With more than one, a seed gives an equally good model, but another "
        "one than with 1.",
    )

    def __init__(self, problem: Problem, backbone: nn.Module, **given: Any) -> None:
        super().__init__(problem, backbone, **given)
        self.n_folds = planned_folds(self.folds, problem.n_tasks)
        self.others = nn.ModuleList(fresh_copy(backbone) for _ in range(self.n_folds - 1))
        self.averages = WeightAverage(self.backbones, self.averaging)
        self.register_buffer("temperature", torch.ones(()))
        sizes = problem.shape[0] if len(problem.shape) == 1 else 0, problem.n_classes
        self.gaussian = GaussianWitness(*sizes, self.n_folds) if self.witness == "gaussian" and sizes[0] else None
        self.stacked: StackedNetworks | None = None

    def weighted_evidence(self, batch: Batch) -> Tensor:
        """(P, C) how likely each label is under every class, as a logarithm, by the weight that votes have."""
        raise NotImplementedError

    # ---------------------------------------------------------------- training

    @property
    def backbones(self) -> list[nn.Module]:
        """The K networks, each trained without one fold."""
        return [self.backbone, *self.others]

    def merge_networks(self, example: Tensor) -> None:
        """Train the networks as one, where they can be."""
        self.stacked = stack(self.backbones, example) if self.n_jobs == 1 else None
        if self.stacked is not None:
            self.averages.follow(self.stacked)

    def learned_parameters(self) -> list[nn.Parameter]:
        """The stacked weights, if there are, in place of those that are views of them."""
        learned = super().learned_parameters()
        if self.stacked is None:
            return learned
        views = {id(weight) for network in self.backbones for weight in network.parameters()}
        stacked = [weight for weight in self.stacked.parameters if weight.requires_grad]
        return stacked + [weight for weight in learned if id(weight) not in views]

    def draw_folds(self, annotations: Annotations) -> None:
        """A fold for every task, and which tasks are trained on."""
        self.register_buffer("fold_of", torch.randperm(annotations.n_tasks) % self.n_folds, persistent=False)
        voted = torch.from_numpy(annotations.labels_per_task() > 0)
        labelled = voted if self.known is None else voted | (self.known >= 0)
        self.register_buffer("labelled", labelled, persistent=False)
        nothing = torch.full((annotations.n_tasks, self.problem.n_classes), torch.nan)
        self.register_buffer("held_out", nothing, persistent=False)

    @torch.no_grad()
    def take_up(self, working: Mapping[str, Tensor], annotations: Annotations) -> None:
        """As for every EM; known tasks stay in their folds, so that no network predicts what it was trained on."""
        self.fold_of[: len(working["fold_of"])] = working["fold_of"]
        super().take_up(working, annotations)

    def trained_weights(self) -> set[str]:
        """Those of all networks, and of their averages."""
        return {name for name in self.state_dict() if name.startswith(("backbone.", "others.", "averages.networks."))}

    def loss(self, batch: Batch) -> Tensor:
        """Mean over the networks of the cross-entropy to the inferred labels, each without its held-out fold."""
        target, fold = self.posterior[batch.instances], self.fold_of[batch.instances]
        weight = batch.instance_weight * self.n_folds / (self.n_folds - 1)  # one over what a network sees of a batch
        if self.stacked is not None:
            return stacked_loss(self.stacked, batch.x, target, fold, weight)
        return cross_fitted_loss(self.backbones, batch.x, target, fold, weight, self.n_jobs)

    @torch.no_grad()
    def rename_outputs(self, order: Tensor) -> None:
        """Networks and witness call the classes as everything else does now; other people's modules learn it anew."""
        for network in (*self.backbones, *self.averages.networks):
            reorder_outputs(network, order)
        self.held_out.copy_(self.held_out[:, order])
        if self.gaussian is not None:
            self.gaussian.reorder(order)

    def end_step(self) -> None:
        """The average follows the weights."""
        self.averages.update()

    def working_state(self) -> dict[str, Tensor]:
        """As for every EM, the folds, and the held-out predictions."""
        return {**super().working_state(), "fold_of": self.fold_of, "held_out": self.held_out}

    # ---------------------------------------------------------------- predictions

    def predictions(self, batches: Iterable[Batch]) -> Predictions:
        """Held-out predictions of every batch, and its labels without features; then the temperature of all."""
        target = self.posterior[self.labelled]
        if self.gaussian is None:
            found = held_out_predictions(self.averages.networks, map(self.scaled, batches), self.fold_of)
        else:
            found = self._by_all_witnesses(self.gaussian, batches, target)
        if self.calibrate:
            self.temperature.copy_(fit_temperature(torch.cat([each for each, _ in found]), target))
        for log_proba, batch in found:
            self.held_out[batch.instances] = log_proba.to(self.held_out)
        return found

    def training_class_proba(self) -> Tensor:
        """(N, C) class probabilities of the training tasks by networks, and a witness, that were fitted without them.

        They are those of the last E-step; NaN for tasks that nothing was trained on.
        """
        return self.held_out.exp()

    def _by_all_witnesses(self, witness: GaussianWitness, batches: Iterable[Batch], target: Tensor) -> Predictions:
        """Predictions by the mixture of the networks and the second witness, fitted to what they were trained on."""
        scaled = ScaledBatches(batches, self.scaled, len(target) * math.prod(self.problem.shape))
        is_fitted = fit_witness(witness, scaled, self.fold_of, self.posterior, len(target))
        found = held_out_predictions(self.averages.networks, scaled, self.fold_of)
        if not is_fitted:
            return found
        others = held_out_predictions(witness.without, scaled, self.fold_of)
        return mixed_predictions(witness, found, others, target, self.weighted_evidence, calibrate=self.calibrate)

    def inferred_shares(self) -> Tensor:
        """(C,) shares of the classes among the inferred labels of tasks that have training labels."""
        return self.posterior[self.labelled].mean(0)

    def class_logits(self, x: Tensor) -> Tensor:
        """(N, C) log of the networks' mean probabilities, by their averaged weights once they are trained.

        A second witness takes part once it is fitted.
        """
        networks = mean_log_proba(self.backbones if self.training else self.averages.networks, x)
        if self.gaussian is None or self.training:
            return networks
        return self.gaussian.mixed(networks, self.gaussian.log_proba(x))

    def class_network(self) -> nn.Module:
        """The mean of the K networks, by their averaged weights, and the second witness."""
        networks = self.averages.networks
        return MeanOfNetworks(networks) if self.gaussian is None else MixtureOfWitnesses(networks, self.gaussian)
