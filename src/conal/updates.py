"""Aggregators in folders, for updates, and which tasks have enough labels."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from conal._arrays import FloatArray
from conal.aggregation.base import Aggregator, aggregators, make
from conal.aggregation.confusion import Drift, Learned, LogParts, MatrixAggregator
from conal.aggregation.counts import Votes
from conal.aggregation.engines import Sums
from conal.aggregation.tempering import held_out_certainty
from conal.data.annotations import Annotations
from conal.data.container import frozen
from conal.data.encoding import Names, name_column
from conal.data.joining import Learnt, digest_of_labels, learnt
from conal.errors import InputError, ModelFolderError
from conal.io.model_folder import AGGREGATOR, TASKS, ModelFolder, names_from_json, names_to_json, write_model
from conal.parameters import check_parameters, share

if TYPE_CHECKING:
    from conal.metrics.rates import Rate

__all__ = [
    "ENOUGH",
    "check_level",
    "enough_table",
    "labels_from",
    "labels_to",
    "learned_from",
    "load",
    "measured_right",
    "save",
    "tempered",
]


# Which tasks have enough labels: the model's belief in their label is above a level that the user sets.

ENOUGH = "enough_labels.csv"
"""The table's name in a folder."""
POOLING = 1.0
"""Labels of the crowd in a row of an annotator's matrix, where labels are left out one by one."""
LABELS = 20_000
"""So many labels at most are left out, one by one."""
TINY = 1e-300


def check_level(level: float) -> None:
    """An error unless this is a probability between 0 and 1."""
    share().check("enough (--enough)", level)


def tempered(fitted: Aggregator, posterior: FloatArray | None = None) -> FloatArray:
    """(N, C) the posterior of an aggregator, or another one of its tasks, as sure as labels that were left out allow.

    Aggregators count annotators as independent, and claim too much where these err together. The exponent is that of
    :func:`conal.aggregation.tempering.held_out_certainty`; labels do not change. It is no calibration: labels that
    were left out show no mistake that most annotators share. Known true labels stay certain.
    """
    crowd = fitted.annotations_
    log_posterior = np.log(np.maximum(fitted.probas_, TINY))
    some = crowd if crowd.n_annotations <= LABELS else _part(crowd)
    votes: Any = (some.tasks, some.annotators, some.labels)
    learned = fitted.learned_.sums if isinstance(fitted, MatrixAggregator) else None
    counts = Votes(crowd).counts(fitted.probas_) if learned is None else learned.counts
    tau = held_out_certainty(log_posterior, votes, counts, vote_weight=1.0, pooling=POOLING)
    flat = (fitted.probas_ if posterior is None else posterior) ** tau
    flat /= flat.sum(1, keepdims=True)
    if posterior is None:
        known = fitted.known_codes_ >= 0
        flat[known] = fitted.probas_[known]
    return np.asarray(flat)


def measured_right(fitted: Aggregator, unseen: FloatArray, level: float) -> Rate | None:
    """How many labels with at least this probability are right, by true labels; None where fewer than ten tell.

    Parameters
    ----------
    unseen : (N, C)
        The posterior, of tasks with a true label by fits without it.
    """
    from conal.metrics.rates import (
        MIN_OF_ANNOTATOR,  # loading scipy takes a tenth of a second
        gold_rate,
    )

    crowd, probas = fitted.annotations_, tempered(fitted, unseen)
    best = probas.max(1)
    rows = np.flatnonzero((best >= level) & (crowd.labels_per_task() > 0))
    judged = np.flatnonzero(fitted.known_codes_[rows] >= 0)
    if len(judged) < MIN_OF_ANNOTATOR:
        return None
    right = probas.argmax(1)[rows[judged]] == fitted.known_codes_[rows[judged]]
    inclusion = None if fitted.inclusion_ is None else fitted.inclusion_[rows[judged]]
    return gold_rate(best[rows], judged, right, inclusion=inclusion)


def _part(crowd: Annotations) -> Annotations:
    """Labels of random tasks, enough to see how sure to be."""
    kept = np.random.default_rng(0).random(crowd.n_tasks) < LABELS / crowd.n_annotations
    return crowd.select(kept[crowd.tasks])


