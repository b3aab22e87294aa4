"""CoNAL by EM: common and individual confusion with closed-form updates, and the network in the M-step."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Annotated, Any, Literal

import torch
from torch import Tensor, nn

from conal.aggregation.common_confusion import CommonConfusion, mixture, share_of_common
from conal.data.annotations import Annotations
from conal.errors import ConalWarning
from conal.methods.base import Batch, Problem, register
from conal.methods.em import SingleNetworkEM, SingleNetworkEMParameters
from conal.methods.two_source_noise import ATTRIBUTED, PseudoLabels, TwoSourceNoise
from conal.parameters import Doc, number, parameters

OMEGA_PRIOR = 1.0
"""A Beta(2, 2) prior on omega, whose mode has one pseudo-label from either source."""
OMEGA_START = 0.5
"""Before the first round from the votes, half of every label is common."""
START_ROUNDS = 100
"""Iterations of the aggregator, at most; training goes on from there."""


@parameters
class CoNALEMParameters(SingleNetworkEMParameters):
    """Parameters of :class:`CoNALEMMethod`."""

    omega: Annotated[
        Literal["annotator", "annotation"],
        Doc(
            "One omega per annotator, with a Beta(2, 2) prior, or one per annotation, as in the appendix. In the "
            "latter case, infer and common_noise_rate use the annotator's mean."
        ),
    ] = "annotator"
    first_labels: Annotated[
        Literal["votes", "common-confusion"],
        Doc(
            "Where EM starts: at the vote shares, or at the solution of the aggregator 'common-confusion'. On "
            "simulated crowds both were level; on LabelMe's validation data the votes were better. An omega per "
            "annotation starts at the vote shares."
        ),
    ] = "votes"
    prior_individual: Annotated[
        float | Literal["auto"],
        number(above=0),
        Doc(
            "Number of pseudo-labels in every cell of an annotator's own matrix. 'auto' takes the one that "
            "'common-confusion' chooses by held-out labels, or ``smoothing`` if EM starts at the vote shares."
        ),
    ] = "auto"


@register("conal-em")
class CoNALEMMethod(SingleNetworkEM, CoNALEMParameters):
    r"""The paper's noise model by EM, with the classifier in the M-step (Appendix B).

    A label comes from the common confusion with probability :math:`\omega_r` and from the annotator's own otherwise.
    The posterior is over the true label and the source together, :math:`q(z) q(s \mid z)`:

    .. math::
        q_i(c) &\propto f_c(x_i) \prod_r \mu^r_{c, y_i^r}, \qquad
            \mu^r_{cl} = \omega_r \pi^g_{cl} + (1 - \omega_r) \pi^r_{cl}, \qquad
            t^r_{cl} = q(s = 1 \mid z = c, y = l) = \omega_r \pi^g_{cl} / \mu^r_{cl} \\
        \pi^g_{cl} &\propto \sum_r n^r_{cl} t^r_{cl} + \alpha, \quad
            \pi^r_{cl} \propto n^r_{cl} (1 - t^r_{cl}) + \alpha_r, \quad
            \omega_r = \frac{\sum_{cl} n^r_{cl} t^r_{cl} + 1}{n_r + 2}

    with :math:`n^r_{cl}` the expected counts. The network is trained on q by cross-entropy. By default the first q are
    the vote shares, and half of every label is common. From the votes, a mistake that most annotators share can count
    as the right answer. With ``first_labels="common-confusion"``, the first q, matrices, :math:`\omega` and the prior
    :math:`\alpha_r` are those of that aggregator, which has the same noise model and the class shares in place of the
    network, and starts from the solution of Dawid and Skene.

    Taken literally, with an :math:`\omega` of its own for every annotation and a factorised posterior, the appendix
    degenerates: every :math:`\omega` runs to 0 or 1. That form is an option.

    References
    ----------
    Chu, Ma and Wang (2021). Learning from crowds by modeling common confusions. AAAI. Appendix B.

    Examples
    --------
    >>> import conal
    >>> conal.make("conal-em").omega
    'annotator'
    """

    separates_noise = True
    common_meaning = ATTRIBUTED
    omega_of_labels: Tensor

    def __init__(self, problem: Problem, backbone: nn.Module, **given: Any) -> None:
        super().__init__(problem, backbone, **given)
        own = self.smoothing if self.prior_individual == "auto" else self.prior_individual
        pseudo = PseudoLabels(common=self.smoothing, individual=own, omega=OMEGA_PRIOR)
        self.noise = TwoSourceNoise(
            problem.n_annotators, problem.n_classes, pseudo, omega_start=OMEGA_START, uniform_start=True
        )
        n_labels = int(problem.labels_per_annotator.sum()) if self.omega == "annotation" else 0
        self.register_buffer("omega_of_labels", torch.full((n_labels,), OMEGA_START), persistent=False)

    @torch.no_grad()
    def prepare(self, annotations: Annotations) -> None:
        """Start from the same noise model on the annotations alone."""
        super().prepare(annotations)
        if self.first_labels == "votes" or self.omega == "annotation":
            return
        start = CommonConfusion(
            prior_common=self.smoothing, prior_individual=self.prior_individual, verbose=False, n_iter=START_ROUNDS
        )
        with warnings.catch_warnings(action="ignore", category=ConalWarning):  # EM goes on from here
            start.fit(annotations, true_labels=self.true_labels(annotations))
        self.noise.pseudo = self.noise.pseudo._replace(individual=start.prior_individual_)
        found = (start.common_confusion_, start.annotator_confusion_, start.omega_)
        for tensor, values in zip((self.noise.pi_g, self.noise.pi_r, self.noise.omega), found, strict=True):
            tensor.copy_(torch.from_numpy(values))
        self.posterior.copy_(torch.from_numpy(start.probas_))

    def update_confusion(self, counts: Tensor) -> None:
        """Split the counts between the two sources by q(s | z), then fit both, and omega."""
        self.noise.fit(counts)

    def em_round(self, batches: Iterable[Batch]) -> None:
        """One E-step and the closed forms of the M-step."""
        if self.omega == "annotator":
            super().em_round(batches)
        else:
            self._literal_round(batches)

    def label_evidence(self, batch: Batch, first: int) -> Tensor:
        """(P, C) as :meth:`log_prob_given_class`, by the training labels' own omega where they have one."""
        if self.omega == "annotator":
            return self.log_prob_given_class(batch)
        omega = self.omega_of_labels[first : first + len(batch.labels)]
        return mixture(omega, *self.noise.columns(batch.annotators, batch.labels)).log()

    def log_prob_given_class(self, batch: Batch) -> Tensor:
        """(P, C) log [omega pi_g + (1 - omega) pi_r] at the observed labels."""
        return self.noise.log_prob(batch.annotators, batch.labels, self.is_known(batch.annotators))

    def omega_of(self, batch: Batch) -> Tensor:
        """(P,) omega of the batch's annotators; 1 for annotators without training labels."""
        return self.noise.rate(batch.annotators, self.is_known(batch.annotators))

    def confusion_matrices(self) -> tuple[Tensor, Tensor]:
        """The two kinds of confusion; annotators without labels are given the common one."""
        return self.noise.pi_g, self.known_or_common(self.noise.pi_g, self.noise.pi_r)

    def working_state(self) -> dict[str, Tensor]:
        """As for every EM, and omega of the training labels."""
        return {**super().working_state(), "omega_of_labels": self.omega_of_labels}

    def _literal_round(self, batches: Iterable[Batch]) -> None:
        """The literal appendix: q(z) by the mixture, then q(s) by q(z), and omega = q(s = 1)."""
        individual, common = self.empty_counts(), self.empty_counts()
        total = self.posterior.new_zeros(self.problem.n_annotators)
        first = 0
        for batch, posterior in self.e_step(batches):  # in the order of the annotations: their omegas are a slice
            here = slice(first, first + len(batch.labels))
            q = posterior[batch.rows]
            sources = ((q * column).sum(-1) for column in self.noise.columns(batch.annotators, batch.labels))
            omega = share_of_common(self.omega_of_labels[here], *sources)
            individual.add((1 - omega)[:, None] * q, batch.annotators, batch.labels)
            common.add(omega[:, None] * q, batch.annotators, batch.labels)
            total.index_add_(0, batch.annotators, omega)
            self.omega_of_labels[here] = omega
            first = here.stop
        self.noise.fit_matrices(common.matrices().sum(0), individual.matrices())
        self.noise.omega.copy_(total / self.labels_per_annotator.clamp(min=1))
