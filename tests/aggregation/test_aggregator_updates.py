"""Updates of aggregators: old and new labels together, from where the fit was."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from conal.aggregation import base, make
from conal.aggregation.base import Aggregator
from conal.data.annotations import Annotations
from conal.data.joining import join_annotations
from conal.errors import InputError
from conal.parameters import parameters_of

UPDATABLE = [name for name in base.aggregators.names() if name not in ("gold-majority-vote", "kos", "ordinal")]
FEW: dict[str, dict[str, Any]] = {
    "cbcc": {"n_restarts": 1},
    "group-confusion": {"groups": 2},
    "common-confusion": {"prior_individual": 0.3},
    "minimax-entropy": {"gamma": 1.0},
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
    verbose = {"verbose": False} if "verbose" in parameters_of(base.aggregators.get(name)) else {}
    return make(name, **verbose, **FEW.get(name, {}), **parameters)


@pytest.mark.parametrize("name", UPDATABLE)
def test_updates_end_near_a_fit_to_all_labels(name: str) -> None:
    parts, truth = crowds()
    model = fitted(name).fit(parts[0])
    for part in parts[1:]:
        model.update(part)
    refit = fitted(name).fit(join_annotations(parts))
    order = np.argsort(model.task_ids_)
    assert model.task_ids_[order].tolist() == refit.task_ids_.tolist()
    share = (model.labels_[order] == refit.labels_).mean()
    assert share == 1.0 if name == "majority-vote" else share > 0.97
    assert np.abs(model.probas_.sum(1) - 1).max() < 1e-9
    workers = np.argsort(model.annotator_ids_)
    assert np.abs(model.confusion_[workers] - refit.confusion_).mean() < (1e-12 if name == "majority-vote" else 0.04)
    assert (model.labels_[order] == truth[refit.task_ids_]).mean() > 0.85


def test_em_starts_where_it_was() -> None:
    parts, _ = crowds()
    model: Any = fitted("dawid-skene").fit(parts[0])
    first = model.n_iter_
    model.update(parts[1].select(np.arange(parts[1].n_annotations) < 3))
    assert model.start_ == "previous fit"
    assert model.n_iter_ < first
    assert model.fit(parts[0]).start_ == "votes"


def test_a_refused_update_changes_nothing() -> None:
    parts, _ = crowds()
    info = pa.table({"worker": parts[0].annotator_ids.tolist(), "group": ["all"] * parts[0].n_annotators})
    model = fitted("dawid-skene").fit(parts[0], annotator_info=info)
    before = dict(vars(model))
    with pytest.raises(InputError, match="annotators are missing"):
        model.update(parts[1])
    assert vars(model) == before


def test_a_stated_group_speaks_for_a_new_member() -> None:
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


def test_what_cannot_be_updated_says_so() -> None:
    parts, _ = crowds()
    with pytest.raises(InputError, match="not fitted yet"):
        make("dawid-skene").update(parts[1])
    model = fitted("majority-vote").fit(parts[0]).update(parts[1])
    with pytest.raises(InputError, match="are known already"):
        model.update(parts[1])
    with pytest.raises(InputError, match="known already"):
        model.update(parts[0])