def enough_table(crowd: Annotations, probas: FloatArray, classes: Any, level: float) -> pa.Table:
    """The tasks whose most probable class has at least this probability; the surest first.

    Columns: task, label, probability (the model's belief, as ``basis`` says), and how many labels the task has.
    """
    best = probas.max(1)
    rows = np.flatnonzero((best >= level) & ~np.isnan(best))
    rows = rows[np.argsort(-best[rows], kind="stable")]
    return pa.table(
        {
            "task": name_column(crowd.task_ids[rows]),
            "label": name_column(classes[probas[rows].argmax(1)]),
            "probability": best[rows],
            "basis": ["belief"] * len(rows),
            "labels": crowd.labels_per_task()[rows],
        }
    )


# Aggregators to folders and back: labels, what was learned from them, and what they were.

Tensors = dict[str, npt.NDArray[Any]]
UNFIT = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, pa.ArrowException)
"""What happens where values of a folder have unexpected types or sizes."""
COURSE = ("n_iter_", "converged_", "start_", "objective_history_", "stale_share_")
"""How the fit went, and what the last update said."""
SUM_TOLERANCE = 1e-6
TASK_IDS, TASK_ENDS = "task_ids", "task_ids.ends"
"""The ids of the tasks: numbers, or the bytes of all texts one after the other, and where each ends."""


def save(
    fitted: Aggregator, folder: str | PathLike[str], *, enough: float | None = None, overwrite: bool = False
) -> int:
    """Write a fitted aggregator as a folder that can be updated.

    With a level ``enough``, the folder lists the tasks that need no more labels; their number is returned.
    """
    from conal import __version__

    fitted._check_update(str(folder))
    if enough is not None:
        check_level(enough)
    crowd = fitted.annotations_
    history = [dict(entry) for entry in fitted.learned_from_ or [learnt("fit", crowd)]]
    if history[0]["sha256"] is None:
        history[0]["sha256"] = digest_of_labels(crowd) if len(history) == 1 else "unknown"
    config = {
        "conal_version": __version__,
        "method": fitted.name,
        "parameters": _plain_parameters(fitted),
        "classes": names_to_json(crowd.classes),
        "annotator_ids": names_to_json(crowd.annotator_ids),
        "ordinal": crowd.ordinal,
        "choices": fitted._choices(),
        "course": {name: getattr(fitted, name) for name in COURSE if hasattr(fitted, name)},
        "learned_from": history,
    }
    tensors: Tensors = {
        **labels_to(crowd),
        **_names_to(crowd.task_ids),
        "probas": fitted.probas_,
        "known": fitted.known_codes_,
    }
    if fitted.inclusion_ is not None:
        tensors["inclusion"] = fitted.inclusion_
    if isinstance(fitted, MatrixAggregator):
        config["settings"] = dict(fitted.learned_.settings)
        tensors |= _learned_to(fitted)
    tables = {} if enough is None else {ENOUGH: enough_table(crowd, tempered(fitted), crowd.classes, enough)}
    figures = {"n_tasks": crowd.n_tasks, "n_annotators": crowd.n_annotators, "n_annotations": crowd.n_annotations}
    documents = {} if TASK_IDS in tensors else {TASKS: {"task_ids": names_to_json(crowd.task_ids)}}
    write_model(folder, tensors, config, figures, tables, documents, format=AGGREGATOR, overwrite=overwrite)
    return tables[ENOUGH].num_rows if tables else 0


def load(folder: str | PathLike[str]) -> Aggregator:
    """Load an aggregator that :func:`save` wrote.

    A folder may come from anybody: it is checked, and no code in it is run.
    """
    found = ModelFolder(folder)
    found.expect(AGGREGATOR)
    found.check_complete()
    try:
        return _restore(found)
    except InputError:
        raise
    except UNFIT as error:
        raise ModelFolderError(f"{folder}: does not match this version of conal: {error}") from error


def labels_to(crowd: Annotations) -> Tensors:
    """The codes of annotations as tensors."""
    tensors = {"tasks": crowd.tasks, "annotators": crowd.annotators, "labels": crowd.labels}
    return tensors if crowd.times is None else tensors | {"times": crowd.times.view(np.int64)}


