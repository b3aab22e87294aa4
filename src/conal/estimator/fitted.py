"""What a fitted estimator has, and what it says about instances and annotators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from conal.data.annotations import Annotations
from conal.data.annotator_info import AnnotatorInfo
from conal.data.encoding import Names, as_names
from conal.data.joining import Learnt
from conal.data.matching import match_names
from conal.errors import InputError
from conal.estimator import adapters, compute, texts
from conal.estimator.kept_data import TrainingData
from conal.methods import CrowdMethod
from conal.parameters.training import ClassifierParameters
from conal.reported import Reported
from conal.text import EncodedTexts, TextFeatures
from conal.training import CrowdBatches, Instances
from conal.training.loop import Row

if TYPE_CHECKING:
    from conal.estimator.planning import Asked, By
    from conal.planning.crowd_plan import CrowdPlan
    from conal.report.charts import TrainingPlots

__all__ = ["FittedClassifier"]

FloatArray = npt.NDArray[np.float64]

MAX_DENSE_CELLS = 200_000_000
"""More rates than this are not computed unasked."""


class FittedClassifier(Reported, ClassifierParameters, ClassifierMixin, BaseEstimator):
    """Predictions of a fitted classifier, and what it learned about the annotators."""

    method: ClassVar[str]

    classes_: Names
    annotator_ids_: Names
    task_ids_: Names
    probas_: FloatArray
    labels_: Names
    history_: list[Row]
    metrics_: dict[str, Any]
    model_: CrowdMethod
    text_features_: TextFeatures | EncodedTexts | None = None
    ordinal_: bool = False
    annotator_info_: AnnotatorInfo | None = None
    asked_: Asked | None = None
    learned_from_: tuple[Learnt, ...] = ()
    kept_: TrainingData | None = None
    instance_shape_: tuple[int, ...]
    n_features_in_: int
    _feature_names: tuple[str, ...]

    def predict_proba(self, X: Any) -> FloatArray:
        """(n, C) class probabilities from features alone; columns follow ``classes_``."""
        check_is_fitted(self, "model_")
        return compute.class_probas(self.model_, self._instances(X))

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
        return compute.posterior(self.model_, self._batches(*self._joined(X, y, task_ids)))

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
        """Whom to ask what next, for at most a budget: a table, and the accuracy that it promises.

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
        from conal.estimator.planning import asking_of
        from conal.planning.crowd_plan import crowd_plan

        check_is_fitted(self, "model_")
        asking, names = asking_of(self, annotator_info, by=by, per_task=per_task)
        options: dict[str, Any] = {"expert_cost": expert_cost, "per_task": per_task, "seed": seed}
        return crowd_plan(asking, budget, task_ids=self.task_ids_, people=names, **options)

    def score(self, X: Any, y: Any) -> float:
        """Accuracy for true labels; for annotations, the mean log-likelihood of a label.

        True labels are one per row of X, in the order of the rows, whatever the index of a Series says; a frame with
        columns task and label is joined to features with ids.

        The second is what lets ``GridSearchCV`` compare settings without a single true label.
        """
        check_is_fitted(self, "model_")
        if adapters.is_labels(y):
            features = adapters.as_features(texts.as_numbers(self.text_features_, X))
            codes = adapters.as_codes(adapters.true_labels(y, features, "y"), self.classes_, "y")
            return float((self.predict_proba(features).argmax(1) == codes).mean())
        return compute.log_likelihood(self.model_, self._batches(*self._joined(X, y, None)))

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
        return self.model_.confusion()[0].detach().double().numpy()

    @property
    def annotator_confusion_(self) -> FloatArray:
        """(R, C, C) ``[r, c, l]`` = P(observed l | true c) of each annotator; the common one without labels.

        Of an annotator with a handful of labels it says little: rows without labels stay near the
        start, and the term that pushes the layers apart moves them further.
        """
        check_is_fitted(self, "model_")
        return self.model_.confusion()[1].detach().double().numpy()

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
        if adapters.is_annotations(annotators, self.annotator_ids_):
            return compute.pair_rates(self.model_, self._batches(*self._joined(X, annotators, task_ids)))
        instances = self._instances(X)
        if annotators is not None:
            codes = self._annotator_codes(as_names(annotators))
            if len(codes) != len(instances):
                raise InputError(f"{len(codes):,} annotators for {len(instances):,} rows; pass one per row")
            return compute.row_rates(self.model_, instances, codes)
        R = len(self.annotator_ids_)
        if len(instances) * R > MAX_DENSE_CELLS:
            raise InputError(
                f"{len(instances):,} x {R:,} rates are too many at once; pass annotators=, or fewer rows of X"
            )
        everyone = (np.full(len(instances), r) for r in range(R))
        return np.stack([compute.row_rates(self.model_, instances, codes) for codes in everyone], axis=1)

    @property
    def plots(self) -> TrainingPlots:
        """The charts of the report as Altair charts, such as ``plots.annotators()``; ``dir(plots)`` lists them."""
        from conal.report.charts import TrainingPlots

        return TrainingPlots(self._fitted_results())

    def _instances(self, X: Any) -> Instances:
        numbers = texts.as_numbers(self.text_features_, X)
        return adapters.as_instances(numbers, self.instance_shape_, columns=self._feature_names)

    def _joined(self, X: Any, y: Any, task_ids: Any) -> tuple[Instances, Annotations]:
        crowd = adapters.with_classes(adapters.as_target(y, self.model_.takes), self.classes_)
        numbers, names = texts.as_numbers(self.text_features_, X), self._feature_names
        instances, crowd, _ = adapters.aligned(
            numbers, crowd, task_ids, allow_missing=True, unlabelled=False, columns=names
        )
        if instances.shape != self.instance_shape_:
            raise InputError(f"instances have shape {instances.shape}, the model was trained on {self.instance_shape_}")
        return instances, crowd

    def _batches(self, instances: Instances, crowd: Annotations) -> CrowdBatches:
        codes = self._annotator_codes(crowd.annotator_ids)
        return CrowdBatches(instances, crowd, self.batch_size, codes)

    def _annotator_codes(self, names: Names) -> npt.NDArray[np.int64]:
        """The model's codes of annotators, -1 of unknown ones."""
        return match_names(self.annotator_ids_, names, "annotators", "labels", "those that the model was trained on")
