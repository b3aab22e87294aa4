"""Updates of classifiers: they go on from what was learned, keep folds, and end near a refit."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import conal
from conal.data.annotations import Annotations
from conal.errors import InputError
from conal.parameters import training as plan
from conal.training.checkpoint import WarmStart

N, EARLY = 160, 120


def some(crowd: Annotations, kept: Any) -> Annotations:
    table = crowd.select(kept).to_table()
    return Annotations.from_triples(*(table[role] for role in ("task", "worker", "label")), classes=crowd.classes)


@pytest.fixture(scope="module")
def data() -> Any:
    made = conal.datasets.synthetic(n_train=N, n_classes=3, n_annotators=8, seed=3)
    crowd = made.annotations
    late = (crowd.tasks >= EARLY) | (crowd.annotators == 7) | (np.arange(crowd.n_annotations) % 9 == 0)
    return made, some(crowd, ~late), some(crowd, late)


def fitted(data: Any, method: str = "xconal", **settings: Any) -> Any:
    made, old, _ = data
    return conal.make(method, verbose=False, **{"epochs": 15, **settings}).fit(
        made.x[old.task_ids], old, task_ids=old.task_ids
    )


@pytest.mark.parametrize("method", ["xconal", "conal", "aggnet", "conal-em", "dl-mv", "dl-cl"])
def test_methods_of_every_kind_are_updated(data: Any, method: str) -> None:
    made, old, new = data
    clf = fitted(data, method, epochs=10)
    assert clf.update(made.x, new) is clf
    assert len(clf.task_ids_) == N
    assert len(clf.annotator_ids_) == 8
    assert clf.task_ids_[: old.n_tasks].tolist() == old.task_ids.tolist()
    assert np.isfinite(clf.probas_).all()
    assert np.abs(clf.probas_.sum(1) - 1).max() < 1e-4
    assert clf.annotator_confusion_.shape == (8, 3, 3)
    assert clf.score(made.test.x, made.test.y) > 0.6
    assert clf.metrics_["n_annotations"] == made.annotations.n_annotations
    assert [entry["kind"] for entry in clf.learned_from_] == ["fit", "update"]


def test_an_update_is_near_a_refit_and_shorter(data: Any) -> None:
    made, _, new = data
    clf = fitted(data, epochs=40).update(made.x, new)
    again = conal.make("xconal", verbose=False, epochs=40).fit(made.x, made.annotations)
    assert clf.metrics_["epochs"] == 8
    assert (clf.labels_[np.argsort(clf.task_ids_)] == again.labels_).mean() > 0.9
    assert abs(clf.score(made.test.x, made.test.y) - again.score(made.test.x, made.test.y)) < 0.05


def test_folds_of_known_tasks_stay_and_rows_of_annotators_move(data: Any) -> None:
    made, old, new = data
    clf = fitted(data)
    *_, before = clf.kept_.found
    state = {name: tensor.clone() for name, tensor in clf.model_.state_dict().items()}
    clf.update(made.x, new)
    instances, _, after = clf.kept_.found
    n = old.n_tasks
    assert torch.equal(after[0]["fold_of"][:n], before[0]["fold_of"])
    assert set(after[0]["fold_of"][n:].tolist()) <= set(range(5))
    rows = instances.take(np.arange(N)).numpy()
    assert np.array_equal(rows, made.x[clf.task_ids_].astype(np.float32))
    assert clf.model_.scaler.factor.equal(state["scaler.factor"])


def test_a_crowd_that_grows_large_keeps_its_networks(data: Any, tmp_path: Path, monkeypatch: Any) -> None:
    made, _, new = data
    clf = fitted(data, epochs=5)
    assert clf.model_.n_folds == 5
    monkeypatch.setattr(plan, "LARGE", EARLY + 1)
    clf.update(made.x, new)
    assert (clf.folds, clf.model_.n_folds) == (5, 5)
    clf.save(tmp_path / "m")
    np.testing.assert_array_equal(conal.load(tmp_path / "m").predict_proba(made.x), clf.predict_proba(made.x))


def test_a_warm_start_takes_over_every_tensor(data: Any) -> None:
    made, _old, _ = data
    clf = fitted(data, "conal", epochs=3, selection="last")
    other = fitted((made, made.annotations, None), "conal", epochs=1, selection="last", seed=5)
    before = {name: tensor.clone() for name, tensor in other.model_.state_dict().items()}
    WarmStart(clf.model_.state_dict(), {}).load(other.model_, made.annotations)
    wanted, found = clf.model_.state_dict(), other.model_.state_dict()
    networks = [name for name in wanted if name.startswith("backbone.")]
    assert networks
    for name, tensor in wanted.items():
        own = found[name][tuple(slice(size) for size in tensor.shape)]
        half = name in networks and tensor.is_floating_point()
        expected = (before[name] + tensor) / 2 if half else tensor
        assert torch.allclose(own, expected) or name == "labels_per_annotator", name
    assert found["labels_per_annotator"].tolist() == made.annotations.labels_per_annotator().tolist()


def test_folders_keep_the_data_if_asked(data: Any, tmp_path: Path) -> None:
    made, _, new = data
    clf = fitted(data, ensemble=2)
    clf.save(tmp_path / "with", keep_data=True)
    clf.save(tmp_path / "without")
    with pytest.raises(InputError, match=r"saved without its training data.*--keep-data"):
        conal.load(tmp_path / "without").update(made.x, new)
    loaded = conal.load(tmp_path / "with")
    assert np.array_equal(loaded.update(made.x, new).probas_, clf.update(made.x, new).probas_)
    loaded.save(tmp_path / "with", keep_data=True, overwrite=True)
    with pytest.raises(InputError, match="are known already"):
        conal.load(tmp_path / "with").update(made.x, new)
    with pytest.raises(InputError, match="does not contain its training data"):
        copy.deepcopy(clf).update(made.x, made.annotations)


def test_texts_keep_their_vocabulary() -> None:
    topics = {"a": "goal match team", "b": "bread oven flour"}
    tasks = [f"t{k}" for k in range(40)]
    labels = ["ab"[k % 2] for k in range(40)]
    texts = [f"{topics[label]} number{k}" for k, label in enumerate(labels)]
    import pandas as pd

    frame = pd.DataFrame({"task": tasks, "text": texts})
    rows = [(task, worker, label) for task, label in zip(tasks, labels, strict=True) for worker in ("x", "y", "z")]
    crowd = pd.DataFrame(rows, columns=["task", "worker", "label"])
    clf: Any = conal.make("xconal", epochs=5, verbose=False).fit(frame[:30], crowd[:90])
    before = clf.text_features_.components_.copy()
    clf.update(frame[30:], crowd[90:])
    assert np.array_equal(clf.text_features_.components_, before)
    assert len(clf.task_ids_) == 40
    assert (clf.predict(frame["text"].tolist()) == labels).mean() > 0.9


def test_an_index_that_is_no_ids_counts_for_nothing(data: Any) -> None:
    """Rows are numbered if the index does not have the new tasks, and go by it if it has."""
    made, _, new = data
    frame = pd.DataFrame(made.x)
    expected = fitted(data, "dl-mv", epochs=5).update(made.x, new).predict_proba(made.x)
    for features in (frame.set_axis(range(5000, 5000 + N)), frame[::-1]):
        clf = fitted(data, "dl-mv", epochs=5).update(features.add_prefix("f"), new)
        np.testing.assert_array_equal(clf.predict_proba(made.x), expected)


@pytest.mark.filterwarnings("ignore::conal.errors.DataWarning")  # true labels that contradict every vote
def test_what_cannot_be_updated_says_so(data: Any) -> None:
    made, old, new = data
    clf = fitted(data, epochs=2)
    with pytest.raises(InputError, match="known already"):
        clf.update(made.x, some(old, np.arange(old.n_annotations) < 5))
    with pytest.raises(InputError, match=r"tasks are new .*pass their features"):
        clf.update(None, new)
    with pytest.raises(InputError, match="have no features"):
        clf.update(made.x[:EARLY], new)
    gold = {int(task): int(made.annotations.classes[0]) for task in old.task_ids[:3]}
    known = conal.make("xconal", verbose=False, epochs=2)
    known.fit(made.x[old.task_ids], old, task_ids=old.task_ids, true_labels=gold)
    with pytest.raises(InputError, match="trained with true labels"):
        known.update(made.x, new)
