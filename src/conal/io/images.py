"""What annotators saw: pictures in files or as features, thumbnails of them, and addresses in an export."""

from __future__ import annotations

import base64
import importlib.util
import io
import json
import math
import os
import re
import struct
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypedDict
from urllib.parse import quote, urlsplit

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from conal._arrays import FloatArray
from conal._files import real_path
from conal.data.frames import is_name_column
from conal.errors import DataWarning, InputError, examples, warn
from conal.io.limits import MAX_PICTURE_BYTES, MAX_PICTURE_PIXELS

if TYPE_CHECKING:
    from PIL import Image


# Thumbnails of pictures: small, bounded in what they unpack to, and without what a file says beside its pixels.

FORMATS = ("PNG", "JPEG", "GIF", "BMP", "WEBP", "TIFF")
"""What is read. SVG is a document that can contain scripts, and is never embedded."""
SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".jpe", ".gif", ".bmp", ".webp", ".tif", ".tiff", ".svg"})
"""Endings of files that are meant as pictures, readable or not."""
SHOWN_SIDE = 96
"""Longest side on the page."""
UNSCALED_SIDE = 64
"""A picture with no longer side keeps all of its pixels."""
SIDES_AND_QUALITIES = ((192, 80), (144, 70), (96, 70), (96, 45), (64, 40), (48, 30))
"""Longest side and JPEG quality, the first that is small enough counts; sharper than shown, for dense screens."""
PICTURE_ERRORS = (OSError, ValueError, SyntaxError, EOFError, struct.error, LookupError, TypeError, ArithmeticError)
"""What Pillow raises for damaged pictures."""


class PictureError(ValueError):
    """A picture that cannot be shown; the message says why."""


class FromUri(NamedTuple):
    """A picture inside a ``data:`` URI."""

    uri: str


Source = Path | FromUri | npt.NDArray[np.uint8]
"""Where the pixels of a picture are."""


class PictureSource(Protocol):
    """Pictures of tasks, looked up by the name of the task."""

    def of(self, task: Any) -> Source | None:
        """The picture of a task, or None."""


class Thumbnail(TypedDict):
    """A picture as the page embeds it, and the size in which it shows it."""

    uri: str
    width: int
    height: int


