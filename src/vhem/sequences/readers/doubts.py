"""What looks wrong in a table that could be read: codes of missing values, constant columns, one row per series."""

from __future__ import annotations

import numpy as np

from vhem._support.arrays import FloatArray
from vhem._support.errors import Count, InputError, InputWarning, warn
from vhem.sequences.channels import quoted
from vhem.sequences.container import Sequences
from vhem.sequences.readers.options import Reading
from vhem.sequences.readers.roles import shortened

_NINES = [float(sign * (10**k - 1)) for k in range(2, 10) for sign in (-1, 1)]  # ±99, ±999, …
_CODES = np.array([*_NINES, -(2.0**15), -(2.0**31)])
_FEW = 3  # with fewer rows or sequences, nothing is surprising


def warn_of_doubts(reading: Reading) -> None:
    """Warn about what a reader cannot know to be wrong, but a user would want to know."""
    sequences, names = reading.sequences, reading.roles.values
    single = len(sequences) >= _FEW and sequences.lengths.max() == 1
    if single and len(reading.roles.guessed) >= _FEW:
        _refuse_wide(len(sequences), list(reading.roles.guessed))
    if reading.roles.guessed:
        _warn_of_guessed(sequences, reading.roles.guessed)
    if single:
        _warn_of_single_frames(len(sequences), reading.roles.id)
    low, high = np.fmin.reduce(sequences.X), np.fmax.reduce(sequences.X)  # NaN if a column has no value
    constant = np.flatnonzero((low == high) & (len(sequences.X) >= _FEW))
    if len(constant):
        warn(
            InputWarning(
                "{n:column|columns} {columns} {n:has|have} the same value in every row, and so {n:carries|carry} no "
                "information",
                "list only the others in {values}",
                n=Count(len(constant)),
                columns=shortened([names[j] for j in constant]),
            )
        )
    categories = sequences.categories
    numeric = np.array([name not in categories for name in sequences.channels])
    for edge in (low, high):
        for j in np.flatnonzero(np.isin(edge, _CODES) & (low < high) & numeric):
            _warn_of_code(sequences.X[:, j], edge[j], names[j])


def _refuse_wide(n: int, columns: list[str]) -> None:
    raise InputError(
        "each of the {n:sequence} has a single row, with text in {k} columns, {columns}: this looks like a table with"
        " one row per sequence",
        "name the columns of the sequences with {wide}, as a range {first}:{last}",
        "if each row is an observation, choose {id} so that the rows of a sequence share it, and name the columns of "
        "{categories}",
        n=Count(n), k=len(columns), columns=shortened(columns), first=columns[0], last=columns[-1],
    )  # fmt: skip


def _warn_of_guessed(sequences: Sequences, columns: tuple[str, ...]) -> None:
    for name in columns:
        warn(
            InputWarning(
                "column {column!r} holds text and is read as {n} categories: {names}",
                "name it in {categories} if this is right, and leave it out of {values} otherwise",
                column=name, n=len(sequences.categories[name]), names=quoted(sequences.categories[name]),
            )
        )  # fmt: skip


def _warn_of_single_frames(n: int, id_columns: list[str]) -> None:
    warn(
        InputWarning(
            "each of the {n:sequence} (by {columns}) has a single frame. A table has one row per frame",
            "Choose {id} so that the rows of a sequence share it. If each row is a whole sequence, name its columns "
            "with {wide}, as a range first:last or a pattern",
            n=Count(n), columns=shortened(id_columns) or "file",
        )
    )  # fmt: skip


def _warn_of_code(column: FloatArray, code: float, name: str) -> None:
    """Warn if a value repeats and lies farther out than the others spread, or is the only negative one."""
    n = int((column == code).sum())
    others = column[(column != code) & ~np.isnan(column)]
    low, high = others.min(), others.max()
    gap = low - code if code < low else code - high
    if n > 1 and (gap > high - low or code < 0 <= low):
        warn(
            InputWarning(
                "column {column!r} is {code:g} in {n} rows, and between {low:g} and {high:g} in the others",
                "if that means a missing value, leave those cells empty",
                column=name, code=code, n=n, low=low, high=high,
            )
        )  # fmt: skip
