r"""Spectral start of Dawid-Skene: confusion matrices from how labels of three groups of annotators occur together.

Annotators are dealt to three groups a, b, c. :math:`Z_a` (C,) is the mean of the labels, as unit vectors, that group a
gave a task. Given the class, groups are independent. So with :math:`M_a` the mean confusion matrix of group a (observed
class by row, true class by column) and :math:`w` the class shares,

.. math::
    \mathrm E\, Z_a Z_b^\top = M_a \operatorname{diag}(w) M_b^\top, \qquad
    Z'_a = \mathrm E[Z_c Z_b^\top]\, \mathrm E[Z_a Z_b^\top]^{-1} Z_a, \qquad
    Z'_b = \mathrm E[Z_c Z_a^\top]\, \mathrm E[Z_b Z_a^\top]^{-1} Z_b

.. math::
    \mathrm E\, Z'_a Z_b'^\top = \sum_l w_l\, \mu_l \mu_l^\top, \qquad
    \mathrm E\, Z'_a \otimes Z'_b \otimes Z_c = \sum_l w_l\, \mu_l \otimes \mu_l \otimes \mu_l

for the columns :math:`\mu_l` of :math:`M_c`: whitening by the first makes the second a sum of orthogonal terms, which
the tensor power method finds. An annotator's matrix then follows from the labels that occur with those of the two other
groups. Expectations are means over the tasks that all groups in question labelled.

References
----------
Zhang, Chen, Zhou and Jordan (2016). Spectral methods meet EM: a provably optimal algorithm for crowdsourcing. Journal
of Machine Learning Research 17.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from conal.aggregation.arrays import FloatArray
from conal.aggregation.ranks import ranks_of
from conal.aggregation.votes import Votes

__all__ = ["Moments", "NoMoments", "decomposed", "spectral_confusion"]

LEAST = 1e-6
"""No probability is taken as smaller."""
SINGULAR = 1e-6
"""A matrix of moments whose smallest singular value is below this share of the largest cannot be inverted."""
POWER_STARTS, POWER_STEPS = 20, 100
"""Random starts and steps of the tensor power method, for each class."""

Groups = npt.NDArray[np.int64]


class NoMoments(ValueError):  # noqa: N818 - a reason, not a defect
    """Why a crowd has no spectral start."""


class Moments(NamedTuple):
    """Of the means of the labels of three groups: pairs (C, C) by both groups, and all three (C, C, C)."""

    ca: FloatArray
    cb: FloatArray
    ab: FloatArray
    abc: FloatArray


def spectral_confusion(votes: Votes, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Class shares (C,) and confusion matrices (R, C, C), ``[r, true, observed]``; NoMoments where there are none."""
    _, R, C = votes.shape
    if int((votes.annotations.labels_per_annotator() > 0).sum()) < 3:
        raise NoMoments("fewer than three annotators have labels")
    groups = _dealt(votes, rng)
    Z = _means(votes, groups)
    found = [_group_confusion(Z[(c + 1) % 3], Z[(c + 2) % 3], Z[c], rng) for c in range(3)]
    w = np.maximum(np.mean([shares / shares.sum() for shares, _ in found], axis=0), LEAST)
    matrices = np.empty((R, C, C))
    for g in range(3):
        others = [(Z[h], found[h][1]) for h in range(3) if h != g]
        matrices[groups == g] = _annotator_confusion(votes, others, w / w.sum())[groups == g]
    return w / w.sum(), matrices


def _dealt(votes: Votes, rng: np.random.Generator) -> Groups:
    """(R,) three groups with about as many labels each: the busiest annotators are dealt first, in turn."""
    given = votes.annotations.labels_per_annotator()
    shuffled = np.argsort(ranks_of(votes.annotations).annotators)[rng.permutation(len(given))]
    busiest_first = shuffled[np.argsort(-given[shuffled], kind="stable")]
    groups = np.empty(len(given), dtype=np.int64)
    groups[busiest_first] = np.resize([0, 1, 2, 2, 1, 0], len(given))
    return groups


def _means(votes: Votes, groups: Groups) -> list[FloatArray]:
    """Of each group (N, C): shares of the labels that it gave a task; all zero where it gave none."""
    crowd, (N, _, C) = votes.annotations, votes.shape
    means = []
    for g in range(3):
        mine = groups[crowd.annotators] == g
        cells = crowd.tasks[mine].astype(np.int64) * C + crowd.labels[mine]
        counts = np.bincount(cells, minlength=N * C).reshape(N, C)
        means.append(counts / np.maximum(counts.sum(1, keepdims=True), 1))
    return means


# ---------------------------------------------------------------- the matrix of a group


