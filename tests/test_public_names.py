"""The public names are few, importable, and cost nothing until they are used."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys

import pytest

import conal

HEAVY = ("torch", "sklearn", "pandas", "polars", "lightning_fabric")


def test_all_names_are_importable_and_listed() -> None:
    for name in conal.__all__:
        assert getattr(conal, name) is not None
    assert set(conal.__all__) <= set(dir(conal))
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = conal.nonsense


def test_every_module_says_what_it_is_and_exports_only_what_it_has() -> None:
    for module in pkgutil.walk_packages(conal.__path__, "conal."):
        if module.name == "conal.__main__":
            continue
        loaded = importlib.import_module(module.name)
        assert loaded.__doc__, module.name
        exported = getattr(loaded, "__all__", [])
        assert all(hasattr(loaded, name) for name in exported), module.name


@pytest.mark.parametrize("statement", ["import conal", "import conal; conal.Annotations", "import conal.aggregation"])
def test_labels_only_work_does_not_import_torch(statement: str) -> None:
    script = f"import sys; {statement}; print([name for name in {HEAVY!r} if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
