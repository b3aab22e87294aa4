"""Checks of output paths, before the work starts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from conal._files import real_path
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
    """Reject output paths where nothing can or may be written; None stands for an output that is not wanted.

    Parameters
    ----------
    tables, files : sequences of path or None
        Output paths: tables, whose file name ending is the format, and other files.
    sources : sequence of path or None
        Input files; none of them is ever replaced, even with ``overwrite``.
    model : path, optional
        A model folder, which is reserved for conal's files.
    overwrite : bool
        Whether existing results may be replaced.
    """
    from conal._files import check_file_place
    from conal.io.tables import file_kind

    for path in _wanted(tables):
        file_kind(path, None)
    read = {real_path(path) for path in _wanted(sources)}
    taken: set[Path] = set()
    for path in (*_wanted(files), *_wanted(tables)):
        place = real_path(path)
        if place in read:
            raise InputError(f"{path}: is an input file; choose another place for the result")
        if place in taken:
            raise InputError(f"{path}: is used for two tables; choose a separate file for each")
        if model is not None and real_path(model) in (place.parent, real_path(path.parent)):
            raise InputError(f"{path}: is inside the model folder, which is reserved for conal; choose another place")
        check_file_place(path, overwrite=overwrite)
        taken.add(place)


def _wanted(places: Places) -> list[Path]:
    return [path for path in places if path is not None]
