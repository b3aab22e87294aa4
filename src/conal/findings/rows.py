"""What rows about tasks have in common: how the report shows a task."""

from __future__ import annotations

import re
from typing import NotRequired, TypedDict

from conal.io.images import Thumbnail
from conal.io.task_items import is_link

__all__ = ["PictureSection", "TaskShown", "is_embedded", "safe_link"]

_EMBEDDED = re.compile(r"data:image/(?:png|jpeg);base64,[A-Za-z0-9+/]+=*")


class TaskShown(TypedDict):
    """The beginning of the text, the task's address, the number of its picture, and the address of its picture."""

    text: NotRequired[str]
    link: NotRequired[str]
    picture: NotRequired[int]
    picture_link: NotRequired[str]


class PictureSection(TypedDict):
    """Every picture once, however many rows show it, and how many could not be read."""

    thumbnails: list[Thumbnail]
    unreadable: int


def is_embedded(uri: str) -> bool:
    """Whether this is a picture as conal embeds it, and nothing that could be anything else."""
    return _EMBEDDED.fullmatch(uri) is not None


def safe_link(address: str | None) -> str | None:
    """The address, if it may become a link; a report may come from anybody.

    >>> safe_link("javascript:alert(1)") is None, safe_link("https://x.org/1")
    (True, 'https://x.org/1')
    """
    return address if address is not None and is_link(address) else None