def thumbnail_of(source: Source, most: int) -> Thumbnail:
    """A small PNG or JPEG of a picture. Nothing but pixels is kept: no place, time or camera.

    Parameters
    ----------
    source : path, FromUri or (height, width) or (height, width, 3) array of uint8
    most : int
        Characters of the URI. Pictures that would take more lose size and quality.

    Examples
    --------
    >>> made = thumbnail_of(np.zeros((8, 4), np.uint8), 1000)
    >>> made["uri"][:22], made["width"], made["height"]
    ('data:image/png;base64,', 48, 96)
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about metadata, which is not kept
        try:
            image = _opened(source)
            width, height = _shown_size(*image.size)
            return {"uri": _encoded(image, most), "width": width, "height": height}
        except PictureError:
            raise
        except PICTURE_ERRORS as error:
            raise PictureError(f"cannot be read ({type(error).__name__})") from error


def can_draw() -> bool:
    """Whether Pillow is installed, which makes the thumbnails."""
    return importlib.util.find_spec("PIL") is not None


def _opened(source: Source) -> Image.Image:
    """The picture in grey or in colours, the right way up."""
    from PIL import Image, ImageOps, UnidentifiedImageError

    if isinstance(source, np.ndarray):
        return Image.fromarray(source)
    try:
        with Image.open(io.BytesIO(_content(source)), formats=FORMATS) as image:
            width, height = image.size
            if width * height > MAX_PICTURE_PIXELS:
                raise PictureError(f"has {width:,} x {height:,} pixels, more than {MAX_PICTURE_PIXELS:,}")
            image.draft("RGB", (2 * SIDES_AND_QUALITIES[0][0],) * 2)  # a JPEG need not be unpacked in full
            return _plain(ImageOps.exif_transpose(image))
    except UnidentifiedImageError as error:
        raise PictureError(f"is not {', '.join(FORMATS[:-1])} or {FORMATS[-1]}") from error
    except Image.DecompressionBombError as error:
        raise PictureError(f"has more than {MAX_PICTURE_PIXELS:,} pixels") from error


def _content(source: Path | FromUri) -> bytes:
    if isinstance(source, FromUri):
        head, _, text = source.uri.partition(",")
        if not head.lower().endswith(";base64") or len(text) > MAX_PICTURE_BYTES:
            raise PictureError("is no data: URI in base64, or too long")
        return base64.b64decode(text, validate=False)
    if not source.is_file():  # a pipe would never end
        raise PictureError("is no file")
    if source.stat().st_size > MAX_PICTURE_BYTES:
        raise PictureError(f"has more than {MAX_PICTURE_BYTES // 2**20:,} MB")
    return source.read_bytes()


def _plain(image: Image.Image) -> Image.Image:
    """Eight bits of grey or colour, on white where the picture is transparent."""
    from PIL import Image

    if image.mode in ("L", "RGB"):
        return image.copy()
    if image.mode.startswith(("I", "F")):  # more than eight bits: from the darkest to the brightest
        values = np.asarray(image, dtype=np.float64)
        low, high = np.nanmin(values), np.nanmax(values)
        scaled = np.nan_to_num((values - low) * (255 / max(high - low, 1e-300)))
        return Image.fromarray(scaled.clip(0, 255).astype(np.uint8))
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        colours = image.convert("RGBA")
        paper = Image.new("RGBA", colours.size, "white")
        return Image.alpha_composite(paper, colours).convert("RGB")
    return image.convert("L" if image.mode == "1" else "RGB")


def _encoded(image: Image.Image, most: int) -> str:
    """The first attempt that takes no more than ``most`` characters, or the last one."""
    from PIL import Image

    if max(image.size) <= UNSCALED_SIDE:
        found = _uri(image, "PNG", optimize=True)
        if len(found) <= most:
            return found
    for side, quality in SIDES_AND_QUALITIES:
        image.thumbnail((side, side), Image.Resampling.LANCZOS)
        found = _uri(image, "JPEG", quality=quality, optimize=True)
        if len(found) <= most:
            break
    return found


def _uri(image: Image.Image, kind: str, **settings: Any) -> str:
    made = io.BytesIO()
    image.info = {}  # what Pillow would write beside the pixels
    image.save(made, kind, **settings)
    return f"data:image/{kind.lower()};base64,{base64.b64encode(made.getvalue()).decode()}"


def _shown_size(width: int, height: int) -> tuple[int, int]:
    """At most :data:`SHOWN_SIDE` pixels; small pictures grow by a whole factor, so that their pixels stay squares."""
    longest = max(width, height)
    factor = max(SHOWN_SIDE // longest, 1) if longest <= SHOWN_SIDE else SHOWN_SIDE / longest
    return max(round(width * factor), 1), max(round(height * factor), 1)


# Features that look like pictures, such as the digits' 8 x 8 pixels, and drawing them.


MIN_INSTANCES = 20
"""Instances below which nothing is said about their features."""
MIN_SIDE, MAX_SIDE = 8, 4096
MAX_SIDE_RATIO = 8
"""Times that one side may be as long as the other."""
MIN_NEIGHBOUR_CORRELATION = 0.2
"""Least correlation of neighbouring pixels. Digits have more, photographs far more, and embeddings none."""
MIN_CORRELATION_GAIN = 0.05
"""By how much more than pixels half a row apart. Time series are alike at every small distance."""


class Drawing(NamedTuple):
    """How instances become pictures: their layout, and the values that are black and white."""

    shape: tuple[int, ...]
    channels: int | None
    """The axis of colours, if there is one."""
    low: float
    high: float

    def draw(self, instance: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
        """(height, width) or (height, width, 3) pixels of an instance."""
        values = _laid_out(np.asarray(instance, dtype=np.float64)[None], self.shape, self.channels)[0]
        scaled = (values - self.low) * (255 / (self.high - self.low))
        return np.ascontiguousarray(np.nan_to_num(scaled).clip(0, 255).round().astype(np.uint8))


def drawing_of(sample: npt.NDArray[Any]) -> Drawing | None:
    """How to draw instances like these, or None if they do not look like pictures.

    Pictures are (n, height, width) arrays, with one or three colours on the last or first axis of an instance, or flat
    ones of a square number of features, in which neighbours in a row and in a column are alike, and more alike than
    pixels half a row apart.

    Parameters
    ----------
    sample : (n, ...) array

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> drawing_of(load_digits().data[:100])
    Drawing(shape=(8, 8), channels=None, low=0.0, high=16.0)
    >>> drawing_of(np.random.default_rng(0).normal(size=(100, 64))) is None
    True
    """
    layout = _layout(sample.shape[1:])
    if layout is None or len(sample) < MIN_INSTANCES or sample.dtype.kind not in "fiub":
        return None
    values = sample.astype(np.float64)
    low, high = float(values.min()), float(values.max())
    if not math.isfinite(low) or not math.isfinite(high) or low >= high:
        return None
    grey = _laid_out(values, *layout)
    grey = grey.mean(-1) if layout[1] is not None else grey
    if not _has_neighbours(grey):
        return None
    if sample.dtype == np.uint8:
        low, high = 0.0, 255.0
    return Drawing(*layout, low, high)


def _layout(shape: tuple[int, ...]) -> tuple[tuple[int, ...], int | None] | None:
    """The shape of a picture, and its axis of colours, for instances of this shape."""
    if len(shape) == 1:
        side = math.isqrt(shape[0])
        shape = (side, side) if side * side == shape[0] else ()
    channels = None
    if len(shape) == 3:
        channels = next((axis for axis in (2, 0) if shape[axis] in (1, 3)), None)
        if channels is None:
            return None
    sides = [size for axis, size in enumerate(shape) if axis != channels]
    if len(sides) != 2 or not all(MIN_SIDE <= side <= MAX_SIDE for side in sides):
        return None
    return (shape, channels) if max(sides) <= MAX_SIDE_RATIO * min(sides) else None


def _laid_out(values: FloatArray, shape: tuple[int, ...], channels: int | None) -> FloatArray:
    """(n, height, width), with three colours at the end where there are three."""
    values = values.reshape(len(values), *shape)
    if channels is None:
        return values
    values = np.moveaxis(values, channels + 1, -1)
    return np.repeat(values, 3, axis=-1) if values.shape[-1] == 1 else values


def _has_neighbours(pictures: FloatArray) -> bool:
    width = pictures.shape[2]
    flat = pictures.reshape(len(pictures), -1)
    beside, half, below = (_correlation(flat, lag) for lag in (1, width // 2, width))
    return min(beside, below) >= max(MIN_NEIGHBOUR_CORRELATION, half + MIN_CORRELATION_GAIN)


def _correlation(flat: FloatArray, lag: int) -> float:
    """Mean correlation, over instances, of features this far apart; those that never change do not count."""
    centred = flat - flat.mean(0)
    spread = centred.std(0)
    changes = spread > 1e-6 * spread.max()
    centred = centred / np.where(changes, spread, 1.0)
    both = changes[:-lag] & changes[lag:]
    return float((centred[:, :-lag] * centred[:, lag:]).mean(0)[both].mean()) if both.any() else 0.0


# Pictures of tasks in files: a folder whose file names are the tasks' ids, and files that an export names.

MAX_FILES = 2_000_000
"""Files that a folder may have: more is rather somebody's whole disk."""


