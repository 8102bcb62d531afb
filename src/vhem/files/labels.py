"""Labels and responsibilities next to the ids, as csv or parquet."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from vhem._support.errors import InputError
from vhem._support.optional import how_to_install
from vhem.files.atomic import atomic_write

_FORMULAS = ("=", "+", "-", "@", "\t", "\r")


def write_labels(
    path: str | Path,
    ids: Iterable[Any],
    labels: npt.ArrayLike,
    responsibilities: npt.ArrayLike | None = None,
    first: int = 0,
) -> None:
    """Write the cluster of each sequence or HMM next to its id.

    Parameters
    ----------
    path : str or Path
        A .csv, .tsv or .parquet file; written whole or not at all.
    ids : list
        The names, such as ``sequences.ids`` or ``h3m.ids``.
    labels : array of shape (n,), or (n, levels) for the levels of a hierarchy
        The clusters, from 0.
    responsibilities : array of shape (n, K), optional
        Probability of each cluster: columns `probability` (of the cluster chosen) and p0, p1, …
    first : int
        Number of the first cluster. The command uses 1.

    Notes
    -----
    In csv and tsv, text that begins with ``=``, ``+``, ``-``, ``@``, a tab or a carriage return and is not a number
    gets an apostrophe in front, so that no spreadsheet runs it; the command removes it when it reads such a file.

    Examples
    --------
    >>> import tempfile
    >>> target = Path(tempfile.mkdtemp()) / "labels.csv"
    >>> write_labels(target, ["ann", "bob"], [0, 1], [[0.9, 0.1], [0.25, 0.75]])
    >>> print(target.read_text())
    id,cluster,probability,p0,p1
    ann,0,0.9,0.9,0.1
    bob,1,0.75,0.25,0.75
    """
    names, clusters = list(ids), np.asarray(labels)
    if clusters.ndim not in (1, 2) or len(clusters) != len(names) or clusters.dtype.kind not in "iu":
        raise InputError(
            "{labels} must be an integer for each of the {n} ids, got shape {shape}",
            n=len(names), shape=clusters.shape,
        )  # fmt: skip
    columns: dict[str, list[Any]] = {"id": names}
    if clusters.ndim == 1:
        columns["cluster"] = (clusters + first).tolist()
    else:
        columns |= {f"level{k + 1}": (level + first).tolist() for k, level in enumerate(clusters.T)}
    if responsibilities is not None:
        shares = np.asarray(responsibilities, dtype=np.float64)
        if clusters.ndim != 1 or shares.ndim != 2 or len(shares) != len(names) or clusters.max() >= shares.shape[1]:
            raise InputError(
                "{responsibilities} have shape {shape}", "give a row per id and a column per cluster",
                shape=shares.shape,
            )  # fmt: skip
        columns["probability"] = shares[np.arange(len(shares)), clusters].tolist()
        columns |= {f"p{k + first}": share.tolist() for k, share in enumerate(shares.T)}
    write_columns(path, columns)


def write_columns(path: str | Path, columns: dict[str, list[Any]]) -> None:
    """Write columns as csv, tsv or parquet, by the extension of `path`."""
    suffix = Path(path).suffix.lower()
    if suffix == ".parquet":
        _write_parquet(path, columns)
        return
    if suffix not in (".csv", ".tsv"):
        raise InputError("{path} must end in .csv, .tsv or .parquet", path=path)
    with atomic_write(path, "w", newline="") as file:
        writer = csv.writer(file, delimiter="," if suffix == ".csv" else "\t", lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(map(harmless, row) for row in zip(*columns.values(), strict=True))


def harmless(cell: Any) -> Any:
    """Return a cell that no spreadsheet runs: text that looks like a formula gets an apostrophe in front.

    Examples
    --------
    >>> [harmless(cell) for cell in ("=1+1", "-3.5", "ann", "'=1", -3)]
    ["'=1+1", '-3.5', 'ann', "''=1", -3]
    """
    return f"'{cell}" if isinstance(cell, str) and _is_formula(cell) else cell


def as_written(cell: str) -> str:
    """Return what `harmless` was given.

    Examples
    --------
    >>> [as_written(cell) for cell in ("'=1+1", "-3.5", "'tis", "''=1")]
    ['=1+1', '-3.5', "'tis", "'=1"]
    """
    return cell[1:] if cell.startswith("'") and _is_formula(cell) else cell


def _is_formula(text: str) -> bool:
    """Whether text is a formula to a spreadsheet, or was one before it got its apostrophes; numbers are not."""
    bare = text.lstrip("'")
    if not bare.startswith(_FORMULAS):
        return False
    try:
        return not math.isfinite(float(bare))
    except ValueError:
        return True


def _write_parquet(path: str | Path, columns: dict[str, list[Any]]) -> None:
    try:
        import pyarrow as pa  # noqa: PLC0415  (an extra)
        import pyarrow.parquet as pq  # noqa: PLC0415
    except ModuleNotFoundError:
        raise ModuleNotFoundError(f"parquet needs pyarrow: {how_to_install('tables')}.") from None
    if len({type(name) for name in columns["id"]}) > 1 or isinstance(columns["id"][0], tuple):
        columns = {**columns, "id": list(map(str, columns["id"]))}
    with atomic_write(path) as file:
        pq.write_table(pa.table(columns), file)
