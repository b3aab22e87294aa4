"""Gold pool: Dawid-Skene and two ways in which true labels teach how to read the votes, weighted by true labels."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy

from conal._arrays import FloatArray, IntArray
from conal.aggregation.base import Aggregator, posterior_of, reading_of, register, silent_posterior
from conal.aggregation.counts import Votes, clamped, class_shares, expected_skills, normalised, softmax
from conal.aggregation.dawid_skene import DawidSkene
from conal.data.annotations import Annotations
from conal.data.encoding import MISSING
from conal.parameters import Doc, parameters, whole

# Chosen on 17 crowds: bluebird, dog, face, LabelMe, Music, and 12 simulated ones whose annotators err together.
READINGS = ("dawid-skene", "ridge", "weighted-vote")
FEWEST = 5
"""True labels below which Dawid-Skene stands alone."""
MOST = 3_000
"""True labels that teach weights; the ridge regression takes their number squared of memory."""
RIDGES = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
"""Penalties of the ridge regression that leave-one-out errors choose from."""
DOUBT = 0.03
"""Share of Dawid-Skene's posterior that is spread evenly, so that it rules nothing out."""
USUAL_ACCURACY_LABELS = 2.0
"""True labels that the crowd's mean accuracy counts in an annotator's."""
SKILLS = 0.02, 0.98
"""Accuracies of annotators are kept within these."""
FIRST_WEIGHT = 0.3
"""Weight of Dawid-Skene, whose posteriors are too sure, where true labels say nothing."""
FIRMNESS = 0.03
"""How firmly the logarithm of that weight is held there."""
SMALLEST_WEIGHT = 1e-3
SMOOTHING = 0.1


class Reading(NamedTuple):
    """Scores of all tasks (N, C), and of the tasks of known truth by what was learned without each of them (G, C).

    The score of a task is ``start`` (C,) and for each of its votes ``votes`` (R, C, C): annotator, label, class.
    """

    scores: FloatArray
    left_out: FloatArray
    start: FloatArray
    votes: FloatArray


