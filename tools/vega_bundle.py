"""Vega, Vega-Lite and Vega-Embed in one script, for the report: `make vega` writes it, and a test compares it.

vl-convert makes the script with V8. The report must not: V8 reserves more address space than a process under
``ulimit -v`` may have, and ends it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import vl_convert

__all__ = ["BUNDLE", "bundle"]

BUNDLE = Path(__file__).parents[1] / "src" / "conal" / "report" / "assets" / "vega.js"


def bundle() -> str:
    """The script that vl-convert makes."""
    make: Any = vl_convert.javascript_bundle  # its stub requires a snippet, which is optional
    return str(make())


if __name__ == "__main__":
    BUNDLE.write_text(bundle(), encoding="utf-8", newline="")
