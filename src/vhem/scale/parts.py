"""Data in parts: each is read separately, where it is processed, and released afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from vhem._support.checks import check_integer
from vhem._support.errors import InputError, InputTypeError
from vhem._support.paths import checked_path, existing_file
from vhem.scale.parquet import row_group_reads
from vhem.sequences import Sequences, SequencesLike, as_sequences
from vhem.sequences.readers.folders import is_data
from vhem.sequences.readers.options import PARQUET, Options
from vhem.sequences.readers.read import read_with_roles
from vhem.sequences.readers.roles import listed


class Part(NamedTuple):
    """A part of the data: its name, for messages, and a function that reads it."""

    name: str
    read: Callable[[], Any]  #: returns sequences; sent to other processes, so it must be picklable


class PartError(InputError):
    """A part cannot be read, or holds what cannot be learned from."""

    def __init__(self, name: str, reason: str) -> None:
        self.name, self.reason = name, reason
        cures = "Fix it", "skip such parts with {on_error:'skip'}"
        super().__init__("part {part!r}: {reason}", *cures, part=name, reason=reason)


def split_sequences(sequences: SequencesLike, size: int) -> list[Part]:
    """Cut sequences in memory into parts.

    Parameters
    ----------
    sequences : list of (T_i, d) arrays, 3-D array or Sequences
        The sequences.
    size : int
        Sequences per part.

    Returns
    -------
    list of Part
        The parts, in order.

    Examples
    --------
    >>> import numpy as np
    >>> [part.name for part in split_sequences(np.zeros((5, 9, 2)), 2)]
    ['sequences 0 to 1', 'sequences 2 to 3', 'sequences 4 to 4']
    """
    whole, size = as_sequences(sequences), check_integer("size", size, 1)
    n = len(whole)
    return [
        Part(f"sequences {i} to {min(i + size, n) - 1}", partial(_given, whole[i : i + size]))
        for i in range(0, n, size)
    ]


def read_parts(
    path: str | Path,
    id: str | list[str] | None = None,
    time: str | None = None,
    values: Iterable[str] | None = None,
    rows_per_part: int = 1_000_000,
) -> list[Part]:
    """List the parts of a file or folder, to be read one at a time.

    A Parquet file is read by row groups, as many at a time as have about `rows_per_part` rows. Every other file is one
    part. The rows of a sequence must be adjacent and in one file, which is checked: a sequence that continues in the
    next row group belongs to the part it begins in, and an id that reappears elsewhere in the file is an error. The
    same id in two files names two sequences.

    Parameters
    ----------
    path : str or Path
        A Parquet file; or a folder, of which all Parquet files are read, or if there are none, all files that
        `read_sequences` can read.
    id, time, values : str, str, list of str
        Columns that identify the sequence of a row, sort its rows, and hold the values of a frame; see
        `read_sequences`. Parquet files need `id` and `values`.
    rows_per_part : int
        Approximate number of rows per part of a Parquet file. Memory use grows with it.

    Returns
    -------
    list of Part
        The parts, named by file and row groups, files in the order of their names.

    Examples
    --------
    >>> import tempfile, vhem
    >>> from pathlib import Path
    >>> folder = Path(tempfile.mkdtemp())
    >>> for name in ("a", "b"):
    ...     _ = (folder / f"{name}.csv").write_text(f"trial,x{chr(10)}1,0.5{chr(10)}1,0.7{chr(10)}2,0.1")
    >>> [part.name for part in vhem.read_parts(folder, id="trial", values=["x"])]
    ['a.csv', 'b.csv']
    """
    path, rows_per_part = checked_path(path), check_integer("rows_per_part", rows_per_part, 1)
    if not path.is_dir():
        existing_file(path)
    files = sorted(p for p in path.iterdir() if p.is_file() and _is_part(p)) if path.is_dir() else [path]
    parquet = [file for file in files if file.suffix in PARQUET]
    if parquet:
        return [part for file in parquet for part in _parts_of_parquet(file, id, time, values, rows_per_part)]
    if not files:
        raise FileNotFoundError(f"the folder {path} has no file that could be read.")
    options = Options(id, time, None if values is None else listed(values))
    return [Part(file.name, partial(_read_file, str(file), options)) for file in files]


def _is_part(file: Path) -> bool:
    return is_data(Path(file.name)) and file.name[0] != "_"  # programs that write Parquet leave files like _SUCCESS


def _parts_of_parquet(
    file: Path, id_column: str | list[str] | None, time: str | None, values: Iterable[str] | None, rows: int
) -> Iterator[Part]:
    if not id_column or values is None:
        cure = "give {id}, the column or columns that identify sequences, and {values}"
        raise InputError("{path} is a Parquet file", cure, path=file)
    for read in row_group_reads(file, listed(id_column), time, listed(values), rows):
        yield Part(f"{file.name}, row groups {read.first} to {read.last}", read)


def as_parts(parts: Any) -> Iterator[Part]:
    """Yield the parts of an iterable of parts or sequences."""
    if isinstance(parts, (str, Path)):
        cure = "list those of {path!r} with read_parts(path, ...)"
        raise InputTypeError("{parts} must be an iterable of parts", cure, path=str(parts))
    if isinstance(parts, (Sequences, np.ndarray)):
        cures = "split it with split_sequences(sequences, size)", "write [sequences]"
        raise InputTypeError("{parts} is one set of sequences", *cures)
    for i, item in enumerate(parts):
        yield item if isinstance(item, Part) else Part(f"part {i}", partial(_given, item))


def _given(sequences: SequencesLike) -> SequencesLike:
    return sequences


def _read_file(path: str, options: Options) -> Sequences:
    return read_with_roles(path, options).sequences
