"""doccano: a zip, or the folder it unpacks to, with one file per annotator."""

from __future__ import annotations

import zipfile
from pathlib import Path, PurePosixPath
from typing import Any

from conal.errors import InputError, examples, person
from conal.io.annotation_file import AnnotationFile, Collector, Question, ask
from conal.io.platforms import Importer, register
from conal.io.platforms.files import Head, archive_members, parse_records
from conal.io.tables import parse_delimited
from conal.parameters.reading import ReadOptions

ENDINGS = (".jsonl", ".json", ".csv")
SHARED_FILE = "all"
"""Name of the one file that a project with shared annotations is exported to."""

LABEL = Question("label", named=False)
"""doccano has one question, without a name; its answers are called so."""

LABEL_FIELDS = frozenset({"label", "cats"})
OWN_FIELDS = ("id", "label", "cats", "entities", "relations", "Comments")


@register("doccano")
class Doccano(Importer):
    """Files called after the annotators, in each a record per document: ``id``, ``text`` and ``label``.

    A project in which annotators share their annotations is exported to one file ``all``, which does not say who gave
    a label: it is refused. An empty ``label`` means that the annotator has not labelled the document.
    """

    title = "doccano"
    expects = "a zip or folder with one .jsonl, .json or .csv file per annotator"
    kinds = ("zip", "folder", "json")
    takes = ("question", "task")

    def sniff(self, head: Head) -> bool:
        if head.kind == "zip":
            return bool(_exports(head.members)) and not any(name.startswith("samples/") for name in head.members)
        if head.kind == "folder":
            empty = not head.fields and head.pair is None
            return bool(_exports(head.members)) and (
                empty or ("id" in head.fields and bool(LABEL_FIELDS & head.fields))
            )
        label = (head.record or {}).get("label")
        return {"id", "text", "label"} <= head.fields and isinstance(label, list)

    def read(self, path: Path, options: ReadOptions) -> AnnotationFile:
        alone = path.exists() and not path.is_dir() and not zipfile.is_zipfile(path)
        if alone and not options.unlabelled:
            raise InputError(
                f"{path}: is one file of a doccano export, whose file names are the annotators; "
                "pass the zip, or the folder it unpacks to"
            )
        members = {path.name: path.read_bytes()} if alone else archive_members(path)
        files = {name: members[name] for name in _exports(members)}
        if not files:
            self.unlike(path, f"{examples(members) or 'nothing'}")
        if [PurePosixPath(name).stem for name in files] == [SHARED_FILE] and not options.unlabelled:
            raise InputError(
                f"{path}: is the export of a collaborative project, {next(iter(files))!r}, which does not say who gave "
                "which label; switch off 'share annotations across all users' in the project and export again"
            )
        found = Collector(self, path, options, _question(path, options.question))
        for name, content in files.items():
            self._read_file(name, content, found)
        return found.finish()

    def _read_file(self, name: str, content: bytes, found: Collector) -> None:
        where = f"{found.where}: {person(name)}"  # the file is called after the annotator
        worker = PurePosixPath(name).stem
        if not content.strip():
            found.dropped["files without a document"] += 1
            return
        is_table = name.lower().endswith(".csv")
        records = parse_delimited(content, ",", where).to_pylist() if is_table else parse_records(content, where)
        for record in records:
            if "id" not in record or not LABEL_FIELDS & set(record):
                self.unlike(where, f"a record with {examples(record, 8)}")
            task = record.get(found.options.task or "id")
            found.show(task, {k: v for k, v in record.items() if k not in OWN_FIELDS})
            found.add(task, worker, _labels(record, is_table))


def _question(path: Path, wanted: str | None) -> Question:
    return LABEL._replace(choice=ask([LABEL.name], wanted, path, "question").choice)


def _exports(names: Any) -> list[str]:
    places = ((name, PurePosixPath(name.replace("\\", "/"))) for name in names)
    return sorted(
        name
        for name, place in places
        if place.suffix.lower() in ENDINGS and not place.name.startswith(".") and "__MACOSX" not in place.parts
    )


def _labels(record: dict[str, Any], is_table: bool) -> Any:
    """The labels of a document; a span, ``[start, end, label]``, is not a label of the document."""
    labels = record.get("cats", record.get("label"))
    if is_table:
        return str(labels).split("#") if labels not in (None, "") else None
    if isinstance(labels, list) and any(isinstance(label, list) for label in labels):
        return {"spans": labels}
    return labels
