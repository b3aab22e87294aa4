"""Exports as the platforms write them, made from rows of task, worker and label."""

from __future__ import annotations

import csv
import io
import json
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

__all__ = ["EXPORTS", "VARIANTS", "Rows", "write_table"]

Rows = list[tuple[Any, str, str]]
"""Task, worker and label of every annotation."""


def by_task(rows: Rows) -> dict[Any, Rows]:
    found: dict[Any, Rows] = {}
    for row in rows:
        found.setdefault(row[0], []).append(row)
    return found


def write_json(path: Path, value: Any) -> Path:
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def write_lines(path: Path, records: Iterable[Any]) -> Path:
    path.write_text("".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records), encoding="utf-8")
    return path


def write_table(path: Path, header: list[str], rows: Iterable[Iterable[Any]], delimiter: str = ",") -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerow(header)
        writer.writerows(rows)
    return path


def label_studio(rows: Rows, folder: Path) -> Path:
    def annotation(worker: str, label: str) -> dict[str, Any]:
        result = {"from_name": "kind", "to_name": "text", "type": "choices", "value": {"choices": [label]}}
        return {"completed_by": {"id": 1, "email": worker}, "result": [result], "was_cancelled": False}

    tasks = [
        {"id": task, "data": {"text": f"text of {task}"}, "annotations": [annotation(w, y) for _, w, y in group]}
        for task, group in by_task(rows).items()
    ]
    return write_json(folder / "export.json", tasks)


def label_studio_min(rows: Rows, folder: Path) -> Path:
    header = ["text", "id", "kind", "annotator", "annotation_id", "created_at", "updated_at", "lead_time"]
    time = "2026-01-01T10:00:00.000000Z"
    values = ([f"text of {t}", t, y, w, k, time, time, 1.5] for k, (t, w, y) in enumerate(rows))
    return write_json(folder / "min.json", [dict(zip(header, row, strict=True)) for row in values])


def argilla(rows: Rows, folder: Path) -> Path:
    records = [
        {
            "id": task,
            "status": "completed",
            "_server_id": f"server {task}",
            "text": f"text of {task}",
            "kind.responses": [y for _, _, y in group],
            "kind.responses.users": [w for _, w, _ in group],
            "kind.responses.status": ["submitted"] * len(group),
        }
        for task, group in by_task(rows).items()
    ]
    return write_json(folder / "argilla.json", records)


