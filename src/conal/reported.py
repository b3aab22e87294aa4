"""What users find on every fitted object, and packages above it make: tables as frames, charts and the report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import pyarrow as pa

    from conal.report.charts import Plots
    from conal.report.evidence import Report
    from conal.report.notebook import ReportPage


class Results(Protocol):
    """Tables by file name, and the report; the same for a fitted estimator and for one that was loaded."""

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """File name to table."""

    @property
    def report(self) -> Report:
        """The content of ``report.json``."""


class Reported:
    """Tables, charts and the report of a fitted classifier or aggregator.

    The class is used by packages below those that make tables and charts, so it imports them when they are asked for.
    """

    results_: Results
    _frame: str | None = None
    """The kind of frame that ``fit`` was given."""

    @property
    def tables_(self) -> Mapping[str, Any]:
        """File name to Arrow table, as in a model folder; computed on first access. See :meth:`table` for frames."""
        return self.results_.tables

    def table(self, name: str, frame: str | None = None) -> Any:
        """A table of results as a frame of the kind that ``fit`` was given.

        Parameters
        ----------
        name : str
            Such as "labels", "annotators", "common_confusion" or "suggestions"; ``tables_`` lists all.
        frame : {"pandas", "polars", "arrow"}, optional
            Another kind. Without frames in ``fit``, and in a loaded model, the default is an Arrow table.

        Examples
        --------
        >>> from conal.aggregation import MajorityVote
        >>> MajorityVote().fit([[0, 0, 1], [1, 1, 1]]).table("labels", frame="pandas")["label"].tolist()
        [0, 1]
        """
        from conal.data.frames import to_frame
        from conal.errors import InputError

        tables = self._fitted_results().tables
        file = name if name.endswith(".csv") else f"{name}.csv"
        if file not in tables:
            known = ", ".join(sorted(each.removesuffix(".csv") for each in tables))
            raise InputError(f"there is no table {name!r}; there are {known}")
        return to_frame(tables[file], frame or self._frame or "arrow")

    def report(self) -> ReportPage:
        """The report, which a notebook shows below the cell; ``.save(path)`` writes it as a single HTML file.

        The first call takes a few seconds, for the intervals.
        """
        from conal.report.notebook import ReportPage

        return ReportPage(self._fitted_results().report)

    @property
    def plots(self) -> Plots:
        """The charts of the report as Altair charts, such as ``plots.annotators()``; ``dir(plots)`` lists them."""
        from conal.report.charts import Plots

        return Plots(self._fitted_results())

    def _fitted_results(self) -> Results:
        if not hasattr(self, "probas_"):
            from sklearn.exceptions import NotFittedError

            raise NotFittedError(f"this {type(self).__name__} is not fitted yet; call fit first")
        return self.results_