@register("gold-pool")
@parameters
class GoldPool(Aggregator):
    r"""Dawid-Skene, a ridge regression on the votes and a weighted vote, pooled by what true labels say of each.

    With few true labels, Dawid-Skene is usually the best; where annotators err together it can be mostly wrong, and a
    model that learns from true labels alone is far better. Nobody knows beforehand, and choosing one is a gamble, so
    all three are used:

    .. math::
        \log q_i(c) = w_0 \log p_i(c) + w_1 s_i(c) + w_2 v_i(c) + \text{const}

    :math:`p` is the posterior of Dawid-Skene, to which the true labels are certain. :math:`s` is a ridge regression of
    the classes on who gave which label, learned from the tasks of known truth; its penalty has the least
    leave-one-out error. :math:`v` is a vote, weighted by each annotator's log-odds of a right label. The weights
    :math:`w \ge 0` have the least log-loss on the true labels, each judged by fits without it, plus
    :math:`w_1^2 + w_2^2` and a weak prior of :math:`w_0` at 0.3.

    Without true labels of at least two classes, or with fewer than five, it is Dawid-Skene. Use it whenever you have
    some true labels; ``conal aggregate --true-labels`` does.

    Attributes
    ----------
    weights_ : dict of str to float
        The weights, by name: "dawid-skene", "ridge" and "weighted-vote".
    why_ : str
        The same in a sentence.
    confusion_ : (R, C, C)
        By the labels that every annotator gave, weighted by the posterior.
    skills_ : (R,)
        Expected share of right labels.

    Examples
    --------
    >>> crowd = Annotations.from_matrix([[0, 0, 1], [1, 1, 0], [0, 1, 1], [1, 0, 0]] * 10)  # the last one is right
    >>> fitted = GoldPool().fit(crowd, true_labels={i: int(crowd.labels[3 * i + 2]) for i in range(12)})
    >>> fitted.labels_[12:16].tolist()
    [1, 0, 1, 0]
    """

    learns_from_abstentions: ClassVar[bool] = True

    n_folds: Annotated[
        int, whole(2), Doc("Parts of the true labels; each is judged by a fit of Dawid-Skene without it.")
    ] = 10
    seed: Annotated[int, whole(0), Doc("Seed of these parts.")] = 0
    verbose: Annotated[bool, Doc("Show progress of long fits in a terminal or notebook.")] = True

    def _aggregate(self, crowd: Annotations, known: IntArray) -> FloatArray:
        gold = np.flatnonzero((known != MISSING) & (crowd.labels_per_task() > 0))
        gold = np.random.default_rng(self.seed).permutation(gold)[:MOST]
        enough = len(gold) >= FEWEST and len(set(known[gold].tolist())) > 1
        member = DawidSkene(verbose=False, guard=self.guard)
        infer = silent_posterior if enough else posterior_of  # beside true labels, its warnings are no news
        posterior = infer(member, crowd, known)
        start, votes = reading_of(member.class_prior_, member.confusion_)
        self.starts_, self.vote_scores_, self.pool_weights_ = start[None], votes[None], np.ones(1)
        self.why_ = f"dawid-skene: {len(gold)} true labels are too few, or of one class, to learn weights"
        if enough:
            readings = (
                Reading(_doubted(posterior), _doubted(self._left_out(crowd, known, gold)), start, votes),
                ridge(_one_hot(crowd), crowd.n_classes, gold, known[gold]),
                weighted_vote(crowd, gold, known[gold]),
            )
            scores, left_out, self.starts_, self.vote_scores_ = map(np.stack, zip(*readings, strict=True))
            self.pool_weights_ = pool_weights(left_out, known[gold])
            shown = ", ".join(f"{name} {weight:.2f}" for name, weight in self.weights_.items())
            self.why_ = f"weights by {len(gold)} true labels: {shown}"
            posterior = clamped(softmax(np.einsum("k,knc->nc", self.pool_weights_, scores)), known)
        self.confusion_ = normalised(Votes(crowd).counts(posterior) + SMOOTHING)
        self.skills_ = expected_skills(class_shares(posterior), self.confusion_)
        return posterior

    @property
    def weights_(self) -> dict[str, float]:
        """The weights by name; 0 for what was not learned."""
        learned: list[float] = self.pool_weights_.tolist()
        return dict.fromkeys(READINGS, 0.0) | dict(zip(READINGS, learned, strict=False))

    def _guarded(self, crowd: Annotations, known: IntArray, probas: FloatArray) -> FloatArray:
        """Dawid-Skene guards itself; beside it, true labels are the guard."""
        return probas

    def _left_out(self, crowd: Annotations, known: IntArray, gold: IntArray) -> FloatArray:
        """(G, C) Dawid-Skene's posterior of tasks whose truth it does not know, part by part."""
        found = np.empty((len(gold), crowd.n_classes))
        for part in np.array_split(np.arange(len(gold)), min(self.n_folds, len(gold))):
            unknown = known.copy()
            unknown[gold[part]] = MISSING
            member = DawidSkene(verbose=False, guard=self.guard)
            found[part] = silent_posterior(member, crowd, unknown)[gold[part]]
        return found

    def _numbers(self, crowd: Annotations) -> float:
        return 2 * super()._numbers(crowd) + 8 * crowd.n_annotations

    def _readings(self) -> list[dict[str, Any]]:
        pooled = len(self.pool_weights_) > 1
        parts = zip(self.pool_weights_.tolist(), self.starts_, self.vote_scores_, strict=True)
        return [
            {"weight": weight, "start": start, "votes": votes, "logarithms": k == 0}
            | {"doubt": DOUBT if pooled and k == 0 else None}
            for k, (weight, start, votes) in enumerate(parts)
        ]


def ridge(votes: scipy.sparse.csr_array, n_classes: int, gold: IntArray, truth: IntArray) -> Reading:
    r"""Ridge regression of the classes on the votes (N, R·C), with an intercept that is not penalised.

    With K the inner products of the G tasks of known truth, :math:`A = H - \frac{H 1 1^\top H}{1^\top H 1}` for
    :math:`H = (K + \alpha I)^{-1}`; the dual coefficients are :math:`A Y`, the intercept is
    :math:`1^\top H Y / 1^\top H 1`, and the error of task i without it is :math:`(A Y)_i / A_{ii}`.
    """
    known, targets = votes[gold], np.eye(n_classes)[truth]
    inner = (known @ known.T).toarray()
    least, best = np.inf, Reading(targets, targets, targets[0], targets)
    for penalty in RIDGES:
        inverse = np.linalg.inv(inner + penalty * np.eye(len(gold)))
        sums = inverse.sum(0)
        dual = inverse - np.outer(sums, sums) / sums.sum()
        coefficients = dual @ targets
        errors = coefficients / np.diag(dual)[:, None]
        if (errors**2).mean() < least:
            least = (errors**2).mean()
            start, weights = sums @ targets / sums.sum(), np.asarray(known.T @ coefficients)
            by_vote = weights.reshape(-1, n_classes, n_classes)
            best = Reading(np.asarray(votes @ weights) + start, targets - errors, start, by_vote)
    return best


