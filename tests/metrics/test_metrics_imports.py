"""The metrics are light: torch and scikit-learn stay out."""

from __future__ import annotations

import subprocess
import sys

from conal import metrics

HEAVY = ("torch", "sklearn", "pandas", "polars", "lightning_fabric")


def test_all_names_are_there() -> None:
    assert metrics.__all__ == sorted(metrics.__all__)
    for name in metrics.__all__:
        assert getattr(metrics, name).__doc__


def test_nothing_heavy_is_imported() -> None:
    script = f"import sys, conal.metrics; print([name for name in {HEAVY!r} if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
