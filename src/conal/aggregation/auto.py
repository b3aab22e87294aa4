"""Auto: several aggregators at once, averaged without true labels and chosen by true labels where there are some."""

from __future__ import annotations

import warnings
from typing import Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt

from conal._arrays import FloatArray
from conal.aggregation.base import Aggregator, aggregators, make, register
from conal.aggregation.counts import Votes, clamped, class_shares, expected_skills, normalised
from conal.aggregation.guard import collapse_of
from conal.data.annotations import Annotations
from conal.data.encoding import MISSING
from conal.errors import CollapseWarning, ConvergenceWarning, InputError
from conal.parameters import Doc, parameters, whole

MEMBERS = ("one-coin", "dawid-skene", "worker-clustering", "common-confusion")
"""Those that are averaged."""
# Chosen by accuracy on 13 public crowds, tried on 40 simulated ones: studies/results/0.2.0/simulated-labels.csv.
FALLBACK = "dawid-skene"
NEVER = {
    "auto": "it is what chooses",
    "gold-majority-vote": "it learns its weights from the true labels that would judge it",
    "ordinal": "it takes the classes for a scale",
}
"""Aggregators that true labels cannot choose, and why; all others that are registered can be chosen."""
MOST_LABELS, MOST_ANNOTATORS = 200_000, 2_000
"""In larger crowds only the members can be chosen: all others together take long, and some need large matrices."""
CLEARLY = 1.5
"""Standard errors by which true labels must prefer one aggregator to the mean."""
SMOOTHING = 0.1


