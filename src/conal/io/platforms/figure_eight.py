"""FigureEight's full reports."""

from __future__ import annotations

from pathlib import Path

from conal.errors import examples
from conal.io.annotation_file import AnnotationFile
from conal.io.platforms.base import Importer, choose_question, register
from conal.io.platforms.head import Head
from conal.io.platforms.sheet import Sheet, read_sheet, varying
from conal.parameters.reading import ReadOptions

__all__ = ["FigureEight"]


@register("figure-eight")
class FigureEight(Importer):
    """FigureEight's (CrowdFlower's, Appen's) full report: ``_unit_id``, ``_worker_id`` and the questions' columns.

    The true labels of test questions are in ``<question>_gold``. Judgments of contributors who failed too many of them
    (``_tainted``) are left out unless they are asked for.
    """

    title = "FigureEight full report"
    expects = "a table with '_unit_id' and '_worker_id'"
    kinds = ("table", "parquet")
    takes = ("question", "label", "keep_rejected")

    def sniff(self, head: Head) -> bool:
        return {"_unit_id", "_worker_id"} <= set(head.header)

    def read(self, path: Path, options: ReadOptions) -> AnnotationFile:
        sheet = read_sheet(path)
        if not {"_unit_id", "_worker_id"} <= set(sheet.names):
            self.unlike(path, f"a table with the columns {examples(sheet.names, 8)}")
        wanted = options.question or options.label
        question = choose_question(_questions(sheet, wanted), wanted, path, "question")
        if not options.keep_rejected:
            sheet.drop_values("_tainted", ["true"], "tainted")
        shown = [
            name for name in sheet.names if not name.startswith("_") and name not in (question, f"{question}_gold")
        ]
        return sheet.finish(
            self,
            options,
            task="_unit_id",
            worker="_worker_id",
            label=question,
            question=question,
            gold=f"{question}_gold",
            time="_created_at",
            data=shown,
        )


def _questions(sheet: Sheet, wanted: str | None) -> list[str]:
    own = [name for name in sheet.names if not name.startswith("_") and not name.endswith("_gold")]
    if wanted is not None or len(own) < 2:
        return own
    with_gold = [name for name in own if f"{name}_gold" in sheet.names]
    return with_gold or varying(sheet, "_unit_id", own) or own
