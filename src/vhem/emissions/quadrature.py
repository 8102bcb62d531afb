"""Integrals over one or two parameters of bell-shaped densities, of many distributions at once.

The trapezoidal rule on a smooth density that vanishes at both ends converges geometrically, so all that is needed is to
find where the density lies. There are nodes to spare, because a posterior after few frames may be steep on one side and
wide on the other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from vhem._support.arrays import FloatArray

_ZOOMS, _COARSE, _FINE = 5, 17, {1: 97, 2: 41}  # rounds of looking closer, nodes per parameter in these, and at the end
_DEPTH = 30.0  # nats below its maximum at which a density has vanished

LogDensity = Callable[..., FloatArray]  # of one or two arrays (…, n) of parameters


class Nodes(NamedTuple):
    """A distribution as points with probabilities."""

    at: tuple[FloatArray, ...]  #: (…, n) the value of each parameter
    weights: FloatArray  #: (…, n) they sum to one
    log_norm: FloatArray  #: (…) log ∫ of the density
    steps: tuple[FloatArray, ...]  #: (…) between neighbours

    def mean(self, values: FloatArray) -> FloatArray:
        """Return the expectation of a function that has these values at the points."""
        return np.asarray((self.weights * values).sum(-1))


def nodes_of(log_density: LogDensity, *ranges: tuple[FloatArray, FloatArray]) -> Nodes:
    """Return where densities lie, within a range for each parameter.

    Of two parameters the second is found first: where it is far off, the best value of the other may be elsewhere.
    """
    low, high = (np.stack(ends, axis=-1) for ends in zip(*ranges, strict=True))
    k = low.shape[-1]
    for j in [k - 1] * _ZOOMS + list(range(k - 1)) * 2:
        values = log_density(*_grid(low, high, _COARSE)).reshape(*low.shape[:-1], *(_COARSE,) * k)
        low[..., j], high[..., j] = _closer(values, low[..., j], high[..., j], j - k)
    n = _FINE[low.shape[-1]]
    at = _grid(low, high, n)
    values = log_density(*at)
    top = values.max(-1, keepdims=True)
    weights = np.exp(values - top)
    total = weights.sum(-1, keepdims=True)
    steps = (high - low) / (n - 1)
    log_norm = (top + np.log(total))[..., 0] + np.log(steps).sum(-1)
    return Nodes(at, weights / total, log_norm, tuple(np.moveaxis(steps, -1, 0)))


def _grid(low: FloatArray, high: FloatArray, n: int) -> tuple[FloatArray, ...]:
    """Return all pairs of n values of each parameter, one array (…, n^k) for each of k parameters."""
    line = low[..., None] + (high - low)[..., None] * np.linspace(0.0, 1.0, n)  # (…, k, n)
    if line.shape[-2] == 1:
        return (line[..., 0, :],)
    one, two = line[..., 0, :, None], line[..., 1, None, :]
    both = np.broadcast_arrays(one, two)
    return tuple(np.ascontiguousarray(a).reshape(*a.shape[:-2], n * n) for a in both)


def _closer(values: FloatArray, low: FloatArray, high: FloatArray, axis: int) -> tuple[FloatArray, FloatArray]:
    """Return the range of one parameter in which the density has not vanished, with one step more at either end."""
    axes = tuple(range(low.ndim - values.ndim, 0))
    inside = values > values.max(axes, keepdims=True) - _DEPTH
    along = inside.any(tuple(a for a in axes if a != axis))
    first, last = along.argmax(-1), _COARSE - 1 - along[..., ::-1].argmax(-1)
    step = (high - low) / (_COARSE - 1)
    return low + step * np.maximum(first - 1, 0), low + step * np.minimum(last + 1, _COARSE - 1)
