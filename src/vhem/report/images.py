"""Background images as data URLs: files unchanged, arrays as PNG."""

from __future__ import annotations

import base64
import struct
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from vhem._support.errors import InputError
from vhem._support.paths import existing_file


class Image(NamedTuple):
    """An image ready to be embedded in a page."""

    href: str
    width: int
    height: int


def embedded(image: str | Path | npt.ArrayLike) -> Image:
    """Return an image file (PNG or JPEG), or an array of gray levels or colours, as a data URL with its size.

    Examples
    --------
    >>> embedded(np.zeros((3, 5), dtype=np.uint8))[1:]
    (5, 3)
    """
    if isinstance(image, str | Path):
        data = existing_file(image).read_bytes()
        kind, width, height = _kind_and_size(data, str(image))
    else:
        pixels = _pixels(np.asarray(image))
        kind, data, (height, width) = "png", png(pixels), pixels.shape[:2]
    return Image(f"data:image/{kind};base64,{base64.b64encode(data).decode()}", width, height)


def _pixels(array: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """Return the array as bytes; floats from 0 to 1 are scaled as in matplotlib."""
    if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[2] not in (3, 4)) or 0 in array.shape:
        raise InputError(
            "{image} must be (height, width) or (height, width, 3 or 4), got shape {shape}",
            shape=array.shape,
        )  # fmt: skip
    if np.issubdtype(array.dtype, np.floating):
        array = 255 * array if np.nanmax(array) <= 1 else array
    return np.asarray(np.clip(np.nan_to_num(array), 0, 255).round(), dtype=np.uint8)


def png(pixels: npt.NDArray[np.uint8]) -> bytes:
    """Return a PNG file of gray levels, (height, width), or colours, (height, width, 3 or 4)."""
    height, width = pixels.shape[:2]
    color_type = {2: 0, 3: 2, 4: 6}[2 if pixels.ndim == 2 else pixels.shape[2]]
    rows = np.hstack([np.zeros((height, 1), dtype=np.uint8), pixels.reshape(height, -1)])  # filter 0 before each row

    def chunk(name: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    header = struct.pack(">IIBBBBB", width, height, 8, color_type, 0, 0, 0)
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows.tobytes(), 9)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


def _kind_and_size(data: bytes, name: str) -> tuple[str, int, int]:
    if data[:8] == b"\x89PNG\r\n\x1a\n":
        width, height = struct.unpack(">II", data[16:24])
        return "png", width, height
    if data[:2] == b"\xff\xd8":
        return ("jpeg", *_jpeg_size(data, name))
    raise InputError("{name} is neither a PNG nor a JPEG image", "convert it to one of these", name=name)


def _jpeg_size(data: bytes, name: str) -> tuple[int, int]:
    """Return width and height from the first frame header."""
    place = 2
    while place + 9 < len(data):
        marker, length = data[place + 1], struct.unpack(">H", data[place + 2 : place + 4])[0]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", data[place + 5 : place + 9])
            return width, height
        place += 2 + length
    raise InputError("{name} is not a complete JPEG image", name=name)
