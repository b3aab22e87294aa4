"""Fitted estimators for others: model folders, exports, what reports show, and pseudonyms."""

from __future__ import annotations

from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING, Literal, Self

from sklearn.utils.validation import check_is_fitted
from torch import nn

from conal.data.annotator_info import new_key
from conal.errors import InputError
from conal.estimator.fitted import FittedClassifier
from conal.estimator.results import FittedResults
from conal.parameters.showing import PrivacyOptions
from conal.report.exhibits import Exhibits

if TYPE_CHECKING:
    from conal.estimator.deployment import Exported

__all__ = ["SharedClassifier"]


class SharedClassifier(FittedClassifier):
    """What makes of a fitted classifier something to be handed on."""

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
                "a loaded model has its report already; use conal.report.page.write_report(folder, exhibits=...)"
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
