"""peerannot's ``answers.json``, or the folder that contains it: labels by task and worker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from conal.data.encoding import numbers_or_text
from conal.io.annotation_file import UNLABELLED, AnnotationFile
from conal.io.platforms.base import Collector, Importer, register
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
        for task, votes in answers.items():
            found.dropped.update({UNLABELLED: 1} if not votes else {})
            for worker, label in votes.items():
                if worker == MODEL:
                    found.dropped[f"by the worker {MODEL!r}, a model"] += 1
                else:
                    found.add(task, worker, label)
        return found.finish(names=_numbers)


def _is_votes(votes: Any) -> bool:
    return isinstance(votes, dict) and not any(isinstance(label, dict | list) for label in votes.values())


def _numbers(names: list[str]) -> Any:
    return numbers_or_text(pa.chunked_array([pa.array(names, pa.string())])) if names else names