def weighted_vote(crowd: Annotations, gold: IntArray, truth: IntArray) -> Reading:
    """A vote weighted by log-odds of a right label, by the annotators' accuracy on the tasks of known truth."""
    place = np.full(crowd.n_tasks, MISSING)
    place[gold] = np.arange(len(gold))
    tested = np.flatnonzero(place[crowd.tasks] != MISSING)
    task, annotator, label = place[crowd.tasks[tested]], crowd.annotators[tested], crowd.labels[tested]
    right = (label == truth[task]).astype(np.float64)
    given = np.bincount(annotator, minlength=crowd.n_annotators)
    found = np.bincount(annotator, weights=right, minlength=crowd.n_annotators)
    per_task = crowd.n_annotations / max(int((crowd.labels_per_task() > 0).sum()), 1)

    def odds(right: Any, given: Any, all_right: Any, all_given: Any) -> FloatArray:
        usual = (all_right + 1) / (all_given + crowd.n_classes)
        skills = (right + USUAL_ACCURACY_LABELS * usual) / (given + USUAL_ACCURACY_LABELS)
        skills = skills.clip(*SKILLS)
        return np.asarray(np.log(skills * (crowd.n_classes - 1) / (1 - skills)) / np.sqrt(per_task))

    own = np.bincount(task, weights=right, minlength=len(gold)), np.bincount(task, minlength=len(gold))
    others = [total - mine[task] for total, mine in zip((right.sum(), len(right)), own, strict=True)]
    left_out = odds(found[annotator] - right, given[annotator] - 1.0, *others)
    every = odds(found, given, right.sum(), len(right))
    return Reading(
        _summed(crowd.tasks, crowd.labels, every[crowd.annotators], (crowd.n_tasks, crowd.n_classes)),
        _summed(task, label, left_out, (len(gold), crowd.n_classes)),
        np.zeros(crowd.n_classes),
        every[:, None, None] * np.eye(crowd.n_classes),
    )


def _summed(
    rows: npt.NDArray[Any], columns: npt.NDArray[Any], weights: FloatArray, shape: tuple[int, int]
) -> FloatArray:
    """(N, C) sums of weights by row and column."""
    cells = rows.astype(np.int64) * shape[1] + columns
    return np.asarray(np.bincount(cells, weights=weights, minlength=shape[0] * shape[1]).reshape(shape), dtype=float)


def pool_weights(scores: FloatArray, truth: IntArray) -> FloatArray:
    """(K,) weights of the readings' scores (K, G, C) with the least penalised log-loss; the first is Dawid-Skene's."""

    def loss(weights: FloatArray) -> tuple[float, FloatArray]:
        pooled = np.einsum("k,kgc->gc", weights, scores)
        expected = softmax(pooled)
        at_truth = scores[:, np.arange(len(truth)), truth].sum(1)
        log_loss = (scipy.special.logsumexp(pooled, axis=1) - pooled[np.arange(len(truth)), truth]).sum()
        away = np.log(weights[0] / FIRST_WEIGHT)
        slope = np.einsum("kgc,gc->k", scores, expected) - at_truth + 2 * weights
        slope[0] += 2 * FIRMNESS * away / weights[0] - 2 * weights[0]
        return float(log_loss + FIRMNESS * away**2 + (weights[1:] ** 2).sum()), slope

    starts = [np.array([FIRST_WEIGHT, *[rest] * (len(scores) - 1)]) for rest in (0.3, 2.0)]
    bounds = [(SMALLEST_WEIGHT, None)] + [(0.0, None)] * (len(scores) - 1)
    fits = [scipy.optimize.minimize(loss, start, jac=True, bounds=bounds, method="L-BFGS-B") for start in starts]
    return np.asarray(min(fits, key=lambda fit: fit.fun).x)


def _one_hot(crowd: Annotations) -> scipy.sparse.csr_array:
    """(N, R·C) 1 where an annotator gave a label to a task."""
    columns = crowd.annotators.astype(np.int64) * crowd.n_classes + crowd.labels
    shape = crowd.n_tasks, crowd.n_annotators * crowd.n_classes
    return scipy.sparse.csr_array((np.ones(crowd.n_annotations), columns, crowd.indptr), shape=shape)


def _doubted(posterior: FloatArray) -> FloatArray:
    """Logarithms of a posterior that rules nothing out."""
    return np.asarray(np.log((1 - DOUBT) * posterior + DOUBT / posterior.shape[1]))
