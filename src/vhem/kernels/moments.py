"""Mean and sum of squares of the frames of many groups, each on its own: the scale of the data."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vhem._support.arrays import FloatArray, IntArray
from vhem.kernels import compiled
from vhem.kernels.engine import engine


class Moments(NamedTuple):
    """Of every group and dimension, (G, d); missing values are ignored."""

    seen: FloatArray  #: numbers of values that are not missing
    mean: FloatArray  #: of those; 0 if there are none
    squares: FloatArray  #: sum of squared deviations from the mean
    largest: FloatArray  #: largest absolute value


def group_moments(X: FloatArray, offsets: IntArray) -> Moments:
    """Return the moments of groups of frames; group g, never empty, is ``X[offsets[g]:offsets[g + 1]]``."""
    if engine().module is None:
        return _reference(X, offsets[:-1], np.diff(offsets))
    return Moments(*compiled.group_moments(X=X, offsets=offsets))


def _reference(X: FloatArray, begins: IntArray, sizes: IntArray) -> Moments:
    seen = ~np.isnan(X)
    values = np.where(seen, X, 0.0)
    count = np.add.reduceat(seen, begins, dtype=np.float64)
    n = np.maximum(count, 1.0)
    origin = values[begins]
    mean = np.where(count > 0, origin + _sums(values - np.repeat(origin, sizes, axis=0), seen, begins) / n, 0.0)
    squares = _sums((values - np.repeat(mean, sizes, axis=0)) ** 2, seen, begins)
    return Moments(count, mean, squares, np.maximum.reduceat(np.abs(values), begins))


def _sums(values: FloatArray, seen: np.ndarray, begins: IntArray) -> FloatArray:
    return np.asarray(np.add.reduceat(np.where(seen, values, 0.0), begins))
