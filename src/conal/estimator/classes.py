"""An estimator for every method: the method's parameters, then those of every classifier."""

from __future__ import annotations

import difflib
from typing import Any

from conal import methods
from conal.errors import InputError
from conal.estimator.classifier import CrowdClassifier
from conal.methods import conal, conal_em, cross_conal, doctor_net, em, layers, max_mig, two_stage
from conal.parameters import parameters, parameters_of
from conal.parameters.training import ClassifierParameters


@parameters
class CoNAL(CrowdClassifier, conal.CoNALParameters):
    __doc__ = conal.CoNALMethod.__doc__
    method = "conal"


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
