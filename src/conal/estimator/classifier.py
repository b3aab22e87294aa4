"""The estimators: fit, predict, infer, score, save; one class for every method."""

from __future__ import annotations

import copy
import difflib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
import torch
from sklearn.utils.validation import check_is_fitted
from torch import nn

from conal import methods
from conal._arrays import FloatArray
from conal.data.annotator_info import AnnotatorInfo
from conal.data.encoding import Names, as_names
from conal.data.frames import kind_of_frame
from conal.data.joining import TrainingRecord, training_record
from conal.data.matching import match_names
from conal.data.problems import check_memory
from conal.data.true_labels import inclusion_of
from conal.errors import InputError
from conal.estimator import inputs, results
from conal.estimator.fitting import TrainingInputs, about_annotators, fit_again, set_fitted_state, train_all
from conal.estimator.kept_data import TrainingData
from conal.estimator.results import FittedResults
from conal.estimator.update import update
from conal.methods import CrowdMethod, conal, conal_em, cross_conal, doctor_net, em, layers, max_mig, two_stage
from conal.parameters import check_parameters, parameters, parameters_of
from conal.parameters.training import ClassifierParameters
from conal.report.exhibits import Exhibits
from conal.reported import Reported
from conal.text import TextFeatures
from conal.training.batches import CrowdBatches, Instances
from conal.training.checkpoint import Checkpoint
from conal.training.loop import Row

if TYPE_CHECKING:
    from conal.estimator.export import Exported
    from conal.estimator.kept_data import Asked, By
    from conal.planning.common_plan import CommonPlan
    from conal.planning.crowd_plan import CrowdPlan
    from conal.report.charts import TrainingPlots

    class ClassifierMixin:
        """Type checkers take classes without types for Any, and would miss unknown keywords of constructors."""

    class BaseEstimator:
        """The typed part of scikit-learn's."""

        def get_params(self, deep: bool = True) -> dict[str, Any]:
            """Parameters by name."""

        def set_params(self, **parameters: Any) -> Self:
            """Change parameters by name."""

else:
    from sklearn.base import BaseEstimator, ClassifierMixin

NUMBERS = 60
"""Numbers per cell of the annotators' matrices that training and its results keep at once."""
MAX_DENSE_CELLS = 200_000_000
"""More rates than this are not computed unasked."""


class FittedClassifier:
    """What ``fit`` sets; see :class:`CrowdClassifier`."""

    classes_: Names
    annotator_ids_: Names
    task_ids_: Names
    probas_: FloatArray
    labels_: Names
    history_: list[Row]
    metrics_: dict[str, Any]
    model_: CrowdMethod
    text_features_: TextFeatures | None = None
    ordinal_: bool = False
    annotator_info_: AnnotatorInfo | None = None
    asked_: Asked | None = None
    learned_from_: tuple[TrainingRecord, ...] = ()
    columns_: Mapping[str, str] = MappingProxyType({})
    """Columns of the files of labels that the command line has read, which further files may have too."""
    kept_: TrainingData | None = None
    instance_shape_: tuple[int, ...]
    n_features_in_: int
    _feature_names: tuple[str, ...]


