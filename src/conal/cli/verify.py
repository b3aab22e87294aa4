"""``conal verify``: whether a model folder is what was saved."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from conal.cli.options import AsJson, Quiet, emit
from conal.cli.terminal import one_line
from conal.errors import ModelFolderError

if TYPE_CHECKING:
    from conal.io.model_folder import Verification

__all__ = ["verify"]


def verify(
    model: Annotated[Path, typer.Argument(help="Folder written by conal fit or conal aggregate --save.")],
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Compare the files of a model folder with their digests, and list what it has learned from.

    Exits with 0 if all files are what was saved, and with 2 if one is missing or has changed. This finds accidents: bad
    disks, broken copies, edited files. It cannot tell who wrote a folder: whoever changes a file on purpose can change
    its digest too. The report, which conal report rebuilds, has no digest.
    """
    from conal.io.model_folder import ModelFolder, verify_model

    found = verify_model(model)
    history = ModelFolder(model).config.get("learned_from", [])
    figures: dict[str, Any] = {"model": model, "ok": not found.problems, **found._asdict(), "learned_from": history}
    text = "" if found.problems else "\n".join([_text(model, found), *_learned_from(history)])
    emit(figures, text, as_json=as_json, quiet=quiet or bool(found.problems))
    if found.problems:
        listed = "; ".join(f"{name} {problem}" for name, problem in found.problems.items())
        raise ModelFolderError(f"{model}: is not what was saved: {listed}")


def _learned_from(history: Any) -> list[str]:
    """A line for every set of labels; a folder may come from anybody, so that nothing is taken for granted."""
    entries = [entry for entry in history if isinstance(entry, dict)] if isinstance(history, list) else []
    return [
        one_line(
            f"{entry.get('kind')} {entry.get('when')}: {entry.get('labels')} labels by {entry.get('annotators')} "
            f"annotators on {entry.get('tasks')} tasks, digest {str(entry.get('sha256'))[:12]}"
        )
        for entry in entries
    ]


def _text(model: Path, found: Verification) -> str:
    lines = [f"{model}: {len(found.same)} files are what was saved"]
    if found.unchecked:
        lines.append(f"without a digest: {', '.join(found.unchecked)}")
    if found.other:
        lines.append(f"not part of the model: {', '.join(found.other)}")
    return "\n".join(lines)
