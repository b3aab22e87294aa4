"""EM methods, which alternate between inferring true labels and fitting networks and confusion; AggNet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from conal.aggregation.counts import Votes, normalised, vote_shares
from conal.data.annotations import Annotations
from conal.methods.base import Batch, CrowdMethod, Problem, register
from conal.parameters import Doc, number, parameters, whole

# Expected counts: how often each annotator gives each label, under the posterior of the true classes.


class ExpectedCounts:
    r"""Sums over labels, :math:`n^r_{cl} = \sum_{i : y_i^r = l} q_i(c)`, added up batch by batch.

    Parameters
    ----------
    n_annotators, n_classes : int
        R and C.
    like : Tensor
        Counts have its precision and are on its device.

    Examples
    --------
    >>> import torch
    >>> certain = torch.tensor([[1.0, 0.0]])
    >>> counts = ExpectedCounts(1, 2, like=certain).add(certain, torch.tensor([0]), torch.tensor([1]))
    >>> counts.matrices().tolist()
    [[[0.0, 1.0], [0.0, 0.0]]]
    """

    def __init__(self, n_annotators: int, n_classes: int, like: Tensor) -> None:
        self.n_classes = n_classes
        self._by_label = like.new_zeros(n_annotators * n_classes, n_classes)  # [r observed, true]

    def add(self, posterior_of_pairs: Tensor, annotators: Tensor, labels: Tensor) -> Self:
        """Count P labels, each by the (P, C) probabilities of its instance's true class."""
        self._by_label.index_add_(0, annotators * self.n_classes + labels, posterior_of_pairs)
        return self

    def matrices(self) -> Tensor:
        """(R, C, C) ``[r, true, observed]``."""
        C = self.n_classes
        return self._by_label.view(-1, C, C).transpose(1, 2)


def counts_from_votes(votes: Votes, posterior: npt.NDArray[np.float64]) -> Tensor:
    """(R, C, C) expected counts ``[r, true, observed]``, summed in double and returned in single precision."""
    return torch.from_numpy(votes.counts(posterior).copy()).float()


# Base of EM methods, which alternate between inferring true labels and fitting networks and confusion.


class EMMethod(CrowdMethod):
    r"""Base of methods trained by expectation-maximisation with one or several networks in the M-step.

    .. math::
        \text{E:} \quad q_i(c) \propto f_c(x_i) \prod_r p(y_i^r \mid z_i = c), \qquad
        \text{M:} \quad \mathcal L = - \frac1N \sum_i \sum_c q_i(c) \log f_c(x_i)

    and the annotators' parameters in closed form from the expected counts. A round is some epochs of the M-step's
    cross-entropy and then an E-step over all training tasks.

    A subclass sets the first ``posterior`` in :meth:`prepare`, and supplies :meth:`is_due` and
    :meth:`update_confusion`.
    """

    models_annotators = True
    prior_in_e_step = True
    truth_in_targets = True
    posterior: Tensor
    epochs_done: Tensor

    def __init__(self, problem: Problem, backbone: nn.Module, **given: Any) -> None:
        super().__init__(problem, backbone, **given)
        self.register_buffer("epochs_done", torch.zeros((), dtype=torch.int64), persistent=False)

    # ---------------------------------------------------------------- what a subclass supplies

    def is_due(self, epoch: int) -> bool:
        """Whether a round ends with this epoch; the first is 1."""
        raise NotImplementedError

    def update_confusion(self, counts: Tensor) -> None:
        """Fit the annotators' parameters to expected counts (R, C, C), ``[r, true, observed]``."""
        raise NotImplementedError

    # ---------------------------------------------------------------- what it may change

    def label_evidence(self, batch: Batch, first: int) -> Tensor:
        """(P, C) log P(y | z = c) of a training batch, whose labels begin with the ``first``-th of all."""
        return self.log_prob_given_class(batch)

    # ---------------------------------------------------------------- rounds

    @torch.no_grad()
    def end_epoch(self, batches: Iterable[Batch]) -> None:
        """At the end of a round: infer the labels, then fit the annotators to them."""
        self.epochs_done += 1
        if self.is_due(int(self.epochs_done)):
            self.eval()
            self.em_round(batches)

    @torch.no_grad()
    def load_previous(self, working: Mapping[str, Tensor], annotations: Annotations) -> None:
        """Known tasks keep what was inferred for them; the annotators are fitted to that."""
        known = working["posterior"].to(self.posterior)
        self.posterior[: len(known)] = known
        self.update_confusion(counts_from_votes(Votes(annotations), self.posterior.double().numpy()))

    @torch.no_grad()
    def begin(self, batches: Iterable[Batch]) -> None:
        """Infer all labels anew, by networks that have not seen the new ones."""
        self.eval()
        self.em_round(batches)

    def em_round(self, batches: Iterable[Batch]) -> None:
        """One E-step and the closed forms of the M-step."""
        counts = self.empty_counts()
        for batch, posterior in self.e_step(batches):
            counts.add(posterior[batch.rows], batch.annotators, batch.labels)
        self.update_confusion(counts.matrices())

    def e_step(self, batches: Iterable[Batch]) -> Iterator[tuple[Batch, Tensor]]:
        """Infer the labels of the training tasks: every batch, and the (N, C) posterior that is set for its tasks."""
        self.adjust_to_class_prior(self.posterior.mean(0))
        first = 0
        for batch in map(self.scaled, batches):
            evidence = self.label_evidence(batch, first)
            inferred = self.joint_posterior(self.class_logits(batch.x), batch.rows, evidence)
            posterior = self.with_truth(inferred.to(self.posterior.dtype), batch.instances)
            self.posterior[batch.instances] = posterior
            yield batch, posterior
            first += len(batch.labels)

    def empty_counts(self) -> ExpectedCounts:
        """Expected counts of no labels, to add some."""
        return ExpectedCounts(self.problem.n_annotators, self.problem.n_classes, like=self.posterior)

    def working_state(self) -> dict[str, Tensor]:
        """The posterior, and where in a round training is."""
        return {"posterior": self.posterior, "epochs_done": self.epochs_done}


