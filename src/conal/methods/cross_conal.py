"""Cross-fitted CoNAL: EM in which no network predicts its own training instances."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor, nn

from conal.aggregation.held_out import held_out_certainty
from conal.data.annotations import Annotations
from conal.errors import DivergenceError
from conal.methods.base import Batch, Problem, register
from conal.methods.em import EMMethod, due_epochs, infer_from_labels
from conal.methods.true_label_correction import JudgedTasks, PosteriorCorrection, flattened, logarithm
from conal.methods.two_source_noise import PseudoLabels, TwoSourceNoise
from conal.networks.backbones import fresh_copy, reorder_outputs
from conal.networks.cross_fitting import (
    Network,
    StackedNetworks,
    WeightAverage,
    cross_fitted_loss,
    fit_temperature,
    held_out_log_proba,
    mean_log_proba,
    stack,
    stacked_loss,
)
from conal.networks.deployed import MeanOfNetworks
from conal.networks.second_classifier import GaussianWitness, MixtureOfWitnesses, mixture_weights
from conal.parameters import either, flag, number, one_of, parameter, share, whole
from conal.parameters.training import Scaling, planned_epochs, planned_folds, planned_rounds

# Match inferred classes to the user's classes.

TRUTH_WEIGHT = 0.3


def aligned_with_votes(agreement: Tensor, truth: Tensor | None = None) -> Tensor:
    """(C,) the inferred class of each class name, such that the diagonal of the confusion is largest.

    Mistakes and truth can change places without any change in the likelihood, for two classes or for a cycle of
    several. The tie is broken by the assumption that annotators are right more often than they make any one mistake.

    Parameters
    ----------
    agreement : (C, C) tensor
        Expected votes ``[inferred class, observed label]``.
    truth : (C, C) tensor, optional
        Expected numbers of known true labels ``[inferred class, true label]``. Every one counts as much as
        :data:`TRUTH_WEIGHT` of all votes of a class: where true labels are known, they name the classes.

    Examples
    --------
    >>> aligned_with_votes(torch.tensor([[1.0, 9.0], [8.0, 2.0]])).tolist()
    [1, 0]
    >>> aligned_with_votes(torch.tensor([[1.0, 9.0], [8.0, 2.0]]), truth=3 * torch.eye(2)).tolist()
    [0, 1]
    """
    from scipy.optimize import linear_sum_assignment

    confusion = agreement.double() / agreement.double().sum(1, keepdim=True).clamp(min=1e-9)
    if truth is not None:
        confusion = confusion + TRUTH_WEIGHT * truth.double()
    inferred, names = linear_sum_assignment(confusion.cpu().numpy(), maximize=True)
    order = torch.empty(len(names), dtype=torch.int64)
    order[torch.from_numpy(names)] = torch.from_numpy(inferred)
    return order.to(agreement.device)


def aligned_with_people(counts: Tensor) -> Tensor:
    """(C,) the inferred class of each class name, such that most annotators are right; the present names if in doubt.

    A group who exchange classes and never slip can win the votes, although more people are right most of the time.
    Here every annotator says which label belongs to an inferred class: the one that the annotator gave most often.
    The names that most say so are taken if they are decided: annotators who clearly prefer them, by two standard errors
    of their own labels, have more than half of the labels of the classes that get another name.

    Parameters
    ----------
    counts : (R, C, C) tensor
        Expected votes ``[annotator, inferred class, observed label]``.

    Examples
    --------
    Three people are right in 60 of 100 tasks, two exchange the classes in all, and so the votes have named them.

    >>> honest, ring = torch.tensor([[40.0, 60.0], [60.0, 40.0]]), torch.tensor([[100.0, 0.0], [0.0, 100.0]])
    >>> counts = torch.stack([honest, honest, honest, ring, ring])
    >>> aligned_with_votes(counts.sum(0)).tolist(), aligned_with_people(counts).tolist()
    ([0, 1], [1, 0])
    """
    usual = torch.zeros_like(counts).scatter_(2, counts.argmax(2, keepdim=True), counts.sum(2, keepdim=True))
    order = aligned_with_votes(usual.sum(0))
    moved, new, old = _preferred(counts, order)
    weight = counts[:, moved].sum((1, 2))
    decided = new - old > 2 * (new + old).sqrt()
    is_clear = bool(weight[decided].sum() > weight.sum() / 2)
    return order if is_clear else present_names(order)


def present_names(like: Tensor) -> Tensor:
    """(C,) the order in which all classes keep their names."""
    return torch.arange(len(like), device=like.device)


def is_identity(order: Tensor) -> bool:
    """Whether all classes keep their names."""
    return torch.equal(order, present_names(order))


def most_annotators_agree(counts: Tensor, order: Tensor) -> bool:
    """Whether the labels of most annotators fit new names of the classes better than the present ones.

    All votes together are won by a group who exchange classes and never slip, also where they are fewer than those who
    are right most of the time. Annotators count by their labels of the classes that get another name.

    Parameters
    ----------
    counts : (R, C, C) tensor
        Expected votes ``[annotator, inferred class, observed label]``.
    order : (C,) tensor
        The inferred class of each class name, as :func:`aligned_with_votes` has it.

    Examples
    --------
    Three people are right in 6 of 10 tasks, two exchange the classes in all.

    >>> honest, ring = torch.tensor([[6.0, 4.0], [4.0, 6.0]]), torch.tensor([[0.0, 10.0], [10.0, 0.0]])
    >>> counts = torch.stack([honest, honest, honest, ring, ring])
    >>> order = aligned_with_votes(counts.sum(0))
    >>> order.tolist(), most_annotators_agree(counts, order)
    ([1, 0], False)
    """
    moved, new, old = _preferred(counts, order)
    weight = counts[:, moved].sum((1, 2))
    return bool((weight * (new - old).sign()).sum() >= 0)


def _preferred(counts: Tensor, order: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The classes that get another name, and (R,) how many labels of each annotator fit the new and the old names."""
    moved = torch.nonzero(order != present_names(order)).flatten()
    return moved, counts[:, order[moved], moved].sum(1), counts[:, moved, moved].sum(1)


