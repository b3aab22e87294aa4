"""Results about the training data: tables and the report, after ``fit`` and after ``load``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from conal.data.annotations import Annotations
from conal.data.annotator_info import AnnotatorInfo
from conal.errors import InputError
from conal.estimator.true_labels import Unseen
from conal.methods import CrowdMethod
from conal.report.evidence import Discretion, Evidence, about_annotators
from conal.report.exhibits import Exhibits, exhibited
from conal.report.findings import Findings, Report
from conal.report.sections.model import ModelSection
from conal.reported import Results

__all__ = ["FittedResults", "Results", "StoredResults"]

FloatArray = npt.NDArray[np.float64]


class StoredResults(NamedTuple):
    """The results of a model folder."""

    tables: Mapping[str, pa.Table]
    report: Report

    def with_handicap(self, handicap: float) -> StoredResults:
        """The results as they are: a stored report cannot be changed."""
        raise InputError(f"handicap={handicap}: a loaded model has its report already; fit it again")


@dataclass(eq=False)
class FittedResults:
    """The results of a training, computed on first access, so predictions alone do not need them.

    Parameters
    ----------
    model : CrowdMethod
        The trained method, for its confusion matrices.
    annotations, posterior, classifier, omega, texts
        What :class:`conal.report.evidence.Evidence` takes.
    origin : ModelSection
        How the model was trained.
    discretion : Discretion, optional
        How much may be told about single annotators.
    exhibits : Exhibits
        What the report shows beside its figures, such as pictures of the tasks.
    known : (N,), optional
        True classes of the tasks, where they were supplied for training, and -1 elsewhere.
    inclusion, unseen
        What :class:`conal.report.evidence.Evidence` takes.
    about : AnnotatorInfo, optional
        Groups of the annotators and the costs of their labels.
    handicap, held_out
        What :class:`conal.report.evidence.Evidence` takes.
    """

    model: CrowdMethod
    annotations: Annotations
    posterior: FloatArray
    classifier: FloatArray
    omega: FloatArray | None
    texts: Mapping[Any, str] | None
    origin: ModelSection
    discretion: Discretion | None = None
    exhibits: Exhibits = field(default_factory=Exhibits)
    known: npt.NDArray[np.int64] | None = None
    inclusion: FloatArray | None = None
    unseen: FloatArray | Callable[[], FloatArray] | None = None
    about: AnnotatorInfo | None = None
    handicap: float = Evidence.handicap
    held_out: bool = False

    @cached_property
    def findings(self) -> Findings:
        """The findings behind tables and report."""
        common, individual = (matrix.detach().double().numpy() for matrix in self.model.confusion())
        evidence = Evidence(
            self.annotations,
            self.posterior,
            self.classifier,
            common,
            individual,
            self.omega,
            self.texts,
            self.origin,
            self.discretion,
            known=self.known,
            inclusion=self.inclusion,
            unseen=self.unseen,
            common_meaning=self.model.common_meaning,
            tempered=self.model.tempered,
            handicap=self.handicap,
            held_out=self.held_out,
            **about_annotators(self.about, discreet=self.discretion is not None),
        )
        return Findings(evidence, seed=self.origin["metrics"]["seed"])

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """File name to table; each table is computed on first access."""
        return self.findings.tables

    @cached_property
    def report(self) -> Report:
        """The content of ``report.json``."""
        return exhibited(self.findings.report, self.exhibits)

    @property
    def refits_due(self) -> int:
        """Number of fits that are made when somebody asks for the rates by true labels, and were not made yet."""
        return self.unseen.refits.count if isinstance(self.unseen, Unseen) and self.unseen.refits.are_due else 0

    def with_handicap(self, handicap: float) -> FittedResults:
        """The same results with another handicap of people where models are compared with them."""
        return replace(self, handicap=handicap)

    def exhibiting(self, exhibits: Exhibits) -> FittedResults:
        """The same results with other exhibits; what has been computed stays."""
        made = replace(self, exhibits=exhibits)
        if "findings" in vars(self):
            vars(made)["findings"] = self.findings
        return made
