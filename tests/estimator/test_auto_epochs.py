"""The length of training follows the number of tasks, unless the user states it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone

import conal
from conal.errors import InputError
from conal.estimator.results import model_section
from conal.methods import Problem
from conal.methods.cross_conal import CrossCoNALMethod
from conal.networks import MLP
from conal.parameters.training import Settings, plan, planned_epochs
from conal.report.page import template
from conal.training.loop import make_scheduler

N, C = 4_000, 2
RNG = np.random.default_rng(0)
TRUTH = RNG.integers(0, C, N)
X = (2 * np.eye(C)[TRUTH] + RNG.normal(size=(N, C))).astype(np.float32)
CROWD = conal.Annotations.from_matrix(np.where(RNG.random((N, 3)) < 0.8, TRUTH[:, None], 1 - TRUTH[:, None]))
FAST: dict[str, Any] = {"batch_size": 8_000, "hidden": (2,), "verbose": False, "selection": "last"}
EPOCHS = planned_epochs("auto", N)


def test_a_thousand_tasks_take_a_hundred_epochs_and_more_tasks_fewer() -> None:
    assert planned_epochs("auto", 1_000) == 100
    sizes = [1, 50, 300, 1_000, 2_000, 4_000, 20_000, 200_000, 1_000_000]
    epochs = [planned_epochs("auto", size) for size in sizes]
    assert epochs == sorted(epochs, reverse=True)
    assert epochs[5:7] == [62, 12]
    assert epochs[-1] == epochs[-2] == 5  # from some size on, cost grows as the data do


def test_steps_never_become_fewer_with_more_tasks() -> None:
    sizes = np.unique(np.geomspace(2_500, 1_000_000, 200).astype(int))
    epochs = np.array([planned_epochs("auto", size) for size in sizes.tolist()])
    rounding = 0.5
    assert (((epochs + rounding) * sizes)[1:] > ((epochs - rounding) * sizes)[:-1]).all()


@pytest.mark.parametrize(
    ("n_tasks", "epochs", "due"),
    [
        (20_000, "auto", [2, 4, 6, 8, 10, 12]),
        (1_000_000, "auto", [1, 3, 5]),
        (20_000, 12, list(range(2, 13))),
        (1_000, "auto", list(range(20, 101, 5))),
    ],
)
def test_large_data_have_an_e_step_after_every_second_epoch(n_tasks: int, epochs: Any, due: list[int]) -> None:
    problem = Problem((2,), C, 3, n_tasks, torch.ones(3, dtype=torch.int64))
    method = CrossCoNALMethod(problem, MLP(2, C), epochs=epochs)
    assert sorted(method.due) == due


def test_a_stated_number_is_taken_as_it_is() -> None:
    assert plan(Settings(epochs=50), 20_000) == (50, 5, "constant", 1)
    assert plan(Settings(epochs=50, warmup_epochs=0, schedule="cosine"), 20_000) == (50, 0, "cosine", 1)
    assert plan(Settings(warmup_epochs=3), 1_000) == (100, 3, "constant", 1)
    assert plan(Settings(schedule="constant"), 20_000).schedule == "constant"


def test_the_warm_up_is_a_share_of_the_planned_epochs() -> None:
    assert plan(Settings(), 1_000) == (100, 5, "constant", 1)
    epochs, warmup, schedule, _ = plan(Settings(), N)
    assert warmup == pytest.approx(epochs / 20)
    assert (epochs, schedule) == (EPOCHS, "constant")
    large = plan(Settings(), 20_000)
    assert (large.epochs, large.schedule) == (12, "cosine")
    assert large.warmup_epochs == pytest.approx(0.6)


def test_the_learning_rate_decays_along_the_planned_epochs() -> None:
    warmup = 3
    clf = conal.make("dl-mv", warmup_epochs=warmup, schedule="cosine", **FAST).fit(X, CROWD)
    done = np.arange(EPOCHS)
    rises = np.minimum(1.0, (done + 1) / warmup)  # the last batch of an epoch
    expected = clf.lr * rises * (0.5 * (1 + np.cos(np.pi * done / EPOCHS)) + 0.02)
    assert [row["lr"] for row in clf.history_] == pytest.approx(expected.tolist())


@pytest.mark.parametrize(("n_tasks", "factor"), [(1_000, 1), (50_000, 1), (200_000, 0.5), (5_000_000, 0.1)])
def test_where_there_are_more_steps_the_learning_rate_is_lower(n_tasks: int, factor: float) -> None:
    found = plan(Settings(), n_tasks)
    assert found.lr_factor == pytest.approx(factor)
    assert plan(Settings(epochs=5), n_tasks).lr_factor == 1
    optimizer = torch.optim.Adam([torch.zeros(1, requires_grad=True)], lr=0.02)
    scheduler = make_scheduler(optimizer, 0.02, found._replace(warmup_epochs=0.0, schedule="constant"), n_batches=3)
    assert scheduler.get_last_lr() == pytest.approx([0.02 * factor])


@pytest.mark.parametrize(
    ("method", "settings", "rule"),
    [
        ("conal", {}, "last"),
        ("conal", {"selection": "annotations"}, "holdout_log_likelihood"),
        ("conal", {"patience": 3}, "holdout_log_likelihood"),
        ("conal", {"epochs": 2}, "holdout_log_likelihood"),
        ("dl-mv", {}, "holdout_log_likelihood"),
        ("xconal", {"epochs": 2}, "last"),
    ],
)
def test_on_large_data_methods_that_model_annotators_keep_the_last_epoch(
    method: str, settings: dict[str, Any], rule: str
) -> None:
    clf = conal.make(method, **(FAST | {"selection": "auto"} | settings)).fit(X, CROWD)
    assert clf.metrics_["selection"] == rule
    assert clf.metrics_["n_tasks_trained_on"] == (N if rule == "last" else round(0.9 * N))


def test_on_small_data_held_out_annotations_select_as_before() -> None:
    clf = conal.make("conal", **(FAST | {"selection": "auto", "patience": None})).fit(X[:90], CROWD[:90])
    assert clf.metrics_["selection"] == "holdout_log_likelihood"
    assert clf.history_[-1]["lr"] == clf.lr


def story_of(section: Any) -> list[str]:
    """What the page says of the training, by paragraphs."""
    return str(template("stories.html").module.training(section)).split("</p>")


@pytest.mark.filterwarnings("ignore::conal.errors.ContradictionWarning")
def test_metrics_and_report_say_how_long_it_was_trained() -> None:
    clf = conal.make("dl-mv", **FAST).fit(X, CROWD)
    assert clf.metrics_["epochs"] == clf.metrics_["epochs_planned"] == len(clf.history_) == EPOCHS
    assert clf.epochs == clone(clf).epochs == "auto"
    section = model_section(clf)
    first, second, *_ = story_of(section)
    assert f"of {EPOCHS} was kept" in first
    assert second.startswith(f"\n<p>{EPOCHS} epochs were planned. The number follows")
    assert "labelled tasks, 4,000" in second
    assert "--epochs" not in section["command"]
    section = model_section(conal.make("dl-mv", epochs=2, **FAST).fit(X, CROWD))
    assert "--epochs 2 " in section["command"] + " "
    assert not any("planned" in line for line in story_of(section)[1:])


def test_a_saved_model_knows_how_long_it_was_trained(tmp_path: Path) -> None:
    clf = conal.make("xconal", **FAST).fit(X, CROWD)
    clf.save(tmp_path / "m")
    loaded = conal.load(tmp_path / "m")
    assert (loaded.epochs, loaded.metrics_["epochs_planned"]) == ("auto", EPOCHS)
    np.testing.assert_array_equal(loaded.predict_proba(X[:50]), clf.predict_proba(X[:50]))
    assert isinstance(loaded.model_, CrossCoNALMethod)
    assert isinstance(clf.model_, CrossCoNALMethod)
    assert loaded.model_.due == clf.model_.due
    assert (min(clf.model_.due), max(clf.model_.due)) == (round(0.2 * EPOCHS), EPOCHS)


def test_auto_and_the_number_that_it_stands_for_continue_each_other(tmp_path: Path) -> None:
    place, settings = tmp_path / "c", FAST | {"warmup_epochs": 1, "schedule": "cosine"}
    whole = conal.make("xconal", **settings).fit(X, CROWD, checkpoint=place)
    again = conal.make("xconal", **settings, epochs=EPOCHS).fit(X, CROWD, checkpoint=place, resume=True)
    np.testing.assert_array_equal(again.probas_, whole.probas_)
    with pytest.raises(InputError, match="different epochs"):
        conal.make("xconal", **settings, epochs=EPOCHS + 1).fit(X, CROWD, checkpoint=place, resume=True)


def test_methods_without_a_plan_of_rounds_can_be_trained_for_longer(tmp_path: Path) -> None:
    place, settings = tmp_path / "c", FAST | {"warmup_epochs": 1, "schedule": "constant"}
    conal.make("dl-mv", **settings).fit(X, CROWD, checkpoint=place)
    longer = conal.make("dl-mv", **settings, epochs=EPOCHS + 2).fit(X, CROWD, checkpoint=place, resume=True)
    assert longer.metrics_["epochs"] == longer.metrics_["epochs_planned"] == EPOCHS + 2


@pytest.mark.parametrize("value", [0, 1.5, "all", None, True])
def test_what_is_no_number_of_epochs_is_refused(value: Any) -> None:
    with pytest.raises(InputError, match="epochs must be a whole number of at least 1 or 'auto'"):
        conal.make("dl-mv", epochs=value).fit(X, CROWD)