# Held-out predictions of the training tasks: by networks, and by networks and other witnesses together.

Predictions = list[tuple[Tensor, Batch]]
"""Of every batch the (n, C) log-probabilities, and the batch without features."""

KEPT_CELLS = 2**26
"""Scaled features are kept for further passes if they have no more cells: 256 MB in single precision."""


class ScaledBatches:
    """The training batches with scaled features, for several passes.

    Small features are read and scaled in the first pass and kept for the others; large ones are read in every pass.

    Parameters
    ----------
    batches : iterable of Batch
        With raw features; can be gone through several times.
    scale : callable
        Makes a batch with scaled features.
    n_cells : int
        Number of cells of all features.
    """

    def __init__(self, batches: Iterable[Batch], scale: Callable[[Batch], Batch], n_cells: int) -> None:
        self._batches, self._scale = batches, scale
        self._keep = n_cells <= KEPT_CELLS
        self._kept: list[Batch] | None = None

    def __iter__(self) -> Iterator[Batch]:
        if not self._keep:
            return map(self._scale, self._batches)
        if self._kept is None:
            self._kept = list(map(self._scale, self._batches))
        return iter(self._kept)


def held_out_predictions(networks: Iterable[Network], batches: Iterable[Batch], fold_of: Tensor) -> Predictions:
    """Of every instance, the prediction of the network that was trained without its fold."""
    each = list(networks)
    return [
        (held_out_log_proba(each, batch.x, fold_of[batch.instances]), batch._replace(x=batch.x[:0]))
        for batch in batches
    ]


def fit_witness(
    witness: GaussianWitness, batches: Iterable[Batch], fold_of: Tensor, target: Tensor, n_tasks: int
) -> bool:
    """Fit the second witness to (N, C) soft labels of the training tasks; False if ``n_tasks``, trained on, are few."""

    def blocks() -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        for batch in batches:
            yield batch.x, fold_of[batch.instances], target[batch.instances]

    return witness.fit(blocks, n_tasks)


