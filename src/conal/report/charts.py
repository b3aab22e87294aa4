"""The charts of the report: rows to Altair charts, for pages and notebooks."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import altair as alt

from conal.errors import InputError
from conal.report.evidence import BELIEF, MEASURED, Plain, Report, plain
from conal.report.sections.annotators import mostly_measured
from conal.report.wording import called, short, short_names
from conal.reported import Results

# Rows to Altair charts: the same definitions for pages and notebooks.
#
# Charts know rows of the report only, never models. Colours are Okabe and Ito's, which people with any colour vision
# can tell apart.

PALETTE = ["#000000", "#E69F00", "#56B4E9", "#009E73", "#0072B2", "#D55E00", "#CC79A7", "#999999", "#8C6D31", "#5D3A9B"]

FEW_COUNTS = 10
"""An axis of counts that spans at most so many has a tick at each; Vega would add ticks at fractions."""
ENDS = ("low", "high")
INTERVAL_WIDTH = 420
WIDEST_MAP = 660
"""Width of a map of pairs, where its cells can be smaller."""
LEGIBLE = 24
"""Width of a cell from which on it has room for a number."""


@dataclass(frozen=True)
class Look:
    """Colours of a chart; in a page they are the page's own, so that one chart serves light, dark and print.

    Right and wrong have colours, and shares are their opacity.
    """

    ink: str = "black"
    on_fill: str = "white"
    right: str = PALETTE[4]
    wrong: str = PALETTE[5]


SCREEN = Look()
"""As on the page, for places without its style sheet, such as a notebook."""
PAGE = Look("var(--ink)", "var(--on-fill)", "var(--right)", "var(--wrong)")

Rows = list[dict[str, Any]]


def _chart(rows: Rows, **properties: Any) -> Any:
    return alt.Chart(alt.InlineData(values=rows), **properties)


def _in_order(names: list[Any]) -> dict[str, Any]:
    """Names in this order, as a list: Vega would collect and sort them as keys of an object, where it also finds
    "constructor", "toString" and others that every object has, and then draws nothing."""
    return {"scale": alt.Scale(domain=names), "sort": None}


def heat_map(rows: Rows, *, look: Look = SCREEN) -> Any:
    """A map of cells, each with its number: rows with true, observed and share."""
    order = list(dict.fromkeys(row["true"] for row in rows))
    side = max(220, 34 * len(order))
    base = _chart(rows, width=side, height=side).encode(
        x=alt.X(
            "observed:N",
            **_in_order(order),
            title="observed label",
            axis=alt.Axis(labelAngle=0 if all(len(str(name)) <= 3 for name in order) else -45),
        ),
        y=alt.Y("true:N", **_in_order(order), title="true class"),
    )
    share = alt.Scale(type="sqrt", domain=[0, 1], range=[0.03, 1])  # small mistakes are what one looks for
    cells = base.mark_rect().encode(
        color=alt.condition("datum.true === datum.observed", alt.value(look.right), alt.value(look.wrong)),
        opacity=alt.Opacity("share:Q", scale=share, legend=None),
        tooltip=["true:N", "observed:N", "share:Q"],
    )
    numbers = base.transform_calculate(shown="round(100 * datum.share)").mark_text(fontSize=11)
    ink = alt.condition("datum.share > 0.4", alt.value(look.on_fill), alt.value(look.ink))
    return cells + numbers.encode(text="shown:Q", color=ink)


def correlation_map(rows: Rows, names: list[str], *, look: Look = SCREEN) -> Any:
    """A map of pairs: rows with row, column and value, between -1 and 1, in the order of the names on both sides."""
    step = min(34, max(10, WIDEST_MAP // max(len(names), 1)))
    base = _chart(rows, width=step * len(names), height=step * len(names)).encode(
        x=alt.X("column:N", **_in_order(names), title=None, axis=alt.Axis(labelAngle=-45, labelLimit=150)),
        y=alt.Y("row:N", **_in_order(names), title=None, axis=alt.Axis(labelLimit=150)),
    )
    strength = alt.Scale(domain=[0, 1], range=[0, 1], clamp=True)
    cells = base.transform_calculate(strength="abs(datum.value)").mark_rect()
    cells = cells.encode(
        color=alt.condition("datum.value > 0", alt.value(look.wrong), alt.value(look.right)),
        opacity=alt.Opacity("strength:Q", scale=strength, legend=None),
        tooltip=["row:N", "column:N", alt.Tooltip("value:Q", format=".2f")],
    )
    if step < LEGIBLE:
        return cells
    numbers = base.mark_text(fontSize=10).encode(
        text=alt.Text("value:Q", format=".1f"),
        color=alt.condition("abs(datum.value) > 0.6", alt.value(look.on_fill), alt.value(look.ink)),
    )
    return cells + numbers


def intervals(rows: Rows, *, x_title: str, mark: float | None = None, look: Look = SCREEN) -> Any:
    """A dot with its interval for every row, from top to bottom in their order.

    Parameters
    ----------
    rows : list of dict
        With name, value, low and high (shares).
    mark : float, optional
        A share to compare with, drawn as a line; the axis then need not begin at zero.
    """
    order = [row["name"] for row in rows]
    base = _chart(rows, width=INTERVAL_WIDTH, height={"step": 20}).encode(
        y=alt.Y("name:N", **_in_order(order), title=None, axis=alt.Axis(labelLimit=260)),
        tooltip=["name:N", alt.Tooltip("value:Q", format=".1%"), *(alt.Tooltip(f"{e}:Q", format=".1%") for e in ENDS)],
    )
    axis = alt.Axis(format="%", grid=True, tickCount=8, labelFlush=False)
    bars = base.mark_rule(strokeWidth=3, opacity=0.4, color=look.right)
    bars = bars.encode(x=alt.X("low:Q", title=x_title, axis=axis, scale=alt.Scale(zero=mark is None)), x2="high:Q")
    dots = base.mark_circle(size=55, opacity=1, color=look.right).encode(x="value:Q")
    if mark is None:
        return bars + dots
    return _rule(mark, look).encode(x="at:Q") + bars + dots


def _rule(at: float, look: Look) -> Any:
    return _chart([{"at": at}]).mark_rule(color=look.wrong, strokeDash=[4, 3])


def points(rows: Rows, *, x_title: str, y_title: str, size_title: str, look: Look = SCREEN) -> Any:
    """A circle for every row: name, x (a share), y (a number) and size (a count)."""

    def axis(form: str) -> dict[str, Any]:  # without digits: Vega takes as many as tell the ticks apart
        look_of_axis = alt.Axis(format=form, tickCount=8, labelFlush=False)
        return {"axis": look_of_axis, "scale": alt.Scale(zero=False, padding=14)}

    tips = [
        "name:N",
        alt.Tooltip("x:Q", format=".0%", title=x_title),
        alt.Tooltip("y:Q", format=".2f", title=y_title),
    ]
    return (
        _chart(rows, width=360, height=320)
        .mark_circle(color=look.right, opacity=0.6)
        .encode(
            x=alt.X("x:Q", title=x_title, **axis("%")),
            y=alt.Y("y:Q", title=y_title, **axis("f")),
            size=alt.Size("size:Q", scale=alt.Scale(range=[20, 260], zero=True), legend=None),
            tooltip=[*tips, alt.Tooltip("size:Q", title=size_title)],
        )
    )


def band(rows: Rows, *, x_title: str, y_title: str, mark: float | None = None, look: Look = SCREEN) -> Any:
    """A line with the band of its intervals.

    Parameters
    ----------
    rows : list of dict
        With labels (a count), and accuracy, low and high (shares).
    mark : float, optional
        A share to compare with, drawn as a line if the chart reaches it.
    """
    axis = _count_axis([row["labels"] for row in rows])
    base = _chart(rows, width=420, height=220).encode(x=alt.X("labels:Q", title=x_title, axis=axis))
    share = alt.Axis(format="%", tickCount=8)
    area = base.mark_area(opacity=0.2, color=look.right).encode(
        y=alt.Y("low:Q", title=y_title, axis=share, scale=alt.Scale(zero=False)), y2="high:Q"
    )
    tips = ["labels:Q", *(alt.Tooltip(f"{name}:Q", format=".1%") for name in ("accuracy", *ENDS))]
    line = base.mark_line(color=look.right, strokeWidth=1.8, point=True).encode(y="accuracy:Q", tooltip=tips)
    if mark is None or mark > max(row["high"] for row in rows):
        return area + line
    return area + line + _rule(mark, look).encode(y="at:Q")


def _count_axis(counts: list[int]) -> alt.Axis:
    low, high = min(counts), max(counts)
    return alt.Axis(values=list(range(low, high + 1)), format="d") if high - low <= FEW_COUNTS else alt.Axis()


def course(rows: Rows, *, value: str, title: str, kept: int | None = None, look: Look = SCREEN) -> Any:
    """A figure after every epoch, a line per member of an ensemble, and where the kept epoch is.

    Parameters
    ----------
    rows : list of dict
        With epoch, member and ``value``.
    """
    axis = _count_axis([row["epoch"] for row in rows])
    base = _chart(rows, width=320, height=180).encode(x=alt.X("epoch:Q", title="epoch", axis=axis))
    line = base.mark_line(color=look.right, strokeWidth=1.8).encode(
        y=alt.Y(f"{value}:Q", title=title, scale=alt.Scale(zero=False)), detail="member:N"
    )
    return line if kept is None else line + _rule(kept, look).encode(x="at:Q")


# The charts of the report, from its content: for the page as Vega-Lite specifications, elsewhere as Altair charts.

MAX_BARS = 40
"""Annotators in the chart of qualities."""
MAX_GROUPS = 6
"""Groups whose matrices are drawn."""
QUALITY = "share of right labels"
DIGITS = 4
"""Decimals of shares on the page; the files have all."""
CURVES = {
    "loss": "training loss",
    "validation_accuracy": "validation accuracy",
    "holdout_log_likelihood": "log-likelihood of held-out labels",
}

Spec = dict[str, Any]


def figures(report: Report) -> dict[str, Spec]:
    """Chart name to Vega-Lite specification, in the page's colours; only charts that have something to show."""
    plots = TrainingPlots(cast(Results, SimpleNamespace(report=report)), PAGE)
    specs = {}
    for name, method in CHARTS.items():
        with suppress(NoChartError):
            specs[name] = getattr(plots, method)().to_dict()
    specs |= {f"group_{k}": chart.to_dict() for k, chart in enumerate(plots.groups().values())}
    if "common" in specs:
        # The same definition serves every annotator whose name is clicked; the script puts the numbers in.
        specs["annotator"] = specs["common"]
    return specs


