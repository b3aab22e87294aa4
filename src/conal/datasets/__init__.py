"""Crowd datasets, real and simulated: features, annotations and the truth to measure against.

Each module of this package that contains a function decorated with :func:`conal.datasets.base.dataset` adds a dataset.

>>> from conal import datasets
>>> "digits" in datasets.names()
True
>>> datasets.load("synthetic", n_train=100, n_valid=10, n_test=10).annotations.n_tasks
100
"""

from __future__ import annotations

from typing import Any

# The functions take the place of the modules of the same name as attributes of this package.
from conal.datasets.base import CrowdDataset, Split, dataset_registry
from conal.datasets.cifar10 import cifar10
from conal.datasets.crowd import CrowdTruth, simulate_crowd
from conal.datasets.mechanical_turk import labelme, music
from conal.datasets.pairs import simulate_pairs
from conal.datasets.simulated import digits, synthetic
from conal.parameters.simulation import CrowdSettings

__all__ = [
    "CrowdDataset",
    "CrowdSettings",
    "CrowdTruth",
    "Split",
    "cifar10",
    "digits",
    "labelme",
    "load",
    "music",
    "names",
    "simulate_crowd",
    "simulate_pairs",
    "synthetic",
]


def load(name: str, **options: Any) -> CrowdDataset:
    """The dataset called ``name``; options are those of the function of that name."""
    return dataset_registry.get(name)(**options)


def names() -> list[str]:
    """The names of all datasets, sorted."""
    return dataset_registry.names()
