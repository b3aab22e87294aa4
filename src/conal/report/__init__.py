"""What a fitted model found out about a crowd: evidence, sections, ``report.json``, charts, and one HTML page."""
