"""Results of ``conal fit``: the model folder with its report, and what is printed about them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from conal._progress import make_progress
from conal.cli.files import FitData
from conal.cli.terminal import say
from conal.errors import DataWarning, warn

if TYPE_CHECKING:
    from conal.estimator import CrowdClassifier

__all__ = ["checkpoint_of", "finish", "measure_by_true_labels", "summary_of", "warn_of_few"]

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
