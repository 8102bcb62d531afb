"""Tables in memory, by duck typing: pandas, polars, pyarrow or a dictionary of columns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from vhem._support.arrays import FloatArray
from vhem._support.errors import CellError, InputError, InputTypeError
from vhem.sequences.long_table import Coded, Table, arranged, joined
from vhem.sequences.readers.cells import BadCellError
from vhem.sequences.readers.roles import listed, shortened
from vhem.sequences.readers.times import times


def read_frame(
    frame: Any, id_column: str | list[str], time: str | None, values: str | Iterable[str], group: str | None
) -> Table:
    """Return the sequences of a table; `Sequences.from_table` documents the arguments."""
    chosen, id_columns = listed(values), listed(id_column)
    if not chosen:
        raise InputError("{values} is empty", "list the columns that hold the frame's values")
    if not id_columns:
        raise InputError("{id} is empty", "give the column or columns that identify the sequence of each row")
    _check_columns(frame, [*id_columns, *chosen, *listed(time), *listed(group)])
    ids = joined([_factorised(frame, name) for name in id_columns])
    X = np.column_stack([_numbers(frame, name, len(ids.codes)) for name in chosen])
    moments = None if time is None else _times(frame, time)
    groups = None if group is None else _factorised(frame, group)
    return arranged(X, ids, moments, groups, time or "", group or "")


def is_lazy(frame: Any) -> bool:
    """Whether a table is a query that has not been run, like polars' LazyFrame."""
    return type(frame).__name__ == "LazyFrame"


def _check_columns(frame: Any, wanted: list[str]) -> None:
    names = column_names(frame)
    known = set(names)
    for name in wanted:
        if name not in known:
            problem = "the table has no column {column!r}; it has {columns}"
            raise InputError(problem, column=name, columns=shortened(names))


def column_names(frame: Any) -> list[Any]:
    """Return the names of the columns of a table in memory."""
    if is_lazy(frame):
        raise InputTypeError("{frame} is a LazyFrame, which holds no rows yet", "give frame.collect()")
    # In this order: pyarrow's `columns` are the columns themselves, and its names are `column_names`.
    for attribute in ("column_names", "columns"):
        if hasattr(frame, attribute):
            return list(getattr(frame, attribute))
    if callable(getattr(frame, "keys", None)):
        return list(frame.keys())
    raise InputTypeError("{frame} must be a table with named columns, got {kind}", kind=type(frame).__name__)


def _column(frame: Any, name: str) -> npt.NDArray[Any]:
    values = np.asarray(frame[name])
    if values.ndim != 1:
        raise InputError("the table has two columns named {column!r}", "rename one of them", column=name)
    return values


def _numbers(frame: Any, name: str, n_rows: int) -> FloatArray:
    raw = _column(frame, name)
    if len(raw) != n_rows:
        problem = "column {column!r} has {n} rows, but the ids have {m}"
        raise InputError(problem, column=name, n=len(raw), m=n_rows)
    if raw.dtype.kind not in "fiubO":
        problem = "column {column!r} holds {kind} values; columns of values must be numbers"
        raise InputTypeError(problem, column=name, kind=raw.dtype)
    try:
        # Straight from the table: pandas turns its own missing value into NaN only when asked for floats.
        return np.asarray(frame[name], dtype=np.float64)
    except (TypeError, ValueError) as error:
        problem = "column {column!r} cannot be read as numbers: {fault}"
        raise InputTypeError(problem, column=name, fault=error) from None


def _times(frame: Any, name: str) -> npt.NDArray[Any]:
    """Return a column of times; those with zones as instants, text as parsed."""
    if getattr(getattr(frame[name], "dtype", None), "tz", None) is not None:  # pandas keeps zones apart
        values = np.asarray(frame[name], dtype="datetime64[ns]")
    else:
        values = _column(frame, name)
    _refuse_missing(values, name)
    if values.dtype.kind in "OU":
        try:
            return times(values.tolist(), comma=False).values
        except BadCellError as fault:
            if values.dtype.kind == "U" or any(isinstance(value, str) for value in values):
                raise fault.error.at(file=None, row=fault.index, column=name) from None
    return values


def _missing(values: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Return where a column has NaN, NaT, None or pandas' NA."""
    if values.dtype.kind in "fmM":
        return np.asarray(np.isnan(values))
    if values.dtype.kind != "O":
        return np.zeros(len(values), dtype=bool)
    flags = (v is None or type(v).__name__ in ("NAType", "NaTType") or v != v for v in values)  # noqa: PLR0124
    return np.fromiter(flags, dtype=bool, count=len(values))


def _refuse_missing(values: npt.NDArray[Any], name: str) -> None:
    missing = _missing(values)
    if missing.any():
        row = int(np.argmax(missing))
        raise CellError("is empty", "fill it or drop the row", value=None, row=row, column=name)


def _factorised(frame: Any, name: str) -> Coded:
    """Return a column of names as numbers."""
    if hasattr(frame[name], "dictionary_encode"):
        return arrow_coded(frame[name], name)
    values = _column(frame, name)
    _refuse_missing(values, name)
    _refuse_no_rows(len(values))
    seen: dict[Any, int] = {}
    codes = np.fromiter((seen.setdefault(v, len(seen)) for v in values.tolist()), np.int64, len(values))
    return Coded(codes, list(seen))


def arrow_coded(column: Any, name: str) -> Coded:
    """Return a pyarrow column as numbers, without looking at every row."""
    encoded = column.combine_chunks().dictionary_encode()
    if hasattr(encoded, "combine_chunks"):
        encoded = encoded.combine_chunks()
    _refuse_no_rows(len(encoded))
    codes, keys = np.asarray(encoded.indices.fill_null(-1), dtype=np.int64), encoded.dictionary.to_pylist()
    _refuse_missing(np.array([*keys, None], dtype=object)[codes] if codes.min() < 0 or None in keys else codes, name)
    used, first = np.unique(codes, return_index=True)  # a dictionary may have entries that no row has, in any order
    used = used[np.argsort(first)]
    place = np.empty(len(keys), dtype=np.int64)
    place[used] = np.arange(len(used))
    return Coded(place[codes], [keys[k] for k in used])


def _refuse_no_rows(n: int) -> None:
    if not n:
        raise InputError("the table has no rows; at least one sequence is needed")
