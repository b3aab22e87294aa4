"""What a simulated crowd is asked to be like."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from conal.errors import InputError

__all__ = ["CommonType", "CrowdSettings", "Pairs", "check_range"]

CommonType = Literal["asymmetric", "symmetric"]
Pairs = Mapping[Any, Any] | Sequence[tuple[Any, Any]]


@dataclass(frozen=True, kw_only=True)
class CrowdSettings:
    """How a simulated crowd errs. The defaults are the paper's, where it states them.

    Parameters
    ----------
    n_annotators : int
        R, the size of the crowd.
    labels_per_instance : float
        Mean number of labels of an instance, between 1 and R. An instance gets 1 + Binomial(R - 1, p) labels with
        p = (labels_per_instance - 1) / (R - 1): the mean is exact, and no instance goes without a label.
    common_strength : float
        Off-diagonal mass of each corrupted row of ``pi_g``.
    common_type : {"asymmetric", "symmetric"}
        Asymmetric: each class is taken for one uniformly chosen other class. Symmetric: classes are paired at
        random and swapped; with an odd number of classes the one left over stays uncorrupted.
    individual_strength : float
        Off-diagonal mass of each row of every ``pi_r``, which are always asymmetric. The paper fixes "individual
        noise strength 0.7" and calls its annotators "of high quality": 0.3 reads this as accuracy 0.7, and 0.7 is
        the other reading.
    proportion : float
        Mean of omega over the observed pairs; 0 means no common noise at all.
    gate_scale : float
        kappa, how much omega varies between pairs; 0 makes it constant.
    embedding_dim : int
        D, the dimension of the embeddings behind omega.
    pairs : mapping or sequence of pairs, optional
        Which classes the crowd confuses instead of random ones, by class name: ``{true: observed}`` for asymmetric,
        ``[(a, b), ...]`` for symmetric confusion. Classes that are not mentioned stay uncorrupted.
    seed : int
        Everything random follows from it, in separate streams: another strength keeps who labelled what.
    """

    n_annotators: int = 30
    labels_per_instance: float = 3.0
    common_strength: float = 0.4
    common_type: CommonType = "asymmetric"
    individual_strength: float = 0.3
    proportion: float = 0.5
    gate_scale: float = 4.0
    embedding_dim: int = 20
    pairs: Pairs | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        check_range("n_annotators", self.n_annotators, 1, np.inf)
        check_range("labels_per_instance", self.labels_per_instance, 1, self.n_annotators)
        for name in ("common_strength", "individual_strength", "proportion"):
            check_range(name, getattr(self, name), 0, 1)
        check_range("gate_scale", self.gate_scale, 0, 1e6)
        check_range("embedding_dim", self.embedding_dim, 1, np.inf)
        if self.common_type not in ("asymmetric", "symmetric"):
            raise InputError(f"common_type must be 'asymmetric' or 'symmetric', not {self.common_type!r}")


def check_range(name: str, value: float, low: float, high: float) -> None:
    """A setting outside its range, or not a number, is an error."""
    if not low <= value <= high:
        bounds = f"at least {low}" if high == np.inf else f"between {low} and {high}"
        raise InputError(f"{name} must be {bounds}, not {value}")
