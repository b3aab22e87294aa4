"""Cross-fitted EM, the default method: no network predicts its own training instances.

The method comes first, in the order of a fit: what is prepared, the loss of the networks, a round of EM (held-out
predictions, class prior, E-step, M-step), true labels, how sure posteriors may be, and what a trained model says. Below
it are its parts: when E-steps are due, the first labels, features for several passes, and the names of classes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor, nn

from conal._arrays import FloatArray
from conal.aggregation.counts import Votes, vote_shares
from conal.aggregation.held_out import held_out_certainty
from conal.data.annotations import Annotations
from conal.errors import DivergenceError
from conal.methods.base import Batch, Problem, register
from conal.methods.em import EMMethod, counts_from_votes
from conal.methods.true_label_correction import JudgedTasks, PosteriorCorrection, flattened, logarithm
from conal.methods.two_source_noise import PseudoLabels, TwoSourceNoise, highest_strength, learned_prior
from conal.networks.backbones import MLP, fresh_copy, reorder_outputs
from conal.networks.cross_fitting import (
    HIGHEST,
    Network,
    WeightAverage,
    cross_fitted_loss,
    fit_temperature,
    held_out_log_proba,
    mean_log_proba,
)
from conal.networks.second_classifier import GaussianExpert, MixtureOfExperts, mixture_weights
from conal.parameters import Doc, number, parameters, share, whole
from conal.parameters.training import Scaling, planned_epochs, planned_folds, planned_mixup, planned_rounds

START_ROUNDS = 60
"""EM rounds on the annotations alone before the networks are trained."""
OMEGA_START = 0.2
"""Most labels come from the individual confusion until the data say otherwise."""
COMMON_PRIOR = (0.5, 15.0)
"""Pseudo-labels in every cell of the common matrix, and how many more there are in its diagonal.

Large data hardly notice them. With 50 tasks, few pseudo-labels let a frequent class take over a rare one.
"""
POOLING_OF_MIXTURE = 1.0
"""Pseudo-labels per row of an annotator's own matrix beside the common one, for pooling='auto'."""
FEW_LABELS_PER_TASK, FEW_TASKS = 2.0, 300
"""Up to so many labels per task, or below so many tasks, priors are learned, networks are trained on mixtures, and they
are never surer than they were trained to be. With more, labels check each other, and each of these costs accuracy: on
LabelMe's validation images 0.8 points together, on held-out Music songs 1.2."""
LONE_VOTE = 2 / 3
"""Share of its first inferred label that a task's only vote decides; the rest is spread over all classes."""

Predictions = list[tuple[Tensor, Batch]]
"""Of every batch the (n, C) log-probabilities, and the batch without features."""


