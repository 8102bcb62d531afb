"""The container of model files: a JSON header and aligned arrays, all under checksums.

::

    byte  0   8   magic: 89 "VHEM" 0D 0A 1A (a transfer in text mode changes it, which is detected)
          8   4   version of the format, 4 zero bytes
         16   8   length of the header
         24   8   length of the whole file
         32  16   digest of the header
         48  16   digest of bytes 0 to 47; up to here, all versions are the same
         64       header: JSON, padded with spaces to a multiple of 64 bytes
                  table: one digest of 16 bytes for every block of the data, padded to a multiple of 64 bytes
                  data: arrays, little-endian and C-ordered, each at a multiple of 64 bytes

Numbers are little-endian, digests are BLAKE2b. The data are cut into blocks of 64 KiB, so that some rows of a large
array can be read, and what was read verified, without touching the rest. Files are read by position, not mapped into
memory: it costs the same, what was verified is what is used, and a file that is truncated while it is read is an error
rather than a crash. Arrays do not overlap, so all of them together are never larger than the file.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from vhem._support.errors import InputError, InputTypeError
from vhem._support.paths import existing_file
from vhem.files.atomic import atomic_write

MAGIC = b"\x89VHEM\r\n\x1a"
VERSION = 1
BLOCK = 1 << 16
_PRELUDE = 64
_ALIGN = 64
_DIGEST = 16
_NUMBERS = struct.Struct("<8sIIQQ")
_DTYPES = ("<f8", "<f4", "<i8", "<i4", "|u1", "|b1")

_FOREIGN = {
    b"PK\x03\x04": "a zip archive, such as npz or xlsx: vhem.files.from_npz reads models, read_sequences sequences",
    b"\x89HDF": "HDF5, like MATLAB's v7.3 files: vhem.from_emhmm reads .mat files saved with -v7",
    b"MATLAB": "a MATLAB file: read models of the EMHMM toolbox with vhem.from_emhmm",
    b"\x80": "a pickle, which may run any code and is never loaded: save the model with its save method",
    b"{": "JSON: read it with vhem.files.from_json",
}


class ModelFileError(ValueError):
    """A model file cannot be read; `reason` is "truncated", "corrupted", "foreign" or "newer"."""

    def __init__(self, path: str | Path, reason: str, message: str) -> None:
        super().__init__(f"{path} {message}")
        self.reason = reason


class ArrayEntry(NamedTuple):
    """The position of an array."""

    dtype: str
    shape: tuple[int, ...]
    offset: int  #: from the beginning of the data

    @property
    def row_bytes(self) -> int:
        """Bytes of one row, along the first axis."""
        return math.prod(self.shape[1:]) * np.dtype(self.dtype).itemsize

    @property
    def n_bytes(self) -> int:
        """Bytes of the whole."""
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize


def write(path: str | Path, header: dict[str, Any], arrays: Sequence[npt.NDArray[Any]]) -> None:
    """Write a header (anything that JSON can hold) and arrays; an older file at `path` is replaced at the very end."""
    stored = [_storable(array) for array in arrays]
    entries, end = [], 0
    for array in stored:
        entries.append([array.dtype.str, list(array.shape), end])
        end = _aligned(end + array.nbytes)
    table = b"".join(digest(block) for block in _blocks(stored))
    table += bytes(_aligned(len(table)) - len(table))
    whole = {**header, "arrays": entries, "data_bytes": end, "table_digest": digest(table).hex()}
    text = json.dumps(whole, ensure_ascii=False, allow_nan=False).encode()
    text += b" " * (_aligned(len(text)) - len(text))
    size = _PRELUDE + len(text) + len(table) + end
    prelude = _NUMBERS.pack(MAGIC, VERSION, 0, len(text), size) + digest(text)
    with atomic_write(path) as file:
        file.write(prelude + digest(prelude) + text + table)
        for block in _blocks(stored):
            file.write(block)


def digest(data: bytes | memoryview) -> bytes:
    """Return a checksum of 16 bytes."""
    return hashlib.blake2b(data, digest_size=_DIGEST).digest()


def _aligned(n: int) -> int:
    return -(-n // _ALIGN) * _ALIGN


def _storable(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the array as it is stored: C-ordered, little-endian."""
    little = np.ascontiguousarray(array).reshape(array.shape)  # a number stays an array without axes
    little = little.astype(little.dtype.newbyteorder("<"), copy=False)
    if little.dtype.str not in _DTYPES:
        raise InputTypeError(
            "arrays of {dtype} cannot be kept in a model file", "use one of {names}",
            dtype=array.dtype, names=", ".join(_DTYPES),
        )  # fmt: skip
    return little


