"""Types of the estimators that are made from declarations: `make pages` writes them, and a test compares them."""

from __future__ import annotations

from pathlib import Path

from conal import estimator
from conal.parameters import Parameter

__all__ = ["STUB", "stub"]

STUB = Path(__file__).parents[1] / "src" / "conal" / "estimator" / "classes.pyi"
NAMES = ("CoNAL", "CrossCoNAL")
HEAD = f'''"""Made by tools/stubs.py from what the methods declare; do not edit."""

from collections.abc import Sequence
from typing import Literal

from conal.estimator.classifier import CrowdClassifier
from conal.networks.backbones import Backbone
from conal.networks.noise_layers import Layer, Mixing
from conal.parameters.training import ClassPrior, Scaling

__all__ = {list(NAMES)!r}
'''


def stub() -> str:
    """The whole file."""
    return (HEAD + "".join(_class(name) for name in NAMES)).replace("'", '"')


def _class(name: str) -> str:
    declared: dict[str, Parameter] = dict(getattr(estimator, name).declared)
    own = [f"    {p.name}: {p.annotation}" for p in declared.values()]
    fields = [f"        {p.name}: {p.annotation} = {p.default!r}," for p in declared.values()]
    constructor = ["    def __init__(", "        self,", "        *,", *fields, "    ) -> None: ..."]
    return "\n".join([f"\nclass {name}(CrowdClassifier):", *own, *constructor]) + "\n"


if __name__ == "__main__":
    STUB.write_text(stub(), encoding="utf-8")
