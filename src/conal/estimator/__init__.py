"""The scikit-learn face that every method shares."""

from conal.estimator.base import CrowdClassifier
from conal.estimator.conal import CoNAL
from conal.estimator.factory import estimator_class, make
from conal.estimator.folder import load

CrossCoNAL = estimator_class("xconal")

__all__ = ["CoNAL", "CrossCoNAL", "CrowdClassifier", "estimator_class", "load", "make"]
