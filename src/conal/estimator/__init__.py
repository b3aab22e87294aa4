"""The scikit-learn interface of every method."""

from conal.estimator.classifier import CoNAL, CrossCoNAL, CrowdClassifier, estimator_class, make
from conal.estimator.folder import load

__all__ = ["CoNAL", "CrossCoNAL", "CrowdClassifier", "estimator_class", "load", "make"]