@parameters
class CrossCoNALParameters:
    """Parameters of :class:`CrossCoNALMethod`."""

    # Each default changed alone, on validation data of six crowds: studies/results/0.2.0/ablation.csv.
    vote_weight: Annotated[
        float, number(above=0), Doc("Exponent gamma of the votes. Below 1 allows for shared mistakes.")
    ] = 0.7
    pooling: Annotated[
        float | Literal["auto"],
        number(above=0),
        Doc(
            "Number of pseudo-labels per row that shrink an annotator's own confusion to the common one. 'auto': to "
            "the common one at the annotator's own skill, by as many as the labels say (empirical Bayes), where "
            "labels are few: up to two per task, or fewer than 300 tasks. Otherwise 1."
        ),
    ] = "auto"
    mixup: Annotated[
        bool | Literal["auto"],
        Doc(
            "Train conal's own networks for feature vectors on random mixtures of pairs of tasks. 'auto': for up to "
            "2,500 labelled tasks, where labels are few: up to two per task, or fewer than 300 tasks."
        ),
    ] = "auto"
    start: Annotated[float, share(), Doc("Share of the epochs before the first E-step.")] = 0.2
    rounds: Annotated[
        int,
        whole(1),
        Doc(
            "Number of E-steps, evenly spaced, the last at the end of training. With epochs='auto', at most one for "
            "every second epoch."
        ),
    ] = 17
    confusion: Annotated[
        Literal["both", "mixture", "pooled"],
        Doc(
            "Noise model of the E-step. 'mixture': common and individual confusion, an omega per annotator. "
            "'pooled': one matrix per annotator, shrunk to the common one. 'both': the mixture for the first inferred "
            "labels, and the pooled matrices from then on."
        ),
    ] = "both"
    confidence: Annotated[
        Literal["held-out", "model"],
        Doc(
            "How sure inferred labels are said to be. 'held-out': as sure as labels that were left out allow. "
            "'model': as sure as the model is, which counts annotators as independent and claims too much."
        ),
    ] = "held-out"
    folds: Annotated[
        int | Literal["auto"],
        whole(2),
        Doc("Number K of networks and folds. 'auto' is 5, and 3 for 16,000 labelled tasks or more."),
    ] = "auto"
    averaging: Annotated[
        float, number(at_least=0, below=1), Doc("Decay of the moving average of the weights, per step; 0 for none.")
    ] = 0.98
    calibrate: Annotated[bool, Doc("Fit the networks' temperature before each E-step.")] = True
    # With and without it on 17 crowds: studies/results/0.2.0/witness.csv.
    second_classifier: Annotated[
        Literal["lda", "none"],
        Doc(
            "Second classifier beside the networks, in the E-step and in predictions: 'lda', linear discriminant "
            "analysis on principal components of the features, or 'none'. Images have none."
        ),
    ] = "lda"


