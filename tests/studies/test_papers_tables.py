"""Tables 1 to 3, the sweeps and the authors' loop: which runs they have, and rows that only studies have."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch

from conal.datasets import CrowdDataset, synthetic
from conal.errors import InputError
from conal.methods.cross_conal import CrossCoNALMethod
from studies import authors_loop, sweeps, table_1, table_2, table_3
from studies.crowds import load
from studies.fits import TWO_STAGES, every_method, fit, two_stages
from studies.runs import Options, Setting
from studies.tables import Row, group_by

SMALL: dict[str, Any] = {"n_train": 80, "n_valid": 20, "n_test": 20, "n_classes": 3, "n_annotators": 5}


def load_or_skip(name: str) -> CrowdDataset:
    try:
        return load(name, {})
    except InputError as absent:
        pytest.skip(str(absent))


def test_every_method_has_nine_points_of_search() -> None:
    settings = [each for each in table_1.runs(Options(seeds=1)) if each["part"] == "table-1"]
    found = Counter((each["dataset"], each["protocol"], each["row"]) for each in settings)
    assert set(found.values()) == {9, 1}
    assert {row for (_, _, row), n in found.items() if n == 1} == {TWO_STAGES}
    assert {row for _, _, row in found} == {*every_method(), TWO_STAGES}
    for study in (table_2, table_3):
        points = Counter((each["dataset"], each["protocol"], each["row"]) for each in study.runs(Options(seeds=1)))
        assert set(points.values()) == {9}


def rows_of_search(**scores: list[float]) -> list[Row]:
    """A row per seed of each point of one grid, with these validation scores."""
    place = {"dataset": "labelme", "protocol": "gold", "row": "dl-mv", "method": "dl-mv"}
    return [
        place | {"parameters": json.dumps({"lr": point}), "seed": seed, "best_score": score}
        for point, some in scores.items()
        for seed, score in enumerate(some)
    ]


def test_the_chosen_points_get_more_seeds_which_choose_nothing() -> None:
    good, bad = [0.8] * 5, [0.7] * 5
    tables = {"table-1": rows_of_search(a=bad, b=good), "fair-trial": []}
    further = table_1.more(tables, Options())
    assert [each["seed"] for each in further] == list(range(5, 20))
    assert {each["parameters"]["lr"] for each in further} == {"b"}
    assert not table_1.more(tables, Options(seeds=5))
    # The further seeds are worse than the other point, which stays as it is.
    (chosen,) = table_1.chosen(rows_of_search(a=bad, b=good + [0.1] * 15)).values()
    assert [row["seed"] for row in chosen] == list(range(20))


def test_further_settings_are_those_of_the_search_with_other_seeds() -> None:
    search = table_1.runs(Options(methods=("dl-mv",), datasets=("labelme",)))
    rows = [each | {"parameters": json.dumps(each["parameters"]), "best_score": 0.5} for each in search]
    (first, *_) = table_1.more({"table-1": rows}, Options())
    assert first == search[0] | {"seed": 5}


def test_lda_behind_dawid_skene_without_true_labels() -> None:
    """Separated classes and good annotators: all is right. Of one class alone, it is predicted."""
    data = synthetic(**SMALL, common_strength=0.1, individual_strength=0.1, separation=6.0, seed=1)
    row, predicted = two_stages(data)
    assert data.test is not None
    np.testing.assert_array_equal(predicted, data.test.y)
    assert row["test_accuracy"] == 1


@pytest.mark.parametrize(("name", "accuracy"), [("labelme", 88.1), ("music", 62.7)])
def test_lda_behind_dawid_skene_on_people(name: str, accuracy: float) -> None:
    row, _ = two_stages(load_or_skip(name))
    assert 100 * row["test_accuracy"] == pytest.approx(accuracy, abs=0.4)


def test_the_cross_fitted_aggnet_is_xconal_without_the_papers_sources() -> None:
    setting: Setting = {"dataset": "synthetic", "data": SMALL, "protocol": "last", "seed": 0}
    setting |= {"method": "xaggnet", "parameters": {"epochs": 2}}
    clf = fit(setting).clf
    assert (clf.method, clf.get_params()["confusion"]) == ("xconal", "pooled")
    model = clf.model_
    assert isinstance(model, CrossCoNALMethod)
    assert not model.noise_in_use.learn_omega
    assert not model.noise.learn_omega


@pytest.mark.parametrize(("method", "times"), [("dl-cl", 5), ("dl-cl-over", 10), ("conal", 6)])
def test_noise_layers_have_as_many_parameters_as_the_paper_says(method: str, times: int) -> None:
    """R C^2, 2 R C^2 and (R + 1) C^2."""
    setting: Setting = {"dataset": "synthetic", "data": SMALL, "protocol": "last", "seed": 0}
    found = fit(setting | {"method": method, "parameters": {"epochs": 1}})
    assert table_3.noise_parameters(found.clf) == times * 3**2


def test_the_sweeps_have_both_ranges_and_the_most_extreme_case() -> None:
    settings = sweeps.runs(Options(methods=("conal", "dl-mv")))
    cells = group_by(settings, "part", "gate", "varies")
    for place in [("synthetic", "paper"), ("synthetic", "effects"), ("cifar10", "paper")]:
        (strength, proportion) = {
            (each["data"]["common_strength"], each["data"]["proportion"]) for each in cells[*place, "extreme"]
        }.pop()
        assert (strength, proportion) == (0.6, 0.7)
        assert {each["data"]["proportion"] for each in cells[*place, "proportion"]} == {0.0, 0.3, 0.4, 0.5, 0.6, 0.7}
    assert {(each["gate"], each["data"]["gate_scale"]) for each in settings} == {
        ("paper", "paper"),
        ("effects", "wide"),
    }
    ends = [each for each in cells["cifar10", "paper", "strength"] if each["value"] in (0.4, 0.8)]
    seeds = Counter((each["method"], each["common_type"], each["value"]) for each in ends)
    assert {(place[0], n) for place, n in seeds.items()} == {("conal", 20), ("dl-mv", 3)}


def test_methods_are_compared_on_the_crowds_that_both_have() -> None:
    ours = [{"seed": seed, "test_accuracy": 0.5 + seed} for seed in (3, 0, 1)]
    theirs = [{"seed": seed, "test_accuracy": 0.1 + seed} for seed in (0, 1, 2)]
    assert sweeps._on_the_same(ours, theirs) == ([0.5, 1.5], [0.1, 1.1])


# ---------------------------------------------------------------- the authors' loop


def test_the_authors_loss_by_hand() -> None:
    """Logits of both layers are mixed; labels that are not there do not count; distance is rewarded."""
    torch.manual_seed(0)
    model = authors_loop.Model("conal", 4, 3, 2).eval()
    assert model.own is not None
    assert model.common is not None
    assert model.gate is not None
    with torch.no_grad():
        model.own.add_(0.3 * torch.randn_like(model.own))
        x, labels = torch.randn(2, 4), torch.tensor([[0, -1], [2, 1]])
        f, omega = model.classifier(x), model.gate(x)
        total = 0.0
        for i, r in ((0, 0), (1, 0), (1, 1)):
            logits = omega[i, r] * (f[i] @ model.common) + (1 - omega[i, r]) * (f[i] @ model.own[r])
            total -= float(logits.log_softmax(0)[labels[i, r]])
        distance = sum(float(torch.linalg.norm(model.own[r] - model.common)) for r in range(2))
        assert float(model.loss(x, labels)) == pytest.approx(total / 3 - 1e-5 * distance, rel=1e-5)


def test_the_authors_gate_is_not_bound() -> None:
    """Embeddings of instances have any length, so that omega leaves the paper's range, 0.27 to 0.73."""
    torch.manual_seed(0)
    omega = authors_loop.Gate(4, 6)(20 * torch.randn(50, 4))
    assert float(omega.min().detach()) < 0.2
    assert float(omega.max().detach()) > 0.8


def test_the_authors_optimiser_is_new_in_every_epoch() -> None:
    """Adam's first step moves every parameter by the learning rate; with kept moments, later steps would differ."""
    torch.manual_seed(0)
    model = authors_loop.Model("dl-cl", 4, 3, 2)
    assert model.own is not None
    x, labels = torch.randn(8, 4), torch.randint(3, (8, 2))
    before = model.own.detach().clone()
    for _ in authors_loop._epochs(model, x, labels, {"epochs": 3, "lr": 0.01}):
        moved = (model.own.detach() - before).abs()
        np.testing.assert_allclose(moved[moved > 1e-6], 0.01, rtol=1e-2)
        before = model.own.detach().clone()
