"""Sequences from the row groups of a Parquet file, none of them cut in two."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from vhem._support.optional import how_to_install
from vhem.sequences import Sequences

PARQUET = (".parquet", ".pq")


@dataclass(frozen=True)
class RowGroupRead:
    """Reads the sequences that begin in some row groups, to their ends."""

    path: str
    first: int  #: row group
    last: int  #: row group, included
    id: list[str]  #: columns that together name a sequence
    time: str | None
    values: list[str]

    def __call__(self) -> Sequences:
        """Return the sequences."""
        file = _opened(self.path)
        columns = list(dict.fromkeys([*self.id, *([self.time] if self.time else []), *self.values]))
        _check_columns(file, self.path, columns)
        table = file.read_row_groups(range(self.first, self.last + 1), columns=columns)
        table = self._without_beginning(file, table)
        table = self._with_end(file, table, columns)
        return _sequences(table, self.id, self.time, self.values)

    def _without_beginning(self, file: Any, table: Any) -> Any:
        """Leave out the rest of a sequence that began in an earlier row group."""
        before = _last_id(file, self.first - 1, self.id)
        if before is None:
            return table
        return table.slice(_leading(_names(table, self.id), before))

    def _with_end(self, file: Any, table: Any, columns: list[str]) -> Any:
        """Add what follows of a sequence that runs on into later row groups."""
        import pyarrow as pa  # noqa: PLC0415  (optional)

        group = self.last + 1
        while group < file.metadata.num_row_groups:
            last = _names(table, self.id)[-1].as_py()
            more = _names_in(file, group, self.id)
            n = _leading(more, last)
            if n:
                table = pa.concat_tables([table, file.read_row_groups([group], columns=columns).slice(0, n)])
            if n < len(more):
                break
            group += 1
        return table


def row_group_reads(
    path: Path, id_columns: list[str], time: str | None, values: list[str], rows: int
) -> Iterator[RowGroupRead]:
    """Yield the reads that make up a file, after making sure that no id comes twice in it."""
    file = _opened(str(path))
    _check_columns(file, path, [*id_columns, *([time] if time else []), *values])
    if not file.metadata.num_rows:
        raise ValueError(f"{path} has no rows.")
    begins = _checked_beginnings(file, path, id_columns)
    first, n_rows, n_begun, last = 0, 0, 0, len(begins) - 1
    for group in range(last + 1):
        n_rows += file.metadata.row_group(group).num_rows
        n_begun += begins[group]
        if n_begun and (n_rows >= rows or group == last):  # a part without a beginning of its own would be empty
            yield RowGroupRead(str(path), first, group, id_columns, time, values)
            first, n_rows, n_begun = group + 1, 0, 0


def _check_columns(file: Any, path: str | Path, columns: list[str]) -> None:
    names = file.schema_arrow.names
    for name in columns:
        if name not in names:
            raise ValueError(f"{path} has no column {name!r}; it has {', '.join(map(repr, names))}.")


def _opened(path: str) -> Any:
    try:
        import pyarrow.parquet as pq  # noqa: PLC0415  (optional)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"Parquet files need pyarrow: {how_to_install('tables')}.") from error
    return pq.ParquetFile(path)


def _names(table: Any, id_columns: list[str]) -> Any:
    """Return the column that names sequences; of several columns, their texts joined by " / "."""
    import pyarrow as pa  # noqa: PLC0415  (optional)
    import pyarrow.compute as pc  # noqa: PLC0415

    if len(id_columns) == 1:
        return table[id_columns[0]]
    return pc.binary_join_element_wise(*(table[name].cast(pa.string()) for name in id_columns), " / ")


def _names_in(file: Any, group: int, id_columns: list[str]) -> Any:
    return _names(file.read_row_groups([group], columns=id_columns), id_columns)


def _codes(column: Any) -> tuple[npt.NDArray[np.int64], Any]:
    """Return a number per row, equal where ids are, and the ids that the numbers stand for."""
    encoded = column.combine_chunks().dictionary_encode()
    if hasattr(encoded, "combine_chunks"):
        encoded = encoded.combine_chunks()
    if encoded.indices.null_count:
        raise ValueError("the column of ids is empty in some rows; fill it or drop them.")
    return np.asarray(encoded.indices, dtype=np.int64), encoded.dictionary


def _leading(column: Any, value: Any) -> int:
    """Return how many of the first rows hold an id."""
    codes, dictionary = _codes(column)
    if not len(codes) or dictionary[int(codes[0])].as_py() != value:
        return 0
    runs = _runs(codes)
    return int(runs[1]) if len(runs) > 1 else len(codes)


def _last_id(file: Any, group: int, id_columns: list[str]) -> Any:
    return None if group < 0 else _names_in(file, group, id_columns)[-1].as_py()


def _runs(codes: npt.NDArray[np.int64]) -> npt.NDArray[np.intp]:
    """Return the rows at which a new id begins."""
    return np.concatenate([[0], np.flatnonzero(np.diff(codes)) + 1])


def _checked_beginnings(file: Any, path: Path, id_columns: list[str]) -> list[int]:
    """Return how many sequences begin in each row group. No id may come again once another has followed it.

    Where the file's own statistics show that ids only rise from row group to row group, it is enough to remember the
    row group before; otherwise a few bytes are kept of every sequence.
    """
    rising, spelled = _ids_rise(file, id_columns), " / ".join(id_columns)
    seen: set[int] = set()
    last, n_begun = None, list[int]()
    for group in range(file.metadata.num_row_groups):
        column = _names_in(file, group, id_columns)
        if not len(column):
            n_begun.append(0)
            continue
        codes, dictionary = _codes(column)
        names = dictionary.take(codes[_runs(codes)]).to_pylist()
        begins = names[1:] if names[0] == last else names
        last = names[-1]
        twice = len(names) > len(dictionary)
        again = next((name for name in begins if hash(name) in seen), None)
        if twice or again is not None:
            again = again if again is not None else Counter(names).most_common(1)[0][0]
            raise ValueError(
                f"the rows of {spelled} = {again!r} do not stand together in {path} (seen again in row group "
                f"{group}): they would be taken for several sequences. Sort the file by {spelled}."
            )
        seen = {hash(name) for name in names} | (set() if rising else seen)
        n_begun.append(len(begins))
    return n_begun


def _ids_rise(file: Any, id_columns: list[str]) -> bool:
    """Whether the statistics of row groups prove that no id of one comes in a later one, but for the next."""
    if len(id_columns) > 1:  # their statistics say nothing about the columns together
        return False
    place = file.schema_arrow.names.index(id_columns[0])
    found = [file.metadata.row_group(g).column(place).statistics for g in range(file.metadata.num_row_groups)]
    if any(s is None or not s.has_min_max for s in found):
        return False
    return all(a.max <= b.min for a, b in itertools.pairwise(found))


def _sequences(table: Any, id_columns: list[str], time: str | None, values: list[str]) -> Sequences:
    codes, dictionary = _codes(_names(table, id_columns))
    begins = _runs(codes)
    X = np.empty((table.num_rows, len(values)))
    for k, name in enumerate(values):
        try:
            X[:, k] = table[name].to_numpy()
        except (TypeError, ValueError) as error:
            raise TypeError(f"column {name!r} cannot be read as numbers: {error}.") from None
    if time is not None:
        X = X[_by_time(table[time].to_numpy(), begins, len(codes), time)]
    lengths = np.diff(np.append(begins, len(codes)))
    return Sequences.from_concatenated(X, lengths, dictionary.take(codes[begins]).to_pylist())


def _by_time(times: npt.NDArray[Any], begins: npt.NDArray[np.intp], n: int, name: str) -> npt.NDArray[np.intp]:
    run = np.zeros(n, dtype=np.int64)
    run[begins[1:]] = 1
    run = np.cumsum(run)
    order = np.lexsort((times, run))
    twice = (np.diff(run[order]) == 0) & (times[order][1:] == times[order][:-1])
    if twice.any():
        raise ValueError(
            f"a sequence has two rows with {name} = {times[order][int(np.argmax(twice))]}; drop one of them."
        )
    return order
