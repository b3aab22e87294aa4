"""NetEaseCrowd's answers."""

from __future__ import annotations

from pathlib import Path

from conal.errors import examples
from conal.io.annotation_file import AnnotationFile
from conal.io.platforms.base import Importer, register
from conal.io.platforms.head import Head
from conal.io.platforms.sheet import read_sheet
from conal.parameters.reading import ReadOptions

__all__ = ["NetEaseCrowd"]


@register("netease-crowd")
class NetEaseCrowd(Importer):
    """NetEaseCrowd: ``tasksetId``, ``taskId``, ``workerId``, ``answer`` and the true label as ``truth``."""

    title = "NetEaseCrowd"
    expects = "a table with 'tasksetId', 'taskId', 'workerId' and 'answer'"
    kinds = ("table", "parquet")
    shows_tasks = False

    def sniff(self, head: Head) -> bool:
        return {"tasksetId", "taskId", "workerId", "answer"} <= set(head.header)

    def read(self, path: Path, options: ReadOptions) -> AnnotationFile:
        sheet = read_sheet(path)
        if not {"taskId", "workerId", "answer"} <= set(sheet.names):
            self.unlike(path, f"a table with the columns {examples(sheet.names, 8)}")
        sheet.sort_by_time("completeTime")
        return sheet.finish(
            self, options, task="taskId", worker="workerId", label="answer", gold="truth", time="completeTime"
        )
