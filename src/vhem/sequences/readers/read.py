"""read_sequences: files of all kinds to sequences."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from vhem._support.errors import InputError, InputTypeError, ParameterError
from vhem._support.paths import checked_path
from vhem.sequences.categories import Categories, check_other
from vhem.sequences.container import Sequences
from vhem.sequences.readers.bvh import read_motion
from vhem.sequences.readers.columns import read_rows
from vhem.sequences.readers.doubts import warn_of_doubts
from vhem.sequences.readers.folders import found_files, known, read_as_one, read_each
from vhem.sequences.readers.frames import is_lazy
from vhem.sequences.readers.npz import read_npz
from vhem.sequences.readers.options import PARQUET, SPREADSHEETS, TEXT, Options, Reading, extension, without_extension
from vhem.sequences.readers.parquet import read_parquet
from vhem.sequences.readers.places import rows_of, with_places
from vhem.sequences.readers.roles import listed
from vhem.sequences.readers.wide import Wide, wide_columns


def read_sequences(
    path: str | Path | Iterable[str | Path] | Mapping[str, str | Path],
    id: str | Iterable[str] | None = None,
    time: str | None = None,
    values: str | Iterable[str] | None = None,
    group: str | None = None,
    decimal: str = "auto",
    encoding: str | None = None,
    sheet: str | int = 0,
    categories: Categories = None,
    other: str | None = None,
    weights: str | None = None,
    wide: Wide | None = None,
) -> Sequences:
    """Read sequences from a file, a folder, or the files that a pattern names.

    Parameters
    ----------
    path : str or Path
        A long table with one row per frame: csv, tsv (also compressed, .csv.gz), parquet, xls, xlsx. Or npz: arrays `X`
        and `lengths` (and perhaps `ids` and `groups`), one 3-D array (n, T, d), or one (T, d) array for each sequence.
        Or a BVH motion file: one sequence, its channels as columns. A folder, or a pattern such as ``"data/*.csv"``:
        each file is one sequence, named by the file; sub-folders become groups; hidden files and folders are skipped.
        With `id`, the files are parts of one long table instead. A list of files, or a dictionary from channels to
        files: tables about the same sequences, which are joined by id into sequences of several channels.
    id : str or list of str, optional
        Column, or several columns (subject and trial), that identify the sequence of each row. An empty list: all rows
        are one sequence. If not given, columns named like "id", or "subject" and "trial", are taken, or the only column
        of text; if that is not clear, the error lists the columns.
    time : str, optional
        Column by which the rows of a sequence are sorted: numbers or ISO dates, with time zones or without. If not
        given, a single column named like "time" or "frame" is taken, else rows stay in the order of the file. With an
        empty name they always do.
    values : list of str, optional
        Columns of values; all other columns of numbers if not given. Empty cells, "NA", "NaN", "null", "-" and "." are
        missing values.
    group : str, optional
        Column that groups sequences, such as the person.
    decimal : {"auto", ".", ","}
        The decimal separator.
    encoding : str, optional
        Encoding of text; UTF-8 (with or without a byte-order mark) or UTF-16 by default.
    sheet : str or int
        Sheet of a spreadsheet, by name or index.
    categories : list or dict, optional
        Columns of values that hold categories (text, or numbers that stand for something else), perhaps with the names
        of the categories in the order wanted: ``{"page": ["search", "cart", "paid"]}``; True: all of `values`. If not
        given, columns of text are taken as categories only where there is no doubt, and a warning says so.
    other : str, optional
        What categories that are not among the names given become; without it they are an error.
    weights : str, optional
        Column with one case weight per sequence, kept as `Sequences.weights`.
    wide : str, list or dict, optional
        For wide tables, which have one row per sequence and one column per moment: the columns, as a range
        ``"Jul.93:Jun.99"``, a pattern ``"wave*"``, or a list. A dictionary of these names channels, otherwise the only
        channel is called "state". Empty cells at the end of a row are after the end of the sequence, others are
        missing values. Text is read as categories. `time` and `values` are not used.

    Returns
    -------
    Sequences
        With ids and groups, in the order of their first rows. Ids are integers if all are written as plain integers,
        otherwise text: "007" stays as it is. `Sequences.keys` has the cells of several id columns as tuples.

    Warns
    -----
    UserWarning
        If columns of text were taken as categories, a value like -9999 looks like a code for missing values, a column
        never changes, or all sequences have a single row.

    Notes
    -----
    Text is read in parts: ten million rows of two values need less than three times the memory of the numbers
    themselves. Spreadsheets and parquet need the extra `tables`.

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
    said = Options(id, time, values, group, decimal, encoding, sheet, categories, other, weights, wide)
    reading = read_with_roles(path, said)
    warn_of_doubts(reading)
    return reading.sequences


