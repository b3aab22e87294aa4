"""The examples of the contributing guide."""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["CONTRIBUTING", "guide_code"]

CONTRIBUTING = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text(encoding="utf-8")


def guide_code(name: str) -> str:
    """The example that defines this class."""
    examples = re.findall(r"```python\n(.*?)```", CONTRIBUTING, flags=re.DOTALL)
    (code,) = (code for code in examples if f"class {name}(" in code)
    return str(code)
