"""Defence: annotations without answers that say nothing, and with copies counted once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from conal.data.annotations import Annotations
from conal.metrics.suspicion.suspects import Suspects, find_suspects

__all__ = ["Defence", "defended", "without"]


class Defence(NamedTuple):
    """The labels that are left, which of all labels these are, and who is why among the suspects."""

    annotations: Annotations
    kept: npt.NDArray[np.bool_]
    suspects: Suspects

    def __str__(self) -> str:
        """How many labels are left out, and of whom, without names."""
        found, out = self.suspects, int((~self.kept).sum())
        if not out:
            return "--defend: no label is left out"
        people = {
            "whose answers do not depend on the task": len(found.careless),
            "who exchange classes": sum(len(ring.members) for ring in found.rings),
            "whose answers no longer depend on the task": len(found.turned),
            "who give the same answers as somebody else": len(np.union1d(found.copies.first, found.copies.second)),
        }
        said = "; ".join(f"{n:,} {what}" for what, n in people.items() if n)
        return f"--defend: {out:,} of {len(self.kept):,} labels are left out. Annotators: {said}"


def defended(
    crowd: Annotations,
    posterior: npt.NDArray[np.float64],
    *,
    rings: bool = True,
    times: npt.ArrayLike | None = None,
) -> Defence:
    """The annotations without answers that do not depend on the task, and with copies counted once.

    A task keeps its labels if all of them would be left out.

    Parameters
    ----------
    crowd : Annotations
    posterior : (N, C)
        Of the tasks' classes by all labels, such as that of Dawid-Skene.
    rings : bool
        Whether the labels of people who exchange classes stay: a matrix for each annotator reads them backwards, and
        votes do not.
    times : (n_annotations,), optional
        When each label was given; those of the annotations by default, if they have any.

    Examples
    --------
    >>> from conal.aggregation import DawidSkene
    >>> from conal.datasets import CrowdSettings, simulate_crowd
    >>> settings = CrowdSettings(n_annotators=10, adversaries="clickers", adversary_share=0.2, seed=1)
    >>> crowd, _ = simulate_crowd(np.arange(400) % 4, np.ones((400, 1)), range(4), settings)
    >>> print(defended(crowd, DawidSkene().fit(crowd).probas_))
    --defend: 217 of 1,184 labels are left out. Annotators: 2 whose answers do not depend on the task
    """
    times = getattr(crowd, "times", None) if times is None else times
    return without(find_suspects(crowd, posterior, times=times), rings=rings)


def without(found: Suspects, *, rings: bool = True) -> Defence:
    """As :func:`defended`, once it is known who the suspects are."""
    crowd = found.found.crowd
    kept = found.trusted(rings=rings)
    left = np.bincount(crowd.tasks[kept], minlength=crowd.n_tasks)
    kept = kept | (left[crowd.tasks] == 0)
    return Defence(crowd.select(kept), kept, found)