def read_with_roles(path: Any, options: Options) -> Reading:
    """Read sequences as `read_sequences` does, and return which column was used for what."""
    made = _read(path, options)
    sequences = with_places(made.sequences, path, options)
    if not options.slopes:
        return made._replace(sequences=sequences)
    sequences = sequences.with_slopes(options.slopes)
    more = sequences.channels[made.sequences.n_dims :]
    return Reading(sequences, made.roles._replace(values=[*made.roles.values, *more]))


def has_columns(path: Path, options: Options) -> bool:
    """Whether a table has all columns that the options name; other files have none."""
    if not path.is_file() or extension(path) not in TEXT | SPREADSHEETS:
        return False
    columns = rows_of(path, options).columns
    named = {*listed(options.id), *listed(options.time or None), *listed(options.group)}
    try:
        return named <= {*columns} and bool(options.wide is None or wide_columns(options.wide, columns, named))
    except InputError:  # a pattern that matches nothing
        return False


def _read(path: Any, options: Options) -> Reading:
    check_other(options.other)
    if options.join:
        return _read([path, *options.join], options._replace(join=()))
    if isinstance(path, (list, tuple)):
        path = {without_extension(Path(one)): one for one in path}
    if isinstance(path, dict) and path and all(isinstance(one, (str, Path)) for one in path.values()):
        return _read_channels(path, options)
    if options.decimal not in ("auto", ".", ","):
        raise ParameterError("decimal", options.decimal, "must be 'auto', '.' or ','")
    _refuse_table(path)
    place = checked_path(path)
    if place.is_file():
        return _read_file(place, options)
    files, root = found_files(place)
    if options.id is None:
        return read_each(files, root, partial(_read_file, options=options._replace(id=[], group=None)))
    return read_as_one(files, partial(_read_file, options=options))


def _read_channels(paths: dict[str, str | Path], options: Options) -> Reading:
    """Return sequences of several channels, a table for each; groups and weights are columns of the first."""
    rest = options._replace(group=None, weights=None)
    readings = {name: _read(path, rest if i else options) for i, (name, path) in enumerate(paths.items())}
    made = Sequences.from_channels({name: reading.sequences for name, reading in readings.items()})
    roles = next(iter(readings.values())).roles
    categories: dict[str, tuple[str, ...] | None] = {**made.categories}
    return Reading(made, roles._replace(values=made.channels, categories=categories, guessed=()))


def _refuse_table(path: Any) -> None:
    """Refuse a table in memory, without printing it."""
    if isinstance(path, dict) or is_lazy(path) or hasattr(path, "columns"):
        raise InputTypeError(
            "{path} is a {kind}, not the name of a file",
            "For a table in memory use vhem.Sequences.from_table({frame}, id=..., values=[...])",
            kind=type(path).__name__, frame="frame.collect()" if is_lazy(path) else "frame",
        )  # fmt: skip


def _read_file(path: Path, options: Options) -> Reading:
    suffix = extension(path)
    readers: dict[str, Callable[[], Reading]] = {
        **dict.fromkeys((*TEXT, *SPREADSHEETS), lambda: read_rows(rows_of(path, options), options)),
        **dict.fromkeys(PARQUET, lambda: read_parquet(path, options)),
        ".npz": lambda: read_npz(path),
        ".bvh": lambda: read_motion(path, options),
    }
    if suffix not in readers:
        raise InputError("{path} has an unknown extension; known are {known}", path=path, known=known())
    return readers[suffix]()
