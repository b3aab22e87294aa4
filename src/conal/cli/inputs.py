"""Reads and checks the user's files and places, before the work starts."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from conal._files import real_path
from conal.cli import options
from conal.cli.options import say
from conal.errors import ConalWarning, InputError, missing_package
from conal.parameters import Doc, Option, parameters
from conal.parameters.reading import ReadOptions

if TYPE_CHECKING:
    from conal.data.annotations import Annotations
    from conal.data.annotator_info import AnnotatorInfo
    from conal.io import FeatureTable, TextTable
    from conal.io.annotation_file import AnnotationFile
    from conal.io.images import TaskItems
    from conal.report.exhibits import Exhibits


# True labels of some tasks, for ``fit`` and ``aggregate``: from a file, or from the export that contains them.

EXPORT = Path("export")
"""In place of a file: the true labels that the files of labels contain."""

TrueLabels = Annotated[
    Path | None,
    typer.Option(
        help="Table of known true labels (task, label), which are treated as certain; or the word export, for those "
        "that the files of labels contain."
    ),
]


def truth_files(path: Path | None) -> list[Path]:
    """The file to read, if there is one."""
    return [] if path is None or path == EXPORT else [path]


def read_sample(path: Path | None, reading: ReadOptions, file: AnnotationFile, tasks: Annotations) -> Any:
    """Task to true label, for the tasks of these annotations; or a table, if it has probabilities of being drawn.

    A table's columns may be named as in the file of labels, or by their usual names.
    """
    from conal.io import read_gold
    from conal.io.tables import decoding

    if path is None:
        return None
    if path == EXPORT:
        found = {task: label for task, label in file.true_labels.items() if label is not None}
        if not found:
            raise InputError(
                f"{file.where}: contains no true labels; pass a table of them, as --true-labels gold.csv (for a file "
                "that is called export: ./export)"
            )
        return found
    columns: dict[str, Any] = {"task": reading.task, "label": reading.label, "missing": reading.missing}
    with decoding(reading.encoding):
        gold = read_gold(path, **columns, keep=tasks.classes, fallback_to_aliases=True, partial=True)
    return gold.sample_of(tasks)


def offer_truth(path: Path | None, n_found: int, *, quiet: bool) -> None:
    """Say that the files of labels contain true labels, which are not used unasked."""
    if path is None and n_found and not quiet:
        say(f"{n_found:,} true labels found: use them with --true-labels export", err=True)


# What the user wants to see in the report: pictures and addresses, checked before the work starts.


@parameters
class ShowOptions:
    """Pictures and addresses of tasks for the report.

    Examples
    --------
    >>> ShowOptions(images="photos").images
    'photos'
    """

    images: Annotated[
        str | None,
        Doc("Folder of pictures, for the report. A file shows the task whose id is its name, with or without ending."),
        Option("--images"),
    ] = None
    link: Annotated[
        str | None,
        Doc(
            "Address of a task on its platform, for the report, with {task} in place of the id, such as "
            "https://host/projects/1/data?task={task}."
        ),
    ] = None


def check_show(show: ShowOptions) -> None:
    """Reject what cannot be shown, before anything large is read."""
    from conal.io.images import can_draw, link_maker

    if show.images is not None and not Path(show.images).is_dir():
        raise InputError(f"{show.images}: is no folder; pass the folder of the pictures (--images)")
    if show.images is not None and not can_draw():
        raise InputError(missing_package("PIL", "--images"))
    if show.link is not None:
        link_maker(show.link)


def exhibits_of(
    show: ShowOptions,
    tasks: Iterable[Any],
    *,
    file: AnnotationFile | None = None,
    items: TaskItems | None = None,
    texts: Mapping[str, str] | None = None,
) -> Exhibits:
    """Everything that can be shown of these tasks, and names of annotators.

    Parameters
    ----------
    show : ShowOptions
    tasks : iterable
        Their names, of which those in the user's folder must be some.
    file, items : AnnotationFile and TaskItems, optional
        An export, and what is in its data.
    texts : mapping, optional
        Texts that the user passed, by task; they come before those in the export.
    """
    from conal.io.images import NamedPictures, PictureFolder, TaskItems, link_maker
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
        names={} if file is None else file.people,
    )


# Reads the user's files: training data, and instances to predict.


def read_labels(labels: Sequence[Path], reading: ReadOptions, *, unlabelled: bool = True) -> AnnotationFile:
    """The files of labels as one, after warnings of problems; of tasks that nobody labelled if ``unlabelled``."""
    from conal.data.problems import warn_of_problems
    from conal.io import import_file

    file = import_file(labels, reading)
    file.warn_of_dropped(unlabelled=unlabelled)
    warn_of_problems(file.annotations, file.where)
    file.warn_of_single_labels()
    return file


def read_info(path: Path | None, crowd: Annotations, reading: ReadOptions) -> AnnotatorInfo | None:
    """What is known about the annotators, where the user has a table of it."""
    from conal.io.tables import decoding
    from conal.io.true_labels import read_annotator_info

    with decoding(reading.encoding):
        return None if path is None else read_annotator_info(path, crowd, worker=reading.worker)


ForFit = tuple[dict[str, Any], "Exhibits", "AnnotationFile | None"]
"""Arguments of ``fit``, what the report shows, and the files of labels as one; None for true labels."""


@dataclass(frozen=True)
class FitFiles:
    """The files of one fit: labels with features or texts, and the same of a validation set.

    With features and texts, the features are trained on, and the report shows the texts.
    """

    labels: Sequence[Path]
    features: Path | None
    text: Path | None
    valid: Path | None
    valid_labels: Path | None
    true_labels: Path | None
    annotator_info: Path | None
    text_column: str | None
    reading: ReadOptions
    show: ShowOptions

    def check(self, out: Path) -> None:
        """Reject unreadable files and options that exclude each other, before torch is loaded, which takes seconds."""
        from conal.io.tables import check_readable

        if self.features is None and self.text is None:
            raise InputError("pass either --features or --text; for labels alone, use conal aggregate")
        if self.text is None and self.text_column is not None:
            raise InputError("--set text_column needs --text; add it, or leave out text_column")
        if (self.valid is None) != (self.valid_labels is None):
            raise InputError("--valid and --valid-labels go together; pass both or neither")
        tables = self.features, self.text, self.valid, self.valid_labels, self.annotator_info
        for path in (*self.labels, *tables, *truth_files(self.true_labels)):
            if path is None:
                continue
            if not (path in self.labels and path.is_dir()):  # doccano's exports are folders
                check_readable(path)
            if real_path(path).is_relative_to(real_path(out)):
                raise InputError(f"{path}: is an input file inside {out}, which would be replaced; move one of them")

    def read(self, takes: str) -> ForFit:
        """The training data for a method that ``takes`` true labels ("gold") or annotations ("crowd")."""
        from conal.io.tables import decoding

        with decoding(self.reading.encoding):
            return self._read_gold() if takes == "gold" else self._read_crowd()

    def _read_crowd(self) -> ForFit:
        """The training data for a method that takes annotations."""
        from conal.io.features import check_row_order
        from conal.io.images import items_of

        file = read_labels(self.labels, self.reading, unlabelled=False)
        self = replace(self, reading=replace(self.reading, task=columns_to_keep(file, self.reading).get("task")))
        validation = self._read_validation()
        crowd = file.annotations
        items = items_of(file.data, self.text_column)
        shown = exhibits_of(self.show, crowd.task_ids.tolist(), file=file, items=items, texts=self._shown_texts(file))
        texts = self._read_texts_of(file) if self.features is None else None
        instances = texts or self._read_instances(self.features or self.text)
        if not crowd.by_position:
            check_row_order(instances, crowd.task_ids)
        known = read_sample(self.true_labels, self.reading, file, _with_unlabelled(crowd, instances))
        info = read_info(self.annotator_info, crowd, self.reading)
        about = {"validation": validation, "true_labels": known, "annotator_info": info}
        return {"X": instances, "y": crowd, **about}, shown, file

    def _read_gold(self) -> ForFit:
        """The training data of the method that takes the labels themselves as true."""
        from conal.io import read_gold

        if self.true_labels is not None:
            raise InputError("--true-labels: the method gold takes the labels themselves as true; leave it out")
        if self.annotator_info is not None:
            raise InputError("--annotator-info: true labels have no annotators; leave it out")
        if self.reading.without or self.reading.merge_spelling:
            raise InputError("--without and --merge-spelling are for labels of a crowd; leave them out")
        if len(self.labels) > 1:
            raise InputError("the method gold takes one file of true labels; put them into one")
        table, reading = self._read_instances(self.features or self.text), self.reading
        tasks = range(len(table)) if table.ids is None else table.ids.tolist()
        shown = exhibits_of(self.show, tasks, texts=self._shown_texts(None))
        columns: dict[str, Any] = {"task": reading.task, "label": reading.label}
        gold = read_gold(self.labels[0], **columns, classes=reading.classes, missing=reading.missing)
        y = gold.for_rows(len(table), table.ids)
        return {"X": table, "y": y, "validation": self._read_validation()}, shown, None

    def _read_texts_of(self, file: AnnotationFile) -> TextTable | None:
        """Texts in the exports of labels; None for other files, and for a table, which is read as a table of texts."""
        from conal.io.features import texts_of

        if self.text not in self.labels or file.data is None:
            return None
        return texts_of(file.data, text=self.text_column, where=file.where)

    def _shown_texts(self, file: AnnotationFile | None) -> dict[str, str]:
        """Texts that are not trained on, by task."""
        from conal.io import read_texts

        if self.features is None or self.text is None:
            return {}
        table = None if file is None else self._read_texts_of(file)
        table = table or read_texts(self.text, text=self.text_column, task=self.reading.task, fallback_to_aliases=True)
        return {str(name): text for name, text in texts_by_task(table).items()}

    def _read_instances(self, path: Path | None) -> FeatureTable | TextTable:
        """Features, or texts if there are no features to train on."""
        texts = self.features is None
        column = self.text_column if texts else None
        return read_instances(path, texts=texts, task=self.reading.task, text_column=column)

    def _read_validation(self) -> tuple[FeatureTable | TextTable, Any] | None:
        from conal.io import read_gold
        from conal.io.features import check_row_order

        if self.valid_labels is None:
            return None
        table = self._read_instances(self.valid)
        gold = read_gold(self.valid_labels, keep=self.reading.classes, missing=self.reading.missing)
        if gold.task_ids is not None:
            check_row_order(table, gold.task_ids)
        return table, gold.for_rows(len(table), table.ids)


def _with_unlabelled(crowd: Annotations, instances: FeatureTable | TextTable) -> Annotations:
    """The annotations with all tasks that have features: a true label needs no others."""
    if instances.ids is None or instances.ids.dtype.kind != crowd.task_ids.dtype.kind:
        return crowd
    labelled = set(crowd.task_ids.tolist())
    others = [name for name in instances.ids.tolist() if name not in labelled]
    return crowd.reindex([*crowd.task_ids.tolist(), *others]) if others else crowd


def read_instances(
    path: Path | None, *, texts: bool, task: str | None, text_column: str | None, fallback_to_aliases: bool = True
) -> FeatureTable | TextTable:
    """A file of features, or of texts."""
    from conal.io import read_features, read_texts

    assert path is not None  # noqa: S101 - options have been checked
    if texts:
        return read_texts(path, text=text_column, task=task, fallback_to_aliases=fallback_to_aliases)
    if text_column is not None:
        raise InputError("--set text_column: this model was trained on features, not on texts; leave it out")
    return read_features(path, task=task, fallback_to_aliases=fallback_to_aliases)


def columns_to_keep(
    file: AnnotationFile | None, reading: ReadOptions, text_column: str | None = None
) -> dict[str, str]:
    """What a folder remembers of the columns of the files of labels; see :data:`conal.io.model_folder.COLUMN_ROLES`."""
    from conal.data.frames import is_name_column

    found = {} if file is None else {**file.columns, "format": file.format}
    if reading.task is None and is_name_column(found.get("task", "task"), ["task"]):
        found.pop("task", None)  # found anyway, and tables of features may have a better one
    own = {"task": reading.task, "tasks_called": reading.task, "text": text_column}
    return found | {role: name for role, name in own.items() if name is not None}


def if_there(path: Path, name: str | None) -> str | None:
    """A column that an earlier file had, if this one has it too."""
    from conal.io.platforms.files import read_head

    return name if name is not None and path.is_file() and name in read_head(path).fields else None


def texts_by_task(table: TextTable) -> dict[Any, str]:
    """Task to text; row numbers where a table has no ids."""
    names = range(len(table)) if table.ids is None else table.ids.tolist()
    return dict(zip(names, table.texts, strict=True))


# Checks of output paths, before the work starts.

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


def check_ending(out: Path, to: str, *endings: str) -> None:
    """Reject a name that does not end as files of a format do."""
    if out.suffix.lower() not in endings:
        raise InputError(f"{out}: --to {to} writes {' or '.join(endings)}; choose a name with this ending")


def _wanted(places: Places) -> list[Path]:
    return [path for path in places if path is not None]


# ``--defend``: labels without answers that say nothing, before they are aggregated or trained on.

Defend = Annotated[
    bool,
    options.on_off(
        "--defend",
        panel=options.LABELS,
        help="Leave out answers that do not depend on the task or follow the common mistakes, and count copied answers "
        "once. The report without "
        "this option says whose they are.",
    ),
]


def defended_labels(crowd: Annotations, *, rings: bool = True, quiet: bool = False) -> Annotations:
    """The labels that are left; says how many are not, without names."""
    from conal.aggregation import DawidSkene
    from conal.metrics.suspicion import defended

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConalWarning)  # the user asked for another method, which has its own
        posterior = DawidSkene(verbose=False).fit(crowd).probas_
    found = defended(crowd, posterior, rings=rings)
    if not quiet:
        say(str(found), err=True)
    return found.annotations
