"""What is in an annotation file, as plain facts, and what is wrong with it, each with its remedy."""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from conal.data.annotations import Annotations
from conal.data.matching import look
from conal.data.problems import MANY_CLASSES, lone_annotator, no_classes
from conal.errors import DataWarning, InputError, examples
from conal.io import AnnotationFile, ReadOptions, import_file
from conal.io.annotation_file import remedy
from conal.io.importing import Paths
from conal.io.scanning import FAULTS, Scan, scan
from conal.metrics import Agreement, cohen_kappa, fleiss_kappa, krippendorff_alpha

__all__ = ["inspect_file", "inspect_import"]


DRAWS = 10**8
"""Tasks times bootstrap replicates for an interval: a second or two."""

FEW_LABELS = 5
MOST_COMPARED = 100
"""Classes of which slips are looked for: all pairs are compared."""
SLIP_SHARE = 0.1
"""Labels of a slip, for each label of the class that was meant, at most."""
LEAST_ALIKE = 0.85
"""Of difflib: one letter of four or more that is missing, or one more."""
LOW_ALPHA = 0.2
SAME_LABELS = 10
MAX_LINES = 5
"""Lines that are listed with a problem."""

Facts = dict[str, Any]


def inspect_file(path: Paths, options: ReadOptions | None = None, **keywords: Any) -> Facts:
    """Read a file and say what was understood; it is read as by :func:`conal.io.import_file`.

    Returns
    -------
    dict
        ``file``, ``usable`` (whether commands take the files as they are; the figures are otherwise those of the lines
        that can be read, and missing if none can), ``files`` (what each contributes, if there are several),
        ``format``, ``title``, ``question``, counts (``n_tasks`` ...),
        ``ordinal`` (whether the classes are a scale), ``classes`` (name to number of labels),
        ``labels_per_task``, ``labels_per_annotator``, ``refused`` (how many answers were refused, in all and by whom,
        if ``abstain`` was given), ``agreement`` (name to value, low and high), ``gold``, ``data`` (fields of the
        tasks), ``dropped`` and ``problems`` (what is wrong, and the remedy; in a text table also ``n_lines``, how many
        lines it is in, and ``lines``, the numbers of the first).
    """
    options = replace(options or ReadOptions(), **keywords)
    paths = [Path(path)] if isinstance(path, str | PathLike) else [Path(each) for each in path]
    scans = [scan(each, options) for each in paths]
    with TemporaryDirectory(prefix="conal-") as folder:
        found, notes, errors = _read(paths, scans, options, Path(folder))
    problems: list[Facts] = []
    told: list[Facts] = []
    if errors:
        faults = [(each, *fault) for each in scans if each is not None for fault in each.faults.items()]
        for each, reason, lines in faults:
            problem = {"problem": f"{each.path}: {reason}: {len(lines):,}", "remedy": FAULTS[reason]}
            problems.append(problem | _first(lines))
        texts = dict.fromkeys(errors[bool(faults) :])  # the first is about these lines
        told += [dict(zip(("problem", "remedy"), _parted(text), strict=True)) for text in texts]
    facts = {} if found is None else inspect_import(found, notes)
    told += facts.get("problems", [])
    problems += [each | _first(_lines_of(each["problem"], scans)) for each in told]
    where = ", ".join(map(str, paths))
    return {"file": where, "usable": not errors, **facts, "problems": problems}


def _read(
    paths: Sequence[Path], scans: Sequence[Scan | None], options: ReadOptions, folder: Path
) -> tuple[AnnotationFile | None, list[str], list[str]]:
    """The files, warnings, and errors; after an error without lines that no reader takes, and then without options."""
    lenient: dict[str, Any] = {"classes": None, "ordinal": False, "without": None, "on_duplicate": "last"}
    tries = [(paths, options), (paths, replace(options, **lenient))]
    if any(each is not None and each.faults for each in scans):
        pairs = enumerate(zip(paths, scans, strict=True))
        copies = [path if each is None else each.write(folder / str(k)) for k, (path, each) in pairs]
        tries[1:] = [(copies, replace(options, encoding=None)), (copies, replace(options, **lenient, encoding=None))]
    notes: list[str] = []
    errors: list[str] = []
    for files, how in tries:

        def named(text: object, files: Sequence[Path] = files) -> str:
            for copy, path in zip(files, paths, strict=True):
                text = str(text).replace(str(copy), str(path))
            return str(text)

        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                found = import_file(files, how) if len(files) > 1 else import_file(files[0], how)
        except InputError as error:
            errors.append(named(error))
            if files is paths and how is tries[-1][1]:  # there is nothing else to say about these files
                raise InputError(errors[0]) from error
            continue
        notes = [named(entry.message) for entry in caught if issubclass(entry.category, DataWarning)]
        parts = tuple(replace(part, path=path) for part, path in zip(found.parts, paths, strict=False))
        return replace(found, path=paths[0], parts=parts), notes, errors
    return None, notes, errors