def _group_confusion(
    Z_a: FloatArray, Z_b: FloatArray, Z_c: FloatArray, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Class shares (C,) and the mean matrix of group c, (observed, true)."""
    weights, columns = decomposed(moments_of(Z_a, Z_b, Z_c), rng)
    columns = np.maximum(columns, LEAST)
    columns /= columns.sum(0)
    from scipy.optimize import linear_sum_assignment  # loading it takes a quarter of a second

    _, true = linear_sum_assignment(columns, maximize=True)  # the column that speaks most for each class, all different
    return weights[true], columns[:, true]


def moments_of(Z_a: FloatArray, Z_b: FloatArray, Z_c: FloatArray) -> Moments:
    """Means over the tasks that all groups in question labelled."""
    a, b, c = (Z.sum(1) > 0 for Z in (Z_a, Z_b, Z_c))
    all_three = a & b & c
    if not all_three.any():
        raise NoMoments("no task has labels of three groups of annotators")
    third = np.einsum("ia,ib,ic->abc", Z_a[all_three], Z_b[all_three], Z_c[all_three], optimize=True)
    return Moments(
        ca=Z_c.T @ Z_a / (c & a).sum(),
        cb=Z_c.T @ Z_b / (c & b).sum(),
        ab=Z_a.T @ Z_b / (a & b).sum(),
        abc=third / all_three.sum(),
    )


def decomposed(moments: Moments, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Class shares (C,) and the columns (C, C) of group c's matrix, in any order."""
    ca, cb, ab, abc = moments
    to_c_from_a, to_c_from_b = cb @ _inverse(ab), ca @ _inverse(ab.T)
    second = to_c_from_a @ ab @ to_c_from_b.T
    values, vectors = np.linalg.eigh((second + second.T) / 2)
    if values[0] < SINGULAR * values[-1]:
        raise NoMoments("some classes cannot be told apart by which labels occur together")
    whitening, back = vectors / np.sqrt(values), vectors * np.sqrt(values)
    tensor = np.einsum("abc,ax,by,cz->xyz", abc, to_c_from_a.T @ whitening, to_c_from_b.T @ whitening, whitening)
    strengths, directions = _tensor_eigenvectors(_symmetric(tensor), rng)
    return strengths**-2.0, back @ (directions * strengths)


def _inverse(matrix: FloatArray) -> FloatArray:
    singular = np.linalg.svd(matrix, compute_uv=False)
    if singular[-1] <= SINGULAR * singular[0]:
        raise NoMoments("some classes cannot be told apart by which labels occur together")
    return np.asarray(np.linalg.inv(matrix), dtype=np.float64)


def _symmetric(tensor: FloatArray) -> FloatArray:
    """The mean over all orders of the three axes; they differ by noise only."""
    orders = ((0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0))
    return np.asarray(np.mean([tensor.transpose(order) for order in orders], axis=0))


def _tensor_eigenvectors(tensor: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Strengths (C,) and directions (C, C), by column, of a sum of orthogonal terms: power method and deflation."""
    C = len(tensor)
    strengths, directions = np.empty(C), np.empty((C, C))
    for k in range(C):
        u = _unit(rng.normal(size=(POWER_STARTS, C)))
        for _ in range(POWER_STEPS):
            u = _unit(np.einsum("abc,sb,sc->sa", tensor, u, u))
        strength = np.einsum("abc,sa,sb,sc->s", tensor, u, u, u)
        best = int(strength.argmax())
        if strength[best] <= SINGULAR:
            raise NoMoments("some classes cannot be told apart by which labels occur together")
        strengths[k], directions[:, k] = strength[best], u[best]
        tensor = tensor - strengths[k] * np.einsum("a,b,c->abc", u[best], u[best], u[best])
    return strengths, directions


def _unit(vectors: FloatArray) -> FloatArray:
    return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.finfo(float).tiny))


# ---------------------------------------------------------------- the matrices of the annotators


def _annotator_confusion(votes: Votes, others: list[tuple[FloatArray, FloatArray]], w: FloatArray) -> FloatArray:
    """(R, C, C) true by observed, from labels of groups that the annotators do not belong to, and their matrices."""
    _, R, C = votes.shape
    found = np.zeros((R, C, C))
    for Z, matrix in others:
        together = np.asarray(votes.by_annotator @ Z).reshape(R, C, C)  # own label by label of the group
        n_tasks = np.maximum(together.sum((1, 2), keepdims=True), 1)
        found += _inverse(matrix * w) @ (together / n_tasks).transpose(0, 2, 1)
    found = np.maximum(found, LEAST)
    return np.asarray(found / found.sum(-1, keepdims=True))
