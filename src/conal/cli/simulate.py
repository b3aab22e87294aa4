"""``conal simulate``: a crowd with known truth, as files that ``conal fit`` takes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from conal.cli.options import AsJson, Overwrite, Quiet, Seed, emit
from conal.errors import InputError

if TYPE_CHECKING:
    from conal.datasets import CrowdDataset

__all__ = ["simulate"]

TRUTH = "truth.npz"


def simulate(
    out: Annotated[Path, typer.Option(help="Folder to write.")],
    n_train: Annotated[int, typer.Option(help="Training instances, labelled by the crowd.")] = 8000,
    n_valid: Annotated[int, typer.Option(help="Validation instances, with true labels.")] = 1000,
    n_test: Annotated[int, typer.Option(help="Test instances, with true labels.")] = 1000,
    n_classes: Annotated[int, typer.Option(help="Classes.")] = 6,
    n_features: Annotated[int, typer.Option(help="Features.")] = 20,
    separation: Annotated[float, typer.Option(help="Standard deviation of the class means.")] = 0.85,
    n_annotators: Annotated[int, typer.Option(help="Annotators.")] = 30,
    labels_per_instance: Annotated[float, typer.Option(help="Labels per training instance, on average.")] = 3.0,
    common_strength: Annotated[float, typer.Option(help="Off-diagonal mass of the common confusion.")] = 0.4,
    common_type: Annotated[
        Literal["asymmetric", "symmetric"], typer.Option(help="Kind of common confusion.")
    ] = "asymmetric",
    individual_strength: Annotated[float, typer.Option(help="Off-diagonal mass of individual confusion.")] = 0.3,
    proportion: Annotated[float, typer.Option(help="Mean share of annotations with common confusion.")] = 0.5,
    gate_scale: Annotated[float, typer.Option(help="How much that share varies over pairs.")] = 4.0,
    embedding_dim: Annotated[int, typer.Option(help="Dimension of the embeddings behind it.")] = 20,
    seed: Seed = 0,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Simulate a crowd with the paper's generator and write it as files, truth included.

    The folder holds labels.csv, features.npy, valid_features.npy, valid_labels.csv, test_features.npy,
    test_labels.csv and truth.npz (z, s, omega, pi_g, pi_r).
    """
    from conal.datasets import synthetic

    _check_target(out, overwrite)
    data = synthetic(
        n_train=n_train,
        n_valid=n_valid,
        n_test=n_test,
        n_classes=n_classes,
        n_features=n_features,
        separation=separation,
        n_annotators=n_annotators,
        labels_per_instance=labels_per_instance,
        common_strength=common_strength,
        common_type=common_type,
        individual_strength=individual_strength,
        proportion=proportion,
        gate_scale=gate_scale,
        embedding_dim=embedding_dim,
        seed=seed,
    )
    _write(data, out)
    summary: dict[str, Any] = {
        "out": out,
        "n_annotations": data.annotations.n_annotations,
        "n_tasks": data.annotations.n_tasks,
        "n_annotators": data.annotations.n_annotators,
        "annotation_accuracy": float((data.annotations.labels == data.y_true[data.annotations.tasks]).mean()),
    }
    text = (
        f"{summary['n_annotations']:,} labels by {n_annotators} annotators on {n_train:,} tasks, "
        f"{100 * summary['annotation_accuracy']:.1f} % right: {out}\n"
        f"next: conal fit {out / 'labels.csv'} --features {out / 'features.npy'} --out MODEL"
    )
    emit(summary, text, as_json=as_json, quiet=quiet)


def _check_target(out: Path, overwrite: bool) -> None:
    from conal.io.atomic import is_free

    if not is_free(out) and not (overwrite and (out / TRUTH).is_file()):
        raise InputError(
            f"{out}: exists already; choose another place, or replace an earlier simulation with --overwrite"
        )


def _write(data: CrowdDataset, out: Path) -> None:
    import numpy as np
    import pyarrow as pa

    from conal.io import write_annotations, write_table
    from conal.io.atomic import atomic_folder

    assert data.truth is not None  # noqa: S101 - the synthetic generator always returns it
    with atomic_folder(out) as aside:
        write_annotations(data.annotations, aside / "labels.csv")
        np.save(aside / "features.npy", data.x)
        for name, split in (("valid", data.valid), ("test", data.test)):
            if split is not None and len(split.x):
                np.save(aside / f"{name}_features.npy", split.x)
                labels = {"task": np.arange(len(split.y)), "label": data.classes[split.y].tolist()}
                write_table(pa.table(labels), aside / f"{name}_labels.csv")
        truth = data.truth
        np.savez_compressed(aside / TRUTH, z=truth.z, s=truth.s, omega=truth.omega, pi_g=truth.pi_g, pi_r=truth.pi_r)
