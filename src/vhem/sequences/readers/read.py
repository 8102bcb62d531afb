"""read_sequences: files of all kinds to sequences."""

from __future__ import annotations

import glob
import itertools
import zipfile
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from vhem._support.optional import how_to_install
from vhem._support.paths import checked_path, existing_file
from vhem.sequences.container import Sequences
from vhem.sequences.readers import cells as reading_cells
from vhem.sequences.readers.bvh import read_bvh
from vhem.sequences.readers.cells import CellError, FloatArray
from vhem.sequences.readers.roles import Roles, given_or_guessed
from vhem.sequences.readers.rows import Columns, Rows, delimited_blocks, spreadsheet_blocks
from vhem.sequences.readers.table import Coded, arranged, joined

_TEXT = {".csv", ".tsv", ".txt"}
_SPREADSHEETS = {".xls", ".xlsx", ".xlsm", ".xlsb", ".ods"}
_KNOWN = {*_TEXT, *_SPREADSHEETS, ".parquet", ".npz", ".bvh"}


class Options(NamedTuple):
    """What the user says about the files."""

    id: str | Iterable[str] | None = None
    time: str | None = None
    values: str | Iterable[str] | None = None
    group: str | None = None
    decimal: str = "auto"
    encoding: str | None = None
    sheet: str | int = 0


class Reading(NamedTuple):
    """Sequences, and which columns they were made of."""

    sequences: Sequences
    roles: Roles


def read_sequences(
    path: str | Path,
    id: str | Iterable[str] | None = None,
    time: str | None = None,
    values: str | Iterable[str] | None = None,
    group: str | None = None,
    decimal: str = "auto",
    encoding: str | None = None,
    sheet: str | int = 0,
) -> Sequences:
    """Read sequences from a file, a folder, or the files that a pattern names.

    Parameters
    ----------
    path : str or Path
        A long table with one row per frame: csv, tsv (also compressed, .csv.gz), parquet, xls, xlsx. Or npz: arrays `X`
        and `lengths` (and perhaps `ids` and `groups`), one 3-D array (n, T, d), or one (T, d) array for each sequence.
        Or a BVH motion file: one sequence, its channels as columns. A folder, or a pattern such as ``"data/*.csv"``:
        each file is one sequence, named by the file; sub-folders become groups. With `id`, the files are parts of one
        long table instead.
    id : str or list of str, optional
        Column, or columns together (subject and trial), that name the sequence of each row. An empty list: all rows are
        one sequence. Without it, columns named like "id", or "subject" and "trial", are taken, or the only column of
        text; where that leaves a doubt, the error lists the columns.
    time : str, optional
        Column by which the rows of a sequence are sorted: numbers or ISO dates. Without it, a single column named like
        "time" or "frame" is taken, else rows stay in the order of the file.
    values : list of str, optional
        Columns of values; all other columns of numbers if not given. Empty cells, "NA", "NaN", "null", "-" and "." are
        missing values.
    group : str, optional
        Column of what each sequence belongs to, such as a person.
    decimal : {"auto", ".", ","}
        How decimals are written.
    encoding : str, optional
        Of text; UTF-8 (with or without mark) or UTF-16 by default.
    sheet : str or int
        Sheet of a spreadsheet, by name or place.

    Returns
    -------
    Sequences
        With ids and groups. Sequences come in the order of their first rows. Ids are integers where all are written as
        plain ones, else text: "007" stays as it is.

    Notes
    -----
    Text is read in parts: ten million rows of two values need about as much memory as the numbers themselves, a few
    times over. Spreadsheets and parquet need the extra `tables`.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import vhem
    >>> path = Path(tempfile.mkdtemp()) / "fixations.csv"
    >>> rows = ["subject,trial,x,y", "ann,1,0.5,1", "ann,1,0.7,", "ann,2,0.1,3", "bob,1,0.2,4"]
    >>> _ = path.write_text(chr(10).join(rows))
    >>> sequences = vhem.read_sequences(path)
    >>> sequences.ids, sequences.groups
    (['ann / 1', 'ann / 2', 'bob / 1'], ['ann', 'ann', 'bob'])
    >>> sequences[0]
    array([[0.5, 1. ], [0.7, nan]])
    """
    return read_with_roles(path, Options(id, time, values, group, decimal, encoding, sheet)).sequences


