"""The scikit-learn interface of every method."""

from conal.estimator.classes import CoNAL, CrossCoNAL, estimator_class, make
from conal.estimator.classifier import CrowdClassifier
from conal.estimator.folder import load

__all__ = ["CoNAL", "CrossCoNAL", "CrowdClassifier", "estimator_class", "load", "make"]
