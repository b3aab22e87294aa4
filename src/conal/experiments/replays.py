"""Replays of a crowd: most labels are hidden, and revealed as a strategy asks for them."""

from __future__ import annotations

import warnings
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from typing import Any

import numpy as np
import numpy.typing as npt

from conal.aggregation.certainty import held_out_certainty
from conal.datasets.base import CrowdDataset
from conal.errors import InputError
from conal.findings.asking import Asking, Pairs, cautious, checked_by_others
from conal.findings.crowd_plan import plan_labels
from conal.findings.promise import Promise, promise

__all__ = ["STRATEGIES", "Reading", "Replay", "replay"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

FOLDS = 3
ROUNDS = 2
"""How often classifier and matrices are fitted in turns."""
COMPONENTS = 40
DRAWS = 100
"""Simulations behind every promise."""
POOLING = 5.0
"""Pseudo-labels that draw each row of an annotator's matrix to that of all."""


@dataclass(frozen=True, eq=False)
class Reading:
    """What the labels that are revealed tell: the same for every strategy."""

    posterior: FloatArray
    classifier: FloatArray
    confusion: FloatArray
    met: FloatArray
    test: FloatArray


class Replay:
    """A crowd of which some labels are revealed.

    Parameters
    ----------
    data : CrowdDataset
    seed : int
        Which labels are revealed first, and what is random later.
    start : float
        Share of the tasks that begin with one label.
    """

    def __init__(self, data: CrowdDataset, seed: int, start: float = 0.5) -> None:
        self.data, crowd = data, data.annotations
        self.rng = np.random.default_rng(seed)
        if data.test is None:
            raise InputError(f"{data.name}: has no test data, on which replays are judged")
        self.features, self.test = _components(data.x, data.test.x)
        self.test_labels = data.test.y
        self.revealed = np.zeros(crowd.n_annotations, bool)
        order = self.rng.permutation(crowd.n_annotations)
        _, first = np.unique(crowd.tasks[order], return_index=True)
        firsts = order[first]
        self.revealed[self.rng.permutation(firsts)[: round(start * crowd.n_tasks)]] = True

    def reading(self) -> Reading:
        """Dawid-Skene and a logistic regression in turns, from what is revealed."""
        crowd = self.data.annotations
        at = np.flatnonzero(self.revealed)
        tasks, who, labels = (codes[at].astype(np.int64) for codes in (crowd.tasks, crowd.annotators, crowd.labels))
        shape = crowd.n_annotators, crowd.n_classes
        votes = np.zeros((crowd.n_tasks, crowd.n_classes))
        np.add.at(votes, (tasks, labels), 1.0)
        q = (votes + 0.3) / (votes + 0.3).sum(1, keepdims=True)
        labelled = np.flatnonzero(votes.sum(1))
        for _ in range(ROUNDS):
            classifier, test = _cross_fitted(self.features, self.test, q, labelled)
            counts = np.zeros((*shape, crowd.n_classes))
            np.add.at(counts.transpose(0, 2, 1), (who, labels), q[tasks])
            common = counts.sum(0) + 0.5
            common /= common.sum(1, keepdims=True)
            matrices = (counts + POOLING * common) / (counts.sum(2, keepdims=True) + POOLING)
            log_q = np.log(np.maximum(classifier, 1e-6))
            np.add.at(log_q, tasks, np.log(matrices[who, :, labels]))
            q = np.exp(log_q - log_q.max(1, keepdims=True))
            q /= q.sum(1, keepdims=True)
        tau = held_out_certainty(log_q, (tasks, who, labels), counts, vote_weight=1.0, pooling=POOLING)
        flat = q**tau
        flat /= flat.sum(1, keepdims=True)
        own = counts / np.maximum(counts.sum(2, keepdims=True), 1e-12)
        met = checked_by_others(Pairs.of(tasks, who, crowd.n_tasks), flat, crowd.n_annotators)
        return Reading(flat, classifier, cautious(own, met, common), met, test)

    def accuracy(self, found: Reading) -> tuple[float, float]:
        """Share of right labels of the training tasks, and of the test tasks by the classifier."""
        right = (found.posterior.argmax(1) == self.data.y_true).mean()
        tested = found.test.argmax(1) == self.test_labels
        return float(right), float(tested.mean())

    # ---------------------------------------------------------------- strategies: which labels to reveal next

    def random(self, found: Reading, n: int) -> tuple[IntArray, None]:
        """Any labels."""
        return self.rng.permutation(np.flatnonzero(~self.revealed))[:n], None

    def planned(self, found: Reading, n: int) -> tuple[IntArray, Promise]:
        """The labels that the plan asks for."""
        crowd = self.data.annotations
        shown, hidden = np.flatnonzero(self.revealed), np.flatnonzero(~self.revealed)
        asking = Asking(
            found.posterior,
            found.confusion,
            Pairs.of(crowd.tasks[shown], crowd.annotators[shown], crowd.n_tasks),
            found.met,
            allowed=Pairs.of(crowd.tasks[hidden], crowd.annotators[hidden], crowd.n_tasks),
        )
        planned = plan_labels(asking, float(n))
        place = crowd.tasks.astype(np.int64) * crowd.n_annotators + crowd.annotators
        rows = np.searchsorted(place, planned.tasks * crowd.n_annotators + planned.annotators)
        return rows, promise(asking, planned, seed=int(self.rng.integers(2**31)), draws=DRAWS)

    def active_lab(self, found: Reading, n: int) -> tuple[IntArray, None]:
        """The tasks with the lowest ActiveLab scores of cleanlab, one more label each, of anybody who has one."""
        scores = active_lab_scores(self, found)
        crowd = self.data.annotations
        hidden = self.rng.permutation(np.flatnonzero(~self.revealed))
        turn = _turns(crowd.tasks[hidden])
        order = np.lexsort((scores[crowd.tasks[hidden]], turn))
        return hidden[order[:n]], None


STRATEGIES = {"random": Replay.random, "ActiveLab": Replay.active_lab, "plan": Replay.planned}


def active_lab_scores(replay: Replay, found: Reading) -> FloatArray:
    """(N,) scores by cleanlab's own code; low ones are asked for first."""
    from cleanlab.multiannotator import get_active_learning_scores

    crowd = replay.data.annotations
    at = np.flatnonzero(replay.revealed)
    labels = np.full((crowd.n_tasks, crowd.n_annotators), np.nan)
    labels[crowd.tasks[at], crowd.annotators[at]] = crowd.labels[at]
    labels = labels[:, ~np.isnan(labels).all(0)]
    has = ~np.isnan(labels).all(1)
    scores = np.empty(crowd.n_tasks)
    with warnings.catch_warnings(), redirect_stdout(StringIO()):  # it prints
        warnings.simplefilter("ignore")
        scores[has], scores[~has] = get_active_learning_scores(
            labels[has], found.classifier[has], found.classifier[~has]
        )
    return scores


def replay(data: CrowdDataset, strategy: str, seed: int, *, rounds: int, batch: int) -> list[dict[str, Any]]:
    """A row after every batch: labels so far, accuracies, and what was promised for it."""
    here = Replay(data, seed)
    found = here.reading()
    rows = []
    promised: Promise | None = None
    for k in range(rounds + 1):
        right, test = here.accuracy(found)
        row = {"seed": seed, "strategy": strategy, "round": k, "labels": int(here.revealed.sum())}
        row |= {"label_accuracy": right, "test_accuracy": test, "claimed": float(found.posterior.max(1).mean())}
        ends = ("accuracy", "low", "high")
        row |= {f"promised_{e}": None if promised is None else float(getattr(promised, e)[-1]) for e in ends}
        rows.append(row)
        if k < rounds:
            chosen, promised = STRATEGIES[strategy](here, found, batch)
            here.revealed[chosen] = True
            found = here.reading()
    return rows


def _turns(tasks: npt.NDArray[Any]) -> IntArray:
    """(n,) how many rows of the same task come before each."""
    order = np.argsort(tasks, kind="stable")
    turn = np.empty(len(tasks), np.int64)
    turn[order] = np.arange(len(tasks)) - np.searchsorted(tasks[order], tasks[order])
    return turn


def _components(train: npt.NDArray[Any], test: npt.NDArray[Any]) -> tuple[FloatArray, FloatArray]:
    """Standardised principal components of the training and test features."""
    from sklearn.decomposition import PCA
    from sklearn.preprocessing import StandardScaler

    first = StandardScaler().fit(train)
    pca = PCA(min(COMPONENTS, train.shape[1]), random_state=0).fit(first.transform(train))
    scale = np.sqrt(pca.explained_variance_[0])
    x, new = (np.asarray(pca.transform(first.transform(each)) / scale, float) for each in (train, test))
    return x, new


def _cross_fitted(x: FloatArray, test: FloatArray, q: FloatArray, labelled: IntArray) -> tuple[FloatArray, FloatArray]:
    """(N, C) probabilities by regressions that have not seen a task's labels, and those of the test tasks."""
    fold = np.arange(len(x)) % FOLDS
    found, tested = np.zeros_like(q), np.zeros((len(test), q.shape[1]))
    for k in range(FOLDS):
        train = labelled[fold[labelled] != k]
        at = fold == k
        found[at], each = _regression(x[train], q[train], x[at], test)
        tested += each / FOLDS
    return found, tested


def _regression(x: FloatArray, q: FloatArray, *new: FloatArray) -> list[FloatArray]:
    """(n, C) probabilities of new rows, for each array of them."""
    from sklearn.linear_model import LogisticRegression

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = LogisticRegression(C=1.0, max_iter=50).fit(x, q.argmax(1), sample_weight=q.max(1))
    found = []
    for rows in new:
        probas = np.full((len(rows), q.shape[1]), 1e-3)
        probas[:, fitted.classes_] += fitted.predict_proba(rows)
        found.append(probas / probas.sum(1, keepdims=True))
    return found
