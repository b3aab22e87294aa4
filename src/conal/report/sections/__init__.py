"""The sections of the report: one module each, found by the registry of :mod:`conal.report.findings`."""
