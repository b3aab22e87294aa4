"""Toloka's assignments: a table, or a frame of toloka-kit, with INPUT:, OUTPUT:, GOLDEN: and ASSIGNMENT: columns."""

from __future__ import annotations

from pathlib import Path

from conal.errors import examples
from conal.io.annotation_file import AnnotationFile, Collector, Question, choose_question
from conal.io.platforms import Importer, register
from conal.io.platforms.files import Head, read_sheet
from conal.parameters.reading import ReadOptions

INPUT, OUTPUT, GOLDEN, ASSIGNMENT = "INPUT:", "OUTPUT:", "GOLDEN:", "ASSIGNMENT:"


@register("toloka")
class Toloka(Importer):
    """One row per answer; ``GOLDEN:`` columns contain the true labels of control tasks.

    The default download has no ``ASSIGNMENT:task_id``; the only ``INPUT:`` column then names the tasks, or the one
    that is chosen. Rejected assignments are left out unless they are asked for; those that were skipped or expired
    always.
    """

    title = "Toloka TSV"
    expects = "a table with 'OUTPUT:...' and 'ASSIGNMENT:worker_id' columns"
    kinds = ("table", "parquet", "arrow")
    takes = ("question", "task", "worker", "label", "keep_rejected")

    def sniff(self, head: Head) -> bool:
        prefixes = {name.split(":")[0] + ":" for name in head.header if ":" in name}
        return {OUTPUT, ASSIGNMENT} <= prefixes

    def read(self, path: Path, options: ReadOptions) -> AnnotationFile:
        sheet = read_sheet(path)
        outputs = [name for name in sheet.names if name.startswith(OUTPUT)]
        worker = options.worker or f"{ASSIGNMENT}worker_id"
        if not outputs or worker not in sheet.names:
            self.unlike(path, f"a table with the columns {examples(sheet.names, 8)}")
        named = options.question or options.label
        wanted = None if named is None else named.removeprefix(OUTPUT)
        question = choose_question([name.removeprefix(OUTPUT) for name in outputs], wanted, path, "output")
        label, inputs = OUTPUT + question, [name for name in sheet.names if name.startswith(INPUT)]
        task = sheet.task_column(options.task, f"{ASSIGNMENT}task_id", inputs, INPUT)
        sheet.drop_blank([task, worker, label])
        found = Collector(self, path, options, Question(question))
        status = f"{ASSIGNMENT}status"
        if not options.keep_rejected:
            found.dropped["rejected by the requester"] += sheet.drop_values(status, ["REJECTED"])
        found.dropped["of assignments not finished"] += sheet.drop_values(status, ["SKIPPED", "EXPIRED", "ACTIVE"])
        shown = sheet.fields(inputs, INPUT)
        columns = [sheet.column(name).to_pylist() for name in (task, worker, label)]
        gold, times = sheet.values(GOLDEN + question), sheet.values(f"{ASSIGNMENT}submitted")
        for name, who, answer, truth, when, fields in zip(*columns, gold, times, shown, strict=True):
            found.show(name, fields)
            found.add_gold(name, truth)
            found.add(name, who, answer, when)
        return found.finish(untyped=sheet.untyped)
