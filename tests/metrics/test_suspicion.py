"""Tests of suspicion against slow references, and on crowds of which it is known who means harm."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from conal._arrays import draw_from_rows
from conal.aggregation import DawidSkene
from conal.data.annotations import Annotations
from conal.datasets import CrowdSettings, simulate_crowd
from conal.datasets.crowd import CrowdTruth
from conal.metrics.suspicion import (
    BEFORE,
    COMMON_MISTAKE,
    HABIT,
    PAIR_POOLING,
    PSEUDO_PEOPLE,
    ROW_POOLING,
    SHARES,
    Detections,
    _label_chances,
    _labels_in_time,
    _log_chances,
    _mixed,
    _turns,
    attention,
    common_mistakes,
    defended,
    detect,
    discoveries,
    find_copies,
    following,
    follows_all,
    left_out,
    likely,
)
from studies.attacks import counted


def simulated(kinds: str, seed: int = 0, **options: Any) -> tuple[Annotations, CrowdTruth, np.ndarray]:
    """A crowd of 20 with 80 labels each, its truth, and Dawid-Skene's posterior."""
    rng = np.random.default_rng(seed)
    z = rng.integers(6, size=400)
    settings: dict[str, Any] = {
        "n_annotators": 20,
        "labels_per_instance": 4,
        "turn_after": 40,
        "adversaries": kinds,
        "seed": seed,
    }
    ann, truth = simulate_crowd(z, rng.standard_normal((400, 4)), range(6), CrowdSettings(**(settings | options)))
    return ann, truth, DawidSkene(verbose=False).fit(ann).probas_


def detected(ann: Annotations, q: np.ndarray, times: Any = None) -> Detections:
    return detect(left_out(ann, q, times=times))


# ---------------------------------------------------------------- parts, against slow references


def test_discoveries_by_the_rule_itself() -> None:
    rng = np.random.default_rng(0)
    for _ in range(30):
        p = rng.random(12) ** 3
        k = max((k for k in range(1, 13) if np.sort(p)[k - 1] <= 0.05 * k / 12), default=0)
        expected = np.zeros(12, dtype=bool)
        expected[np.argsort(p)[:k]] = True
        np.testing.assert_array_equal(discoveries(p), expected)
    assert not discoveries(np.full(3, np.nan)).any()


