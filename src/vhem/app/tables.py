"""Tables of cells as the readers see them, row by row."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from vhem.app.settings import series
from vhem.sequences.readers.blocks import Columns
from vhem.sequences.readers.delimited import delimited_blocks
from vhem.sequences.readers.options import SPREADSHEETS, TEXT, Options, extension
from vhem.sequences.readers.rows import Rows
from vhem.sequences.readers.spreadsheet import spreadsheet_blocks


def table_rows(path: Path, options: Options) -> Rows | None:
    """Return the rows of a table, to be read once; None if the file is not a table of cells."""
    if extension(path) in TEXT:
        return Rows(path, delimited_blocks(path, options.encoding))
    if extension(path) in SPREADSHEETS:
        return Rows(path, spreadsheet_blocks(path, options.sheet))
    return None


def cell_chunks(rows: Rows) -> Iterator[Columns]:
    """Yield the cells of some thousand rows at a time, column by column."""
    for chunk in rows.chunks():
        assert isinstance(chunk, list), "rows without a cutter are cells"
        yield chunk


def reading_options(roles: dict[str, Any], folder: Path = Path()) -> Options:
    """Return what the user says about a table's columns, as the readers take it; joined tables are in `folder`."""
    return Options(
        id=[] if roles.get("one_sequence") else roles.get("id"),
        time=roles.get("time"),
        values=roles.get("values"),
        group=roles.get("group"),
        decimal=roles.get("decimal") or "auto",
        encoding=roles.get("encoding"),
        sheet=roles.get("sheet") or 0,
        categories=roles.get("categories"),
        weights=roles.get("weights"),
        wide=series(roles),
        join=tuple(folder / name for name in roles.get("join", [])),
    )
