"""MLflow's assessments of traces: what people and LLM judges say about the answers of a model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from conal.errors import examples
from conal.io.annotation_file import UNLABELLED, AnnotationFile, Collector, ask, ticked
from conal.io.platforms import Importer, register
from conal.io.platforms.files import Head, load_records
from conal.parameters.reading import ReadOptions

REPLACED_REASON = "replaced by a later assessment"
Assessment = Mapping[str, Any]


@register("mlflow")
class Mlflow(Importer):
    """Traces with ``assessments``: rows of ``mlflow.search_traces()``, or whole traces (``Trace.to_json``).

    A trace is a task, the source of an assessment (a person, a judge, or code) an annotator, its name the question, and
    the value of its feedback the label. An expectation with the name of the question is a true label.
    """

    title = "MLflow assessments"
    expects = "traces with 'trace_id' and 'assessments'"
    kinds = ("json", "parquet", "arrow")
    takes = ("question", "task")

    def sniff(self, head: Head) -> bool:
        record = _info(head.record or {})
        return "trace_id" in record and "assessments" in record

    def read(self, path: Path, options: ReadOptions) -> AnnotationFile:
        traces = [(record, _info(record)) for record in load_records(path)]
        unlike = next((record for record, info in traces if not {"trace_id", "assessments"} <= info.keys()), None)
        if unlike is not None:
            self.unlike(path, f"a record with {examples(unlike, 8)}")
        named = [_name(each) for _, info in traces for each in _assessments(info) if ticked(_value(each))]
        question = ask(sorted(named), options.question, path, "assessment")
        found = Collector(self, path, options, question)
        for row, (record, info) in enumerate(traces):
            task = found.name_of(info, options.task or "trace_id", f"trace {row + 1}")
            found.show(task, _shown(record, info))
            given = [each for each in _assessments(info) if _name(each) == question.name]
            if not any("feedback" in each for each in given):
                found.dropped[UNLABELLED] += 1
            for each in given:
                _add(found, task, each)
        return found.finish()


def _add(found: Collector, task: Any, given: Assessment) -> None:
    if given.get("valid") is False:
        found.dropped[REPLACED_REASON] += 1
    elif isinstance(given.get("expectation"), dict):
        found.add_gold(task, given["expectation"].get("value"))
    else:
        source = given.get("source")
        who = source.get("source_id") if isinstance(source, dict) else None
        found.add(task, who, _value(given), given.get("create_time"))


def _info(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a trace is: a row of a frame, or the part ``info`` of a whole trace."""
    info = record.get("info")
    return info if isinstance(info, dict) else record


def _assessments(info: Mapping[str, Any]) -> Iterator[Assessment]:
    """Feedback and expectations; Parquet files have both keys, of which one is null."""
    listed = info.get("assessments")
    for each in listed if isinstance(listed, list) else []:
        if isinstance(each, dict):
            yield {name: value for name, value in each.items() if value is not None}


def _name(given: Assessment) -> str:
    return str(given.get("assessment_name"))


def _value(given: Assessment) -> Any:
    feedback = given.get("feedback")
    return feedback.get("value") if isinstance(feedback, dict) else None


def _shown(record: Mapping[str, Any], info: Mapping[str, Any]) -> dict[str, Any]:
    """The request and the response, whole in a frame and shortened in a trace."""
    names = ("request", "response")
    return {name: record.get(name, info.get(f"{name}_preview")) for name in names}