def labels_from(
    tensors: Mapping[str, npt.NDArray[Any]], names: tuple[Names, Names, Names], ordinal: bool
) -> Annotations:
    """The annotations of :func:`labels_to`, once it is certain that they are sorted and fit the names."""
    columns = [tensors[name] for name in ("tasks", "annotators", "labels")]
    for codes, own in zip(columns, names, strict=True):
        if codes.dtype != np.int32 or codes.ndim != 1 or len(codes) != len(columns[0]):
            raise ValueError("codes of labels must be three equally long columns")
        if len(codes) and (codes.min() < 0 or codes.max() >= len(own)):
            raise ValueError("codes of labels must be those of the names")
    pairs = columns[0].astype(np.int64) * max(len(names[1]), 1) + columns[1]
    if (pairs[1:] <= pairs[:-1]).any():
        raise ValueError("labels must be sorted by task and annotator, each pair once")
    times = tensors.get("times")
    if times is not None and (times.dtype != np.int64 or times.shape != columns[0].shape):
        raise ValueError("there must be a time for every label")
    indptr = np.searchsorted(columns[0], np.arange(len(names[0]) + 1, dtype=np.int32)).astype(np.int64)
    for array in (*columns, indptr):
        array.setflags(write=False)
    when = None if times is None else frozen(times.view("datetime64[us]"))
    return Annotations.assembled(columns, indptr, names, ordinal=ordinal, times=when)


def _names_to(names: Names) -> Tensors:
    """Names as tensors, which are read and written many times faster than JSON; nothing for names of other types."""
    if names.dtype.kind == "i":
        return {TASK_IDS: names}
    plain = names.tolist()
    if not all(type(name) is str for name in plain):
        return {}
    text = pa.array(plain, pa.large_string())
    ends, data = (np.frombuffer(text.buffers()[k] or b"", dtype=kind) for k, kind in ((1, np.int64), (2, np.uint8)))
    return {TASK_IDS: data[: ends[len(plain)]], TASK_ENDS: ends[: len(plain) + 1]}


def _names_from(tensors: Tensors) -> Names:
    names = tensors[TASK_IDS]
    if names.dtype == np.int64 and names.ndim == 1:
        return frozen(names)
    ends = tensors[TASK_ENDS]
    if (
        names.dtype != np.uint8
        or ends.dtype != np.int64
        or ends[0]
        or ends[-1] != len(names)
        or (np.diff(ends) < 0).any()
    ):
        raise ValueError("the names of the tasks are damaged")
    text = pa.LargeStringArray.from_buffers(len(ends) - 1, pa.py_buffer(ends), pa.py_buffer(names))
    text.validate(full=True)
    found: Names = text.to_numpy(zero_copy_only=False)
    return frozen(found)


def learned_from(config: Mapping[str, Any]) -> tuple[Learnt, ...]:
    """What a folder has learned from; empty for folders of versions that kept no history."""
    entries = config.get("learned_from", [])
    return tuple(
        Learnt(
            kind=str(entry["kind"]),
            when=str(entry["when"]),
            labels=int(entry["labels"]),
            tasks=int(entry["tasks"]),
            annotators=int(entry["annotators"]),
            sha256=str(entry["sha256"]),
        )
        for entry in entries
    )


def _plain_parameters(fitted: Aggregator) -> dict[str, Any]:
    """The parameters as JSON values; groups that were given by name are listed in the order of the annotators."""
    parameters = fitted.get_params()
    if isinstance(parameters.get("groups"), Mapping):
        names, codes = fitted._choices()["stated"]
        parameters["groups"] = [names[k] for k in codes]
    return {name: value.item() if hasattr(value, "item") else value for name, value in parameters.items()}


def _restore(folder: ModelFolder) -> Aggregator:
    config = folder.config
    cls = aggregators.get(config["method"])
    parameters = {name: _as_declared(value) for name, value in dict(config["parameters"]).items()}
    made = make(cls.name, **parameters)
    check_parameters(made)
    classes, annotator_ids = (names_from_json(list(config[name])) for name in ("classes", "annotator_ids"))
    tensors = folder.tensors()
    task_ids = _names_from(tensors) if TASK_IDS in tensors else names_from_json(folder.document(TASKS)["task_ids"])
    crowd = labels_from(tensors, (task_ids, annotator_ids, classes), config["ordinal"] is True)
    probas, made.known_codes_ = _posterior(tensors, crowd)
    made.inclusion_ = _inclusion(tensors, made.known_codes_)
    made._restore_choices(config["choices"])
    for name in COURSE:
        if name in config["course"]:
            setattr(made, name, config["course"][name])
    if isinstance(made, MatrixAggregator):
        made.learned_ = _learned_from(made, tensors, crowd, dict(config["settings"]))
        made._adopt(Votes(crowd), made.learned_.parameters)
    made.learned_from_ = learned_from(config)
    made._store(crowd, probas, made._winners(probas))
    return made