@dataclass(frozen=True)
class PictureFolder:
    """A folder of pictures. The picture of a task is the file that is called like it, with or without its ending.

    Attributes
    ----------
    path : path
    files : dict
        Name of a file, with and without its ending, and with and without the folders that it is in, to the file; None
        for a name that several files have.
    """

    path: Path
    files: Mapping[str, Path | None] = field(repr=False)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> PictureFolder:
        """List a folder and the folders inside."""
        path = Path(path)
        if not path.is_dir():
            raise InputError(f"{path}: is no folder; pass the folder of the pictures (--images)")
        exact: dict[str, Path | None] = {}
        bare: dict[str, Path | None] = {}
        count = 0
        for place, folders, names in os.walk(path):
            folders.sort()
            count += len(names)
            if count > MAX_FILES:
                raise InputError(f"{path}: contains more than {MAX_FILES:,} files; pass the folder of the pictures")
            for name in sorted(names):
                file = Path(place, name)
                if file.suffix.lower() in SUFFIXES:
                    _enter(exact, file.relative_to(path), file)
                    _enter(bare, Path(name), file)
        if not exact:
            raise InputError(f"{path}: contains no picture ({', '.join(sorted(SUFFIXES - {'.svg'}))})")
        return cls(path, bare | exact)

    def of(self, task: Any) -> Source | None:
        """The picture that is called like the task."""
        return self.files.get(str(task))

    def warn_of_ambiguous(self, tasks: list[Any]) -> None:
        """Tell which tasks have no picture because several files have their name."""
        several = [task for task in tasks if str(task) in self.files and self.files[str(task)] is None]
        if several:
            warn(
                f"{self.path}: several files are called like {len(several):,} tasks, which are shown without a "
                f"picture: {examples(several)}; keep one file of each name",
                DataWarning,
            )


