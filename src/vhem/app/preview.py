"""What a table holds, as the page shows it before anything is run. Runs in a process of its own: see workers.py."""

from __future__ import annotations

import gzip
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from vhem._support.errors import Explained
from vhem.app.layouts import likely_series
from vhem.app.problems import named_in_page, problem_of
from vhem.app.tables import cell_chunks, reading_options, table_rows
from vhem.sequences import Sequences
from vhem.sequences.readers import cells
from vhem.sequences.readers.doubts import warn_of_doubts
from vhem.sequences.readers.options import PARQUET, SPREADSHEETS, TEXT, Options, Reading, extension
from vhem.sequences.readers.read import read_with_roles
from vhem.sequences.readers.roles import Roles, given_or_guessed

_HEAD = 8  # rows shown
_SAMPLE = 2000  # rows that say what a column holds
_LARGE = 4_000_000  # bytes of text from which on the head is read first
_PART = 1_000_000  # bytes of it
_DRAWN, _LONGEST, _CHANNELS = 12, 200, 8  # sequences, frames of each, channels
_BINS = 24


def look(path: Path, roles: dict[str, Any], whole: bool) -> dict[str, Any]:
    """Return what is in a table: its columns and first rows, what was understood, and what is wrong with it.

    Parameters
    ----------
    path : Path
        The table.
    roles : dict
        What the user says about its columns.
    whole : bool
        If not, only the beginning of a large text is read.
    """
    begin = time.perf_counter()
    partial = not (whole or roles.get("join")) and extension(path) in TEXT and path.stat().st_size > _LARGE
    found = _looked_at(path, roles, partial)
    likely = [list(one) for one in likely_series([column["name"] for column in found["columns"]])]
    if likely and not roles.keys() & _SAID and (found["problem"] or found["facts"]["longest"] == 1):
        wide = _looked_at(path, {**roles, "wide": likely}, partial)
        found = found if wide["problem"] else wide
    found["likely"] = likely
    found["seconds"] = round(time.perf_counter() - begin, 2)
    return found


_SAID = {"id", "time", "values", "group", "one_sequence", "categories", "wide", "long"}  # then nothing is guessed


def _looked_at(path: Path, roles: dict[str, Any], partial: bool) -> dict[str, Any]:
    options = reading_options(roles, path.parent)
    found: dict[str, Any] = {"partial": partial, "columns": [], "head": [], "notes": [], "problem": None}
    try:
        found |= _head(path, options)
        found["roles"] = _roles(found["columns"], options)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            reading = _read_part(path, options) if partial else read_with_roles(path, options)
            warn_of_doubts(reading)
        found["notes"] = [named_in_page(w.message, path) for w in caught]
        found |= _understood(reading)
        found["roles"] |= {name: roles[name] for name in ("wide", "join") if roles.get(name)}
        found["notes"] += _codes(found["channels"]) if roles.get("wide") else []
        if not roles.get("values") and not roles.get("wide"):  # otherwise they were left out on purpose
            found["notes"] += _unused(found["columns"], reading.roles.ignored or [])
    except (Explained, OSError, ValueError, TypeError, ImportError) as fault:
        found["problem"] = problem_of(fault, path, options)
    except MemoryError:
        found["problem"] = {"text": "The table is too large for this machine's memory.", "cells": []}
    return found


def _codes(channels: list[dict[str, Any]]) -> list[str]:
    """Return a note on each series of a wide table that may be one of categories written as numbers."""
    doubtful = [channel for channel in channels if channel["kinds"] and "categories" not in channel]
    return [
        f"Series “{channel['name']}” has only {channel['kinds']} different whole numbers. If they stand for kinds "
        "(1 = at school, 2 = at work), tick “categories” beside it."
        for channel in doubtful
    ]


def _unused(columns: list[dict[str, Any]], ignored: list[str]) -> list[str]:
    """Return a note on each column of text that has no role."""
    texts = [column["name"] for column in columns if not column["numeric"] and column["name"] in ignored]
    return [
        f"Column “{name}” holds text and is not used. If it says what was observed, give it the role “category”."
        for name in texts
    ]


def _head(path: Path, options: Options) -> dict[str, Any]:
    """Return the columns, what they hold, and the first rows; nothing for files without columns."""
    if extension(path) in PARQUET:
        return _parquet_head(path)
    rows = table_rows(path, options)
    if rows is None:
        return {}
    first = next(cell_chunks(rows), [])
    columns = [
        {"name": name, "numeric": cells.looks_numeric(column[:_SAMPLE])}
        for name, column in zip(rows.columns, first, strict=False)
    ]
    head = [[_shown(cell) for cell in row] for row in zip(*(column[:_HEAD] for column in first), strict=True)]
    return {"columns": columns, "head": head, "sheets": _sheets(path)}