@register("xconal")
class CrossCoNALMethod(EMMethod, CrossCoNALParameters):
    r"""Cross-fitted EM with shrunken matrices, a second classifier and tempering: the default of ``conal fit``.

    It needs no gold labels. It is no part of the paper, whose two kinds of confusion infer the first labels only. With
    ``confusion="pooled"`` it does without them; by the ablation of 0.2.0 that makes no significant difference.

    A network that was trained on an instance's inferred label repeats that label, mistakes included, when it predicts
    the instance. So K networks are trained here, each without one fold of the instances, and the E-step takes the
    prediction of the network for which the instance was held out. What the crowd says is then checked by an
    independent prediction, and training needs no true labels to be stopped in time.

    .. math::
        q_i(c) \propto \tilde f^{(-k_i)}_c(x_i) \prod_r \bigl( \bar\pi^r_{c, y_i^r} \bigr)^\gamma
            (\rho^*_c / \bar\rho_c)^\kappa, \qquad
        \mathcal L = - \frac{1}{(K - 1) N} \sum_k \sum_{i : k_i \ne k} \sum_c q_i(c) \log f^{(k)}_c(x_i)

    :math:`\bar\pi^r` is the annotator's confusion, drawn to that of all annotators by pseudo-labels (``pooling``).
    The paper's two kinds of confusion and :math:`\omega_r` are fitted beside it: they infer the first q, and
    :math:`\omega_r` is the share of an annotator's labels that come from the common confusion.

    The votes' weight :math:`\gamma < 1` allows for mistakes that annotators make together. :math:`\tilde f` is f at
    the temperature that fits q best: where features say little, over-confident networks would outvote the crowd. Where
    labels are few, it is never surer than f, and networks are trained on mixtures of pairs of tasks (``mixup``). The
    first q come from the two kinds of confusion on the annotations alone; a task with a single label keeps it as a
    smoothed vote.
    Networks are trained on them for a while, and then q is inferred again every few epochs. Predictions are the mean of
    the K networks, each with the moving average of its weights.

    Beside the networks there is a second classifier: a Gaussian one of the features (linear discriminant analysis),
    fitted to q in closed form and also without the instance's fold. It errs differently, so that their mixture
    :math:`w_1 f + w_2 g`, each at its temperature, takes the place of f, in the E-step and in predictions. The weights
    are those under which the annotations are most likely.

    True labels of some tasks are not needed. Where they are supplied, they are certain in q, name the classes, and
    correct the posterior of other tasks in the second half of the E-steps, by predictions that have not seen them
    (:class:`conal.methods.true_label_correction.PosteriorCorrection`).

    The likelihood does not say which inferred class is which: after every E-step, classes are matched
    with the labels that most annotators give them, and otherwise with the votes, so that annotators are right as often
    as possible. A group who exchange classes and never slip must not name them. All classifiers get the new names
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
    reads = ("epochs",)
    own_scaling: ClassVar[Scaling] = "robust"

    epochs: int | Literal["auto"]
    fold_of: Tensor
    held_out: Tensor
    labelled: Tensor
    temperature: Tensor
    certainty: Tensor

    def __init__(self, problem: Problem, backbone: nn.Module, **given: Any) -> None:
        super().__init__(problem, backbone, **given)
        self.n_folds = planned_folds(self.folds, problem.n_tasks)
        self.others = nn.ModuleList(fresh_copy(backbone) for _ in range(self.n_folds - 1))
        self.averages = WeightAverage(self.backbones, self.averaging)
        self.register_buffer("temperature", torch.ones(()))
        sizes = problem.shape[0] if len(problem.shape) == 1 else 0, problem.n_classes
        has_expert = self.second_classifier == "lda" and sizes[0] > 0
        self.gaussian = GaussianExpert(*sizes, self.n_folds) if has_expert else None
        epochs = planned_epochs(self.epochs, problem.n_tasks)
        self.due = due_epochs(epochs, self.start, planned_rounds(self.rounds, self.epochs, epochs))
        self.mixes = planned_mixup(self.mixup, problem.n_tasks) and isinstance(backbone, MLP)
        self.has_few_labels = True  # until they are seen
        self.noise = self._make_noise(learn_omega=self.confusion != "pooled")
        self.pooled_noise = self._make_noise(learn_omega=False) if self.confusion == "both" else None
        self.correction = PosteriorCorrection(problem.n_classes) if problem.n_true_labels else None
        if self.confidence == "held-out":
            self.register_buffer("certainty", torch.ones(()))
        self.judged: JudgedTasks | None = None

    def _make_noise(self, *, learn_omega: bool) -> TwoSourceNoise:
        common, diagonal = COMMON_PRIOR
        learned = self.pooling == "auto" and not learn_omega
        pooling = POOLING_OF_MIXTURE if self.pooling == "auto" else float(self.pooling)
        pseudo = PseudoLabels(common, diagonal, pooling=pooling, learned=learned)
        sizes = self.problem.n_annotators, self.problem.n_classes
        groups = self.problem.annotator_groups
        return TwoSourceNoise(*sizes, pseudo, omega_start=OMEGA_START, learn_omega=learn_omega, groups=groups)

    # ---------------------------------------------------------------- before training: folds and the first labels

    @torch.no_grad()
    def prepare(self, annotations: Annotations) -> None:
        """Draw a fold for every task, and infer the first labels from the annotations alone."""
        self.register_buffer("fold_of", torch.randperm(annotations.n_tasks) % self.n_folds, persistent=False)
        voted = torch.from_numpy(annotations.labels_per_task() > 0)
        labelled = voted if self.known is None else voted | (self.known >= 0)
        self.register_buffer("labelled", labelled, persistent=False)
        nothing = torch.full((annotations.n_tasks, self.problem.n_classes), torch.nan)
        self.register_buffer("held_out", nothing, persistent=False)
        self.votes = annotations.tasks, annotations.annotators, annotations.labels
        if self.known is not None:
            self.judged = JudgedTasks(self.known, self.votes, self.problem.n_annotators, self.problem.n_classes)
        per_task = annotations.n_annotations / max(int(voted.sum()), 1)
        self.has_few_labels = per_task <= FEW_LABELS_PER_TASK or int(voted.sum()) < FEW_TASKS
        if self.mixup == "auto":
            self.mixes = self.mixes and self.has_few_labels
        for noise in (self.noise, self.pooled_noise):
            if noise is not None and noise.pseudo.learned:
                most = highest_strength(per_task) if self.has_few_labels else 1.0
                noise.pseudo = noise.pseudo._replace(pooling=most, learned=self.has_few_labels)
        posterior, counts = infer_from_labels(self.noise, annotations, START_ROUNDS, self.with_truth)
        self.register_buffer("posterior", posterior, persistent=False)
        self.update_confusion(counts)

    @torch.no_grad()
    def load_previous(self, working: Mapping[str, Tensor], annotations: Annotations) -> None:
        """As for every EM; known tasks stay in their folds, so that no network predicts what it was trained on."""
        self.fold_of[: len(working["fold_of"])] = working["fold_of"]
        super().load_previous(working, annotations)

    # ---------------------------------------------------------------- epochs: K networks, each without one fold

    @property
    def backbones(self) -> list[nn.Module]:
        """The K networks."""
        return [self.backbone, *self.others]

    def trained_weights(self) -> set[str]:
        """Those of all networks, and of their averages."""
        return {name for name in self.state_dict() if name.startswith(("backbone.", "others.", "averages.networks."))}

    def loss(self, batch: Batch) -> Tensor:
        """Mean over the networks of the cross-entropy to the inferred labels, each without its held-out fold."""
        target, fold = self.posterior[batch.instances], self.fold_of[batch.instances]
        weight = batch.instance_weight * self.n_folds / (self.n_folds - 1)  # one over what a network sees of a batch
        return cross_fitted_loss(self.backbones, batch.x, target, fold, weight, mixup=self.mixes and self.training)

    def end_step(self) -> None:
        """The average follows the weights."""
        self.averages.update()

    def is_due(self, epoch: int) -> bool:
        """After a share ``start`` of the epochs, and then at equal intervals."""
        return epoch in self.due

    # ---------------------------------------------------------------- a round of EM

    def em_round(self, batches: Iterable[Batch]) -> None:
        """Predict every task by what has not seen it, infer its class (E-step), and fit the annotators (M-step)."""
        found = self.held_out_predictions(batches)
        self.adjust_to_class_prior(self._shares())
        if self.correction is not None and self.judged is not None:
            found = self._learn_from_truth(found, self.correction, self.judged)
        counts = self.empty_counts()
        for log_proba, batch in found:
            evidence = self.log_prob_given_class(batch)
            inferred = self.joint_posterior(log_proba, batch.rows, evidence).to(self.posterior.dtype)
            self.posterior[batch.instances] = inferred
            counts.add(inferred[batch.rows], batch.annotators, batch.labels)
        self.update_confusion(counts.matrices())

    def held_out_predictions(self, batches: Iterable[Batch]) -> Predictions:
        """Of every task, the prediction by networks, and a Gaussian classifier, that were fitted without its fold.

        The Gaussian classifiers are fitted here, to the labels that the networks were trained on. Then the temperature
        of the mixture is fitted, at which :meth:`joint_posterior` takes it.
        """
        target = self.posterior[self.labelled]
        scaled = ScaledBatches(batches, self.scaled, len(target) * math.prod(self.problem.shape))
        others: list[Network] | None = None
        if self.gaussian is not None:
            others = self.gaussian.fit(lambda: map(self._soft_labels, scaled), len(target))
        found = self._without_fold(self.averages.networks, scaled)
        if self.gaussian is not None and others is not None:
            found = self._mixed(self.gaussian, found, self._without_fold(others, scaled), target)
        if self.calibrate:
            highest = 1.0 if self.has_few_labels else HIGHEST
            self.temperature.copy_(fit_temperature(torch.cat([each for each, _ in found]), target, highest=highest))
        for log_proba, batch in found:
            self.held_out[batch.instances] = log_proba.to(self.held_out)
        return found

    def _soft_labels(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """Features, folds and inferred labels of a batch."""
        return batch.x, self.fold_of[batch.instances], self.posterior[batch.instances]

    def _without_fold(self, networks: Iterable[Network], batches: Iterable[Batch]) -> Predictions:
        """Of every instance, the prediction of the network that was fitted without its fold."""
        each = list(networks)
        return [
            (held_out_log_proba(each, batch.x, self.fold_of[batch.instances]), batch._replace(x=batch.x[:0]))
            for batch in batches
        ]

    def _mixed(
        self, gaussian: GaussianExpert, by_networks: Predictions, by_gaussian: Predictions, target: Tensor
    ) -> Predictions:
        """Both together: each calibrated to the inferred labels, and weighted by the likelihood of the annotations."""
        networks, others = (torch.cat([each for each, _ in found]) for found in (by_networks, by_gaussian))
        batches = [batch for _, batch in by_networks]
        if self.calibrate:
            gaussian.calibrate(networks, others, target)
        evidence = torch.cat([self._evidence_by_task(batch) for batch in batches])
        calibrated = gaussian.calibrated(networks, others)
        gaussian.shares.copy_(mixture_weights((calibrated + evidence.to(calibrated)).logsumexp(-1).T))
        mixed = gaussian.mixed(networks, others).split([len(batch.instances) for batch in batches])
        return list(zip(mixed, batches, strict=True))

    def _evidence_by_task(self, batch: Batch) -> Tensor:
        """(n, C) how likely the labels of each task are under every class, as a logarithm, by the weight of votes."""
        evidence = self.vote_weight * self.log_prob_given_class(batch)
        return evidence.new_zeros(len(batch.instances), evidence.shape[1]).index_add_(0, batch.rows, evidence)

    def _shares(self) -> Tensor:
        """(C,) shares of the classes among the inferred labels of tasks that have training labels."""
        return self.posterior[self.labelled].mean(0)

    def joint_posterior(self, class_logits: Tensor, rows: Tensor, evidence: Tensor) -> Tensor:
        """(N, C) the E-step: the classifier at its temperature, times the votes by their weight, and corrected."""
        log_joint = self._log_joint(class_logits, rows, evidence)
        return (log_joint if self.correction is None else self.correction(log_joint)).softmax(-1)

    def _log_joint(self, class_logits: Tensor, rows: Tensor, evidence: Tensor) -> Tensor:
        """(N, C) log of the posterior before it is corrected, not normalised."""
        log_prior = (class_logits * self.temperature + self.prior_shift).log_softmax(-1)
        return log_prior.index_add(0, rows, self.vote_weight * evidence)

    def update_confusion(self, counts: Tensor) -> None:
        """The M-step: match the inferred classes with the votes, and fit the confusion to (R, C, C) expected counts."""
        if counts.isnan().any():
            raise DivergenceError(
                "the inferred labels became nan; lower lr, or scale the features (scaling='standard')"
            )
        truth = None if self.judged is None else self.judged.inferred_as(self.posterior[self.judged.mask])
        order = names_of_classes(counts, truth)
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

    @torch.no_grad()
    def _rename(self, order: Tensor) -> None:
        """Give the classes other names: class c is from now on what was inferred as ``order[c]``.

        Networks of other people, whose last layer is not known, learn it anew.
        """
        self.posterior.copy_(self.posterior[:, order])
        self.held_out.copy_(self.held_out[:, order])
        for network in (*self.backbones, *self.averages.networks):
            reorder_outputs(network, order)
        for part in (self.noise, self.pooled_noise, self.gaussian):
            if part is not None:
                part.reorder(order)
        if self.judged is not None:
            self.judged.log_joint.copy_(self.judged.log_joint[:, order])

    def working_state(self) -> dict[str, Tensor]:
        """As for every EM; the folds, held-out predictions, and what was inferred where the truth is known."""
        found = {**super().working_state(), "fold_of": self.fold_of, "held_out": self.held_out}
        if self.judged is None:
            return found
        return found | {"judged_log_joint": self.judged.log_joint, "row_counts": self.judged.row_counts}

    # ---------------------------------------------------------------- true labels, where the user supplied some

    def _learn_from_truth(
        self, predictions: Predictions, correction: PosteriorCorrection, judged: JudgedTasks
    ) -> Predictions:
        """By held-out predictions of tasks whose truth is known: name the classes, and correct the posterior.

        The correction takes part in the second half of the E-steps. Before, the networks still find out which tasks
        belong together; a correction of two classes that they do not tell apart yet would make them one.
        """
        for logits, batch in predictions:
            unseen = judged.evidence_without_truth(self.log_prob_given_class(batch), batch)
            judged.remember(self._log_joint(logits, batch.rows, unseen), batch)
        order = aligned_with_votes(self.noise_in_use.pi_g, judged.inferred_as(judged.log_joint.softmax(-1)))
        if len(judged.truth) and not is_identity(order):
            self._rename(order)
            self.adjust_to_class_prior(self._shares())
            predictions = [(logits[:, order], batch) for logits, batch in predictions]
        if int(self.epochs_done) >= sorted(self.due)[len(self.due) // 2]:
            correction.fit(judged.log_joint, judged.truth)
        return predictions

    def unseen_posterior(self) -> tuple[Tensor, Tensor] | None:
        """Posteriors of the tasks with a true label by the network and the correction that have not seen it."""
        if self.correction is None or self.judged is None or not len(self.judged.truth):
            return None
        return self.judged.unseen_posterior(self.n_folds, self._usual_certainty())

    # ---------------------------------------------------------------- how sure posteriors may be

    @torch.no_grad()
    def finish(self) -> None:
        """Temper the posteriors: by left-out labels, and by true labels, which say more."""
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
            pooling=self._pseudo_labels(counts.matrices()),
        )

    def _pseudo_labels(self, counts: Tensor) -> float | FloatArray:
        """What draws annotators' matrices to the common one: a number per row, or the numbers in all cells."""
        noise = self.noise_in_use
        if not noise.pseudo.learned:
            return noise.pseudo.pooling
        found: FloatArray = learned_prior(counts, noise.pi_g, noise.pseudo.pooling).double().cpu().numpy()
        return found

    def _usual_certainty(self) -> float:
        """How sure to be by left-out labels alone."""
        return float(self.certainty) if self.confidence == "held-out" else 1.0

    @property
    def tempered(self) -> bool:
        """Whether left-out labels made posteriors less sure, or true labels said how sure they may be."""
        return self.correction is not None or self._usual_certainty() < 1

    def _reported(self, posterior: Tensor) -> Tensor:
        """(N, C) posteriors as sure as left-out labels and true labels allow."""
        if self.correction is not None:
            return self.correction.reported(posterior)
        return flattened(posterior, self.certainty) if self.confidence == "held-out" else posterior

    # ---------------------------------------------------------------- what a trained model says

    def class_logits(self, x: Tensor) -> Tensor:
        """(N, C) log of the networks' mean probabilities, by their averaged weights once they are trained.

        The second classifier takes part once it is fitted.
        """
        networks = mean_log_proba(self.backbones if self.training else self.averages.networks, x)
        if self.gaussian is None or self.training:
            return networks
        return self.gaussian.mixed(networks, self.gaussian.log_proba(x))

    def class_network(self) -> nn.Module:
        """The mean of the K networks, by their averaged weights, and the second classifier."""
        return MixtureOfExperts(self.averages.networks, self.gaussian)

    def training_class_proba(self) -> Tensor:
        """(N, C) class probabilities of the training tasks by classifiers that were fitted without them.

        They are those of the last E-step; NaN for tasks that nothing was trained on.
        """
        return self.held_out.exp()

    def training_posterior(self) -> Tensor:
        """(N, C) the cross-fitted posterior of every training task; NaN for tasks without training labels."""
        return torch.where(self.labelled[:, None], self.with_truth(self._reported(self.posterior)), torch.nan)

    def posterior_given(self, class_logits: Tensor, batch: Batch) -> Tensor:
        """(N, C) P(z | x, all labels of the instance), as sure as left-out labels and true labels allow."""
        return self._reported(super().posterior_given(class_logits, batch))

    @property
    def noise_in_use(self) -> TwoSourceNoise:
        """The model of the annotators by which labels are inferred."""
        return self.noise if self.pooled_noise is None else self.pooled_noise

    def log_prob_given_class(self, batch: Batch) -> Tensor:
        """(P, C) log of the annotators' confusion at the observed labels."""
        return self.noise_in_use.log_prob(batch.annotators, batch.labels, self.is_known(batch.annotators))

    def omega_of(self, batch: Batch) -> Tensor:
        """(P,) omega of the batch's annotators; 1 for annotators without training labels."""
        return self.noise.rate(batch.annotators, self.is_known(batch.annotators))

    def confusion_matrices(self) -> tuple[Tensor, Tensor]:
        """The common and the annotators' confusion by which labels are inferred; the common one without labels.

        The pooled matrix of all labels is nearer to the common confusion of simulated crowds than that of the two
        sources: how mistakes divide between these is hardly identified, and most count as individual.
        """
        pi_g, pi_r = self.noise_in_use.pi_g, self.noise_in_use.pi_r
        return pi_g, self.known_or_common(pi_g, pi_r)


