"""Long tables (one row per frame) to sequences, by duck typing: pandas, polars, pyarrow or a dictionary."""

from __future__ import annotations

from collections.abc import Callable, Iterable
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


class Coded(NamedTuple):
    """A column of names: a number per row, and what each number stands for, in order of first appearance."""

    codes: IntArray  #: (rows,)
    names: list[Any]


Place = Callable[[int], str]


def read_table(
    frame: Any, id_column: str | list[str], time: str | None, values: Iterable[str], group: str | None
) -> Table:
    """Return the sequences of a table; `Sequences.from_table` documents the arguments."""
    columns = [values] if isinstance(values, str) else list(values)
    if not columns:
        raise ValueError("values names no column; list the columns that hold the frame's values.")
    id_columns = [id_column] if isinstance(id_column, str) else list(id_column)
    ids = joined([_factorise(column(frame, name), name) for name in id_columns])
    X = np.column_stack([_numbers(frame, name) for name in columns])
    times = None if time is None else column(frame, time)
    if time is not None and times is not None:
        _refuse_missing(times, time)
    groups = None if group is None else _factorise(column(frame, group), group)
    return arranged(X, ids, times, groups, time or "", group or "")


def arranged(
    X: FloatArray,
    ids: Coded,
    times: npt.NDArray[Any] | None,
    groups: Coded | None,
    time_name: str,
    group_name: str,
    place: Place = lambda row: f"row {row}",
) -> Table:
    """Return rows in the order of their sequences; `place` says in errors where a row is."""
    n = np.bincount(ids.codes, minlength=len(ids.names)).astype(np.int64)
    belongs = None if groups is None else _groups(groups, ids, group_name, place)
    if times is None and (np.diff(ids.codes) >= 0).all():
        return Table(X, n, ids.names, belongs)
    order = np.argsort(ids.codes, kind="stable") if times is None else _time_order(times, time_name, ids, place)
    return Table(X[order], n, ids.names, belongs)


def joined(parts: list[Coded]) -> Coded:
    """Return the names that several columns make together, joined by " / "."""
    if len(parts) == 1:
        return parts[0]
    key = parts[0].codes
    for part in parts[1:]:
        key = np.unique(key * len(part.names) + part.codes, return_inverse=True)[1].astype(np.int64)
    _, first, codes = np.unique(key, return_index=True, return_inverse=True)
    rank = np.argsort(np.argsort(first))  # np.unique sorts; names come in order of first appearance
    rows = np.sort(first)
    names = [" / ".join(str(part.names[part.codes[row]]) for part in parts) for row in rows]
    return Coded(rank[codes].astype(np.int64), names)


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


def _factorise(values: npt.NDArray[Any], name: str) -> Coded:
    """Return a column of names as numbers."""
    if not len(values):
        raise ValueError("the table has no rows; at least one sequence is needed.")
    _refuse_missing(values, name)
    seen: dict[Any, int] = {}
    codes = np.fromiter((seen.setdefault(v, len(seen)) for v in values.tolist()), np.int64, len(values))
    return Coded(codes, list(seen))


def _time_order(times: npt.NDArray[Any], name: str, ids: Coded, place: Place) -> npt.NDArray[np.intp]:
    """Return the rows sorted by sequence, then by time."""
    # Python's own values are compared once, then by rank.
    ranks = np.unique(times, return_inverse=True)[1] if times.dtype.kind == "O" else times
    order = np.lexsort((ranks, ids.codes))
    twice = (np.diff(ids.codes[order]) == 0) & (ranks[order][1:] == ranks[order][:-1])
    if twice.any():
        k = int(np.argmax(twice))
        one, other = sorted((int(order[k]), int(order[k + 1])))
        raise ValueError(
            f"sequence {ids.names[ids.codes[one]]!r} has two rows with {name} = {times[one]} ({place(one)} and "
            f"{place(other)}). If these are several trials, name their column in id too; else drop a row, "
            "or choose another time."
        )
    return order


def _groups(groups: Coded, ids: Coded, name: str, place: Place) -> list[Any]:
    """Return each sequence's one value of the group column."""
    first = np.unique(ids.codes, return_index=True)[1]
    differs = groups.codes != groups.codes[first][ids.codes]
    if differs.any():
        row = int(np.argmax(differs))
        of = ids.codes[row]
        one, other = groups.names[groups.codes[first[of]]], groups.names[groups.codes[row]]
        raise ValueError(
            f"sequence {ids.names[of]!r} has {name} = {one!r} ({place(int(first[of]))}) and {other!r} ({place(row)}); "
            "a sequence has one group. If sequences are told apart by several columns, give them all as id."
        )
    return [groups.names[g] for g in groups.codes[first]]