class CrowdClassifier(FittedClassifier, Reported, ClassifierParameters, ClassifierMixin, BaseEstimator):
    """A classifier trained directly from crowd labels, with the conventions of scikit-learn.

    Use a subclass: :class:`conal.CoNAL`, or ``conal.make(name)`` for any method. A subclass with an attribute
    ``method`` is the estimator of the method of this name.

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
    text_features_ : conal.TextFeatures or None
        What makes features of texts, where the model was trained on texts.
    ordinal_ : bool
        Whether the classes are a scale, from the lowest to the highest, as the annotations stated.
    annotator_info_ : AnnotatorInfo or None
        What was given about the annotators.
    learned_from_ : tuple of TrainingRecord
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

    method: ClassVar[str]
    by_method: ClassVar[dict[str, type[CrowdClassifier]]] = {}
    """The estimators by the names of their methods."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "method" in vars(cls):
            CrowdClassifier.by_method[cls.method] = cls

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
        inputs.refuse_labels_alone(X, y)
        takes, self._frame = methods.get(self.method).takes, kind_of_frame(y, X)
        crowd = inputs.as_target(y, takes)
        check_memory(crowd, NUMBERS * crowd.n_annotators * crowd.n_classes**2, self.method)
        X, self.text_features_, quoted = inputs.learn_texts(X, task_ids, self)
        validation, monitor = inputs.further_as_numbers(self.text_features_, validation, monitor or {})
        instances, crowd, columns = inputs.aligned(X, crowd, task_ids, allow_missing=allow_missing)
        self.annotator_info_, features = about_annotators(annotator_info, annotator_features, crowd)
        known = inputs.truth_for_training(instances, crowd, true_labels, takes)
        data = CrowdBatches(instances, crowd, self.batch_size, known=known)
        given = TrainingInputs(data, columns, validation, monitor, features)
        saver = None if checkpoint is None else partial(Checkpoint, Path(checkpoint), resume=resume)
        selection, results = train_all(self, given, saver)
        inclusion = None if known is None else inclusion_of(crowd, true_labels)
        refit = partial(fit_again, copy.copy(self), given)
        set_fitted_state(self, results, data, selection, columns, quoted, inclusion=inclusion, refit=refit)
        self.learned_from_ = () if crowd.hide_below else (training_record("fit", crowd),)
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
        update(self, X, y, task_ids, annotator_info, where)
        return self

    # ---------------------------------------------------------------- what a fitted classifier says

    def predict_proba(self, X: Any) -> FloatArray:
        """(n, C) class probabilities from features alone; columns follow ``classes_``."""
        check_is_fitted(self, "model_")
        return results.class_probas(self.model_, self._instances(X))

    def predict(self, X: Any) -> Names:
        """(n,) the most probable class, in the user's own labels."""
        best = self.predict_proba(X).argmax(1)
        labels: Names = self.classes_[best]
        return labels

    def infer(self, X: Any, y: Any, *, task_ids: Any = None) -> FloatArray:
        """(n_tasks, C) P(true class | features and annotations), one row per task of ``y``.

        Uses all annotations of a task jointly. Annotators unknown to the model count by the common confusion.
        """
        check_is_fitted(self, "model_")
        return results.posterior(self.model_, self._batches(X, y, task_ids))

    def score(self, X: Any, y: Any) -> float:
        """Accuracy for true labels; for annotations, the mean log-likelihood of a label.

        True labels are one per row of X, in the order of the rows, whatever the index of a Series says; a frame with
        columns task and label is joined to features with ids.

        The second is what lets ``GridSearchCV`` compare settings without a single true label.
        """
        check_is_fitted(self, "model_")
        if inputs.is_labels(y):
            features = inputs.as_features(inputs.as_numbers(self.text_features_, X))
            codes = inputs.as_codes(inputs.true_labels(y, features, "y"), self.classes_, "y")
            return float((self.predict_proba(features).argmax(1) == codes).mean())
        return results.log_likelihood(self.model_, self._batches(X, y, None))

    @property
    def feature_names_in_(self) -> Names:
        """Names of the features; missing if the features have no names, as in scikit-learn."""
        if not getattr(self, "_feature_names", ()):
            raise AttributeError("feature_names_in_: the features have no names")
        return np.array(self._feature_names, dtype=object)

    @feature_names_in_.setter
    def feature_names_in_(self, names: Sequence[str]) -> None:
        self._feature_names = tuple(names)

    @property
    def common_confusion_(self) -> FloatArray:
        """(C, C) ``[c, l]`` = P(observed l | true c) shared by all annotators.

        Where omega hardly varies, the split between common and individual confusion is not identifiable from the
        likelihood: a range of matrices fits equally well, and the start of training decides among them.
        """
        check_is_fitted(self, "model_")
        return self.model_.confusion_matrices()[0].detach().double().numpy()

    @property
    def annotator_confusion_(self) -> FloatArray:
        """(R, C, C) ``[r, c, l]`` = P(observed l | true c) of each annotator; the common one without labels.

        Of an annotator with a handful of labels it says little: rows without labels stay near the
        start, and the term that pushes the layers apart moves them further.
        """
        check_is_fitted(self, "model_")
        return self.model_.confusion_matrices()[1].detach().double().numpy()

    def common_noise_rate(self, X: Any, annotators: Any = None, *, task_ids: Any = None) -> FloatArray:
        """Omega: how likely annotations are to come from the common confusion.

        Parameters
        ----------
        X : features
        annotators : None, (n,) annotator ids, or annotations in any form that :meth:`fit` takes
            None gives all (n, n_annotators), refused where that is too large; ids give omega of (row k, annotator k);
            annotations give one value each, in the order of ``Annotations.to_table()``: by task, then annotator.
        """
        check_is_fitted(self, "model_")
        if not self.model_.separates_noise:
            raise InputError(f"method {self.method!r} does not separate common from individual confusion; use 'conal'")
        if inputs.is_annotations(annotators, self.annotator_ids_):
            return results.pair_rates(self.model_, self._batches(X, annotators, task_ids))
        instances = self._instances(X)
        if annotators is not None:
            codes = self._annotator_codes(as_names(annotators))
            if len(codes) != len(instances):
                raise InputError(f"{len(codes):,} annotators for {len(instances):,} rows; pass one per row")
            return results.row_rates(self.model_, instances, codes)
        R = len(self.annotator_ids_)
        if len(instances) * R > MAX_DENSE_CELLS:
            raise InputError(
                f"{len(instances):,} x {R:,} rates are too many at once; pass annotators=, or fewer rows of X"
            )
        everyone = (np.full(len(instances), r) for r in range(R))
        return np.stack([results.row_rates(self.model_, instances, codes) for codes in everyone], axis=1)

    @property
    def plots(self) -> TrainingPlots:
        """The charts of the report as Altair charts, such as ``plots.annotators()``; ``dir(plots)`` lists them."""
        from conal.report.charts import TrainingPlots

        return TrainingPlots(self._fitted_results())

    def _instances(self, X: Any) -> Instances:
        numbers = inputs.as_numbers(self.text_features_, X)
        return inputs.as_instances(numbers, self.instance_shape_, columns=self._feature_names)

    def _batches(self, X: Any, y: Any, task_ids: Any) -> CrowdBatches:
        crowd = inputs.with_classes(inputs.as_target(y, self.model_.takes), self.classes_)
        numbers, names = inputs.as_numbers(self.text_features_, X), self._feature_names
        instances, crowd, _ = inputs.aligned(
            numbers, crowd, task_ids, allow_missing=True, unlabelled=False, columns=names
        )
        if instances.shape != self.instance_shape_:
            raise InputError(f"instances have shape {instances.shape}, the model was trained on {self.instance_shape_}")
        return CrowdBatches(instances, crowd, self.batch_size, self._annotator_codes(crowd.annotator_ids))

    def _annotator_codes(self, names: Names) -> npt.NDArray[np.int64]:
        """The model's codes of annotators, -1 of unknown ones."""
        return match_names(self.annotator_ids_, names, "annotators", "labels", "those that the model was trained on")

    # ---------------------------------------------------------------- for others: plans, folders, exports

    def plan(
        self,
        budget: float,
        *,
        annotator_info: Any = None,
        by: By = "annotator",
        expert_cost: float | None = None,
        per_task: int = 3,
        seed: int = 0,
    ) -> CrowdPlan:
        """Whom to ask what next, for at most a budget: a table, and the accuracy to expect.

        Parameters
        ----------
        budget : float
            What all labels together may cost; one costs 1, or as ``annotator_info`` says.
        annotator_info : frame or AnnotatorInfo, optional
            Columns worker, ``group``, ``cost`` and ``limit``; by default what the model was fitted with.
        by : {"annotator", "group"}
            Whom to ask: single annotators, or anybody of a group.
        expert_cost : float, optional
            Cost of a true label, if there is an expert.
        per_task : int
            Labels of one task, at most.
        seed : int
            Seed of the simulated answers behind the intervals.
        """
        from conal.estimator.kept_data import labeling_problem_of
        from conal.planning.crowd_plan import crowd_plan

        check_is_fitted(self, "model_")
        problem, names = labeling_problem_of(self, annotator_info, by=by, per_task=per_task)
        asked: dict[str, Any] = {"task_ids": self.task_ids_, "people": names, "expert_cost": expert_cost}
        return crowd_plan(problem, budget, **asked, per_task=per_task, seed=seed)

    def plan_common_confusion(self, budget: float, *, annotator_info: Any = None, per_task: int = 3) -> CommonPlan:
        """Whom to ask what next, so that ``common_confusion_`` is known better; parameters as in :meth:`plan`."""
        from conal.estimator.kept_data import labeling_problem_of
        from conal.planning.common_plan import common_plan

        check_is_fitted(self, "model_")
        problem, names = labeling_problem_of(self, annotator_info, per_task=per_task)
        common = self.common_confusion_
        return common_plan(problem, common, budget, task_ids=self.task_ids_, people=names, per_task=per_task)

    def save(self, folder: str | PathLike[str], *, keep_data: bool = False, overwrite: bool = False) -> None:
        """Write a model folder (safetensors, JSON, CSV); see :func:`conal.load`.

        With ``keep_data``, the folder also has the training labels and features, which :meth:`update` needs.
        """
        from conal.estimator.folder import save

        check_is_fitted(self, "model_")
        save(self, folder, keep_data=keep_data, overwrite=overwrite)

    def to_torch(self, *, features_only: bool = False) -> nn.Module:
        """The trained networks as one torch module, whose output equals :meth:`predict_proba`.

        Feature scaling, all networks, their mean and a stated class prior are in it; nothing about annotators is. It
        is a copy on the CPU, in evaluation mode, and takes (n, ...) tensors of raw features: float32, and float64 for
        features that single precision would lose (``model_.scaler.dtype``).

        Parameters
        ----------
        features_only : bool
            For a model of texts: give the classifier of ``text_features_.transform(texts)``. What makes features of
            texts is not torch, so without this a model of texts is refused.

        Examples
        --------
        >>> import conal, torch
        >>> data = conal.datasets.synthetic(n_train=60, n_classes=3, seed=1)
        >>> clf = conal.CrossCoNAL(epochs=2).fit(data.x, data.annotations)
        >>> probas = clf.to_torch()(torch.from_numpy(data.test.x).float())
        >>> bool(abs(probas.numpy() - clf.predict_proba(data.test.x)).max() < 1e-6)
        True
        """
        from conal.estimator.export import to_torch

        check_is_fitted(self, "model_")
        return to_torch(self, features_only=features_only)

    def export(
        self,
        path: str | PathLike[str],
        to: Literal["onnx", "torch"] | None = None,
        *,
        features_only: bool = False,
        overwrite: bool = False,
    ) -> Exported:
        """Write one file that predicts what :meth:`predict_proba` does, without conal.

        The file is compared with :meth:`predict_proba` on random rows before it is put into place.

        Parameters
        ----------
        path : path
            A file that ends in ``.onnx`` or ``.pt2``.
        to : "onnx" or "torch", optional
            ONNX (``pip install 'conal[onnx]'``), or a program of ``torch.export``; by default from the ending.
        features_only : bool
            As in :meth:`to_torch`.
        overwrite : bool
            Replace an existing file.

        Returns
        -------
        Exported
            Path, format, metadata, and the largest difference from :meth:`predict_proba` on the random rows.
        """
        from conal.estimator.export import export

        check_is_fitted(self, "model_")
        return export(self, path, to, features_only=features_only, overwrite=overwrite)

    def exhibit(self, exhibits: Exhibits) -> Self:
        """Show texts, pictures and addresses of tasks, and names of annotators, in the report of a fitted estimator.

        Pictures come before those that are drawn from the features.
        """
        check_is_fitted(self, "model_")
        results = self.results_
        if not isinstance(results, FittedResults):
            raise InputError(
                "a loaded model has its report already; use conal.report.page.write_report(folder, exhibits=...)"
            )
        pictures = (*exhibits.pictures, *results.exhibits.pictures)
        self.results_ = replace(results, exhibits=replace(exhibits, pictures=pictures))
        return self


