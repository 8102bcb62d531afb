"""Cells of tables, text or values, to numbers, names and times. Errors say which cell."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "-", "."})
_DECIMAL_COMMA = re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?")
_PLAIN_INTEGER = re.compile(r"0|-?[1-9]\d*")


class CellError(ValueError):
    """A cell that cannot be read; `index` is its row within the cells given."""

    def __init__(self, index: int, message: str) -> None:
        super().__init__(message)
        self.index = index


def is_missing(cell: Any) -> bool:
    """Whether a cell says that there is no value."""
    if isinstance(cell, str):
        return cell.strip().lower() in MISSING
    return cell is None or (isinstance(cell, float) and math.isnan(cell))


def number(cell: Any, comma: bool) -> float:
    """Return the number in a cell, NaN where it is missing; with `comma`, decimals are written with one."""
    if is_missing(cell):
        return math.nan
    if not isinstance(cell, str):
        if isinstance(cell, (int, float)):
            return float(cell)
        raise ValueError(f"has the {type(cell).__name__} {cell}, not a number")
    text = cell.strip()
    if comma:
        if "." in text:
            raise ValueError(f"has {cell!r}, where other cells have decimal commas; write all numbers in one way")
        text = text.replace(",", ".")
    elif _DECIMAL_COMMA.fullmatch(text):
        raise ValueError(f"has {cell!r}; if that is a decimal comma, say decimal=','")
    if "_" in text:
        raise ValueError(f"has {cell!r}, which is no number")
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"has {cell!r}, which is no number; correct it, or leave the cell empty") from None


def numbers(cells: Sequence[Any], comma: bool) -> FloatArray:
    """Return the numbers in a column of cells."""
    found = _plain_numbers(cells)
    if found is None:
        found = np.empty(len(cells))
        for i, cell in enumerate(cells):
            try:
                found[i] = number(cell, comma)
            except ValueError as fault:
                raise CellError(i, str(fault)) from None
    infinite = np.isinf(found)
    if infinite.any():
        i = int(np.argmax(infinite))
        raise CellError(i, f"has {cells[i]!r}; values must be finite. Leave the cell empty if the value is missing")
    return found


def _plain_numbers(cells: Sequence[Any]) -> FloatArray | None:
    """Return the numbers where all cells are plain ones: the quick way, taken nearly always."""
    try:
        found = np.fromiter(map(float, cells), np.float64, len(cells))
        return None if "_" in "".join(cells) else found
    except (TypeError, ValueError):
        return None


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
        except ValueError:
            return False
        return True

    return 2 * sum(map(parses, present)) > len(present)


def name(cell: Any) -> Any:
    """Return what a cell of an id or group column says: text without spaces around it, or a value."""
    if isinstance(cell, str):
        return cell.strip()
    if isinstance(cell, float) and cell.is_integer():  # spreadsheets have no integers
        return int(cell)
    return cell.isoformat() if isinstance(cell, (datetime.datetime, datetime.date, datetime.time)) else cell


def tidy_names(names: list[Any]) -> list[Any]:
    """Return names as integers where all are written as such; "007" stays text."""
    if all(isinstance(n, str) and _PLAIN_INTEGER.fullmatch(n) for n in names):
        return [int(n) for n in names]
    return names


def times(cells: Sequence[Any], comma: bool) -> npt.NDArray[Any]:
    """Return times: numbers, or dates in ISO form (2024-05-31 14:02:11.5)."""
    try:
        found: npt.NDArray[Any] = numbers(cells, comma)
    except CellError:
        found = np.array([_checked_date(i, cell) for i, cell in enumerate(cells)], dtype="datetime64[us]")
    missing = np.isnan(found) if found.dtype.kind == "f" else np.isnat(found)
    if missing.any():
        cure = "give every row its time, or leave out time to keep the table's order"
        raise CellError(int(np.argmax(missing)), f"is empty; {cure}")
    return found


def _checked_date(i: int, cell: Any) -> Any:
    try:
        return None if is_missing(cell) else _date(cell)
    except ValueError:
        raise CellError(
            i,
            f"has {cell!r}, neither a number nor a date like 2024-05-31 14:02:11; rewrite it, or leave out time to "
            "keep the table's order",
        ) from None


def _date(cell: Any) -> Any:
    if isinstance(cell, str):
        return datetime.datetime.fromisoformat(cell.strip()).replace(tzinfo=None)
    if isinstance(cell, (datetime.datetime, datetime.date)):
        return cell
    raise ValueError(f"{cell!r} is no date")
