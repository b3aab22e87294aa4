"""One self-contained HTML page from a model folder's ``report.json``; knows plain data only, never models."""

from conal.report.page import render, write_report

__all__ = ["render", "write_report"]
