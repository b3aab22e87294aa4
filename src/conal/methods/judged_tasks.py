"""Tasks whose truth is known and that have votes: what was inferred for them, beside what is true."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from conal.data.true_labels import parts_of_labels
from conal.methods.batch import Batch
from conal.methods.expected_counts import ExpectedCounts
from conal.methods.posterior_correction import PosteriorCorrection

__all__ = ["JudgedTasks"]

LEAST_LEFT = 1e-2
"""Pseudo-labels that are left at least where a label is taken out."""


class JudgedTasks(nn.Module):
    """The tasks with votes whose true label the user supplied, for a method that infers labels by EM.

    It is no part of the saved model.

    Parameters
    ----------
    known : (N,) int64
        True classes of the training tasks, and -1 elsewhere.
    votes : (A,) integers, three times
        Tasks, annotators and labels of all annotations.
    n_annotators, n_classes : int

    Attributes
    ----------
    mask : (N,) bool
        Which tasks these are.
    place : (N,) int64
        Where each of them is among them.
    truth : (n,) int64
        Their true classes.
    log_joint : (n, C)
        Log-posteriors of these tasks by predictors that have not seen their true labels; set by :meth:`remember`.
    row_counts : (R, C)
        How many labels the rows of the annotators' matrices were fitted to, pseudo-labels included.
    """

    mask: Tensor
    place: Tensor
    truth: Tensor
    votes: Tensor
    log_joint: Tensor
    row_counts: Tensor

    def __init__(self, known: Tensor, votes: tuple[npt.NDArray[Any], ...], n_annotators: int, n_classes: int) -> None:
        super().__init__()
        self.sizes = n_annotators, n_classes
        tasks = votes[0]
        voted = torch.zeros_like(known, dtype=torch.bool)
        voted[torch.from_numpy(tasks.astype(np.int64)).to(known.device)] = True
        mask = voted & (known >= 0)
        here = mask.cpu().numpy()[tasks]
        triples = torch.from_numpy(np.stack([column[here].astype(np.int64) for column in votes]))
        truth = known[mask]
        made = {"mask": mask, "place": mask.cumsum(0) - 1, "truth": truth, "votes": triples.to(known.device)}
        made["log_joint"] = torch.zeros(len(truth), n_classes, device=known.device)
        made["row_counts"] = torch.zeros(n_annotators, n_classes, dtype=torch.float64, device=known.device)
        for name, tensor in made.items():
            self.register_buffer(name, tensor, persistent=False)

    def inferred_as(self, posterior: Tensor) -> Tensor:
        """(C, C) expected numbers of true labels, ``[inferred class, true label]``, by (n, C) posteriors."""
        return posterior.T @ one_hot(self.truth, self.sizes[1]).to(posterior.dtype)

    def correct_counts(self, counts: Tensor, inferred: Tensor, certain: Tensor) -> Tensor:
        """(R, C, C) expected counts as they are when true labels are certain, as in the second posterior (N, C)."""
        tasks, annotators, labels = self.votes
        change = ExpectedCounts(*self.sizes, like=inferred)
        change.add((certain - inferred)[tasks], annotators, labels)
        return (counts + change.matrices()).clamp(min=0)

    def evidence_without_truth(self, evidence: Tensor, batch: Batch) -> Tensor:
        """(P, C) log of the annotators' confusion without the labels of these tasks, from ``evidence`` with them.

        Such a label was counted in the row of the true class, as one of so many; a label of another task stays counted.
        """
        tasks = batch.instances[batch.rows]
        own = torch.nonzero(self.mask[tasks]).squeeze(1)
        if not len(own):
            return evidence
        truth, annotators = self.truth[self.place[tasks[own]]], batch.annotators[own]
        total = self.row_counts[annotators, truth]
        left = (evidence[own, truth].exp().to(total) * total - 1).clamp(min=LEAST_LEFT) / (total - 1)
        return evidence.index_put((own, truth), left.log().to(evidence))

    def remember(self, log_joint: Tensor, batch: Batch) -> None:
        """Keep what a batch (N, C) says about these tasks."""
        at = torch.nonzero(self.mask[batch.instances]).squeeze(1)
        self.log_joint[self.place[batch.instances[at]]] = log_joint[at].to(self.log_joint)

    def unseen_posterior(self, n_parts: int, usual_certainty: float) -> tuple[Tensor, Tensor]:
        """These tasks, and (n, C) their posteriors by a correction that has not seen their true labels either.

        It is cross-fitted as the networks are: for each part of these tasks, it is fitted to the others.
        """
        part = torch.from_numpy(parts_of_labels(self.truth.cpu().numpy(), n_parts))
        posterior = torch.empty_like(self.log_joint)
        for k in range(n_parts):
            correction = PosteriorCorrection(self.sizes[1])
            others = self.log_joint[part != k], self.truth[part != k]
            correction.fit(*others)
            correction.fit_certainty(*others, usual_certainty)
            posterior[part == k] = correction.reported(correction(self.log_joint[part == k]).softmax(-1))
        return torch.nonzero(self.mask).squeeze(1), posterior