# An estimator for every method: the method's parameters, then those of every classifier.


@parameters
class CoNAL(CrowdClassifier, conal.CoNALParameters):
    __doc__ = conal.CoNALMethod.__doc__
    method = "conal"

    @property
    def group_confusion_(self) -> FloatArray:
        """(K, C, C) the common confusion of every group; ``common_confusion_`` is their mean."""
        C = len(self.classes_)
        found = [each.noise.pi_g.reshape(-1, C, C) for each in self._members()]
        return torch.stack(found).mean(0).detach().double().numpy()

    @property
    def membership_(self) -> FloatArray:
        """(R, K) probabilities that annotators belong to groups, in the order of ``annotator_ids_``."""
        groups = [each.groups_of_annotators for each in self._members()]
        found = [each.membership for each in groups if each is not None]
        return torch.stack(found).mean(0).double().numpy() if found else np.ones((len(self.annotator_ids_), 1))

    def _members(self) -> list[conal.CoNALMethod]:
        check_is_fitted(self, "model_")
        return [each for each in results.members_of(self.model_) if isinstance(each, conal.CoNALMethod)]

    @classmethod
    def paper(cls, **changes: Any) -> Self:
        """The paper's settings: the gate of Equation 3, and no scaling, warm-up or restarts; ``changes`` are yours.

        Where the paper is silent, on the batch size and the number of epochs, they are those of its published code.

        >>> import conal
        >>> conal.CoNAL.paper(seed=3).get_params()["omega_scale"]
        1.0
        """
        settings = cls(
            omega_scale=1.0,
            lam=1e-5,
            embedding_dim=20,
            lr=0.01,
            batch_size=1024,
            epochs=100,
            warmup_epochs=0,
            schedule="constant",
            scaling="none",
            max_restarts=0,
        )
        return settings.set_params(**changes)