def _parted(text: str) -> tuple[str, str]:
    """The problem and the remedy in a message."""
    problem, _, advice = text.partition("; ")
    return problem, advice or "correct the file"


def _first(lines: Sequence[int]) -> Facts:
    """The first lines that a problem is in, and how many there are; nothing where no lines are known."""
    return {"lines": sorted(lines)[:MAX_LINES], "n_lines": len(lines)} if lines else {}


def _lines_of(problem: str, scans: Sequence[Scan | None]) -> list[int]:
    """The lines that a warning is about, by the words in it."""
    about = [each for each in scans if each is not None and (len(scans) == 1 or problem.startswith(f"{each.path}: "))]
    found = (lines for each in about for words, lines in each.lines.items() if all(word in problem for word in words))
    return sorted({line for lines in found for line in lines})


def inspect_import(found: AnnotationFile, notes: list[str] | None = None) -> Facts:
    """The facts about a file that has been read; ``notes`` are the warnings of the reader."""
    crowd = found.annotations
    counts = np.bincount(crowd.labels, minlength=crowd.n_classes)
    agreement = _agreement(crowd)
    problems = [*_reading_problems(found, notes or []), *_crowd_problems(crowd, counts, agreement)]
    return {
        "files": found.contributions(),
        "format": found.format,
        "title": found.title,
        "question": found.question,
        "n_annotations": crowd.n_annotations,
        "n_tasks": crowd.n_tasks,
        "n_annotators": crowd.n_annotators,
        "n_classes": crowd.n_classes,
        "ordinal": crowd.ordinal,
        "classes": {str(name): int(count) for name, count in zip(crowd.classes.tolist(), counts, strict=True)},
        "labels_per_task": _spread(crowd.labels_per_task()),
        "labels_per_annotator": _spread(crowd.labels_per_annotator()),
        "refused": _refused(crowd),
        "agreement": {name: value._asdict() for name, value in agreement.items()},
        "gold": _gold(found),
        "data": [] if found.data is None else found.data.column_names[1:],
        "dropped": dict(found.dropped),
        "problems": [{"problem": problem, "remedy": remedy} for problem, remedy in problems],
    }


def _spread(counts: npt.NDArray[np.int64]) -> Facts:
    return {
        "min": int(counts.min()),
        "median": float(np.median(counts)),
        "mean": float(counts.mean()),
        "max": int(counts.max()),
    }


def _refused(crowd: Annotations) -> Facts | None:
    """How many answers were refused, and who refuses most often; None if nothing was listed as such."""
    if crowd.abstentions is None:
        return None
    declined = crowd.abstentions.labels_per_annotator()
    asked = declined + crowd.labels_per_annotator()
    order = np.argsort(-declined / np.maximum(asked, 1), kind="stable")
    rows = [
        {"worker": str(crowd.annotator_ids[r]), "refused": int(declined[r]), "asked": int(asked[r])}
        for r in order.tolist()
        if declined[r]
    ]
    return {"total": int(declined.sum()), "asked": int(asked.sum()), "annotators": rows}


