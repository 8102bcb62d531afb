"""Where in a file a frame is: asked only when something is wrong with it, by reading the file again."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from vhem.sequences.container import Place, Sequences
from vhem.sequences.readers.columns import read_rows, row_indices
from vhem.sequences.readers.delimited import delimited_blocks
from vhem.sequences.readers.folders import file_names, found_files
from vhem.sequences.readers.options import SPREADSHEETS, TEXT, Options, extension, without_extension
from vhem.sequences.readers.rows import Rows
from vhem.sequences.readers.spreadsheet import spreadsheet_blocks
from vhem.sequences.readers.wide import wide_columns


def with_places(sequences: Sequences, path: Any, options: Options) -> Sequences:
    """Return sequences that can say where in a file, or in several, each of their frames is."""
    return sequences._found_by(partial(place_of, path, options))


def rows_of(path: Path, options: Options) -> Rows:
    """Return the rows of a table of text, or of a spreadsheet."""
    blocks = delimited_blocks(path, options.encoding) if extension(path) in TEXT else None
    return Rows(path, spreadsheet_blocks(path, options.sheet) if blocks is None else blocks)


def place_of(path: Any, options: Options, key: Any, t: int, channel: str) -> Place | None:
    """Return where frame t of a sequence is; None if that cannot be said, or if the file has changed."""
    try:
        return _place(path, options, key, t, channel)
    except (OSError, ValueError, TypeError, LookupError):
        return None  # the error that asks has more to say


def _place(path: Any, options: Options, key: Any, t: int, channel: str) -> Place | None:
    if options.join:
        path, options = [path, *options.join], options._replace(join=())
    if isinstance(path, (list, tuple)):
        path = {without_extension(Path(one)): one for one in path}
    if isinstance(path, dict):
        (name,) = (name for name in path if channel == name or channel.startswith(f"{name}."))
        return _place(path[name], options, key, t, channel.removeprefix(f"{name}."))
    place = Path(path)
    if place.is_file():
        return _in_file(place, options, key, t, channel)
    files, root = found_files(place)
    if options.id is None:
        own = files[file_names(files, root).index(key)]
        return _in_file(own, options._replace(id=[], group=None), None, t, channel)
    found = (place_of(file, options, key, t, channel) for file in files)
    return next((one for one in found if one is not None), None)


def _in_file(path: Path, options: Options, key: Any, t: int, channel: str) -> Place | None:
    if extension(path) not in {*TEXT, *SPREADSHEETS}:
        return None
    if options.wide is not None:
        return _in_wide(path, options, key, t, channel)
    rows = rows_of(path, options)
    found, roles = row_indices(rows, options)
    column = channel if channel in roles.values else roles.values[0]  # joined tables are channels under their own names
    return Place(path, rows.number(int(found[_index(found, key)][t, 0])), column)


def _in_wide(path: Path, options: Options, key: Any, t: int, channel: str) -> Place:
    rows = rows_of(path, options)
    reading = read_rows(rows, options)
    taken = {name for name in (*reading.roles.id, reading.roles.group, reading.roles.weights) if name}
    columns = wide_columns(options.wide or (), rows.columns, taken)
    own = columns[channel if channel in columns else next(iter(columns))]
    return Place(path, rows.number(_index(reading.sequences, key)), own[t])


def _index(sequences: Sequences, key: Any) -> int:
    """Return the place of a key, which may be a number in one file and text in all; without one, the only sequence."""
    if key is None:
        return 0
    return [str(own) for own in sequences.keys].index(str(key))
