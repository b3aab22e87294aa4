"""The synthetic dataset with annotators who mean harm, with or without a defence against them."""

from __future__ import annotations

from dataclasses import replace

from conal.datasets.base import CrowdDataset, dataset
from conal.datasets.synthetic import synthetic
from conal.parameters import flag, parameter
from conal.parameters.keywords import keywords_of
from conal.parameters.simulation import SyntheticSettings

__all__ = ["AttackedSettings", "attacked"]


class AttackedSettings(SyntheticSettings):
    """The synthetic dataset of an attack: 60 annotators with 100 labels each by default."""

    n_train = 1500
    n_annotators = 60
    labels_per_instance = 4.0
    adversaries = "clickers"
    defend: bool = parameter(
        default=False, must_be=flag(), help="Leave out answers that say nothing, and count copies once."
    )


@dataset("attacked")
@keywords_of(AttackedSettings)
def attacked(settings: AttackedSettings) -> CrowdDataset:
    """The synthetic dataset with annotators who mean harm.

    With ``defend``, the labels are those that :func:`conal.metrics.suspicion.defended` leaves, by Dawid-Skene. The
    truth behind the crowd is left out: it is that of labels by independent annotators.

    >>> attacked(n_train=200, n_annotators=8, n_test=10, n_valid=0, turn_after=20).annotations.n_tasks
    200
    """
    from conal.aggregation import DawidSkene  # these load scipy
    from conal.metrics.suspicion import defended

    data = synthetic(**{name: getattr(settings, found.attribute) for name, found in SyntheticSettings.declared.items()})
    if not settings.defend or data.truth is None or data.truth.adversaries is None:
        return replace(data, name="attacked", truth=None)
    crowd = data.annotations
    posterior = DawidSkene(verbose=False).fit(crowd).probas_
    left = defended(crowd, posterior, times=data.truth.adversaries.time).annotations
    return replace(data, name="attacked", annotations=left, truth=None)
