"""The scikit-learn interface of every method."""

from conal.estimator.classes import CoNAL, CrossCoNAL
from conal.estimator.classifier import CrowdClassifier
from conal.estimator.factory import estimator_class, make
from conal.estimator.folder import load

__all__ = ["CoNAL", "CrossCoNAL", "CrowdClassifier", "estimator_class", "load", "make"]
