"""Tables in memory, by duck typing: pandas, polars, pyarrow, a dictionary of columns, or anything with Arrow's stream.

Columns are looked at where they are: numbers are copied once, into the frames, and names are numbered by pyarrow, if it
is there, without a Python object per row.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from vhem._support.arrays import FloatArray
from vhem._support.errors import CellError, InputError, InputTypeError
from vhem._support.optional import how_to_install
from vhem.sequences.categories import Categories, Coder, unknown_category, wanted
from vhem.sequences.channels import Channels, checked_names
from vhem.sequences.long_table import Coded, Table, Weights, arranged, first_rows, joined
from vhem.sequences.readers.cells import BadCellError
from vhem.sequences.readers.roles import listed, shortened
from vhem.sequences.readers.times import times


def read_frame(
    frame: Any,
    id_column: str | list[str],
    time: str | None,
    values: str | Iterable[str],
    group: str | None,
    categories: Categories = None,
    weights: str | None = None,
    other: str | None = None,
) -> Table:
    """Return the sequences of a table; `Sequences.from_table` documents the arguments."""
    frame = with_columns(frame)
    chosen, id_columns = listed(values), listed(id_column)
    if not chosen:
        raise InputError("{values} is empty", "list the columns that hold the frame's values")
    if not id_columns:
        raise InputError("{id} is empty", "give the column or columns that identify the sequence of each row")
    _check_columns(frame, [*id_columns, *chosen, *listed(time), *listed(group), *listed(weights)])
    ids = joined([_factorised(frame, name) for name in id_columns])
    X, channels = _values(frame, chosen, categories, other, len(ids.codes))
    moments = None if time is None else _times(frame, time)
    groups = None if group is None else _factorised(frame, group)
    counts = None if weights is None else Weights(weights, _numbers(frame, weights, len(ids.codes)))
    return arranged(X, ids, moments, groups, time or "", group or "", channels=channels, weights=counts)


def _values(
    frame: Any, columns: list[str], categories: Categories, other: str | None, n_rows: int
) -> tuple[FloatArray, Channels]:
    """Return the columns of values, categories as codes."""
    channels = Channels(tuple(columns), (None,) * len(columns))
    told = {k: None for k, name in enumerate(columns) if _declared(frame[name])} | wanted(categories, channels)
    found: dict[int, tuple[str, ...] | None] = {}
    X = np.empty((n_rows, len(columns)))
    for k, name in enumerate(columns):
        if k in told:
            X[:, k], found[k] = _codes(frame, name, told[k], other, n_rows)
        else:
            X[:, k] = _numbers(frame, name, n_rows)
    return X, channels.with_categories(found)


def _declared(column: Any) -> bool:
    """Whether a table itself says that a column is categorical: pandas, polars, pyarrow."""
    kind = str(getattr(column, "dtype", getattr(column, "type", "")))
    return kind.startswith(("category", "Categorical", "Enum", "dictionary"))


def _codes(
    frame: Any, name: str, names: tuple[str, ...] | None, other: str | None, n_rows: int
) -> tuple[FloatArray, tuple[str, ...]]:
    column = frame[name]
    values = column_of(frame, name)
    _check_length(len(values), name, n_rows)
    if names is None and hasattr(column, "cat") and hasattr(column.cat, "categories"):
        names = checked_names(column.cat.categories)  # pandas keeps an order of its own
    coder = Coder(names, other)
    try:
        codes = coder.add(values)
    except KeyError as fault:
        raise unknown_category(fault.args[0], coder).at(None, values.index(fault.args[0]), name) from None
    return coder.final(codes), coder.names


def with_columns(frame: Any) -> Any:
    """Return a table with columns by name; others that export an Arrow stream, like DuckDB's, are read through it."""
    own = type(frame).__module__.partition(".")[0] in ("pandas", "polars", "pyarrow")
    if own or not hasattr(frame, "__arrow_c_stream__"):
        return frame
    arrow = pyarrow_or_none()
    if arrow is None:
        raise ModuleNotFoundError(
            f"a {type(frame).__name__} is read through pyarrow, which is not installed: {how_to_install('tables')}."
        )
    return arrow.table(frame)


