"""Cells of tables, text or values, to numbers and names. Errors say which cell."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from vhem._support.arrays import FloatArray
from vhem._support.errors import CellError

LARGEST = 1e150  #: values whose squares, and sums of many squares, are still doubles
_MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "-", "."})
_DECIMAL_COMMA = re.compile(r"[+-]?[0-9]*,[0-9]+([eE][+-]?[0-9]+)?")
_PLAIN_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,17}")  # in the range of 64 bits
_MOST_CATEGORIES = 50  # of a column that is taken for one of categories
_SHOWN = 40  # characters of a cell in a message


class BadCellError(ValueError):
    """A cell that cannot be read: its row among the cells given, and what is wrong with it."""

    def __init__(self, index: int, error: CellError) -> None:
        super().__init__(str(error))
        self.index, self.error = index, error


def quoted(cell: Any) -> str:
    """Return a cell as messages show it."""
    text = repr(cell)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… ({len(text)} characters)"


def is_missing(cell: Any) -> bool:
    """Whether a cell says that there is no value."""
    if isinstance(cell, str):
        return cell.strip().lower() in _MISSING
    return cell is None or type(cell).__name__ in ("NAType", "NaTType") or bool(cell != cell)  # noqa: PLR0124  (NaN)


def number(cell: Any, comma: bool) -> float:
    """Return the number in a cell, NaN if it is missing; with `comma`, decimals are written with a comma."""
    if is_missing(cell):
        return math.nan
    if not isinstance(cell, str):
        if isinstance(cell, (int, float)):
            return float(cell) if abs(cell) <= LARGEST else math.copysign(math.inf, cell)  # integers may be too large
        raise CellError("has the {kind} {value}, not a number", value=cell, kind=type(cell).__name__)
    text = cell.strip()
    if comma and "." in text:
        problem = "has {shown}, with a point, where other decimals have commas"
        raise CellError(problem, "write all numbers in the same way", value=cell, shown=quoted(cell))
    if comma:
        text = text.replace(",", ".")
    elif _DECIMAL_COMMA.fullmatch(text):
        cure = "if that is a decimal comma, give {decimal:','}"
        raise CellError("has {shown}", cure, value=cell, shown=quoted(cell))
    try:
        if "_" in text or not text.isascii():  # float() takes 1_000 and the digits of all scripts
            raise ValueError
        return float(text)
    except ValueError:
        cures = ("correct it, or leave the cell empty", "give the column as {categories} if it holds categories")
        raise CellError("has {shown}, which is not a number", *cures, value=cell, shown=quoted(cell)) from None


def numbers(cells: Sequence[Any], comma: bool) -> FloatArray:
    """Return the numbers in a column of cells."""
    found = _plain_numbers(cells, comma)
    if found is None:
        found = np.empty(len(cells))
        for i, cell in enumerate(cells):
            try:
                found[i] = number(cell, comma)
            except CellError as fault:
                raise BadCellError(i, fault) from None
    too_large = np.abs(found) > LARGEST
    if too_large.any():
        i = int(np.argmax(too_large))
        problem = "has {shown}; values must be finite and below {largest:g}"
        cure = "Leave the cell empty if the value is missing, or rescale the column"
        raise BadCellError(i, CellError(problem, cure, value=cells[i], shown=quoted(cells[i]), largest=LARGEST))
    return found


def _plain_numbers(cells: Sequence[Any], comma: bool) -> FloatArray | None:
    """Return the numbers if all cells are plain numbers: the fast path, taken nearly always."""
    try:
        found = np.fromiter(map(float, cells), np.float64, len(cells))
        text = "".join(cells)
    except (TypeError, ValueError, OverflowError):
        return None
    return found if text.isascii() and "_" not in text and not (comma and "." in text) else None


def has_decimal_commas(cells: Sequence[Any]) -> bool:
    """Whether numbers among the cells are written with decimal commas."""
    return any(isinstance(cell, str) and _DECIMAL_COMMA.fullmatch(cell.strip()) for cell in cells)


def looks_numeric(cells: Sequence[Any]) -> bool:
    """Whether most cells that are not missing are numbers, with commas or points."""
    present = [cell for cell in cells if not is_missing(cell)]
    if not present:
        return True

    def parses(cell: Any) -> bool:
        try:
            number(cell, comma=isinstance(cell, str) and _DECIMAL_COMMA.fullmatch(cell.strip()) is not None)
        except CellError:
            return False
        return True

    return 2 * sum(map(parses, present)) > len(present)


def looks_categorical(cells: Sequence[Any]) -> bool:
    """Whether cells can be nothing but categories: text, never a number, of which each is often met again."""
    present = [cell for cell in cells if not is_missing(cell)]
    distinct = {cell if isinstance(cell, str) else 0 for cell in present}
    if not present or 0 in distinct or len(distinct) > _MOST_CATEGORIES or 2 * len(distinct) > len(present):
        return False
    return not any(looks_numeric([cell]) for cell in distinct)


def name(cell: Any) -> str:
    """Return the name in a cell of ids, groups or categories: 1, 1.0 and "1" in a spreadsheet are the same name."""
    if isinstance(cell, float) and cell.is_integer():  # spreadsheets have no integers
        return str(int(cell))
    if isinstance(cell, (datetime.datetime, datetime.date, datetime.time)):
        return cell.isoformat()
    return str(cell).strip()


def tidy_names(names: list[str]) -> list[Any]:
    """Return names as integers if all are written as such; "007" stays text, and so do other scripts' digits."""
    return [int(n) for n in names] if all(map(_PLAIN_INTEGER.fullmatch, names)) else list(names)
