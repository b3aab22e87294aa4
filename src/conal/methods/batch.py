"""Inputs and outputs of methods, as tensors."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

__all__ = ["Batch", "Problem", "Reading"]


class Batch(NamedTuple):
    """Instances with their observed annotations, without true labels.

    Attributes
    ----------
    x : (N, ...)
        Features of the batch's instances.
    instances : (N,) int64
        Position of each instance among the training tasks.
    rows, annotators, labels : (P,) int64
        The observed triples. ``rows`` points into ``x``; an annotator unknown to the model is -1.
    weights : (float, float), optional
        What an instance and a label count in the loss, where other processes have the rest of the batch; by default
        one over their number.
    """

    x: Tensor
    instances: Tensor
    rows: Tensor
    annotators: Tensor
    labels: Tensor
    weights: tuple[float, float] | None = None

    @property
    def instance_weight(self) -> float:
        """Factor that turns a sum over instances into a mean."""
        return 1 / max(len(self.x), 1) if self.weights is None else self.weights[0]

    @property
    def label_weight(self) -> float:
        """Factor that turns a sum over labels into a mean."""
        return 1 / max(len(self.labels), 1) if self.weights is None else self.weights[1]


class Problem(NamedTuple):
    """The sizes of the learning problem.

    Attributes
    ----------
    shape : tuple of int
        Shape of one instance.
    n_classes, n_annotators, n_tasks : int
        C, R, and N, the number of training tasks that have labels.
    labels_per_annotator : (R,) int64
        How many training labels each annotator gave.
    annotator_features : (R, F) tensor or None
    annotator_groups : (R,) int64 or None
        The group of every annotator, from 0, where it is known; only training needs it.
    class_prior : (C,) tensor or None
        Shares of the classes, where the user states them.
    n_true_labels : int
        How many tasks have a true label that the user supplied for training.
    """

    shape: tuple[int, ...]
    n_classes: int
    n_annotators: int
    n_tasks: int
    labels_per_annotator: Tensor
    annotator_features: Tensor | None = None
    annotator_groups: Tensor | None = None
    class_prior: Tensor | None = None
    n_true_labels: int = 0

    def with_annotators(self, labels: Tensor, features: Tensor | None) -> Problem:
        """The same problem with other annotators, by their numbers of labels and their features."""
        return self._replace(
            n_annotators=len(labels), labels_per_annotator=labels, annotator_features=features, annotator_groups=None
        )


class Reading(NamedTuple):
    """Predictions of a trained method for a batch.

    Attributes
    ----------
    class_proba : (N, C)
        P(true class | features).
    posterior : (N, C)
        P(true class | features and all labels of the instance).
    omega : (P,) or None
        How likely each label is to come from the common confusion, where the method separates the two kinds.
    """

    class_proba: Tensor
    posterior: Tensor
    omega: Tensor | None
