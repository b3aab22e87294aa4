"""``conal simulate``: files for ``conal fit`` of a simulated crowd, with the truth."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from zipfile import ZipFile, is_zipfile

import typer

from conal.cli import options
from conal.errors import InputError
from conal.parameters.simulation import SyntheticSettings

if TYPE_CHECKING:
    import pyarrow as pa

    from conal.datasets import CrowdDataset


SETTINGS = options.settable(SyntheticSettings)
TRUTH = "truth.npz"
IN_TRUTH = ("z", "s", "omega", "pi_g", "pi_r")
OF_FAMILIES = ("groups", "pi_f")
"""Further arrays of the truth, where annotators belong to families."""
OF_ADVERSARIES = ("kind", "source", "turns_after", "copied", "time")
"""Further arrays of the truth, where some annotators mean harm."""
ANNOTATORS = "annotators.csv"


def simulate(
    out: Annotated[Path, typer.Option(help="Output folder.")],
    settings: Annotated[list[str] | None, options.set_option(SETTINGS)] = None,
    overwrite: options.Overwrite = False,
    quiet: options.Quiet = False,
    as_json: options.AsJson = False,
) -> None:
    """Simulate a crowd with the paper's generator and write it to files, including the truth.

    The folder contains labels.csv, features.npy, valid_features.npy, valid_labels.csv, test_features.npy,
    test_labels.csv and truth.npz (z, s, omega, pi_g, pi_r). With families, annotators.csv has the family of every
    annotator, for --annotator-info, and truth.npz also groups and pi_f. With adversaries, labels.csv is in the order
    in which the labels were given and has a column time, and truth.npz also says of every annotator which kind it is
    (kind), whom it copies (source, -1 for nobody) and after how many labels it turns (turns_after, -1 for never), and
    of every label whether it is a copy (copied) and when it was given (time).
    """
    from conal._files import check_folder_place
    from conal.datasets import synthetic

    given = options.parse_settings(settings)
    parameters = options.chosen(SyntheticSettings, given)
    options.refuse_unknown(given, SETTINGS)
    check_folder_place(out, overwrite=overwrite, kind="an earlier simulation", own=_written)
    data = synthetic(**parameters)
    _write(data, out)
    crowd = data.annotations
    summary: dict[str, Any] = {
        "out": out,
        "n_annotations": crowd.n_annotations,
        "n_tasks": crowd.n_tasks,
        "n_annotators": crowd.n_annotators,
        "annotation_accuracy": float((crowd.labels == data.y_true[crowd.tasks]).mean()),
    }
    text = (
        f"{crowd.n_annotations:,} labels by {crowd.n_annotators} annotators on {crowd.n_tasks:,} tasks, "
        f"{100 * summary['annotation_accuracy']:.1f} % right: {out}\n"
        f"next: conal fit {out / 'labels.csv'} --features {out / 'features.npy'} --out MODEL"
    )
    options.emit(summary, text, as_json=as_json, quiet=quiet)


def _written(folder: Path) -> set[str]:
    """The files of an earlier simulation."""
    if not is_zipfile(folder / TRUTH):
        raise InputError(f"{folder}: has no {TRUTH}")
    with ZipFile(folder / TRUTH) as archive:
        more = {f"{name}.npy" for name in (*OF_FAMILIES, *OF_ADVERSARIES)}
        if set(archive.namelist()) - more != {f"{name}.npy" for name in IN_TRUTH}:
            raise InputError(f"{folder / TRUTH}: is not the truth of a simulation")
    own = {TRUTH, ANNOTATORS}
    return own | {f"{split}{name}" for split in ("", "valid_", "test_") for name in ("labels.csv", "features.npy")}


def _write(data: CrowdDataset, out: Path) -> None:
    import numpy as np
    import pyarrow as pa

    from conal._files import atomic_folder
    from conal.io.tables import fill_table

    assert data.truth is not None  # noqa: S101 - the synthetic generator always returns it
    with atomic_folder(out) as temporary:
        fill_table(_labels(data), temporary / "labels.csv")
        np.save(temporary / "features.npy", data.x)
        for name, split in (("valid", data.valid), ("test", data.test)):
            if split is not None and len(split.x):
                np.save(temporary / f"{name}_features.npy", split.x)
                labels = {"task": np.arange(len(split.y)), "label": data.classes[split.y].tolist()}
                fill_table(pa.table(labels), temporary / f"{name}_labels.csv")
        truth = data.truth
        if truth.groups is not None:
            families = [f"family {k}" for k in truth.groups.tolist()]
            fill_table(pa.table({"worker": data.annotations.annotator_ids, "group": families}), temporary / ANNOTATORS)
        found = {name: getattr(truth, name) for name in IN_TRUTH}
        found |= {} if truth.groups is None else {name: getattr(truth, name) for name in OF_FAMILIES}
        harmful = truth.adversaries
        found |= {} if harmful is None else {name: getattr(harmful, name) for name in OF_ADVERSARIES}
        np.savez_compressed(temporary / TRUTH, **found)


def _labels(data: CrowdDataset) -> pa.Table:
    """The labels; in the order of their time where somebody means harm, for copies come after their source."""
    import pyarrow as pa

    table, truth = data.annotations.to_table(), data.truth
    if truth is None or truth.adversaries is None:
        return table
    time = pa.array(truth.adversaries.time)
    return table.append_column("time", time).sort_by("time")
