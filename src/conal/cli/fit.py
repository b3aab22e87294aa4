"""``conal fit``: files in, a model folder out."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conal._support.processes import process_rank
from conal._support.progress import make_progress
from conal.cli.defence import Defend, defended_labels
from conal.cli.discretion import read_discreetly
from conal.cli.exhibits import Show, check_show
from conal.cli.files import FitData, FitFiles
from conal.cli.fit_options import (
    AllowMissing,
    Features,
    KeepData,
    Method,
    ModelPlace,
    NoReport,
    NotPrivate,
    Privacy,
    Resume,
    Settings,
    Text,
    Training,
    ValidFeatures,
    ValidLabels,
    ValidText,
)
from conal.cli.options import (
    DEFAULT_METHOD,
    AboutAnnotators,
    AsJson,
    Labels,
    Overwrite,
    Quiet,
    Reading,
    TextColumn,
    emit,
    parse_settings,
    told,
)
from conal.cli.terminal import say
from conal.cli.true_labels import TrueLabels, offer_truth
from conal.errors import DataWarning, DivergenceError, InputError, warn
from conal.parameters import check_parameters
from conal.parameters.privacy import PrivacyOptions

if TYPE_CHECKING:
    from conal.estimator import CrowdClassifier

__all__ = ["fit"]

ENOUGH_TO_SELECT = 20
"""Tasks on which an epoch can be selected without a warning."""
NOT_PRIVATE = (
    "--private: a classifier sees every label in every step of its training, and its weights, labels and tables tell "
    "about single annotators; use conal aggregate --private, which releases confusion matrices and class shares only, "
    "or --anonymise, which hides names"
)


def fit(
    *,
    labels: Labels,
    out: ModelPlace,
    features: Features = None,
    text: Text = None,
    text_column: TextColumn = None,
    valid_features: ValidFeatures = None,
    valid_text: ValidText = None,
    valid_labels: ValidLabels = None,
    true_labels: TrueLabels = None,
    annotator_info: AboutAnnotators = None,
    method: Method = DEFAULT_METHOD,
    reading: Reading,
    allow_missing: AllowMissing = False,
    training: Training,
    settings: Settings = None,
    privacy: Privacy,
    private: NotPrivate = None,
    show: Show,
    no_report: NoReport = False,
    keep_data: KeepData = False,
    defend: Defend = False,
    resume: Resume = False,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Train a classifier from crowd labels and features or texts, and write a model folder.

    For labels alone, use conal aggregate.

    The folder contains the model, the cleaned labels (labels.csv), the annotators' quality (annotators.csv), their
    common confusion (common_confusion.csv), which labels to ask for next (suggestions.csv), and a report of all this
    (report.html).
    """
    from conal.io.atomic import claimed
    from conal.io.models import check_target

    if private is not None:
        raise InputError(NOT_PRIVATE)
    began = time.perf_counter()
    check = partial(check_target, out, overwrite=overwrite)
    check()
    files = FitFiles(
        labels, features, text, text_column, valid_features, valid_text, valid_labels, true_labels, annotator_info
    )
    files.check(out)
    if "encoder" in training and features is not None:
        raise InputError("--encoder: makes features of texts, and --features are trained on; leave out one of the two")
    if keep_data and privacy.anonymise:
        raise InputError("--keep-data keeps every label of every annotator, which --anonymise hides; leave out one")
    check_show(show, anonymise=privacy.anonymise)
    first = _is_first()
    chosen = parse_settings(settings)
    _refuse_repeats(training, chosen)
    parameters = training | {"verbose": first and not quiet} | chosen
    with claimed(out, check) if first else nullcontext():
        key = _key(privacy, out) if first else None
        read = partial(files.read, reading=reading, show=show)
        estimator, data = _prepare(method, parameters, read, discreet=privacy.anonymise)
        offer_truth(true_labels, data.n_true_found, quiet=quiet or not first)
        if defend:
            data = _defended(data, quiet=quiet or not first)
        _train(estimator, data, out.with_name(f"{out.name}.checkpoint"), allow_missing=allow_missing, resume=resume)
        if not first:
            return
        _warn_of_few(estimator, data)
        if data.exhibits is not None:
            estimator.exhibit(data.exhibits)
        if privacy.anonymise:
            estimator = estimator.anonymised(key, hide_below=privacy.hide_below)
        page = _finish(
            estimator, out, overwrite=overwrite, with_page=not no_report, keep_data=keep_data, verbose=not quiet
        )
    seconds = time.perf_counter() - began
    result = {"out": out, "files": list(data.files), **estimator.metrics_, "total_seconds": seconds}
    emit(
        result,
        _summary(estimator, out, page, seconds, told(data.files), keep_data=keep_data),
        as_json=as_json,
        quiet=quiet,
    )


def _key(privacy: PrivacyOptions, out: Path) -> bytes | None:
    """The key that the user keeps, before the work starts; None for one that is thrown away."""
    from conal.io.keys import kept_key

    if privacy.pseudonym_key is None:
        return None
    path = Path(privacy.pseudonym_key)
    if path.resolve().is_relative_to(out.resolve()):
        raise InputError(f"{path}: a key must stay secret, and {out} is to be shared; choose a place outside")
    return kept_key(path)


def _is_first() -> bool:
    """Of several processes, which torchrun or Fabric started, only the first prints and writes."""
    return process_rank() == 0


def _refuse_repeats(options: dict[str, Any], settings: dict[str, Any]) -> None:
    """A parameter that is set by its own option and by --set has two values; which one counts?"""
    both = sorted(options.keys() & settings.keys())
    if both:
        raise InputError(f"--set {both[0]}: is also set by --{both[0].replace('_', '-')}; leave out one of the two")