def read_with_roles(path: str | Path, options: Options) -> Reading:
    """Read sequences as `read_sequences` does, and tell which columns were taken for what."""
    if options.decimal not in ("auto", ".", ","):
        raise ValueError(f"decimal must be 'auto', '.' or ',', got {options.decimal!r}.")
    place = checked_path(path)
    if place.is_file():
        return _read_file(place, options)
    files, root = _found_files(place)
    return _read_parts(files, root, options) if options.id is None else _read_as_one(files, options)


def _found_files(path: Path) -> tuple[list[Path], Path]:
    """Return the files of a folder or pattern, and the folder that all are below."""
    if path.is_dir():
        files = sorted(p for p in path.rglob("*") if p.is_file() and _suffix(p) in _KNOWN and p.name[0] != ".")
        if not files:
            raise FileNotFoundError(f"{path} has no file that could be read; known endings: {_known()}.")
        return files, path
    found = sorted(Path(name) for name in glob.glob(str(path), recursive=True) if Path(name).is_file())
    if not found and glob.has_magic(str(path)):
        raise FileNotFoundError(f"no file fits the pattern {path}. Check it; it is looked for in {Path().resolve()}.")
    if not found:
        existing_file(path)
    common = Path(*_common_start([p.parent.parts for p in found]))
    return found, common


def _common_start(parts: list[tuple[str, ...]]) -> list[str]:
    shared: list[str] = []
    for names in zip(*parts, strict=False):
        if len(set(names)) > 1:
            break
        shared.append(names[0])
    return shared


def _suffix(path: Path) -> str:
    name = path.name.lower().removesuffix(".gz")
    return Path(name).suffix


def _known() -> str:
    return ", ".join(sorted(_KNOWN))


def _read_file(path: Path, options: Options) -> Reading:
    suffix = _suffix(path)
    if suffix == ".npz":
        return _read_npz(path)
    if suffix == ".parquet":
        return _read_parquet(path, options)
    if suffix == ".bvh":
        return _read_motion(path, options)
    if suffix in _TEXT | _SPREADSHEETS:
        return _read_rows(_rows(path, options), options)
    raise ValueError(f"{path} has an unknown ending; known are {_known()}.")


def _rows(path: Path, options: Options) -> Rows:
    spreadsheet = _suffix(path) in _SPREADSHEETS
    found = spreadsheet_blocks(path, options.sheet) if spreadsheet else delimited_blocks(path, options.encoding)
    return Rows(path, found)


def _read_parts(files: list[Path], root: Path, options: Options) -> Reading:
    """Return one sequence per file, unless it has several; names of files name them, folders are groups."""
    readings = [_read_file(path, options._replace(id=[], group=None)) for path in files]
    values = readings[0].roles.values
    for path, reading in zip(files, readings, strict=True):
        if reading.roles.values != values:
            raise ValueError(
                f"{path} has the columns {reading.roles.values}, but {files[0]} has {values}; all files need the same."
            )
    names = [str(path.relative_to(root).with_name(path.name.split(".")[0])) for path in files]
    ids, groups = [], []
    for path, name, reading in zip(files, names, readings, strict=True):
        alone = len(reading.sequences) == 1
        ids += [name] if alone else [f"{name} / {own}" for own in reading.sequences.ids]
        groups += [path.relative_to(root).parts[0]] * len(reading.sequences)
    arrays = [array for reading in readings for array in reading.sequences]
    nested = all(len(path.relative_to(root).parts) > 1 for path in files)
    return Reading(Sequences(arrays, ids, groups if nested else None), readings[0].roles)


