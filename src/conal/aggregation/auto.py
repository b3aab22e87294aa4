"""Auto: the mean of several aggregators."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import numpy as np

from conal._arrays import FloatArray, IntArray
from conal.aggregation.base import Aggregator, aggregators, make, register, silent_posterior
from conal.aggregation.counts import Votes, clamped, class_shares, expected_skills, normalised
from conal.aggregation.guard import collapse_of
from conal.data.annotations import Annotations
from conal.parameters import Doc, parameters, whole

MEMBERS = ("one-coin", "dawid-skene", "worker-clustering", "common-confusion")
"""Those that are averaged."""
# Chosen by accuracy on 13 public crowds, tried on 40 simulated ones: studies/results/0.2.0/simulated-labels.csv.
FALLBACK = "dawid-skene"
SMOOTHING = 0.1


@register("auto")
@parameters
class Auto(Aggregator):
    r"""The mean of several aggregators' posteriors.

    No aggregator is best for every crowd: models with one number per annotator need few labels and collapse where
    mistakes have a direction, full confusion matrices are the other way round. Without true labels nobody knows which
    one is right; their held-out likelihood does not tell either, because full matrices fit better and are not more
    often right. Averaging is safe: members are left out that lost or exchanged classes, or gave a rare class to tasks
    to which nobody gave it.

    .. math::
        q_i(c) = \frac1{|M|} \sum_{m \in M} q_i^m(c)

    Use it if you do not want to choose and have no true labels; with some, ``gold-pool`` is better. On public crowds
    with known truth, the mean is right as often as Dawid-Skene, and less far behind the best single one. On simulated
    crowds with few labels per task, rare classes or one number per annotator it regains much of what Dawid-Skene loses
    to the best of each crowd. Use a single one where you know what your crowd is like, or need one model of the
    annotators.

    Attributes
    ----------
    members_ : dict of str to Aggregator
        The fitted members, by name.
    left_out_ : dict of str to str
        Members that are not averaged, and why.
    why_ : str
        What is averaged, in a sentence.
    confusion_ : (R, C, C)
        By the labels that every annotator gave, weighted by the posterior.
    skills_ : (R,)
        Expected share of right labels.

    Examples
    --------
    >>> crowd = Annotations.from_matrix([[0, 0, 0, 1], [1, 1, 1, 0]] * 10)
    >>> auto = Auto().fit(crowd)
    >>> auto.labels_[:2].tolist(), auto.why_
    ([0, 1], 'mean of one-coin, dawid-skene, worker-clustering, common-confusion')
    """

    learns_from_abstentions: ClassVar[bool] = True

    seed: Annotated[int, whole(0), Doc("Seed of the random starts.")] = 0
    verbose: Annotated[bool, Doc("Show progress of long fits in a terminal or notebook.")] = True

    def _numbers(self, crowd: Annotations) -> float:
        return max(make(name)._numbers(crowd) for name in MEMBERS)

    def _aggregate(self, crowd: Annotations, known: IntArray) -> FloatArray:
        self.members_, self.left_out_ = {}, {}
        for name in MEMBERS:
            member = self.members_[name] = self._fitted(name, crowd, known)
            problem = collapse_of(crowd, member.probas_, known)
            if problem is not None and problem.certain:
                self.left_out_[name] = problem.sentence
        if len(self.left_out_) == len(MEMBERS):
            del self.left_out_[FALLBACK]
        kept = [name for name in self.members_ if name not in self.left_out_]
        probas = clamped(np.mean([self.members_[name].probas_ for name in kept], axis=0), known)
        out = "".join(f"; {name} is left out, because {why}" for name, why in self.left_out_.items())
        self.why_ = f"mean of {', '.join(kept)}{out}"
        self.confusion_ = normalised(Votes(crowd).counts(probas) + SMOOTHING)
        self.skills_ = expected_skills(class_shares(probas), self.confusion_)
        return probas

    def _guarded(self, crowd: Annotations, known: IntArray, probas: FloatArray) -> FloatArray:
        """Members guard themselves; a moderate growth that most of them share is not worth a warning."""
        problem = collapse_of(crowd, probas, known)
        return probas if problem is None or problem.moderate else super()._guarded(crowd, known, probas)

    def _fitted(self, name: str, crowd: Annotations, known: IntArray) -> Aggregator:
        """A member; that it collapsed or has not converged is no news for the user."""
        member = make(name, **self._shared(name))
        member._check_memory(crowd)
        member.adopt_posterior(crowd, silent_posterior(member, crowd, known))
        return member

    def _shared(self, name: str) -> dict[str, Any]:
        """Parameters of this aggregator that the member has too."""
        known = aggregators.get(name).parameter_names()
        return {key: getattr(self, key) for key in ("seed", "verbose") if key in known}
