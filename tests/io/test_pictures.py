"""Thumbnails: what is read, what is refused, what is left out, and how large the result is."""

from __future__ import annotations

import base64
import io
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from conal.io.images import FromUri, PictureError, Source, Thumbnail, drawing_of, thumbnail_of
from conal.io.limits import MAX_PICTURE_BYTES

RED, BLUE = (220, 30, 30), (30, 30, 220)


def decoded(made: Thumbnail) -> Image.Image:
    head, _, text = made["uri"].partition(",")
    assert head in ("data:image/png;base64", "data:image/jpeg;base64")
    return Image.open(io.BytesIO(base64.b64decode(text, validate=True)))


def halves(width: int = 300, height: int = 200) -> Image.Image:
    """Red on the left and blue on the right."""
    image = Image.new("RGB", (width, height), RED)
    image.paste(BLUE, (width // 2, 0, width, height))
    return image


def near(pixel: Any, colour: tuple[int, int, int]) -> bool:
    return bool(np.abs(np.array(pixel[:3]) - colour).max() < 25)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "BMP", "WEBP", "TIFF"])
def test_pictures_of_every_kind_become_small_ones(kind: str, tmp_path: Path) -> None:
    halves(1200, 800).save(tmp_path / "p", kind)
    made = thumbnail_of(tmp_path / "p", 16_000)
    small = decoded(made)
    assert (made["width"], made["height"]) == (96, 64)
    assert small.size == (192, 128)
    assert near(small.getpixel((20, 60)), RED)
    assert near(small.getpixel((170, 60)), BLUE)


def test_a_picture_in_a_uri_is_the_same_as_in_a_file(tmp_path: Path) -> None:
    halves().save(tmp_path / "p.png")
    text = base64.b64encode((tmp_path / "p.png").read_bytes()).decode()
    assert thumbnail_of(FromUri(f"data:image/png;base64,{text}"), 9000) == thumbnail_of(tmp_path / "p.png", 9000)


def test_small_pictures_keep_every_pixel() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, size=(8, 8)).astype(np.uint8)
    made = thumbnail_of(pixels, 2000)
    assert (made["width"], made["height"]) == (96, 96)
    np.testing.assert_array_equal(np.asarray(decoded(made)), pixels)


def test_noise_is_made_to_fit(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 256, size=(600, 600, 3)).astype(np.uint8)
    for most in (30_000, 9000, 4000, 2000):
        assert most / 8 < len(thumbnail_of(noise.copy(), most)["uri"]) <= most


