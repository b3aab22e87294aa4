"""The fair trial: equal terms for both, and a table that says what each of them is worth."""

from __future__ import annotations

from dataclasses import replace

import pytest

from conal.estimator import make
from conal.experiments import Run, Store
from conal.experiments.comparisons import Published
from conal.experiments.fair_trial import BOTH_BARE, DEFAULTS, EQUAL, OFF, TERMS, UNEQUAL, FairTrial, trial_gaps
from conal.experiments.real_tables import LEARNING_RATES
from conal.experiments.runs import execute
from helpers.real import load_or_skip


def figures(run: Run) -> dict[str, float]:
    """CoNAL as good as the crowd layer, which loses four points without scaling; the middle rate is the best."""
    bare = run.method == "dl-cl" and run.parameters.get("scaling") == "none"
    score = 0.9 if run.parameters["lr"] == 0.01 else 0.8
    wobble = 0.001 * (run.seed % 3 - 1) * (1 if run.method == "conal" else -1)
    return {"test_accuracy": 0.88 - 0.04 * bare + wobble, "best_score": score, "seconds": 1.0}


def test_both_search_the_same_rates_with_the_same_help() -> None:
    experiment = FairTrial()
    for name, terms in TERMS.items():
        for method, settings in zip(("dl-cl", "conal"), terms, strict=True):
            runs = [run for run, _ in experiment._points(name, method)]
            assert [run.parameters["lr"] for run in runs] == [lr for lr in LEARNING_RATES for _ in range(10)]
            assert {run.protocol for run in runs} == {"gold"}
            assert settings["start"] == runs[0].parameters["start"]
        help_of = [{k: v for k, v in each.items() if k != "start"} for each in terms]
        assert help_of[0] == help_of[1]
        assert (terms.conal["start"] == terms.crowd_layer["start"]) == (name != DEFAULTS)
    assert [TERMS[name].conal["start"] for name in TERMS][:3] == [2.0, 1.0, 2.0]
    defaults = make("dl-cl"), make("conal")
    assert [each.get_params()["start"] for each in defaults] == [1.0, 2.0]
    for settings in OFF.values():  # what is taken away is there by default
        assert all(defaults[0].get_params()[name] != value for name, value in settings.items())


def test_the_table_chooses_by_validation_and_the_page_says_who_is_ahead() -> None:
    experiment = FairTrial()
    with Store(":memory:") as store:
        for run in experiment.runs():
            store.add(run, figures(run))
        table = experiment.table(store)
    assert {row["parameters"] for row in table.to_pylist() if row["chosen"]} == {'{"lr": 0.01}'}
    gaps = trial_gaps(table)
    assert list(gaps) == [*TERMS, UNEQUAL]
    assert {name: gap.verdict for name, gap in gaps.items() if gap.verdict != "level"} == dict.fromkeys(
        [f"{EQUAL}, features as they are, not scaled", BOTH_BARE, UNEQUAL], "above"
    )
    assert gaps[UNEQUAL].value == pytest.approx(4, abs=0.1)
    beyond = trial_gaps(table, beyond=(Published(87.0, 0.5), Published(84.0, 0.5)))
    assert [beyond[terms].value for terms in gaps] == pytest.approx([gap.value - 3 for gap in gaps.values()])
    page = experiment.page(table)
    assert f"| {DEFAULTS} | 88.0" in page
    assert "The paper's difference is +3.9 points." in page


@pytest.mark.slow
def test_a_line_runs() -> None:
    load_or_skip("labelme")
    runs = [run for run, _ in FairTrial(quick=True, seeds=1)._points(BOTH_BARE, "conal")]
    short = replace(runs[0], parameters={**runs[0].parameters, "epochs": 3})
    assert 0 < execute(short)["test_accuracy"] < 1
