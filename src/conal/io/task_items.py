"""What annotators saw: texts, pictures and addresses in the data of an export."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlsplit

import pyarrow as pa

from conal.data.frames import is_name_column
from conal.errors import InputError
from conal.io.images import SUFFIXES, is_inline, is_local

MOSTLY = 0.5
"""Share of a column's values that must be of a kind for the column to be."""
MAX_LINK = 2000
_PICTURE_COLUMN = re.compile(r"image|img|picture|photo|thumb|foto|bild|frame|scan", re.IGNORECASE)
_LINK = re.compile(r"https?://[^\s\x00-\x20\"'<>\\^`{|}\x7f]+", re.IGNORECASE)


@dataclass(frozen=True)
class TaskItems:
    """Texts, pictures (paths and ``data:`` URIs), addresses of pictures, and other addresses, by task as text."""

    texts: dict[str, str] = field(default_factory=dict)
    pictures: dict[str, str] = field(default_factory=dict)
    picture_links: dict[str, str] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)


def items_of(data: pa.Table | None, text: str | None = None) -> TaskItems:
    """What the data of an export's tasks contain.

    A column contains pictures or addresses if most of its values do. Texts are in the column named by ``text``, or in
    the first one with a usual name.

    >>> table = pa.table({"task": [1], "photo": ["a/1.png"], "page": ["https://x.org/1"], "text": ["A cat."]})
    >>> items_of(table)
    TaskItems(texts={'1': 'A cat.'}, pictures={'1': 'a/1.png'}, picture_links={}, links={'1': 'https://x.org/1'})
    """
    found = TaskItems()
    if data is None:
        return found
    tasks = [str(task) for task in data["task"].to_pylist()]
    names = [name for name in data.column_names if name != "task"]
    named = text if text is not None else next((name for name in names if is_name_column(name, ["text"])), None)
    columns = {name: _texts(data[name], of_any_type=name == named) for name in names}
    for name, values in columns.items():
        if name == named:
            _add(found.texts, tasks, values, lambda value: True)
        elif _mostly(values, lambda value: is_inline(value) or is_local(value)):
            _add(found.pictures, tasks, values, lambda value: is_inline(value) or is_local(value))
        elif _mostly(values, _is_picture_link) or (_PICTURE_COLUMN.search(name) and _mostly(values, is_link)):
            _add(found.picture_links, tasks, values, is_link)
        elif _mostly(values, is_link):
            _add(found.links, tasks, values, is_link)
    return found


def is_link(value: str) -> bool:
    """Whether this may become a link on a page: an address of http or https and nothing else.

    >>> is_link("https://x.org/a?b=1"), is_link("javascript:alert(1)"), is_link("https://x.org/ a"), is_link("/etc")
    (True, False, False, False)
    """
    if len(value) > MAX_LINK or _LINK.fullmatch(value) is None:
        return False
    try:
        return bool(urlsplit(value).hostname)
    except ValueError:
        return False


def link_maker(template: str) -> Callable[[Any], str]:
    """The address of a task, from an address that contains ``{task}``.

    >>> link_maker("https://x.org/projects/1/data?task={task}")("a/1")
    'https://x.org/projects/1/data?task=a%2F1'
    """
    head, placeholder, tail = template.partition("{task}")
    if not placeholder or not is_link(head + "1" + tail):
        raise InputError(
            f"--link {template!r}: expected an address of http or https in which {{task}} stands for the task's id, "
            "such as https://label-studio.example.org/projects/1/data?task={task}"
        )
    return lambda task: head + quote(str(task), safe="") + tail


def _texts(column: pa.ChunkedArray, *, of_any_type: bool) -> list[str]:
    """Text values, empty where there is none; of a list, the first. All texts may be numbers."""
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not (of_any_type or pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        return []
    return [_first(None if value is None else str(value)) for value in column.to_pylist()]


def _first(value: str | None) -> str:
    if value is None:
        return ""
    if value.startswith('["') and value.endswith('"]'):
        try:
            return str(json.loads(value)[0])
        except (ValueError, RecursionError):
            return value
    return value.strip()


def _mostly(values: list[str], fits: Callable[[str], bool]) -> bool:
    given = [value for value in values if value]
    return bool(given) and sum(map(fits, given)) > MOSTLY * len(given)


def _is_picture_link(value: str) -> bool:
    return is_link(value) and any(urlsplit(value).path.lower().endswith(suffix) for suffix in SUFFIXES)


def _add(found: dict[str, str], tasks: list[str], values: list[str], fits: Callable[[str], bool]) -> None:
    for task, value in zip(tasks, values, strict=True):
        if value and fits(value):
            found.setdefault(task, value)
