"""Wide tables: one row per sequence, one column per moment (TraMineR's "STS" format)."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import numpy as np

from vhem._support.arrays import FloatArray
from vhem._support.errors import CellError, InputError
from vhem.sequences.categories import Coder, unknown_category
from vhem.sequences.channels import Channels
from vhem.sequences.long_table import Table
from vhem.sequences.readers import cells
from vhem.sequences.readers.cells import BadCellError
from vhem.sequences.readers.roles import shortened

#: Columns of a wide table: "first:last", a pattern, several of these, or a dictionary of these by channel.
Wide: TypeAlias = str | Iterable[str] | Mapping[str, "str | Iterable[str]"]

CHANNEL = "state"  #: the name of the channel, unless a dictionary names it


def wide_columns(wide: Wide, columns: list[str], taken: set[str]) -> dict[str, list[str]]:
    """Return the columns of each channel, in the order of time.

    Parameters
    ----------
    wide : str, list of str, or dict
        As the user says it.
    columns : list of str
        All columns of the table.
    taken : set of str
        Columns that are something else, which no pattern matches.

    Returns
    -------
    dict
        From channels to columns; all channels have the same number.

    Examples
    --------
    >>> wide_columns("a15:a17", ["id", "a15", "a16", "a17"], {"id"})
    {'state': ['a15', 'a16', 'a17']}
    >>> wide_columns({"work": "w*", "home": "h*"}, ["w1", "w2", "h1", "h2"], set())
    {'work': ['w1', 'w2'], 'home': ['h1', 'h2']}
    """
    by_channel = dict(wide) if isinstance(wide, Mapping) else {CHANNEL: wide}
    found = {name: _found(spec, columns, taken) for name, spec in by_channel.items()}
    if len({len(names) for names in found.values()}) > 1:
        sizes = ", ".join(f"{name}: {len(names)}" for name, names in found.items())
        raise InputError("the channels of {wide} differ in their number of columns ({sizes})", sizes=sizes)
    return found


def _found(spec: str | Iterable[str], columns: list[str], taken: set[str]) -> list[str]:
    parts = [spec] if isinstance(spec, str) and spec in columns else _parts(spec)
    chosen = [name for part in parts for name in _matching(part, columns, taken)]
    if len(set(chosen)) < len(chosen):
        twice = next(name for k, name in enumerate(chosen) if name in chosen[:k])
        raise InputError("{wide} names column {twice!r} twice", twice=twice)
    return chosen


def _parts(spec: str | Iterable[str]) -> list[str]:
    return [part.strip() for part in spec.split(",")] if isinstance(spec, str) else list(spec)


def _matching(part: str, columns: list[str], taken: set[str]) -> list[str]:
    if part in columns:
        return [part]
    first, colon, last = part.partition(":")
    if first in columns and last in columns:
        low, high = columns.index(first), columns.index(last)
        if low <= high:
            return columns[low : high + 1]
        raise InputError("{wide} goes from {first!r} back to {last!r}", "swap them", first=first, last=last)
    if colon and (first in columns or last in columns):
        missing = last if first in columns else first
        raise InputError(
            "{wide} is {part!r}, but there is no column {missing!r}; the columns are {columns}",
            part=part, missing=missing, columns=shortened(columns),
        )  # fmt: skip
    found = [name for name in columns if name not in taken and fnmatch.fnmatchcase(name, part)]
    if not found:
        raise InputError(
            "no column matches {part!r} of {wide}; the columns are {columns}",
            "Give a range 'first:last', a pattern such as 'wave*', or a list of columns",
            part=part, columns=shortened(columns),
        )  # fmt: skip
    return found


class WideRows:
    """The rows of a wide table as they are read.

    Parameters
    ----------
    columns : dict
        From channels to their columns.
    names : dict
        For channels of categories, the names of these, or None to collect them.
    other : str, optional
        What categories that are not among the names become.
    comma : bool
        Whether decimals have commas.
    """

    def __init__(
        self,
        columns: dict[str, list[str]],
        names: Mapping[str, tuple[str, ...] | None],
        other: str | None = None,
        comma: bool = False,
    ) -> None:
        self._columns, self._comma = columns, comma
        self._coders = {channel: Coder(own, other) for channel, own in names.items()}
        self._frames: list[FloatArray] = []

    def add(self, table: Mapping[str, Any]) -> int:
        """Take some rows and return their number; a bad cell raises `BadCellError`, with the column in its error."""
        channels = []
        for channel, columns in self._columns.items():
            channels.append(np.column_stack([self._column(channel, name, table[name]) for name in columns]))
        self._frames.append(np.stack(channels, axis=2))
        return len(channels[0])

    def _column(self, channel: str, column: str, values: Any) -> FloatArray:
        try:
            if channel not in self._coders:
                return cells.numbers(values, self._comma)
            coder = self._coders[channel]
            try:
                return coder.add(values)
            except KeyError as fault:
                at = list(values).index(fault.args[0])
                raise BadCellError(at, unknown_category(fault.args[0], coder)) from None
        except BadCellError as fault:
            raise BadCellError(fault.index, fault.error.at(None, None, column)) from None

    def table(self, keys: list[Any], groups: list[Any] | None, weights: FloatArray | None) -> Table:
        """Return the sequences; the missing cells at the end of a row are after its end."""
        cube = np.concatenate(self._frames)
        channels = Channels(tuple(self._columns), (None,) * len(self._columns))
        for k, coder in enumerate(map(self._coders.get, self._columns)):
            if coder is not None:
                cube[:, :, k] = coder.final(cube[:, :, k])
                channels = channels.with_categories({k: coder.names})
        present = np.asarray(~np.isnan(cube).all(axis=2))
        lengths = np.where(present.any(axis=1), present.shape[1] - present[:, ::-1].argmax(axis=1), 0)
        if not lengths.all():
            problem = "sequence {key!r} has no value in any of its columns"
            raise InputError(problem, "drop its row", key=keys[int(np.argmin(lengths))])
        X = cube[np.arange(cube.shape[1]) < lengths[:, None]]
        return Table(X, lengths.astype(np.int64), keys, groups, channels, weights)


def checked_row_weights(column: str, values: FloatArray) -> FloatArray:
    """Return case weights, one per row, or refuse them."""
    bad = ~(np.isfinite(values) & (values >= 0))
    if bad.any():
        row = int(np.argmax(bad))
        fault = CellError("has {value}; case weights are numbers from 0 on", "fill or correct it", value=values[row])
        raise BadCellError(row, fault.at(None, None, column))
    return values


def unique_keys(keys: list[Any]) -> None:
    """Refuse ids that two rows of a wide table share."""
    first: dict[Any, int] = {}
    for row, key in enumerate(keys):
        if first.setdefault(key, row) != row:
            problem = "rows {i} and {j} both have the id {key!r}; in a wide table, each row is a sequence"
            cure = "Choose another {id}, or {id:[]} to number the rows"
            raise InputError(problem, cure, i=first[key] + 1, j=row + 1, key=key)
