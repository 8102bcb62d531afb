"""Sequences from the row groups of a Parquet file, none of them split."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from vhem._support.arrays import IntArray
from vhem._support.errors import InputError
from vhem._support.optional import how_to_install
from vhem.sequences import Sequences
from vhem.sequences.long_table import Coded, joined
from vhem.sequences.readers.frames import arrow_coded
from vhem.sequences.readers.roles import shortened


@dataclass(frozen=True)
class RowGroupRead:
    """Reads the sequences that begin in some row groups, to their ends."""

    path: str
    first: int  #: row group
    last: int  #: row group, included
    id: list[str]  #: columns that together identify a sequence
    time: str | None
    values: list[str]

    def __call__(self) -> Sequences:
        """Return the sequences."""
        file = _opened(self.path)
        columns = _columns(self.id, self.time, self.values)
        _check_columns(file, self.path, columns)
        table = file.read_row_groups(range(self.first, self.last + 1), columns=columns)
        table = self._without_beginning(file, table)
        table = self._with_end(file, table, columns)
        sequences = Sequences.from_table(table, self.id, self.time, self.values)
        if _n_runs(table, self.id) > len(sequences):
            rows = _keys(table, self.id)
            _refuse_twice(_met_twice([rows.keys[code] for code in rows.codes[_runs(rows.codes)]]), self.path, self.id)
        return sequences

    def _without_beginning(self, file: Any, table: Any) -> Any:
        """Drop the rest of a sequence that began in an earlier row group."""
        if self.first == 0 or _apart(file, self.first - 1, self.id):
            return table
        before = _keys_in(file, self.first - 1, self.id)
        return table.slice(_leading(_keys(table, self.id), before.keys[before.codes[-1]]))

    def _with_end(self, file: Any, table: Any, columns: list[str]) -> Any:
        """Add the rest of a sequence that continues in later row groups."""
        import pyarrow as pa  # noqa: PLC0415  (optional)

        if self.last + 1 == file.metadata.num_row_groups or _apart(file, self.last, self.id):
            return table
        here = _keys(table.slice(table.num_rows - 1), self.id)
        for group in range(self.last + 1, file.metadata.num_row_groups):
            more = _keys_in(file, group, self.id)
            n = _leading(more, here.keys[-1])
            if n:
                table = pa.concat_tables([table, file.read_row_groups([group], columns=columns).slice(0, n)])
            if n < len(more.codes):
                break
        return table


def row_group_reads(
    path: Path, id_columns: list[str], time: str | None, values: list[str], rows: int
) -> Iterator[RowGroupRead]:
    """Yield the reads that make up a file, after making sure that no id occurs twice in it."""
    file = _opened(str(path))
    _check_columns(file, path, _columns(id_columns, time, values))
    if not file.metadata.num_rows:
        raise InputError("{path} has no rows", path=path)
    begins = _checked_beginnings(file, path, id_columns)
    first, n_rows, n_begun, last = 0, 0, 0, len(begins) - 1
    for group in range(last + 1):
        n_rows += file.metadata.row_group(group).num_rows
        n_begun += begins[group]
        if n_begun and (n_rows >= rows or group == last):  # a part in which no sequence begins would be empty
            yield RowGroupRead(str(path), first, group, id_columns, time, values)
            first, n_rows, n_begun = group + 1, 0, 0


def _columns(id_columns: list[str], time: str | None, values: list[str]) -> list[str]:
    return list(dict.fromkeys([*id_columns, *([time] if time else []), *values]))


def _check_columns(file: Any, path: str | Path, columns: list[str]) -> None:
    names = file.schema_arrow.names
    for name in columns:
        if name not in names:
            problem = "{path} has no column {column!r}; it has {columns}"
            raise InputError(problem, path=path, column=name, columns=shortened(names))


def _opened(path: str) -> Any:
    try:
        import pyarrow.parquet as pq  # noqa: PLC0415  (optional)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"Parquet files need pyarrow: {how_to_install('tables')}.") from error
    return pq.ParquetFile(path)


def _keys(table: Any, id_columns: list[str]) -> Coded:
    """Return the sequence of each row."""
    return joined([arrow_coded(table[name], name) for name in id_columns])


def _keys_in(file: Any, group: int, id_columns: list[str]) -> Coded:
    return _keys(file.read_row_groups([group], columns=id_columns), id_columns)


def _leading(rows: Coded, key: Any) -> int:
    """Return how many of the first rows belong to a sequence."""
    if not len(rows.codes) or rows.keys[rows.codes[0]] != key:
        return 0
    return int([*_runs(rows.codes), len(rows.codes)][1])


def _runs(codes: IntArray) -> npt.NDArray[np.intp]:
    """Return the rows at which a new id begins."""
    return np.concatenate([[0], np.flatnonzero(np.diff(codes)) + 1])


def _checked_beginnings(file: Any, path: Path, id_columns: list[str]) -> list[int]:
    """Return how many sequences begin in each row group, or 1 where there are some. No id may reappear elsewhere.

    If the file's own statistics show that no id is in two row groups, nothing is read now: each is checked when it is
    read. If they show that ids only increase from row group to row group, it is enough to remember the previous one;
    otherwise the ids of all sequences are kept.
    """
    if all(_apart(file, group, id_columns) for group in range(file.metadata.num_row_groups - 1)):
        return [1] * file.metadata.num_row_groups
    rising = _ids_rise(file, id_columns)
    seen: set[Any] = set()
    last, n_begun = None, list[int]()
    for group in range(file.metadata.num_row_groups):
        if not file.metadata.row_group(group).num_rows:
            n_begun.append(0)
            continue
        rows = _keys_in(file, group, id_columns)
        keys = [rows.keys[code] for code in rows.codes[_runs(rows.codes)]]
        begins = keys[1:] if keys[0] == last else keys
        last = keys[-1]
        again = next((key for key in begins if key in seen), None)
        if again is None and len(keys) > len(set(keys)):
            again = _met_twice(keys)
        if again is not None:
            _refuse_twice(again, path, id_columns)
        seen = set(keys) | (set() if rising else seen)
        n_begun.append(len(begins))
    return n_begun


def _met_twice(keys: list[Any]) -> Any:
    return Counter(keys).most_common(1)[0][0]


def _refuse_twice(key: Any, path: str | Path, id_columns: list[str]) -> NoReturn:
    raise InputError(
        "the rows of {columns} = {key!r} are not adjacent in {path}, and would be read as several sequences",
        "Sort the file by {columns}",
        columns=" / ".join(id_columns), key=key, path=path,
    )  # fmt: skip


def _n_runs(table: Any, id_columns: list[str]) -> int:
    """Return how often an id differs from that of the row before, and 1 for the first row."""
    import pyarrow.compute as pc  # noqa: PLC0415  (optional)

    n = table.num_rows - 1
    columns = [table[name].combine_chunks() for name in id_columns]
    columns = [getattr(column, "indices", column) for column in columns]  # of a dictionary
    differ = [np.asarray(pc.not_equal(column[1:], column[:n])) for column in columns]
    return 1 + int(np.logical_or.reduce(differ).sum())


def _ids_rise(file: Any, id_columns: list[str]) -> bool:
    """Whether the statistics of row groups prove that no id of one occurs in a later one, except the next."""
    found = [_range(file, group, id_columns) for group in range(file.metadata.num_row_groups)]
    return all(a is not None and b is not None and a[1] <= b[0] for a, b in itertools.pairwise(found))


def _apart(file: Any, group: int, id_columns: list[str]) -> bool:
    """Whether the statistics prove that all ids of a row group are below those of the next."""
    here, there = _range(file, group, id_columns), _range(file, group + 1, id_columns)
    return here is not None and there is not None and here[1] < there[0]


def _range(file: Any, group: int, id_columns: list[str]) -> tuple[Any, Any] | None:
    """Return the least and the greatest id of a row group, if the file says so."""
    if len(id_columns) > 1:  # their statistics say nothing about the columns together
        return None
    found = file.metadata.row_group(group).column(file.schema_arrow.names.index(id_columns[0])).statistics
    return None if found is None or not found.has_min_max else (found.min, found.max)
