"""Where results may be written: better known before the work than after it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from conal.errors import InputError

__all__ = ["check_results"]

Places = Sequence[Path | None]


def check_results(
    *,
    tables: Places = (),
    files: Places = (),
    sources: Places = (),
    model: Path | None = None,
    overwrite: bool,
) -> None:
    """Refuse places where results cannot or may not be written; None stands for a result that nobody wants.

    Parameters
    ----------
    tables, files : sequences of path or None
        Results: tables, whose endings name a format, and other files.
    sources : sequence of path or None
        What the results are made from; none of them is replaced, whatever ``overwrite`` says.
    model : path, optional
        A model folder, whose files are conal's own.
    overwrite : bool
        Whether earlier results may be replaced.
    """
    from conal.io.atomic import check_file_place
    from conal.io.tables import file_kind

    for path in _wanted(tables):
        file_kind(path, None)
    read = {path.resolve() for path in _wanted(sources)}
    taken: set[Path] = set()
    for path in (*_wanted(files), *_wanted(tables)):
        place = path.resolve()
        if place in read:
            raise InputError(f"{path}: is read from, and a result would replace it; choose another place")
        if place in taken:
            raise InputError(f"{path}: is to hold two tables; choose a place of its own for each")
        if model is not None and place.parent == model.resolve():
            raise InputError(f"{path}: lies in the model folder, whose files are conal's own; choose another place")
        check_file_place(path, overwrite=overwrite)
        taken.add(place)


def _wanted(places: Places) -> list[Path]:
    return [path for path in places if path is not None]