@parameters
class CrossCoNAL(CrowdClassifier, cross_conal.CrossCoNALParameters):
    __doc__ = cross_conal.CrossCoNALMethod.__doc__
    method = "xconal"

    lr: float = 0.005
    input_dropout: float = 0.3


@parameters
class CoNALEMClassifier(CrowdClassifier, conal_em.CoNALEMParameters):
    __doc__ = conal_em.CoNALEMMethod.__doc__
    method = "conal-em"


@parameters
class AggNetClassifier(CrowdClassifier, em.SingleNetworkEMParameters):
    __doc__ = em.AggNetMethod.__doc__
    method = "aggnet"


@parameters
class CrowdLayerClassifier(CrowdClassifier, layers.AnnotatorLayersParameters):
    __doc__ = layers.CrowdLayerMethod.__doc__
    method = "dl-cl"


@parameters
class OverparameterisedCrowdLayerClassifier(CrowdClassifier, layers.OverparameterisedCrowdLayerParameters):
    __doc__ = layers.OverparameterisedCrowdLayerMethod.__doc__
    method = "dl-cl-over"


@parameters
class AnnoRegClassifier(CrowdClassifier, layers.AnnoRegParameters):
    __doc__ = layers.AnnoRegMethod.__doc__
    method = "anno-reg"


