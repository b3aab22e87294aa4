"""What is done with a file of each kind: everything up to the point where its content is trusted."""

from __future__ import annotations

import json
import random
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torture.documents import Document

__all__ = ["READERS", "attempt", "signature"]


def _labels(path: Path, options: dict[str, Any]) -> None:
    from conal.aggregation import MajorityVote
    from conal.io import ReadOptions, import_file, read_annotations
    from conal.io.results import label_table
    from conal.io.tables import write_table
    from conal.io.task_items import items_of
    from conal.report.inspection import inspect_file

    file = import_file(path, **options)
    file.warn_of_dropped()
    again = random.Random(path.stat().st_size)
    if again.random() < 0.04:
        json.dumps(inspect_file(path, ReadOptions(**options)), default=str)
    if again.random() < 0.2:
        crowd = file.annotations
        file.all_tasks(), file.task_data(), items_of(file.data)
        fitted = MajorityVote().fit(crowd)
        ending = again.choice(["csv", "jsonl", "parquet"])
        write_table(label_table(fitted.task_ids_, fitted.probas_, fitted.classes_), path.with_name(f"out.{ending}"))
        write_table(crowd.to_table(), path.with_name(f"again.{ending}"))
        read_annotations(path.with_name(f"again.{ending}"), format=ending)


def _features(path: Path, options: dict[str, Any]) -> None:
    from conal.io import read_features

    read_features(path, **options)


def _texts(path: Path, options: dict[str, Any]) -> None:
    from conal.io import read_texts

    read_texts(path, **options)


def _gold(path: Path, options: dict[str, Any]) -> None:
    from conal.data.annotations import Annotations
    from conal.io import read_gold

    found = read_gold(path, **options)
    crowd = Annotations.from_triples(["1", "1.10", "a", "007"], ["w"] * 4, ["cat", "dog", "1", "NA"])
    found.for_tasks(crowd)
    found.for_rows(len(found.labels), found.task_ids)


def _report(path: Path, options: dict[str, Any]) -> None:
    from conal.errors import InputError
    from conal.report.page import render

    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # what reads the folder says so
        raise InputError("not JSON") from error
    if isinstance(document, dict):
        render(document)


def _checkpoint(path: Path, options: dict[str, Any]) -> None:
    from conal.training.checkpoint import Checkpoint

    Checkpoint(path, options, resume=True).read()


READERS: dict[str, Callable[[Path, dict[str, Any]], None]] = {
    "labels": _labels,
    "features": _features,
    "texts": _texts,
    "gold": _gold,
    "report": _report,
    "checkpoint": _checkpoint,
}


def attempt(document: Document, folder: Path) -> tuple[str, str]:
    """How the reader takes it: "read", "refused" or "failed", and the message or the signature of the failure."""
    from conal.errors import ConalError

    path = folder / document.name
    path.write_bytes(document.content)
    try:
        READERS[document.reader](path, dict(document.options))
    except ConalError as error:
        return "refused", str(error)
    except BaseException as error:  # Rust panics are no Exception
        return "failed", signature(error)
    finally:
        path.unlink(missing_ok=True)
    return "read", ""


def signature(error: BaseException) -> str:
    """The type of an error and the innermost function of conal that it came through."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "/conal/" in frame.filename]
    last = own[-1] if own else frames[-1]
    place = "/".join(Path(last.filename).parts[-2:])
    return f"{type(error).__name__} in {place}:{last.name}"
