"""What a fitted model found out about a crowd, as plain data: NumPy in, tables and JSON out."""

from conal.findings.evidence import Evidence
from conal.findings.summary import Findings, findings_of

__all__ = ["Evidence", "Findings", "findings_of"]
