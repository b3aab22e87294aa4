"""The charts of the report as Altair charts, for notebooks."""

from __future__ import annotations

from typing import Any

from conal.errors import InputError
from conal.findings import Report
from conal.findings.evidence import plain
from conal.findings.wording import short
from conal.report import figures
from conal.report.charts import SCREEN
from conal.reported import Results

__all__ = ["Plots", "TrainingPlots"]


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

    def __init__(self, results: Results) -> None:
        self._results = results

    @property
    def _report(self) -> Report:
        return self._results.report

    def common_confusion(self) -> Any:
        """The common confusion matrix as learned: true classes in rows, observed labels in columns, in percent."""
        return _made(figures.common_confusion(self._report, SCREEN), "there are no classes")

    def confused_pairs(self) -> Any:
        """The most frequent mistakes of the crowd, as shares of the labels of the true class, with intervals."""
        return _made(figures.confused_pairs(self._report, SCREEN), "no two classes are confused")

    def annotators(self) -> Any:
        """The quality of the annotators with the most expected mistakes, with intervals, and that of all labels."""
        return _made(figures.annotators(self._report, SCREEN), "no annotator may be listed")

    def shared_mistakes(self) -> Any:
        """The co-direction of every annotator's mistakes with those of the others, against the annotator's quality."""
        return _made(figures.shared_mistakes(self._report, SCREEN), "fewer than two annotators have enough mistakes")

    def errors_together(self) -> Any:
        """Who of a jury errs with whom: the correlation of their errors, in an order that shows groups."""
        return _made(figures.errors_together(self._report, SCREEN), "annotators are many, or labelled different tasks")

    def group(self, name: Any) -> Any:
        """The confusion matrix of one group of annotators.

        Parameters
        ----------
        name : the group's name
            The report has the matrices of the largest groups.
        """
        found = dict(figures.groups(self._report, SCREEN))
        if short(name, 40) not in found:
            raise InputError(
                f"the report has no matrix of group {name!r}; it has those of {', '.join(found) or 'none'}"
            )
        return found[short(name, 40)].properties(title=short(name))

    def more_labels(self) -> Any:
        """The expected accuracy of the labels against the number of further ones, as planned, with intervals."""
        return _made(figures.more_labels(self._report, SCREEN), "no further label is worth asking for")

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
        names = figures.shown_names(self._report)
        return figures.confusion_map(found["matrix"], names, SCREEN).properties(title=short(name))

    def __dir__(self) -> list[str]:
        kinds = [kind for kind in type(self).__mro__ if issubclass(kind, Plots)]
        return sorted(name for kind in kinds for name in vars(kind) if not name.startswith("_"))

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
        return _made(figures.curve(self._report, SCREEN, name), f"the training has no {figures.CURVES[name]} to show")


def _made(chart: Any, reason: str) -> Any:
    if chart is None:
        raise InputError(f"there is no such chart: {reason}")
    return chart
