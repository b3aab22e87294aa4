"""Updates of aggregators: what they touch, how near they are to a refit, and what they say about drift."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy
from scipy.special import xlogy

from conal.aggregation import base, make
from conal.aggregation import confusion as matrices
from conal.aggregation.base import Aggregator
from conal.aggregation.counts import FewVotes, Votes, softmax
from conal.data.annotations import Annotations
from conal.data.joining import join_annotations
from conal.errors import DriftWarning, InputError

pytestmark = pytest.mark.filterwarnings("ignore::conal.errors.DriftWarning")

UPDATABLE = [name for name in base.aggregators.names() if base.aggregators.get(name).updatable]
MODELS = [name for name in UPDATABLE if name != "majority-vote"]
FEW: dict[str, dict[str, Any]] = {
    "cbcc": {"n_restarts": 1},
    "group-confusion": {"groups": 2},
    "common-confusion": {"prior_individual": 0.3},
}


def crowds(seed: int = 0, parts: int = 3, n: int = 240, R: int = 12, C: int = 3) -> tuple[list[Annotations], Any]:
    """A crowd whose labels come in parts: most in the first, with new tasks and annotators in all; and the truth."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(C, size=n)
    skill = np.linspace(0.55, 0.9, R)
    task, worker = np.divmod(np.flatnonzero(rng.random(n * R) < 0.4), R)
    right = rng.random(len(task)) < skill[worker]
    label = np.where(right, truth[task], (truth[task] + 1 + (rng.random(len(task)) < 0.3)) % C)
    late = (task >= n - 20) | (worker >= R - 2) | (rng.random(len(task)) < 0.05)
    part = np.where(late, 1 + rng.integers(parts - 1, size=len(task)), 0)
    return [
        Annotations.from_triples(task[part == k], worker[part == k], label[part == k], classes=range(C))
        for k in range(parts)
    ], truth


def fitted(name: str, **parameters: Any) -> Aggregator:
    verbose = {"verbose": False} if "verbose" in base.aggregators.get(name).declared else {}
    return make(name, **verbose, **FEW.get(name, {}), **parameters)


def full_e_step(model: Any) -> list[int]:
    """The labels of a full E-step by the present matrices, one task after the other; -1 for a tie."""
    rho, pi_r = model._log_parts(model.learned_.parameters)
    crowd, found = model.annotations_, []
    for i in range(crowd.n_tasks):
        scores = rho.copy()
        for a in range(crowd.indptr[i], crowd.indptr[i + 1]):
            scores = scores + pi_r[crowd.annotators[a], :, crowd.labels[a]]
        first, second = np.sort(scores)[::-1][:2]
        found.append(-1 if first - second < 1e-12 else int(scores.argmax()))
    return found


@pytest.mark.parametrize("name", UPDATABLE)
def test_updates_end_near_a_refit_and_tell_what_differs(name: str) -> None:
    parts, truth = crowds()
    model = fitted(name).fit(parts[0])
    for part in parts[1:]:
        model.update(part)
        if name in MODELS:
            wanted = full_e_step(model)
            differ = np.mean([code not in (-1, own) for code, own in zip(wanted, model.codes_, strict=True)])
            ties = wanted.count(-1) / len(wanted)
            assert differ <= model.stale_share_ <= differ + ties
    refit = fitted(name).fit(join_annotations(parts))
    order = np.argsort(model.task_ids_)
    assert model.task_ids_[order].tolist() == refit.task_ids_.tolist()
    share = (model.labels_[order] == refit.labels_).mean()
    assert share == 1.0 if name == "majority-vote" else share > 0.97
    assert np.abs(model.probas_.sum(1) - 1).max() < 1e-9
    workers = np.argsort(model.annotator_ids_)
    assert np.abs(model.confusion_[workers] - refit.confusion_).mean() < (1e-12 if name == "majority-vote" else 0.04)
    assert (model.labels_[order] == truth[refit.task_ids_]).mean() > 0.85


