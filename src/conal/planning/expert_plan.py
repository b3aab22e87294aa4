"""Which tasks to give to an expert: a sample with known probabilities, mostly where the truth is in doubt."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from conal._arrays import FloatArray, IntArray
from conal.errors import InputError
from conal.parameters import number, whole
from conal.report.wording import count

RANDOM_SHARE = 0.25
"""Share of the tasks that are drawn at random, so that every task can be drawn."""
SHARPNESS = 3.0
"""Power of the doubt: the larger, the more of the sample are the most doubtful tasks."""
SHOWN = {"text": "text", "link": "link", "picture_link": "picture"}
"""What rows about tasks may show of a task, and the column of the plan that has it."""
TRUE_LABEL = "true_label"
"""Column of ``labels.csv`` that says which tasks have a true label."""
REASONS = ("crowd and classifier contradict each other", "the label is uncertain", "random")


def expert_plan(
    labels: pa.Table, n: int, *, random_share: float = RANDOM_SHARE, seed: int = 0, leave_out: npt.ArrayLike = ()
) -> pa.Table:
    r"""The tasks whose true labels would teach most, drawn with known probabilities.

    A task is in doubt where its posterior is spread out, or where the crowd and the classifier contradict each other:
    the posterior may then be sure of either. With :math:`v_i` the task's shares of votes and f the classifier,

    .. math::
        s_i = \max\bigl(1 - \textstyle\sum_c v_i(c) f_c(x_i),\; H(q_i) / \log_2 C\bigr), \qquad
        \pi_i \propto (1 - \rho) \frac{s_i^3}{\sum_j s_j^3} + \rho \frac1N

    A part :math:`\rho` is drawn at random. So every task has a positive probability :math:`\pi_i`, which the plan
    lists: with it, true labels of doubtful tasks also say how many labels are right among *all* tasks
    (:func:`conal.metrics.gold_rates`).

    Parameters
    ----------
    labels : pa.Table
        The table ``labels.csv`` of a model folder, which has ``entropy`` and, if there is a classifier,
        ``contradiction``. A task that has a ``true_label`` is never asked about again.
    n : int
        Number of tasks to draw.
    random_share : float
        :math:`\rho`, from above 0 to 1.
    leave_out : array of bool
        Further tasks that are not asked about.

    References
    ----------
    Madow (1949). On the theory of systematic sampling, II. Annals of Mathematical Statistics 20.
    """
    whole(1).check("experts", n)
    number(above=0, at_most=1).check("random_share", random_share)
    open_to_ask = _open_to_ask(labels, leave_out)
    if n > len(open_to_ask):
        closed = " that have no true label" if len(open_to_ask) < labels.num_rows else ""
        there_are = f"there are {count(len(open_to_ask))}{closed}"
        raise InputError(f"experts: {n:,} tasks are asked for, but {there_are}; ask for fewer")
    unsure, apart = (values[open_to_ask] for values in _doubts(labels))
    pi = inclusion_probabilities(np.maximum(unsure, apart) ** SHARPNESS, n, random_share)
    drawn = systematic_sample(pi, np.random.default_rng(seed))
    drawn = drawn[np.argsort(-np.maximum(unsure, apart)[drawn], kind="stable")]
    at_random = n * random_share / len(open_to_ask) > 0.5 * pi[drawn]
    reasons = np.where(at_random, 2, np.where(apart[drawn] >= unsure[drawn], 0, 1))
    rows = pa.array(open_to_ask[drawn])
    return pa.table(
        {
            "task": labels["task"].take(rows),
            "ask": pa.array(["expert"] * n),
            "reason": pa.array([REASONS[k] for k in reasons]),
            "inclusion_probability": pa.array(pi[drawn]),
            "expected_gain": pa.array(1 - _numbers(labels, "probability")[open_to_ask[drawn]]),
        }
    )


def _open_to_ask(labels: pa.Table, leave_out: npt.ArrayLike) -> IntArray:
    """The tasks without a true label that are not left out."""
    closed = np.zeros(labels.num_rows, bool)
    if np.size(leave_out):
        closed |= np.asarray(leave_out, bool)
    if TRUE_LABEL in labels.column_names:
        closed |= np.asarray(labels[TRUE_LABEL].is_valid())
    return np.flatnonzero(~closed)


def with_exhibits(plan: pa.Table, rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    """The plan with what the expert is to look at: columns text, link and picture, where any task has such.

    Parameters
    ----------
    plan : pa.Table
        As :func:`expert_plan` makes it.
    rows : iterable of mappings
        Rows about tasks, such as those of a report: ``task``, and ``text``, ``link`` and ``picture_link`` where they
        are known. Of several rows about one task, the last counts.

    Examples
    --------
    >>> with_exhibits(pa.table({"task": [3, 5]}), [{"task": 5, "text": "a joke"}])["text"].to_pylist()
    [None, 'a joke']
    """
    tasks = [str(task) for task in plan["task"].to_pylist()]
    known: dict[str, dict[str, str]] = {name: {} for name in SHOWN}
    for row in rows:
        for name in SHOWN:
            if row.get(name):
                known[name][str(row["task"])] = row[name]
    for name, title in SHOWN.items():
        values = [known[name].get(task) for task in tasks]
        if any(value is not None for value in values):
            plan = plan.append_column(title, pa.array(values, pa.string()))
    return plan


def _doubts(labels: pa.Table) -> tuple[FloatArray, FloatArray]:
    """(N,) spread of the posterior, and contradiction of crowd and classifier; both between 0 and 1."""
    n_classes = sum(name.startswith("proba_") for name in labels.column_names)
    unsure = _numbers(labels, "entropy") / np.log2(max(n_classes, 2))  # in bits
    has_classifier = "contradiction" in labels.column_names
    apart = _numbers(labels, "contradiction") if has_classifier else np.zeros(labels.num_rows)
    return np.clip(np.nan_to_num(unsure, nan=1.0), 0, 1), np.clip(np.nan_to_num(apart, nan=0.0), 0, 1)


def _numbers(labels: pa.Table, name: str) -> FloatArray:
    return np.asarray(labels[name].to_numpy(zero_copy_only=False), dtype=np.float64)


def inclusion_probabilities(score: FloatArray, n: int, random_share: float) -> FloatArray:
    """(N,) probabilities that sum to n: proportional to the scores, and a share at random; none is above 1.

    >>> inclusion_probabilities(np.array([8.0, 1.0, 1.0, 0.0]), 2, 0.4).round(3).tolist()
    [1.0, 0.381, 0.381, 0.238]
    """
    total = score.sum()
    by_score = score / total if total > 0 else np.full(len(score), 1 / len(score))
    mixed = random_share / len(score) + (1 - random_share) * by_score
    pi = np.zeros(len(score))
    certain = np.zeros(len(score), bool)
    while True:  # what is beyond 1 goes to the others, which may lift another one beyond
        left = n - certain.sum()
        pi[~certain] = left * mixed[~certain] / mixed[~certain].sum() if left > 0 else 0.0
        pi[certain] = 1.0
        beyond = ~certain & (pi >= 1 - 1e-12)
        if not beyond.any():
            return pi
        certain |= beyond


def systematic_sample(pi: FloatArray, rng: np.random.Generator) -> IntArray:
    """Positions of a sample of fixed size in which task i is with probability pi_i, by Madow's method.

    >>> systematic_sample(np.array([1.0, 0.5, 0.5]), np.random.default_rng(0)).tolist()
    [0, 2]
    """
    order = rng.permutation(len(pi))
    n = round(float(pi.sum()))
    ends = np.cumsum(pi[order])
    ends *= n / ends[-1]  # rounding would lose the last one
    found = np.searchsorted(ends, rng.random() + np.arange(n), side="right")
    return np.asarray(np.sort(order[np.minimum(found, len(pi) - 1)]), dtype=np.int64)
