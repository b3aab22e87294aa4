"""The report: the page as text, and in a real browser."""
