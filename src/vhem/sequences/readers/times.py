"""Columns of times: numbers, or dates in ISO form (2024-05-31 14:02:11.5), with time zones or without."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from vhem._support.errors import CellError
from vhem.sequences.readers.cells import BadCellError, is_missing, numbers, quoted

_KEEP = "leave out {time} to keep the order of the rows"
_EMPTY = ("give every row its time", _KEEP)


class Times(NamedTuple):
    """Times that can be compared with each other."""

    values: npt.NDArray[Any]  #: (rows,) numbers, or datetime64; those with zones in UTC
    kind: str  #: "numbers", "dates without time zones" or "dates with time zones"


def times(cells: Sequence[Any], comma: bool) -> Times:
    """Return the times in a column of cells; every row must have one.

    Examples
    --------
    >>> times(["2024-10-27 02:30+02:00", "2024-10-27 02:10+01:00"], comma=False).values.astype("M8[m]").tolist()
    [datetime.datetime(2024, 10, 27, 0, 30), datetime.datetime(2024, 10, 27, 1, 10)]
    """
    try:
        found = numbers(cells, comma)
    except BadCellError:
        return _dates(cells)
    if np.isnan(found).any():
        i = int(np.argmax(np.isnan(found)))
        raise BadCellError(i, CellError("is empty", *_EMPTY, value=cells[i]))
    return Times(found, "numbers")


def _dates(cells: Sequence[Any]) -> Times:
    found = [_date(i, cell) for i, cell in enumerate(cells)]
    zoned = [date.tzinfo is not None for date in found]
    if zoned[0] and all(zoned):  # rows on both sides of a clock change sort by instant
        found = [date.astimezone(datetime.UTC).replace(tzinfo=None) for date in found]
    elif any(zoned):
        i = zoned.index(not zoned[0])
        problem = "has {value!r}, {here} a time zone, but other rows are {there}"
        here, there = ("with", "without") if zoned[i] else ("without", "with")
        raise BadCellError(i, CellError(problem, "use one format", value=cells[i], here=here, there=there))
    kind = "dates with time zones" if zoned[0] else "dates without time zones"
    return Times(np.array(found, dtype="datetime64[us]"), kind)


def _date(i: int, cell: Any) -> datetime.datetime:
    try:
        if isinstance(cell, str) and cell.isascii():
            return datetime.datetime.fromisoformat(cell.strip())
        if isinstance(cell, datetime.datetime):
            return cell
        if isinstance(cell, datetime.date):
            return datetime.datetime.combine(cell, datetime.time())
    except ValueError:
        pass
    if is_missing(cell):
        raise BadCellError(i, CellError("is empty", *_EMPTY, value=cell))
    problem = "has {shown}, neither a number nor a date like 2024-05-31 14:02:11"
    raise BadCellError(i, CellError(problem, "rewrite it", _KEEP, value=cell, shown=quoted(cell)))
