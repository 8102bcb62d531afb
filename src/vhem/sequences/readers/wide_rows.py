"""Wide tables from files and from memory: which column is what, and the rows to sequences."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from vhem._support.arrays import FloatArray
from vhem._support.errors import CellError
from vhem.sequences.categories import Categories, named_categories
from vhem.sequences.long_table import Table
from vhem.sequences.readers import cells
from vhem.sequences.readers.cells import BadCellError
from vhem.sequences.readers.frames import column_names, column_of
from vhem.sequences.readers.roles import Roles, check_known, guessed_row_id, listed
from vhem.sequences.readers.wide import Wide, WideRows, checked_row_weights, unique_keys, wide_columns

_LOOKED_AT = 100  # rows, to find out what columns hold

Cells = Mapping[str, Sequence[Any]]  #: columns by name


class WideAsked(NamedTuple):
    """What the user says about a wide table."""

    wide: Wide
    id: str | Iterable[str] | None = None
    group: str | None = None
    categories: Categories = None
    weights: str | None = None
    other: str | None = None
    decimal: str = "auto"


class WidePlan(NamedTuple):
    """What the columns of a wide table are."""

    columns: dict[str, list[str]]  #: of each channel
    roles: Roles
    other: str | None
    comma: bool


def read_wide_frame(
    frame: Any,
    columns: Wide,
    id: str | list[str] | None,
    group: str | None,
    categories: Categories,
    weights: str | None,
) -> Table:
    """Return the sequences of a wide table in memory; `Sequences.from_wide` documents the arguments."""
    asked = WideAsked(columns, id, group, categories, weights)
    return read_wide_columns(column_names(frame), lambda name: column_of(frame, name), asked)[0]


def read_wide_columns(
    columns: list[str], column: Callable[[str], Sequence[Any]], asked: WideAsked
) -> tuple[Table, Roles]:
    """Return the sequences of a wide table, and what its columns are."""
    table = _Lazy(column)
    plan = wide_plan(columns, table, asked)
    gathered = WideGathered(plan)
    try:
        gathered.add(table)
    except BadCellError as fault:
        raise fault.error.at(None, fault.index, fault.error.column) from None
    return gathered.table(), plan.roles


class _Lazy(dict[str, Sequence[Any]]):
    """Columns of a table, taken out when they are needed."""

    def __init__(self, column: Callable[[str], Sequence[Any]]) -> None:
        super().__init__()
        self._column = column

    def __missing__(self, name: str) -> Sequence[Any]:
        self[name] = self._column(name)
        return self[name]


def wide_plan(columns: list[str], sample: Cells, asked: WideAsked) -> WidePlan:
    """Return what the columns of a wide table are; `sample` has some of its rows."""
    said = [*listed(asked.id), *listed(asked.group), *listed(asked.weights)]
    check_known(said, columns)
    ids = guessed_row_id([name for name in columns if name not in said]) if asked.id is None else listed(asked.id)
    found = wide_columns(asked.wide, columns, {*said, *ids})
    used = {name for own in found.values() for name in own}
    names = named_categories(asked.categories, list(found))
    words = [channel for channel, own in found.items() if channel not in names and _are_words(own, sample)]
    categories = names | dict.fromkeys(words)  # text in a wide table can be nothing else, so that nobody is told
    ids = [name for name in ids if name not in used]
    ignored = [name for name in columns if name not in {*used, *ids, *said}]
    roles = Roles(ids, None, list(found), asked.group, ignored, categories, (), asked.weights)
    comma = asked.decimal == "," or (
        asked.decimal == "auto" and any(cells.has_decimal_commas(sample[name]) for name in used)
    )
    return WidePlan(found, roles, asked.other, comma)


def _are_words(columns: list[str], sample: Cells) -> bool:
    """Whether the columns of a channel hold text, and never a number."""
    distinct = {cell for name in columns for cell in sample[name][:_LOOKED_AT] if not cells.is_missing(cell)}
    return bool(distinct) and not any(cells.looks_numeric([cell]) for cell in distinct)


class WideGathered:
    """The rows of a wide table, with ids, groups and weights, as they are read."""

    def __init__(self, plan: WidePlan) -> None:
        self._roles, self._comma = plan.roles, plan.comma
        self._rows = WideRows(plan.columns, plan.roles.categories, plan.other, plan.comma)
        self._names: dict[str, list[str]] = {name: [] for name in [*plan.roles.id, *listed(plan.roles.group)]}
        self._weights: list[FloatArray] = []
        self._n_rows = 0

    def add(self, table: Cells) -> None:
        """Take some rows; a bad cell raises `BadCellError`, with the column in its error."""
        self._n_rows += self._rows.add(table)
        for name, found in self._names.items():
            found.extend(_named(name, table[name]))
        if self._roles.weights is not None:
            column = self._roles.weights
            try:
                values = cells.numbers(table[column], self._comma)
            except BadCellError as fault:
                raise BadCellError(fault.index, fault.error.at(None, None, column)) from None
            self._weights.append(checked_row_weights(column, values))

    def table(self) -> Table:
        """Return the sequences."""
        tidy = {name: cells.tidy_names(found) for name, found in self._names.items()}
        ids = [tidy[name] for name in self._roles.id]
        keys: list[Any] = list(zip(*ids, strict=True)) if len(ids) > 1 else ids[0] if ids else list(range(self._n_rows))
        unique_keys(keys)
        weights = np.concatenate(self._weights) if self._weights else None
        groups = None if self._roles.group is None else tidy[self._roles.group]
        return self._rows.table(keys, groups, weights)


def _named(column: str, values: Sequence[Any]) -> list[str]:
    """Return the names in a column of ids or groups."""
    for i, cell in enumerate(values):
        if cells.is_missing(cell):
            fault = CellError("is empty", "fill it or drop the row", value=cell)
            raise BadCellError(i, fault.at(None, None, column))
    return [cells.name(cell) for cell in values]
