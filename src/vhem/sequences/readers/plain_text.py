"""Text without quotes: cut into numbers and names by the compiled kernel, or into cells if that meets a surprise."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from vhem._support.arrays import FloatArray, IntArray
from vhem.kernels import compiled
from vhem.sequences.readers import cells
from vhem.sequences.readers.blocks import Block, Columns

NOTHING, NUMBER, TIME, NAME = "nothing", "number", "time", "name"  #: what a column is cut into; every row has a time


class PlainText:
    """Whole lines without quotes, to be cut once it is known what their cells hold.

    Parameters
    ----------
    text : str
        The lines.
    delimiter : str
        One character, between cells.
    width : int
        Cells per line.
    """

    def __init__(self, text: str, delimiter: str, width: int) -> None:
        self.text, self.delimiter, self.width = text.replace("\r\n", "\n"), delimiter, width
        self.n_rows = self.text.count("\n")

    def cells(self) -> Block:
        """Return the cells as columns, or row by row if a line has too few or too many."""
        # A mark before the first cell of each line: if every width-th cell has the mark, all lines have that width.
        found = self.text[:-1].replace("\n", f"{self.delimiter}\n").split(self.delimiter)
        first = "".join(found[:: self.width]) + "\n" if self.width else ""
        whole = len(found) == self.n_rows * self.width and first.count("\n") == self.n_rows
        if whole and found[0] and "\n\n" not in first and "\r" not in self.text:  # no line begins with an empty cell
            columns: Columns = [found[k :: self.width] for k in range(self.width)]
            columns[0] = [found[0], *(cell[1:] for cell in columns[0][1:])]
            return Block(self.n_rows, columns, [])
        rows = list(csv_rows(io.StringIO(self.text, newline=""), self.delimiter))
        return Block(len(rows), None, rows)


class Cut(NamedTuple):
    """The rows of a text as numbers."""

    values: FloatArray  #: (rows, columns of numbers)
    codes: IntArray  #: (rows, columns of names)

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return len(self.values)


class Cutter:
    """Cuts text into numbers and the numbers of names.

    Parameters
    ----------
    kinds : list of str
        What each column is cut into.
    comma : bool
        Whether decimals are written with a comma.
    numbered : sequence of callables
        One per column of names, in order: returns the number of a spelling, or −1 if it cannot be a name.
    """

    def __init__(self, kinds: list[str], comma: bool, numbered: Sequence[Callable[[str], int]]) -> None:
        self._decimal = "," if comma else "."
        self._names = [compiled.names(numbers) for numbers in numbered]
        is_name = np.array([kind == NAME for kind in kinds])
        self._kinds = np.where(is_name, np.cumsum(is_name), [-(kind == NOTHING) for kind in kinds]).astype(np.int64)
        self._time = [kind == TIME for kind in kinds if kind in (NUMBER, TIME)]

    def cut(self, lines: PlainText) -> Cut | None:
        """Return the rows of some lines, or None if anything about them is out of the ordinary."""
        if "\r" in lines.text or lines.delimiter == self._decimal:
            return None
        unnamed = np.full(lines.width - len(self._kinds), -1)  # cells behind the last named column
        kinds = np.concatenate([self._kinds, unnamed])
        values = np.empty((lines.n_rows, int((self._kinds == 0).sum())))
        codes = np.empty((lines.n_rows, len(self._names)), np.int64)
        whole = compiled.cut_text(
            lines.text, lines.delimiter, self._decimal, cells.LARGEST, kinds, self._names, values, codes
        )
        return Cut(values, codes) if whole and not np.isnan(values[:, self._time]).any() else None


def csv_rows(lines: Iterable[str], delimiter: str) -> Iterator[list[str]]:
    """Yield the cells of each line, by the rules of csv."""
    return csv.reader(lines, delimiter=delimiter, skipinitialspace=True)