def _enter(found: dict[str, Path | None], name: Path, file: Path) -> None:
    for key in (name.as_posix(), name.with_suffix("").as_posix()):
        found[key] = None if key in found else file


@dataclass(frozen=True)
class NamedPictures:
    """Pictures that an export names: ``data:`` URIs, and files beside the export or in the user's folder.

    Files elsewhere are not read, whatever an export says: it may come from anybody, and the report may be shared.

    Attributes
    ----------
    values : dict
        Task, as text, to what the export has for its picture.
    beside : path
        The folder of the export.
    folder : PictureFolder or None
        The user's pictures, found by the names of files in the export.
    """

    values: Mapping[str, str] = field(repr=False)
    beside: Path
    folder: PictureFolder | None = None

    def of(self, task: Any) -> Source | None:
        """The picture that the export names for the task."""
        value = self.values.get(str(task), "")
        if is_inline(value):
            return FromUri(value)
        if not is_local(value):
            return None
        inside = None if self.folder is None else self.folder.files.get(PureWindowsPath(value).name)
        return inside or _beside(value, self.beside)


def is_inline(value: str) -> bool:
    """Whether this is a picture inside a ``data:`` URI.

    >>> is_inline("data:image/png;base64,iVBO"), is_inline("data:text/html,x")
    (True, False)
    """
    return value[:11].lower() == "data:image/"


def is_local(value: str) -> bool:
    """Whether this is the path of a picture, not its address on the network.

    >>> is_local("cats/1.JPG"), is_local("https://x.org/1.jpg"), is_local("a cat")
    (True, False, False)
    """
    if len(value) > 1000 or "\n" in value or ("://" in value and not value.lower().startswith("file://")):
        return False
    return PureWindowsPath(value).suffix.lower() in SUFFIXES  # knows both kinds of slashes


def _beside(value: str, folder: Path) -> Path | None:
    """The file, if it is in the folder or in one inside of it."""
    plain = value[7:] if value.lower().startswith("file://") else value
    place, root = Path(folder, *PurePosixPath(plain.replace("\\", "/")).parts), real_path(folder)
    try:
        found = real_path(place)
    except (OSError, ValueError):  # a name that no file can have
        return None
    return found if found.is_relative_to(root) and found.is_file() else None


# What annotators saw: texts, pictures and addresses in the data of an export.

MIN_COLUMN_SHARE = 0.5
"""Share of a column's values that must be of a kind for the column to be."""
MAX_LINK_LENGTH = 2000
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
    if len(value) > MAX_LINK_LENGTH or _LINK.fullmatch(value) is None:
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
    return bool(given) and sum(map(fits, given)) > MIN_COLUMN_SHARE * len(given)


def _is_picture_link(value: str) -> bool:
    return is_link(value) and any(urlsplit(value).path.lower().endswith(suffix) for suffix in SUFFIXES)


def _add(found: dict[str, str], tasks: list[str], values: list[str], fits: Callable[[str], bool]) -> None:
    for task, value in zip(tasks, values, strict=True):
        if value and fits(value):
            found.setdefault(task, value)
