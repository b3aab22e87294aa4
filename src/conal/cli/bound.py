"""``conal bound``: how low the error of inferred labels can be, for a trained model or a simulated crowd."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from conal.cli.inputs import read_for_model
from conal.cli.options import AsJson, Group, Quiet, Reading, Seed, emit
from conal.errors import InputError
from conal.parameters.reading import ReadOptions
from conal.parameters.simulation import CrowdSettings, SyntheticSettings

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from conal.data.annotations import Annotations
    from conal.estimator import CrowdClassifier
    from conal.io import FeatureTable
    from conal.theory import BayesError, ErrorLowerBound

__all__ = ["bound"]

SIMULATED = 100
"""Default number of instances of a simulated crowd."""

NOT_BOUNDED = ("adversaries", "adversary_share", "copied_share", "turn_after")
"""Settings of people whose labels depend on those of others, or on time: the theorem knows no such people."""
SIMULATION = Group(
    SyntheticSettings,
    make=dict,
    only=("n_classes", *(name for name in CrowdSettings.declared if name not in NOT_BOUNDED)),
)


class Crowd(NamedTuple):
    """The parameters of a crowd; see :func:`conal.theory.error_lower_bound`."""

    rho: npt.NDArray[np.float64]
    pi_g: npt.NDArray[np.float64]
    pi_r: npt.NDArray[np.float64]
    omega: npt.NDArray[np.float64]
    observed: npt.NDArray[np.bool_]


def bound(
    *,
    model: Annotated[Path | None, typer.Argument(help="Model folder written by conal fit.")] = None,
    features: Annotated[Path | None, typer.Option(help="Features (.npy, .npz, .parquet, .csv), or texts.")] = None,
    labels: Annotated[
        Path | None,
        typer.Option(help="Crowd labels; only their (task, annotator) pairs are used (default: all pairs)."),
    ] = None,
    simulate: Annotated[bool, typer.Option("--simulate", help="Use a simulated crowd instead of a model.")] = False,
    n: Annotated[
        int | None, typer.Option(min=1, help=f"Take the first N instances (default: all; simulated: {SIMULATED}).")
    ] = None,
    settings: Annotated[dict[str, Any], SIMULATION],
    epsilon: Annotated[
        float, typer.Option(min=0, max=1, help="Smooth the confusion matrices; zeros in them make the bound void.")
    ] = 0.0,
    draws: Annotated[int, typer.Option(min=2, help="Number of simulated crowds, for the Bayes-optimal error.")] = 200,
    seed: Seed = 0,
    reading: Reading,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Compute a lower bound on the error of labels inferred from a crowd (the paper's Theorem 1).

    With a model folder, the model's class probabilities, both kinds of confusion and omega are treated as true.
    With --simulate, they are those of the paper's generator, with equal class shares. The bound is shown beside
    a Monte-Carlo estimate of what it bounds: the error of the best rule under the same parameters.

    The bound is at most 1 / N for N instances: use a small --n.
    """
    from conal.theory import bayes_error, error_lower_bound, smooth

    if simulate:
        _refuse_files(model, features, labels)
        crowd = _simulated(settings, n, seed)
    else:
        crowd = _from_model(*_needed(model, features, settings), labels, n, reading)
    result = error_lower_bound(crowd.rho, crowd.pi_g, crowd.pi_r, crowd.omega, observed=crowd.observed, epsilon=epsilon)
    # The error of the crowd that the bound is for, which may be smoothed.
    pi_g, pi_r = smooth(crowd.pi_g, epsilon), smooth(crowd.pi_r, epsilon)
    best = bayes_error(crowd.rho, pi_g, pi_r, crowd.omega, observed=crowd.observed, n_draws=draws, seed=seed)
    emit(_figures(crowd, result, best, draws), _text(crowd, result, best, draws), as_json=as_json, quiet=quiet)


# -------------------------------------------------------------------- simulated


def _refuse_files(model: Path | None, features: Path | None, labels: Path | None) -> None:
    given = {"a model folder": model, "--features": features, "--labels": labels}
    for name, path in given.items():
        if path is not None:
            raise InputError(f"--simulate and {name} ({path}) exclude each other; pass one of them")


def _simulated(settings: dict[str, Any], n: int | None, seed: int) -> Crowd:
    import numpy as np

    from conal.datasets import synthetic

    data = synthetic(n_train=n or SIMULATED, n_valid=0, n_test=0, seed=seed, **settings)
    truth, ann = data.truth, data.annotations
    assert truth is not None  # noqa: S101 - the synthetic generator always returns it
    omega = np.zeros((ann.n_tasks, ann.n_annotators))
    omega[ann.tasks, ann.annotators] = truth.omega
    rho = np.full((ann.n_tasks, ann.n_classes), 1 / ann.n_classes)
    return Crowd(rho, truth.pi_g, truth.pi_r, omega, ann.to_matrix() >= 0)


# -------------------------------------------------------------------- from a model


def _needed(model: Path | None, features: Path | None, settings: dict[str, Any]) -> tuple[Path, Path]:
    if settings:
        raise InputError(
            f"--{next(iter(settings)).replace('_', '-')} is a setting of a simulated crowd; add --simulate"
        )
    if model is None:
        raise InputError("pass a model folder and --features, or --simulate")
    if features is None:
        raise InputError(f"--features is missing; pass the features of the instances for {model}")
    return model, features