# When E-steps are due, the first labels, and features for several passes.


def due_epochs(epochs: int, start: float, rounds: int) -> set[int]:
    """After which epochs there is an E-step: the first after a share ``start`` of them, the last at the end.

    >>> sorted(due_epochs(100, start=0.2, rounds=5))
    [20, 40, 60, 80, 100]
    """
    first = max(1, round(start * epochs))
    rounds = min(rounds, max(epochs - first, 0) + 1)  # more would repeat epochs
    return {round(first + k * (epochs - first) / max(rounds - 1, 1)) for k in range(rounds)}


def infer_from_labels(
    noise: TwoSourceNoise, annotations: Annotations, rounds: int, with_truth: Callable[[Tensor], Tensor]
) -> tuple[Tensor, Tensor]:
    """EM of the two kinds of confusion on the annotations alone, from the vote shares.

    A task with a single label keeps it, as a smoothed vote: nothing checks it yet, and every round would make it surer.

    Returns the (N, C) posterior and its (R, C, C) expected counts; ``noise`` is fitted on the way. In every round,
    ``with_truth`` makes known true labels certain; the posterior that is returned says what was inferred for them.
    """
    votes = Votes(annotations)
    posterior = torch.from_numpy(vote_shares(annotations)).float()
    N, C = posterior.shape
    lone = torch.from_numpy(annotations.labels_per_task() == 1)
    single = LONE_VOTE * posterior[lone] + (1 - LONE_VOTE) / C
    posterior[lone] = single
    for _ in range(rounds):
        posterior = with_truth(posterior)
        noise.fit(counts_from_votes(votes, posterior.double().numpy()))
        log_shares = ((posterior.sum(0) + 1) / (N + C)).log()
        # An annotator gives the same few labels many times: the logarithm of each is taken once.
        evidence = torch.from_numpy(votes.log_evidence(noise.log_matrices().double().numpy()))
        posterior = (log_shares + evidence).softmax(-1).float()
        posterior[lone] = single
    return posterior, counts_from_votes(votes, posterior.double().numpy())


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


def names_of_classes(counts: Tensor, truth: Tensor | None) -> Tensor:
    """(C,) the inferred class of each class name: by true labels, by most annotators, or by the votes."""
    if truth is not None:
        return aligned_with_votes(counts.sum(0), truth)
    order = aligned_with_people(counts)
    if is_identity(order):
        order = aligned_with_votes(counts.sum(0))
    return order if most_annotators_agree(counts, order) else present_names(order)
