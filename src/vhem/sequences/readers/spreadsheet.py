"""Sheets of xls, xlsx, xlsb and ods files as blocks of rows."""

from __future__ import annotations

import re
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from vhem._support.errors import InputError
from vhem._support.optional import how_to_install
from vhem.sequences.readers.blocks import Block, row_blocks
from vhem.sequences.readers.budget import Budget
from vhem.sequences.readers.rows import is_blank

_CELL_BYTES = 100  # of memory per cell of a sheet, empty ones too, roughly
_REFERENCE = re.compile(rb"""\br\s?=\s?["']([A-Z]{0,3})([0-9]{1,7})["']""")
_LONGEST_REFERENCE = 40  # in bytes
_CHUNK = 1 << 20
_DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError)


def spreadsheet_blocks(path: Path, sheet: str | int) -> Iterator[Block]:
    """Yield the rows of a sheet."""
    try:
        from python_calamine import CalamineError, CalamineWorkbook, WorksheetNotFound  # noqa: PLC0415  (an extra)
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            f"spreadsheets are read by python-calamine, which is not installed: {how_to_install('tables')}. "
            "Or save the sheet as csv."
        ) from None
    try:
        _check_size(path)
        book = CalamineWorkbook.from_path(str(path))
        opened = book.get_sheet_by_index(sheet) if isinstance(sheet, int) else book.get_sheet_by_name(sheet)
    except WorksheetNotFound:
        known = ", ".join(map(repr, book.sheet_names))
        raise InputError("{path} has no sheet {name!r}; it has {known}", path=path, name=sheet, known=known) from None
    except (CalamineError, *_DAMAGED) as fault:
        raise InputError("{path} cannot be read as a spreadsheet: {fault}", path=path, fault=fault) from None
    rows = iter(opened.to_python(skip_empty_area=False))
    for row in rows:
        yield Block(1, None, [row])
        if not is_blank(row):
            break
    yield from row_blocks(rows)


def _check_size(path: Path) -> None:
    """Refuse a zipped spreadsheet that unpacks to too much, or whose cells are too far apart for memory.

    The library allocates every cell up to the last row and column, and aborts the program if it cannot.
    """
    if not zipfile.is_zipfile(path):
        return
    budget = Budget(path)
    with zipfile.ZipFile(path) as book:
        for part in book.infolist():
            budget.spend(part.file_size)
            with book.open(part) as file:
                n_rows, n_columns = _extent(file)
            if not budget.allows(n_rows * n_columns * _CELL_BYTES):
                raise InputError(
                    "{path} is small, but has cells as far out as row {row:,} and column {column:,} ({part})",
                    "Delete what is not part of the table", "save the sheet as csv",
                    path=path, row=n_rows, column=n_columns, part=part.filename,
                )  # fmt: skip


def _extent(file: IO[bytes]) -> tuple[int, int]:
    """Return the last row and column that the cells of a sheet's XML refer to."""
    n_rows, columns, tail = 0, {b""}, b""
    while chunk := file.read(_CHUNK):
        found = _REFERENCE.findall(tail + chunk)
        n_rows = max([n_rows, *(int(row) for _, row in found)])
        columns |= {column for column, _ in found}
        tail = chunk[-_LONGEST_REFERENCE:]
    return n_rows, max(map(_column_number, columns))


def _column_number(letters: bytes) -> int:
    """Return the number of a column: A is 1, Z 26, AA 27."""
    n = 0
    for letter in letters:
        n = 26 * n + letter - ord("A") + 1
    return n
