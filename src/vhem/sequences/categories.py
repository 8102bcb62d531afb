"""Categories to codes: names, which are text, become the numbers 0, 1, … that frames hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from vhem._support.arrays import FloatArray, IntArray
from vhem._support.errors import CellError, InputError, InputTypeError, ParameterError
from vhem.sequences.channels import Channels, are_numerals, checked_names, in_order, quoted
from vhem.sequences.readers.cells import is_missing, name
from vhem.sequences.readers.cells import quoted as shown

#: Which channels hold categories: all (True), some, or a dictionary from channels to the names of their categories.
Categories: TypeAlias = bool | str | Iterable[str | int] | Mapping[str | int, Iterable[Any] | None] | None


def wanted(categories: Categories, channels: Channels) -> dict[int, tuple[str, ...] | None]:
    """Return the channels that hold categories, with the names in the order of the codes if these are given.

    Examples
    --------
    >>> wanted({"x2": ["no", "yes"]}, Channels.unnamed(2))
    {1: ('no', 'yes')}
    """
    if categories is None or categories is False:
        return {}
    if categories is True:
        return dict.fromkeys(range(len(channels.names)))
    if isinstance(categories, Mapping):
        return {channels.place(c): None if names is None else checked_names(names) for c, names in categories.items()}
    return {channels.place(c): None for c in ([categories] if isinstance(categories, str) else categories)}


def named_categories(categories: Categories, columns: list[str]) -> dict[str, tuple[str, ...] | None]:
    """Return the same for columns of a table: those that hold categories, by name.

    Examples
    --------
    >>> named_categories("page,action", ["page", "action", "time"])
    {'page': None, 'action': None}
    """
    if isinstance(categories, str) and categories not in columns:
        categories = [part.strip() for part in categories.split(",")]
    found = wanted(categories, Channels(tuple(columns), (None,) * len(columns)))
    return {columns[k]: names for k, names in found.items()}


MISSING = 1 << 40  #: the code of a missing value where codes are integers


def as_floats(codes: IntArray) -> FloatArray:
    """Return codes as frames hold them: missing ones are NaN."""
    return np.where(codes == MISSING, np.nan, codes.astype(np.float64))


class Coder:
    """Values to codes, some at a time; names are collected, or given beforehand.

    Parameters
    ----------
    names : tuple of str, optional
        The names that are allowed, in the order of their codes; all if not given.
    other : str, optional
        What names that are not allowed become; without it they are an error.
    """

    def __init__(self, names: tuple[str, ...] | None = None, other: str | None = None) -> None:
        self._given, self._other = names, other
        if names is not None and other is not None and other not in names:
            names = (*names, other)
        self._codes: dict[str, int] = {} if names is None else {name: code for code, name in enumerate(names)}
        self._spelled: dict[Any, float] = {}  # as cells are written, missing ones included

    def add(self, values: Sequence[Any]) -> FloatArray:
        """Return the codes of some values, NaN for missing ones; the first one that is refused raises `KeyError`."""
        try:  # nearly always: everything was met before
            return np.fromiter(map(self._spelled.__getitem__, values), np.float64, len(values))
        except KeyError:
            pass
        for value in dict.fromkeys(values):
            if value not in self._spelled:
                self._spelled[value] = self._code(value)
        return np.fromiter(map(self._spelled.__getitem__, values), np.float64, len(values))

    def _code(self, value: Any) -> float:
        if is_missing(value):
            return np.nan
        called = name(value)
        if called in self._codes or self._given is None:
            return self._codes.setdefault(called, len(self._codes))
        if self._other is None:
            raise KeyError(value)
        return self._codes[self._other]

    def number(self, cell: str) -> int:
        """Return the code of a cell as the compiled kernel takes it: `MISSING`, or -1 if it is refused."""
        try:
            code = self._code(cell)
        except KeyError:
            return -1
        return MISSING if np.isnan(code) else int(code)

    @property
    def names(self) -> tuple[str, ...]:
        """The names, in the order that codes will have: as given, or sorted."""
        return tuple(self._codes) if self._given is not None else in_order(self._codes)

    def final(self, codes: FloatArray) -> FloatArray:
        """Return codes that were given as names appeared, in the order of `names`."""
        if self._given is not None or not self._codes:
            return codes
        place = {name: code for code, name in enumerate(self.names)}
        table = np.array([*(place[name] for name in self._codes), np.nan])  # the last for missing values
        return np.asarray(table[np.where(np.isnan(codes), -1, codes).astype(np.int64)])


def unknown_category(value: Any, coder: Coder) -> CellError:
    """Return the error about a cell whose category is not among those given."""
    return CellError(
        "has {shown}, which is not one of the categories {names}",
        "Correct the spelling", "add it to {categories}", "say with {other} what it counts as",
        value=value, shown=shown(value), names=quoted(coder.names),
    )  # fmt: skip


def encoded(parts: list[Any], channels: Iterable[str] | None, categories: Categories) -> tuple[list[Any], Channels]:
    """Return sequences of names as arrays of codes, and the channels.

    Text is looked up by name. Numbers are codes if the names of the categories are given and are words; otherwise they
    are names themselves.
    """
    arrays = [_two_axes(part) for part in parts]
    d = arrays[0].shape[1]
    made = Channels.unnamed(d) if channels is None else Channels(tuple(channels), (None,) * d)
    if any(array.shape[1] != d for array in arrays):
        return parts, made  # the error is the container's
    offsets = np.cumsum([len(array) for array in arrays])[:-1]
    columns: list[npt.NDArray[Any]] = []
    found: dict[int, tuple[str, ...] | None] = {}
    told = wanted(categories, made)
    for k in range(d):
        column = np.concatenate([array[:, k] for array in arrays])
        if k in told:
            codes, found[k] = _coded(column, told[k], made.names[k], offsets)
            columns.append(codes)
        else:
            columns.append(_numbers(column, made.names[k]))
    return np.split(np.column_stack(columns), offsets), made.with_categories(found)


def _two_axes(part: Any) -> npt.NDArray[Any]:
    array = np.asarray(part) if isinstance(part, np.ndarray) else np.asarray(part, dtype=object)
    array = array[:, None] if array.ndim == 1 else array
    if array.ndim != 2 or not array.size:
        raise InputError(
            "a sequence of categories has shape {shape}; it must be (T, d), or (T,) if d = 1", shape=array.shape
        )
    return array


def _coded(
    column: npt.NDArray[Any], names: tuple[str, ...] | None, channel: str, offsets: IntArray
) -> tuple[FloatArray, tuple[str, ...]]:
    if names is not None and not are_numerals(names) and _all_numbers(column):
        return checked_codes(np.asarray(column, np.float64), names, channel), names
    coder = Coder(names)
    try:
        codes = coder.add(column.tolist())
    except KeyError as fault:
        row = column.tolist().index(fault.args[0])
        i = int(np.searchsorted(offsets, row, side="right"))
        raise InputError(
            "sequence {i} has {value!r} in channel {channel!r}, whose categories are {names}",
            "Correct the spelling", "add it to {categories}",
            i=i, value=fault.args[0], channel=channel, names=quoted(names or ()),
        ) from None  # fmt: skip
    if not coder.names:
        raise InputError("channel {channel!r} has no value at all", "leave it out", channel=channel)
    return coder.final(codes), coder.names


def _all_numbers(column: npt.NDArray[Any]) -> bool:
    if column.dtype.kind in "fiu":
        return True
    return column.dtype.kind == "O" and all(isinstance(v, (int, float, np.number)) or v is None for v in column)


def checked_codes(codes: FloatArray, names: tuple[str, ...], channel: str) -> FloatArray:
    """Return codes that are whole numbers from 0 to the number of names, or NaN; or refuse them."""
    with np.errstate(invalid="ignore"):
        bad = ~np.isnan(codes) & ((codes < 0) | (codes >= len(names)) | (codes != np.floor(codes)))
    if bad.any():
        raise InputError(
            "channel {channel!r} has {value:g}, but its {n} categories have the codes 0 to {last}",
            "Give codes from 0 on", "the categories' names themselves",
            channel=channel, value=codes[np.argmax(bad)], n=len(names), last=len(names) - 1,
        )  # fmt: skip
    return codes


def _numbers(column: npt.NDArray[Any], channel: str) -> FloatArray:
    try:
        return np.asarray(column, dtype=np.float64)
    except (TypeError, ValueError) as fault:
        cure = "If it holds categories, list it in {categories}"
        raise InputTypeError(
            "channel {channel!r} is not numeric: {fault}", cure, channel=channel, fault=fault
        ) from None


def check_other(other: str | None) -> None:
    """Refuse a name of other categories that is not text."""
    if other is not None and (not isinstance(other, str) or not other):
        raise ParameterError("other", other, "must be the name of a category")