def mixed_predictions(
    witness: GaussianWitness,
    by_networks: Predictions,
    by_witness: Predictions,
    target: Tensor,
    label_evidence: Callable[[Batch], Tensor],
    *,
    calibrate: bool,
) -> Predictions:
    """Predictions of all witnesses together: each calibrated, and weighted by the likelihood of the annotations.

    Parameters
    ----------
    witness : GaussianWitness
        Its temperatures and weights are set.
    target : (n, C)
        What the witnesses were fitted to, in the order of the predictions.
    label_evidence : callable
        Of a batch, (P, C) how likely each label is under every class, as a logarithm.
    calibrate : bool
        Whether to fit the temperatures.
    """
    networks, gaussian = (torch.cat([each for each, _ in found]) for found in (by_networks, by_witness))
    batches = [batch for _, batch in by_networks]
    if calibrate:
        witness.calibrate(networks, gaussian, target)
    evidence = torch.cat([_by_task(label_evidence(batch), batch) for batch in batches])
    calibrated = witness.calibrated(networks, gaussian)
    witness.shares.copy_(mixture_weights((calibrated + evidence.to(calibrated)).logsumexp(-1).T))
    mixed = witness.mixed(networks, gaussian).split([len(batch.instances) for batch in batches])
    return list(zip(mixed, batches, strict=True))


def _by_task(evidence: Tensor, batch: Batch) -> Tensor:
    """(n, C) sums over the labels of each task."""
    return evidence.new_zeros(len(batch.instances), evidence.shape[1]).index_add_(0, batch.rows, evidence)


# Base of cross-fitted EM: K networks and a second witness, none of which predicts instances that it was fitted to.


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


# Cross-fitted CoNAL: EM of the paper's noise model, in which no network predicts its own training instances.

START_ROUNDS = 60
"""EM rounds on the annotations alone before the networks are trained."""
OMEGA_START = 0.2
"""Most labels come from the individual confusion until the data say otherwise."""
COMMON_PRIOR = (0.5, 15.0)
"""Pseudo-labels in every cell of the common matrix, and how many more there are in its diagonal.

Large data hardly notice them. With 50 tasks, few pseudo-labels let a frequent class take over a rare one.
"""


