"""``conal fit``: files in, a model folder out."""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from conal._progress import make_progress
from conal._system import process_number, process_rank
from conal.cli import options
from conal.cli.inputs import (
    Defend,
    FitFiles,
    ForFit,
    ShowOptions,
    TrueLabels,
    check_show,
    columns_to_keep,
    defended_labels,
    offer_truth,
)
from conal.cli.options import say
from conal.errors import DivergenceError, InputError, people_hidden
from conal.parameters import Doc, Option, check_parameters, parameters, parameters_of, whole
from conal.parameters.reading import ReadOptions
from conal.parameters.training import ClassifierParameters

if TYPE_CHECKING:
    from conal.estimator import CrowdClassifier
    from conal.report.exhibits import Exhibits


METHODS = (
    "aggnet, anno-reg, conal, conal-em, dl-cl, dl-cl-over, dl-ds, dl-glad, dl-mv, dl-wc, doctor-net, gold, max-mig, "
    "two-stage, xconal"
)
"""Names for the help, which imports no method; a test compares them with the registry."""


@parameters
class PrivacyOptions:
    """Whether annotators have their own names in the output, and how much it tells about each.

    Examples
    --------
    >>> PrivacyOptions(anonymise=True).hide_below
    10
    """

    anonymise: Annotated[
        bool,
        Doc(
            "Replace the annotators' names by pseudonyms before anything is fitted, round figures about annotators, "
            "and put those with few labels together."
        ),
        Option("--anonymise"),
    ] = False
    hide_below: Annotated[
        int,
        whole(1),
        Doc("Annotators with fewer labels have no pseudonym of their own: they count together as a few common ones."),
    ] = 10

    def __post_init__(self) -> None:
        """Refuse what would have no effect."""
        if not self.anonymise and self.hide_below != PrivacyOptions.hide_below:
            raise InputError("--set hide_below needs --anonymise; add it, or leave out hide_below")


@parameters
class InstanceOptions(options.TextOptions):
    """How the tasks' features or texts are read, and joined with labels."""

    allow_missing: Annotated[bool, Doc("Drop tasks that have labels, but no features or text.")] = False


SETTINGS = options.settable(ReadOptions, InstanceOptions, ShowOptions, PrivacyOptions, ClassifierParameters)
"""What ``--set`` takes, beside the method's own parameters."""


# Options that no other command has.

Epochs = Annotated[
    str | None, options.option(ClassifierParameters, "epochs", metavar="<int|auto>", show_default="auto")
]
Valid = Annotated[
    Path | None,
    options.in_panel(options.DATA, "Features of validation tasks, or texts if there are no --features."),
]
ValidLabels = Annotated[Path | None, options.in_panel(options.DATA, "True labels of --valid, used to pick the epoch.")]
Seed = Annotated[int | None, options.option(ClassifierParameters, "seed", panel=options.TRAINING, show_default="0")]
Resume = Annotated[bool, options.on_off("--resume", panel=options.TRAINING, help="Continue an interrupted fit.")]
KeepData = Annotated[
    bool,
    options.on_off(
        "--keep-data",
        panel=options.TRAINING,
        help="Keep labels and features in the model folder, so that conal update can add further labels. Do not "
        "share such a folder with people who must not see them.",
    ),
]
Anonymise = Annotated[
    bool,
    options.on_off("--anonymise", panel=options.PRIVACY, help=parameters_of(PrivacyOptions)["anonymise"].help),
]


