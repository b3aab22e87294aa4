"""What a fitted model found out about a crowd, as plain data: NumPy in, tables and JSON out."""

from conal.findings.base import Finding, register
from conal.findings.collection import Findings
from conal.findings.evidence import Evidence, plain_names
from conal.findings.report import REPORT_VERSION, Report

__all__ = ["REPORT_VERSION", "Evidence", "Finding", "Findings", "Report", "plain_names", "register"]
