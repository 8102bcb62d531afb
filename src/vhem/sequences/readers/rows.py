"""Tables as rows of cells, some thousand at a time: delimited text and spreadsheets."""

from __future__ import annotations

import bisect
import csv
import gzip
import io
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

from vhem._support.optional import how_to_install

_ROWS = 10_000  # at a time, where text has quotes
_CHARACTERS = 1 << 20  # at a time, where it has none
_DELIMITERS = "\t;,|"


Columns = list[Sequence[Any]]


class Block(NamedTuple):
    """Some rows of a file: as columns where all is in order, else row by row."""

    n_rows: int
    columns: Columns | None
    rows: list[list[Any]]


class Rows:
    """The rows of a table, to be gone through once, in chunks.

    Parameters
    ----------
    path : Path
        For messages.
    blocks : iterator of Block
        The first blocks have one row each, up to the names of the columns.
    """

    def __init__(self, path: Path, blocks: Iterator[Block]) -> None:
        self.path = path
        self._blocks = blocks
        self._segments: list[tuple[int, int]] = []  # (index of a row of data, its number in the file)
        self._n_rows = 0
        self._number = 0
        self.columns = self._header()

    def _header(self) -> list[str]:
        for block in self._blocks:
            self._number += 1
            (row,) = block.rows
            if any(cell not in ("", None) for cell in row):
                break
        else:
            raise ValueError(f"{self.path} is empty.")
        while row and row[-1] in ("", None):
            row = row[:-1]
        names = [str(cell).strip() or f"(unnamed {k + 1})" for k, cell in enumerate(row)]
        if all(_is_number(name) for name in names):
            raise ValueError(
                f"{self.path} has no header: its first row is {', '.join(names[:6])}. Write the columns' names there."
            )
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise ValueError(f"{self.path} has two columns named {twice[0]!r}; rename one of them.")
        return names

    def chunks(self) -> Iterator[Columns]:
        """Yield the columns of some thousand rows at a time."""
        for block in self._blocks:
            begin = self._number + 1
            self._number += block.n_rows
            if block.columns is not None:
                self._count(begin, block.n_rows)
                yield block.columns
                continue
            kept = []
            for number, row in enumerate(block.rows, begin):
                if any(cell not in ("", None) for cell in row):
                    self._check_width(number, row, len(self.columns))
                    self._count(number, 1)
                    kept.append(row[: len(self.columns)])
            if kept:
                yield list(zip(*kept, strict=True))

    def _count(self, number: int, n: int) -> None:
        """Note that n rows of data begin at this row of the file."""
        if not self._segments or number != self._segments[-1][1] + self._n_rows - self._segments[-1][0]:
            self._segments.append((self._n_rows, number))
        self._n_rows += n

    def _check_width(self, number: int, row: list[Any], width: int) -> None:
        if len(row) < width or any(cell not in ("", None) for cell in row[width:]):
            raise ValueError(
                f"{self.path}, row {number}: {len(row)} cells instead of {width} ({', '.join(map(str, row[:8]))}). Is "
                "a delimiter missing, or a decimal comma taken for one?"
            )

    def place(self, index: int) -> str:
        """Return where the row of data of this index is in the file, the header being row 1."""
        first, number = self._segments[bisect.bisect_right(self._segments, (index, 1 << 62)) - 1]
        return f"row {number + index - first}"


def _is_number(text: str) -> bool:
    try:
        float(text.replace(",", "."))
    except ValueError:
        return False
    return True


def open_text(path: Path, encoding: str | None) -> IO[str]:
    """Open a text, compressed or not, in UTF-8 (or UTF-16 where it begins like that) unless an encoding is given."""
    opener: Any = gzip.open if path.suffix == ".gz" else open
    if encoding is None:
        with opener(path, "rb") as file:
            start = file.read(2)
        encoding = "utf-16" if start in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    text: IO[str] = opener(path, "rt", encoding=encoding, newline="")
    return text


