"""What the user says about files of sequences, and what was found in them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from vhem._support.errors import InputError
from vhem.sequences.categories import Categories
from vhem.sequences.container import Sequences
from vhem.sequences.readers.roles import Roles
from vhem.sequences.readers.wide import Wide
from vhem.sequences.readers.wide_rows import WideAsked

TEXT = {".csv", ".tsv", ".txt"}
SPREADSHEETS = {".xls", ".xlsx", ".xlsm", ".xlsb", ".ods"}
PARQUET = {".parquet", ".pq"}
KNOWN = {*TEXT, *SPREADSHEETS, *PARQUET, ".npz", ".bvh"}


class Options(NamedTuple):
    """What the user says about the files."""

    id: str | Iterable[str] | None = None
    time: str | None = None
    values: str | Iterable[str] | None = None
    group: str | None = None
    decimal: str = "auto"
    encoding: str | None = None
    sheet: str | int = 0
    categories: Categories = None
    other: str | None = None
    weights: str | None = None
    wide: Wide | None = None
    join: tuple[Path, ...] = ()  #: further tables of the same sequences, for the command
    slopes: str | Iterable[str | int] = ()  #: channels whose slopes become further channels; "auto": smooth ones

    def of_wide(self) -> WideAsked:
        """Return what is said about a wide table."""
        return WideAsked(self.wide or (), self.id, self.group, self.categories, self.weights, self.other, self.decimal)


class Reading(NamedTuple):
    """Sequences, and which columns they were made of."""

    sequences: Sequences
    roles: Roles


@contextmanager
def errors_of(path: Path) -> Iterator[None]:
    """Prefix errors about a file's content with its name."""
    try:
        yield
    except (OSError, TypeError, ValueError) as fault:
        raise InputError("{path}: {fault}", path=path, fault=fault) from None


def extension(path: Path) -> str:
    """Return the extension that says how a file is read; compression does not count.

    Examples
    --------
    >>> extension(Path("p.1.CSV.gz"))
    '.csv'
    """
    return Path(path.name.lower().removesuffix(".gz")).suffix


def without_extension(path: Path) -> str:
    """Return a file's name without the known extension: any other dots are part of the name.

    Examples
    --------
    >>> without_extension(Path("data/p.1.csv.gz"))
    'p.1'
    """
    name = path.name[:-3] if path.name.lower().endswith(".gz") else path.name
    return name[: -len(extension(path))] if extension(path) in KNOWN else name
