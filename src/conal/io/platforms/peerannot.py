"""peerannot's ``answers.json``, or the folder that contains it: labels by task and worker."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa

from conal.data.encoding import numbers_or_text
from conal.io.annotation_file import UNLABELLED, AnnotationFile, Collector
from conal.io.platforms import Importer, register
from conal.io.platforms.files import Head, load_json
from conal.parameters.reading import ReadOptions

ANSWERS = "answers.json"
MODEL = "AI"
"""The worker under whose name peerannot stores what a model said."""


@register("peerannot")
class Peerannot(Importer):
    """An object ``{task: {worker: label}}``; the worker ``AI`` is a model and is left out.

    Keys of JSON objects are text; tasks and workers become numbers where all of them are.
    """

    title = "peerannot answers.json"
    expects = "one object {task: {worker: label}}"
    kinds = ("json", "folder")
    shows_tasks = False

    def sniff(self, head: Head) -> bool:
        if head.kind == "folder":
            return ANSWERS in head.members and not {"id", "label"} <= head.fields
        if head.pair is None:
            return False
        answers = head.record if head.record is not None else dict([head.pair])
        return all(_is_votes(votes) for votes in answers.values()) and any(answers.values())

    def read(self, path: Path, options: ReadOptions) -> AnnotationFile:
        answers = load_json(path / ANSWERS if path.is_dir() else path)
        if not isinstance(answers, dict) or not all(_is_votes(votes) for votes in answers.values()):
            self.unlike(path, "a list" if isinstance(answers, list) else "another object")
        found = Collector(self, path, options)
        tasks, workers = (
            _names(answers),
            _names(worker for votes in answers.values() for worker in votes if worker != MODEL),
        )
        for task, votes in answers.items():
            found.dropped.update({UNLABELLED: 1} if not votes else {})
            for worker, label in votes.items():
                if worker == MODEL:
                    found.dropped[f"by the worker {MODEL!r}, a model"] += 1
                else:
                    found.add(tasks[task], workers[worker], label)
        return found.finish()


def _is_votes(votes: Any) -> bool:
    return isinstance(votes, dict) and not any(isinstance(label, dict | list) for label in votes.values())


def _names(texts: Iterable[str]) -> dict[str, Any]:
    """Text to the name that it stands for: a number, if all of them do."""
    keys = list(dict.fromkeys(texts))
    names = numbers_or_text(pa.chunked_array([pa.array(keys, pa.string())])) if keys else pa.array([])
    return dict(zip(keys, names.to_pylist(), strict=True))
