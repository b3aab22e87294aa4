"""Warm starts: a training that goes on from what an earlier one has learned on fewer tasks and annotators."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from conal.data.annotations import Annotations
from conal.methods.base import CrowdMethod

__all__ = ["WarmStart"]

OF_THE_DATA = "labels_per_annotator"
"""A tensor that says what the labels are, and not what was learned from them."""
KEPT = 0.5
"""How much of the weights of networks is kept."""


class WarmStart(NamedTuple):
    """What an earlier training has left.

    Attributes
    ----------
    state : mapping
        The tensors of the trained method. Tables with a row per annotator may be shorter than now.
    working : mapping
        Its :meth:`~conal.methods.base.CrowdMethod.working_state`.
    """

    state: Mapping[str, Tensor]
    working: Mapping[str, Tensor]

    @torch.no_grad()
    def load(self, method: CrowdMethod, annotations: Annotations) -> None:
        """Take over what was learned; rows of new annotators stay as they are at the start of any training.

        Weights of networks are taken half way, between where they were and where a training starts: networks that
        have learned few data by heart do not find what more data say (Ash and Adams 2020, On warm-starting neural
        network training).
        """
        weights = method.trained_weights()
        for name, tensor in method.state_dict().items():
            old = self.state.get(name)
            if old is None or name == OF_THE_DATA:
                continue
            part = tensor[tuple(slice(size) for size in old.shape)]
            part.copy_(torch.lerp(part, old, KEPT) if name in weights and old.is_floating_point() else old)
        method.take_up(self.working, annotations)