def _agreement(crowd: Annotations) -> dict[str, Agreement]:
    """Coefficients with intervals, of scales by distance; none where no task has two labels."""
    pairable = int((crowd.labels_per_task() >= 2).sum())
    if not pairable:
        return {}
    n_boot = max(100, min(1000, DRAWS // pairable))
    scale = crowd.ordinal and crowd.n_classes < MANY_CLASSES  # distances of all pairs take a matrix
    found = {"krippendorff_alpha": krippendorff_alpha(crowd, "ordinal" if scale else "nominal", n_boot=n_boot)}
    if crowd.n_annotators == 2:
        weights: Literal["quadratic"] | None = "quadratic" if scale else None
        return found | {"cohen_kappa": cohen_kappa(crowd, weights=weights, n_boot=n_boot)}
    return found | {"fleiss_kappa": fleiss_kappa(crowd, n_boot=n_boot)}


def _gold(found: AnnotationFile) -> Facts:
    """How many true labels there are, and the share of labels of these tasks that equal them."""
    crowd = found.annotations
    known = np.array([found.true_labels.get(name) is not None for name in crowd.task_ids.tolist()], dtype=bool)
    if not known.any():
        return {"n_tasks": len(found.true_labels), "accuracy": None}
    at = {name: k for k, name in enumerate(crowd.classes.tolist())}
    truth = np.array([at.get(found.true_labels.get(name), -1) for name in crowd.task_ids.tolist()])
    judged = known[crowd.tasks]
    right = truth[crowd.tasks[judged]] == crowd.labels[judged]
    return {"n_tasks": len(found.true_labels), "accuracy": float(right.mean()) if len(right) else None}


def _reading_problems(found: AnnotationFile, notes: list[str]) -> Iterator[tuple[str, str]]:
    for reason, count in found.dropped.items():
        yield f"left out: {count:,} {reason}", found.remedy(reason)
    for note in notes:
        problem, _, condition = note.partition("; if ")  # many warnings contain their remedy
        yield problem, f"if {condition}" if condition else remedy(note)
    classes = set(found.annotations.classes.tolist())
    unknown = [label for label in dict.fromkeys(found.true_labels.values()) if label not in classes]
    if unknown:
        yield f"true labels that no annotator gave: {examples(unknown)}", "list all classes with --classes"


def _crowd_problems(
    crowd: Annotations, counts: npt.NDArray[np.int64], agreement: dict[str, Agreement]
) -> Iterator[tuple[str, str]]:
    yield from lone_annotator(crowd)
    if not agreement:
        yield "no task has two labels", "let several annotators label some tasks; aggregation needs this"
    elif agreement["krippendorff_alpha"].value < LOW_ALPHA:
        yield (
            f"agreement is low (alpha {agreement['krippendorff_alpha'].value:.2f}), near agreement by chance",
            "check the instructions, and that --question and the columns are the right ones",
        )
    yield from no_classes(crowd)
    yield from _class_problems(crowd, counts)
    yield from _annotator_problems(crowd)


def _class_problems(crowd: Annotations, counts: npt.NDArray[np.int64]) -> Iterator[tuple[str, str]]:
    names = [str(name) for name in crowd.classes.tolist()]
    if crowd.n_classes == 1:
        yield f"one class, {examples(names)}", "check the label column: a classifier needs at least two classes"
    slips = _slips(names, counts) if crowd.n_classes <= MOST_COMPARED else {}
    if slips:
        shown = ", ".join(f"{name!r} of {meant!r}" for name, meant in slips.items())
        yield f"classes that may be slips: {shown}", "correct the labels, unless they are classes of their own"
    rare = [name for name, count in zip(names, counts, strict=True) if 0 < count < FEW_LABELS and name not in slips]
    if 0 < len(rare) < crowd.n_classes <= 20:
        yield (
            f"classes with fewer than {FEW_LABELS} labels: {examples(rare)}",
            "correct them if they are slips; rare classes are hard to learn",
        )


def _slips(names: list[str], counts: npt.NDArray[np.int64]) -> dict[str, str]:
    """Rare classes that are spelled nearly as a frequent one, to that one; numbered classes are none."""
    seen = [look(name) for name in names]
    found = {}
    for name, own, count in zip(names, seen, counts, strict=True):
        frequent = {
            other: full
            for other, full, n in zip(seen, names, counts, strict=True)
            if count <= SLIP_SHARE * n and other != own and other[:1] == own[:1]
        }
        close = difflib.get_close_matches(own, frequent, n=1, cutoff=LEAST_ALIKE)
        if count and close and not any(map(str.isdigit, own + close[0])):
            found[name] = frequent[close[0]]
    return found


def _annotator_problems(crowd: Annotations) -> Iterator[tuple[str, str]]:
    given = crowd.labels_per_annotator()
    few = int(((given > 0) & (given < FEW_LABELS)).sum())
    if few > 0 and crowd.n_annotators > 1:
        yield (
            f"{few:,} of {crowd.n_annotators:,} annotators gave fewer than {FEW_LABELS} labels",
            "little is known about each: use bayes-dawid-skene or one-coin to aggregate",
        )
    pairs = np.unique(crowd.annotators.astype(np.int64) * crowd.n_classes + crowd.labels)
    kinds = np.bincount(pairs // crowd.n_classes, minlength=crowd.n_annotators)
    same = crowd.annotator_ids[(kinds == 1) & (given >= SAME_LABELS)].tolist()
    if same and crowd.n_classes > 1:
        yield (
            f"{len(same):,} annotators always gave the same label, {SAME_LABELS} times or more: {examples(same)}",
            "look at their work, or leave them out by --without NAME; methods that model annotators discount them",
        )
