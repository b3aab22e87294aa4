"""Inference from the annotations alone, before any network is trained."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from conal.aggregation.votes import Votes, vote_shares
from conal.data.annotations import Annotations
from conal.methods.two_source_noise import TwoSourceNoise

__all__ = ["counts_from_votes", "infer_from_labels"]


def counts_from_votes(votes: Votes, posterior: npt.NDArray[np.float64]) -> Tensor:
    """(R, C, C) expected counts ``[r, true, observed]``, summed in double and returned in single precision."""
    return torch.from_numpy(votes.counts(posterior).copy()).float()


def infer_from_labels(
    noise: TwoSourceNoise, annotations: Annotations, rounds: int, with_truth: Callable[[Tensor], Tensor]
) -> tuple[Tensor, Tensor]:
    """EM of the two kinds of confusion on the annotations alone, from the vote shares.

    Returns the (N, C) posterior and its (R, C, C) expected counts; ``noise`` is fitted on the way. In every round,
    ``with_truth`` makes known true labels certain; the posterior that is returned says what was inferred for them.
    """
    votes = Votes(annotations)
    posterior = torch.from_numpy(vote_shares(annotations)).float()
    N, C = posterior.shape
    for _ in range(rounds):
        posterior = with_truth(posterior)
        noise.fit(counts_from_votes(votes, posterior.double().numpy()))
        log_shares = ((posterior.sum(0) + 1) / (N + C)).log()
        # An annotator gives the same few labels many times: the logarithm of each is taken once.
        evidence = torch.from_numpy(votes.log_evidence(noise.log_matrices().double().numpy()))
        posterior = (log_shares + evidence).softmax(-1).float()
    return posterior, counts_from_votes(votes, posterior.double().numpy())
