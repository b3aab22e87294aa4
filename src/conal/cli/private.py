"""``conal aggregate --private``: a release that hides each annotator's whole contribution, and nothing else."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from conal.cli.inputs import EXPORT
from conal.cli.options import emit
from conal.errors import ConalWarning, InputError, people_hidden
from conal.parameters import Doc, Option, number, parameters, whole
from conal.parameters.reading import ReadOptions

if TYPE_CHECKING:
    from conal.privacy import PrivateRelease


DOCUMENT = "private.json"
NO_REFERENCE = (
    "--private needs --true-labels FILE: labels that the annotators did not make, such as an expert's, or the "
    "predictions of a classifier that was not trained on these labels. Inferred labels are made from everybody's "
    "labels, so that counts beside them would tell about single annotators"
)


@parameters
class ReleaseOptions:
    """What `conal aggregate` tells about single annotators: everything, less about those with few labels, or nothing.

    Examples
    --------
    >>> ReleaseOptions(private=0.5).max_labels
    10
    """

    private: Annotated[
        float | None,
        number(at_least=1e-9, at_most=100),
        Doc("Epsilon of a differentially private release; by default, results are not private."),
        Option("--private"),
    ] = None
    # Error by epsilon, people, classes and this bound: studies/results/0.2.0/privacy.csv.
    max_labels: Annotated[
        int,
        whole(1, below=10**6),
        Doc(
            "The largest weight of a person in a private release: more labels count as much as this many. The more, "
            "the more noise. Do not choose it by looking at the labels."
        ),
    ] = 10

    def __post_init__(self) -> None:
        """Refuse what would have no effect."""
        if self.private is None and self.max_labels != type(self).max_labels:
            raise InputError("--set max_labels needs --private; add it, or leave out max_labels")


def refuse_beside_private(**given: object) -> None:
    """Reject options that ask for what a private release withholds, or that it has no use for."""
    for name, value in given.items():
        if value:
            raise InputError(
                f"--{name} cannot be used with --private: a private release has no tables about annotators and no "
                f"report, keeps no labels and aggregates nothing; remove --{name}"
            )


def release(
    labels: Sequence[Path],
    out: Path,
    privacy: ReleaseOptions,
    reading: ReadOptions,
    *,
    true_labels: Path | None,
    annotator_info: Path | None,
    overwrite: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Read the files, make the release and write its folder; no message depends on the labels."""
    from conal._files import check_folder_place
    from conal.data.matching import lookalikes_allowed
    from conal.io.tables import ENDINGS
    from conal.privacy import private_release

    if true_labels is None or true_labels == EXPORT:
        raise InputError(NO_REFERENCE + ("; those in an export may be answers of annotators" if true_labels else ""))
    if out.suffix.lower() in ENDINGS:
        raise InputError(f"{out}: with --private, --out is a folder, for several tables; leave out {out.suffix}")
    check_folder_place(out, overwrite=overwrite, kind="an earlier private release", own=_written)
    with people_hidden(), lookalikes_allowed(), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConalWarning)  # what is wrong with the labels tells about the labels
        reference, classes = _reference(true_labels, reading)
        groups = None if annotator_info is None else _groups(annotator_info, reading.worker)
        crowd = _crowd(labels, reading)
        bounds: dict[str, Any] = {"epsilon": privacy.private, "max_labels": privacy.max_labels}
        made = private_release(crowd, reference, classes=classes, groups=groups, **bounds)
        _write(made, out)
    about = made.document()
    summary = (
        f"private release: epsilon {made.epsilon:g}, delta 0, for an annotator's whole contribution of at most "
        f"{made.max_labels:,} labels\n"
        f"labels counted: {about['labels']:,.0f} ± {about['labels_sd']:,.0f} (noise; each of the {made.counts.size:,} "
        f"counts ± {about['mechanism']['standard_deviation']:,.0f})\n"
        f"every further release of these labels adds its epsilon\n"
        f"release: {out}"
    )
    emit({"out": out, **about}, summary, as_json=as_json, quiet=quiet)


def _reference(path: Path, reading: ReadOptions) -> tuple[dict[Any, Any], Sequence[Any] | None]:
    """Task to true label, and the classes if the user listed them; read without a look at the crowd's labels."""
    from conal.io import read_gold

    columns: dict[str, Any] = {"task": reading.task, "label": reading.label}
    gold = read_gold(path, **columns, classes=reading.classes, missing=reading.missing, fallback_to_aliases=True)
    if gold.task_ids is None:
        raise InputError(f"{path}: true labels without task ids; add a column 'task' with the task ids")
    return dict(zip(gold.task_ids.tolist(), gold.labels.tolist(), strict=True)), reading.classes


def _groups(path: Path, worker: str | None) -> dict[Any, str]:
    """Annotator to group, from the table alone: who is in the crowd makes no difference."""
    from conal.data.encoding import spelling
    from conal.data.frames import find_annotators, find_column
    from conal.io.tables import read_table
    from conal.io.true_labels import ROLES

    table = read_table(path, names=[worker], roles=ROLES)
    columns = table.column_names
    ids = worker if worker in columns else find_annotators(columns, str(path))
    group = find_column([name for name in columns if name != ids], "group", None, str(path))
    if ids is None or group is None:
        raise InputError(f"{path}: needs a column of annotators, such as 'worker', and a column 'group'; add them")
    pairs = zip(table[ids].to_pylist(), table[group].to_pylist(), strict=True)
    return {who: spelling(name).strip() for who, name in pairs if who is not None and name is not None}


def _crowd(labels: Sequence[Path], reading: ReadOptions) -> Any:
    """The annotations. A label outside of the listed classes does not count; an error would tell that there is one."""
    from conal.io import import_file

    _refuse_exports(labels, reading.format)
    if reading.classes is not None and any(path.suffix.lower() == ".npy" for path in labels):
        raise InputError("--classes cannot name the numbers of a matrix with --private; write numbers as true labels")
    return import_file(labels, replace(reading, classes=None, ordinal=False)).annotations


def _refuse_exports(labels: Sequence[Path], format: str | None) -> None:  # noqa: A002
    """Reject formats in which it may depend on everybody's answers what a label is."""
    from conal.io.importing import detect
    from conal.parameters.reading import PLAIN_FORMATS

    for path in labels:
        found = [] if format in PLAIN_FORMATS or not path.exists() else detect(path)[0]
        if found or format not in (None, *PLAIN_FORMATS):
            raise InputError(
                f"{path}: --private takes tables with one label per row and matrices ({', '.join(PLAIN_FORMATS)}), not "
                f"{found[0].title if found else format}, where everybody's answers may decide what a label is; write "
                "such a table with conal convert, and look at it"
            )


def _write(made: PrivateRelease, out: Path) -> None:
    from conal._files import atomic_folder
    from conal.io.tables import fill_table

    with atomic_folder(out) as temporary:
        for name, table in made.tables().items():
            fill_table(table, temporary / name)
        text = json.dumps(made.document(), indent=2, ensure_ascii=False, allow_nan=False)
        (temporary / DOCUMENT).write_text(text + "\n", encoding="utf-8")


def _written(folder: Path) -> set[str]:
    """The files of an earlier release."""
    from conal.privacy import COMMON, FORMAT, GROUPS, SHARES

    try:
        content = json.loads((folder / DOCUMENT).read_text(encoding="utf-8")[:10_000_000])
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{folder}: has no {DOCUMENT}") from error
    if not isinstance(content, Mapping) or content.get("format") != FORMAT:
        raise InputError(f"{folder / DOCUMENT}: is not that of a private release")
    return {DOCUMENT, COMMON, GROUPS, SHARES}
