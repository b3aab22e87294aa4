"""Executes ``docs/notebook.ipynb``, and makes a page of the documentation site of it.

``make notebook`` executes the notebook in an empty folder and writes it back with its outputs. ``make docs`` runs
``notebook.py --page``, which writes a page with the notebook's texts, code, tables and pictures into ``docs``. The page
has no scripts of its own; the report is a file beside it.
"""

from __future__ import annotations

import html
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = ["cleaned", "execute", "main", "page", "write_page"]

NOTEBOOK = Path(__file__).parents[1] / "docs" / "notebook.ipynb"
PAGE = "notebook.md"
FOLDER = "notebook"
"""Folder of the page's pictures and of the report."""
SECONDS = 600
"""A cell that takes longer is stopped."""
REPORT = re.compile(r' srcdoc="([^"]*)"')
NOTE = (
    "!!! note\n    This page is a notebook, with the outputs of its last run: [notebook.ipynb](notebook.ipynb). "
    "`make notebook` runs it again.\n"
)


def execute(notebook: Any, client: type[Any] | None = None) -> Any:
    """Run all cells of a notebook in a new kernel and an empty folder; the outputs are put into the notebook.

    Parameters
    ----------
    client : type, optional
        A subclass of nbclient's ``NotebookClient``, to watch the messages of the kernel.
    """
    from nbclient import NotebookClient

    with tempfile.TemporaryDirectory() as folder, _environment(folder):
        made = (client or NotebookClient)(
            notebook,
            timeout=SECONDS,
            kernel_name="python3",
            resources={"metadata": {"path": folder}},
            extra_arguments=["--log-level=40"],  # errors only
        )
        made.execute()
    return notebook


@contextmanager
def _environment(folder: str) -> Iterator[None]:
    """The kernel reads nothing from the home folder, leaves nothing there, and imports what this process imports."""
    paths = [str(Path(path).resolve()) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    own = {"IPYTHONDIR": folder, "JUPYTER_RUNTIME_DIR": folder, "PYTHONPATH": os.pathsep.join(paths)}
    before = {name: os.environ.get(name) for name in own}
    os.environ.update(own)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def cleaned(notebook: Any) -> Any:
    """The notebook without what differs from run to run or from machine to machine, and without empty outputs."""
    notebook["metadata"] = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    for number, cell in enumerate(notebook["cells"]):
        cell["id"], cell["metadata"] = f"cell-{number + 1}", {}
        if cell["cell_type"] == "code":
            cell["outputs"] = [output for output in cell["outputs"] if _has_content(output)]
    return notebook


def _has_content(output: Any) -> bool:
    """Whether an output shows anything: a progress bar that has ended does not."""
    return "data" not in output or any("".join(value) for value in output["data"].values())


def page(notebook: Any) -> tuple[str, dict[str, bytes]]:
    """A notebook as Markdown, and the files that it shows, by their paths beside the page."""
    files: dict[str, bytes] = {}
    parts: list[str] = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source + (f"\n\n{NOTE}" if not parts else ""))
            continue
        parts.append(f"```python\n{source}\n```")
        parts += [_shown(output, source, files) for output in cell["outputs"]]
    return "\n\n".join(parts) + "\n", files


def _shown(output: Any, source: str, files: dict[str, bytes]) -> str:
    """An output as Markdown: the richest form that a page without scripts can show."""
    data = output.get("data", {})
    if "image/svg+xml" in data:
        path = f"{FOLDER}/picture-{len(files) + 1}.svg"
        files[path] = "".join(data["image/svg+xml"]).encode()
        return f"![{source.splitlines()[-1].strip()}]({path})"
    if "text/html" in data:
        return _html("".join(data["text/html"]), files)
    text = "".join(data.get("text/plain", output.get("text", "")))
    return f"```text\n{text.rstrip()}\n```"


def _html(text: str, files: dict[str, bytes]) -> str:
    """HTML as one block, in the style of the site; a report becomes a file."""
    found = REPORT.search(text)
    if found is not None:
        path = f"{FOLDER}/report.html"
        files[path] = html.unescape(found[1]).encode()
        text = REPORT.sub(' loading="lazy" src="report.html"', text)
    text = re.sub(r"<style.*?</style>", "", text, flags=re.DOTALL)
    text = text.replace(' border="1" class="dataframe"', "")
    return f'<div style="overflow-x: auto">{"".join(_lines(text))}</div>'


def _lines(text: str) -> Iterator[str]:
    """Lines without indentation and without blank ones, which would end the block."""
    yield from (f"{line.strip()}\n" for line in text.splitlines() if line.strip())


def write_page(folder: Path) -> None:
    """Write the page, and what it shows, into the folder of the site's pages."""
    text, shown = page(json.loads(NOTEBOOK.read_text(encoding="utf-8")))
    for path, content in {PAGE: text.encode(), **shown}.items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_bytes(content)


def main() -> None:
    """Execute the notebook and write it with its outputs, or write its page."""
    if sys.argv[1:] == ["--page"]:
        write_page(NOTEBOOK.parent)
        return
    import nbformat

    files: Any = nbformat  # has no types
    notebook = cleaned(execute(files.read(NOTEBOOK, as_version=4)))
    temporary = NOTEBOOK.with_suffix(".new")
    files.write(notebook, temporary)
    temporary.replace(NOTEBOOK)
    sys.stdout.write(f"executed {NOTEBOOK.name}\n")


if __name__ == "__main__":
    main()
