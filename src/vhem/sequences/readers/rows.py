"""Tables as rows of cells, some thousand at a time: the header, and where in the file each row of data is."""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from vhem._support.errors import InputError
from vhem.sequences.readers.blocks import Block, Columns
from vhem.sequences.readers.plain_text import Cut, Cutter, PlainText


class Rows:
    """The rows of a table, to be read once, in chunks.

    Parameters
    ----------
    path : Path
        For messages.
    blocks : iterator of Block or PlainText
        The first blocks have one row each, up to the names of the columns.

    Attributes
    ----------
    cutter : Cutter or None
        What plain text is cut by, once it is known what the columns hold.
    """

    def __init__(self, path: Path, blocks: Iterator[Block | PlainText]) -> None:
        self.path = path
        self.cutter: Cutter | None = None
        self._blocks = blocks
        self._segments: list[tuple[int, int]] = []  # (index of a row of data, its number in the file)
        self._n_rows = 0
        self._number = 0
        self.columns = self._header()

    def _header(self) -> list[str]:
        for block in self._blocks:
            self._number += 1
            assert isinstance(block, Block), "the header is read row by row"
            (row,) = block.rows
            if not is_blank(row):
                break
        else:
            raise InputError("{path} is empty", path=self.path)
        while is_blank(row[-1:]):
            row = row[:-1]
        names = [str(cell).strip() or f"(unnamed {k + 1})" for k, cell in enumerate(row)]
        if all(map(_is_number, names)):
            problem = "{path} has no header: its first row is {first}"
            raise InputError(problem, "Write the columns' names there", path=self.path, first=", ".join(names[:6]))
        often, n = Counter(names).most_common(1)[0]
        if n > 1:
            problem = "{path} has two columns named {column!r}"
            raise InputError(problem, "rename one of them", path=self.path, column=often)
        return names

    def chunks(self) -> Iterator[Columns | Cut]:
        """Yield some thousand rows at a time: their columns, or the numbers that the cutter made of them."""
        for raw in self._blocks:
            begin = self._number + 1
            block = self._cut_or_cells(raw) if isinstance(raw, PlainText) else raw
            self._number += block.n_rows
            if isinstance(block, Cut):
                self._count(begin, block.n_rows)
                yield block
            elif block.columns is not None:
                self._count(begin, block.n_rows)
                yield block.columns
            elif kept := self._whole_rows(begin, block.rows):
                yield list(zip(*kept, strict=True))

    def _cut_or_cells(self, text: PlainText) -> Cut | Block:
        return (self.cutter and self.cutter.cut(text)) or text.cells()

    def _whole_rows(self, begin: int, rows: list[list[Any]]) -> list[list[Any]]:
        """Return the rows with cells in them, if they have as many as there are columns."""
        kept = []
        for number, row in enumerate(rows, begin):
            if not is_blank(row):
                self._check_width(number, row, len(self.columns))
                self._count(number, 1)
                kept.append(row[: len(self.columns)])
        return kept

    def _count(self, number: int, n: int) -> None:
        """Note that n rows of data begin at this row of the file."""
        if not self._segments or number != self._segments[-1][1] + self._n_rows - self._segments[-1][0]:
            self._segments.append((self._n_rows, number))
        self._n_rows += n

    def _check_width(self, number: int, row: list[Any], width: int) -> None:
        if len(row) < width or not is_blank(row[width:]):
            raise InputError(
                "{path}, row {row}: {n} cells instead of {width} ({first})",
                "Is a delimiter missing, or was a decimal comma read as one?",
                path=self.path, row=number, n=len(row), width=width, first=", ".join(map(str, row[:8])),
            )  # fmt: skip

    def number(self, index: int) -> int:
        """Return which row of the file the row of data of this index is, the header being row 1."""
        first, number = self._segments[bisect.bisect_right(self._segments, (index, 1 << 62)) - 1]
        return number + index - first


def is_blank(row: list[Any]) -> bool:
    """Whether a row has no cell with anything in it."""
    return all(cell is None or (isinstance(cell, str) and not cell.strip()) for cell in row)


def _is_number(text: str) -> bool:
    try:
        float(text.replace(",", "."))
    except ValueError:
        return False
    return True
