"""Long tables (one row per frame) to sequences, by duck typing: pandas, polars, pyarrow or a dictionary."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


class Table(NamedTuple):
    """The frames of a table, sorted by sequence."""

    X: FloatArray  #: (rows, d)
    lengths: IntArray  #: (n,)
    ids: list[Any]  #: names of the sequences, in order of first appearance
    groups: list[Any] | None  #: one value per sequence


def read_table(
    frame: Any, id_column: str | list[str], time: str | None, values: Iterable[str], group: str | None
) -> Table:
    """Return the sequences of a table; `Sequences.from_table` documents the arguments."""
    columns = [values] if isinstance(values, str) else list(values)
    if not columns:
        raise ValueError("values names no column; list the columns that hold the frame's values.")
    names, label = _names(frame, id_column)
    codes, ids = _factorise(names, label)
    X = np.column_stack([_numbers(frame, name) for name in columns])
    order = np.argsort(codes, kind="stable") if time is None else _time_order(frame, time, codes, ids)
    groups = None if group is None else _groups(column(frame, group), codes, ids, group)
    return Table(X[order], np.bincount(codes).astype(np.int64), ids, groups)


def _names(frame: Any, id_column: str | list[str]) -> tuple[npt.NDArray[Any], str]:
    """Return what names the sequence of each row: a column, or several of them joined by " / "."""
    if isinstance(id_column, str):
        return column(frame, id_column), id_column
    parts = [column(frame, name) for name in id_column]
    for name, part in zip(id_column, parts, strict=True):
        _refuse_missing(part, name)
    joined = [" / ".join(map(str, row)) for row in zip(*parts, strict=True)]
    return np.array(joined, dtype=object), " / ".join(id_column)


def column(frame: Any, name: str) -> npt.NDArray[Any]:
    """Return a column of any kind of table."""
    names = _column_names(frame)
    if name not in names:
        raise ValueError(f"the table has no column {name!r}; it has {', '.join(map(repr, names))}.")
    return np.asarray(frame[name])


def _column_names(frame: Any) -> list[Any]:
    # In this order: pyarrow's `columns` are the columns themselves, and its names are `column_names`.
    for attribute in ("column_names", "columns"):
        if hasattr(frame, attribute):
            return list(getattr(frame, attribute))
    if hasattr(frame, "keys"):
        return list(frame.keys())
    raise TypeError(f"frame must be a table with named columns, got {type(frame).__name__}.")


def _numbers(frame: Any, name: str) -> FloatArray:
    raw = column(frame, name)
    if raw.dtype.kind not in "fiubO":
        raise TypeError(f"column {name!r} holds {raw.dtype} values; columns of values must be numbers.")
    try:
        # Straight from the table: pandas turns its own missing value into NaN only when asked for floats.
        return np.asarray(frame[name], dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"column {name!r} cannot be read as numbers: {error}.") from None


def _missing(values: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Return where NaN, NaT, None or pandas' NA stands."""
    if values.dtype.kind in "fmM":
        return np.asarray(np.isnan(values))
    if values.dtype.kind != "O":
        return np.zeros(len(values), dtype=bool)
    flags = (v is None or type(v).__name__ in ("NAType", "NaTType") or v != v for v in values)  # noqa: PLR0124
    return np.fromiter(flags, dtype=bool, count=len(values))


def _refuse_missing(values: npt.NDArray[Any], name: str) -> None:
    missing = _missing(values)
    if missing.any():
        raise ValueError(f"column {name!r} is empty in row {int(np.argmax(missing))}; fill it or drop the row.")


def _factorise(values: npt.NDArray[Any], name: str) -> tuple[IntArray, list[Any]]:
    """Return a number per row and the distinct values, in order of first appearance."""
    if not len(values):
        raise ValueError("the table has no rows; at least one sequence is needed.")
    _refuse_missing(values, name)
    seen: dict[Any, int] = {}
    codes = np.fromiter((seen.setdefault(v, len(seen)) for v in values.tolist()), np.int64, len(values))
    return codes, list(seen)


def _time_order(frame: Any, name: str, codes: IntArray, ids: list[Any]) -> npt.NDArray[np.intp]:
    """Return the rows sorted by sequence, then by time."""
    times = column(frame, name)
    _refuse_missing(times, name)
    ranks = np.unique(times, return_inverse=True)[1]
    order = np.lexsort((ranks, codes))
    twice = (np.diff(codes[order]) == 0) & (np.diff(ranks[order]) == 0)
    if twice.any():
        row = order[int(np.argmax(twice))]
        raise ValueError(
            f"sequence {ids[codes[row]]!r} has two rows with {name} = {times[row]}. Drop one of them, or "
            "leave out time to keep the table's order."
        )
    return order


def _groups(values: npt.NDArray[Any], codes: IntArray, ids: list[Any], name: str) -> list[Any]:
    """Return each sequence's one value of the group column."""
    group_codes, groups = _factorise(values, name)
    first = np.unique(codes, return_index=True)[1]
    differs = group_codes != group_codes[first][codes]
    if differs.any():
        row = int(np.argmax(differs))
        one, other = groups[group_codes[first][codes[row]]], groups[group_codes[row]]
        raise ValueError(f"sequence {ids[codes[row]]!r} has {name} = {one!r} and {other!r}; a sequence has one group.")
    return [groups[g] for g in group_codes[first]]