@register("auto")
@parameters
class Auto(Aggregator):
    r"""The mean of several aggregators' posteriors, or the best of them where true labels can tell.

    No aggregator is best for every crowd: models with one number per annotator need few labels and collapse where
    mistakes have a direction, full confusion matrices are the other way round. Without true labels nobody knows which
    one is right; their held-out likelihood does not tell either, because full matrices fit better and are not more
    often right. Averaging is safe: members are left out that lost or exchanged classes, or gave a rare class to tasks
    to which nobody gave it.

    .. math::
        q_i(c) = \frac1{|M|} \sum_{m \in M} q_i^m(c)

    With ``min_true_labels`` true labels or more, every aggregator is fitted without them and judged by them. The best
    one is fitted again with the true labels, if it is right on clearly more of them than the mean: with d true labels
    on which exactly one of both is right, by more than 1.5 standard errors :math:`\sqrt d`. Otherwise the mean is kept.
    Choosing on any gain does harm: among many, one is lucky. In large crowds only the averaged ones can be chosen.
    Nothing here assumes that classes are equally frequent.

    Use it if you do not want to choose. On public crowds with known truth, the mean is right as often as Dawid-Skene,
    and less far behind the best single one. On simulated crowds with few labels per task, rare classes or one number
    per annotator it regains much of what Dawid-Skene loses to the best of each crowd. Use a single one where you know
    what your crowd is like, or need one model of the annotators.

    Attributes
    ----------
    members_ : dict of str to Aggregator
        The fitted members, by name.
    left_out_ : dict of str to str
        Members that are not averaged, and why.
    candidates_ : dict of str to int
        How many of the true labels each aggregator found, if there were enough to choose by.
    not_candidates_ : dict of str to str
        Aggregators that could not be chosen then, and why.
    chosen_ : str
        "mean", or the name of the member that the true labels chose.
    why_ : str
        What was chosen and why, in a sentence.
    confusion_ : (R, C, C)
        By the labels that every annotator gave, weighted by the posterior; of the chosen member, if one was chosen.
    skills_ : (R,)
        Expected share of right labels.

    Examples
    --------
    >>> crowd = Annotations.from_matrix([[0, 0, 0, 1], [1, 1, 1, 0]] * 10)
    >>> auto = Auto().fit(crowd)
    >>> auto.labels_[:2].tolist(), auto.chosen_
    ([0, 1], 'mean')
    """

    learns_from_abstentions: ClassVar[bool] = True

    min_true_labels: Annotated[
        int, whole(1), Doc("Number of true labels of labelled tasks from which on they choose the aggregator.")
    ] = 20
    seed: Annotated[int, whole(0), Doc("Seed of the random starts.")] = 0
    verbose: Annotated[bool, Doc("Show progress of long fits in a terminal or notebook.")] = True

    def _numbers(self, crowd: Annotations) -> float:
        return max(make(name)._numbers(crowd) for name in MEMBERS)

    def _aggregate(self, crowd: Annotations, known: npt.NDArray[np.int64]) -> FloatArray:
        judges = np.flatnonzero((known != MISSING) & (crowd.labels_per_task() > 0))
        if len(judges) >= self.min_true_labels:
            chosen = self._best_on(judges, crowd, known)
            if chosen is not None:
                return self._adopt_member(chosen, crowd, known)
        return self._mean(crowd, known, len(judges))

    def _guarded(self, crowd: Annotations, known: npt.NDArray[np.int64], probas: FloatArray) -> FloatArray:
        """Members guard themselves; a moderate growth that most of them share is not worth a warning."""
        problem = collapse_of(crowd, probas, known)
        return probas if problem is None or problem.moderate else super()._guarded(crowd, known, probas)

    def again(self) -> Aggregator:
        """What was chosen: a member, or this aggregator, which takes the mean without true labels."""
        if self.chosen_ == "mean":
            return super().again()
        return make(self.chosen_, **self._shared(self.chosen_)).again()

    # ---------------------------------------------------------------- without true labels

    def _mean(self, crowd: Annotations, known: npt.NDArray[np.int64], n_judges: int) -> FloatArray:
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
        self.chosen_ = "mean"
        self.why_ = self._why_the_mean(kept, n_judges)
        self.confusion_ = normalised(Votes(crowd).counts(probas) + SMOOTHING)
        self.skills_ = expected_skills(class_shares(probas), self.confusion_)
        return probas

    def _why_the_mean(self, kept: list[str], n_judges: int) -> str:
        reason = "no true labels to choose by"
        if n_judges:
            too_few = n_judges < self.min_true_labels
            reason = f"{n_judges} true labels " + (
                "are too few to choose by" if too_few else "do not clearly prefer a single one"
            )
        out = "".join(f"; {name} is left out, because {why}" for name, why in self.left_out_.items())
        return f"mean of {', '.join(kept)}: {reason}{out}"

    def _fitted(self, name: str, crowd: Annotations, known: npt.NDArray[np.int64]) -> Aggregator:
        """A member; that it collapsed or has not converged is no news for the user."""
        member = make(name, **self._shared(name))
        member._check_memory(crowd)
        with warnings.catch_warnings():
            for category in (CollapseWarning, ConvergenceWarning):
                warnings.simplefilter("ignore", category)
            member.adopt_posterior(crowd, member._guarded(crowd, known, member._aggregate(crowd, known)))
        return member

    def _shared(self, name: str) -> dict[str, Any]:
        """Parameters of this aggregator that the member has too."""
        known = aggregators.get(name).parameter_names()
        return {key: getattr(self, key) for key in ("seed", "verbose") if key in known}

    # ---------------------------------------------------------------- by true labels

    def _best_on(self, judges: npt.NDArray[np.int64], crowd: Annotations, known: npt.NDArray[np.int64]) -> str | None:
        """The aggregator that is right clearly more often than the mean, where it was not told the truth, or None."""
        unknown = np.full_like(known, MISSING)
        mean = self._mean(crowd, unknown, 0).argmax(1)
        codes = {name: member.codes_ for name, member in self.members_.items()}
        self.not_candidates_ = _not_candidates(crowd)
        for name in aggregators.names():
            if name not in codes and name not in self.not_candidates_:
                try:
                    codes[name] = self._fitted(name, crowd, unknown).codes_
                except InputError as too_large:
                    self.not_candidates_[name] = str(too_large)
        self.candidates_ = {name: self._right(each, judges, known) for name, each in codes.items()}
        best = max(self.candidates_, key=lambda name: self.candidates_[name])  # of equal ones a member
        by_mean = self._right(mean, judges, known)
        differ = (codes[best][judges] == known[judges]) != (mean[judges] == known[judges])
        if self.candidates_[best] - by_mean <= CLEARLY * np.sqrt(differ.sum()):
            return None
        found = self.candidates_[best]
        self.why_ = f"{best}: right for {found} of {len(judges)} true labels, the mean of all for {by_mean}"
        return best

    @staticmethod
    def _right(codes: npt.NDArray[np.int64], judges: npt.NDArray[np.int64], known: npt.NDArray[np.int64]) -> int:
        return int((codes[judges] == known[judges]).sum())

    def _adopt_member(self, name: str, crowd: Annotations, known: npt.NDArray[np.int64]) -> FloatArray:
        member = self._fitted(name, crowd, known)
        self.members_ = self.members_ | {name: member}
        self.chosen_, self.confusion_, self.skills_ = name, member.confusion_, member.skills_
        return member.probas_


def _not_candidates(crowd: Annotations) -> dict[str, str]:
    """Aggregators that true labels cannot choose in this crowd, and why."""
    if crowd.n_annotations <= MOST_LABELS and crowd.n_annotators <= MOST_ANNOTATORS:
        return dict(NEVER)
    why = f"the crowd is larger than {MOST_LABELS:,} labels or {MOST_ANNOTATORS:,} annotators; fit it alone"
    return {name: NEVER.get(name, why) for name in aggregators.names() if name not in MEMBERS}
