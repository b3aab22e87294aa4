"""Cross-fitted CoNAL: EM of the paper's noise model, in which no network predicts its own training instances."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor, nn

from conal.aggregation.certainty import held_out_certainty
from conal.data.annotations import Annotations
from conal.errors import DivergenceError
from conal.methods.base import Batch, Problem, register
from conal.methods.class_matching import (
    aligned_with_people,
    aligned_with_votes,
    is_identity,
    most_annotators_agree,
    present_names,
)
from conal.methods.cross_fitted_em import CrossFittedEM
from conal.methods.judged_tasks import JudgedTasks
from conal.methods.labels_only import infer_from_labels
from conal.methods.posterior_correction import PosteriorCorrection, flattened, logarithm
from conal.methods.round_schedule import due_epochs
from conal.methods.two_source_noise import PseudoLabels, TwoSourceNoise
from conal.parameters import number, one_of, parameter, share, whole
from conal.parameters.plan import planned_epochs, planned_rounds
from conal.parameters.training import Scaling

__all__ = ["CrossCoNALMethod"]

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
    (:class:`conal.methods.posterior_correction.PosteriorCorrection`).

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
        before="model",
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
