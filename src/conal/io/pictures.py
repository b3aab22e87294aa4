"""Thumbnails of pictures: small, bounded in what they unpack to, and without what a file says beside its pixels."""

from __future__ import annotations

import base64
import io
import struct
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypedDict

import numpy as np
import numpy.typing as npt

from conal.io.limits import PICTURE_BYTES, PICTURE_PIXELS

if TYPE_CHECKING:
    from PIL import Image

__all__ = [
    "SUFFIXES",
    "FromUri",
    "PictureError",
    "PictureSource",
    "Source",
    "Thumbnail",
    "thumbnail_of",
]

FORMATS = ("PNG", "JPEG", "GIF", "BMP", "WEBP", "TIFF")
"""What is read. SVG is a document that can contain scripts, and is never embedded."""
SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".jpe", ".gif", ".bmp", ".webp", ".tif", ".tiff", ".svg"})
"""Endings of files that are meant as pictures, readable or not."""
SHOWN = 96
"""Longest side on the page."""
SMALL = 64
"""A picture with no longer side keeps all of its pixels."""
ATTEMPTS = ((192, 80), (144, 70), (96, 70), (96, 45), (64, 40), (48, 30))
"""Longest side and JPEG quality, the first that is small enough counts; sharper than shown, for dense screens."""
BROKEN = (OSError, ValueError, SyntaxError, EOFError, struct.error, LookupError, TypeError, ArithmeticError)
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
        except BROKEN as error:
            raise PictureError(f"cannot be read ({type(error).__name__})") from error


def _opened(source: Source) -> Image.Image:
    """The picture in grey or in colours, the right way up."""
    from PIL import Image, ImageOps, UnidentifiedImageError

    if isinstance(source, np.ndarray):
        return Image.fromarray(source)
    try:
        with Image.open(io.BytesIO(_content(source)), formats=FORMATS) as image:
            width, height = image.size
            if width * height > PICTURE_PIXELS:
                raise PictureError(f"has {width:,} x {height:,} pixels, more than {PICTURE_PIXELS:,}")
            image.draft("RGB", (2 * ATTEMPTS[0][0],) * 2)  # a JPEG need not be unpacked in full
            return _plain(ImageOps.exif_transpose(image))
    except UnidentifiedImageError as error:
        raise PictureError(f"is not {', '.join(FORMATS[:-1])} or {FORMATS[-1]}") from error
    except Image.DecompressionBombError as error:
        raise PictureError(f"has more than {PICTURE_PIXELS:,} pixels") from error


def _content(source: Path | FromUri) -> bytes:
    if isinstance(source, FromUri):
        head, _, text = source.uri.partition(",")
        if not head.lower().endswith(";base64") or len(text) > PICTURE_BYTES:
            raise PictureError("is no data: URI in base64, or too long")
        return base64.b64decode(text, validate=False)
    if not source.is_file():  # a pipe would never end
        raise PictureError("is no file")
    if source.stat().st_size > PICTURE_BYTES:
        raise PictureError(f"has more than {PICTURE_BYTES // 2**20:,} MB")
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

    if max(image.size) <= SMALL:
        found = _uri(image, "PNG", optimize=True)
        if len(found) <= most:
            return found
    for side, quality in ATTEMPTS:
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
    """At most :data:`SHOWN` pixels; small pictures grow by a whole factor, so that their pixels stay squares."""
    longest = max(width, height)
    factor = max(SHOWN // longest, 1) if longest <= SHOWN else SHOWN / longest
    return max(round(width * factor), 1), max(round(height * factor), 1)
