"""What is wrong with a table, in the page's words: every cell that cannot be read, with its row, and the ways out."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from vhem._support.errors import CellError, Explained
from vhem.app.tables import cell_chunks, table_rows
from vhem.files.atomic import atomic_write
from vhem.sequences.readers import cells
from vhem.sequences.readers.options import Options
from vhem.sequences.readers.wide import wide_columns

_LISTED = 20  # cells listed
_IN_PAGE = {
    "id": "the role “sequence”",
    "time": "the role “time”",
    "values": "the role “value”",
    "group": "the role “person”",
    "encoding": "encoding",
    "sheet": "sheet",
    "decimal": "decimal sign",
    "categories": "the role “category”",
    "weights": "the role “weight”",
    "wide": "the series",
}


def naming(name: str, value: str | None) -> str | None:
    """Return what the page calls a parameter.

    Examples
    --------
    >>> naming("id", None), naming("id", "[]"), naming("n_jobs", None)
    ('the role “sequence”', '“all rows are one sequence”', None)
    """
    if name == "id" and value == "[]":
        return "“all rows are one sequence”"
    shown = _IN_PAGE.get(name)
    return shown if shown is None or value is None else f"{shown} {value.strip(chr(39))}"


def named_in_page(message: Any, path: Path) -> str:
    """Return a message in the page's words, without the folder that a table is kept in."""
    text = message.told(naming) if isinstance(message, Explained) else str(message)
    text = " ".join(text.split()).replace(f"{path.parent}/", "")
    return text if text.startswith(path.name) else text[:1].upper() + text[1:]


def problem_of(fault: BaseException, path: Path, options: Options) -> dict[str, Any]:
    """Return what is wrong, and if it is a cell that is not a number, all such cells."""
    found: dict[str, Any] = {"text": named_in_page(fault, path), "cells": [], "more": 0}
    if isinstance(fault, CellError) and fault.row is not None and fault.column is not None:
        bad = bad_cells(path, options, fault.column)
        found |= {"cells": bad[:_LISTED], "more": max(0, len(bad) - _LISTED)}
    return found


def bad_cells(path: Path, options: Options, column: str) -> list[dict[str, Any]]:
    """Return the cells that are not numbers: row, column and content, of a column or of all that are like it."""
    rows = table_rows(path, options)
    if rows is None:
        return []
    if column not in rows.columns:  # it is in a table that is joined to this one
        return []
    chosen = _alike(options, rows.columns) or [column]
    found, seen = [], 0
    for chunk in cell_chunks(rows):
        for name in dict.fromkeys([column, *chosen]):
            cells_of = chunk[rows.columns.index(name)]
            found += [
                {"row": rows.number(seen + i), "column": name, "value": cells.quoted(cell)}
                for i, cell in enumerate(cells_of)
                if not _is_number(cell, options.decimal == ",")
            ]
        seen += len(chunk[0])
    return sorted(found, key=lambda cell: cell["row"])


def _alike(options: Options, columns: list[str]) -> list[str]:
    """Return the columns of values, as far as they are said."""
    if options.wide:
        return [name for own in wide_columns(options.wide, columns, set()).values() for name in own]
    return [] if options.values is None or isinstance(options.values, str) else list(options.values)


def emptied(path: Path, options: Options, bad: list[dict[str, Any]], target: Path) -> None:
    """Write a copy of a table, as csv, in which some cells are empty."""
    rows = table_rows(path, options)
    assert rows is not None
    places = {(cell["row"], cell["column"]) for cell in bad}
    with atomic_write(target, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(rows.columns)
        seen = 0
        for chunk in cell_chunks(rows):
            for i, row in enumerate(zip(*chunk, strict=True)):
                number = rows.number(seen + i)
                writer.writerow(
                    "" if (number, name) in places else cell for name, cell in zip(rows.columns, row, strict=True)
                )
            seen += len(chunk[0])


def _is_number(cell: Any, comma: bool) -> bool:
    try:
        return not abs(cells.number(cell, comma)) > cells.LARGEST
    except CellError:
        return False
