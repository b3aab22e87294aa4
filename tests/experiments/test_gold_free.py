"""The table without gold labels: what is run, and what the page says of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from conal import Annotations, methods
from conal.datasets import digits
from conal.estimator import make
from conal.experiments import Run, Store
from conal.experiments.gold_free import N_TEST, RECIPE, GoldFree, beside_ensembles
from conal.experiments.measurements import MEASUREMENTS
from conal.experiments.right_answers import packed, unpacked
from conal.experiments.runner import run_missing


def figures(run: Run) -> dict[str, Any]:
    """Five members of rising accuracy; gold-selected ones a little better; labels of the balanced ones too."""
    better = 0.02 * (run.protocol == "gold")
    right = packed(np.arange(N_TEST[run.dataset]) % 10 < (9 if run.method == "xconal" else 8))
    members = [{"test_accuracy": 0.80 + better + 0.01 * k, "label_accuracy": 0.9, "right": right} for k in range(5)]
    seconds = 30.0 if run.method == "xconal" else 10.0
    found = {"test_accuracy": 0.85 + better, "label_accuracy": 0.92, "selection": "last", "seconds": seconds}
    found |= {"right": right}
    return found | {"members": members}


def test_every_method_every_protocol_one_run_for_five_members() -> None:
    runs = GoldFree().runs()
    assert {run.method for run in runs} == set(methods.names())
    assert all(run.parameters["ensemble"] == 5 for run in runs)
    assert {run.protocol for run in runs} == {"last", "own", "gold"}
    for run in runs:
        if run.dataset == "music":
            assert run.data == ({"n_valid": 100} if run.protocol == "gold" else {})
        if run.parameters.get("class_prior"):
            assert (run.dataset in ("labelme", "music"), run.protocol, run.method != "gold") == (True, "own", True)


def test_the_page() -> None:
    experiment = GoldFree()
    with Store(":memory:") as store:
        for run in experiment.runs():
            store.add(run, figures(run))
        table = experiment.table(store)
        page = experiment.page(table)
    assert (
        "| `xconal` | 82.00 ± 1.58 | 82.00 ± 1.58 | 84.00 ± 1.58 | 85.0 | 85.0 | 87.0 | 90.00 ± 0.00 | last | 3.0 |"
        in page
    )
    assert f"| `{RECIPE}` |" in page
    assert "| `gold` | 82.00 ± 1.58 | 82.00 ± 1.58 | 84.00 ± 1.58 | 85.0 | 85.0 | 87.0 | (given) | last | 1.0 |" in page
    assert page.count("\n## ") == 7
    assert "1,188 test instances: an accuracy of 82 % has a standard error of 1.1 points" in page


def test_xconal_is_compared_with_ensembles_over_test_instances() -> None:
    experiment = GoldFree()
    with Store(":memory:") as store:
        for run in experiment.runs():
            store.add(run, figures(run))
        table = experiment.table(store)
    gaps = beside_ensembles(table)
    assert {row for _, row in gaps} == set(methods.names()) - {"gold", "xconal"}
    assert abs(gaps["music", "aggnet"].value - 10) < 0.1
    assert gaps["music", "aggnet"].verdict == "above"
    assert "| `aggnet` | +9.9 (+8.2 to +11.7) \\* | +10.0 (+6.7 to +13.7) \\* |" in experiment.page(table)
    older = table.drop(["right", "ensemble_right"])
    assert beside_ensembles(older) == {}
    assert "older than its single answers" in experiment.page(older)


def test_members_are_measured_each_for_itself() -> None:
    quick = GoldFree(quick=True)
    (run,) = [r for r in quick.runs() if (r.dataset, r.method, r.protocol) == ("digits", "dl-mv", "own")]
    with Store(":memory:") as store:
        assert run_missing(store, [run], verbose=False) == 1
        found = store.require(run)
    assert len(found["members"]) == 2
    single = [member["test_accuracy"] for member in found["members"]]
    assert min(single) - 0.05 <= found["test_accuracy"] <= max(single) + 0.05
    assert found["selection"] == "holdout_log_likelihood"
    assert [unpacked([member["right"]], 500).mean() for member in found["members"]] == single
    assert unpacked([found["right"]], 500).mean() == found["test_accuracy"]


def test_a_single_fit_is_its_own_only_member() -> None:
    (run,) = [
        r
        for r in GoldFree(quick=True, seeds=1).runs()
        if (r.dataset, r.method, r.protocol) == ("digits", "dl-mv", "own")
    ]
    with Store(":memory:") as store:
        run_missing(store, [run], verbose=False)
        found = store.require(run)
    assert [member["test_accuracy"] for member in found["members"]] == [found["test_accuracy"]]


def test_members_are_compared_by_the_names_of_classes() -> None:
    data = digits()
    crowd, names = data.annotations, np.array([f"digit {9 - k}" for k in range(10)])  # in another order than sorted
    votes = np.full((crowd.n_tasks, crowd.n_annotators), "", dtype=object)
    votes[crowd.tasks, crowd.annotators] = names[crowd.labels]
    named = Annotations.from_matrix(votes, classes=names.tolist())
    turned = replace(data, annotations=named)
    clf = make("gold", epochs=20, verbose=False).fit(turned.x, turned.classes[turned.y_true])
    (found,) = MEASUREMENTS["members"](clf, turned)
    assert turned.test is not None
    assert found["test_accuracy"] == clf.score(turned.test.x, turned.classes[turned.test.y]) > 0.8
