"""The example notebook: it runs in a real kernel, shows what it promises, and its page says the same."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest

import notebook as tool

nbformat = pytest.importorskip("nbformat", reason="notebooks are run by nbclient: make install")
nbclient = pytest.importorskip("nbclient", reason="notebooks are run by nbclient: make install")
pytest.importorskip("ipykernel", reason="notebooks are run in ipykernel: make install")

PICTURES = (
    "aggregated.plots.annotators",
    "clf.plots.common_confusion",
    "clf.plots.confused_pairs",
    "clf.plots.shared_mistakes",
    "clf.plots.annotator(",
    "clf.plots.training_loss",
)
TABLES = ('aggregated.table("annotators")', 'clf.table("suggestions"')
SUMMARIES = ("data.annotations\n", "aggregated\n")
PERCENTAGES = ('print(f"right labels: {(agg', 'print(f"right labels: {(clf', 'print(f"test accuracy')
POINTS = 2.0
"""By which percentages of two runs may differ, on other processors."""
PLACES = re.compile(r"(?<![<\w.&;/*)])/(tmp|home|root|work|Users|usr|var|opt)/|site-packages|\.py\"?, line")
"""Paths of a machine, and lines of a traceback."""


def committed() -> Any:
    return nbformat.read(tool.NOTEBOOK, as_version=4)


def output_of(made: Any, beginning: str) -> Any:
    """The single output of the cell whose last line begins so."""
    (cell,) = [c for c in made["cells"] if c["cell_type"] == "code" and _last(c).startswith(beginning)]
    (output,) = cell["outputs"]
    return output


def _last(cell: Any) -> str:
    return str(cell["source"].splitlines()[-1]) + "\n"


def printed(made: Any, beginning: str) -> float:
    """The percentage that a cell prints."""
    (share,) = re.findall(r"([\d.]+)%", output_of(made, beginning)["text"])
    return float(share)


def columns(made: Any, beginning: str) -> list[str]:
    """The names of the columns of a table."""
    head = re.search(r"<thead>.*?</thead>", output_of(made, beginning)["data"]["text/html"], flags=re.DOTALL)
    assert head is not None
    return re.findall(r"<th>(.*?)</th>", head[0])


def check_outputs(made: Any) -> None:
    for beginning in PICTURES:
        assert output_of(made, beginning)["data"]["image/svg+xml"].startswith("<svg ")
    for beginning in (*SUMMARIES, *TABLES):
        assert "<table" in output_of(made, beginning)["data"]["text/html"]
    report = output_of(made, "clf.report()")["data"]
    assert report["text/html"].startswith('<iframe title="conal report" sandbox="allow-scripts" srcdoc="&lt;!DOCTYPE')
    assert report["text/plain"].startswith("ReportPage(xconal: 1,000 tasks, 30 annotators, 3,051 labels")
    for cell in made["cells"]:
        for output in cell.get("outputs", []):
            assert output["output_type"] in ("execute_result", "stream")
            assert output.get("name") != "stderr"
            assert not PLACES.search(str(output.get("text", "")) + str(output.get("data", "")))


def check_alike(fresh: Any, kept: Any) -> None:
    """A fresh run and the committed one: percentages within a few points, and the same columns."""
    for beginning in PERCENTAGES:
        assert printed(fresh, beginning) == pytest.approx(printed(kept, beginning), abs=POINTS), "run `make notebook`"
    for beginning in TABLES:
        assert columns(fresh, beginning) == columns(kept, beginning) != [], "run `make notebook`"


def test_a_run_that_differs_is_found() -> None:
    kept = committed()
    check_alike(kept, kept)
    other = copy.deepcopy(kept)
    output = output_of(other, TABLES[0])
    output["data"]["text/html"] = output["data"]["text/html"].replace("<th>worst_class</th>", "")
    with pytest.raises(AssertionError, match="make notebook"):
        check_alike(other, kept)
    other = copy.deepcopy(kept)
    output_of(other, PERCENTAGES[0])["text"] = "right labels: 10.0%"
    with pytest.raises(AssertionError, match="make notebook"):
        check_alike(other, kept)


@pytest.mark.large
def test_the_notebook_runs_and_shows_its_progress() -> None:
    messages: list[Any] = []

    class Watching(nbclient.NotebookClient):  # type: ignore[misc, name-defined]
        def process_message(self, msg: Any, cell: Any, cell_index: int) -> Any:
            messages.append((cell["source"], msg))
            return super().process_message(msg, cell, cell_index)

    made = committed()
    for cell in made["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"] = []
    made = tool.cleaned(tool.execute(made, Watching))
    check_outputs(made)
    assert 65 < printed(made, 'print(f"right labels: {(agg') < 75
    assert printed(made, 'print(f"right labels: {(clf') > 94
    assert printed(made, 'print(f"test accuracy') > 94
    check_alike(made, committed())
    kinds = ("display_data", "update_display_data")
    bars = [m for source, m in messages if source.startswith("clf = ") and m["msg_type"] in kinds]
    shown = [m["content"]["data"]["text/plain"] for m in bars]
    assert [m["msg_type"] for m in bars] == ["display_data", *["update_display_data"] * (len(bars) - 1)]
    assert len({m["content"]["transient"]["display_id"] for m in bars}) == 1  # one bar, which moves
    assert re.match(r"xconal .* 0/40", shown[0])
    moving = [bar for bar in shown if bar]
    assert re.match(r"xconal .*40/40", moving[-1])
    assert len(set(moving)) >= 3
    assert shown[-1] == ""  # and goes


def test_the_notebook_in_the_documentation_has_been_run() -> None:
    made = committed()
    check_outputs(made)
    numbers = [cell["execution_count"] for cell in made["cells"] if cell["cell_type"] == "code"]
    assert numbers == list(range(1, len(numbers) + 1)), "run `make notebook`"
    assert tool.cleaned(copy.deepcopy(made)) == made


def test_the_page_has_what_the_notebook_has() -> None:
    made = committed()
    text, files = tool.page(made)
    assert text.startswith("# conal in a notebook\n")
    assert text.count("```python\n") == sum(cell["cell_type"] == "code" for cell in made["cells"])
    assert text.count("](notebook/picture-") == len(PICTURES) == sum(path.endswith(".svg") for path in files)
    assert files["notebook/report.html"].startswith(b"<!DOCTYPE html>")
    assert b"Content-Security-Policy" in files["notebook/report.html"][:400]
    assert 'src="report.html"' in text
    assert "srcdoc" not in text
    assert not re.search(r"<script|<style|https?:", text)
