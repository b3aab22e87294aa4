"""From Python, in a notebook: charts, tables as the user's own frames, and the report of labels alone."""

from __future__ import annotations

from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.exceptions import NotFittedError

import conal
from conal.errors import ConalWarning, InputError
from conal.report.charts import figures
from helpers.crowds import graded_crowd

HOSTILE = "<img src=x onerror=alert(1)>"


def features(crowd: conal.Annotations) -> Any:
    return np.random.default_rng(0).normal(size=(crowd.n_tasks, 4)).astype(np.float32)


@pytest.fixture(scope="module")
def fitted() -> Any:
    crowd = graded_crowd(1, n_tasks=120)
    model = conal.make("dl-mv", epochs=3, verbose=False)
    return model.fit(features(crowd), crowd)


def values_of(spec: Any) -> list[Any]:
    """The data of a chart, as Altair collects them."""
    return list(spec["datasets"].values())


def test_every_chart_of_the_page_is_a_method(fitted: Any) -> None:
    page = figures(fitted.results_.report)
    same = {"common": "common_confusion", "pairs": "confused_pairs", "people": "annotators"}
    same |= {"mistakes": "shared_mistakes", "errors": "errors_together", "curve_loss": "training_loss"}
    same |= {"plan": "more_labels"}
    same |= {"curve_validation_accuracy": "validation_accuracy"}
    same |= {"curve_holdout_log_likelihood": "holdout_log_likelihood"}
    assert set(page) <= {*same, "annotator"}
    assert dir(fitted.plots) == sorted([*same.values(), "annotator", "group"])
    for name, method in same.items():
        if name in page:
            spec = getattr(fitted.plots, method)().to_dict()
            assert values_of(spec) == values_of(page[name])
            assert "var(--" not in str(spec)  # colours of the page's style sheet, which a notebook has not
        assert getattr(fitted.plots, method).__doc__
    with pytest.raises(InputError, match="no validation accuracy to show"):
        fitted.plots.validation_accuracy()


def test_the_matrix_of_one_annotator(fitted: Any) -> None:
    chart = fitted.plots.annotator(np.int64(3))
    assert isinstance(chart, alt.LayerChart)
    shares = [cell["share"] for cell in values_of(chart.to_dict())[0]]
    assert shares == pytest.approx(fitted.annotator_confusion_[3].ravel().tolist(), abs=5e-5)
    with pytest.raises(InputError, match=r"no matrix of annotator 'nobody'; it has those of \d"):
        fitted.plots.annotator("nobody")


def test_nothing_before_fit() -> None:
    for made in (conal.CoNAL(), conal.aggregation.DawidSkene()):
        with pytest.raises(NotFittedError, match="call fit first"):
            made.report()
        with pytest.raises(NotFittedError, match="call fit first"):
            _ = made.plots
        with pytest.raises(NotFittedError, match="call fit first"):
            made.table("labels")


def test_tables_are_frames_of_the_kind_that_came_in() -> None:
    crowd = graded_crowd(2)
    table = crowd.to_table()
    inputs = {pd.DataFrame: table.to_pandas(), pl.DataFrame: pl.from_arrow(table), pa.Table: table}
    for kind, frame in inputs.items():
        made = conal.aggregation.MajorityVote().fit(frame)
        people = made.table("annotators")
        assert type(people) is kind
        back = {pd.DataFrame: pa.Table.from_pandas, pl.DataFrame: pl.DataFrame.to_arrow, pa.Table: lambda t: t}[kind]
        assert back(people).to_pydict()["num_examples_labeled"] == crowd.labels_per_annotator()[1:].tolist()
        assert type(made.table("labels.csv", frame="polars")) is pl.DataFrame
        assert made.table("labels", frame="arrow") is made.tables_["labels.csv"]
    with pytest.raises(InputError, match="frame='excel'"):
        made.table("labels", frame="excel")
    with pytest.raises(InputError, match="there is no table 'nonsense'; there are annotators, common_confusion, "):
        made.table("nonsense")


def test_a_classifier_gives_the_frames_of_its_labels_or_features(fitted: Any) -> None:
    crowd = graded_crowd(1)
    assert type(fitted.table("labels")) is pa.Table  # arrays came in
    assert fitted.table("labels", frame="pandas")["label"].tolist() == fitted.labels_.tolist()
    made = conal.make("dl-mv", epochs=1, verbose=False)
    x = pd.DataFrame(features(crowd), columns=list("abcd"))
    assert type(made.fit(x, crowd).table("labels")) is pd.DataFrame
    assert type(made.fit(x, pl.from_arrow(crowd.to_table()), task_ids=range(40)).table("labels")) is pl.DataFrame
    assert type(made.fit(x.to_numpy(), crowd).table("labels")) is pa.Table


def test_a_summary_has_no_code_of_the_names() -> None:
    names = [HOSTILE, f"b{HOSTILE}", "</td></table><script>alert(1)</script>"]
    crowd = conal.Annotations.from_triples([0, 0, 1, 1], [names[0], "bob"] * 2, [*names, names[0]])
    fitted = conal.aggregation.GoldMajorityVote()
    with pytest.warns(ConalWarning, match="no true labels"):
        fitted.fit(crowd)
    for shown in (crowd._repr_html_(), fitted._repr_html_()):
        assert "<img" not in shown
        assert "<script" not in shown
        assert "&lt;img src=x onerror=alert(1)&gt;" in shown
        assert shown.count("<table>") == shown.count("</table>") == 2


def test_a_summary_has_the_counts() -> None:
    crowd = graded_crowd(3)
    shown = crowd._repr_html_()
    assert f"40 tasks, 6 annotators, 3 classes, {crowd.n_annotations} annotations" in shown
    for k, n in enumerate(np.bincount(crowd.labels).tolist()):
        assert f'<td style="text-align: left">{k}</td><td style="text-align: left">{n}</td>' in shown
    made = conal.aggregation.DawidSkene(prior=0.5)
    assert "not fitted" in made._repr_html_()
    assert "DawidSkene(prior=0.5)" in made.fit(crowd)._repr_html_()
    assert "tasks without labels" in made._repr_html_()
    assert f"after {made.n_iter_} iterations" in made._repr_html_()


def test_many_classes_are_summed_up() -> None:
    crowd = conal.Annotations.from_triples(range(40), ["a"] * 40, [f"class {k % 20:02}" for k in range(40)])
    assert ">10 more<" in crowd._repr_html_()
    assert "class 09" in crowd._repr_html_()
    assert "class 10" not in crowd._repr_html_()
