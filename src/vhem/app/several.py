"""Several files of one study: put below one another in one table, or joined if they are about the same sequences."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from vhem._support.errors import Explained
from vhem.app.problems import named_in_page
from vhem.app.settings import ChoiceError
from vhem.app.store import Record, Store
from vhem.app.tables import cell_chunks, reading_options, table_rows
from vhem.files.atomic import atomic_write
from vhem.sequences.readers import cells
from vhem.sequences.readers.options import without_extension
from vhem.sequences.readers.roles import given_or_guessed

_SAMPLE = 2000  # rows that say what a column holds
_LONGEST_NAME = 120


def stacked(paths: list[Path], names: list[str], target: Path) -> dict[str, Any]:
    """Write tables with the same columns below one another, with a column that says which file; return roles.

    Parameters
    ----------
    paths : list of Path
        The tables.
    names : list of str
        What the user calls them.
    target : Path
        The csv to write.

    Returns
    -------
    dict
        Roles of columns: files are people if the numbering of sequences begins again in each, and sequences if nothing
        else identifies these. Empty if the columns speak for themselves.
    """
    column, header, roles, seen = "file", list[str](), dict[str, Any](), dict[tuple[str, ...], str]()
    with atomic_write(target, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        for path, name in zip(paths, _titles(names), strict=True):
            for columns, chunk in _chunks(path, name):
                if not header:
                    header, column = columns, _free("file", columns)
                    writer.writerow([column, *header])
                    roles = _guess(columns, chunk)
                if columns != header:
                    raise ChoiceError(_OTHER_COLUMNS.format(name=name, own=", ".join(columns), all=", ".join(header)))
                writer.writerows([name, *row] for row in zip(*chunk, strict=True))
                for key in set(zip(*(chunk[header.index(one)] for one in roles.get("id", [])), strict=True)):
                    roles["repeats"] = seen.setdefault(key, name) != name or roles.get("repeats", False)
    if not roles.get("id"):
        return {"id": [column]}
    return {"id": [column, *roles["id"]], "group": column} if roles.get("repeats") else {}


_OTHER_COLUMNS = (
    "{name} has the columns {own}; the first file has {all}. Files that go below one another need the same columns. If "
    "they are about the same sequences, join them instead."
)


def _chunks(path: Path, name: str) -> Iterator[tuple[list[str], list[Any]]]:
    try:
        rows = table_rows(path, reading_options({}))
        if rows is None:
            raise ChoiceError(f"{name} is not a table of text or a spreadsheet: only these go below one another.")
        for chunk in cell_chunks(rows):
            yield list(rows.columns), list(chunk)
    except (Explained, OSError, ImportError) as fault:
        raise ChoiceError(named_in_page(fault, path)) from None


def _guess(columns: list[str], chunk: list[Any]) -> dict[str, Any]:
    """Return the columns that identify sequences, if they can be guessed."""
    numeric = {name: cells.looks_numeric(own[:_SAMPLE]) for name, own in zip(columns, chunk, strict=True)}
    try:
        return {"id": given_or_guessed(columns, numeric.__getitem__, None, None, None, None).id}
    except Explained:
        return {}


def _titles(names: list[str]) -> list[str]:
    """Return the names of files without their extensions, or with them if they would not differ."""
    short = [without_extension(Path(name)) for name in names]
    return short if len(set(short)) == len(short) else [f"{k + 1} {name}" for k, name in enumerate(names)]


def _free(name: str, taken: list[str]) -> str:
    return name if name not in taken else _free(f"{name} name", taken)


def join(store: Store, record: Record, other: Record) -> None:
    """Keep the file of another table beside that of a table, to be read with it."""
    source = store.table(other)
    target = record.folder / source.name
    while target.exists():
        target = target.with_name(f"{without_extension(target)}_2{target.name[len(without_extension(target)) :]}")
    shutil.copy(source, target)
    known = record.read()
    name = f"{known['name']} + {other.read()['name']}"
    record.update(joined=[*(known.get("joined") or []), target.name], name=name[:_LONGEST_NAME], facts=None)
