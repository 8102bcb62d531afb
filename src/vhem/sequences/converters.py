"""Formats in which other libraries hold time series: aeon, sktime, tslearn."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from vhem._support.arrays import FloatArray
from vhem._support.errors import InputError, InputTypeError
from vhem._support.optional import how_to_install


def frames_first(series: Iterable[npt.ArrayLike]) -> list[FloatArray]:
    """Return series with channels in rows, (d, T), or (T,) for one channel, as (T, d)."""
    arrays = [np.asarray(one, dtype=np.float64) for one in series]
    for i, array in enumerate(arrays):
        if array.ndim not in (1, 2):
            problem = "series {i} has shape {shape}; with channels first, a series is (d, T) or (T,)"
            raise InputError(problem, i=i, shape=array.shape)
    return [array.T if array.ndim == 2 else array[:, None] for array in arrays]


def without_padding(cube: npt.ArrayLike) -> list[FloatArray]:
    """Return the series of an (n, T, d) array, or (n, T) for one channel, without the frames of NaN at their ends."""
    array = np.asarray(cube, dtype=np.float64)
    if array.ndim == 2:
        array = array[:, :, None]
    if array.ndim != 3:
        raise InputError("padded series have shape (n, T, d) or (n, T), got {shape}", shape=array.shape)
    present = np.asarray(~np.isnan(array).all(axis=2))
    lengths = np.where(present.any(axis=1), array.shape[1] - present[:, ::-1].argmax(axis=1), 0)
    if not lengths.all():
        raise InputError("series {i} is NaN throughout", "drop it", i=int(np.argmin(lengths)))
    return [one[:length] for one, length in zip(array, lengths, strict=True)]


def padded(arrays: Iterable[FloatArray]) -> FloatArray:
    """Return an (n, T, d) array, T the greatest length, padded with NaN."""
    parts = list(arrays)
    out = np.full((len(parts), max(map(len, parts)), parts[0].shape[1]), np.nan)
    for row, part in zip(out, parts, strict=True):
        row[: len(part)] = part
    return out


def from_multiindex(frame: Any) -> tuple[list[Any], list[FloatArray]]:
    """Return ids and series of a pandas frame whose index has two levels, instance and time."""
    levels = getattr(getattr(frame, "index", None), "nlevels", 0)
    if levels != 2:
        raise InputTypeError(
            "a frame with an index of two levels, instance and time, is needed, got {kind} with {n} index levels",
            "For a long table use Sequences.from_table",
            kind=type(frame).__name__, n=levels or "no",
        )  # fmt: skip
    ids, arrays = [], []
    for name, part in frame.groupby(level=0, sort=False):
        if part.index.has_duplicates:
            raise InputError("instance {key!r} has two rows with the same time", "drop one of the rows", key=name)
        ids.append(name)
        arrays.append(part.sort_index(level=1).to_numpy(dtype=np.float64))
    return ids, arrays


def to_multiindex(
    ids: list[Any],
    arrays: Iterable[FloatArray],
    columns: list[str],
    categories: tuple[tuple[str, ...] | None, ...],
) -> Any:
    """Return a pandas frame whose index has two levels, instance and time; categories have their names."""
    try:
        import pandas as pd  # noqa: PLC0415  (an extra)
    except ModuleNotFoundError:
        raise ModuleNotFoundError(f"this format needs pandas: {how_to_install('tables')}.") from None
    parts = list(arrays)
    keys = [(name, t) for name, part in zip(ids, parts, strict=True) for t in range(len(part))]
    index = pd.MultiIndex.from_tuples(keys, names=["instance", "time"])
    frame = pd.DataFrame(np.concatenate(parts), index=index, columns=columns)
    for column, names in zip(columns, categories, strict=True):
        if names is not None:
            codes = frame[column].fillna(-1).astype("int64")
            frame[column] = pd.Categorical.from_codes(codes, categories=list(names))
    return frame