def test_only_pixels_are_kept_and_the_right_way_up(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by a quarter
    exif[0x010F] = "SECRET-CAMERA"
    exif.get_ifd(0x8825)[1] = "N"
    halves(300, 200).save(tmp_path / "p.jpg", exif=exif, comment=b"SECRET-COMMENT", icc_profile=b"SECRET" * 100)
    small = decoded(thumbnail_of(tmp_path / "p.jpg", 16_000))
    assert small.size == (128, 192)
    assert near(small.getpixel((64, 20)), RED)  # left has become the top
    assert near(small.getpixel((64, 170)), BLUE)
    assert not small.getexif()
    assert not {"exif", "comment", "icc_profile"} & set(small.info)


def test_transparency_and_many_bits(tmp_path: Path) -> None:
    clear = Image.new("RGBA", (100, 100), (0, 0, 0, 0))
    clear.paste((0, 200, 0, 255), (50, 0, 100, 100))
    clear.save(tmp_path / "a.png")
    small = decoded(thumbnail_of(tmp_path / "a.png", 9000))
    assert near(small.getpixel((10, 50)), (255, 255, 255))
    assert near(small.getpixel((90, 50)), (0, 200, 0))
    deep = np.linspace(1000, 3000, 100 * 100).reshape(100, 100).astype(np.uint16)
    Image.fromarray(deep).save(tmp_path / "b.png")
    grey = np.asarray(decoded(thumbnail_of(tmp_path / "b.png", 9000)).convert("L")).astype(int)
    assert grey[:10].mean() < 30 < 225 < grey[-10:].mean()


def png_that_says(width: int, height: int) -> bytes:
    """The beginning of a PNG of this size, and hardly anything after it."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    size = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rest = chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", size) + rest


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"not a picture", "is not PNG, JPEG, GIF, BMP, WEBP or TIFF"),
        (b"", "is not PNG"),
        (b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>', "is not PNG"),
        (png_that_says(9000, 9000), "has 9,000 x 9,000 pixels, more than 67,108,864"),
        (png_that_says(200_000, 200_000), "has more than 67,108,864 pixels"),
        (png_that_says(300, 300), "cannot be read"),
    ],
)
def test_what_is_no_picture_is_refused(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "p.png").write_bytes(content)
    sources: list[Source] = [tmp_path / "p.png", FromUri("data:image/png;base64," + base64.b64encode(content).decode())]
    for source in sources:
        with pytest.raises(PictureError, match=message):
            thumbnail_of(source, 9000)


def test_files_that_are_none_or_too_large_are_refused(tmp_path: Path) -> None:
    with pytest.raises(PictureError, match="is no file"):
        thumbnail_of(tmp_path, 9000)
    with (tmp_path / "large.png").open("wb") as file:
        file.truncate(MAX_PICTURE_BYTES + 1)
    with pytest.raises(PictureError, match="has more than 64 MB"):
        thumbnail_of(tmp_path / "large.png", 9000)
    for uri in ("data:image/png,%89PNG", "data:image/png;base64"):
        with pytest.raises(PictureError):
            thumbnail_of(FromUri(uri), 9000)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP", "TIFF", "BMP"])
def test_damaged_pictures_are_shown_or_refused(kind: str) -> None:
    """Whatever happens to a file, it is a picture or a PictureError."""
    whole = io.BytesIO()
    halves(60, 40).save(whole, kind)
    rng = np.random.default_rng(0)
    for _ in range(60):
        broken = np.frombuffer(whole.getvalue(), np.uint8).copy()
        places = rng.integers(len(broken), size=rng.integers(1, 9))
        broken[places] = rng.integers(256, size=len(places))
        text = base64.b64encode(broken[: rng.integers(1, len(broken) + 1)].tobytes()).decode()
        try:
            made = thumbnail_of(FromUri(f"data:image/x;base64,{text}"), 9000)
        except PictureError:
            continue
        decoded(made).load()


def bars(n: int = 60, side: int = 16) -> np.ndarray[Any, Any]:
    """Pictures of soft spots, in [0, 1]."""
    rng = np.random.default_rng(1)
    y, x = np.mgrid[:side, :side]
    at = rng.uniform(0, side, size=(n, 2, 1, 1))
    return np.asarray(np.exp(-((x - at[:, 0]) ** 2 + (y - at[:, 1]) ** 2) / 12))


@pytest.mark.parametrize(
    ("shape", "pixels"),
    [((256,), (16, 16)), ((16, 16), (16, 16)), ((16, 16, 1), (16, 16, 3)), ((1, 16, 16), (16, 16, 3))],
)
def test_arrays_of_pictures_are_drawn(shape: tuple[int, ...], pixels: tuple[int, ...]) -> None:
    values = bars()
    found = drawing_of(values.reshape(60, *shape))
    assert found is not None
    drawn = found.draw(values[3].reshape(shape))
    assert drawn.shape == pixels
    wanted = (255 * (values[3] - values.min()) / (values.max() - values.min())).round()
    np.testing.assert_array_equal(drawn if drawn.ndim == 2 else drawn[:, :, 0], wanted)


def test_colours_are_drawn_from_both_ends() -> None:
    values = np.stack([bars(), 0.5 * bars(), 0 * bars()], axis=-1)
    last, first = drawing_of(values), drawing_of(np.moveaxis(values, -1, 1))
    assert last is not None
    assert first is not None
    np.testing.assert_array_equal(last.draw(values[0]), first.draw(np.moveaxis(values[0], -1, 0)))
    eight_bits = (200 * values).astype(np.uint8)
    found = drawing_of(eight_bits)
    assert found is not None
    np.testing.assert_array_equal(found.draw(eight_bits[0]), eight_bits[0])  # and not stretched


def series(n: int, length: int) -> np.ndarray[Any, Any]:
    return np.cumsum(np.random.default_rng(2).normal(size=(n, length)), axis=1)


@pytest.mark.parametrize(
    "values",
    [
        np.random.default_rng(0).normal(size=(100, 64)),  # an embedding
        np.maximum(np.random.default_rng(0).normal(size=(100, 256)), 0),
        np.random.default_rng(0).normal(size=(100, 64)) + np.random.default_rng(1).normal(size=(100, 1)),
        series(100, 64),
        series(100, 784),
        np.sort(np.abs(np.random.default_rng(0).normal(size=(100, 64))), axis=1),
        np.random.default_rng(0).normal(size=(100, 20, 13)),  # sequences of features
        np.zeros((100, 64)),
        bars(10).reshape(10, 256),  # too few to tell
        bars().reshape(60, 256)[:, :250],
        bars(60, 4),
    ],
)
def test_other_features_are_not(values: np.ndarray[Any, Any]) -> None:
    assert drawing_of(values) is None
