"""What the user wants to see in the report: pictures, addresses and names, checked before the work starts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from conal._files import real_path
from conal.cli.groups import Group
from conal.errors import InputError, people
from conal.parameters.showing import ShowOptions

if TYPE_CHECKING:
    from conal.io.annotation_file import AnnotationFile
    from conal.io.task_items import TaskItems
    from conal.report.exhibits import Exhibits

__all__ = ["Show", "check_show", "exhibits_of"]

Show = Annotated[ShowOptions, Group(ShowOptions)]
"""Pictures and addresses of tasks, and names of annotators."""


def check_show(show: ShowOptions, *, anonymise: bool = False) -> None:
    """Reject what cannot be shown, before anything large is read."""
    from conal.io.tables import check_readable
    from conal.io.task_items import link_maker

    if show.names is not None and anonymise:
        raise InputError("--names shows who the annotators are, and --anonymise hides it; leave out one of the two")
    if show.names is not None:
        check_readable(Path(show.names))
    if show.images is not None and not Path(show.images).is_dir():
        raise InputError(f"{show.images}: is no folder; pass the folder of the pictures (--images)")
    if show.link is not None:
        link_maker(show.link)


def exhibits_of(
    show: ShowOptions,
    tasks: Iterable[Any],
    annotators: Iterable[Any],
    *,
    file: AnnotationFile | None = None,
    items: TaskItems | None = None,
    texts: Mapping[str, str] | None = None,
) -> Exhibits:
    """Everything that can be shown of these tasks and annotators.

    Parameters
    ----------
    show : ShowOptions
    tasks, annotators : iterables
        Their names, of which those in the user's folder and table must be some.
    file, items : AnnotationFile and TaskItems, optional
        An export, and what is in its data.
    texts : mapping, optional
        Texts that the user passed, by task; they come before those in the export.
    """
    from conal.io.images import NamedPictures, PictureFolder
    from conal.io.task_items import TaskItems, link_maker
    from conal.report.exhibits import Exhibits

    items = TaskItems() if items is None else items
    sources: list[Any] = []
    folder = None if show.images is None else PictureFolder.open(show.images)
    if folder is not None:
        folder.warn_of_ambiguous(list(tasks))
        sources.append(folder)
    if file is not None and items.pictures:
        sources.append(NamedPictures(items.pictures, real_path(file.path).parent, folder))
    if folder is not None and not any(source.of(task) for source in sources for task in tasks):
        raise InputError(f"{folder.path}: no picture is called like a task; the name of a file must be a task's id")
    return Exhibits(
        texts=items.texts | dict(texts or {}),
        pictures=tuple(sources),
        picture_links=items.picture_links,
        links=items.links,
        link=None if show.link is None else link_maker(show.link),
        names=({} if file is None else dict(file.people)) | _names(show, annotators),
    )


def _names(show: ShowOptions, annotators: Iterable[Any]) -> dict[str, str]:
    from conal.data.encoding import as_names
    from conal.data.matching import match_names
    from conal.io.annotation_file import read_people

    if show.names is None:
        return {}
    found, known = read_people(show.names), [str(name) for name in annotators]
    if not found.keys() & set(known):
        raise InputError(
            f"{show.names}: none of its ids ({people(found)}) is an annotator; the annotators are {people(known)}"
        )
    match_names(as_names(known), as_names(found), "annotators", str(show.names), "the labels")
    return found