def fit(
    *,
    labels: options.Labels,
    out: Annotated[Path, typer.Option(help="Output model folder.")],
    features: options.Features = None,
    text: options.Text = None,
    method: Annotated[str, typer.Option(help=f"Method: {METHODS}.")] = options.DEFAULT_METHOD,
    true_labels: TrueLabels = None,
    epochs: Epochs = None,
    settings: Annotated[list[str] | None, options.set_option(SETTINGS, ", or a parameter of the method")] = None,
    overwrite: options.Overwrite = False,
    quiet: options.Quiet = False,
    as_json: options.AsJson = False,
    task_column: options.TaskColumn = None,
    worker_column: options.WorkerColumn = None,
    label_column: options.LabelColumn = None,
    question: options.Question = None,
    valid: Valid = None,
    valid_labels: ValidLabels = None,
    classes: options.Classes = None,
    ordinal: options.Ordinal = False,
    without: options.Without = None,
    merge_spelling: options.MergeSpelling = False,
    encoding: options.Encoding = None,
    annotator_info: options.AboutAnnotators = None,
    defend: Defend = False,
    seed: Seed = None,
    resume: Resume = False,
    keep_data: KeepData = False,
    images: Annotated[str | None, options.option(ShowOptions, "images", panel=options.REPORT)] = None,
    no_report: options.NoReport = False,
    anonymise: Anonymise = False,
) -> None:
    """Train a classifier from crowd labels and features or texts, and write a model folder.

    For labels alone, use conal aggregate.

    The folder contains the model, the cleaned labels (labels.csv), the annotators' quality (annotators.csv), their
    common confusion (common_confusion.csv), which labels to ask for next (suggestions.csv), and a report of all this
    (report.html).
    """
    from conal.io.model_folder import check_target

    began = time.perf_counter()
    given = options.parse_settings(settings)
    columns = {"task": task_column, "worker": worker_column, "label": label_column, "question": question}
    cleaning = {"without": without, "merge_spelling": merge_spelling, "encoding": encoding}
    reading = options.taken(ReadOptions, given, **columns, **cleaning, classes=classes, ordinal=ordinal)
    instances = options.taken(InstanceOptions, given)
    show = options.taken(ShowOptions, given, images=images)
    privacy = options.taken(PrivacyOptions, given, anonymise=anonymise)
    training = options.chosen(ClassifierParameters, given, epochs=epochs, seed=seed)
    check_target(out, overwrite=overwrite)
    read_as = instances.text_column, reading, show
    files = FitFiles(labels, features, text, valid, valid_labels, true_labels, annotator_info, *read_as)
    files.check(out)
    _check_options(files, training, privacy, keep_data=keep_data, repeated=resume or process_number() > 1)
    check_show(show)
    first = process_rank() == 0  # of several processes, which torchrun or Fabric started, only one prints and writes
    parameters = {"verbose": first and not quiet, **training, **options.remaining(given)}
    estimator, (data, shown, file) = _prepare(method, parameters, files, names_hidden=privacy.anonymise)
    contributions = [] if file is None else file.contributions()
    offer_truth(true_labels, 0 if file is None else len(file.true_labels), quiet=quiet or not first)
    if defend and file is None:
        raise InputError("--defend: this method learns from true labels, not from those of a crowd; leave it out")
    if defend:
        data["y"] = defended_labels(data["y"], quiet=quiet or not first)
    if privacy.anonymise and file is not None:  # true labels have no annotators
        shown = _anonymise(data, shown, privacy.hide_below)
    data["allow_missing"] = instances.allow_missing
    checkpoint = None if privacy.anonymise else checkpoint_of(out)  # which nobody could continue
    _train(estimator, data, checkpoint, resume=resume)
    if not first:
        return
    measure_by_true_labels(estimator, quiet=quiet)
    estimator.exhibit(shown)
    estimator.columns_ = columns_to_keep(file, reading, instances.text_column)
    page = finish(estimator, out, overwrite=overwrite, with_page=not no_report, keep_data=keep_data, verbose=not quiet)
    seconds = time.perf_counter() - began
    result = {"out": out, "files": contributions, **estimator.metrics_, "total_seconds": seconds}
    summary = summary_of(estimator, out, page, seconds, options.file_summaries(contributions), keep_data=keep_data)
    options.emit(result, summary, as_json=as_json, quiet=quiet)


def _check_options(
    files: FitFiles, training: dict[str, Any], privacy: PrivacyOptions, *, keep_data: bool, repeated: bool
) -> None:
    """Reject options that contradict each other."""
    if keep_data and privacy.anonymise:
        raise InputError("--keep-data keeps every label of every annotator, which --anonymise hides; leave out one")
    if repeated and privacy.anonymise:
        raise InputError(
            "--anonymise: every process and every run has other pseudonyms, so that none can join another; in "
            "Python, fit to crowd.anonymised(key)"
        )


def _prepare(
    method: str, parameters: dict[str, Any], files: FitFiles, *, names_hidden: bool
) -> tuple[CrowdClassifier, ForFit]:
    """The untrained estimator and its training data; wrong parameters are reported before large files are read."""
    from conal import methods
    from conal.estimator import make

    estimator = make(method, **parameters)
    check_parameters(estimator)
    with people_hidden(names_hidden):
        return estimator, files.read(methods.get(method).takes)


