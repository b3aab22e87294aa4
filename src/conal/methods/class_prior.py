"""The user's class prior: how it is read, and how it corrects inferred class probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from conal.data.encoding import Names
from conal.errors import InputError, examples
from conal.parameters import is_number
from conal.parameters.training import ClassPrior

__all__ = ["PRIOR_STRENGTH", "prior_shift", "read_class_prior"]

PRIOR_STRENGTH = 2.0
"""kappa, how hard inferred shares are pushed to stated ones.

On LabelMe's validation set and on held-out Music songs, 2 is better than 1 for `xconal`. It is also better than meeting
the stated shares exactly, which would rely too much on a rough statement.
"""

TINY = 1e-3
TOLERANCE = 0.02


def prior_shift(stated: Tensor, found: Tensor) -> Tensor:
    r"""(C,) correction of log-probabilities, :math:`\kappa \log (\rho^*_c / \bar\rho_c)`.

    >>> prior_shift(torch.tensor([0.5, 0.5]), torch.tensor([0.5, 0.5])).tolist()
    [0.0, 0.0]
    """
    C = len(stated)
    return PRIOR_STRENGTH * ((C * stated + TINY).log() - (C * found + TINY).log())


def read_class_prior(prior: ClassPrior, classes: Names) -> Tensor | None:
    """(C,) the user's class shares in the order of the classes; None without a class prior.

    >>> read_class_prior({"cat": 0.75, "dog": 0.25}, np.array(["cat", "dog"], dtype=object)).tolist()
    [0.75, 0.25]
    """
    C = len(classes)
    if isinstance(prior, str):
        if prior not in ("estimate", "balanced"):
            raise InputError(f"class_prior must be 'estimate', 'balanced' or the share of every class, not {prior!r}")
        return None if prior == "estimate" else torch.full((C,), 1.0 / C)
    shares = _shares(prior)
    missing = [name for name in classes.tolist() if name not in shares]
    unknown = [name for name in shares if name not in set(classes.tolist())]
    if missing or unknown:
        problems = [f"has no share of {examples(missing)}"] if missing else []
        problems += [f"names {examples(unknown)}, which is no class"] if unknown else []
        raise InputError(f"class_prior {' and '.join(problems)}; the classes are {examples(classes, limit=10)}")
    values = np.array([shares[name] for name in classes.tolist()], dtype=float)
    if not (np.isfinite(values).all() and (values > 0).all()) or abs(values.sum() - 1) > TOLERANCE:
        raise InputError(f"class_prior: shares must be above 0 and sum to 1, these are {values.tolist()}")
    return torch.from_numpy(values / values.sum()).float()


def _shares(prior: Any) -> dict[Any, float]:
    try:
        shares = dict(prior)
    except (TypeError, ValueError):
        shares = {}
    if not shares or not all(is_number(value) for value in shares.values()):
        raise InputError(f"class_prior must be 'estimate', 'balanced' or the share of every class, not {prior!r}")
    return shares
