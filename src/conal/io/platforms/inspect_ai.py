"""Logs of Inspect (inspect_ai): answers of a model to samples, and the grades that scorers gave them."""

from __future__ import annotations

import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from conal.errors import InputError, examples
from conal.io.annotation_file import AnnotationFile, Collector, Question
from conal.io.platforms import Importer, register
from conal.io.platforms.files import Head, archive_members, load_json, parse_records
from conal.parameters.reading import ReadOptions

HEADERS = ("header.json", "_journal/start.json")
"""Members of an ``.eval`` file that describe the run; the first exists once it has ended."""
SAMPLES = "samples/"
ANSWER, GRADE = "answer", "grade"
ATTACHMENT = "attachment://"

Record = Mapping[str, Any]


class Log(NamedTuple):
    """One log: the model that was evaluated, and the samples."""

    model: str
    samples: Sequence[Record]


@register("inspect-ai")
class InspectAi(Importer):
    """A log of one evaluation, as ``.eval`` or JSON. There are two crowds in it; ``question`` says which is read.

    ``answer``: models answer samples. A sample is a task, the model an annotator, its answer (as the scorer extracted
    it) the label, and the target the true label. Pass the logs of several models. This is the default if there is
    one scorer and it is no model.

    ``grade``: scorers judge answers. The answer of a model to a sample is a task, called ``MODEL/SAMPLE`` (and
    ``MODEL/SAMPLE/EPOCH`` for all but the first epoch). A scorer is an annotator, called by the model that it asks
    where the log says so. The value of the score is the label.
    """

    title = "Inspect log"
    expects = "an .eval file, or JSON with 'eval' and 'samples'"
    kinds = ("zip", "json")
    takes = ("question",)

    def sniff(self, head: Head) -> bool:
        if head.kind == "zip":
            named = any(name in head.members for name in HEADERS)
            return named and any(name.startswith(SAMPLES) for name in head.members)
        if head.record is not None:
            return {"eval", "samples", "status"} <= head.record.keys()
        return head.pair is not None and head.pair[0] == "version" and isinstance(head.pair[1], int)

    def read(self, path: Path, options: ReadOptions) -> AnnotationFile:
        log = self._log(path)
        question = options.question or _usual_question(log)
        if question not in (ANSWER, GRADE):
            raise InputError(
                f"{path}: there is no question {question!r}; {ANSWER!r} reads the answers of the model, {GRADE!r} the "
                "grades of the scorers"
            )
        found = Collector(self, path, options, Question(question))
        judges = _judges(log)
        for sample in log.samples:
            if not _scores(sample):
                found.dropped["samples without a score"] += 1
            elif question == ANSWER:
                _add_answer(found, log.model, sample)
            else:
                _add_grades(found, log.model, sample, judges)
        return found.finish()

    def _log(self, path: Path) -> Log:
        if path.suffix.lower() != ".json" and zipfile.is_zipfile(path):
            members = archive_members(path, folders=True)
            header = next((members[name] for name in HEADERS if name in members), None)
            texts = {name: text for name, text in members.items() if name.startswith(SAMPLES)}
            if header is None:
                self.unlike(path, examples(members) or "nothing")
            about = parse_records(header, f"{path}: header")[0]
            samples = [each for name, text in texts.items() for each in parse_records(text, f"{path}: {name}")]
        else:
            about = load_json(path)
            if not isinstance(about, dict) or not isinstance(about.get("samples"), list):
                self.unlike(path, "other JSON")
            samples = [sample for sample in about["samples"] if isinstance(sample, dict)]
        run = about.get("eval")
        model = run.get("model") if isinstance(run, dict) else None
        if not isinstance(model, str):
            raise InputError(f"{path}: does not say which model was evaluated; is the log complete?")
        return Log(model, samples)


def _add_answer(found: Collector, model: str, sample: Record) -> None:
    """The model's answer, which all scorers share; the target is the truth."""
    task = _id(sample, found)
    found.show(task, {"text": _text(sample)})
    found.add_gold(task, sample.get("target"))
    answers = [score.get("answer") for score in _scores(sample).values()]
    found.add(task, model, next((answer for answer in answers if answer is not None), None), sample.get("epoch"))


def _add_grades(found: Collector, model: str, sample: Record, judges: Mapping[str, str]) -> None:
    epoch = sample.get("epoch", 1)
    task = f"{model}/{_id(sample, found)}" + (f"/{epoch}" if epoch != 1 else "")
    scores = _scores(sample)
    answers = (score.get("answer") for score in scores.values())
    found.show(task, {"text": _text(sample), "answer": next((str(each) for each in answers if each is not None), None)})
    for name, judge in judges.items():
        if name in scores:
            found.add(task, judge, scores[name].get("value"))


def _usual_question(log: Log) -> str:
    scores = [_scores(sample) for sample in log.samples]
    graded = any(_grader(score) is not None for each in scores for score in each.values())
    answered = any(score.get("answer") is not None for each in scores for score in each.values())
    return GRADE if graded or not answered or any(len(each) > 1 for each in scores) else ANSWER


def _judges(log: Log) -> dict[str, str]:
    """Scorer to what it is called here: the model that it asks, unless another scorer asks the same."""
    models: dict[str, set[str]] = {}
    for sample in log.samples:
        for name, score in _scores(sample).items():
            grader = _grader(score)
            models.setdefault(name, set()).update([] if grader is None else [grader])
    single = {name: next(iter(asked)) for name, asked in models.items() if len(asked) == 1}
    times = Counter(single.values())
    return {name: single[name] if times[single.get(name, "")] == 1 else name for name in models}


def _grader(score: Record) -> str | None:
    """The model that graded, from the messages that a model-graded scorer keeps."""
    kept = score.get("metadata")
    messages = kept.get("grading") if isinstance(kept, dict) else None
    for message in reversed(messages) if isinstance(messages, list) else ():
        if isinstance(message, dict) and isinstance(message.get("model"), str):
            model: str = message["model"]
            return model
    return None


def _scores(sample: Record) -> dict[str, Record]:
    scores = sample.get("scores")
    return (
        {name: score for name, score in scores.items() if isinstance(score, dict)} if isinstance(scores, dict) else {}
    )


def _id(sample: Record, found: Collector) -> Any:
    if sample.get("id") is None:
        raise InputError(f"{found.where}: a sample has no id; is this a log of Inspect?")
    return sample["id"]


def _text(sample: Record) -> str:
    """What the model was asked: a text, or the texts of messages."""
    given = sample.get("input")
    parts = list(_parts(given)) if isinstance(given, list) else [str(given)]
    kept = sample.get("attachments")
    return "\n".join(_attached(part, kept if isinstance(kept, dict) else {}) for part in parts)


def _parts(messages: list[Any]) -> Iterator[str]:
    for message in messages:
        content = message.get("content") if isinstance(message, dict) else None
        for part in content if isinstance(content, list) else [{"text": content}]:
            if isinstance(part, dict) and isinstance(part.get("text"), str):
                yield part["text"]


def _attached(text: str, attachments: Record) -> str:
    """Long texts are kept apart from where they occur."""
    return str(attachments.get(text.removeprefix(ATTACHMENT), text)) if text.startswith(ATTACHMENT) else text
