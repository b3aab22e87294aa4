"""``conal fit``: files in, a model folder out."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conal._files import real_path
from conal._system import process_rank
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
from conal.cli.fit_results import checkpoint_of, finish, measure_by_true_labels, summary_of, warn_of_few
from conal.cli.options import (
    DEFAULT_METHOD,
    AboutAnnotators,
    AsJson,
    Handicap,
    Labels,
    Overwrite,
    Quiet,
    Reading,
    TextColumn,
    check_handicap,
    emit,
    parse_settings,
    told,
)
from conal.cli.terminal import say
from conal.cli.true_labels import TrueLabels, offer_truth
from conal.errors import DivergenceError, InputError
from conal.parameters import check_parameters
from conal.parameters.showing import PrivacyOptions

if TYPE_CHECKING:
    from conal.estimator import CrowdClassifier

__all__ = ["fit"]

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
        estimator, data = _prepare(method, parameters, read, discreet=privacy.anonymise)
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
    summary = summary_of(estimator, out, page, seconds, told(data.files), keep_data=keep_data)
    emit(result, summary, as_json=as_json, quiet=quiet)


def _check_options(files: FitFiles, training: dict[str, Any], privacy: PrivacyOptions, *, keep_data: bool) -> None:
    """Reject options that contradict each other."""
    if "encoder" in training and files.features is not None:
        raise InputError("--encoder: makes features of texts, and --features are trained on; leave out one of the two")
    if keep_data and privacy.anonymise:
        raise InputError("--keep-data keeps every label of every annotator, which --anonymise hides; leave out one")


def _key(privacy: PrivacyOptions, out: Path) -> bytes | None:
    """The key that the user keeps, before the work starts; None for one that is thrown away."""
    from conal.io.keys import kept_key

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