def delimited_blocks(path: Path, encoding: str | None) -> Iterator[Block]:
    """Yield the rows of a csv or tsv; what separates cells is seen in the header."""
    with open_text(path, encoding) as file:
        try:
            first = file.readline()
            while first and not first.strip():
                yield Block(1, None, [[]])
                first = file.readline()
            delimiter = max(_DELIMITERS, key=_outside_quotes(first).count)
            header = next(csv.reader(itertools.chain([first], file), delimiter=delimiter), [])
            yield Block(1, None, [header])
            yield from _text_blocks(file, delimiter, len(header))
        except UnicodeDecodeError as fault:
            raise ValueError(
                f"{path} is not in UTF-8: byte {fault.object[fault.start]:#x} stands for nothing there. Give its "
                "encoding, often 'cp1252' for files from Windows, or save it as UTF-8."
            ) from None
        except csv.Error as fault:
            raise ValueError(f"{path} cannot be read as a table: {fault}. Is it really text?") from None


def _text_blocks(file: IO[str], delimiter: str, width: int) -> Iterator[Block]:
    """Yield the rest of a text: cut at once where it has no quotes, by the csv module from the first quote on."""
    tail = ""
    while text := file.read(_CHARACTERS):
        text = tail + text
        if '"' in text:
            lines = itertools.chain(io.StringIO(text + file.readline(), newline=""), file)
            yield from _row_blocks(csv.reader(lines, delimiter=delimiter, skipinitialspace=True))
            return
        cut = text.rfind("\n") + 1
        text, tail = text[:cut], text[cut:]
        if text:
            yield _plain_block(text, delimiter, width)
    if tail:
        yield _plain_block(tail + "\n", delimiter, width)


def _plain_block(text: str, delimiter: str, width: int) -> Block:
    """Return whole lines without quotes as columns, or row by row where a line has too few or too many cells."""
    text = text.replace("\r\n", "\n")
    n = text.count("\n")
    # A mark before the first cell of each line: if every width-th cell has the mark, all lines have that width.
    cells = text[:-1].replace("\n", f"{delimiter}\n").split(delimiter)
    first = "".join(cells[::width]) + "\n" if width else ""
    whole = len(cells) == n * width and first.count("\n") == n
    if whole and cells[0] and "\n\n" not in first and "\r" not in text:  # and no line begins with an empty cell
        columns: Columns = [cells[k::width] for k in range(width)]
        columns[0] = [cells[0], *(cell[1:] for cell in columns[0][1:])]
        return Block(n, columns, [])
    rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=True))
    return Block(len(rows), None, rows)


def _row_blocks(rows: Iterator[list[Any]]) -> Iterator[Block]:
    while some := list(itertools.islice(rows, _ROWS)):
        yield Block(len(some), None, some)


def _outside_quotes(line: str) -> str:
    return "".join(line.split('"')[::2])


def spreadsheet_blocks(path: Path, sheet: str | int) -> Iterator[Block]:
    """Yield the rows of a sheet of an xls, xlsx, xlsb or ods file."""
    try:
        from python_calamine import CalamineError, CalamineWorkbook, WorksheetNotFound  # noqa: PLC0415  (an extra)
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            f"spreadsheets are read by python-calamine, which is not installed: {how_to_install('tables')}. "
            "Or save the sheet as csv."
        ) from None
    try:
        book = CalamineWorkbook.from_path(str(path))
    except CalamineError as fault:
        raise ValueError(f"{path} cannot be read as a spreadsheet: {fault}") from None
    try:
        opened = book.get_sheet_by_index(sheet) if isinstance(sheet, int) else book.get_sheet_by_name(sheet)
    except WorksheetNotFound:
        raise ValueError(f"{path} has no sheet {sheet!r}; it has {', '.join(map(repr, book.sheet_names))}.") from None
    rows = iter(opened.to_python(skip_empty_area=False))
    for row in rows:
        yield Block(1, None, [row])
        if any(cell not in ("", None) for cell in row):
            break
    yield from _row_blocks(rows)
