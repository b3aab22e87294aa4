"""One seed, several independent streams of random numbers.

The draws of one step never shift those of another: with the same seed, another noise strength gets the same instances,
the same assignment of annotators and the same random numbers for the labels.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

__all__ = ["Purpose", "stream"]

Purpose = Literal[
    "features",
    "split",
    "assignment",
    "annotators",
    "gate",
    "common",
    "individual",
    "labels",
    "gate biases",
    "prolific",
    "levels",
    "families",
    "adversaries",
    "copyists",
    "order",
]


def stream(seed: int, purpose: Purpose) -> np.random.Generator:
    """The random generator for one purpose, from this seed.

    >>> stream(0, "gate").random() == stream(0, "gate").random() != stream(0, "labels").random()
    True
    """
    key = get_args(Purpose).index(purpose)
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(key,)))
