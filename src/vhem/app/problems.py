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
from vhem.sequences.readers.roles import given_or_guessed
from vhem.sequences.readers.wide import wide_columns

_LISTED = 20  # cells listed
_SAMPLE = 2000  # rows that say what a column holds
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


_REPHRASED = {  # where the page has another way than the command
    "give the column as the role": "give the column the role",
    "name it in the role “category” if this is right, and leave it out of the role “value” otherwise": (
        "if this is wrong, choose another role below"
    ),
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
    for command, page in _REPHRASED.items():
        text = text.replace(command, page)
    return text if text.startswith(path.name) else text[:1].upper() + text[1:]


def problem_of(fault: BaseException, path: Path, options: Options) -> dict[str, Any]:
    """Return what is wrong, and if it is a cell that is not a number, all such cells."""
    found: dict[str, Any] = {"text": named_in_page(fault, path), "cells": [], "more": 0}
    if isinstance(fault, CellError) and fault.row is not None and fault.column is not None:
        bad = bad_cells(path, options, fault.column)
        found |= {"cells": bad[:_LISTED], "more": max(0, len(bad) - _LISTED)}
    return found


def bad_cells(path: Path, options: Options, column: str) -> list[dict[str, Any]]:
    """Return the cells that are not numbers: row, column and content, of a column and of all other values."""
    rows = table_rows(path, options)
    if rows is None or column not in rows.columns:  # it is in a table that is joined to this one
        return []
    found, seen, chosen, comma = list[dict[str, Any]](), 0, [column], False
    for chunk in cell_chunks(rows):
        if not seen:
            sample = {name: own[:_SAMPLE] for name, own in zip(rows.columns, chunk, strict=True)}
            chosen = list(dict.fromkeys([column, *_alike(options, sample)]))
            comma = _has_commas(options, [sample[name] for name in chosen])
        for name in chosen:
            found += [
                {"row": rows.number(seen + i), "column": name, "value": cells.quoted(cell)}
                for i, cell in enumerate(chunk[rows.columns.index(name)])
                if not _is_number(cell, comma)
            ]
        seen += len(chunk[0])
    return sorted(found, key=lambda cell: cell["row"])


def _alike(options: Options, sample: dict[str, Any]) -> list[str]:
    """Return the columns of values: those that were chosen, or that the reader would choose."""
    if options.wide:
        return [name for own in wide_columns(options.wide, list(sample), set()).values() for name in own]
    if options.values is not None and not isinstance(options.values, str):
        return list(options.values)
    numeric = {name: cells.looks_numeric(own) for name, own in sample.items()}
    try:
        roles = given_or_guessed(list(sample), numeric.__getitem__, *options[:4])
    except Explained:
        return []
    return [name for name in roles.values if numeric[name]]


def _has_commas(options: Options, columns: list[Any]) -> bool:
    """Whether decimals have commas, as the reader decides it."""
    return options.decimal == "," or (options.decimal == "auto" and any(map(cells.has_decimal_commas, columns)))


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
