"""A Parquet file, read whole. Data in parts are read by row groups: see vhem.scale."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from vhem._support.errors import InputError
from vhem._support.optional import how_to_install
from vhem.sequences.container import Sequences
from vhem.sequences.readers.columns import chosen_categories
from vhem.sequences.readers.frames import pyarrow_or_none, read_frame
from vhem.sequences.readers.options import Options, Reading, errors_of, without_extension
from vhem.sequences.readers.roles import Asked, given_or_guessed, listed
from vhem.sequences.readers.wide_rows import read_wide_columns

_FILE = "(file)"  # the column that names the one sequence of a file without ids


def read_parquet(path: Path, options: Options) -> Reading:
    """Return the sequences of a Parquet file."""
    if pyarrow_or_none() is None:
        raise ModuleNotFoundError(
            f"parquet files are read by pyarrow, which is not installed: {how_to_install('tables')}."
        )
    kinds = _kinds(path)
    with errors_of(path):  # pyarrow's errors are ValueErrors too
        return _read_wide(path, kinds, options) if options.wide is not None else _read_long(path, kinds, options)


def _kinds(path: Path) -> dict[str, Any]:
    """Return the columns of a file with their types."""
    import pyarrow as pa  # noqa: PLC0415  (an extra)
    import pyarrow.parquet as pq  # noqa: PLC0415

    try:
        return {field.name: field.type for field in pq.read_schema(path)}
    except (pa.ArrowException, OSError) as fault:
        raise InputError("{path} cannot be read as parquet: {fault}", path=path, fault=fault) from None


def _read_wide(path: Path, kinds: dict[str, Any], options: Options) -> Reading:
    import pyarrow.parquet as pq  # noqa: PLC0415

    whole = pq.read_table(path)
    wide, roles = read_wide_columns(list(kinds), lambda name: whole[name].to_pylist(), options.of_wide())
    return Reading(Sequences._of_table(wide), roles)


def _read_long(path: Path, kinds: dict[str, Any], options: Options) -> Reading:
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    def is_numeric(name: str) -> bool:
        kind = kinds[name]
        return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind))

    def is_category(name: str) -> bool:
        return bool(pa.types.is_dictionary(kinds[name]))

    asked = Asked(chosen_categories(options, list(kinds)), options.weights)
    roles = given_or_guessed(list(kinds), is_numeric, *options[:4], asked, is_category)
    others = [*listed(roles.time), *listed(roles.group), *listed(roles.weights)]
    frame = pq.read_table(path, columns=list(dict.fromkeys([*roles.id, *roles.values, *others])))
    if not roles.id:
        frame = frame.append_column(_FILE, pa.array([without_extension(path)] * len(frame)))
    table = read_frame(
        frame, roles.id or _FILE, roles.time, roles.values, roles.group, roles.categories, roles.weights, options.other
    )
    made = Sequences._of_table(table)
    made._check_range()
    return Reading(made, roles)
