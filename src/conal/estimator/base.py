"""The estimator: fit, predict, infer, score, save, for every method."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any, Self

import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from conal.data.frames import kind_of_frame
from conal.estimator.fitting import Given, fit_to
from conal.estimator.learned import adopt
from conal.estimator.shared import SharedClassifier
from conal.estimator.updating import updated
from conal.parameters import check_parameters

__all__ = ["CrowdClassifier"]


class CrowdClassifier(SharedClassifier):
    """A classifier trained directly from crowd labels, with the conventions of scikit-learn.

    Use a subclass: :class:`conal.CoNAL`, or ``conal.make(name)`` for any method.

    Attributes
    ----------
    classes_, annotator_ids_, task_ids_ : arrays
        What the user called them. Training task i is ``task_ids_[i]``, which need not be row i of the features.
    probas_ : (n_tasks, n_classes)
        ``probas_[i, c]`` = P(true class c | features and annotations) of training task i.
    labels_ : (n_tasks,)
        The most probable class of every training task: the cleaned labels.
    feature_names_in_ : (n_features,) array of str
        Names of the features, only where they came with names; predictions then put columns in this order.
    text_features_ : conal.TextFeatures, conal.text.EncodedTexts or None
        What makes features of texts, where the model was trained on texts.
    ordinal_ : bool
        Whether the classes are a scale, from the lowest to the highest, as the annotations stated.
    annotator_info_ : AnnotatorInfo or None
        What was given about the annotators.
    learned_from_ : tuple of Learnt
        The sets of labels that it has learned from: that of the fit, and of every update.
    history_ : list of dict
        One row per epoch.
    metrics_ : dict
        How the model was selected, and figures about training.
    tables_ : mapping of str to pyarrow.Table
        What was found about tasks, annotators and confusion, by the name of the file in a model folder, such as
        "annotators.csv". A table is computed when it is looked at; the first with intervals takes a few seconds.
    results_ : Results
        The same tables, and the content of ``report.json``.
    model_ : conal.methods.CrowdMethod
        The trained torch module.
    """

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        validation: tuple[Any, Any] | None = None,
        monitor: Mapping[str, tuple[Any, Any]] | None = None,
        task_ids: Any = None,
        annotator_features: npt.ArrayLike | None = None,
        annotator_info: Any = None,
        true_labels: Any = None,
        allow_missing: bool = False,
        checkpoint: str | PathLike[str] | None = None,
        resume: bool = False,
    ) -> Self:
        """Train on features and crowd labels.

        Parameters
        ----------
        X : (n, ...) array, DataFrame, torch Dataset, or texts
            Features; or a list, array or Series of str, or a frame with a text column, of which features are made
            first. A frame's ``task`` or ``id`` column, or ``task_ids``, joins them to the annotations by id, and so
            does an index that has the ids of all tasks; a bare array's row numbers are its ids. Rows without
            annotations are tasks without labels, which are predicted.
        y : Annotations, long DataFrame, or (n, n_annotators) matrix
            The crowd's labels; -1 or NaN is missing. The method "gold" takes one true label per row instead.
        validation : (X, y_true), optional
            Instances with true labels, used only to select the epoch. One label per row of X, in the order of the rows,
            whatever the index of a Series says; a frame with columns task and label is joined to features with ids.
        monitor : mapping of str to (X, y_true), optional
            Further sets with true labels, whose accuracy is noted in ``history_`` as ``<name>_accuracy`` after every
            epoch. They influence nothing.
        task_ids : (n,) sequence, optional
            Ids of the rows of X.
        annotator_features : (n_annotators, F), optional
            Raw features of the annotators, in the order of ``annotations.annotator_ids``.
        annotator_info : frame or AnnotatorInfo, optional
            What is known about the annotators: a row for each, with columns worker, ``group``, ``cost``, and features
            (:class:`conal.data.annotator_info.AnnotatorInfo`). The features, standardised, take the place of
            ``annotator_features``.
        true_labels : mapping, pandas Series, frame, or (n,) sequence, optional
            True labels of some training tasks, such as those of an expert: by task id, in columns task and label, or
            one for every row of X, None where it is unknown. They are taken as certain and trained on. A task with a
            true label needs no annotations.
        allow_missing : bool
            Drop tasks without features, with a warning, instead of refusing them.
        checkpoint : path, optional
            File to keep the state of training in. Delete it once the model is saved.
        resume : bool
            Continue from the checkpoint, if there is one.
        """
        check_parameters(self)
        learned = fit_to(
            self,
            Given(
                X,
                y,
                validation,
                monitor or {},
                task_ids,
                annotator_features,
                annotator_info,
                true_labels,
                allow_missing,
                checkpoint,
                resume,
            ),
        )
        self._frame = kind_of_frame(y, X)
        adopt(self, learned)
        self.learned_from_ = (learned.entry,)
        return self

    def update(
        self, X: Any, y: Any, *, task_ids: Any = None, annotator_info: Any = None, where: str = "new labels"
    ) -> Self:
        """Add new labels to a fitted classifier, and train it further for a fifth of the epochs of a fit.

        Networks and noise model start where they were. Batches contain old and new tasks: a fitted estimator refers
        to the data that it was fitted to, and one from a folder of ``save(folder, keep_data=True)`` reads them there.
        Tasks keep their folds; what makes features of texts stays as it was. The last epoch is kept.

        Parameters
        ----------
        X : (n, ...) array, DataFrame, torch Dataset, texts, or None
            As in :meth:`fit`, for new tasks; rows of known tasks are not used. None if all tasks are known.
        y : Annotations, long DataFrame, or (n, n_annotators) matrix
            New labels alone, of known classes.
        task_ids : (n,) sequence, optional
            Ids of the rows of X.
        annotator_info : frame or AnnotatorInfo, optional
            Groups of all annotators, where they were fitted with groups.
        where : str
            How messages name the labels, such as their file.

        Examples
        --------
        >>> import conal
        >>> data = conal.datasets.synthetic(n_train=80, n_classes=3, seed=1)
        >>> first = data.annotations[:60]
        >>> clf = conal.CrossCoNAL(epochs=5).fit(data.x[:60], first)
        >>> clf.update(data.x, data.annotations.reindex(range(60, 80))).labels_.shape
        (80,)
        """
        check_is_fitted(self, "model_")
        learned = updated(self, X, y, task_ids, annotator_info, where)
        adopt(self, learned)
        self.learned_from_ = (*self.learned_from_, learned.entry)
        return self