def shown_names(report: Report) -> list[str]:
    """The classes that matrices show, as the page calls them."""
    names = short_names(report["classes"], 24)
    return [names[k] for k in report["common_confusion"]["classes_shown"]]


def matrix_rows(matrix: list[list[float]], names: list[str]) -> list[dict[str, Any]]:
    """A row per cell."""
    return [
        {"true": true, "observed": observed, "share": round(matrix[c][k], DIGITS)}
        for c, true in enumerate(names)
        for k, observed in enumerate(names)
    ]


def _confusion_map(matrix: list[list[float]], report: Report, look: Look) -> Any:
    """A matrix of the classes that are shown."""
    names = shown_names(report)
    if not names:
        raise NoChartError("there are no classes")
    return heat_map(matrix_rows(matrix, names), look=look)


CHARTS = {
    "common": "common_confusion",
    "pairs": "confused_pairs",
    "people": "annotators",
    "mistakes": "shared_mistakes",
    "errors": "errors_together",
    "plan": "more_labels",
    "curve_loss": "training_loss",
    "curve_validation_accuracy": "validation_accuracy",
    "curve_holdout_log_likelihood": "holdout_log_likelihood",
}
"""Names of the charts on the page, and the methods that make them."""


def _people(report: Report) -> list[Plain]:
    return [row for row in report["annotators"]["rows"] if row["annotator_quality"] is not None]


