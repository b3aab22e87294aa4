"""``conal fit``: files in, a model folder out."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from conal._files import check_place, real_path
from conal._progress import make_progress
from conal._registry import names_in_source
from conal._system import process_rank
from conal.cli.inputs import (
    Defend,
    FitData,
    FitFiles,
    Show,
    TrueLabels,
    check_show,
    defended_labels,
    offer_truth,
    read_without_names,
)
from conal.cli.options import (
    DEFAULT_METHOD,
    AboutAnnotators,
    AsJson,
    Group,
    Handicap,
    Labels,
    Overwrite,
    Quiet,
    Reading,
    TextColumn,
    check_handicap,
    emit,
    file_summaries,
    parse_settings,
)
from conal.cli.terminal import say
from conal.errors import DataWarning, DivergenceError, InputError, warn
from conal.parameters import check_parameters
from conal.parameters.showing import PrivacyOptions
from conal.parameters.training import ClassifierParameters

if TYPE_CHECKING:
    from conal.estimator import CrowdClassifier

__all__ = [
    "AllowMissing",
    "Features",
    "KeepData",
    "Method",
    "ModelPlace",
    "NoReport",
    "NotPrivate",
    "Privacy",
    "Resume",
    "Settings",
    "Text",
    "Training",
    "ValidFeatures",
    "ValidLabels",
    "ValidText",
    "checkpoint_of",
    "finish",
    "fit",
    "kept_key",
    "measure_by_true_labels",
    "summary_of",
    "warn_of_few",
]


# Secret keys in files that only their owner can read.


def kept_key(path: Path) -> bytes:
    """The key in a file; a file that does not exist is created with a new key, readable by its owner only."""
    from conal.data.annotator_info import KEY_BYTES

    check_place(path)
    if not path.exists():
        _create(path)
    try:
        text = path.read_text(encoding="ascii").strip()
        key = bytes.fromhex(text)
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: is not a key that conal wrote ({error}); name another file, or none yet") from error
    if len(key) != KEY_BYTES:
        raise InputError(f"{path}: has {len(key)} bytes, a key has {KEY_BYTES}; name another file, or none yet")
    return key


def _create(path: Path) -> None:
    """Whole or not at all; if another process was faster, its key stays."""
    from conal.data.annotator_info import new_key

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # readable by its owner only
    except OSError as error:
        raise InputError(f"{path}: cannot be written, {error}; choose another place") from error
    try:
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(f"{new_key().hex()}\n")
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            os.link(name, path)
    finally:
        os.unlink(name)


# Options of ``conal fit`` only: its files, and how the classifier is trained.

Features = Annotated[Path | None, typer.Option(help="Features: .npy, .npz, .parquet or .csv.")]
Text = Annotated[
    Path | None,
    typer.Option(
        help="Texts instead of features: CSV, TSV, Parquet, Arrow, Excel or JSON Lines with a text column and a task "
        "column; can be the file of labels; of several such files, name one to take the texts of all. With --features, "
        "the report shows the texts, and the features are trained on."
    ),
]
ModelPlace = Annotated[Path, typer.Option(help="Output model folder.")]
ValidFeatures = Annotated[Path | None, typer.Option(help="Validation features, used with --valid-labels.")]
ValidText = Annotated[Path | None, typer.Option(help="Validation texts, used with --valid-labels.")]
ValidLabels = Annotated[Path | None, typer.Option(help="True validation labels, used to pick the epoch.")]
AllowMissing = Annotated[
    bool, typer.Option("--allow-missing", help="Drop tasks that have labels, but no features or text.")
]
Privacy = Annotated[PrivacyOptions, Group(PrivacyOptions)]
"""Whether and how annotators' names are hidden."""
NotPrivate = Annotated[
    str | None, typer.Option("--private", metavar="EPSILON", hidden=True, help="Refused; see conal aggregate.")
]
"""Of `conal aggregate`; `conal fit` says why it cannot do it."""
NoReport = Annotated[bool, typer.Option("--no-report", help="Do not write report.html.")]
Method = Annotated[str, typer.Option(help=f"Method: {', '.join(names_in_source('conal.methods'))}.")]
Training = Annotated[dict[str, Any], Group(ClassifierParameters, make=dict)]
"""The training parameters that the user sets; the rest have the method's defaults."""
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Set any other parameter, such as hidden=[64,32], dropout=0.3, batch_norm=true, lam=1e-4, "
        "holdout=0.2, selection=last. An unknown name lists all parameters.",
    ),
]
KeepData = Annotated[
    bool,
    typer.Option(
        "--keep-data",
        help="Keep labels and features in the model folder, so that conal update can add further labels. Do not share "
        "such a folder with people who must not see them.",
    ),
]
Resume = Annotated[bool, typer.Option("--resume", help="Continue an interrupted fit.")]


