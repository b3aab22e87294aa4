"""Agreement of annotators beyond chance, with bootstrap intervals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy import sparse

from conal._arrays import FloatArray, IntArray, row_slices
from conal.data.annotations import Annotations
from conal.data.scales import class_values
from conal.errors import InputError, examples
from conal.parameters import either, one_of, only_none, share, whole

# Agreement of annotators beyond chance: coefficients with bootstrap intervals.


CHUNK_CELLS = 2**21
"""Replicates times tasks that are held at once, 16 MB."""


class Agreement(NamedTuple):
    """A coefficient and its bootstrap interval; both ends are None without bootstrap replicates."""

    value: float
    low: float | None
    high: float | None


class Units(NamedTuple):
    """Contributions of each task; a coefficient is a function of their sums over tasks.

    A bootstrap replicate counts task i w_i times, so its sums are products with the weights w.
    """

    disagreement: Any  # (U,), or (U, C C) sparse: pairs of labels by both classes
    shares: Any  # (U, C) sparse: what the task adds to each class


Coefficient = Callable[[FloatArray, FloatArray], FloatArray]
"""From summed disagreement (B,) or (B, C C) and summed class shares (B, C) to the coefficient (B,)."""

Level = Literal["nominal", "ordinal", "interval"]
Weights = Literal["linear", "quadratic"]


def krippendorff_alpha(
    data: Any, level: Level = "nominal", *, n_boot: int = 1000, confidence: float = 0.95, seed: int = 0
) -> Agreement:
    r"""Krippendorff's alpha: 1 for perfect agreement, 0 for agreement by chance, negative for less.

    Any number of annotators may have labelled each task. With :math:`n_{ic}` labels c for task i,
    :math:`m_i = \sum_c n_{ic}`, :math:`n_c = \sum_i n_{ic}` and :math:`n = \sum_c n_c`, over tasks with two or more
    labels (a single one cannot agree or disagree with anything):

    .. math::
        \alpha = 1 - \frac{D_o}{D_e}, \qquad
        D_o = \frac1n \sum_i \sum_{c, k} \frac{n_{ic} n_{ik}}{m_i - 1} \delta_{ck}^2, \qquad
        D_e = \sum_{c, k} \frac{n_c n_k}{n (n - 1)} \delta_{ck}^2

    The difference of two classes depends on the level of measurement:

    .. math::
        \delta_{ck}^2 = [c \ne k] \text{ (nominal)}, \qquad
        \Bigl( \sum_{g = c}^{k} n_g - \frac{n_c + n_k}{2} \Bigr)^2 \text{ (ordinal)}, \qquad
        (v_c - v_k)^2 \text{ (interval)}

    Where all labels are one class, nothing is expected to differ and nothing does; alpha is then 1 by convention, also
    in a bootstrap replicate.

    Parameters
    ----------
    data : Annotations, long DataFrame or (n_tasks, n_annotators) matrix
    level : {"nominal", "ordinal", "interval"}
        "nominal": classes differ or they do not. "ordinal": classes have an order, by number if all are numbers, and
        otherwise as in ``annotations.classes``, which is alphabetical unless it was given. "interval": classes are
        numbers, and a difference of two is twice one of one.
    n_boot : int
        Bootstrap replicates for the percentile interval; 0 for none. Tasks are drawn with replacement and both
        disagreements are computed again.
    confidence : float
        Share of replicates between the ends of the interval.
    seed : int

    References
    ----------
    Krippendorff (2011). Computing Krippendorff's alpha-reliability. University of Pennsylvania.

    Examples
    --------
    >>> round(krippendorff_alpha([[0, 0, -1], [1, 1, 1], [0, 1, -1], [1, -1, -1]], n_boot=0).value, 4)
    0.5
    >>> labels = [[1, 1], [2, 2], [3, 4], [5, 5]]
    >>> [round(krippendorff_alpha(labels, level, n_boot=0).value, 2) for level in ("nominal", "interval")]
    [0.72, 0.95]
    """
    one_of("nominal", "ordinal", "interval").check("level", level)
    _check_bootstrap(n_boot, confidence, seed)
    crowd = Annotations.of(data)
    counts, sizes = _pairable_counts(crowd)
    if level == "nominal":
        units = Units(_differing_pairs(counts, sizes) / (sizes - 1), counts)
        return _with_interval(units, _nominal_alpha, n_boot, confidence, seed)
    units = Units(_pairs(counts, sizes), counts)
    return _with_interval(units, _alpha_by(level, crowd), n_boot, confidence, seed)


def _nominal_alpha(disagreement: FloatArray, shares: FloatArray) -> FloatArray:
    n = shares.sum(-1)
    return _one_minus_ratio((n - 1) * disagreement, (shares * (n[:, None] - shares)).sum(-1))


def _alpha_by(level: Level, crowd: Annotations) -> Coefficient:
    """Alpha by the distance between two classes, which may depend on how many labels each has."""
    values = class_values(crowd.classes)
    if level == "interval" and values is None:
        raise InputError(
            f"level='interval' needs classes that are numbers, not {examples(crowd.classes)}; rename them, or use "
            "level='ordinal'"
        )
    places = np.arange(crowd.n_classes, dtype=np.float64) if values is None else values
    order = np.argsort(places, kind="stable")

    def alpha(pairs: FloatArray, shares: FloatArray) -> FloatArray:
        n = shares.sum(-1)
        if level == "ordinal":
            below = np.cumsum(shares[:, order], axis=1)[:, np.argsort(order)] - shares / 2  # up to the class's middle
            distance = (below[:, :, None] - below[:, None, :]) ** 2
        else:
            distance = np.broadcast_to(np.subtract.outer(places, places) ** 2, (len(n), len(order), len(order)))
        observed = (pairs.reshape(distance.shape) * distance).sum((1, 2))
        expected = np.einsum("bc,bck,bk->b", shares, distance, shares)
        return _one_minus_ratio((n - 1) * observed, expected)

    return alpha


def _pairs(counts: Any, sizes: FloatArray) -> Any:
    """(U, C C) sparse: pairs of labels of a task by both classes, over the number of its labels less one.

    A label is also paired with itself; the distance is then zero, so that it does not count.
    """
    blocks = [counts.multiply(counts[:, [c]]) for c in range(counts.shape[1])]
    return sparse.diags_array(1 / (sizes - 1)) @ sparse.hstack(blocks, format="csr")


def gwet_ac1(data: Any, *, n_boot: int = 1000, confidence: float = 0.95, seed: int = 0) -> Agreement:
    r"""Gwet's AC1: agreement of pairs of labels, corrected for the chance that both are guesses.

    Kappa and alpha fall towards 0 where one class is frequent, however well annotators agree. AC1 does not. With
    :math:`n_{ic}` labels c for task i and :math:`m_i = \sum_c n_{ic}`, over the N tasks with two or more labels:

    .. math::
        \mathrm{AC1} = \frac{\bar P - P_e}{1 - P_e}, \qquad
        \bar P = \frac1N \sum_i \sum_c \frac{n_{ic} (n_{ic} - 1)}{m_i (m_i - 1)}, \qquad
        P_e = \frac{1}{C - 1} \sum_c p_c (1 - p_c), \qquad p_c = \frac1N \sum_i \frac{n_{ic}}{m_i}

    Tasks with a single label are left out altogether, while Gwet lets them count in :math:`p_c`. C counts all classes
    that may be chosen, also those that nobody chose. With a single class, AC1 is 1 by convention.

    Parameters
    ----------
    data : Annotations, long DataFrame or (n_tasks, n_annotators) matrix
    n_boot, confidence, seed
        As for :func:`krippendorff_alpha`.

    References
    ----------
    Gwet (2008). Computing inter-rater reliability and its variance in the presence of high agreement. British Journal
    of Mathematical and Statistical Psychology 61, 29-48.

    Examples
    --------
    >>> round(gwet_ac1([[0, 0], [1, 1], [0, 1], [1, 1]], n_boot=0).value, 4)
    0.5294
    """

    def ac1(p: FloatArray) -> FloatArray:
        return np.asarray(1 - (p * (1 - p)).sum(-1) / max(p.shape[-1] - 1, 1))

    return _of_tasks(data, ac1, n_boot, confidence, seed)


def fleiss_kappa(data: Any, *, n_boot: int = 1000, confidence: float = 0.95, seed: int = 0) -> Agreement:
    r"""Fleiss' kappa: agreement of pairs of labels, corrected for chance.

    Gwet's generalisation to tasks with different numbers of labels, in which every task weighs the same. With
    :math:`n_{ic}` labels c for task i and :math:`m_i = \sum_c n_{ic}`, over the N tasks with two or more labels:

    .. math::
        \kappa = \frac{\bar P - P_e}{1 - P_e}, \qquad
        \bar P = \frac1N \sum_i \sum_c \frac{n_{ic} (n_{ic} - 1)}{m_i (m_i - 1)}, \qquad
        P_e = \sum_c \Bigl( \frac1N \sum_i \frac{n_{ic}}{m_i} \Bigr)^2

    This is Fleiss' own kappa where all :math:`m_i` are equal. Tasks with a single label are left out altogether, while
    Gwet lets them count in :math:`P_e`. Where all labels are one class, kappa is 1 by convention, also in a bootstrap
    replicate.

    Parameters
    ----------
    data : Annotations, long DataFrame or (n_tasks, n_annotators) matrix
    n_boot, confidence, seed
        As for :func:`krippendorff_alpha`.

    References
    ----------
    Fleiss (1971). Measuring nominal scale agreement among many raters. Psychological Bulletin 76, 378-382.

    Gwet (2014). Handbook of inter-rater reliability, 4th edition. Advanced Analytics.

    Examples
    --------
    >>> round(fleiss_kappa([[0, 0], [1, 1], [0, 1], [1, 1]], n_boot=0).value, 4)
    0.4667
    """

    def kappa(p: FloatArray) -> FloatArray:
        return np.asarray((p * (1 - p)).sum(-1))

    return _of_tasks(data, kappa, n_boot, confidence, seed)


def _of_tasks(
    data: Any, expected: Callable[[FloatArray], FloatArray], n_boot: int, confidence: float, seed: int
) -> Agreement:
    """1 minus the mean share of pairs of a task that differ, over what is expected by mean shares of classes (B, C)."""
    _check_bootstrap(n_boot, confidence, seed)
    counts, sizes = _pairable_counts(Annotations.of(data))
    N = len(sizes)
    units = Units(_differing_pairs(counts, sizes) / (sizes * (sizes - 1)), _label_shares(counts, sizes))

    def coefficient(disagreement: FloatArray, shares: FloatArray) -> FloatArray:
        return _one_minus_ratio(disagreement / N, expected(shares / N))

    return _with_interval(units, coefficient, n_boot, confidence, seed)


def cohen_kappa(
    data: Any,
    *,
    weights: Weights | None = None,
    n_boot: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
) -> Agreement:
    r"""Cohen's kappa of two annotators: agreement, corrected for chance given how often each uses each class.

    Over the N tasks that both labelled, where the first gives a share :math:`p_c` of them the label c and the second
    a share :math:`q_c`:

    .. math::
        \kappa = \frac{P_o - P_e}{1 - P_e}, \qquad P_e = \sum_c p_c q_c

    with :math:`P_o` the share of tasks on which both agree. On a scale, ``weights`` let a disagreement count by its
    distance, with the share :math:`P_{cl}` of tasks that the first labels c and the second l, at levels c and l:

    .. math::
        \kappa_w = 1 - \frac{\sum_{cl} d_{cl} P_{cl}}{\sum_{cl} d_{cl} p_c q_l}, \qquad
        d_{cl} = |c - l| \text{ (linear)}, \quad (c - l)^2 \text{ (quadratic)}

    Where both give one and the same label throughout, kappa
    is 1 by convention, also in a bootstrap replicate.

    Parameters
    ----------
    data : Annotations, long DataFrame or (n_tasks, n_annotators) matrix
        Of exactly two annotators.
    weights : {None, "linear", "quadratic"}
        How disagreements count: all alike, or by the distance of the classes on the scale, which are numbers, or have
        an order that was stated (:meth:`conal.Annotations.as_ordinal`).
    n_boot, confidence, seed
        As for :func:`krippendorff_alpha`.

    References
    ----------
    Cohen (1960). A coefficient of agreement for nominal scales. Educational and Psychological Measurement 20, 37-46.

    Cohen (1968). Weighted kappa: nominal scale agreement with provision for scaled disagreement or partial credit.
    Psychological Bulletin 70, 213-220.

    Examples
    --------
    >>> round(cohen_kappa([[0, 0], [1, 1], [0, 1], [1, 1]], n_boot=0).value, 4)
    0.5
    >>> grades = [[1, 1], [2, 2], [3, 4], [5, 5]]
    >>> [round(cohen_kappa(grades, weights=by, n_boot=0).value, 2) for by in (None, "linear", "quadratic")]
    [0.69, 0.86, 0.95]
    """
    either(only_none(), one_of("linear", "quadratic")).check("weights", weights)
    _check_bootstrap(n_boot, confidence, seed)
    crowd = Annotations.of(data)
    if crowd.n_annotators != 2:
        raise InputError(
            f"annotations: {crowd.n_annotators} annotators; Cohen's kappa is for two, Fleiss' kappa for more"
        )
    both = np.flatnonzero(crowd.labels_per_task() == 2)
    if not len(both):
        raise InputError("annotations: no task was labelled by both annotators, so there is nothing to compare")
    first, second = crowd.labels[crowd.indptr[both]], crowd.labels[crowd.indptr[both] + 1]
    U, C = len(both), crowd.n_classes
    columns = np.stack([first, second + C], axis=1).ravel()
    shares = sparse.csr_array((np.ones(2 * U), columns, np.arange(0, 2 * U + 1, 2)), (U, 2 * C))
    levels = None if weights is None else crowd.levels()
    apart = first != second if levels is None else np.abs(levels[first] - levels[second])
    disagreement = (apart**2 if weights == "quadratic" else apart).astype(np.float64)

    def kappa(disagreement: FloatArray, shares: FloatArray) -> FloatArray:
        p, q = shares[:, :C], shares[:, C:]
        if levels is None:
            expected = p.sum(1) * q.sum(1) - (p * q).sum(1)
        else:
            order = np.argsort(levels)
            expected = _expected_distance(p[:, order], q[:, order], weights)
        return _one_minus_ratio(U * disagreement, expected)

    return _with_interval(Units(disagreement, shares), kappa, n_boot, confidence, seed)


def _expected_distance(p: FloatArray, q: FloatArray, weights: Weights | None) -> FloatArray:
    """(B,) distances of all pairs of levels, summed by how often each of both has them, (B, C); no matrix is made."""
    n, m = p.sum(1), q.sum(1)
    if weights == "quadratic":
        at = np.arange(p.shape[1], dtype=np.float64)
        return np.asarray((p @ at**2) * m - 2 * (p @ at) * (q @ at) + n * (q @ at**2))
    below, under = np.cumsum(p, 1), np.cumsum(q, 1)
    return np.asarray((below * (m[:, None] - under) + under * (n[:, None] - below)).sum(1))


def _label_shares(counts: Any, sizes: FloatArray) -> Any:
    """(U, C) sparse: share of each label among those of a task."""
    per_label = counts.data / np.repeat(sizes, np.diff(counts.indptr))
    return sparse.csr_array((per_label, counts.indices, counts.indptr), counts.shape)


def _pairable_counts(crowd: Annotations) -> tuple[Any, FloatArray]:
    """(U, C) sparse label counts and (U,) numbers of labels of the tasks with two or more."""
    pairable = crowd.labels_per_task() >= 2
    if not pairable.any():
        raise InputError(
            "annotations: no task has two labels, so there is nothing to compare; "
            "agreement needs tasks that several annotators labelled (rows are tasks, columns annotators)"
        )
    ones = np.ones(crowd.n_annotations)
    counts = sparse.csr_array((ones, crowd.labels.copy(), crowd.indptr.copy()), (crowd.n_tasks, crowd.n_classes))
    counts.sum_duplicates()
    return counts[pairable], crowd.labels_per_task()[pairable].astype(np.float64)


def _differing_pairs(counts: Any, sizes: FloatArray) -> FloatArray:
    """(U,) ordered pairs of labels of a task that differ."""
    return np.asarray(sizes**2 - counts.power(2).sum(1))


def _one_minus_ratio(observed: FloatArray, expected: FloatArray) -> FloatArray:
    # Nothing is expected to differ only where all labels are one class; then nothing does, and 0 / 1 stands for 0 / 0.
    return 1 - observed / np.where(expected > 0, expected, 1.0)


def _with_interval(units: Units, coefficient: Coefficient, n_boot: int, confidence: float, seed: int) -> Agreement:
    value = float(_evaluate(units, coefficient, np.ones((1, units.disagreement.shape[0])))[0])
    if not n_boot:
        return Agreement(value, None, None)
    U, width = units.shares.shape[0], max([units.shares.shape[1], *units.disagreement.shape[1:]])
    rng, replicates = np.random.default_rng(seed), np.empty(n_boot)
    for part in row_slices(n_boot, max(U, width), CHUNK_CELLS):
        drawn = [np.bincount(rng.integers(U, size=U), minlength=U) for _ in range(part.start, part.stop)]
        replicates[part] = _evaluate(units, coefficient, np.array(drawn, dtype=np.float64))
    low, high = np.quantile(replicates, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Agreement(value, float(low), float(high))


def _evaluate(units: Units, coefficient: Coefficient, weights: FloatArray) -> FloatArray:
    """(B,) coefficients under (B, U) weights of the tasks."""
    return coefficient(np.asarray(weights @ units.disagreement), np.asarray(weights @ units.shares))


def _check_bootstrap(n_boot: int, confidence: float, seed: int) -> None:
    """Refuse options of the bootstrap that cannot be meant."""
    whole(0).check("n_boot", n_boot)
    share().check("confidence", confidence)
    whole(0).check("seed", seed)


def common_tasks(crowd: Annotations) -> IntArray:
    """(R, R) number of tasks that two annotators both labelled; of one annotator, the number of labels."""
    ones = np.ones(crowd.n_annotations, dtype=np.int64)
    there = sparse.csc_array((ones, (crowd.tasks, crowd.annotators)), shape=(crowd.n_tasks, crowd.n_annotators))
    return np.asarray((there.T @ there).toarray())
