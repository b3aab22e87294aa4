"""The estimator: fit, predict, infer, score, save, for every method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted
from torch import nn

from conal import methods
from conal._support.progress import make_progress
from conal.aggregation.votes import clamped
from conal.data.annotations import Annotations
from conal.data.annotator_info import AnnotatorInfo
from conal.data.encoding import Names, as_names, decode_position
from conal.data.frames import kind_of_frame
from conal.data.growing import Learnt, learnt
from conal.data.pseudonyms import new_key
from conal.errors import InputError
from conal.estimator import adapters, compute, members, preparation, texts
from conal.estimator.exhibits import drawn
from conal.estimator.kept_data import TrainingData
from conal.estimator.provenance import model_section
from conal.estimator.results import FittedResults
from conal.estimator.true_labels import Truth, truth_for_training, truth_metrics
from conal.findings.exhibits import Exhibits
from conal.methods import CrowdMethod
from conal.parameters import check_parameters
from conal.parameters.plan import plan, planned_epochs
from conal.parameters.privacy import PrivacyOptions
from conal.parameters.training import ClassifierParameters, Settings
from conal.reported import Reported
from conal.text import EncodedTexts, TextFeatures
from conal.training import CrowdBatches, Instances, LastEpoch, Selection, TrainingResult, train
from conal.training.checkpoint import Checkpoint
from conal.training.history import Row

if TYPE_CHECKING:
    from conal.estimator.deployment import Exported
    from conal.estimator.planning import Asked, By
    from conal.findings.plan_table import CrowdPlan
    from conal.report.plots import TrainingPlots

__all__ = ["CrowdClassifier"]

FloatArray = npt.NDArray[np.float64]

MAX_DENSE_CELLS = 200_000_000
"""More rates than this are not computed unasked."""


class FittedAttributes:
    """The results of ``fit``."""

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


class CrowdClassifier(FittedAttributes, Reported, ClassifierParameters, ClassifierMixin, BaseEstimator):
    """A classifier trained directly from crowd labels, with the conventions of scikit-learn.

    Use a subclass: :class:`conal.CoNAL`, or ``conal.make(name)`` for any method.

    Attributes
    ----------
    classes_, annotator_ids_, task_ids_ : arrays
        What the user called them.
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

    method: ClassVar[str]

    # ---------------------------------------------------------------- fit

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
            first. A frame's ``task`` or ``id`` column, or ``task_ids``, joins them to the annotations by id; a bare
            array's row numbers are its ids. Rows without annotations are tasks without labels, which are predicted.
        y : Annotations, long DataFrame, or (n, n_annotators) matrix
            The crowd's labels; -1 or NaN is missing. The method "gold" takes one true label per row instead.
        validation : (X, y_true), optional
            Instances with true labels, used only to select the epoch.
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
        adapters.refuse_labels_alone(X, y)
        method = methods.get(self.method)
        crowd = adapters.as_target(y, method.takes)
        self._frame = kind_of_frame(y, X)
        X, self.text_features_, quoted = texts.learn_texts(X, task_ids, self)
        validation, monitor = texts.further_as_numbers(self.text_features_, validation, monitor or {})
        joined = adapters.aligned(X, crowd, task_ids, allow_missing=allow_missing)
        self.annotator_info_, annotator_features = preparation.about_annotators(
            annotator_info, annotator_features, joined.annotations
        )
        known = truth_for_training(joined, true_labels, method.takes)
        kept, selection = preparation.choose_selection(self, joined, validation, known)
        training = CrowdBatches(joined.instances, kept, self.batch_size, known=known)
        found = None if self.annotator_info_ is None else self.annotator_info_.coded_groups()
        groups = None if found is None else found[1]
        build = preparation.make_builder(self, method, training, annotator_features, known, groups)
        settings = Settings(**{name: getattr(self, name) for name in Settings.declared})
        planned = plan(settings, len(training.labelled))
        saver = None
        if checkpoint is not None:
            marks = preparation.fingerprint_of(self, joined, selection, planned, annotator_features, known, groups)
            saver = Checkpoint(Path(checkpoint), marks, resume=resume)
        monitors = preparation.make_monitors(joined, monitor)
        results = []
        for number in range(self.ensemble):
            title = self.method if self.ensemble == 1 else f"{self.method} {number + 1}/{self.ensemble}"
            with make_progress(title, self.verbose, total=planned.epochs) as progress:
                results.append(
                    train(
                        build,
                        training,
                        selection,
                        members.settings_of_member(settings, number),
                        monitors=monitors,
                        progress=progress,
                        checkpoint=None if saver is None else saver.of_member(number),
                    )
                )
        truth = None if known is None else Truth.of(joined.annotations, known, true_labels)
        self._adopt(members.merged(results), selection, joined, quoted, truth)
        self.kept_ = TrainingData.of(joined.instances, joined.annotations, [result.method for result in results])
        self.learned_from_ = (learnt("fit", joined.annotations),)
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
        from conal.estimator.updating import updated

        check_is_fitted(self, "model_")
        found = updated(self, X, y, task_ids, annotator_info, where)
        self._adopt(found.result, LastEpoch(), found.joined, found.quoted, None)
        self.kept_ = found.kept
        self.learned_from_ = (*self.learned_from_, found.entry)
        return self

    def _adopt(
        self,
        result: TrainingResult,
        selection: Selection,
        joined: adapters.Joined,
        quoted: Mapping[Any, str] | None,
        truth: Truth | None,
    ) -> None:
        instances, crowd, self._feature_names = joined
        known = None if truth is None else truth.known
        self.model_ = result.method
        self.classes_ = crowd.classes
        self.ordinal_ = crowd.ordinal
        self.annotator_ids_ = crowd.annotator_ids
        self.task_ids_ = crowd.task_ids
        self.instance_shape_ = instances.shape
        self.n_features_in_ = int(np.prod(self.instance_shape_))
        self.history_ = result.history
        self.metrics_ = {
            "method": self.method,
            "selection": selection.name,
            "best_epoch": result.best_epoch,
            "best_score": result.best_score,
            "epochs": max((int(row["epoch"]) for row in result.history), default=0),
            "epochs_planned": planned_epochs(self.epochs, self.model_.problem.n_tasks),
            "seconds": sum(row["seconds"] for row in result.history),
            "restarts": result.restarts,
            "lost_classes": self.classes_[result.lost_classes].tolist(),
            "n_tasks": crowd.n_tasks,
            "n_annotators": crowd.n_annotators,
            "n_annotations": crowd.n_annotations,
            "n_tasks_labelled": len(CrowdBatches(instances, crowd, self.batch_size, known=known).labelled),
            "n_tasks_trained_on": self.model_.problem.n_tasks,
            "seed": int(self.seed),
            **result.members,
            **({} if known is None else truth_metrics(crowd, known)),
        }
        reading = compute.read_training_tasks(self.model_, self._batches(instances, crowd), result.class_logits)
        self.probas_ = reading.posterior if known is None else clamped(reading.posterior, known)
        preparation.warn_of_prior(self.model_, self.probas_, crowd)
        self.labels_ = self.classes_[self.probas_.argmax(1)]
        read = (self.probas_, reading.classifier, reading.omega)
        shown = drawn(instances, crowd.task_ids) if quoted is None else Exhibits()
        about = self.annotator_info_
        results = FittedResults(self.model_, crowd, *read, quoted, model_section(self), exhibits=shown, about=about)
        if truth is not None:
            results = replace(results, **truth.evidence(self.model_, reading.posterior))
        if not (preparation.warn_of_contradiction(results.findings.evidence) or result.lost_classes):
            preparation.warn_of_collapse(self.method, self.model_, crowd, self.probas_, known)
        self.results_ = results

    # ---------------------------------------------------------------- use

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
        from conal.findings.plan_table import crowd_plan

        check_is_fitted(self, "model_")
        asking, names = asking_of(self, annotator_info, by=by, per_task=per_task)
        options: dict[str, Any] = {"expert_cost": expert_cost, "per_task": per_task, "seed": seed}
        return crowd_plan(asking, budget, task_ids=self.task_ids_, people=names, **options)

    def score(self, X: Any, y: Any) -> float:
        """Accuracy for true labels; for annotations, the mean log-likelihood of a label.

        The second is what lets ``GridSearchCV`` compare settings without a single true label.
        """
        check_is_fitted(self, "model_")
        if adapters.is_labels(y):
            features = adapters.as_features(texts.as_numbers(self.text_features_, X))
            codes = adapters.as_codes(adapters.true_labels(y, features, "y"), self.classes_, "y")
            return float((self.predict_proba(features).argmax(1) == codes).mean())
        return compute.log_likelihood(self.model_, self._batches(*self._joined(X, y, None)))

    @property
    def plots(self) -> TrainingPlots:
        """The charts of the report as Altair charts, such as ``plots.annotators()``; ``dir(plots)`` lists them."""
        from conal.report.plots import TrainingPlots

        return TrainingPlots(self._fitted_results())

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
        annotators : None, (n,) annotator ids, Annotations or a long frame
            None gives all (n, n_annotators), refused where that is too large; ids give omega of (row k, annotator k);
            annotations give one value each, in the order of ``Annotations.to_table()``: by task, then annotator.
        """
        check_is_fitted(self, "model_")
        if not self.model_.separates_noise:
            raise InputError(f"method {self.method!r} does not separate common from individual confusion; use 'conal'")
        if isinstance(annotators, Annotations) or hasattr(annotators, "columns"):
            return compute.pair_rates(self.model_, self._batches(*self._joined(X, annotators, task_ids)))
        instances = self._instances(X)
        if annotators is not None:
            codes = decode_position(self.annotator_ids_, as_names(annotators))
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

    # ---------------------------------------------------------------- save

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
        is a copy on the CPU, in evaluation mode, and takes (n, ...) float32 tensors of raw features.

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
        from conal.estimator.deployment import to_torch

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
        from conal.estimator.deployment import export

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
                "a loaded model has its report already; use conal.report.write_report(folder, exhibits=...)"
            )
        pictures = (*exhibits.pictures, *results.exhibits.pictures)
        self.results_ = results.exhibiting(replace(exhibits, pictures=pictures))
        return self

    def anonymised(self, key: bytes | None = None, *, hide_below: int = PrivacyOptions.hide_below) -> Self:
        """A copy of the fitted estimator with pseudonyms for the annotators, to be saved and shared.

        Figures about annotators are rounded in tables and report, and annotators with few labels are left out of
        them and of the model, which treats them as unknown ones.

        Parameters
        ----------
        key : bytes, optional
            The same key gives an annotator the same pseudonym. By default a random key is used and thrown away.
        hide_below : int
            Annotators with fewer labels are left out.
        """
        from conal.estimator.anonymity import anonymised

        check_is_fitted(self, "model_")
        PrivacyOptions.declared["hide_below"].check(hide_below)
        return anonymised(self, new_key() if key is None else key, hide_below)

    # ---------------------------------------------------------------- inside

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
        codes = decode_position(self.annotator_ids_, crowd.annotator_ids)
        return CrowdBatches(instances, crowd, self.batch_size, codes)
