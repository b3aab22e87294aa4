"""Texts that juries of language models classified."""

from __future__ import annotations

import numpy as np

from conal.data.annotations import Annotations
from conal.datasets.base import CrowdDataset, Folder, dataset
from conal.datasets.label_sets import JUDGES, jury_texts, label_set, true_codes
from conal.errors import InputError

__all__ = ["llm_jury"]


@dataset("llm_jury")
def llm_jury(folder: Folder = None, *, jury: str = "emotion") -> CrowdDataset:
    """Texts labelled by juries of 12 or 13 language models: 399 to 500 texts of each of eight kinds.

    The instances are texts, of which classifiers make features themselves. There are no validation or test data.

    Parameters
    ----------
    folder : path, optional
        Holds ``label.csv`` (task, worker, label), ``truth.csv`` (task, truth) and ``texts.csv`` (task, text). Default:
        ``llm-judges/JURY`` in the data folder (:func:`conal.datasets.base.data_folder`).
    jury : str
        conv_go_awry, discourse, emotion, flute, persuasion, raop, semeval_stance or wiki_politeness.

    References
    ----------
    Ziems, Held, Shaikh, Chen, Zhang and Yang (2024). Can large language models transform computational social science?
    Computational Linguistics 50.

    Examples
    --------
    >>> llm_jury(jury="chess")
    Traceback (most recent call last):
    ...
    conal.errors.InputError: no jury 'chess'; there are conv_go_awry, discourse, emotion, flute, persuasion, raop, ...
    """
    if jury not in JUDGES:
        raise InputError(f"no jury {jury!r}; there are {', '.join(JUDGES)}")
    labels, truth = label_set(jury, folder)
    texts = jury_texts(jury, folder)
    crowd = Annotations.of(labels)
    codes, names = true_codes(crowd, truth), crowd.task_ids.tolist()
    kept = [row for row, task in enumerate(names) if task in texts and codes[row] >= 0]
    x = np.array([texts[names[row]] for row in kept], dtype=object)
    return CrowdDataset("llm_jury", x, crowd[kept], codes[kept])