# Results of ``conal fit``: the model folder with its report, and what is printed about them.

MINUTE = 60
ENOUGH_TO_SELECT = 20
"""Tasks on which an epoch can be selected without a warning."""
RULES = {
    "validation_accuracy": "by accuracy on the validation labels",
    "holdout_log_likelihood": "by the likelihood of held-out annotations",
    "last": "the last one",
}


def checkpoint_of(out: Path) -> Path:
    """Where the state of a training is kept, beside its model folder."""
    return out.with_name(f"{out.name}.checkpoint")


def warn_of_few(estimator: CrowdClassifier, data: FitData) -> None:
    """Warn if the epoch was selected on so few tasks that chance decides."""
    from conal.report.section import count

    metrics = estimator.metrics_
    number, remedy = metrics["n_tasks_labelled"] - metrics["n_tasks_trained_on"], "hold out more (--set holdout=0.2)"
    if data.validation is not None and metrics["selection"] == "validation_accuracy":
        number, remedy = len(data.validation[0]), "supply more validation tasks"
    if 0 < number < ENOUGH_TO_SELECT:
        text = f"the epoch was selected on {count(number, 'task', 'tasks')}; chance decides among so few"
        warn(f"{text}: {remedy}, or keep the last epoch (--set selection=last)", DataWarning)


def measure_by_true_labels(estimator: CrowdClassifier, *, quiet: bool) -> None:
    """Make the further fits that the report measures by; say before how long they take, by the time of the first."""
    from conal.estimator.results import FittedResults

    results = estimator.results_
    if not isinstance(results, FittedResults) or not results.refits_due:
        return
    if not quiet:
        left = results.refits_due * estimator.metrics_["seconds"]
        time = f"{left:.0f} s" if left < 2 * MINUTE else f"{left / MINUTE:.0f} min"
        fits = f"{results.refits_due} further fits"
        say(f"measuring by true labels: {fits}, about {time}; --refits 0 leaves them out", err=True)
    _ = results.findings.evidence.unseen_posterior


def finish(
    estimator: CrowdClassifier, out: Path, *, overwrite: bool, with_page: bool, keep_data: bool, verbose: bool
) -> Path | None:
    """Save the model and its report in one step, before the checkpoint is removed.

    A report that fails costs nobody the model: it is saved without, and the report can be written at any time.
    """
    from conal.estimator.folder import save
    from conal.io.model_folder import page_place
    from conal.report.page import render
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
        remove_checkpoints(checkpoint_of(out))
    if failure is not None:
        say(f"the model is complete: {out}; the report failed, run: conal report {out}", err=True)
        raise failure
    return None if page is None else page_place(out)


def summary_of(
    estimator: CrowdClassifier,
    out: Path,
    page: Path | None,
    seconds: float,
    files: Sequence[str] = (),
    *,
    keep_data: bool = False,
) -> str:
    """The outcome for people."""
    from conal.io.model_folder import DATA
    from conal.report.section import count

    metrics = estimator.metrics_
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
        f"epoch {metrics['best_epoch']} of {metrics['epochs']} kept, {RULES[metrics['selection']]}{score}{note}; "
        f"{seconds:.1f} s, of which {metrics['seconds']:.1f} s for epochs\n"
        f"model folder: {out}"
        + (f"\ndata for updates: {DATA}, {(out / DATA).stat().st_size / 1e6:,.1f} MB" if keep_data else "")
        + ("" if page is None else f"\nreport: {page}\n{_lead(estimator)}")
    )


def _lead(estimator: CrowdClassifier) -> str:
    """The first lines of the report."""
    from conal.report.notebook import ReportPage

    return ReportPage(estimator.results_.report).lead