def test_p_values_of_attention_by_simulation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of labels drawn at the least share of careful answers, about 5 % have p-values below 0.05."""
    for name in ("MIN_CARE", "MAX_CARE"):
        monkeypatch.setattr(f"conal.metrics.suspicion.{name}", 0.4)
    ann, _, q = simulated("", seed=4, labels_per_instance=8, individual_strength=0.6)
    found, rng = left_out(ann, q), np.random.default_rng(0)
    proba = 0.4 * found.expected + 0.6 * found.habits[ann.annotators]
    crowds = [ann.replace(labels=draw_from_rows(proba, rng.random(len(proba)))) for _ in range(40)]
    p = np.array([attention(replace(found, crowd=crowd)).p_value for crowd in crowds])
    assert 0.03 < (p < 0.05).mean() < 0.08
    assert 0.4 < np.median(p) < 0.6


def small_crowd() -> tuple[Annotations, np.ndarray]:
    rng = np.random.default_rng(2)
    matrix = np.where(rng.random((40, 5)) < 0.7, rng.integers(3, size=(40, 5)), -1)
    crowd = Annotations.from_matrix(matrix, classes=range(3))
    return crowd, rng.dirichlet(np.ones(3), size=40)


def slow_matrices(crowd: Annotations, q: np.ndarray) -> np.ndarray:
    counts = np.zeros((5, 3, 3))
    for i, r, y in zip(crowd.tasks, crowd.annotators, crowd.labels, strict=True):
        counts[r, :, y] += q[i]
    pooled = counts.sum(0) + 0.5
    rows = counts + ROW_POOLING * pooled / pooled.sum(1, keepdims=True)
    return np.asarray(rows / rows.sum(2, keepdims=True))


@pytest.mark.parametrize("trained", [False, True])
def test_posteriors_without_a_label(trained: bool) -> None:
    crowd, q = small_crowd()
    f = np.random.default_rng(3).dirichlet(np.ones(3), size=40) if trained else None
    found = left_out(crowd, q, f)
    pi = slow_matrices(crowd, q)
    changes = np.zeros(5, dtype=int)
    for k, (i, r) in enumerate(zip(crowd.tasks, crowd.annotators, strict=True)):
        prior = q.mean(0) if f is None else np.maximum(f[i], 1e-3)
        others = prior.copy()
        for s, y in zip(crowd.annotators[crowd.tasks == i], crowd.labels[crowd.tasks == i], strict=True):
            others *= pi[s, :, y] if s != r else 1.0
        np.testing.assert_allclose(found.posterior[k], others / others.sum(), rtol=1e-6)
        changes[r] += others.argmax() != (others * pi[r, :, crowd.labels[k]]).argmax()
    np.testing.assert_array_equal(found.changes(), changes)
    assert changes.sum() > 5


def test_expected_agreement_of_pairs() -> None:
    crowd, q = small_crowd()
    found = left_out(crowd, q)
    pairs = find_copies(found, np.zeros(5, dtype=bool))
    pi, matrix = slow_matrices(crowd, q), crowd.to_matrix()
    assert len(pairs.first) > 3
    for k, (r, s) in enumerate(zip(pairs.first, pairs.second, strict=True)):
        tasks = np.flatnonzero((matrix[:, r] >= 0) & (matrix[:, s] >= 0))
        others = np.empty((len(tasks), 3))
        for row, i in enumerate(tasks):
            rest = [u for u in range(5) if u not in (r, s) and matrix[i, u] >= 0]
            joint = q.mean(0) * np.prod([pi[u, :, matrix[i, u]] for u in rest], axis=0)
            others[row] = joint / joint.sum()
        rows = []
        for u in (r, s):
            counts = PAIR_POOLING * found.typical
            counts = counts + np.stack([others[matrix[tasks, u] == y].sum(0) for y in range(3)], axis=1)
            rows.append(counts / counts.sum(1, keepdims=True))
        expected = (others @ (rows[0] * rows[1]).sum(1)).sum()
        assert pairs.expected[k] == pytest.approx(expected)
        assert (pairs.shared[k], pairs.agreed[k]) == (len(tasks), (matrix[tasks, r] == matrix[tasks, s]).sum())


def test_whom_to_flag_by_probabilities_of_a_false_alarm() -> None:
    rng = np.random.default_rng(0)
    for _ in range(30):
        rate = rng.random(12) ** 3
        k = max((k for k in range(1, 13) if np.sort(rate)[:k].mean() <= 0.05), default=0)
        expected = np.zeros(12, dtype=bool)
        expected[np.argsort(rate)[:k]] = True
        np.testing.assert_array_equal(likely(rate), expected)
    assert not likely(np.full(3, np.nan)).any()


def test_likelihoods_of_shares_and_turns_one_label_after_the_other() -> None:
    ann, truth, q = simulated("sleepers", seed=2)
    assert truth.adversaries is not None
    times = truth.adversaries.time
    found = left_out(ann, q, times=times)
    chances = _label_chances(found)
    usual = (np.bincount(ann.labels, minlength=6) + 1) / (ann.n_annotations + 6)
    for r in (0, 7):
        rows = sorted(np.flatnonzero(ann.annotators == r).tolist(), key=lambda k: times[k])
        own, n = [int(ann.labels[k]) for k in rows], len(rows)
        habit = [(own.count(y) - 1 + HABIT * usual[y]) / (n - 1 + HABIT) for y in own]
        careful = [float(found.posterior[k] @ found.typical[:, ann.labels[k]]) for k in rows]
        np.testing.assert_array_equal(dict(_labels_in_time(found))[r], rows)
        logs = np.array([[np.log(a * c + (1 - a) * h) for c, h in zip(careful, habit, strict=True)] for a in SHARES])
        found_logs = [_log_chances(chances[0][rows], chances[1][rows], a) for a in SHARES.tolist()]
        np.testing.assert_allclose(found_logs, logs, rtol=1e-12)
        by_share, before = _turns(logs, logs[0].sum())
        ways = [[logs[g, :t].sum() + logs[0, t:].sum() for t in range(5, n - 4)] for g in np.flatnonzero(BEFORE)]
        np.testing.assert_allclose(by_share, np.log(np.exp(np.array(ways)).mean(1)), rtol=1e-9)
        assert before == 5 + int(np.exp(np.array(ways)).sum(0).argmax())


def test_weights_of_a_mixture_are_where_em_stops() -> None:
    rng = np.random.default_rng(3)
    logs = np.log(rng.random((40, 4)) * [1.0, 0.5, 2.0, 1.0])
    posterior = _mixed(logs)
    weights = posterior.sum(0) + PSEUDO_PEOPLE
    weights /= weights.sum()
    again = np.exp(logs) * weights
    np.testing.assert_allclose(posterior, again / again.sum(1, keepdims=True), atol=1e-6)


def test_who_has_labels_without_a_time_is_not_said_to_have_turned() -> None:
    ann, truth, q = simulated("sleepers", seed=1)
    assert truth.adversaries is not None
    times = truth.adversaries.time.astype("datetime64[s]")
    turned = detected(ann, q, times).turned
    times[np.flatnonzero(ann.annotators == turned[0])[0]] = np.datetime64("NaT")
    assert detected(ann, q, times).turned.tolist() == turned[1:].tolist()


# ---------------------------------------------------------------- crowds


PEOPLE = ("careless", "turned", "exchange", "followers")


def people_named(found: Detections) -> set[int]:
    return set(np.concatenate([found.by_kind[kind] for kind in PEOPLE]).tolist())


@pytest.mark.parametrize("kind", ["spammers", "clickers", "ring", "followers", "sleepers"])
def test_who_means_harm_is_found(kind: str) -> None:
    ann, truth, q = simulated(kind, seed=1)
    assert truth.adversaries is not None
    found = detected(ann, q, truth.adversaries.time)
    assert people_named(found) == set(np.flatnonzero(truth.adversaries.kind == kind).tolist())
    assert not len(found.copies.first)
    lists = {"spammers": found.careless, "clickers": found.careless, "sleepers": found.turned}
    lists |= {"followers": found.followers}
    if kind == "ring":
        (ring,) = found.rings
        np.testing.assert_array_equal(ring.exchange, truth.pi_r[ring.members[0]].argmax(1))
    else:
        assert len(lists[kind]) == 4
    if kind == "sleepers":
        assert np.abs(found.before[found.turned] - 40).max() <= 12


def test_copies_are_found_and_count_once() -> None:
    ann, truth, q = simulated("copyists", seed=0)
    assert truth.adversaries is not None
    labels = left_out(ann, q)
    found = detect(labels)
    source, pairs = truth.adversaries.source, found.copies
    assert not people_named(found)
    for r, s in zip(pairs.first, pairs.second, strict=True):
        assert source[r] == s or source[s] == r or source[r] == source[s] >= 0
    assert set(np.flatnonzero(source >= 0)) <= set(pairs.first) | set(pairs.second)
    kept = found.trusted(labels)
    matrix = ann.select(kept).to_matrix()
    both = (matrix[:, pairs.first] >= 0) & (matrix[:, pairs.second] >= 0)
    assert not both.any()
    left = defended(ann, q).annotations
    right = [(DawidSkene(verbose=False).fit(each).codes_ == truth.z).mean() for each in (ann, left)]
    assert right[1] > right[0]


@pytest.mark.parametrize(
    "options", [{}, {"gate_scale": "wide", "proportion": 0.8, "common_strength": 0.6}, {"individual_strength": 0.6}]
)
def test_nobody_is_named_in_honest_crowds(options: dict[str, Any]) -> None:
    for seed in range(2):
        ann, _, q = simulated("", seed=seed, **options)
        labels = left_out(ann, q, times=np.random.default_rng(seed).permutation(ann.n_annotations))
        found = detect(labels)
        assert not any(map(len, found.by_kind.values()))
        assert found.trusted(labels).all()


def test_an_honest_expert_of_one_class_is_not_careless() -> None:
    """Who sees tasks of one class alone gives one label; that says nothing against them."""
    ann, truth, q = simulated("", seed=0)
    mine = (ann.annotators == 3) & (truth.z[ann.tasks] != 2)
    ann = ann.select(~mine)
    labels = np.where(ann.annotators == 3, 2, ann.labels)
    assert not any(map(len, detected(ann.replace(labels=labels), q).by_kind.values()))


def test_the_share_of_deliberate_mistakes_against_a_loop_over_labels() -> None:
    ann, _, q = simulated("followers", seed=2)
    labels = left_out(ann, q)
    found, mistakes = following(labels), common_mistakes(labels.typical, COMMON_MISTAKE)
    assert (mistakes != np.arange(6)).any()
    above, room, moments = np.zeros(20), np.zeros(20), []
    for k, (r, y) in enumerate(zip(ann.annotators, ann.labels, strict=True)):
        follow = np.zeros(6)
        for c in range(6):
            follow[mistakes[c]] += labels.posterior[k, c]
        usual = labels.posterior[k] @ labels.typical
        score = np.log((0.5 * follow + 0.5 * usual) / usual)
        above[r] += score[y] - usual @ score
        room[r] += follow @ score - usual @ score
        moments.append((score, follow, usual))
    np.testing.assert_allclose(found.share, above / room)
    most = np.clip(np.quantile(found.share, 0.75) + 0.2, 0.4, 0.75)
    mine = [(each, ann.labels[k]) for k, each in enumerate(moments) if ann.annotators[k] == 3]
    chances = [(most * follow + (1 - most) * usual, score, y) for (score, follow, usual), y in mine]
    z = sum(score[y] - p @ score for p, score, y in chances)
    z /= np.sqrt(sum(p @ score**2 - (p @ score) ** 2 for p, score, y in chances))
    assert found.p_value[3] == pytest.approx(norm.sf(z))


def test_without_a_common_mistake_nobody_follows_it() -> None:
    ann, truth, _ = simulated("", proportion=0.0, individual_strength=0.05)
    found = following(left_out(ann, np.eye(6)[truth.z]))
    assert np.isnan(found.share).all()
    assert np.isnan(found.p_value).all()
    assert common_mistakes(np.array([[0.95, 0.05], [0.3, 0.7]]), 0.1).tolist() == [0, 0]


def test_a_bias_towards_one_class_is_no_attack() -> None:
    """Who takes two classes for a third nearly always is named nothing; who follows mistakes to two classes is."""
    rng = np.random.default_rng(0)
    z = np.repeat(np.arange(3), 100)
    usual = np.array([[0.7, 0.3, 0.0], [0.0, 1.0, 0.0], [0.0, 0.3, 0.7]])
    circle = np.roll(np.eye(3), 1, 1)
    labels = np.stack([draw_from_rows(usual[z], rng.random(300)) for _ in range(8)] + [np.full(300, 1)], 1)
    crowd = Annotations.from_matrix(labels)
    assert not follows_all(left_out(crowd, np.eye(3)[z])).any()
    common = 0.7 * np.eye(3) + 0.3 * circle
    labels = np.stack([draw_from_rows(common[z], rng.random(300)) for _ in range(8)] + [circle.argmax(1)[z]], 1)
    assert np.flatnonzero(follows_all(left_out(Annotations.from_matrix(labels), np.eye(3)[z]))).tolist() == [8]


def test_labels_of_followers_are_left_out() -> None:
    ann, truth, q = simulated("followers", seed=1)
    assert truth.adversaries is not None
    bad = truth.adversaries.kind == "followers"
    left = defended(ann, q)
    assert not left.kept[bad[ann.annotators] & (ann.labels_per_task()[ann.tasks] > 2)].any()
    assert left.kept[~bad[ann.annotators]].all()
    assert "4 who follow the common mistakes" in str(left)


def test_rings_stay_for_matrices_and_go_for_votes() -> None:
    ann, truth, q = simulated("ring", seed=1)
    assert defended(ann, q).kept.all()
    votes = defended(ann, q, rings=False)
    assert not votes.kept[np.isin(ann.annotators, votes.detections.rings[0].members)].all()
    assert (votes.annotations.labels_per_task() > 0).all()  # no task loses its last label
    before, after = ((each.votes().argmax(1) == truth.z).mean() for each in (ann, votes.annotations))
    assert after > before + 0.05


@pytest.mark.parametrize("kind", ["spammers", "clickers", "ring", "followers", "copyists", "sleepers"])
def test_thirty_labels_are_enough(kind: str) -> None:
    """Where nearly everybody gave 30 labels or more, most are found who mean harm, and nearly nobody else."""
    harmful = found = false = 0
    for seed in range(20, 22):
        ann, truth, q = simulated(kind, seed=seed, n_annotators=35, turn_after=20)
        assert truth.adversaries is not None
        counts = counted(detected(ann, q, truth.adversaries.time), truth.adversaries)
        harmful, found, false = harmful + counts["harmful"], found + counts["found"], false + counts["false"]
    assert found >= 0.75 * harmful
    assert false <= 1
