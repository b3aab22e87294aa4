"""What true labels of some tasks say about the posterior of all: a small correction, held back where they are few."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy.optimize import minimize, minimize_scalar
from scipy.special import log_softmax
from torch import Tensor, nn
from torch.nn.functional import one_hot

from conal._arrays import FloatArray
from conal.data.true_labels import parts_of_labels
from conal.methods.base import Batch
from conal.methods.em import ExpectedCounts

# What true labels of some tasks say about the posterior of all: a small correction, held back where they are few.


PENALTY, SCALE_PENALTY = 1.0, 5.0
"""Of matrix and shift, and of the scale."""
ENOUGH = 75
"""Fewer true labels than this are held back more, by the square of the ratio: 25 random ones may otherwise do harm."""
STEPS = 200
PARTS = 5
"""Parts of the true labels, each of which is corrected by the others to see how sure corrected posteriors may be."""
LEAST = -4.0
"""Log of the smallest factor by which log-posteriors are flattened at the end."""


class PosteriorCorrection(nn.Module):
    r"""A correction of log-posteriors l, which starts as none.

    .. math::
        l' = e^s l + \mathrm{softmax}(l) W + b, \qquad
        \min_{s, W, b} \sum_i - \log \mathrm{softmax}(l'_i)_{y_i}
            + \lambda_n \bigl( \tfrac12 \|W\|^2 + \tfrac12 \|b\|^2 + \tfrac52 s^2 \bigr)

    W moves what is inferred as one class to others, b the shares of the classes, and s says how sure to be.
    :math:`\lambda_n = \max(1, (75 / n)^2)` is larger for few labels: some give a direction, but not how far to go.

    Posteriors overclaim, because annotators err together. What is reported is therefore :math:`\mathrm{softmax}(e^t
    l')`. Two sources say what t is. Labels that were left out give :math:`\tau`
    (:func:`conal.aggregation.held_out.held_out_certainty`): there are many of them, but they do not see the mistakes
    of nearly everybody, so they may allow too much, and hardly too little. The true labels see these mistakes, but are
    few. Each is corrected by what the others say, which gives :math:`l''`, and posteriors are as sure as both
    allow:

    .. math::
        \max_{t \le \log \tau} \sum_i \log \mathrm{softmax}(e^t l''_i)_{y_i} - \tfrac12 (t - \log \tau)^2

    It changes no label, and takes no part in training.

    Parameters
    ----------
    n_classes : int
        C.

    Examples
    --------
    >>> correction = PosteriorCorrection(2)
    >>> unsure = torch.tensor([[0.6, 0.4]]).log()
    >>> correction.fit(unsure.repeat(200, 1), torch.ones(200, dtype=torch.int64))
    >>> bool(correction(unsure).softmax(-1)[0, 1] > 0.9)
    True
    """

    certainty: Tensor
    log_scale: Tensor
    weight: Tensor
    shift: Tensor

    def __init__(self, n_classes: int) -> None:
        super().__init__()
        self.register_buffer("log_scale", torch.zeros(()))
        self.register_buffer("weight", torch.zeros(n_classes, n_classes))
        self.register_buffer("shift", torch.zeros(n_classes))
        self.register_buffer("certainty", torch.ones(()))

    def forward(self, log_posterior: Tensor) -> Tensor:
        """(N, C) corrected log-posteriors, not normalised."""
        log_posterior = log_posterior.log_softmax(-1)
        return self.log_scale.exp() * log_posterior + log_posterior.exp() @ self.weight + self.shift

    def fit(self, log_posterior: Tensor, truth: Tensor) -> None:
        """Fit to (n, C) log-posteriors of tasks whose (n,) true classes are known."""
        if not len(truth):
            return
        given = log_posterior.detach().double().log_softmax(-1).cpu().numpy()
        found = _fitted(given, truth.cpu().numpy(), self._values())
        for buffer, values in zip(self._learned(), _parts(found, given.shape[1]), strict=True):
            buffer.copy_(torch.as_tensor(values))

    def fit_certainty(self, log_posterior: Tensor, truth: Tensor, usual: float = 1.0) -> None:
        """Fit how sure corrected posteriors are said to be, by the same labels after :meth:`fit`.

        ``usual`` is the factor by which left-out labels flatten posteriors; true labels may lower it.
        """
        if not len(truth):
            self.certainty.fill_(usual)
            return
        given = log_posterior.detach().double().log_softmax(-1).cpu().numpy()
        unseen = _cross_fitted(given, truth.cpu().numpy(), self._values())
        self.certainty.fill_(_certainty(unseen, truth.cpu().numpy(), usual))

    def _learned(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.log_scale, self.weight, self.shift

    def _values(self) -> FloatArray:
        """s, W and b in a row."""
        return np.concatenate([each.double().cpu().numpy().ravel() for each in self._learned()])

    def reported(self, posterior: Tensor) -> Tensor:
        """(N, C) corrected posteriors, as sure as the true labels allow."""
        return flattened(posterior, self.certainty)


def flattened(posterior: Tensor, exponent: Tensor) -> Tensor:
    """(N, C) posteriors to a power: the smaller it is, the less sure they are."""
    return (exponent * logarithm(posterior)).softmax(-1)


def logarithm(posterior: Tensor) -> Tensor:
    """Logarithm of probabilities, of which some may be 0."""
    return posterior.clamp(min=torch.finfo(posterior.dtype).tiny).log()


def _fitted(log_posterior: FloatArray, truth: npt.NDArray[np.int64], start: FloatArray) -> FloatArray:
    """All parameters in a row, s, W and b, where the penalised loss is smallest."""
    objective = _Objective(log_posterior, truth, max(1.0, (ENOUGH / len(truth)) ** 2))
    found = minimize(objective, start, jac=True, method="L-BFGS-B", options={"maxiter": STEPS}).x
    return np.asarray(found)


def _cross_fitted(log_posterior: FloatArray, truth: npt.NDArray[np.int64], start: FloatArray) -> FloatArray:
    """(n, C) corrected log-posteriors, those of each part by a correction that was fitted to the other parts."""
    part = parts_of_labels(truth, min(PARTS, len(truth)))
    corrected = np.empty_like(log_posterior)
    for k in range(int(part.max()) + 1):
        own, others = part == k, part != k
        values = _fitted(log_posterior[others], truth[others], start) if others.any() else np.zeros_like(start)
        corrected[own] = _corrected(log_posterior[own], values)
    return corrected


def _certainty(corrected: FloatArray, truth: npt.NDArray[np.int64], usual: float) -> float:
    """How sure to be, by (n, C) corrected log-posteriors of tasks with known truth, but no surer than usual."""
    below_best = corrected - corrected.max(1, keepdims=True)
    right = below_best[np.arange(len(truth)), truth].sum()
    most = math.log(usual)

    def loss(t: float) -> float:
        beta = math.exp(t)
        return float(np.log(np.exp(beta * below_best).sum(1)).sum() - beta * right) + (t - most) ** 2 / 2

    return math.exp(minimize_scalar(loss, bounds=(LEAST, most), method="bounded").x)


def _parts(values: FloatArray, n_classes: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """s, W and b."""
    C = n_classes
    return values[0], values[1 : 1 + C * C].reshape(C, C), values[1 + C * C :]


def _corrected(log_posterior: FloatArray, values: FloatArray) -> FloatArray:
    scale, weight, shift = _parts(values, log_posterior.shape[1])
    return np.asarray(np.exp(scale) * log_posterior + np.exp(log_posterior) @ weight + shift)


class _Objective:
    """The penalised loss and its gradient."""

    def __init__(self, log_posterior: FloatArray, truth: npt.NDArray[np.int64], strength: float) -> None:
        self.log_posterior = log_posterior
        self.posterior = np.exp(log_posterior)
        self.certain = np.eye(log_posterior.shape[1])[truth]
        self.strength = strength

    def __call__(self, values: FloatArray) -> tuple[float, FloatArray]:
        log_proba = log_softmax(_corrected(self.log_posterior, values), axis=1)
        surplus = np.exp(log_proba) - self.certain
        penalties = self.strength * np.concatenate([[SCALE_PENALTY], np.full(len(values) - 1, PENALTY)])
        by_scale = np.exp(values[0]) * (surplus * self.log_posterior).sum()
        gradient = np.concatenate([[by_scale], (self.posterior.T @ surplus).ravel(), surplus.sum(0)])
        loss = -(self.certain * log_proba).sum() + (penalties * values**2).sum() / 2
        return float(loss), gradient + penalties * values


# Tasks whose truth is known and that have votes: what was inferred for them, beside what is true.

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
