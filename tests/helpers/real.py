"""The paper's real crowds, where the data are at hand, and the figures that were published about them."""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd
import pytest

import conal
from conal.datasets import CrowdDataset
from conal.datasets.base import data_folder
from conal.errors import InputError
from studies.crowds import LABEL_SETS, label_set

__all__ = ["CROWDS", "annotator_accuracy", "labelled_crowd", "load_or_skip", "majority_accuracy"]

FOLDERS = {"labelme": ("labelme", "LabelMe"), "music": ("music_genre_classification",)}

CROWDS = LABEL_SETS


@cache
def labelled_crowd(name: str) -> tuple[pd.DataFrame, pd.Series]:
    """(task, worker, label), all of them text, and the true labels by task; without the files the test is skipped."""
    try:
        labels, truth = label_set(name)
    except InputError as absent:
        pytest.skip(str(absent))
    return labels.to_pandas(), pd.Series(truth)


def load_or_skip(name: str) -> CrowdDataset:
    """The dataset of this name; without its folder the test is skipped, with wrong files in it the test fails."""
    try:
        data_folder(FOLDERS[name])
    except InputError as absent:
        pytest.skip(str(absent))
    return conal.datasets.load(name)


def annotator_accuracy(data: CrowdDataset) -> float:
    """Share of right labels per annotator, averaged over annotators."""
    crowd = data.annotations
    right = crowd.labels == data.y_true[crowd.tasks]
    return float((np.bincount(crowd.annotators, weights=right) / crowd.labels_per_annotator()).mean())


def majority_accuracy(data: CrowdDataset) -> float:
    """Expected accuracy of the majority vote when ties are broken at random."""
    votes = data.annotations.votes()
    top = votes == votes.max(axis=1, keepdims=True)
    return float((top[np.arange(len(top)), data.y_true] / top.sum(axis=1)).mean())