def _blocks(arrays: Sequence[npt.NDArray[Any]]) -> Iterator[bytes]:
    """Yield the data, arrays one after another at aligned positions, in blocks."""
    pending = bytearray()
    for array in arrays:
        raw = array.reshape(-1).view(np.uint8).data
        for begin in range(0, len(raw), BLOCK):
            pending += raw[begin : begin + BLOCK]
            while len(pending) >= BLOCK:
                yield bytes(pending[:BLOCK])
                del pending[:BLOCK]
        pending += bytes(_aligned(len(raw)) - len(raw))
    while pending:
        yield bytes(pending[:BLOCK])
        del pending[:BLOCK]


class Container:
    """A model file open for reading; everything is verified before it is used.

    Parameters
    ----------
    path : str or Path
        The file.

    Attributes
    ----------
    header : dict
        What was given to `write`.
    entries : list of ArrayEntry
        Kind and shape of the arrays.
    n_bytes : int
        Size of the file.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = existing_file(path)
        self._last_block: tuple[tuple[int, int], memoryview] = (-1, -1), memoryview(b"")
        self._file = open(self.path, "rb")  # noqa: SIM115  (closed by the context manager)
        try:
            self.n_bytes = os.fstat(self._file.fileno()).st_size
            text = self._read_header()
            self.header: dict[str, Any] = self._parsed(text)
            entries = self.header.pop("arrays", None)
            self.entries = [self._entry(entry) for entry in entries] if isinstance(entries, list) else []
            self._table = self._read_table(_PRELUDE + len(text))
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Container:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def error(self, reason: str, message: str) -> ModelFileError:
        """Return an error about this file."""
        return ModelFileError(self.path, reason, message)

    def read(self, k: int, rows: npt.NDArray[np.intp] | None = None) -> npt.NDArray[Any]:
        """Return array k, or some of its rows; only the blocks that hold them are read."""
        entry = self.entries[k]
        if rows is None or not entry.n_bytes:
            raw = self._verified(entry.offset, entry.offset + entry.n_bytes)
            whole = np.frombuffer(raw, entry.dtype).reshape(entry.shape)
            if rows is not None:
                return whole[rows]
            return self._checked(whole if whole.nbytes > BLOCK else whole.copy())  # a block must not outlive its use
        out = np.empty((len(rows), *entry.shape[1:]), entry.dtype)
        begins = entry.offset + np.asarray(rows, dtype=np.int64) * entry.row_bytes
        order = np.argsort(begins, kind="stable")
        for run in np.split(order, np.flatnonzero(np.diff(begins[order]) > entry.row_bytes + BLOCK) + 1):
            first = int(begins[run[0]])
            raw = self._verified(first, int(begins[run[-1]]) + entry.row_bytes)
            stretch = np.frombuffer(raw, entry.dtype).reshape(-1, *entry.shape[1:])
            out[run] = stretch[(begins[run] - first) // entry.row_bytes]
        return self._checked(out)

    def _checked(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        if array.dtype == bool and array.view(np.uint8).max(initial=0) > 1:
            raise self.error("corrupted", "is corrupted: a boolean is neither 0 nor 1.")
        return array

    def _verified(self, begin: int, end: int) -> memoryview:
        """Return bytes of the data, after verifying all blocks that contain them."""
        first, last = begin // BLOCK, -(-end // BLOCK)
        if (first, last) == self._last_block[0]:
            return self._last_block[1][begin - first * BLOCK : end - first * BLOCK]
        stop = min(last * BLOCK, self._data_bytes)
        raw = self._exactly(self._data_start + first * BLOCK, stop - first * BLOCK)
        for block in range(first, last):
            place = (block - first) * BLOCK
            if digest(raw[place : place + BLOCK]) != self._table[block * _DIGEST : (block + 1) * _DIGEST]:
                at = self._data_start + block * BLOCK
                raise self.error("corrupted", f"is corrupted: the checksum of the block at byte {at} is wrong.")
        if last - first == 1:  # small arrays lie side by side
            self._last_block = (first, last), raw
        return raw[begin - first * BLOCK : end - first * BLOCK]

    def _exactly(self, place: int, size: int) -> memoryview:
        raw = bytearray(size)  # arrays made of it can be written to
        self._file.seek(place)
        found = self._file.readinto(raw)
        if found != size:
            raise self.error("truncated", f"was truncated while it was read: {size} bytes expected, {found} found.")
        return memoryview(raw)

    def _read_header(self) -> bytes:
        start = self._file.read(_PRELUDE)
        if start[: len(MAGIC)] != MAGIC[: len(start)] or not start:
            raise self.error("foreign", _described(start))
        if len(start) < _PRELUDE:
            raise self.error("truncated", f"is truncated: {len(start)} bytes are fewer than the beginning of a model.")
        if digest(start[:48]) != start[48:]:
            raise self.error("corrupted", "is corrupted: the checksum of its first 64 bytes is wrong.")
        _, version, _, length, size = _NUMBERS.unpack(start[:32])
        if version > VERSION:
            raise self.error(
                "newer", f"has format {version}, made by a newer vhem; this one reads up to {VERSION}. Update vhem."
            )
        if self.n_bytes < size:
            raise self.error("truncated", f"is truncated: {self.n_bytes} of {size} bytes are present. Copy it again.")
        if self.n_bytes > size:
            raise self.error("corrupted", f"is corrupted: {self.n_bytes - size} extra bytes follow its end.")
        text = bytes(self._exactly(_PRELUDE, min(length, size)))
        if digest(text) != start[32:48]:
            raise self.error("corrupted", "is corrupted: the checksum of its header is wrong.")
        return text

    def _parsed(self, text: bytes) -> dict[str, Any]:
        try:
            header = json.loads(text, parse_constant=_refuse)
        except (ValueError, RecursionError) as fault:
            raise self.error("corrupted", f"is corrupted: its header is not JSON ({fault}).") from None
        if not isinstance(header, dict):
            raise self.error("corrupted", "is corrupted: its header is not a JSON object.")
        return header

    def _entry(self, entry: Any) -> ArrayEntry:
        match entry:
            case [str(dtype), list(shape), int(offset)] if dtype in _DTYPES and len(shape) <= 8 and not offset % _ALIGN:
                if all(type(n) is int and 0 <= n <= self.n_bytes for n in (*shape, offset)):
                    return ArrayEntry(dtype, tuple(shape), offset)
        raise self.error("corrupted", f"is corrupted: {str(entry)[:80]!r} does not describe an array in this file.")

    def _check_places(self, data_bytes: int) -> None:
        """Refuse arrays that overlap: a small file could then ask for any amount of memory."""
        end = 0
        for entry in sorted(self.entries, key=lambda entry: (entry.offset, entry.n_bytes)):
            if entry.offset < end or entry.offset + entry.n_bytes > data_bytes:
                raise self.error("corrupted", "is corrupted: its arrays overlap, or lie outside its data.")
            end = entry.offset + entry.n_bytes

    def _read_table(self, place: int) -> bytes:
        data_bytes = self.header.pop("data_bytes", None)
        if type(data_bytes) is not int or not 0 <= data_bytes <= self.n_bytes:
            raise self.error("corrupted", f"is corrupted: its data cannot have {str(data_bytes)[:80]} bytes.")
        table_bytes = _aligned(-(-data_bytes // BLOCK) * _DIGEST)
        self._data_bytes, self._data_start = data_bytes, place + table_bytes
        if self._data_start + data_bytes != self.n_bytes:
            raise self.error("corrupted", "is corrupted: header, table and data do not make up the file.")
        self._check_places(data_bytes)
        table = self._exactly(place, table_bytes)
        if digest(table).hex() != self.header.pop("table_digest", None):
            raise self.error("corrupted", "is corrupted: the checksum of its table of checksums is wrong.")
        return bytes(table)


def _refuse(constant: str) -> None:
    raise InputError("{constant} is not a JSON number", constant=constant)


def _described(start: bytes) -> str:
    """Return what a file that does not begin like a model might be."""
    if not start:
        return "is empty."
    if start[1:5] == MAGIC[1:5]:
        return "is a model that was changed in transfer, probably in text mode. Copy it in binary mode."
    for magic, what in _FOREIGN.items():
        if start.startswith(magic):
            return f"is not a vhem model but {what}."
    return "is not a vhem model: it does not begin like one. vhem.load reads what save() wrote."
