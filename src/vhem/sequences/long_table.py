"""Long tables, one row per frame, to sequences: rows are grouped by key and sorted by time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt

from vhem._support.arrays import AnyIntArray, FloatArray, IntArray
from vhem._support.errors import InputError
from vhem.kernels import compiled
from vhem.sequences.channels import Channels

Number = Callable[[int], int]  #: finds the row of the file that errors name

_ROWS = 1 << 18  # at a time: what is computed of all rows at once would take more memory than the table


class Table(NamedTuple):
    """The frames of a table, sorted by sequence."""

    X: FloatArray  #: (rows, d)
    lengths: IntArray  #: (n,)
    keys: list[Any]  #: of the sequences, in the order of their first rows
    groups: list[Any] | None  #: one value per sequence
    channels: Channels | None = None
    weights: FloatArray | None = None  #: one per sequence


class Coded(NamedTuple):
    """A column of names: a number per row, and the name of each number, in order of first appearance."""

    codes: AnyIntArray  #: (rows,)
    keys: list[Any]


class Weights(NamedTuple):
    """A column of case weights."""

    column: str
    values: FloatArray  #: (rows,)


def arranged(
    X: FloatArray,
    ids: Coded,
    times: npt.NDArray[Any] | None,
    groups: Coded | None,
    time_name: str,
    group_name: str,
    number: Number = lambda row: row,
    channels: Channels | None = None,
    weights: Weights | None = None,
) -> Table:
    """Return rows in the order of their sequences; X may be sorted in place."""
    belongs = None if groups is None else _groups(groups, ids, group_name, number)
    counts = None if weights is None else _weights(weights, ids, number)
    if times is not None and times.dtype == np.float64 and compiled.has_tables():
        found = compiled.order_rows(ids.codes, times, len(ids.keys))
        if found.twice >= 0:
            _refuse_twice(found.order[found.twice : found.twice + 2], times, time_name, ids, number)
        compiled.permute_rows(X, found.order)
        return Table(X, np.diff(found.ends, prepend=0), ids.keys, belongs, channels, counts)
    if times is not None or (np.diff(ids.codes) < 0).any():
        X = X[np.argsort(ids.codes, kind="stable") if times is None else _time_order(times, time_name, ids, number)]
    n = np.bincount(ids.codes, minlength=len(ids.keys)).astype(np.int64)
    return Table(X, n, ids.keys, belongs, channels, counts)


def joined(parts: list[Coded]) -> Coded:
    """Return the keys that several columns make together: tuples."""
    if len(parts) == 1:
        return parts[0]
    codes, first = parts[0].codes, [0]
    for part in parts[1:]:
        codes, first = compiled.number_pairs(codes, part.codes) if compiled.has_tables() else _paired(codes, part)
    return Coded(codes, [tuple(part.keys[part.codes[row]] for part in parts) for row in first])


def _paired(others: AnyIntArray, part: Coded) -> tuple[AnyIntArray, list[int]]:
    """Return the numbers of pairs of codes, and the row in which each is first met."""
    width = len(part.keys)
    together = _renumbered(others.astype(np.int64) * width + part.codes, (int(others.max()) + 1) * width)
    return together.codes, first_rows(together.codes, len(together.keys)).tolist()


def _renumbered(codes: AnyIntArray, n: int) -> Coded:
    """Return codes below n as codes in order of first appearance."""
    if n > 4 * len(codes):  # too many to keep a place for each
        codes = np.unique(codes, return_inverse=True)[1].astype(np.int64)
        n = int(codes.max()) + 1
    first = first_rows(codes, n)
    met = np.argsort(first)[: int((first < len(codes)).sum())]
    place = np.empty(n, np.int64)
    place[met] = np.arange(len(met))
    return Coded(place[codes], list(range(len(met))))


def first_rows(codes: AnyIntArray, n: int) -> IntArray:
    """Return the first row of each code below n; the number of rows for codes that do not occur."""
    first = np.full(n, len(codes))
    for rows in reversed(list(_some_rows(len(codes)))):
        # of several values for one place, the last one stays
        first[codes[rows][::-1]] = np.arange(rows.start, rows.stop)[::-1]
    return first


def _some_rows(n: int) -> Iterator[slice]:
    return (slice(begin, min(begin + _ROWS, n)) for begin in range(0, n, _ROWS))


def _differing_row(values: npt.NDArray[Any], of_sequence: npt.NDArray[Any], codes: AnyIntArray) -> int | None:
    """Return the first row whose value is not that of its sequence."""
    for rows in _some_rows(len(codes)):
        differs = values[rows] != of_sequence[codes[rows]]
        if differs.any():
            return int(rows.start + np.argmax(differs))
    return None


def _time_order(times: npt.NDArray[Any], name: str, ids: Coded, number: Number) -> npt.NDArray[np.intp]:
    """Return the rows sorted by sequence, then by time."""
    # Python's own values are compared once, then by rank.
    ranks = np.unique(times, return_inverse=True)[1] if times.dtype.kind == "O" else times
    order = np.lexsort((ranks, ids.codes))
    twice = (np.diff(ids.codes[order]) == 0) & (ranks[order][1:] == ranks[order][:-1])
    if twice.any():
        k = int(np.argmax(twice))
        _refuse_twice(order[k : k + 2], times, name, ids, number)
    return order


def _refuse_twice(rows: IntArray, times: npt.NDArray[Any], name: str, ids: Coded, number: Number) -> NoReturn:
    one, other = sorted(rows.tolist())
    raise InputError(
        "sequence {key!r} has two rows with {column} = {moment} (row {one} and row {other})",
        "If these are several trials, add their column to {id}; otherwise drop a row",
        "choose another {time}",
        "give {time:''} if the rows are in the right order already, as events of the same second may be",
        key=ids.keys[ids.codes[one]], column=name, moment=times[one], one=number(one), other=number(other),
    )  # fmt: skip


def _groups(groups: Coded, ids: Coded, name: str, number: Number) -> list[Any]:
    """Return each sequence's value of the group column."""
    first = first_rows(ids.codes, len(ids.keys))
    row = _differing_row(groups.codes, groups.codes[first], ids.codes)
    if row is not None:
        of = ids.codes[row]
        raise InputError(
            "sequence {key!r} has {column} = {one!r} (row {i}) and {other!r} (row {j}); a sequence has only one group",
            "If several columns together identify a sequence, give them all as {id}",
            key=ids.keys[of], column=name, i=number(int(first[of])), j=number(row),
            one=groups.keys[groups.codes[first[of]]], other=groups.keys[groups.codes[row]],
        )  # fmt: skip
    return [groups.keys[g] for g in groups.codes[first]]


def _weights(weights: Weights, ids: Coded, number: Number) -> FloatArray:
    """Return each sequence's case weight."""
    first, values = first_rows(ids.codes, len(ids.keys)), weights.values
    bad = ~(np.isfinite(values) & (values >= 0))
    if bad.any():
        first_bad = int(np.argmax(bad))
        problem = "row {row}: column {column!r} has the weight {value}; weights are numbers from 0 on"
        cure = "Fill or correct it, or drop the sequence"
        raise InputError(problem, cure, row=number(first_bad), column=weights.column, value=values[first_bad])
    row = _differing_row(values, values[first], ids.codes)
    if row is not None:
        of = ids.codes[row]
        raise InputError(
            "sequence {key!r} has the weight {one:g} (row {i}) and {other:g} (row {j}) in column {column!r}; "
            "a sequence has only one weight",
            "If several columns together identify a sequence, give them all as {id}",
            key=ids.keys[of], column=weights.column, i=number(int(first[of])), j=number(row),
            one=values[first[of]], other=values[row],
        )  # fmt: skip
    if not values.any():
        raise InputError("all weights in column {column!r} are zero", column=weights.column)
    return np.asarray(values[first], dtype=np.float64)