@parameters
class SingleNetworkEMParameters:
    """Parameters of :class:`SingleNetworkEM`."""

    epochs_per_round: Annotated[int, whole(1), Doc("Number of epochs between E-steps.")] = 1
    smoothing: Annotated[
        float, number(above=0), Doc("Number of pseudo-labels in every cell of a confusion matrix.")
    ] = 0.1


class SingleNetworkEM(EMMethod, SingleNetworkEMParameters):
    """EM with one network, from the vote shares, and with an E-step every few epochs."""

    def is_due(self, epoch: int) -> bool:
        """After every ``epochs_per_round``."""
        return epoch % self.epochs_per_round == 0

    @torch.no_grad()
    def prepare(self, annotations: Annotations) -> None:
        """Start from the vote shares."""
        shares = self.with_truth(torch.from_numpy(vote_shares(annotations)))
        self.register_buffer("posterior", shares.to(torch.float32), persistent=False)
        self.update_confusion(counts_from_votes(Votes(annotations), shares.numpy()))

    def loss(self, batch: Batch) -> Tensor:
        """Cross-entropy between the inferred labels and the classifier's probabilities."""
        target = self.posterior[batch.instances]
        return cross_entropy(self.class_logits(batch.x), target, reduction="sum") * batch.instance_weight


# AggNet: Dawid and Skene's model with a network in place of the class prior, by EM.


@register("aggnet")
class AggNetMethod(SingleNetworkEM):
    r"""Dawid-Skene with the classifier in place of the class prior, by EM (AggNet; Albarqouni et al. 2016).

    .. math::
        q_i(c) \propto f_c(x_i) \prod_r \pi^r_{c, y_i^r}, \qquad
        \pi^r_{cl} = \frac{\sum_{i : y_i^r = l} q_i(c) + \alpha}{\sum_{i, l'} q_i(c) [y_i^r = l'] + C \alpha}

    and the network is trained on q by cross-entropy. The first q are the vote shares.

    References
    ----------
    Albarqouni, Baur, Achilles, Belagiannis, Demirci and Navab (2016). AggNet: deep learning from crowds for mitosis
    detection in breast cancer histology images. IEEE Transactions on Medical Imaging 35, 1313-1321.

    Examples
    --------
    >>> import conal
    >>> conal.make("aggnet", epochs_per_round=5).epochs_per_round
    5
    """

    pi_r: Tensor

    def __init__(self, problem: Problem, backbone: nn.Module, **given: Any) -> None:
        super().__init__(problem, backbone, **given)
        C = problem.n_classes
        self.register_buffer("pi_r", torch.full((problem.n_annotators, C, C), 1.0 / C))

    def update_confusion(self, counts: Tensor) -> None:
        """Expected counts, smoothed."""
        self.pi_r.copy_(normalised(counts + self.smoothing))

    def confusion_matrices(self) -> tuple[Tensor, Tensor]:
        """The annotators' matrices, and their mean for those without labels."""
        pi_g = self.pooled(self.pi_r)
        return pi_g, self.known_or_common(pi_g, self.pi_r)
