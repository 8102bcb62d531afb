"""Tables of cells to sequences: columns are gathered chunk by chunk, as numbers, times and names."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from vhem._support.arrays import AnyIntArray, FloatArray
from vhem._support.errors import CellError, InputError, ParameterError
from vhem.kernels import compiled
from vhem.sequences.categories import Coder, as_floats, named_categories, unknown_category
from vhem.sequences.channels import Channels
from vhem.sequences.container import Sequences
from vhem.sequences.long_table import Coded, Weights, arranged, joined
from vhem.sequences.readers import cells
from vhem.sequences.readers.blocks import Columns
from vhem.sequences.readers.cells import BadCellError
from vhem.sequences.readers.growing import Growing
from vhem.sequences.readers.options import Options, Reading, errors_of, without_extension
from vhem.sequences.readers.plain_text import NAME, NOTHING, NUMBER, TIME, Cut, Cutter
from vhem.sequences.readers.roles import Asked, Roles, check_known, given_or_guessed, listed
from vhem.sequences.readers.rows import Rows
from vhem.sequences.readers.times import Times, times
from vhem.sequences.readers.wide_rows import WideGathered, wide_plan

_SAMPLE = 2000  # rows used to find out what a column holds


def read_rows(rows: Rows, options: Options) -> Reading:
    """Return the sequences of a table."""
    if options.wide is not None:
        return _read_wide(rows, options)
    gathered, roles = _gathered(rows, options)
    with errors_of(rows.path):
        return Reading(gathered.sequences(), roles)


def row_indices(rows: Rows, options: Options) -> Reading:
    """Return the sequences of a long table, with the index of its row among those of data in place of every frame."""
    gathered, roles = _gathered(rows, options)
    return Reading(gathered.sequences(numbered=True), roles)


def _first_chunk(rows: Rows, chunks: Iterator[Columns | Cut]) -> tuple[Columns, dict[str, Sequence[Any]]]:
    """Return the first rows, and those of them that show what the columns hold."""
    first = next(chunks, None)
    if not isinstance(first, list):
        raise InputError("{path} has a header but no rows", path=rows.path)
    return first, {name: column[:_SAMPLE] for name, column in zip(rows.columns, first, strict=False)}


def _gathered(rows: Rows, options: Options) -> tuple[_Gathered, Roles]:
    """Return all rows of a long table, and which column is what."""
    chunks = rows.chunks()
    first, sample = _first_chunk(rows, chunks)
    with errors_of(rows.path):
        asked = Asked(chosen_categories(options, rows.columns), options.weights)
        roles = given_or_guessed(
            rows.columns, lambda name: cells.looks_numeric(sample[name]), *options[:4], asked,
            lambda name: cells.looks_categorical(sample[name]),
        )  # fmt: skip
    comma = options.decimal == "," or (
        options.decimal == "auto" and any(cells.has_decimal_commas(sample[name]) for name in roles.values)
    )
    gathered = _Gathered(roles, rows, comma, options.other)
    gathered.add(first)
    rows.cutter = gathered.cutter()
    for chunk in chunks:
        gathered.add(chunk)
    return gathered, roles


def _read_wide(rows: Rows, options: Options) -> Reading:
    """Return the sequences of a wide table."""
    chunks = rows.chunks()
    first, sample = _first_chunk(rows, chunks)
    with errors_of(rows.path):
        plan = wide_plan(rows.columns, sample, options.of_wide())
    gathered, done = WideGathered(plan), 0
    for chunk in itertools.chain([first], chunks):
        assert isinstance(chunk, list)  # nothing is cut by the compiled kernel here
        try:
            gathered.add(dict(zip(rows.columns, chunk, strict=False)))
        except BadCellError as fault:
            raise fault.error.at(rows.path, rows.number(done + fault.index), fault.error.column) from None
        done += len(chunk[0])
    with errors_of(rows.path):
        return Reading(Sequences._of_table(gathered.table()), plan.roles)


def chosen_categories(options: Options, columns: list[str]) -> dict[str, tuple[str, ...] | None]:
    """Return which columns hold categories; True means all that are listed as values."""
    if options.categories is not True:
        return named_categories(options.categories, columns)
    if options.values is None:
        problem = "must name the columns that hold categories, unless all columns of values are listed"
        raise ParameterError("categories", True, problem)
    check_known(listed(options.values), columns)
    return dict.fromkeys(listed(options.values))


class _Gathered:
    """Columns of a table as they are read."""

    def __init__(self, roles: Roles, rows: Rows, comma: bool, other: str | None) -> None:
        self._roles, self._rows, self._comma = roles, rows, comma
        self._index = {name: k for k, name in enumerate(rows.columns)}
        self._coders = {name: Coder(names, other) for name, names in roles.categories.items()}
        self._values, self._weights, self._times = Growing(), Growing(), Growing()
        self._kinds_of_times: set[str] = set()
        self._seen: dict[str, dict[str, int]] = {name: {} for name in [*roles.id, *listed(roles.group)]}
        self._codes = {name: Growing() for name in self._seen}
        self._n_rows = 0

    def cutter(self) -> Cutter | None:
        """Return what cuts plain text into these columns; None if times are dates, which only Python reads."""
        if not compiled.has_tables() or self._kinds_of_times - {"numbers"}:
            return None
        numbered: dict[str, Callable[[str], int]] = {
            name: partial(_number_of, seen) for name, seen in self._seen.items()
        }
        numbered |= {name: coder.number for name, coder in self._coders.items()}
        if {*self._numbers()} & {*numbered} or {*self._seen} & {*self._coders}:
            return None  # a column with two roles
        kinds = dict.fromkeys(self._rows.columns, NOTHING) | dict.fromkeys(numbered, NAME)
        kinds |= dict.fromkeys(self._numbers(), NUMBER) | dict.fromkeys(listed(self._roles.time), TIME)
        return Cutter(list(kinds.values()), self._comma, [numbered[name] for name in kinds if kinds[name] == NAME])

    def _numbers(self) -> list[str]:
        values = [name for name in self._roles.values if name not in self._coders]
        return [*values, *listed(self._roles.weights), *listed(self._roles.time)]

    def add(self, chunk: Columns | Cut) -> None:
        """Take some rows."""
        if isinstance(chunk, Cut):
            self._add_cut(chunk)
        else:
            self._add_cells(chunk)

    def _add_cut(self, cut: Cut) -> None:
        """Take rows that are numbers already."""
        place, coded = self._places(self._numbers()), self._places([*self._seen, *self._coders])
        columns = {name: as_floats(cut.codes[:, coded[name]]) for name in self._coders}
        columns |= {name: cut.values[:, place[name]] for name in self._roles.values if name not in columns}
        self._values.append(np.column_stack([columns[name] for name in self._roles.values]))
        if self._roles.time is not None:
            self._add_times(Times(cut.values[:, place[self._roles.time]], "numbers"))
        if self._roles.weights is not None:
            self._weights.append(cut.values[:, place[self._roles.weights]])
        for name in self._seen:
            self._codes[name].append(cut.codes[:, coded[name]].astype(np.int32))
        self._n_rows += len(cut.values)

    def _places(self, names: list[str]) -> dict[str, int]:
        """Return where columns are among themselves, in the order of the table."""
        return {name: k for k, name in enumerate(sorted({*names}, key=self._index.__getitem__))}

    def _add_cells(self, chunk: Columns) -> None:
        def converted(name: str, convert: Callable[[Sequence[Any]], Any]) -> Any:
            try:
                return convert(chunk[self._index[name]])
            except BadCellError as fault:
                number = self._rows.number(self._n_rows + fault.index)
                raise fault.error.at(self._rows.path, number, name) from None

        numbers = partial(cells.numbers, comma=self._comma)
        kinds = {name: partial(coded, coder) for name, coder in self._coders.items()}
        self._values.append(np.column_stack([converted(name, kinds.get(name, numbers)) for name in self._roles.values]))
        if self._roles.weights is not None:
            self._weights.append(converted(self._roles.weights, numbers))
        if self._roles.time is not None:
            self._add_times(converted(self._roles.time, partial(times, comma=self._comma)))
        for name, seen in self._seen.items():
            self._codes[name].append(converted(name, partial(_coded, seen)))
        self._n_rows += len(chunk[0])

    def _add_times(self, some: Times) -> None:
        self._kinds_of_times.add(some.kind)
        if len(self._kinds_of_times) == 1:  # otherwise they are refused in the end
            self._times.append(some.values)

    def sequences(self, numbered: bool = False) -> Sequences:
        """Return what was gathered, and release it; if `numbered`, with the indices of rows in the place of values."""
        roles, X = self._roles, self._values.whole()
        channels = None if numbered else self._channels(X)
        if numbered:
            X = np.arange(len(X), dtype=np.float64)[:, None]
        coded = {name: self._coded(name) for name in self._seen}  # a column may be an id and a group
        ids = joined([coded[name] for name in roles.id]) if roles.id else self._one_sequence()
        groups = None if roles.group is None else coded[roles.group]
        coded.clear()
        moments = None if roles.time is None else self._all_times()
        weights = None if roles.weights is None else Weights(roles.weights, self._weights.whole())
        table = arranged(
            X, ids, moments, groups, roles.time or "", roles.group or "", self._rows.number, channels, weights
        )
        del X
        return Sequences._of_table(table)

    def _channels(self, X: FloatArray) -> Channels:
        """Return the channels, and give the codes in X their final order."""
        names = self._roles.values
        found: dict[int, tuple[str, ...] | None] = {}
        for k, name in enumerate(names):
            if name in self._coders:
                coder = self._coders[name]
                X[:, k], found[k] = coder.final(X[:, k]), coder.names
                if not coder.names:
                    raise InputError("column {column!r} has no value in any row", "leave it out", column=name)
        return Channels(tuple(names), (None,) * len(names)).with_categories(found)

    def _one_sequence(self) -> Coded:
        return Coded(np.zeros(self._n_rows, dtype=np.int32), [without_extension(self._rows.path)])

    def _coded(self, name: str) -> Coded:
        return Coded(self._codes[name].whole(), cells.tidy_names(list(self._seen[name])))

    def _all_times(self) -> npt.NDArray[Any]:
        kinds = " and ".join(sorted(self._kinds_of_times))
        if len(self._kinds_of_times) > 1:
            problem = "column {column!r} has {kinds}"
            raise InputError(problem, "use one format in all rows", column=self._roles.time, kinds=kinds)
        return self._times.whole()


def _number_of(seen: dict[str, int], cell: str) -> int:
    """Return the number of a name, a new one if need be; −1 if the cell holds none."""
    return -1 if cells.is_missing(cell) else seen.setdefault(cells.name(cell), len(seen))


def coded(coder: Coder, column: Sequence[Any]) -> FloatArray:
    """Return the codes of a column of categories."""
    try:
        return coder.add(column)
    except KeyError as fault:
        value = fault.args[0]
        raise BadCellError(list(column).index(value), unknown_category(value, coder)) from None


def _coded(seen: dict[str, int], column: Sequence[Any]) -> AnyIntArray:
    """Return numbers for names, which are numbered as they appear."""
    try:  # names met before, written in the same way
        return np.fromiter(map(seen.__getitem__, column), np.int32, len(column))
    except (KeyError, TypeError):
        pass
    spelled: dict[Any, int] = {}
    for i, cell in enumerate(column):
        if cell not in spelled:
            if cells.is_missing(cell):
                raise BadCellError(i, CellError("is empty", "fill it or drop the row", value=cell))
            spelled[cell] = seen.setdefault(cells.name(cell), len(seen))
    return np.fromiter(map(spelled.__getitem__, column), np.int32, len(column))