def _read_as_one(files: list[Path], options: Options) -> Reading:
    """Return the sequences of a long table in several files; a sequence lies in one of them."""
    readings = [_read_file(path, options) for path in files]
    roles = readings[0].roles
    owner: dict[Any, Path] = {}
    for path, reading in zip(files, readings, strict=True):
        if reading.roles != roles:
            raise ValueError(
                f"{path} has {reading.roles}, but {files[0]} has {roles}; all files need the same columns."
            )
        for own in reading.sequences.ids:
            if owner.setdefault(own, path) != path:
                raise ValueError(f"sequence {own!r} is in {owner[own]} and in {path}; a sequence is in one file.")
    arrays = [array for reading in readings for array in reading.sequences]
    groups = None if roles.group is None else [g for reading in readings for g in reading.sequences.groups or []]
    return Reading(Sequences(arrays, list(owner), groups), roles)


class _Gathered:
    """Columns of a table as they are read, a chunk at a time."""

    def __init__(self, roles: Roles, columns: list[str], comma: bool) -> None:
        self._roles, self._comma = roles, comma
        self._index = {name: columns.index(name) for name in columns}
        self.values: list[FloatArray] = []
        self.times: list[npt.NDArray[Any]] = []
        named = [*roles.id, *([roles.group] if roles.group is not None else [])]
        self._seen: dict[str, dict[Any, int]] = {name: {} for name in named}
        self._codes: dict[str, list[npt.NDArray[np.int64]]] = {name: [] for name in self._seen}
        self.n_rows = 0

    def add(self, chunk: Columns, explained: Callable[[int, str, str], ValueError]) -> None:
        """Take the cells of some rows."""

        def converted(name: str, convert: Callable[[Any], Any]) -> Any:
            try:
                return convert(chunk[self._index[name]])
            except CellError as fault:
                raise explained(self.n_rows + fault.index, name, str(fault)) from None

        numbers = [converted(name, lambda c: reading_cells.numbers(c, self._comma)) for name in self._roles.values]
        self.values.append(np.column_stack(numbers))
        if self._roles.time is not None:
            self.times.append(converted(self._roles.time, lambda c: reading_cells.times(c, self._comma)))
        for name, seen in self._seen.items():
            self._codes[name].append(converted(name, partial(_coded, seen)))
        self.n_rows += len(chunk[0])

    def coded(self, name: str) -> Coded:
        """Return a column of names."""
        return Coded(_joined(self._codes[name]), reading_cells.tidy_names(list(self._seen[name])))

    def all_times(self) -> npt.NDArray[Any]:
        """Return the column of times."""
        if len({times.dtype for times in self.times}) > 1:
            raise ValueError(f"column {self._roles.time!r} has numbers in some rows and dates in others; use one.")
        return _joined(self.times)


