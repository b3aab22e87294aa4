"""Ensembles of any method: averages of their members, saved, loaded and resumed like a single model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import conal
from conal.datasets import CrowdDataset
from conal.errors import InputError
from conal.estimator import results
from conal.methods.ensemble import Ensemble
from conal.training.batches import CrowdBatches, Instances

pytestmark = pytest.mark.filterwarnings("ignore::conal.errors.ConalWarning")
FAST: dict[str, Any] = {"epochs": 4, "verbose": False, "seed": 3}


@pytest.fixture(scope="module")
def data() -> CrowdDataset:
    return conal.datasets.synthetic(n_train=80, n_classes=3, n_annotators=5, seed=1)


@pytest.mark.parametrize("name", ["dl-mv", "conal", "aggnet", "xconal", "doctor-net"])
def test_an_ensemble_is_the_mean_of_its_members(name: str, data: CrowdDataset) -> None:
    clf = conal.make(name, ensemble=3, **FAST).fit(data.x, data.annotations)
    single = conal.make(name, **FAST).fit(data.x, data.annotations)
    model = clf.model_
    assert isinstance(model, Ensemble)
    each = [results.class_probas(member, Instances(data.x)) for member in model.each]
    np.testing.assert_allclose(each[0], single.predict_proba(data.x), atol=1e-7)  # the first is the usual fit
    assert np.abs(each[0] - each[1]).max() > 1e-3
    np.testing.assert_allclose(clf.predict_proba(data.x), np.mean(each, axis=0), atol=1e-6)
    batches = CrowdBatches(Instances(data.x), data.annotations, 32)
    posteriors = [results.predict_training_tasks(member, batches).posterior for member in model.each]
    np.testing.assert_allclose(clf.probas_, np.mean(posteriors, axis=0), atol=1e-6)
    own = np.mean([member.confusion_matrices()[1].detach().numpy() for member in model.each], axis=0)
    np.testing.assert_allclose(clf.annotator_confusion_, own, atol=1e-6)
    likelihoods = [np.exp(member.score_annotations(next(batches.in_order())).numpy()) for member in model.each]
    mean = np.log(np.mean(likelihoods, axis=0)).mean()
    np.testing.assert_allclose(clf.score(data.x, data.annotations), mean, rtol=1e-3)
    assert clf.metrics_["ensemble"] == 3
    assert clf.metrics_["epochs"] == max(row["epoch"] for row in clf.history_) == len(clf.history_) / 3
    assert len(clf.metrics_["best_epochs"]) == 3
    assert [row["member"] for row in clf.history_] == [1] * 4 + [2] * 4 + [3] * 4


@pytest.mark.parametrize("name", ["conal", "xconal", "max-mig"])
def test_an_ensemble_is_saved_and_loaded(name: str, data: CrowdDataset, tmp_path: Path) -> None:
    prior = {0: 0.4, 1: 0.3, 2: 0.3}
    clf = conal.make(name, ensemble=2, class_prior=prior, **FAST).fit(data.x, data.annotations)
    clf.save(tmp_path / "model")
    loaded = conal.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(data.x), clf.predict_proba(data.x))
    np.testing.assert_array_equal(loaded.infer(data.x, data.annotations), clf.infer(data.x, data.annotations))
    np.testing.assert_allclose(loaded.probas_, clf.probas_, rtol=1e-12)
    assert dict(loaded.get_params()["class_prior"]) == prior
    assert loaded.metrics_ == clf.metrics_


def test_an_interrupted_ensemble_goes_on(data: CrowdDataset, tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    straight = conal.make("conal", ensemble=2, **FAST).fit(data.x, data.annotations)
    conal.make("conal", ensemble=2, **(FAST | {"epochs": 2})).fit(data.x, data.annotations, checkpoint=path)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["checkpoint", "checkpoint.2"]
    again = conal.make("conal", ensemble=2, **FAST).fit(data.x, data.annotations, checkpoint=path, resume=True)
    np.testing.assert_array_equal(again.predict_proba(data.x), straight.predict_proba(data.x))


def test_an_ensemble_of_none_is_refused(data: CrowdDataset) -> None:
    with pytest.raises(InputError, match="ensemble must be a whole number of at least 1, not 0"):
        conal.make("dl-mv", ensemble=0).fit(data.x, data.annotations)
