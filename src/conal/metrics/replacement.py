"""May a model replace people? The alternative annotator test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from conal._arrays import FloatArray, IntArray
from conal.data.annotations import Annotations
from conal.data.encoding import MISSING, Names, as_names, decode_position
from conal.data.scales import class_values
from conal.errors import InputError, examples
from conal.parameters import number, share, whole

ENOUGH = 0.5
"""Share of the people whom a model must be able to stand in for."""


class Replacement(NamedTuple):
    """The verdict about one model.

    Attributes
    ----------
    model : name
    winning_rate : float
        Share of the people whom the model can stand in for.
    advantage_probability : float
        How often the model agrees with the other people at least as well as a person does, in the mean over people.
    replaces : bool
        Whether the winning rate is at least a half.
    people, p_values : arrays
        The people whom the model was compared with, and the p-value of each comparison, not yet corrected.
    """

    model: Any
    winning_rate: float
    advantage_probability: float
    replaces: bool
    people: Names
    p_values: FloatArray


def replacement_test(
    data: Any,
    models: Sequence[Any] | Names,
    *,
    people: Sequence[Any] | Names | None = None,
    epsilon: float = 0.2,
    level: float = 0.05,
    min_items: int = 30,
    scale: bool | None = None,
) -> list[Replacement]:
    r"""For each model, whether it may replace the people who labelled the same items: no true labels are needed.

    A model is put in the place of each person in turn. On every item of person j that others labelled too, the model's
    and the person's agreement with these others are compared, and whoever is at least as good gets a point:

    .. math::
        W^m_{ij} = [S(m, i, -j) \ge S(j, i, -j)], \qquad W^h_{ij} = [S(j, i, -j) \ge S(m, i, -j)]

    The model can stand in for j if the mean of :math:`W^h_{ij} - W^m_{ij}` is below :math:`\varepsilon` by a one-sided
    t-test; p-values of all people are corrected by Benjamini and Yekutieli's procedure. :math:`\varepsilon` is a
    handicap of the person, because people's labels cost more than the model's. The authors take 0.2 for experts, 0.15
    for trained people and 0.1 for a crowd. At 0.2, a model can pass for which the person agrees better on 30 % of the
    items, and the model on 15 %; at 0 the model must be reliably better.

    Use it before you let models label what people labelled so far. Mistakes that the model shares with most people are
    invisible to it.

    Parameters
    ----------
    data : Annotations, long DataFrame or (n_tasks, n_annotators) matrix
        Labels of people and models on the same items.
    models : sequence
        The annotators that are models.
    people : sequence, optional
        The people; by default everybody who is not among the models.
    epsilon : float
        The handicap: at least 0, below 1.
    level : float
        Of the tests, after the correction.
    min_items : int
        People with fewer items that others labelled too are left out.
    scale : bool, optional
        Labels are numbers on a scale: agreement is minus the root mean squared difference, instead of the share of
        equal labels. By default, whether the classes were stated to be a scale (:meth:`conal.Annotations.as_ordinal`,
        ``--ordinal``); those that are no numbers count by their places.

    References
    ----------
    Calderon, Reichart and Dror (2025). The alternative annotator test for LLM-as-a-judge: how to statistically justify
    replacing human annotators with LLMs. ACL.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.integers(3, size=200)
    >>> def labels(right):
    ...     return np.where(rng.random(200) < right, truth, rng.integers(3, size=200))
    >>> crowd = np.stack([labels(0.8), labels(0.8), labels(0.8), labels(0.9), labels(0.2)], axis=1)
    >>> [(found.model, found.replaces) for found in replacement_test(crowd, models=[3, 4])]
    [(3, True), (4, False)]
    """
    number(at_least=0, below=1).check("epsilon", epsilon)
    share().check("level", level)
    whole(2).check("min_items", min_items)
    crowd = Annotations.of(data)
    scale = crowd.ordinal if scale is None else scale
    machines = _positions(crowd, models, "models")
    humans = _humans(crowd, people, machines)
    table = _values(crowd, scale)
    compared = {}
    for j in humans:
        others = table[:, [k for k in humans if k != j]]
        items = np.flatnonzero(~np.isnan(table[:, j]) & ~np.isnan(others).all(1))
        if len(items) >= min_items:
            compared[j] = items, others[items]
    if not compared:
        raise InputError(f"no person labelled {min_items} items that other people labelled too; lower min_items")
    return [_verdict(crowd, table, compared, m, epsilon, level, scale) for m in machines]


def _positions(crowd: Annotations, names: Sequence[Any] | Names, what: str) -> list[int]:
    wanted = as_names(names)
    at = decode_position(crowd.annotator_ids, wanted)
    if (at == MISSING).any() or not len(at):
        unknown = examples(wanted[at == MISSING]) if len(at) else "nobody"
        raise InputError(f"{what}: {unknown} among the annotators {examples(crowd.annotator_ids)}; correct the names")
    return [int(k) for k in at]


def _humans(crowd: Annotations, people: Sequence[Any] | Names | None, machines: list[int]) -> list[int]:
    if people is None:
        return [k for k in range(crowd.n_annotators) if k not in machines]
    found = _positions(crowd, people, "people")
    both = sorted(set(found) & set(machines))
    if both:
        raise InputError(f"{examples(crowd.annotator_ids[both])} are among models and people; name each once")
    return found


def _values(crowd: Annotations, scale: bool) -> FloatArray:
    """(N, R) labels as numbers, NaN where there is none: positions on the scale, or codes of classes."""
    numbers = np.arange(crowd.n_classes, dtype=np.float64)
    if scale:
        found = class_values(crowd.classes)
        if found is None and not crowd.ordinal:
            raise InputError(
                f"scale: the labels {examples(crowd.classes)} are not all numbers; leave it out, or state their order "
                "(Annotations.as_ordinal)"
            )
        numbers = crowd.levels().astype(np.float64) if found is None else found
    table = np.full((crowd.n_tasks, crowd.n_annotators), np.nan)
    table[crowd.tasks, crowd.annotators] = numbers[crowd.labels]
    return table


def _verdict(
    crowd: Annotations,
    table: FloatArray,
    compared: Mapping[int, tuple[IntArray, FloatArray]],
    m: int,
    epsilon: float,
    level: float,
    scale: bool,
) -> Replacement:
    """About model m; ``compared`` has the items of each person that others labelled too, and the others' labels."""
    p_values, advantages, people = [], [], []
    for j, (items, others) in compared.items():
        both = ~np.isnan(table[items, m])
        if both.sum() < 2:
            continue
        model, person = (_agreement(table[items[both], k], others[both], scale) for k in (m, j))
        p_values.append(_p_value((person >= model).astype(float) - (model >= person), epsilon))
        advantages.append(float((model >= person).mean()))
        people.append(j)
    name = crowd.annotator_ids[[m]].tolist()[0]
    if not people:
        raise InputError(f"models: {name!r} labelled none of the items that two people labelled; leave it out")
    from scipy.stats import false_discovery_control  # loading it takes half a second

    found = np.array(p_values)
    rate = float((false_discovery_control(found, method="by") < level).mean())
    return Replacement(name, rate, float(np.mean(advantages)), rate >= ENOUGH, crowd.annotator_ids[people], found)


def _agreement(own: FloatArray, others: FloatArray, scale: bool) -> FloatArray:
    """(n,) agreement of one annotator with the others who labelled each item."""
    if scale:
        return np.asarray(-np.sqrt(np.nanmean((own[:, None] - others) ** 2, axis=1)))
    equal = np.where(np.isnan(others), np.nan, own[:, None] == others)
    return np.asarray(np.nanmean(equal, axis=1))


def _p_value(difference: FloatArray, epsilon: float) -> float:
    """Of the hypothesis that the person is better by epsilon or more; certain where nothing varies."""
    if difference.std() == 0:
        return 0.0 if difference.mean() < epsilon else 1.0
    from scipy.stats import ttest_1samp  # loading it takes half a second

    return float(ttest_1samp(difference, epsilon, alternative="less").pvalue)