def _roles(columns: list[dict[str, Any]], options: Options) -> dict[str, Any] | None:
    """Return the role of each column by what is known before reading: shown if reading fails."""
    numeric = {column["name"]: column["numeric"] for column in columns}
    if options.wide or options.join:
        return None
    try:
        return _told(given_or_guessed(list(numeric), numeric.__getitem__, *options[:4])) if columns else None
    except Explained:
        return None


def _told(roles: Roles) -> dict[str, Any]:
    return {
        "id": roles.id, "time": roles.time, "values": roles.values, "group": roles.group,
        "categories": list(roles.categories), "weights": roles.weights,
    }  # fmt: skip


def _parquet_head(path: Path) -> dict[str, Any]:
    try:
        import pyarrow.parquet as pq  # noqa: PLC0415  (an extra)

        batch = next(pq.ParquetFile(path).iter_batches(batch_size=_HEAD))
    except Exception:  # the reader says what is wrong, and in which words
        return {}
    kinds = [str(field.type) for field in batch.schema]
    numeric = [kind.startswith(("int", "uint", "float", "double", "halffloat", "bool")) for kind in kinds]
    columns = [{"name": name, "numeric": n} for name, n in zip(batch.schema.names, numeric, strict=True)]
    return {"columns": columns, "head": [[_shown(cell) for cell in row.values()] for row in batch.to_pylist()]}


def _sheets(path: Path) -> list[str]:
    """Return the names of a spreadsheet's sheets."""
    if extension(path) not in SPREADSHEETS:
        return []
    from python_calamine import CalamineWorkbook  # noqa: PLC0415  (an extra; the rows have been read by it)

    return list(CalamineWorkbook.from_path(str(path)).sheet_names)


def _shown(cell: Any) -> str:
    text = "" if cell is None else f"{cell:.6g}" if isinstance(cell, float) else str(cell)
    return text if len(text) <= 40 else text[:39] + "…"


def _read_part(path: Path, options: Options) -> Reading:
    """Read the first rows of a large text."""
    opener: Any = gzip.open if path.suffix.lower() == ".gz" else open
    with opener(path, "rb") as file:
        start = file.read(_PART)
    with tempfile.TemporaryDirectory() as folder:
        part = Path(folder) / path.name.removesuffix(".gz")
        part.write_bytes(start[: start.rfind(b"\n") + 1])
        return read_with_roles(part, options)


def _understood(reading: Reading) -> dict[str, Any]:
    """Return what was read, in numbers and for pictures."""
    sequences, roles = reading.sequences, reading.roles
    lengths, X = sequences.lengths, sequences.X
    return {
        "roles": _told(roles),
        "facts": {
            "sequences": len(sequences),
            "people": None if sequences.groups is None else len(set(sequences.groups)),
            "rows": len(X),
            "shortest": int(lengths.min()),
            "median": round(float(np.median(lengths))),
            "longest": int(lengths.max()),
            "missing": int(np.isnan(X).sum()),
        },
        "channels": [_channel(name, X[:, j], sequences.categories) for j, name in enumerate(roles.values[:60])],
        "lengths": _histogram(lengths),
        "drawn": list(_drawn(sequences)),
    }


def _channel(name: str, column: Any, categories: dict[str, tuple[str, ...]]) -> dict[str, Any]:
    """Return the range of a column of values, what is missing, and its distinct values if they are few."""
    seen = column[~np.isnan(column)]
    if name in categories:
        named = {"categories": [str(one) for one in categories[name][:200]], "kinds": len(categories[name])}
        return {
            "name": name,
            "missing": len(column) - len(seen),
            "low": 0.0,
            "high": len(categories[name]) - 1.0,
            **named,
        }
    if not len(seen):
        return {"name": name, "missing": len(column), "low": None, "high": None, "kinds": 0}
    kinds = np.unique(seen[:100_000])
    whole = bool(len(kinds) <= 20 and (kinds == np.round(kinds)).all())
    return {
        "name": name, "missing": len(column) - len(seen), "low": float(seen.min()), "high": float(seen.max()),
        "kinds": len(kinds) if whole else 0,
    }  # fmt: skip


def _histogram(lengths: Any) -> dict[str, list[float]]:
    low, high = int(lengths.min()), int(lengths.max())
    n = min(_BINS, high - low + 1)
    counts, edges = np.histogram(lengths, bins=n, range=(low - 0.5, high + 0.5))
    return {"counts": counts.tolist(), "edges": edges.tolist()}


def _drawn(sequences: Sequences) -> Iterator[dict[str, Any]]:
    """Yield some sequences from all parts of the table, of each at most some frames and channels."""
    for i in np.unique(np.linspace(0, len(sequences) - 1, _DRAWN).astype(int)).tolist():
        values = sequences[i]
        step = -(-len(values) // _LONGEST)
        shown = values[::step, :_CHANNELS]
        rows = [[None if np.isnan(v) else float(f"{v:.5g}") for v in row] for row in shown.tolist()]
        yield {"name": str(sequences.ids[i]), "frames": len(values), "x": rows}