# ``conal fit``: files in, a model folder out.

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
    handicap: Handicap = None,
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
    from conal._files import claimed
    from conal.io.model_folder import check_target

    if private is not None:
        raise InputError(NOT_PRIVATE)
    began = time.perf_counter()
    check = partial(check_target, out, overwrite=overwrite)
    check()
    files = FitFiles(
        labels, features, text, text_column, valid_features, valid_text, valid_labels, true_labels, annotator_info
    )
    files.check(out)
    _check_options(files, training, privacy, keep_data=keep_data)
    check_show(show, anonymise=privacy.anonymise)
    check_handicap(handicap, annotator_info)
    first = _is_first()
    parameters = _parameters(training, parse_settings(settings), verbose=first and not quiet)
    with claimed(out, check) if first else nullcontext():
        key = _key(privacy, out) if first else None
        read = partial(files.read, reading=reading, show=show)
        estimator, data = _prepare(method, parameters, read, names_hidden=privacy.anonymise)
        offer_truth(true_labels, data.n_true_found, quiet=quiet or not first)
        if defend:
            data = _defended(data, quiet=quiet or not first)
        _train(estimator, data, checkpoint_of(out), allow_missing=allow_missing, resume=resume)
        if not first:
            return
        measure_by_true_labels(estimator, quiet=quiet)
        warn_of_few(estimator, data)
        if handicap is not None:
            estimator.results_ = estimator.results_.with_handicap(handicap)
        estimator = _to_show(estimator, data, privacy, key)
        page = finish(
            estimator, out, overwrite=overwrite, with_page=not no_report, keep_data=keep_data, verbose=not quiet
        )
    seconds = time.perf_counter() - began
    result = {"out": out, "files": list(data.files), **estimator.metrics_, "total_seconds": seconds}
    summary = summary_of(estimator, out, page, seconds, file_summaries(data.files), keep_data=keep_data)
    emit(result, summary, as_json=as_json, quiet=quiet)


def _check_options(files: FitFiles, training: dict[str, Any], privacy: PrivacyOptions, *, keep_data: bool) -> None:
    """Reject options that contradict each other."""
    if "encoder" in training and files.features is not None:
        raise InputError("--encoder: makes features of texts, and --features are trained on; leave out one of the two")
    if keep_data and privacy.anonymise:
        raise InputError("--keep-data keeps every label of every annotator, which --anonymise hides; leave out one")


def _key(privacy: PrivacyOptions, out: Path) -> bytes | None:
    """The key that the user keeps, before the work starts; None for one that is thrown away."""

    if privacy.pseudonym_key is None:
        return None
    path = Path(privacy.pseudonym_key)
    if real_path(path).is_relative_to(real_path(out)):
        raise InputError(f"{path}: a key must stay secret, and {out} is to be shared; choose a place outside")
    return kept_key(path)


def _is_first() -> bool:
    """Of several processes, which torchrun or Fabric started, only the first prints and writes."""
    return process_rank() == 0


def _parameters(options: dict[str, Any], settings: dict[str, Any], *, verbose: bool) -> dict[str, Any]:
    """Parameters by their own options and by --set; one that is set by both has two values, and which one counts?"""
    both = sorted(options.keys() & settings.keys())
    if both:
        raise InputError(f"--set {both[0]}: is also set by --{both[0].replace('_', '-')}; leave out one of the two")
    return options | {"verbose": verbose} | settings


def _prepare(
    method: str, parameters: dict[str, Any], read: Callable[[str], FitData], *, names_hidden: bool
) -> tuple[CrowdClassifier, FitData]:
    """The untrained estimator and its training data; wrong parameters are reported before large files are read."""
    from conal import methods
    from conal.estimator import make

    estimator = make(method, **parameters)
    check_parameters(estimator)
    reading = partial(read, methods.get(method).takes)
    return estimator, read_without_names(reading) if names_hidden else reading()


def _defended(data: FitData, *, quiet: bool) -> FitData:
    """The training data without answers that say nothing."""
    from conal.data.annotations import Annotations

    if not isinstance(data.target, Annotations):
        raise InputError("--defend: this method learns from true labels, not from those of a crowd; leave it out")
    return data._replace(target=defended_labels(data.target, quiet=quiet))


def _train(estimator: CrowdClassifier, data: FitData, checkpoint: Path, *, allow_missing: bool, resume: bool) -> None:
    from conal.training.checkpoint import remove_checkpoints

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


def _to_show(estimator: CrowdClassifier, data: FitData, privacy: PrivacyOptions, key: bytes | None) -> CrowdClassifier:
    """With what the report shows, and without what it hides."""
    if data.exhibits is not None:
        estimator.exhibit(data.exhibits)
    return estimator.anonymised(key, hide_below=privacy.hide_below) if privacy.anonymise else estimator


def _announce(checkpoint: Path, resume: bool) -> None:
    if resume and not checkpoint.exists():
        say(f"no checkpoint at {checkpoint}: starting from the beginning", err=True)
    if not resume and checkpoint.exists():
        text = f"starting from the beginning and replacing the checkpoint {checkpoint} (continue it with --resume)"
        say(text, err=True)
