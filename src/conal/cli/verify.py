"""``conal verify``: whether a model folder is what was saved."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from conal.cli.options import AsJson, Quiet, emit
from conal.errors import ModelFolderError

if TYPE_CHECKING:
    from conal.io.models import Verification

__all__ = ["verify"]


def verify(
    model: Annotated[Path, typer.Argument(help="Model folder written by conal fit.")],
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Compare every file of a model folder with its digest.

    Exits with 0 if all files are what was saved, and with 2 if one is missing or has changed. This finds accidents: bad
    disks, broken copies, edited files. It cannot tell who wrote a folder: whoever changes a file on purpose can change
    its digest too.
    """
    from conal.io.models import verify_model

    found = verify_model(model)
    figures: dict[str, Any] = {"model": model, "ok": not found.problems, **found._asdict()}
    emit(figures, "" if found.problems else _text(model, found), as_json=as_json, quiet=quiet or bool(found.problems))
    if found.problems:
        listed = "; ".join(f"{name} {problem}" for name, problem in found.problems.items())
        raise ModelFolderError(f"{model}: is not what was saved: {listed}")


def _text(model: Path, found: Verification) -> str:
    lines = [f"{model}: {len(found.same)} files are what was saved"]
    if found.unchecked:
        lines.append(f"without a digest: {', '.join(found.unchecked)}")
    if found.other:
        lines.append(f"not part of the model: {', '.join(found.other)}")
    return "\n".join(lines)