def doccano(rows: Rows, folder: Path) -> Path:
    path = folder / "export.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for worker in sorted({w for _, w, _ in rows}):
            lines = [{"id": t, "text": f"text of {t}", "label": [y], "Comments": []} for t, w, y in rows if w == worker]
            archive.writestr(f"{worker}.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    return path


def prodigy(rows: Rows, folder: Path) -> Path:
    options = [{"id": y, "text": y} for y in sorted({y for _, _, y in rows})]
    return write_lines(
        folder / "prodigy.jsonl",
        (
            {
                "text": f"text of {t}",
                "_input_hash": t,
                "_task_hash": k,
                "options": options,
                "_view_id": "choice",
                "accept": [y],
                "answer": "accept",
                "_timestamp": 1_700_000_000 + k,
                "_annotator_id": w,
                "_session_id": w,
            }
            for k, (t, w, y) in enumerate(rows)
        ),
    )


def mturk(rows: Rows, folder: Path) -> Path:
    header = ["HITId", "AssignmentId", "WorkerId", "AssignmentStatus", "Input.text", "Answer.kind.label", "Approve"]
    values = ([t, k, w, "Approved", f"text of {t}", y, ""] for k, (t, w, y) in enumerate(rows))
    return write_table(folder / "batch.csv", header, values)


def toloka(rows: Rows, folder: Path) -> Path:
    header = ["INPUT:text", "OUTPUT:kind", "GOLDEN:kind", "ASSIGNMENT:task_id", "ASSIGNMENT:worker_id"]
    values = ([f"text of {t}", y, "", t, w, "APPROVED"] for t, w, y in rows)
    return write_table(folder / "assignments.tsv", [*header, "ASSIGNMENT:status"], values, "\t")


def peerannot(rows: Rows, folder: Path) -> Path:
    return write_json(folder / "answers.json", {t: {w: y for _, w, y in group} for t, group in by_task(rows).items()})


def wide(rows: Rows, folder: Path) -> Path:
    workers = sorted({w for _, w, _ in rows})
    cells = {(t, w): y for t, w, y in rows}
    tasks = list(by_task(rows))
    return write_table(
        folder / "wide.csv", ["", *workers], ([t, *(cells.get((t, w), "") for w in workers)] for t in tasks)
    )


def lists(rows: Rows, folder: Path) -> Path:
    return write_lines(
        folder / "lists.jsonl",
        (
            {
                "id": task,
                "text": f"text of {task}",
                "annotators": [w for _, w, _ in group],
                "labels": [y for *_, y in group],
            }
            for task, group in by_task(rows).items()
        ),
    )


def inspect_ai(rows: Rows, folder: Path) -> Path:
    samples = [
        {"id": t, "epoch": 1, "input": f"text of {t}", "scores": {w: {"value": y} for _, w, y in group}}
        for t, group in by_task(rows).items()
    ]
    return write_json(
        folder / "log.json", {"version": 2, "status": "success", "eval": {"model": "m"}, "samples": samples}
    )


def mlflow(rows: Rows, folder: Path) -> Path:
    def assessment(worker: str, label: str) -> dict[str, Any]:
        source = {"source_type": "HUMAN", "source_id": worker}
        return {"assessment_name": "kind", "source": source, "feedback": {"value": label}, "valid": True}

    traces = [
        {"trace_id": t, "assessments": [assessment(w, y) for _, w, y in group], "request": "x"}
        for t, group in by_task(rows).items()
    ]
    return write_json(folder / "traces.json", traces)


def zooniverse(rows: Rows, folder: Path) -> Path:
    header = ["classification_id", "user_name", "user_id", "workflow_id", "created_at"]
    values = (
        [
            *(k, w, "", 10, f"2026-01-01 10:{k // 60:02}:{k % 60:02} UTC"),
            *(json.dumps([{"task": "T0", "value": y}]), json.dumps({t: {"retired": None, "text": f"text of {t}"}}), t),
        ]
        for k, (t, w, y) in enumerate(rows)
    )
    return write_table(folder / "classes.csv", [*header, "annotations", "subject_data", "subject_ids"], values)


EXPORTS: dict[str, Callable[[Rows, Path], Path]] = {
    "argilla": argilla,
    "doccano": doccano,
    "inspect-ai": inspect_ai,
    "label-studio": label_studio,
    "label-studio-min": label_studio_min,
    "lists": lists,
    "mlflow": mlflow,
    "mturk": mturk,
    "peerannot": peerannot,
    "prodigy": prodigy,
    "toloka": toloka,
    "wide": wide,
    "zooniverse": zooniverse,
}


def label_studio_csv(rows: Rows, folder: Path) -> Path:
    header = ["annotation_id", "annotator", "created_at", "id", "kind", "lead_time", "text", "updated_at"]
    values = ([k, w, "2026-01-01", t, y, 1.5, "text", "2026-01-01T10:00:00Z"] for k, (t, w, y) in enumerate(rows))
    return write_table(folder / "min.csv", header, values)


def argilla_flat(rows: Rows, folder: Path) -> Path:
    return write_lines(
        folder / "flat.jsonl",
        (
            {
                "id": task,
                "text": "text",
                "kind.responses": [y for _, _, y in group],
                "kind.responses.users": [w for _, w, _ in group],
                "kind.responses.status": ["submitted"] * len(group),
            }
            for task, group in by_task(rows).items()
        ),
    )


def doccano_csv(rows: Rows, folder: Path) -> Path:
    path = folder / "csv.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for worker in sorted({w for _, w, _ in rows}):
            text = io.StringIO(newline="")
            own = [(t, "text", y.replace("#", "_")) for t, w, y in rows if w == worker]
            csv.writer(text).writerows([("id", "text", "label"), *own])
            archive.writestr(f"{worker}.csv", text.getvalue())
    return path


def toloka_csv(rows: Rows, folder: Path) -> Path:
    header = ["INPUT:text", "OUTPUT:kind", "ASSIGNMENT:link", "ASSIGNMENT:worker_id"]
    return write_table(folder / "toloka.csv", header, ([t, y, "http", w] for t, w, y in rows))


def mturk_json(rows: Rows, folder: Path) -> Path:
    values = ([t, w, json.dumps([{"kind": {"label": y}}])] for t, w, y in rows)
    return write_table(folder / "json.csv", ["HITId", "WorkerId", "Answer.taskAnswers"], values)


VARIANTS: dict[str, tuple[str, Callable[[Rows, Path], Path]]] = {
    "label-studio-csv": ("label-studio-min", label_studio_csv),
    "argilla-flat": ("argilla", argilla_flat),
    "doccano-csv": ("doccano", doccano_csv),
    "toloka-csv": ("toloka", toloka_csv),
    "mturk-json": ("mturk", mturk_json),
}
"""Other layouts of the same platforms."""
