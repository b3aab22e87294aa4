"""One self-contained HTML page from the content of ``report.json``; knows plain data only, never models."""

from conal.report.notebook import ReportPage
from conal.report.page import render, write_report
from conal.report.plots import Plots, TrainingPlots

__all__ = ["Plots", "ReportPage", "TrainingPlots", "render", "write_report"]
