"""Tables of covariates: one value per person, from a table with one row per person or one per observation."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from vhem._support.errors import Count, InputError, InputWarning, warn
from vhem._support.optional import how_to_install
from vhem._support.paths import existing_file
from vhem.files.labels import as_written
from vhem.sequences.readers.frames import column_names

_MISSING = ("", "na", "nan", "null", "-", ".", "none")
_WHO = {"id", "ids", "name", "subject", "subj", "sub", "person", "people", "participant", "proband", "viewer", "group",
        "case", "patient", "user", "child", "animal", "code"}  # fmt: skip
_FEW = 2  # distinct numbers that are taken as categories


class Covariate(NamedTuple):
    """One column, with one value per person."""

    name: str
    numeric: bool
    values: list[Any]  #: floats or text; None where there is none


class Covariates(NamedTuple):
    """Columns of values for the people of a clustering."""

    columns: list[Covariate]
    skipped: dict[str, str]  #: columns that say nothing, and why
    absent: list[str]  #: people whom the table lacks
    key: str  #: the column that names the people


def read_table(table: Any) -> dict[str, list[Any]]:
    """Return the columns of a table: a data frame, a dictionary, or a file (csv, tsv, xls, xlsx, parquet)."""
    if isinstance(table, (str, Path)):
        return _read_file(existing_file(Path(table)))
    names = list(column_names(table))
    if not names:
        raise InputError("the table has no columns", "give one that names the people, and covariates")
    columns = {str(name): np.asarray(table[name]).tolist() for name in names}
    if len({len(values) for values in columns.values()}) > 1:
        raise InputError("the columns of the table differ in length", "give columns of one length")
    return columns


def _read_file(path: Path) -> dict[str, list[Any]]:
    if path.suffix.lower() in (".xls", ".xlsx", ".parquet"):
        return _by_pandas(path)
    text = path.read_text(encoding="utf-8-sig")
    delimiter = max(",;\t", key=text.partition("\n")[0].count)
    header, *rows = [row for row in csv.reader(text.splitlines(), delimiter=delimiter) if row] or [[]]
    if not rows:
        raise InputError("{path} has no rows below its header", path=path)
    for k, row in enumerate(rows):
        if len(row) != len(header):
            raise InputError(
                "{path}, row {row}: {n:cell} under {m} column names", "correct the row",
                path=path, row=k + 2, n=Count(len(row)), m=len(header),
            )  # fmt: skip
    return {name: [as_written(cell) for cell in cells] for name, cells in zip(header, zip(*rows, strict=True),
            strict=True)}  # fmt: skip


def _by_pandas(path: Path) -> dict[str, list[Any]]:
    try:
        import pandas as pd  # noqa: PLC0415  (an extra)
    except ModuleNotFoundError:
        raise ModuleNotFoundError(f"{path.suffix} files need pandas: {how_to_install('tables')}.") from None
    parquet = path.suffix.lower() == ".parquet"
    frame = pd.read_parquet(path) if parquet else pd.read_excel(path, engine="calamine")
    return {str(name): frame[name].tolist() for name in frame.columns}


def covariates_of(
    table: Any, ids: list[Any], id: str | None = None, columns: Iterable[str] | None = None,
    categorical: Iterable[str] = (), missing: str = "drop", exclude: Iterable[str] = (),
) -> Covariates:  # fmt: skip
    """Return what a table says about people.

    Rows are matched by the column `id`, or by the one whose cells name the people. Rows of one person must agree.
    """
    cells, people = read_table(table), [plain(name) for name in ids]
    key = _key_column(cells, people, id)
    rows = {name: [] for name in people}  # type: dict[str, list[int]]
    for k, cell in enumerate(cells[key]):
        if plain(cell) in rows:
            rows[plain(cell)].append(k)
    absent = [name for name in people if not rows[name]]
    if len(absent) == len(people):
        raise InputError(
            "column {key!r} of the table names nobody in the clustering: it has {cell!r}, and people are called "
            "{person!r}",
            "give the column that names them as {id}", "correct their names",
            key=key, cell=plain(cells[key][0]), person=people[0],
        )  # fmt: skip
    _report_absent(absent, people, missing)
    wanted, clustered = _wanted(cells, key, columns), [name for name in exclude if name in cells]
    made, skipped, forced = list[Covariate](), dict[str, str](), {*categorical}
    if columns is None and clustered:
        wanted = [name for name in wanted if name not in clustered]
        skipped[_several(clustered)] = "took part in the clustering"
    for name in wanted:
        found = _per_person(name, cells[name], rows, named=columns is not None)
        if found is None:
            skipped[name] = "has several values per person"
        elif (fault := _says_nothing(found)) is not None:
            skipped[name] = fault
        else:
            made.append(_typed(name, found, name in forced))
    return Covariates(made, skipped, absent, key)


def plain(cell: Any) -> str:
    """Return a cell as text, whole numbers without a point: spreadsheets hold 7 as 7.0.

    Examples
    --------
    >>> plain(7.0), plain("07"), plain(7), plain(" ann ")
    ('7', '07', '7', 'ann')
    """
    if isinstance(cell, (float, np.floating)) and math.isfinite(cell) and cell == int(cell):
        return str(int(cell))
    return str(cell).strip()


def _key_column(cells: dict[str, list[Any]], people: list[str], id: str | None) -> str:
    """Return the column that names the people.

    Ages or ranks may happen to be the numbers of people. So a column is taken only if it names most of them and is the
    first one, holds text, or is called like an id.
    """
    if id is not None:
        return _checked_column(id, cells)
    known = set(people)
    found = {name: len(known & {plain(cell) for cell in values}) for name, values in cells.items()}
    most = {name: n for name, n in found.items() if 2 * n > len(known)}
    likely = [name for k, name in enumerate(cells) if name in most and (k == 0 or _names_people(name, cells[name]))]
    if likely:
        return max(likely, key=lambda name: found[name])
    best = max(found, key=lambda name: found[name])
    problem = "no column of the table clearly names the people of the clustering, such as {person!r}; it has {columns}"
    if found[best]:
        problem += "; {best!r} has {n} of these {all} names, but may be a covariate"
    raise InputError(
        problem, "give the column that names them as {id}",
        person=people[0], columns=", ".join(cells), best=best, n=found[best], all=len(known),
    )  # fmt: skip


def _names_people(name: str, cells: list[Any]) -> bool:
    """Whether a column holds text, or is called like one that names people."""
    words = re.split(r"[^a-z]+", name.lower())
    return any(word in _WHO for word in words) or any(_as_number(cell) is None for cell in cells)


def _report_absent(absent: list[str], people: list[str], missing: str) -> None:
    if missing not in ("drop", "refuse"):
        raise InputError("{missing} must be 'drop' or 'refuse'")
    if not absent:
        return
    shown = ", ".join(absent[:5]) + (" …" if len(absent) > 5 else "")
    if missing == "refuse":
        raise InputError(
            "the table lacks {n} of {all} people: {shown}", "add them, or give {missing:'drop'}",
            n=len(absent), all=len(people), shown=shown,
        )  # fmt: skip
    warn(
        InputWarning("{n} of {all} people are left out, since the table lacks them: {shown}", n=len(absent),
                     all=len(people), shown=shown)
    )  # fmt: skip


def _several(names: list[str]) -> str:
    return ", ".join(names) if len(names) < 4 else f"{names[0]}, {names[1]}, … {names[-1]} ({len(names)} columns)"


def _wanted(cells: dict[str, list[Any]], key: str, columns: Iterable[str] | None) -> list[str]:
    if columns is None:
        return [name for name in cells if name != key]
    wanted = [columns] if isinstance(columns, str) else list(columns)
    return [_checked_column(name, cells) for name in wanted]


def _checked_column(name: str, cells: dict[str, list[Any]]) -> str:
    if name not in cells:
        raise InputError("the table has no column {column!r}; it has {columns}", column=name, columns=", ".join(cells))
    return name


def _per_person(name: str, cells: list[Any], rows: dict[str, list[int]], named: bool) -> list[Any] | None:
    """Return one value per person; None if some have several and the column was not asked for."""
    values: list[Any] = []
    for person, mine in rows.items():
        found = {plain(cells[k]): cells[k] for k in mine if not _is_missing(cells[k])}
        if len(found) > 1 and named:
            several = ", ".join(map(repr, list(found)[:2]))
            raise InputError(
                "column {column!r} has several values for {person!r}: {several}",
                "give a table with one value per person", column=name, person=person, several=several,
            )  # fmt: skip
        if len(found) > 1:
            return None
        values.append(next(iter(found.values()), None))
    return values


def _is_missing(cell: Any) -> bool:
    if cell is None or type(cell).__name__ in ("NAType", "NaTType") or cell != cell:  # noqa: PLR0124
        return True
    return isinstance(cell, str) and cell.strip().lower() in _MISSING


def _says_nothing(values: list[Any]) -> str | None:
    distinct = {plain(value) for value in values if value is not None}
    if not distinct:
        return "has no values"
    if any(isinstance(value, (float, np.floating)) and math.isinf(value) for value in values):
        return "has infinite values"
    if len(distinct) == 1:
        return f"is constant ({next(iter(distinct))})"
    n_seen = sum(value is not None for value in values)
    if len(distinct) == n_seen and not all(_as_number(v) is not None for v in values if v is not None):
        return "has a different text for everybody"
    return None


def _typed(name: str, values: list[Any], categorical: bool) -> Covariate:
    numbers = [None if value is None else _as_number(value) for value in values]
    parsed = all(x is not None for x, value in zip(numbers, values, strict=True) if value is not None)
    many = len({x for x in numbers if x is not None}) > _FEW
    if parsed and many and not categorical:
        return Covariate(name, True, numbers)
    return Covariate(name, False, [None if value is None else plain(value) for value in values])


def _as_number(value: Any) -> float | None:
    if isinstance(value, (bool, np.bool_)):
        return None
    try:
        found = float(value)
    except (TypeError, ValueError):
        return None
    return found if math.isfinite(found) else None