def _as_declared(value: Any) -> Any:
    """JSON has lists where parameters are tuples."""
    return tuple(value) if isinstance(value, list) else value


def _posterior(tensors: Tensors, crowd: Annotations) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    probas, known = tensors["probas"], tensors["known"]
    if probas.dtype != np.float64 or probas.shape != (crowd.n_tasks, crowd.n_classes):
        raise ValueError("there must be a probability for every task and class")
    if not (
        probas.min(initial=0.0) >= 0 and np.abs(probas @ np.ones(crowd.n_classes) - 1).max(initial=0) < SUM_TOLERANCE
    ):
        raise ValueError("probabilities must sum to 1")
    if (
        known.dtype != np.int64
        or known.shape != (crowd.n_tasks,)
        or (known >= crowd.n_classes).any()
        or (known < -1).any()
    ):
        raise ValueError("known true labels must be classes")
    return probas, known


def _inclusion(tensors: Tensors, known: npt.NDArray[np.int64]) -> npt.NDArray[np.float64] | None:
    drawn = tensors.get("inclusion")
    if drawn is None:
        return None
    if drawn.dtype != np.float64 or drawn.shape != known.shape:
        raise ValueError("there must be a probability for every task with a true label")
    given = drawn[known >= 0]
    if not ((given > 0) & (given <= 1)).all():
        raise ValueError("probabilities by which tasks were drawn must be above 0 and at most 1")
    return drawn


def _learned_to(fitted: MatrixAggregator[Any]) -> Tensors:
    learned, sums = fitted.learned_, fitted._sums_of(fitted.annotations_)
    tensors = {f"parameters.{name}": value for name, value in learned.parameters._asdict().items()}
    tensors |= {"sums.counts": sums.counts, "sums.shares": sums.shares}
    if learned.drift is not None:
        anchor, margin = learned.drift
        tensors |= {"drift.rho": anchor.rho, "drift.pi_r": anchor.pi_r, "drift.margin": margin}
    return tensors


def _learned_from(
    made: MatrixAggregator[Any], tensors: Tensors, crowd: Annotations, settings: dict[str, Any]
) -> Learned:
    R, C = crowd.n_annotators, crowd.n_classes
    fields = made.parameters_type._fields
    parameters = made.parameters_type(*(tensors[f"parameters.{name}"] for name in fields))
    for name in made.by_annotator:
        if len(getattr(parameters, name)) != R:
            raise ValueError(f"{name} must have a row for every annotator")
    made.learned_ = Learned(parameters, settings=settings)
    parts = made._as_learned()._log_parts(parameters)
    _check_parts(parts, R, C)
    counts, shares = tensors["sums.counts"], tensors["sums.shares"]
    if (
        counts.shape != (R, C, C)
        or shares.shape != (C,)
        or not (np.isfinite(counts).all() and np.isfinite(shares).all())
    ):
        raise ValueError("there must be expected counts of every annotator")
    drift = None
    if "drift.margin" in tensors:
        drift = Drift(LogParts(tensors["drift.rho"], tensors["drift.pi_r"]), tensors["drift.margin"])
        _check_parts(drift.anchor, R, C)
        if drift.margin.shape != (crowd.n_tasks,):
            raise ValueError("there must be a margin of every task")
    return Learned(parameters, Sums(counts, shares, crowd.n_tasks), settings, drift)


def _check_parts(parts: LogParts, R: int, C: int) -> None:
    if parts.rho.shape != (C,) or parts.pi_r.shape != (R, C, C):
        raise ValueError(f"matrices of shape {parts.pi_r.shape} for {R} annotators and {C} classes")
    if np.isnan(parts.rho).any() or np.isnan(parts.pi_r).any():
        raise ValueError("matrices must contain numbers")