@register("xconal")
class CrossCoNALMethod(CrossFittedEM):
    r"""The paper's noise model by EM with cross-fitting: the default of ``conal fit``, needs no gold labels.

    A network that was trained on an instance's inferred label repeats that label, mistakes included, when it predicts
    the instance. So K networks are trained here, each without one fold of the instances, and the E-step takes the
    prediction of the network for which the instance was held out. What the crowd says is then checked by an
    independent prediction, and training needs no true labels to be stopped in time.

    .. math::
        q_i(c) \propto \tilde f^{(-k_i)}_c(x_i) \prod_r \bigl( \bar\pi^r_{c, y_i^r} \bigr)^\gamma
            (\rho^*_c / \bar\rho_c)^\kappa, \qquad
        \mathcal L = - \frac{1}{(K - 1) N} \sum_k \sum_{i : k_i \ne k} \sum_c q_i(c) \log f^{(k)}_c(x_i)

    :math:`\bar\pi^r` is the annotator's confusion, drawn to the common one by a few pseudo-labels. The paper's two
    kinds of confusion and :math:`\omega_r` are fitted beside it: they infer the first q, which one matrix per annotator
    gets wrong where common mistakes are frequent, and :math:`\omega_r` is the share of an annotator's labels that come
    from the common confusion.

    The votes' weight :math:`\gamma < 1` allows for mistakes that annotators make together. :math:`\tilde f` is f at
    the temperature that fits q best: where features say little, over-confident networks would outvote the crowd. The
    first q come from the two kinds of confusion on the annotations alone. Networks are trained on them for a while, and
    then q is inferred again every few epochs. Predictions are the mean of the K networks, each with the moving average
    of its weights.

    Beside the networks there is a second witness: a Gaussian classifier of the features (linear discriminant analysis),
    fitted to q in closed form and also without the instance's fold. It errs differently, so that their mixture
    :math:`w_1 f + w_2 g`, each at its temperature, takes the place of f, in the E-step and in predictions. The weights
    are those under which the annotations are most likely.

    True labels of some tasks are not needed. Where they are supplied, they are certain in q, name the classes, and
    correct the posterior of other tasks in the second half of the E-steps, by predictions that have not seen them
    (:class:`conal.methods.true_label_correction.PosteriorCorrection`).

    The likelihood does not say which inferred class is which: after every E-step, classes are matched
    with the labels that most annotators give them, and otherwise with the votes, so that annotators are right as often
    as possible. A group who exchange classes and never slip must not name them. Networks and witness get the new names
    too. A class prior :math:`\rho^*` counts only where the user states one.

    References
    ----------
    Chu, Ma and Wang (2021). Learning from crowds by modeling common confusions. AAAI.
    Chernozhukov, Chetverikov, Demirer, Duflo, Hansen, Newey and Robins (2018). Double/debiased machine learning for
    treatment and structural parameters. The Econometrics Journal 21 (for cross-fitting).

    Examples
    --------
    >>> import conal
    >>> data = conal.datasets.synthetic(n_train=300, n_classes=3, seed=1)
    >>> clf = conal.CrossCoNAL(epochs=30).fit(data.x, data.annotations)
    >>> clf.metrics_["selection"], clf.predict(data.test.x).shape
    ('last', (1000,))
    """

    separates_noise = True
    common_meaning = (
        "It is the confusion of all annotators' labels together. Neither it nor omega says how many mistakes are "
        "common; see Shared mistakes."
    )
    judges_true_labels = True
    own_selection = "last"
    uses = ("epochs",)
    estimator_name = "CrossCoNAL"
    defaults: ClassVar[dict[str, Any]] = {"lr": 0.005, "input_dropout": 0.3}
    own_scaling: ClassVar[Scaling] = "robust"

    epochs: int | Literal["auto"]
    certainty: Tensor

    # Each default changed alone, on validation data of six crowds: studies/results/0.2.0/ablation.csv.
    vote_weight: float = parameter(
        default=0.7,
        must_be=number(above=0),
        help="Exponent gamma of the votes. Below 1 allows for shared mistakes.",
    )
    pooling: float = parameter(
        default=1.0,
        must_be=number(above=0),
        help="Number of pseudo-labels per row that shrink an annotator's own confusion to the common one.",
    )
    start: float = parameter(default=0.2, must_be=share(), help="Share of the epochs before the first E-step.")
    rounds: int = parameter(
        default=17,
        must_be=whole(1),
        help="Number of E-steps, evenly spaced, the last at the end of training. With epochs='auto', at most one for "
        "every second epoch.",
    )
    noise_model: Literal["both", "mixture", "pooled"] = parameter(
        default="both",
        must_be=one_of("both", "mixture", "pooled"),
        help="Noise model of the E-step. 'mixture': common and individual confusion, an omega per annotator. "
        "'pooled': one matrix per annotator, shrunk to the common one. 'both': the mixture for the first inferred "
        "labels, and the pooled matrices from then on.",
        alias="confusion",
    )
    confidence: Literal["held-out", "model"] = parameter(
        default="held-out",
        must_be=one_of("held-out", "model"),
        help="How sure inferred labels are said to be. 'held-out': as sure as labels that were left out allow. "
        "'model': as sure as the model is, which counts annotators as independent and claims too much.",
    )

    def __init__(self, problem: Problem, backbone: nn.Module, **given: Any) -> None:
        super().__init__(problem, backbone, **given)
        epochs = planned_epochs(self.epochs, problem.n_tasks)
        self.due = due_epochs(epochs, self.start, planned_rounds(self.rounds, self.epochs, epochs))
        self.noise = self._make_noise(learn_omega=self.noise_model != "pooled")
        self.pooled_noise = self._make_noise(learn_omega=False) if self.noise_model == "both" else None
        self.correction = PosteriorCorrection(problem.n_classes) if problem.n_true_labels else None
        if self.confidence == "held-out":
            self.register_buffer("certainty", torch.ones(()))
        self.judged: JudgedTasks | None = None

    def _make_noise(self, *, learn_omega: bool) -> TwoSourceNoise:
        common, diagonal = COMMON_PRIOR
        pseudo = PseudoLabels(common, diagonal, pooling=float(self.pooling))
        sizes = self.problem.n_annotators, self.problem.n_classes
        groups = self.problem.annotator_groups
        return TwoSourceNoise(*sizes, pseudo, omega_start=OMEGA_START, learn_omega=learn_omega, groups=groups)

    # ---------------------------------------------------------------- training

    @torch.no_grad()
    def prepare(self, annotations: Annotations) -> None:
        """Draw the folds, and infer the first labels from the annotations alone."""
        self.draw_folds(annotations)
        self.votes = annotations.tasks, annotations.annotators, annotations.labels
        if self.known is not None:
            self.judged = JudgedTasks(self.known, self.votes, self.problem.n_annotators, self.problem.n_classes)
        posterior, counts = infer_from_labels(self.noise, annotations, START_ROUNDS, self.with_truth)
        self.register_buffer("posterior", posterior, persistent=False)
        self.update_confusion(counts)

    def is_due(self, epoch: int) -> bool:
        """After a share ``start`` of the epochs, and then at equal intervals."""
        return epoch in self.due

    def weighted_evidence(self, batch: Batch) -> Tensor:
        """(P, C) log of the annotators' confusion at the observed labels, by the weight of the votes."""
        return self.vote_weight * self.log_prob_given_class(batch)

    def learn_from_truth(self, predictions: Iterable[tuple[Tensor, Batch]]) -> Iterable[tuple[Tensor, Batch]]:
        """By held-out predictions of tasks whose truth is known: name the classes, and correct the posterior.

        The correction takes part in the second half of the E-steps. Before, the networks still find out which tasks
        belong together; a correction of two classes that they do not tell apart yet would make them one.
        """
        if self.correction is None or self.judged is None:
            return predictions
        collected = list(predictions)
        for logits, batch in collected:
            unseen = self.judged.evidence_without_truth(self.log_prob_given_class(batch), batch)
            self.judged.remember(self._log_joint(logits, batch.rows, unseen), batch)
        order = aligned_with_votes(self.noise_in_use.pi_g, self.judged.inferred_as(self.judged.log_joint.softmax(-1)))
        if len(self.judged.truth) and not is_identity(order):
            self._rename(order)
            self.meet_prior(self.inferred_shares())
            collected = [(logits[:, order], batch) for logits, batch in collected]
        if int(self.epochs_done) >= sorted(self.due)[len(self.due) // 2]:
            self.correction.fit(self.judged.log_joint, self.judged.truth)
        return collected

    def _rename(self, order: Tensor) -> None:
        """Give the classes other names: class c is from now on what was inferred as ``order[c]``."""
        self.posterior.copy_(self.posterior[:, order])
        self.noise.reorder(order)
        if self.pooled_noise is not None:
            self.pooled_noise.reorder(order)
        if self.judged is not None:
            self.judged.log_joint.copy_(self.judged.log_joint[:, order])
        self.rename_outputs(order)

    def _usual_certainty(self) -> float:
        """How sure to be by left-out labels alone."""
        return float(self.certainty) if self.confidence == "held-out" else 1.0

    def unseen_posterior(self) -> tuple[Tensor, Tensor] | None:
        """Posteriors of the tasks with a true label by the network and the correction that have not seen it."""
        if self.correction is None or self.judged is None or not len(self.judged.truth):
            return None
        return self.judged.unseen_posterior(self.n_folds, self._usual_certainty())

    def settled(self, posterior: Tensor, batch: Batch) -> Tensor:
        """As it was inferred: classes are named first, and then :meth:`update_confusion` sets true labels."""
        return posterior

    def update_confusion(self, counts: Tensor) -> None:
        """Match the inferred classes with the votes, and fit the confusion to (R, C, C) expected counts."""
        if counts.isnan().any():
            raise DivergenceError(
                "the inferred labels became nan; lower lr, or scale the features (scaling='standard')"
            )
        truth = None if self.judged is None else self.judged.inferred_as(self.posterior[self.judged.mask])
        order = self._names(counts, truth)
        if not is_identity(order):
            self._rename(order)
        # The copy keeps the memory layout of the counts, which decides the last bit of their sums.
        renamed = torch.empty_like(counts).copy_(counts[:, order])
        if self.judged is not None:
            certain = self.with_truth(self.posterior)
            renamed = self.judged.correct_counts(renamed, self.posterior, certain)
            self.posterior.copy_(certain)
        self.noise.fit(renamed)
        if self.pooled_noise is not None:
            self.pooled_noise.fit(renamed)
        if self.judged is not None:
            self.judged.row_counts.copy_(renamed.sum(2).double() + self.noise_in_use.row_pseudo.double())

    @staticmethod
    def _names(counts: Tensor, truth: Tensor | None) -> Tensor:
        """(C,) the inferred class of each class name: by true labels, by most annotators, or by the votes."""
        if truth is not None:
            return aligned_with_votes(counts.sum(0), truth)
        order = aligned_with_people(counts)
        if is_identity(order):
            order = aligned_with_votes(counts.sum(0))
        return order if most_annotators_agree(counts, order) else present_names(order)

    @torch.no_grad()
    def finish(self) -> None:
        """How sure posteriors may be: by left-out labels, and by true labels, which say more."""
        if self.confidence == "held-out":
            self.certainty.fill_(self._held_out_certainty())
        if self.correction is not None and self.judged is not None:
            self.correction.fit_certainty(self.judged.log_joint, self.judged.truth, self._usual_certainty())

    def _held_out_certainty(self) -> float:
        """How sure the labels of tasks without a true label may be."""
        votes, counts = self.votes, self.empty_counts()
        codes = torch.from_numpy(np.stack([each.astype(np.int64) for each in votes])).to(self.posterior.device)
        counts.add(self.posterior[codes[0]], codes[1], codes[2])
        if self.judged is not None:
            is_open = ~self.judged.mask.cpu().numpy()[votes[0]]
            votes = votes[0][is_open], votes[1][is_open], votes[2][is_open]
        return held_out_certainty(
            logarithm(self.posterior).double().cpu().numpy(),
            votes,
            counts.matrices().double().cpu().numpy(),
            vote_weight=float(self.vote_weight),
            pooling=float(self.pooling),
        )

    def working_state(self) -> dict[str, Tensor]:
        """As for every cross-fitted EM, and what was inferred where the truth is known."""
        found = super().working_state()
        if self.judged is None:
            return found
        return found | {"judged_log_joint": self.judged.log_joint, "row_counts": self.judged.row_counts}

    # ---------------------------------------------------------------- what was learned

    @property
    def noise_in_use(self) -> TwoSourceNoise:
        """The model of the annotators by which labels are inferred."""
        return self.noise if self.pooled_noise is None else self.pooled_noise

    def joint_posterior(self, class_logits: Tensor, rows: Tensor, evidence: Tensor) -> Tensor:
        """(N, C) posterior, with the classifier at its temperature and the votes by their weight, and corrected."""
        if self.correction is None:
            return super().joint_posterior(class_logits * self.temperature, rows, self.vote_weight * evidence)
        corrected: Tensor = self.correction(self._log_joint(class_logits, rows, evidence))
        return corrected.softmax(-1)

    def _log_joint(self, class_logits: Tensor, rows: Tensor, evidence: Tensor) -> Tensor:
        """(N, C) log of the posterior before it is corrected, not normalised."""
        log_prior = (class_logits * self.temperature + self.prior_shift).log_softmax(-1)
        return log_prior.index_add(0, rows, self.vote_weight * evidence)

    def log_prob_given_class(self, batch: Batch) -> Tensor:
        """(P, C) log of the annotators' confusion at the observed labels."""
        return self.noise_in_use.log_prob(batch.annotators, batch.labels, self.is_known(batch.annotators))

    def omega_of(self, batch: Batch) -> Tensor:
        """(P,) omega of the batch's annotators; 1 for annotators without training labels."""
        return self.noise.rate(batch.annotators, self.is_known(batch.annotators))

    def confusion(self) -> tuple[Tensor, Tensor]:
        """The common and the annotators' confusion by which labels are inferred; the common one without labels.

        The pooled matrix of all labels is nearer to the common confusion of simulated crowds than that of the two
        sources: how mistakes divide between these is hardly identified, and most count as individual.
        """
        pi_g, pi_r = self.noise_in_use.pi_g, self.noise_in_use.pi_r
        return pi_g, self.known_or_common(pi_g, pi_r)

    @property
    def tempered(self) -> bool:
        """Whether left-out labels made posteriors less sure, or true labels said how sure they may be."""
        return self.correction is not None or self._usual_certainty() < 1

    def training_posterior(self) -> Tensor:
        """(N, C) the cross-fitted posterior of every training task; NaN for tasks without training labels."""
        return torch.where(self.labelled[:, None], self.with_truth(self._reported(self.posterior)), torch.nan)

    def posterior_given(self, class_logits: Tensor, batch: Batch) -> Tensor:
        """(N, C) P(z | x, all labels of the instance), as sure as left-out labels and true labels allow."""
        return self._reported(super().posterior_given(class_logits, batch))

    def _reported(self, posterior: Tensor) -> Tensor:
        if self.correction is not None:
            return self.correction.reported(posterior)
        return flattened(posterior, self.certainty) if self.confidence == "held-out" else posterior
