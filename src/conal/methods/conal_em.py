"""CoNAL by EM: common and individual confusion with closed-form updates, and the network in the M-step."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import torch
from torch import Tensor, nn

from conal.methods.base import Batch, Problem, register
from conal.methods.em import EMMethod, smoothed
from conal.methods.two_sources import from_common
from conal.parameters import one_of, parameter

__all__ = ["CoNALEMMethod"]

OMEGA_PRIOR = 2.0
"""Both parameters of the Beta prior on omega: one pseudo-label from either source."""


@register("conal-em")
class CoNALEMMethod(EMMethod):
    r"""Learning from crowds by modelling common confusions, by EM with features (Appendix B of the paper).

    A label comes from the common confusion with probability :math:`\omega_r` and from the annotator's own otherwise.
    The posterior is over the true label and the source together, :math:`q(z) q(s \mid z)`:

    .. math::
        q_i(c) &\propto f_c(x_i) \prod_r \mu^r_{c, y_i^r}, \qquad
            \mu^r_{cl} = \omega_r \pi^g_{cl} + (1 - \omega_r) \pi^r_{cl}, \qquad
            t^r_{cl} = q(s = 1 \mid z = c, y = l) = \omega_r \pi^g_{cl} / \mu^r_{cl} \\
        \pi^g_{cl} &\propto \sum_r n^r_{cl} t^r_{cl} + \alpha, \quad
            \pi^r_{cl} \propto n^r_{cl} (1 - t^r_{cl}) + \alpha, \quad
            \omega_r = \frac{\sum_{cl} n^r_{cl} t^r_{cl} + 1}{n_r + 2}

    with :math:`n^r_{cl}` the expected counts. The network is trained on q by cross-entropy. Taken literally, with an
    :math:`\omega` of its own for every annotation and a factorised posterior, the appendix degenerates: every
    :math:`\omega` runs to 0 or 1. That form is an option.

    References
    ----------
    Chu, Ma and Wang (2021). Learning from crowds by modeling common confusions. AAAI. Appendix B.

    Example
    -------
    >>> import conal
    >>> conal.make("conal-em").omega
    'annotator'
    """

    separates_noise = True
    pi_g: Tensor
    pi_r: Tensor
    omega_r: Tensor
    omega_of_labels: Tensor

    omega: Literal["annotator", "annotation"] = parameter(
        default="annotator",
        must_be=one_of("annotator", "annotation"),
        help="Whether omega is tied per annotator, with a Beta(2, 2) prior, or one per annotation, as the appendix has "
        "it; there the annotator's mean stands for omega in infer and common_noise_rate.",
    )

    def __init__(self, problem: Problem, backbone: nn.Module, **given: Any) -> None:
        super().__init__(problem, backbone, **given)
        R, C = problem.n_annotators, problem.n_classes
        self.register_buffer("pi_g", torch.full((C, C), 1.0 / C))
        self.register_buffer("pi_r", torch.full((R, C, C), 1.0 / C))
        self.register_buffer("omega_r", torch.full((R,), 0.5))
        n_labels = int(problem.labels_per_annotator.sum()) if self.omega == "annotation" else 0
        self.register_buffer("omega_of_labels", torch.full((n_labels,), 0.5), persistent=False)

    def update_confusion(self, counts: Tensor) -> None:
        """Split the counts between the two sources by q(s | z), then fit both, and omega."""
        common = from_common(counts, self.omega_r, self.pi_g, self.pi_r)
        self._fit(common.sum(0), counts - common)
        n_common, n_all = common.sum((1, 2)), counts.sum((1, 2))
        self.omega_r.copy_((n_common + OMEGA_PRIOR - 1) / (n_all + 2 * (OMEGA_PRIOR - 1)))

    def em_round(self, batches: Iterable[Batch]) -> None:
        """One E-step and the closed forms of the M-step."""
        if self.omega == "annotator":
            super().em_round(batches)
        else:
            self._literal_round(batches)

    def log_prob_given_class(self, batch: Batch) -> Tensor:
        """(P, C) log [omega pi_g + (1 - omega) pi_r] at the observed labels."""
        omega = self._omega(batch.annotators)
        return self._mixture(batch, omega).log()

    @torch.no_grad()
    def common_noise_rate(self, batch: Batch) -> Tensor:
        """(P,) omega of the batch's annotators; 1 for annotators without training labels."""
        return self._omega(batch.annotators)

    def confusion(self) -> tuple[Tensor, Tensor]:
        """The two kinds of confusion; annotators without labels are given the common one."""
        return self.pi_g, self.known_or_common(self.pi_g, self.pi_r)

    def working_state(self) -> dict[str, Tensor]:
        """As for every EM, and omega of the training labels."""
        return {**super().working_state(), "omega_of_labels": self.omega_of_labels}

    def _omega(self, annotators: Tensor) -> Tensor:
        return torch.where(self.is_known(annotators), self.omega_r[annotators.clamp(min=0)], 1.0)

    def _mixture(self, batch: Batch, omega: Tensor) -> Tensor:
        """(P, C) omega pi_g + (1 - omega) pi_r at the observed labels."""
        common, individual = self._columns(batch)
        return omega[:, None] * common + (1 - omega[:, None]) * individual

    def _columns(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """(P, C) the columns pi_g[:, y] and pi_r[:, y] of the observed labels."""
        return self.pi_g[:, batch.labels].T, self.pi_r[batch.annotators.clamp(min=0), :, batch.labels]

    def _fit(self, common_counts: Tensor, individual_counts: Tensor) -> None:
        self.pi_g.copy_(smoothed(common_counts, self.smoothing))
        self.pi_r.copy_(smoothed(individual_counts, self.smoothing))

    def _literal_round(self, batches: Iterable[Batch]) -> None:
        """The appendix as it stands: q(z) by the mixture, then q(s) by q(z), and omega = q(s = 1)."""
        R, C = self.problem.n_annotators, self.problem.n_classes
        counts = self.posterior.new_zeros(2, R * C, C)  # individual, common; [r observed, true]
        total = self.posterior.new_zeros(R)
        start = 0
        self.meet_prior(self.posterior.mean(0))
        for batch in batches:  # in the order of the annotations, so that their omegas are a slice
            here = slice(start, start + len(batch.labels))
            posterior, omega = self._literal_e_step(batch, self.omega_of_labels[here])
            self.posterior[batch.instances], self.omega_of_labels[here] = posterior, omega
            cell = batch.annotators * C + batch.labels
            counts[0].index_add_(0, cell, (1 - omega)[:, None] * posterior[batch.rows])
            counts[1].index_add_(0, cell, omega[:, None] * posterior[batch.rows])
            total.index_add_(0, batch.annotators, omega)
            start = here.stop
        individual, common = counts.view(2, R, C, C).transpose(2, 3)
        self._fit(common.sum(0), individual)
        self.omega_r.copy_(total / self.labels_per_annotator.clamp(min=1))

    def _literal_e_step(self, batch: Batch, omega: Tensor) -> tuple[Tensor, Tensor]:
        """(N, C) q(z) and (P,) q(s = 1) of a batch."""
        scaled = self._scaled(batch)
        log_joint = (self.class_logits(scaled.x) + self.prior_shift).log_softmax(-1)
        posterior = log_joint.index_add(0, batch.rows, self._mixture(batch, omega).log()).softmax(-1)
        common, individual = ((posterior[batch.rows] * column).sum(-1) for column in self._columns(batch))
        return posterior, omega * common / (omega * common + (1 - omega) * individual)
