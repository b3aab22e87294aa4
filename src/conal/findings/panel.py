"""A finding as the page shows it if it has no template of its own: a title, a sentence and a table."""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["Panel", "panel_of"]

FIGURES = ("figure", "value")
"""Headings of a list of single values."""


class Panel(NamedTuple):
    """Plain content of a part of the page. Everything in it is escaped, except a ``text`` that is ``Markup``."""

    title: str
    text: str
    headings: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    file: str | None
    """File of the model folder that contains all rows; ``None`` if only ``report.json`` does."""

    def is_share(self, row: tuple[Any, ...], column: int) -> bool:
        """Whether a cell has a share: by its heading, or in a list of figures by the name of its row."""
        name = row[0] if self.headings == FIGURES and column == 1 else self.headings[column]
        return str(name).endswith(" share")


def panel_of(name: str, section: Any, *, title: str = "", text: str = "", file: str | None = None) -> Panel:
    """A panel made from a section of ``report.json`` as it is.

    A section with ``rows`` (a list of objects) becomes a table of them; of any other object, the single values become
    a table of two columns. The key ``text``, if there is one, is the sentence above. A key that ends in ``_share`` is a
    share, which the page shows in percent.

    >>> panel_of("drift", {"text": "Slow.", "rows": [{"task_id": 3, "change": 0.5}, {"task_id": 4}]})[:4]
    ('Drift', 'Slow.', ('task id', 'change'), [(3, 0.5), (4, None)])
    >>> panel_of("drift", {"slope": 0.1, "parts": [1, 2]})[2:4]
    (('figure', 'value'), [('slope', 0.1)])
    """
    content = section if isinstance(section, dict) else {"value": section}
    rows = content.get("rows")
    if isinstance(rows, list) and all(isinstance(row, dict) for row in rows):
        keys = list(dict.fromkeys(key for row in rows for key in row))
        headings, cells = tuple(map(_words, keys)), [tuple(row.get(key) for key in keys) for row in rows]
    else:
        headings = FIGURES
        cells = [(_words(key), value) for key, value in content.items() if _is_single(value) and key != "text"]
    sentence = text or content.get("text", "")
    return Panel(title or _words(name).capitalize(), sentence, headings, cells, file)


def _words(key: str) -> str:
    return key.replace("_", " ")


def _is_single(value: Any) -> bool:
    return value is None or isinstance(value, str | bool | int | float)
