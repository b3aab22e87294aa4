"""The estimator classes that have a public name; ``classes.pyi`` spells out their parameters for type checkers."""

from conal.estimator.factory import estimator_class

__all__ = ["CoNAL", "CrossCoNAL"]

CoNAL = estimator_class("conal")
CrossCoNAL = estimator_class("xconal")