def pyarrow_or_none() -> Any:
    """Return the library if it is installed."""
    try:
        import pyarrow  # noqa: PLC0415  (an extra)
    except ModuleNotFoundError:
        return None
    return pyarrow


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


def column_of(frame: Any, name: str) -> list[Any]:
    """Return the cells of a column."""
    column = frame[name]
    cells: list[Any] = column.to_pylist() if hasattr(column, "to_pylist") else _column(frame, name).tolist()
    return cells


def column_names(frame: Any) -> list[Any]:
    """Return the names of a table's columns."""
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
    _check_length(len(raw), name, n_rows)
    cure = "If it holds categories, list it in {categories}"
    if raw.dtype.kind not in "fiubO":
        problem = "column {column!r} holds {kind} values; columns of values must be numbers"
        raise InputTypeError(problem, cure, column=name, kind=raw.dtype)
    try:
        return _floats(frame[name])
    except (TypeError, ValueError) as error:
        problem = "column {column!r} cannot be read as numbers: {fault}"
        raise InputTypeError(problem, cure, column=name, fault=error) from None


def _floats(column: Any) -> FloatArray:
    if hasattr(getattr(column, "dtype", None), "na_value"):  # pandas' own missing value is not a number to NumPy
        return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))
    return np.asarray(column, dtype=np.float64)


def _check_length(n: int, name: str, n_rows: int) -> None:
    if n != n_rows:
        problem = "column {column!r} has {n} rows, but the ids have {m}"
        raise InputError(problem, column=name, n=n, m=n_rows)


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
    in_arrow = _in_arrow(frame[name])
    if in_arrow is not None:
        return arrow_coded(in_arrow, name)
    values = _column(frame, name)
    _refuse_missing(values, name)
    _refuse_no_rows(len(values))
    seen: dict[Any, int] = {}
    codes = np.fromiter((seen.setdefault(v, len(seen)) for v in values.tolist()), np.int64, len(values))
    return Coded(codes, list(seen))


def _in_arrow(column: Any) -> Any:
    """Return a column of text or integers as pyarrow's, without a copy if it lies in Arrow's form; None for others."""
    if hasattr(column, "dictionary_encode"):
        return column
    arrow = pyarrow_or_none() if hasattr(column, "__arrow_c_stream__") else None
    if arrow is None:
        return None
    try:
        taken = arrow.chunked_array(column)
    except (arrow.ArrowException, TypeError):
        return None
    kinds = arrow.types
    plain = any(is_kind(taken.type) for is_kind in (kinds.is_string, kinds.is_large_string, kinds.is_integer))
    return taken if plain else None  # others are the library's own values, which pyarrow would not give back


def arrow_coded(column: Any, name: str) -> Coded:
    """Return a pyarrow column as numbers, without looking at every row."""
    encoded = column.combine_chunks().dictionary_encode()
    if hasattr(encoded, "combine_chunks"):
        encoded = encoded.combine_chunks()
    _refuse_no_rows(len(encoded))
    codes, keys = np.asarray(encoded.indices.fill_null(-1), dtype=np.int64), encoded.dictionary.to_pylist()
    _refuse_missing(np.array([*keys, None], dtype=object)[codes] if codes.min() < 0 or None in keys else codes, name)
    first = first_rows(codes, len(keys))
    used = np.argsort(first)[: int((first < len(codes)).sum())]  # a dictionary may have others, and be in any order
    if len(used) == len(keys) and (np.diff(used) == 1).all():
        return Coded(codes, keys)
    place = np.empty(len(keys), dtype=np.int64)
    place[used] = np.arange(len(used))
    return Coded(place[codes], [keys[k] for k in used])


def _refuse_no_rows(n: int) -> None:
    if not n:
        raise InputError("the table has no rows; at least one sequence is needed")
