"""``conal aggregate``: crowd labels in, one label per task out, without features."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from conal._system import process_number, process_rank
from conal.cli.aggregate_options import (
    DEFAULT,
    Annotators,
    Confusion,
    Method,
    Out,
    Plan,
    Privacy,
    Report,
    Save,
    Settings,
)
from conal.cli.aggregate_results import Outputs
from conal.cli.aggregate_summary import figures_of, summary_of
from conal.cli.crowd_plan import Budget
from conal.cli.defence import Defend, defended_labels
from conal.cli.options import (
    AboutAnnotators,
    AsJson,
    Handicap,
    Labels,
    Overwrite,
    Quiet,
    Reading,
    Seed,
    check_handicap,
    emit,
    parse_settings,
)
from conal.cli.private import refuse_beside_private, release
from conal.cli.true_labels import TrueLabels, offer_truth, read_sample, truth_files
from conal.errors import InputError
from conal.parameters import check_parameters
from conal.parameters.reading import ReadOptions

if TYPE_CHECKING:
    from conal.aggregation.base import Aggregator
    from conal.data.annotations import Annotations
    from conal.data.annotator_info import AnnotatorInfo
    from conal.io import AnnotationFile

__all__ = ["aggregate"]


def aggregate(
    *,
    labels: Labels,
    out: Out,
    method: Method = DEFAULT,
    true_labels: TrueLabels = None,
    annotator_info: AboutAnnotators = None,
    annotators: Annotators = None,
    confusion: Confusion = None,
    report: Report = None,
    plan: Plan = None,
    budget: Budget = None,
    save: Save = None,
    handicap: Handicap = None,
    reading: Reading,
    privacy: Privacy,
    settings: Settings = None,
    defend: Defend = False,
    seed: Seed = 0,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Infer one label per task from crowd labels alone, without features.

    The table has one row per task: task, label, probability of the label, and one column proba_CLASS per class. With
    --ordinal, also mean, median, low and high. The label of a task without any label is empty; its proba_CLASS are
    those of an unseen task.
    """
    if privacy.private is not None:
        unfit: dict[str, Any] = {"annotators": annotators, "confusion": confusion, "report": report, "save": save}
        unfit |= {"handicap": handicap, "plan": plan, "budget": budget, "defend": defend, "seed": seed, "set": settings}
        refuse_beside_private(method=method != DEFAULT, **unfit)
        known_to_all = {"true_labels": true_labels, "annotator_info": annotator_info}
        release(labels, out, privacy, reading, **known_to_all, overwrite=overwrite, quiet=quiet, as_json=as_json)
        return
    began = time.perf_counter()
    sources = Sources(labels, true_labels, annotator_info, reading)
    check_handicap(handicap, annotator_info)
    outputs = Outputs(out, annotators, confusion, report, plan, save, budget, privacy.min_labels, handicap)
    outputs.check(sources.files(), overwrite=overwrite)
    aggregator = _make(method, parse_settings(settings), seed=seed, verbose=not quiet)
    outputs.check_save(aggregator, labels, overwrite=overwrite)
    crowd = sources.read(method, defend=defend, quiet=quiet)
    if not _fit(aggregator, crowd.annotations, crowd.known, crowd.info):
        return
    figures, told_of_plan = outputs.write(aggregator, seed=seed, overwrite=overwrite)
    result = {
        **outputs.places(),
        "method": method,
        **figures_of(aggregator, crowd.file),
        "n_true_labels": int((aggregator.known_codes_ >= 0).sum()),
        "seconds": time.perf_counter() - began,
        **({"plan": {"out": plan, **figures}} if figures else {}),
    }
    emit(result, "\n".join([summary_of(result), *told_of_plan]), as_json=as_json, quiet=quiet)


class Crowd(NamedTuple):
    """What was read: the file, its labels (fewer with ``--defend``), true labels, and what annotators are known for."""

    file: AnnotationFile
    annotations: Annotations
    known: Any
    info: AnnotatorInfo | None


class Sources(NamedTuple):
    """The user's files, and how they are read."""

    labels: list[Path]
    true_labels: Path | None
    annotator_info: Path | None
    reading: ReadOptions

    def files(self) -> list[Path | None]:
        """All files, none of which is ever replaced."""
        return [*self.labels, *truth_files(self.true_labels), self.annotator_info]

    def read(self, method: str, *, defend: bool, quiet: bool) -> Crowd:
        """Read all of them, and warn of problems."""
        from conal.data.problems import warn_of_problems
        from conal.io import import_file
        from conal.io.results import read_annotator_info

        file = import_file(self.labels, self.reading)
        file.warn_of_dropped()
        crowd = file.annotations
        warn_of_problems(crowd, file.where)
        file.warn_of_single_labels()
        if defend:
            crowd = defended_labels(crowd, rings=not _is_vote(method), quiet=quiet or process_rank() > 0)
        known = read_sample(self.true_labels, self.reading, file, crowd)
        offer_truth(self.true_labels, len(file.true_labels), quiet=quiet)
        path, worker = self.annotator_info, self.reading.worker
        info = None if path is None else read_annotator_info(path, crowd, worker=worker)
        return Crowd(file, crowd, known, info)


def _make(method: str, settings: dict[str, Any], *, seed: int, verbose: bool) -> Aggregator:
    from conal import aggregation

    if "seed" in settings:
        raise InputError(f"--set seed={settings['seed']}: use --seed instead")
    known = aggregation.get(method).parameter_names()
    own = {name: value for name, value in (("seed", seed), ("verbose", verbose)) if name in known}
    aggregator = aggregation.make(method, **(own | settings))
    check_parameters(aggregator)  # before the work starts
    return aggregator


def _is_vote(method: str) -> bool:
    """Whether an aggregator counts votes, and so cannot read labels backwards."""
    from conal import aggregation
    from conal.aggregation.voting import VoteAggregator

    return issubclass(aggregation.get(method), VoteAggregator)


def _fit(aggregator: Aggregator, crowd: Annotations, known: Any, info: AnnotatorInfo | None) -> bool:
    """Fit alone or, under torchrun, with other processes; True for the process that prints and writes."""
    first = process_rank() == 0
    if process_number() == 1:
        aggregator.fit(crowd, true_labels=known, annotator_info=info)
        return first
    from conal.distributed import fit_shared  # loads torch, which takes seconds

    fit_shared(aggregator, crowd, true_labels=known)
    aggregator.annotator_info_ = info  # for the report: none of those that several processes can fit needs it
    return first