def _joined(parts: list[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """Return one array, and let go of the parts: a large table is not held twice."""
    whole = np.concatenate(parts)
    parts[:] = [whole]
    return whole


def _coded(seen: dict[Any, int], cells: Sequence[Any]) -> npt.NDArray[np.int64]:
    """Return numbers for names, which are numbered as they appear."""
    try:  # names met before, written in the same way
        return np.fromiter(map(seen.__getitem__, cells), np.int64, len(cells))
    except (KeyError, TypeError):
        pass
    spelled: dict[Any, int] = {}
    for i, cell in enumerate(cells):
        if cell not in spelled:
            if reading_cells.is_missing(cell):
                raise CellError(i, "is empty; fill it or drop the row")
            spelled[cell] = seen.setdefault(reading_cells.name(cell), len(seen))
    return np.fromiter(map(spelled.__getitem__, cells), np.int64, len(cells))


def _read_rows(rows: Rows, options: Options) -> Reading:
    chunks = rows.chunks()
    first = next(chunks, None)
    if first is None:
        raise ValueError(f"{rows.path} has a header but no rows.")
    sample = {name: first[k][:2000] for k, name in enumerate(rows.columns)}
    try:
        roles = given_or_guessed(rows.columns, lambda name: reading_cells.looks_numeric(sample[name]), *options[:4])
    except ValueError as fault:
        raise ValueError(f"{rows.path}: {fault}") from None
    comma = options.decimal == "," or (
        options.decimal == "auto" and any(reading_cells.has_decimal_commas(sample[name]) for name in roles.values)
    )
    gathered = _Gathered(roles, rows.columns, comma)

    def explained(row: int, name: str, fault: str) -> ValueError:
        return ValueError(f"{rows.path}, {rows.place(row)}: column {name!r} {fault}.")

    for chunk in itertools.chain([first], chunks):
        gathered.add(chunk, explained)
    return _assembled(gathered, roles, rows)


def _assembled(gathered: _Gathered, roles: Roles, rows: Rows) -> Reading:
    X = _joined(gathered.values)
    gathered.values.clear()
    if roles.id:
        ids = joined([gathered.coded(name) for name in roles.id])
    else:
        ids = Coded(np.zeros(len(X), dtype=np.int64), [rows.path.name.split(".")[0]])
    times = None if roles.time is None else gathered.all_times()
    groups = None if roles.group is None else gathered.coded(roles.group)
    try:
        table = arranged(X, ids, times, groups, roles.time or "", roles.group or "", rows.place)
    except ValueError as fault:
        raise ValueError(f"{rows.path}: {fault}") from None
    del X
    return Reading(Sequences._of(*table), roles)


def _read_parquet(path: Path, options: Options) -> Reading:
    try:
        import pyarrow as pa  # noqa: PLC0415  (an extra)
        import pyarrow.parquet as pq  # noqa: PLC0415
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            f"parquet files are read by pyarrow, which is not installed: {how_to_install('tables')}."
        ) from None
    try:
        schema = pq.read_schema(path)
    except pa.ArrowInvalid as fault:
        raise ValueError(f"{path} cannot be read as parquet: {fault}") from None
    kinds = {field.name: field.type for field in schema}

    def is_numeric(name: str) -> bool:
        kind = kinds[name]
        return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind))

    try:
        roles = given_or_guessed(list(kinds), is_numeric, *options[:4])
        needed = {*roles.id, *roles.values, roles.time, roles.group} - {None}
        frame = pq.read_table(path, columns=sorted(name for name in needed if name is not None))
        if not roles.id:
            name = path.name.split(".")[0]
            frame = frame.append_column("(file)", pa.array([name] * len(frame)))
        made = Sequences.from_table(frame, roles.id or "(file)", roles.time, roles.values, roles.group)
    except (TypeError, ValueError) as fault:
        raise ValueError(f"{path}: {fault}") from None
    return Reading(made, roles)


def _read_npz(path: Path) -> Reading:
    if not zipfile.is_zipfile(path):  # NumPy would take it for a pickle
        raise ValueError(f"{path} is no npz file, or a broken one. Make it anew by numpy.savez.")
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except ValueError as fault:
        raise ValueError(f"{path} cannot be read: {fault} Save plain arrays of numbers or text in it.") from None
    except Exception as fault:  # zipfile and zlib have errors of their own
        raise ValueError(f"{path} is no npz file, or a broken one: {fault}") from None
    if not arrays:
        raise ValueError(f"{path} holds no arrays.")
    try:
        made = _from_arrays(arrays)
    except (TypeError, ValueError) as fault:
        raise ValueError(f"{path}: {fault}") from None
    return Reading(made, Roles([], None, [f"x{k + 1}" for k in range(made.n_dims)], None))


def _from_arrays(arrays: dict[str, npt.NDArray[Any]]) -> Sequences:
    ids, groups = arrays.get("ids"), arrays.get("groups")
    if "X" in arrays and "lengths" in arrays:
        made = Sequences.from_concatenated(arrays["X"], arrays["lengths"], ids)
        return made if groups is None else Sequences(made, groups=groups)
    rest = {name: array for name, array in arrays.items() if name not in ("ids", "groups")}
    if len(rest) == 1:
        (only,) = rest.values()
        if only.ndim == 3:
            return Sequences(only, ids, groups)
    return Sequences(list(rest.values()), list(rest))


def _read_motion(path: Path, options: Options) -> Reading:
    motion = read_bvh(path)
    columns = [f"{joint}.{kind}" for joint, kind in motion.channel_names]
    roles = given_or_guessed(columns, lambda _: True, [], None, options.values, None)
    chosen = motion.channels[:, [columns.index(name) for name in roles.values]]
    return Reading(Sequences([chosen], [path.name.split(".")[0]]), roles)