def _prepare(
    method: str, parameters: dict[str, Any], read: Callable[[str], FitData], *, discreet: bool
) -> tuple[CrowdClassifier, FitData]:
    """The untrained estimator and its training data; wrong parameters are reported before large files are read."""
    from conal import methods
    from conal.estimator import make

    estimator = make(method, **parameters)
    check_parameters(estimator)
    reading = partial(read, methods.get(method).takes)
    return estimator, read_discreetly(reading) if discreet else reading()


def _defended(data: FitData, *, quiet: bool) -> FitData:
    """The training data without answers that say nothing."""
    from conal.data.annotations import Annotations

    if not isinstance(data.target, Annotations):
        raise InputError("--defend: this method learns from true labels, not from those of a crowd; leave it out")
    return data._replace(target=defended_labels(data.target, quiet=quiet))


def _train(estimator: CrowdClassifier, data: FitData, checkpoint: Path, *, allow_missing: bool, resume: bool) -> None:
    from conal.training.checkpoint import clean_checkpoints, remove_checkpoints

    clean_checkpoints(checkpoint)
    _announce(checkpoint, resume)
    try:
        estimator.fit(
            data.instances,
            data.target,
            validation=data.validation,
            true_labels=data.true_labels,
            annotator_info=data.annotator_info,
            allow_missing=allow_missing,
            checkpoint=checkpoint,
            resume=resume,
        )
    except KeyboardInterrupt:
        if checkpoint.exists():
            say(f"interrupted; the checkpoint is {checkpoint}: continue with --resume", err=True)
        raise
    except DivergenceError:
        remove_checkpoints(checkpoint)  # continuing from it would fail again
        raise


def _warn_of_few(estimator: CrowdClassifier, data: FitData) -> None:
    """Warn if the epoch was selected on so few tasks that chance decides."""
    from conal.findings.wording import count

    metrics = estimator.metrics_
    number, remedy = metrics["n_tasks_labelled"] - metrics["n_tasks_trained_on"], "hold out more (--set holdout=0.2)"
    if data.validation is not None and metrics["selection"] == "validation_accuracy":
        number, remedy = len(data.validation[0]), "supply more validation tasks"
    if 0 < number < ENOUGH_TO_SELECT:
        text = f"the epoch was selected on {count(number, 'task', 'tasks')}; chance decides among so few"
        warn(f"{text}: {remedy}, or keep the last epoch (--set selection=last)", DataWarning)


def _announce(checkpoint: Path, resume: bool) -> None:
    if resume and not checkpoint.exists():
        say(f"no checkpoint at {checkpoint}: starting from the beginning", err=True)
    if not resume and checkpoint.exists():
        text = f"starting from the beginning and replacing the checkpoint {checkpoint} (continue it with --resume)"
        say(text, err=True)


def _finish(
    estimator: CrowdClassifier, out: Path, *, overwrite: bool, with_page: bool, keep_data: bool, verbose: bool
) -> Path | None:
    """Save the model and its report in one step, before the checkpoint is removed.

    A report that fails costs nobody the model: it is saved without, and the report can be written at any time.
    """
    from conal.estimator.folder import save
    from conal.io.models import page_place
    from conal.report import render
    from conal.training.checkpoint import remove_checkpoints

    page, failure = None, None
    with make_progress("results", verbose, total=1 + with_page) as progress:
        progress.update(0, 1 + with_page, "what was found about tasks and annotators")
        found = estimator.results_.report
        if with_page:
            progress.update(1, 2, "report")
            try:
                page = render(found)
            except BaseException as error:  # Ctrl-C too
                failure = error
        save(estimator, out, page=page, keep_data=keep_data, overwrite=overwrite)
        remove_checkpoints(out.with_name(f"{out.name}.checkpoint"))
    if failure is not None:
        say(f"the model is complete: {out}; the report failed, run: conal report {out}", err=True)
        raise failure
    return None if page is None else page_place(out)


def _summary(
    estimator: CrowdClassifier,
    out: Path,
    page: Path | None,
    seconds: float,
    files: Sequence[str] = (),
    *,
    keep_data: bool = False,
) -> str:
    from conal.findings.wording import count
    from conal.io.models import DATA

    metrics = estimator.metrics_
    rules = {
        "validation_accuracy": "by accuracy on the validation labels",
        "holdout_log_likelihood": "by the likelihood of held-out annotations",
        "last": "the last one",
    }
    held_out = metrics["n_tasks_labelled"] - metrics["n_tasks_trained_on"]
    note = f"; {count(held_out, 'task was', 'tasks were')} held out to select it" if held_out else ""
    score = "" if metrics["best_score"] is None else f" ({metrics['best_score']:.4f})"
    unlabelled = metrics["n_tasks"] - metrics["n_tasks_labelled"]
    predicted = f"\n{unlabelled:,} of the tasks have no label; labels.csv has the classifier's" if unlabelled else ""
    known = metrics.get("n_true_labels", 0)
    certain = f"\n{count(known, 'true label', 'true labels')} taken as certain" if known else ""
    contributed = "".join(f"{line}\n" for line in files)
    return (
        f"{estimator.method}: {metrics['n_annotations']:,} labels by {metrics['n_annotators']:,} annotators on "
        f"{metrics['n_tasks']:,} tasks, {len(estimator.classes_)} classes{predicted}{certain}\n{contributed}"
        f"epoch {metrics['best_epoch']} of {metrics['epochs']} kept, {rules[metrics['selection']]}{score}{note}; "
        f"{seconds:.1f} s, of which {metrics['seconds']:.1f} s for epochs\n"
        f"model folder: {out}"
        + (f"\ndata for updates: {DATA}, {(out / DATA).stat().st_size / 1e6:,.1f} MB" if keep_data else "")
        + ("" if page is None else f"\nreport: {page}")
    )
