"""Tables of cells to sequences: columns are gathered chunk by chunk, as numbers, times and names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from vhem._support.arrays import FloatArray, IntArray
from vhem._support.errors import CellError, InputError
from vhem.kernels import compiled
from vhem.sequences.container import Sequences
from vhem.sequences.long_table import Coded, arranged, joined
from vhem.sequences.readers import cells
from vhem.sequences.readers.blocks import Columns
from vhem.sequences.readers.cells import BadCellError
from vhem.sequences.readers.options import Options, Reading, errors_of, without_extension
from vhem.sequences.readers.plain_text import NAME, NOTHING, NUMBER, TIME, Cut, Cutter
from vhem.sequences.readers.roles import Roles, given_or_guessed, listed
from vhem.sequences.readers.rows import Rows
from vhem.sequences.readers.times import Times, times

_SAMPLE = 2000  # rows used to find out what a column holds


def read_rows(rows: Rows, options: Options) -> Reading:
    """Return the sequences of a table."""
    chunks = rows.chunks()
    first = next(chunks, None)
    if not isinstance(first, list):
        raise InputError("{path} has a header but no rows", path=rows.path)
    sample = {name: column[:_SAMPLE] for name, column in zip(rows.columns, first, strict=False)}
    with errors_of(rows.path):
        roles = given_or_guessed(rows.columns, lambda name: cells.looks_numeric(sample[name]), *options[:4])
    comma = options.decimal == "," or (
        options.decimal == "auto" and any(cells.has_decimal_commas(sample[name]) for name in roles.values)
    )
    gathered = _Gathered(roles, rows, comma)
    gathered.add(first)
    rows.cutter = gathered.cutter()
    for chunk in chunks:
        gathered.add(chunk)
    with errors_of(rows.path):
        return Reading(gathered.sequences(), roles)


class _Gathered:
    """Columns of a table as they are read."""

    def __init__(self, roles: Roles, rows: Rows, comma: bool) -> None:
        self._roles, self._rows, self._comma = roles, rows, comma
        self._index = {name: k for k, name in enumerate(rows.columns)}
        self._values: list[FloatArray] = []
        self._times: list[Times] = []
        self._seen: dict[str, dict[str, int]] = {name: {} for name in [*roles.id, *listed(roles.group)]}
        self._codes: dict[str, list[IntArray]] = {name: [] for name in self._seen}
        self._n_rows = 0

    def cutter(self) -> Cutter | None:
        """Return what cuts plain text into these columns; None if times are dates, which only Python reads."""
        if not compiled.has_tables() or (self._times and self._times[0].kind != "numbers"):
            return None
        kinds = dict.fromkeys(self._rows.columns, NOTHING) | dict.fromkeys(self._seen, NAME)
        if any(kinds[name] == NAME for name in self._numbers()):
            return None  # a column with two roles
        kinds |= dict.fromkeys(self._roles.values, NUMBER) | dict.fromkeys(listed(self._roles.time), TIME)
        seen = [partial(_number_of, self._seen[name]) for name in kinds if kinds[name] == NAME]
        return Cutter(list(kinds.values()), self._comma, seen)

    def _numbers(self) -> list[str]:
        return [*self._roles.values, *listed(self._roles.time)]

    def add(self, chunk: Columns | Cut) -> None:
        """Take some rows."""
        if isinstance(chunk, Cut):
            self._add_cut(chunk)
        else:
            self._add_cells(chunk)

    def _add_cut(self, cut: Cut) -> None:
        """Take rows that are numbers already."""
        in_order = sorted({*self._numbers()}, key=self._index.__getitem__)
        place = {name: k for k, name in enumerate(in_order)}
        self._values.append(cut.values[:, [place[name] for name in self._roles.values]])
        if self._roles.time is not None:
            self._times.append(Times(cut.values[:, place[self._roles.time]].copy(), "numbers"))
        for k, name in enumerate(sorted(self._seen, key=self._index.__getitem__)):
            self._codes[name].append(cut.codes[:, k].copy())
        self._n_rows += len(cut.values)

    def _add_cells(self, chunk: Columns) -> None:
        def converted(name: str, convert: Callable[[Sequence[Any]], Any]) -> Any:
            try:
                return convert(chunk[self._index[name]])
            except BadCellError as fault:
                number = self._rows.number(self._n_rows + fault.index)
                raise fault.error.at(self._rows.path, number, name) from None

        self._values.append(
            np.column_stack([converted(name, partial(cells.numbers, comma=self._comma)) for name in self._roles.values])
        )
        if self._roles.time is not None:
            self._times.append(converted(self._roles.time, partial(times, comma=self._comma)))
        for name, seen in self._seen.items():
            self._codes[name].append(converted(name, partial(_coded, seen)))
        self._n_rows += len(chunk[0])

    def sequences(self) -> Sequences:
        """Return what was gathered, and release it."""
        roles, X = self._roles, _together(self._values)
        coded = {name: self._coded(name) for name in self._seen}  # a column may be an id and a group
        ids = joined([coded[name] for name in roles.id]) if roles.id else self._one_sequence()
        groups = None if roles.group is None else coded[roles.group]
        moments = None if roles.time is None else self._all_times()
        table = arranged(X, ids, moments, groups, roles.time or "", roles.group or "", self._rows.number)
        del X
        return Sequences._of_table(table)

    def _one_sequence(self) -> Coded:
        return Coded(np.zeros(self._n_rows, dtype=np.int64), [without_extension(self._rows.path)])

    def _coded(self, name: str) -> Coded:
        return Coded(_together(self._codes[name]), cells.tidy_names(list(self._seen[name])))

    def _all_times(self) -> npt.NDArray[Any]:
        kinds = sorted({part.kind for part in self._times})
        if len(kinds) > 1:
            problem = "column {column!r} has {kinds}"
            raise InputError(problem, "use one format in all rows", column=self._roles.time, kinds=" and ".join(kinds))
        values = [part.values for part in self._times]
        self._times.clear()
        return _together(values)


def _together(parts: list[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """Return arrays as one, releasing each as soon as it is copied: a large table is not held twice."""
    whole = np.empty((sum(map(len, parts)), *parts[0].shape[1:]), parts[0].dtype)
    end = len(whole)
    while parts:
        part = parts.pop()
        whole[end - len(part) : end] = part
        end -= len(part)
    return whole


def _number_of(seen: dict[str, int], cell: str) -> int:
    """Return the number of a name, a new one if need be; −1 if the cell holds none."""
    return -1 if cells.is_missing(cell) else seen.setdefault(cells.name(cell), len(seen))


def _coded(seen: dict[str, int], column: Sequence[Any]) -> IntArray:
    """Return numbers for names, which are numbered as they appear."""
    try:  # names met before, written in the same way
        return np.fromiter(map(seen.__getitem__, column), np.int64, len(column))
    except (KeyError, TypeError):
        pass
    spelled: dict[Any, int] = {}
    for i, cell in enumerate(column):
        if cell not in spelled:
            if cells.is_missing(cell):
                raise BadCellError(i, CellError("is empty", "fill it or drop the row", value=cell))
            spelled[cell] = seen.setdefault(cells.name(cell), len(seen))
    return np.fromiter(map(spelled.__getitem__, column), np.int64, len(column))