def _quality(people: list[Plain]) -> str:
    """What the axis of qualities says that they are."""
    return QUALITY if any(row.get("quality_basis") == MEASURED for row in people) else f"{QUALITY}, as believed"


def _people_rows(people: list[Plain]) -> Rows:
    """The first of the report, in its order."""
    some = people[:MAX_BARS]
    mixed = any(row.get("quality_basis") == MEASURED for row in some)
    marks = [" (belief)" if mixed and row.get("quality_basis") == BELIEF else "" for row in some]
    names = [f"{name}{mark}" for name, mark in zip(short_names([called(row) for row in some], 28), marks, strict=True)]
    ends = [(row["annotator_quality"], row["annotator_quality_low"], row["annotator_quality_high"]) for row in some]
    return _interval_rows(names, ends)


def _interval_rows(names: list[str], shares: Sequence[tuple[float | None, ...]]) -> Rows:
    columns = ("value", "low", "high")
    rows = zip(names, shares, strict=True)
    return [{"name": name} | dict(zip(columns, map(_rounded, row), strict=True)) for name, row in rows]


def _rounded(share: float | None) -> float | None:
    return None if share is None else round(share, DIGITS)


# The charts of the report as Altair charts.


class NoChartError(InputError):
    """There is nothing to show."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"there is no such chart: {reason}")


class Plots:
    """Charts of the crowd's confusions and of the annotators, each as an Altair chart, as on the page of the report.

    A notebook draws a chart below its cell, ``chart.save("chart.svg")`` writes it (also .png and .html), and
    ``chart.properties(width=600)`` or ``chart.to_dict()`` change it. All figures come from the content of the report.

    Examples
    --------
    >>> from conal.aggregation import MajorityVote
    >>> charts = MajorityVote().fit([[0, 0, 1], [1, 1, 1]]).plots
    >>> charts
    Plots(annotator, annotators, common_confusion, confused_pairs, errors_together, group, more_labels, shared_mistakes)
    >>> type(charts.annotators()).__name__
    'LayerChart'
    """

    def __init__(self, results: Results, look: Look = SCREEN) -> None:
        self._results, self._look = results, look

    @property
    def _report(self) -> Report:
        return self._results.report

    def common_confusion(self) -> Any:
        """The common confusion matrix as learned: true classes in rows, observed labels in columns, in percent."""
        return _confusion_map(self._report["common_confusion"]["matrix"], self._report, self._look)

    def confused_pairs(self) -> Any:
        """The most frequent mistakes of the crowd, as shares of the labels of the true class, with intervals."""
        pairs = self._report["common_confusion"]["pairs"]
        if not pairs:
            raise NoChartError("no two classes are confused")
        names = short_names([f"{short(pair['true'], 18)} → {short(pair['observed'], 18)}" for pair in pairs])
        rows = _interval_rows(names, [(pair["share"], pair["low"], pair["high"]) for pair in pairs])
        return intervals(rows, x_title="share of the labels", look=self._look)

    def annotators(self) -> Any:
        """The quality of the annotators with the most expected mistakes, with intervals, and that of all labels."""
        people, crowd = _people(self._report), self._report["crowd"]
        if not people:
            raise NoChartError("no annotator may be listed")
        mark = crowd["expected_label_accuracy"]
        if not mostly_measured(people):
            mark = crowd.get("believed_label_accuracy", mark)
        return intervals(_people_rows(people), x_title=_quality(people), mark=mark, look=self._look)

    def shared_mistakes(self) -> Any:
        """The co-direction of every annotator's mistakes with those of the others, against the annotator's quality."""
        known = [row for row in _people(self._report) if row.get("co_direction") is not None]
        if len(known) < 2:
            raise NoChartError("fewer than two annotators have enough mistakes")
        titles = {"x_title": _quality(known), "y_title": "co-direction with the others", "size_title": "labels"}
        names = short_names([called(row) for row in known], 28)
        rows = [
            {
                "name": name,
                "x": _rounded(row["annotator_quality"]),
                "y": _rounded(row["co_direction"]),
                "size": row["num_examples_labeled"],
            }
            for name, row in zip(names, known, strict=True)
        ]
        return points(rows, **titles, look=self._look)

    def errors_together(self) -> Any:
        """Who of a jury errs with whom: the correlation of their errors, in an order that shows groups."""
        jury = self._report.get("jury", {"map": {"workers": [], "correlation": []}, "judges": []})
        found, called_as = jury["map"], {row["worker"]: called(row) for row in jury["judges"]}
        names = short_names([called_as.get(worker, worker) for worker in found["workers"]], 24)
        cells = [
            {"row": row, "column": column, "value": value}
            for row, values in zip(names, found["correlation"], strict=False)
            for column, value in zip(names, values, strict=False)
            if value is not None
        ]
        if not cells:
            raise NoChartError("annotators are many, or labelled different tasks")
        return correlation_map(cells, names, look=self._look)

    def groups(self) -> dict[str, Any]:
        """The names of the largest groups of annotators, and the confusion matrix of each."""
        rows = self._report["groups"]["rows"][:MAX_GROUPS] if "groups" in self._report else []
        names = short_names([row["group"] for row in rows], 40)
        maps = [_confusion_map(row["matrix"], self._report, self._look) for row in rows]
        return dict(zip(names, maps, strict=True))

    def group(self, name: Any) -> Any:
        """The confusion matrix of one group of annotators.

        Parameters
        ----------
        name : the group's name
            The report has the matrices of the largest groups.
        """
        found = self.groups()
        if short(name, 40) not in found:
            raise InputError(
                f"the report has no matrix of group {name!r}; it has those of {', '.join(found) or 'none'}"
            )
        return found[short(name, 40)].properties(title=short(name))

    def more_labels(self) -> Any:
        """The expected accuracy of the labels against the number of further ones, as planned, with intervals."""
        plan = self._report.get("plan", {"curve": []})
        if len(plan["curve"]) < 2:
            raise NoChartError("no further label is worth asking for")
        rows = [
            {"labels": point["labels"], **{name: _rounded(point[name]) for name in ("accuracy", "low", "high")}}
            for point in plan["curve"]
        ]
        titles = {"x_title": "further labels", "y_title": "right labels, as believed"}
        return band(rows, **titles, mark=plan["goal"], look=self._look)

    def annotator(self, name: Any) -> Any:
        """The confusion matrix of one annotator.

        Parameters
        ----------
        name : the annotator's name
            The report has the matrices of the annotators with the most mistakes above the crowd's.
        """
        rows = [row for row in self._report["annotators"]["rows"] if "matrix" in row]
        found = next((row for row in rows if row["worker"] == plain(getattr(name, "item", lambda: name)())), None)
        if found is None:
            some = ", ".join(short(row["worker"], 24) for row in rows[:5])
            raise InputError(f"the report has no matrix of annotator {name!r}; it has those of {some or 'nobody'}")
        return _confusion_map(found["matrix"], self._report, self._look).properties(title=short(name))

    def __dir__(self) -> list[str]:
        kinds = [kind for kind in type(self).__mro__ if issubclass(kind, Plots)]
        return sorted(name for kind in kinds for name in vars(kind) if not name.startswith("_") and name != "groups")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(dir(self))})"


class TrainingPlots(Plots):
    """The same charts, and those of the training of a classifier."""

    def training_loss(self) -> Any:
        """The training loss after every epoch; a dashed line marks the epoch that was kept."""
        return self._curve("loss")

    def validation_accuracy(self) -> Any:
        """The accuracy on the true labels of the validation set after every epoch, if there was one."""
        return self._curve("validation_accuracy")

    def holdout_log_likelihood(self) -> Any:
        """The mean log-likelihood of held-out annotations after every epoch, if the epoch was selected by it."""
        return self._curve("holdout_log_likelihood")

    def _curve(self, name: str) -> Any:
        model = self._report.get("model", {"history": []})
        rows = [
            {"epoch": row["epoch"], "member": row.get("member", 1), name: float(f"{row[name]:.5g}")}
            for row in model["history"]
            if row.get(name) is not None
        ]
        if len(rows) < 2:
            raise NoChartError(f"the training has no {CURVES[name]} to show")
        metrics = model["metrics"]
        kept = None if metrics["selection"] == "last" or "ensemble" in metrics else metrics["best_epoch"]
        return course(rows, value=name, title=CURVES[name], kept=kept, look=self._look)
