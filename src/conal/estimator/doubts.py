"""After training: warnings where the inferred labels may be wrong."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from conal.aggregation.counts import vote_shares
from conal.aggregation.guard import collapse_of
from conal.data.annotations import Annotations
from conal.errors import CollapseWarning, ContradictionWarning, PriorWarning, warn
from conal.estimator.members import members_of
from conal.methods import CrowdMethod
from conal.methods.em import EMMethod
from conal.report.evidence import Evidence
from conal.report.sections.contradiction import contradiction

__all__ = ["warn_of_collapse", "warn_of_contradiction", "warn_of_prior"]

MAX_PRIOR_FACTOR = 2.0
"""By more than this a class's share should not differ from the votes' unnoticed, where a prior is stated."""
TINY = 1e-3


def warn_of_prior(model: CrowdMethod, probas: npt.NDArray[np.float64], crowd: Annotations) -> None:
    """Warn if a class prior moves the inferred shares far from the vote shares."""
    if model.problem.class_prior is None:
        return
    labelled = crowd.labels_per_task() > 0
    votes, inferred = vote_shares(crowd)[labelled].mean(0), probas[labelled].mean(0)
    factor = (inferred + TINY) / (votes + TINY)
    far = np.flatnonzero((factor > MAX_PRIOR_FACTOR) | (factor < 1 / MAX_PRIOR_FACTOR))
    if len(far):
        moved = ", ".join(f"{crowd.classes[c]!r} from {votes[c]:.1%} to {inferred[c]:.1%}" for c in far[:5])
        warn(
            f"class_prior is far from the vote shares: {moved}. Either most annotators miss or overuse these classes, "
            "or the prior is wrong, and a wrong prior costs more than a right one gains: check some of these tasks by "
            "hand, or use class_prior='estimate'",
            PriorWarning,
        )


def warn_of_contradiction(evidence: Evidence) -> bool:
    """Warn if the inferred labels contradict both the votes and Dawid-Skene widely; whether they do."""
    found = contradiction(evidence)
    if found is not None:
        warn(found["text"], ContradictionWarning)
    return found is not None


def warn_of_collapse(
    name: str,
    model: CrowdMethod,
    crowd: Annotations,
    probas: npt.NDArray[np.float64],
    known: npt.NDArray[np.int64] | None = None,
) -> None:
    """Warn if EM has lost, exchanged or overgrown a class, as the aggregators' guard does.

    EM alone is led astray in this way: what it infers is what it learns from next. A class prior that the user states
    may well change the shares.
    """
    member = members_of(model)[0]
    if not isinstance(member, EMMethod) or model.problem.class_prior is not None:
        return
    found = collapse_of(crowd, probas, known)
    if found is not None:
        doubt = "This may be wrong" if found.certain else "This may be right or wrong"
        warn(
            f"{name}: {found.sentence}. {doubt}: compare the labels with those of conal aggregate --method "
            "dawid-skene, and with some that you give yourself; then try another seed, state the class shares "
            "(class_prior), or use the method 'dl-ds'",
            CollapseWarning,
        )
