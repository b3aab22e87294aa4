"""The report in a notebook: the whole page inside a frame of its own."""

from __future__ import annotations

from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, cast

from markupsafe import Markup

from conal._files import atomic_file, check_file_place
from conal.report.findings import Report, origin_of
from conal.report.page import lead, render
from conal.report.section import count, short

HEIGHT = 720
"""Pixels of the frame, which readers can drag longer."""
FRAME = Markup(
    '<iframe title="conal report" sandbox="allow-scripts" srcdoc="{page}" style="box-sizing: border-box; width: 100%; '
    "height: {height}px; min-height: 200px; resize: vertical; border: 1px solid #8884; border-radius: 8px; "
    'background: #fbfaf8;"></iframe>'
)
"""The frame may run the page's own scripts, which the page's content security policy names, and nothing else: it is
of another origin than the notebook, which it can neither read nor change."""


class ReportPage:
    """The report as one HTML page that works offline; the last value of a notebook's cell is shown below it.

    Parameters
    ----------
    document : mapping
        The content of ``report.json``.

    Attributes
    ----------
    html : str
        The page.
    document : mapping
        The content of ``report.json``, from which the page is made.
    lead : str
        The first lines of the page: how many labels are right, as measured or as believed.

    Examples
    --------
    >>> from conal.aggregation import MajorityVote
    >>> MajorityVote().fit([[0, 0, 1], [1, 1, 1]]).report()
    ReportPage(majority-vote: 2 tasks, 3 annotators, 6 labels; .save("report.html") writes it)
    """

    def __init__(self, document: Report) -> None:
        self.document = document

    @cached_property
    def html(self) -> str:
        """The whole page."""
        return render(cast(dict[str, Any], self.document))

    @property
    def lead(self) -> str:
        """The first lines of the page as plain text: how many labels are right, as measured or as believed."""
        return lead(self.document).striptags().replace("\xa0", " ")

    def save(self, path: str | PathLike[str], *, overwrite: bool = False) -> Path:
        """Write the page to a file, all at once.

        Parameters
        ----------
        path : path
        overwrite : bool
            Whether an existing file may be replaced.
        """
        place = Path(path)
        check_file_place(place, overwrite=overwrite)
        with atomic_file(place) as temporary:
            temporary.write_text(self.html, encoding="utf-8")
        return place

    def _repr_html_(self) -> str:
        return str(FRAME.format(page=self.html, height=HEIGHT))

    def __repr__(self) -> str:
        crowd = self.document["crowd"]
        numbers = ", ".join(
            count(crowd[key], word, f"{word}s")  # type: ignore[literal-required]
            for key, word in (("n_tasks", "task"), ("n_annotators", "annotator"), ("n_annotations", "label"))
        )
        method = short(origin_of(self.document)["method"])
        return f'{type(self).__name__}({method}: {numbers}; .save("report.html") writes it)'
