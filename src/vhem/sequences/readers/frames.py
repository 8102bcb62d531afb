"""Tables in memory, by duck typing: pandas, polars, pyarrow or a dictionary of columns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from vhem._support.arrays import FloatArray
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
        raise ValueError("values names no column; list the columns that hold the frame's values.")
    if not id_columns:
        raise ValueError("id names no column; give the column, or columns, that name the sequence of each row.")
    _check_columns(frame, [*id_columns, *chosen, *listed(time), *listed(group)])
    ids = joined([_factorised(frame, name) for name in id_columns])
    X = np.column_stack([_numbers(frame, name, len(ids.codes)) for name in chosen])
    moments = None if time is None else _times(frame, time)
    groups = None if group is None else _factorised(frame, group)
    return arranged(X, ids, moments, groups, time or "", group or "")


def is_lazy(frame: Any) -> bool:
    """Whether a table is a query that has not been run, as polars' LazyFrame is."""
    return type(frame).__name__ == "LazyFrame"


def _check_columns(frame: Any, wanted: list[str]) -> None:
    names = _column_names(frame)
    known = set(names)
    for name in wanted:
        if name not in known:
            raise ValueError(f"the table has no column {name!r}; it has {shortened(names)}.")


def _column_names(frame: Any) -> list[Any]:
    if is_lazy(frame):
        raise TypeError("frame is a LazyFrame, which holds no rows yet; give frame.collect().")
    # In this order: pyarrow's `columns` are the columns themselves, and its names are `column_names`.
    for attribute in ("column_names", "columns"):
        if hasattr(frame, attribute):
            return list(getattr(frame, attribute))
    if hasattr(frame, "keys"):
        return list(frame.keys())
    raise TypeError(f"frame must be a table with named columns, got {type(frame).__name__}.")


def _column(frame: Any, name: str) -> npt.NDArray[Any]:
    values = np.asarray(frame[name])
    if values.ndim != 1:
        raise ValueError(f"the table has two columns named {name!r}; rename one of them.")
    return values


def _numbers(frame: Any, name: str, n_rows: int) -> FloatArray:
    raw = _column(frame, name)
    if len(raw) != n_rows:
        raise ValueError(f"column {name!r} has {len(raw)} rows, but the ids have {n_rows}.")
    if raw.dtype.kind not in "fiubO":
        raise TypeError(f"column {name!r} holds {raw.dtype} values; columns of values must be numbers.")
    try:
        # Straight from the table: pandas turns its own missing value into NaN only when asked for floats.
        return np.asarray(frame[name], dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"column {name!r} cannot be read as numbers: {error}.") from None


def _times(frame: Any, name: str) -> npt.NDArray[Any]:
    """Return a column of times; those with zones as instants, text as what it says."""
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
                raise ValueError(f"column {name!r} {fault} (row {fault.index}).") from None
    return values


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


def _factorised(frame: Any, name: str) -> Coded:
    """Return a column of names as numbers."""
    values = _column(frame, name)
    if not len(values):
        raise ValueError("the table has no rows; at least one sequence is needed.")
    _refuse_missing(values, name)
    seen: dict[Any, int] = {}
    codes = np.fromiter((seen.setdefault(v, len(seen)) for v in values.tolist()), np.int64, len(values))
    return Coded(codes, list(seen))