@parameters
class DoctorNetClassifier(CrowdClassifier):
    __doc__ = doctor_net.DoctorNetMethod.__doc__
    method = "doctor-net"


@parameters
class MaxMIGClassifier(CrowdClassifier, max_mig.MaxMIGParameters):
    __doc__ = max_mig.MaxMIGMethod.__doc__
    method = "max-mig"


@parameters
class MajorityVoteClassifier(CrowdClassifier, two_stage.TwoStageParameters):
    __doc__ = two_stage.MajorityVoteMethod.__doc__
    method = "dl-mv"


@parameters
class DawidSkeneClassifier(CrowdClassifier, two_stage.TwoStageParameters):
    __doc__ = two_stage.DawidSkeneMethod.__doc__
    method = "dl-ds"


@parameters
class GLADClassifier(CrowdClassifier, two_stage.TwoStageParameters):
    __doc__ = two_stage.GLADMethod.__doc__
    method = "dl-glad"


@parameters
class WorkerClusteringClassifier(CrowdClassifier, two_stage.WorkerClusteringParameters):
    __doc__ = two_stage.WorkerClusteringMethod.__doc__
    method = "dl-wc"


@parameters
class AnyAggregatorClassifier(CrowdClassifier, two_stage.AnyAggregatorParameters):
    __doc__ = two_stage.AnyAggregatorMethod.__doc__
    method = "two-stage"


@parameters
class GoldClassifier(CrowdClassifier):
    __doc__ = two_stage.GoldMethod.__doc__
    method = "gold"


def make(name: str, **given: Any) -> CrowdClassifier:
    """An estimator for the method called ``name``, by the paper's name for it.

    >>> make("dl-mv", lr=0.005).get_params()["lr"]
    0.005
    """
    cls = estimator_class(name)
    known = parameters_of(cls)
    unknown = sorted(set(given) - set(known))
    if unknown:
        close = difflib.get_close_matches(unknown[0], known, n=1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        common = sorted(parameters_of(ClassifierParameters))
        own = sorted(set(known) - set(common))
        names = f"{', '.join(own)}; and, as every method, {', '.join(common)}" if own else ", ".join(common)
        raise InputError(
            f"method {name!r} has no parameter {', '.join(map(repr, unknown))}; {hint}it has {names}; "
            "docs/api/classifiers.md says what they mean"
        )
    return cls(**given)


def estimator_class(name: str) -> type[CrowdClassifier]:
    """The estimator class of a method, which says ``method = name``."""
    methods.get(name)  # an unknown name is an error that lists the known ones
    if name not in CrowdClassifier.by_method:
        raise InputError(
            f"method {name!r} has no estimator: derive a class with method = {name!r} from CrowdClassifier"
        )
    return CrowdClassifier.by_method[name]
