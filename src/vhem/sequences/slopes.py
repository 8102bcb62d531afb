"""How fast the values of sequences change: which channels are smooth, and their slopes."""

from __future__ import annotations

import numpy as np

from vhem._support.arrays import FloatArray, IntArray
from vhem.sequences.channels import Channels

PREFIX = "slope of "  # of the name of a channel that holds the slopes of another

_SMOOTH = 0.25  # correlation of successive steps above which a channel is smooth: noise has -0.5, a random walk 0
_ENOUGH = 1_000_000  # frames that are asked
_LEAST_STEPS = 30  # pairs of successive steps from which that can be told
_WIDTH = 2.0  # frames: standard deviation of the window in which a line is fitted to the values
_REACH = 6  # frames on either side that belong to the window
_STRAIGHT = 1e-6  # of a channel's typical step: slopes that vary less are the same everywhere, but for rounding


def smooth_channels(X: FloatArray, offsets: IntArray) -> IntArray:
    """Return the channels that change smoothly: a step up is mostly followed by another step up.

    Channels with the same slope everywhere, such as a clock, are left out.
    """
    X, offsets = X[:_ENOUGH], np.append(offsets[offsets < len(X[:_ENOUGH])], len(X[:_ENOUGH]))
    steps = np.diff(X, axis=0)
    steps[offsets[1:-1] - 1] = np.nan  # from one sequence to the next
    both = steps[:-1] * steps[1:]
    known = ~np.isnan(both)
    before, after = (np.where(known, part, 0.0) for part in (steps[:-1], steps[1:]))
    size = 0.5 * (np.square(before) + np.square(after)).sum(axis=0)
    count = known.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        correlation = np.where(known, both, 0.0).sum(axis=0) / size
    found = np.flatnonzero((count >= _LEAST_STEPS) & (correlation > _SMOOTH))
    typical = np.sqrt(size[found] / count[found])
    differ = np.nanstd(slopes(X[:, found], offsets), axis=0) > _STRAIGHT * typical
    return np.asarray(found[differ], dtype=np.int64)


def slopes(X: FloatArray, offsets: IntArray) -> FloatArray:
    """Return how much the channels rise per frame, (N, d): the slope of a line fitted to the frames nearby.

    It is missing where the value is, and where no other value is nearby.
    """
    N, sequence = len(X), np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    count, first, second, value, product = (np.zeros_like(X, dtype=np.float64) for _ in range(5))
    for u in range(-_REACH, _REACH + 1):
        here = np.arange(max(0, -u), min(N, N - u))
        here = here[sequence[here] == sequence[here + u]]
        away = X[here + u] - X[here]  # relative to the frame itself, so that large values lose no digits
        w = np.where(np.isnan(away), 0.0, np.exp(-0.5 * (u / _WIDTH) ** 2))
        weighted = w * np.nan_to_num(away)
        count[here] += w
        first[here] += w * u
        second[here] += w * u * u
        value[here] += weighted
        product[here] += weighted * u
    with np.errstate(invalid="ignore", divide="ignore"):
        return (count * product - first * value) / (count * second - first * first)


def names_with_slopes(known: Channels, channels: IntArray) -> Channels:
    """Return the names of the channels, and of their slopes."""
    more = tuple(PREFIX + known.names[k] for k in channels)
    return Channels(known.names + more, known.categories + (None,) * len(more))