def _anonymise(data: dict[str, Any], shown: Exhibits, hide_below: int) -> Exhibits:
    """Give annotators pseudonyms in the arguments of ``fit``; what the report may show then."""
    from conal.data.pseudonyms import anonymised, warn_of_mentions

    crowd, info, tasks = data["y"], data["annotator_info"], data["y"].task_ids.tolist()
    texts = {
        "task ids": tasks,
        "texts": [*getattr(data["X"], "texts", ()), *shown.texts.values()],
        "addresses": [shown.address(task) or "" for task in tasks] + list(shown.picture_links.values()),
        "classes": crowd.classes.tolist(),
        "groups of annotators": [] if info is None else sorted(set(info.groups or ())),
        "names of features": getattr(data["X"], "columns", ()),
    }
    warn_of_mentions(crowd.annotator_ids, texts)
    data["y"], data["annotator_info"] = anonymised(crowd, info, hide_below=hide_below)
    return replace(shown, names={})


def _train(estimator: CrowdClassifier, data: dict[str, Any], checkpoint: Path | None, *, resume: bool) -> None:
    from conal.training.checkpoint import remove_checkpoints

    there = checkpoint is not None and checkpoint.exists()
    if resume and not there:
        say(f"no checkpoint at {checkpoint}: starting from the beginning", err=True)
    if not resume and there:
        text = f"starting from the beginning and replacing the checkpoint {checkpoint} (continue it with --resume)"
        say(text, err=True)
    try:
        estimator.fit(**data, checkpoint=checkpoint, resume=resume)
    except KeyboardInterrupt:
        if checkpoint is not None and checkpoint.exists():
            say(f"interrupted; the checkpoint is {checkpoint}: continue with --resume", err=True)
        raise
    except DivergenceError:
        if checkpoint is not None:
            remove_checkpoints(checkpoint)  # continuing from it would fail again
        raise


# Results of ``conal fit``: the model folder with its report, and what is printed about them.

MINUTE = 60
RULES = {
    "validation_accuracy": "by accuracy on the validation labels",
    "holdout_log_likelihood": "by the likelihood of held-out annotations",
    "last": "the last one",
}


def checkpoint_of(out: Path) -> Path:
    """Where the state of a training is kept, beside its model folder."""
    return out.with_name(f"{out.name}.checkpoint")


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
        say(f"measuring by true labels: {fits}, about {time}; --set refits=0 leaves them out", err=True)
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
    from conal.report.notebook import ReportPage
    from conal.report.wording import count

    metrics = estimator.metrics_
    held_out = metrics["n_tasks_labelled"] - metrics["n_tasks_trained_on"]
    note = f"; {count(held_out, 'task was', 'tasks were')} held out to select it" if held_out else ""
    score = "" if metrics["best_score"] is None else f" ({metrics['best_score']:.4f})"
    unlabelled = metrics["n_tasks"] - metrics["n_tasks_labelled"]
    predicted = f"\n{unlabelled:,} of the tasks have no label; labels.csv has the classifier's" if unlabelled else ""
    known = metrics.get("n_true_labels", 0)
    certain = f"\n{count(known, 'true label', 'true labels')} taken as certain" if known else ""
    contributed = "".join(f"{line}\n" for line in files)
    found = ReportPage(estimator.results_.report)
    steps = "\n".join([found.lead, *found.outcome]).replace("conal plan MODEL", shlex.join(["conal", "plan", str(out)]))
    return (
        f"{estimator.method}: {metrics['n_annotations']:,} labels by {metrics['n_annotators']:,} annotators on "
        f"{metrics['n_tasks']:,} tasks, {len(estimator.classes_)} classes{predicted}{certain}\n{contributed}"
        f"epoch {metrics['best_epoch']} of {metrics['epochs']} kept, {RULES[metrics['selection']]}{score}{note}; "
        f"{seconds:.1f} s, of which {metrics['seconds']:.1f} s for epochs\n"
        f"{steps}\nmodel folder: {out}"
        + (f"\ndata for updates: {DATA}, {(out / DATA).stat().st_size / 1e6:,.1f} MB" if keep_data else "")
        + ("" if page is None else f"\nreport: {page}")
    )