def _from_model(folder: Path, path: Path, labels: Path | None, n: int | None, reading: ReadOptions) -> Crowd:
    import numpy as np

    from conal.estimator import load
    from conal.io import read_annotations

    estimator = load(folder)
    if not estimator.model_.separates_noise:
        raise InputError(
            f"{folder}: method {estimator.method!r} does not separate common from individual confusion, "
            "which the bound needs; use a model of 'conal' or 'conal-em'"
        )
    table = read_for_model(path, estimator, task=reading.task, fallback_to_aliases=labels is not None)
    if labels is None:
        table, names = _rows(table, np.arange(len(table))[:n]), estimator.annotator_ids_
        observed = np.ones((len(table), len(names)), dtype=bool)
    else:
        table, ann = _labelled(table, read_annotations(labels, reading), n)
        observed, names = ann.to_matrix() >= 0, ann.annotator_ids
    # As the paper reads them: a softmax on each row of the weights, mixed as probabilities, however the model trained.
    pi_r = _confusion_matrices(estimator, names)
    rho = estimator.predict_proba(table)
    return Crowd(rho, estimator.common_confusion_, pi_r, _omega(estimator, table, observed, names), observed)


def _labelled(table: FeatureTable, ann: Annotations, n: int | None) -> tuple[FeatureTable, Annotations]:
    """The first n instances that have labels, with their features; task i is row i."""
    import numpy as np

    from conal.estimator.inputs import aligned

    instances, ann, _ = aligned(table, ann, allow_missing=True, unlabelled=False)
    tasks = np.flatnonzero(ann.labels_per_task())[:n]
    return _rows(table, tasks if instances.rows is None else instances.rows[tasks]), ann[tasks]


def _rows(table: FeatureTable, rows: npt.NDArray[np.int64]) -> FeatureTable:
    from dataclasses import replace

    return replace(table, values=table.values[rows], ids=None)


def _confusion_matrices(estimator: CrowdClassifier, names: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """(R, C, C) confusion of these annotators; the model's common confusion for annotators unknown to it."""
    import numpy as np

    from conal.data.encoding import decode_position

    codes = decode_position(estimator.annotator_ids_, names)
    known = (codes >= 0)[:, None, None]
    return np.where(known, estimator.annotator_confusion_[codes], estimator.common_confusion_)


def _omega(
    estimator: CrowdClassifier, table: FeatureTable, observed: npt.NDArray[np.bool_], names: npt.NDArray[Any]
) -> npt.NDArray[np.float64]:
    """(N, R) omega of the observed pairs, one annotator at a time; 0 elsewhere."""
    import numpy as np

    omega = np.zeros(observed.shape)
    for r in np.flatnonzero(observed.any(axis=0)).tolist():
        asked = np.flatnonzero(observed[:, r])
        omega[asked, r] = estimator.common_noise_rate(_rows(table, asked), np.repeat(names[r : r + 1], len(asked)))
    return omega


# -------------------------------------------------------------------- output


def _figures(crowd: Crowd, result: ErrorLowerBound, best: BayesError, draws: int) -> dict[str, Any]:
    """One flat object; infinite values are null, since JSON has no infinity."""
    names = ("value", "raw", "entropy_term", "kl_term", "constant_term", "tight_value", "tight_raw", "tight_kl_term")
    figures: dict[str, float] = {name: getattr(result, name) for name in (*names, "min_instances", "epsilon")}
    finite = {name: figure if math.isfinite(figure) else None for name, figure in figures.items()}
    return finite | {
        "bayes_error": best.value,
        "bayes_error_se": best.standard_error,
        "draws": draws,
        "n_instances": result.n_instances,
        "n_classes": result.n_classes,
        "n_annotators": int(crowd.observed.any(axis=0).sum()),
        "n_annotations": int(crowd.observed.sum()),
    }


def _text(crowd: Crowd, result: ErrorLowerBound, best: BayesError, draws: int) -> str:
    smoothed = f", confusion smoothed by epsilon {result.epsilon:g}" if result.epsilon else ""
    corollary = (
        f"it decreases with more instances from N = {result.min_instances:.3g}"
        if math.isfinite(result.min_instances)
        else "no instance has F > 0: no number of instances makes it positive"
    )
    whole = ", as if each labelled every instance" if crowd.observed.all() else ""
    lines = [
        f"{result.n_instances:,} instances, {result.n_classes} classes, {int(crowd.observed.sum()):,} labels by "
        f"{int(crowd.observed.any(axis=0).sum()):,} annotators{whole}{smoothed}",
        f"lower bound          {_line(result.value, result.raw, result, result.kl_term)}",
        f"  tighter, mixtures  {_line(result.tight_value, result.tight_raw, result, result.tight_kl_term)}",
        f"Bayes-optimal error  {best.value:.4g} (standard error {best.standard_error:.2g}, {draws:,} draws)",
        f"corollary            {corollary}",
    ]
    if math.isinf(result.raw):
        lines.append("zero entries of confusion matrices: an infinite KL makes the theorem void; see --epsilon")
    return "\n".join(lines)


def _line(value: float, raw: float, result: ErrorLowerBound, kl_term: float) -> str:
    parts = f"entropy {result.entropy_term:.4g} - KL {kl_term:.4g} - log 2 term {result.constant_term:.4g} = {raw:.4g}"
    return f"{value:.4g} ({parts})"