@pytest.mark.parametrize("name", ["dawid-skene", "one-coin", "bayes-dawid-skene"])
def test_only_touched_tasks_and_annotators_change(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    parts, _ = crowds()
    model: Any = fitted(name).fit(parts[0])
    before = model.probas_.copy(), model.learned_.parameters.pi_r.copy(), model.annotations_
    few = parts[1].select(np.arange(parts[1].n_annotations) < 3)
    few = Annotations.from_triples(
        *(few.to_table()[role].to_pylist() for role in ("task", "worker", "label")), classes=range(3)
    )
    read: list[int] = []
    whole = matrices._inferred

    def counted(votes: Votes, *more: Any) -> Any:
        read.append(len(votes.cells))
        return whole(votes, *more)

    monkeypatch.setattr(matrices, "_inferred", counted)
    model.update(few)
    crowd = model.annotations_
    touched = np.isin(crowd.task_ids, few.task_ids)
    rows = int(crowd.labels_per_task()[touched].sum())
    assert set(read) == {rows}
    assert model.n_touched_ == rows < crowd.n_annotations / 20
    assert len(read) == model.n_sweeps_ + 1
    n = len(before[0])
    assert np.array_equal(model.probas_[:n][~touched[:n]], before[0][~touched[:n]])
    theirs = np.unique(crowd[np.flatnonzero(touched)].annotators)
    others = np.setdiff1d(np.arange(len(before[1])), theirs)
    assert len(others)
    assert np.array_equal(model.learned_.parameters.pi_r[others], before[1][others])
    assert not np.array_equal(model.learned_.parameters.pi_r[theirs[0]], before[1][theirs[0]])


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("untouched", [0, 1])
def test_an_update_may_touch_every_task(name: str, untouched: int) -> None:
    """One new annotator labels all of them: nothing is left to begin with, and a refit is still near."""
    parts, truth = crowds()
    old = join_annotations(parts)
    rng = np.random.default_rng(1)
    tasks = np.arange(old.n_tasks - untouched)
    labels = np.where(rng.random(len(tasks)) < 0.8, truth[tasks], (truth[tasks] + 1) % 3)
    new = Annotations.from_triples(tasks, np.full(len(tasks), 99), labels, classes=range(3))
    updated = fitted(name).fit(old)
    before = np.mean(updated.codes_ == truth)
    updated.update(new)
    refit = fitted(name).fit(join_annotations([old, new]))
    assert np.mean(updated.codes_ == truth) > before
    assert np.mean(updated.codes_ == refit.codes_) > 0.97


def test_the_kept_counts_are_those_of_the_posterior() -> None:
    parts, _ = crowds()
    model: Any = fitted("dawid-skene").fit(parts[0])
    for part in parts[1:]:
        model.update(part)
    sums = model.learned_.sums
    assert np.allclose(sums.counts, Votes(model.annotations_).counts(model.probas_), atol=1e-8)
    assert np.allclose(sums.shares, model.probas_.sum(0))
    assert sums.n_tasks == len(model.probas_)


def test_no_sweep_lowers_the_objective(monkeypatch: pytest.MonkeyPatch) -> None:
    parts, _ = crowds()
    monkeypatch.setattr(matrices, "SETTLED", 0.0)
    reached = []
    for sweeps in range(1, 8):
        monkeypatch.setattr(matrices, "SWEEPS", sweeps)
        model: Any = fitted("dawid-skene").fit(parts[0]).update(parts[1])
        counts, shares, _ = model.learned_.sums
        rho, pi_r = model.learned_.parameters
        reached.append(xlogy(counts, pi_r).sum() + xlogy(shares, rho).sum() - xlogy(model.probas_, model.probas_).sum())
    assert (np.diff(reached) > -1e-6).all()
    assert reached[-1] > reached[0]


@pytest.mark.parametrize("name", MODELS)
def test_new_annotators_are_first_heard_by_what_is_common(name: str) -> None:
    parts, _ = crowds()
    model: Any = fitted(name).fit(parts[0])
    counts = model._sums_of(parts[0]).counts
    parts_of_all = model._first_parts(
        model._newcomers(model.learned_.parameters, counts, 2), np.concatenate([counts, np.zeros((2, 3, 3))])
    )
    known, (one, two) = parts_of_all.pi_r[:-2], np.exp(parts_of_all.pi_r[-2:])
    pooled = counts.sum(0) / counts.sum((0, 2))[:, None]
    assert np.allclose(one, two)
    assert np.abs(one / one.sum(1, keepdims=True) - pooled).max() < 0.15
    assert len(known) == parts[0].n_annotators


def test_a_stated_group_speaks_for_a_new_member() -> None:
    import pyarrow as pa

    parts, _ = crowds()
    names = sorted({*parts[0].annotator_ids.tolist(), *parts[1].annotator_ids.tolist()})
    info = pa.table({"worker": names, "group": ["few" if name % 2 else "many" for name in names]})
    known = info.filter(pa.array([name in parts[0].annotator_ids for name in names]))
    model: Any = make("group-confusion", verbose=False)
    model.fit(parts[0], annotator_info=known).update(parts[1], annotator_info=info)
    for name, group in zip(model.annotator_ids_.tolist(), model.group_of_.tolist(), strict=True):
        assert model.groups_[group] == ("few" if name % 2 else "many")


def test_true_labels_stay_certain_and_a_known_label_is_replaced() -> None:
    parts, truth = crowds()
    known = {int(task): int(truth[task]) for task in parts[0].task_ids[:30]}
    model = fitted("dawid-skene").fit(parts[0], true_labels=known).update(parts[1])
    assert (model.probas_[np.arange(30), [known[task] for task in model.task_ids_[:30]]] == 1).all()
    table = parts[0].to_table().slice(0, 1).to_pylist()[0]
    other = (table["label"] + 1) % 3
    with pytest.warns(UserWarning, match="1 labels take the place"):
        model.update(Annotations.from_triples([table["task"]], [table["worker"]], [other], classes=range(3)))
    found = {(row["task"], row["worker"]): row["label"] for row in model.annotations_.to_table().to_pylist()}
    assert found[table["task"], table["worker"]] == other


def test_drift_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    parts, _truth = crowds()
    model = fitted("dawid-skene").fit(parts[0])
    # A known annotator now says the opposite, on new tasks whose truth all others know.
    liar, n = int(parts[0].annotator_ids[-1]), 150
    rows = [(1000 + k, worker, k % 3) for k in range(n) for worker in (0, 1, 2, 3)]
    rows += [(1000 + k, liar, (k + 1) % 3) for k in range(n)]
    with pytest.warns(DriftWarning, match="a refit is due"):
        model.update(Annotations.from_triples(*zip(*rows, strict=True), classes=range(3)))
    assert model.stale_share_ > 0.005


def test_what_cannot_be_updated_says_so() -> None:
    parts, _ = crowds()
    with pytest.raises(InputError, match=r"glad cannot be updated.*fit old and new labels together"):
        make("glad", verbose=False, n_iter=2, tol=1e9).fit(parts[0]).update(parts[1])
    with pytest.raises(InputError, match="omega='annotation'"):
        make("common-confusion", verbose=False, omega="annotation", prior_individual=1.0).fit(parts[0]).update(parts[1])
    with pytest.raises(InputError, match="not fitted yet"):
        make("dawid-skene").update(parts[1])
    model = fitted("majority-vote").fit(parts[0]).update(parts[1])
    with pytest.raises(InputError, match="are known already"):
        model.update(parts[1])
    with pytest.raises(InputError, match="known already"):
        model.update(parts[0])


def test_products_without_scipy_are_the_same_to_the_bit() -> None:
    (crowd, *_), _ = crowds(parts=2)
    crowd = crowd.select(crowd.tasks % 7 != 0)  # some tasks have no label
    rng = np.random.default_rng(0)
    posterior, weights = rng.dirichlet([1.0] * 3, size=crowd.n_tasks), rng.random(crowd.n_annotations)
    matrices = np.log(rng.dirichlet([1.0] * 3, size=(crowd.n_annotators, 3)))
    assert "scipy.sparse" in sys.modules  # so that Votes uses it
    few, all_ = FewVotes(crowd), Votes(crowd)
    np.testing.assert_array_equal(few.counts(posterior), all_.counts(posterior))
    np.testing.assert_allclose(few.counts(posterior, weights), all_.counts(posterior, weights), rtol=1e-14)
    np.testing.assert_array_equal(few.log_evidence(matrices), all_.log_evidence(matrices))
    np.testing.assert_array_equal(
        softmax(few.log_evidence(matrices)), scipy.special.softmax(few.log_evidence(matrices), 1)
    )


def test_an_update_of_dawid_skene_does_not_load_scipy(tmp_path: Path) -> None:
    (first, second), _ = crowds(parts=2)
    fitted("dawid-skene").fit(first).save(tmp_path / "crowd")
    second.to_table().to_pandas().to_csv(tmp_path / "new.csv", index=False)
    script = (
        "import sys; from conal.cli import main; sys.argv = ['conal', 'update', 'crowd', 'new.csv', '--quiet']\n"
        "try: main()\nfinally: print([name for name in ('scipy.special', 'scipy.sparse') if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
