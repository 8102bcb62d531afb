"""Slopes of smooth sequences, as further channels.

A state takes its frames to be independent. Where values change smoothly they are not: where a curve is going is then
known from its neighbours, and tells items apart that pass through the same values in other ways. A slope beside each
value lets a state know both. Where neighbours differ by noise, slopes are noise too, and only blur what is there.
"""

from __future__ import annotations

import numpy as np

from vhem._support.arrays import BoolArray, FloatArray, IntArray
from vhem.em.grouped import Batch
from vhem.emissions import Gaussian
from vhem.kernels.models import Models
from vhem.sequences.channels import Channels

_SMOOTH = 0.25  # correlation of successive steps above which a channel is smooth: noise has -0.5, a random walk 0
_LEAST_STEPS = 30  # pairs of successive steps from which that can be told
_WIDTH = 2.0  # frames: standard deviation of the window in which a line is fitted to the values
_REACH = 6  # frames on either side that belong to the window
_STRAIGHT = 1e-6  # of a channel's typical step: slopes that vary less are the same everywhere, but for rounding


def smooth_channels(batch: Batch) -> IntArray:
    """Return the channels that change smoothly: a step up is mostly followed by another step up."""
    steps = np.diff(batch.X, axis=0)
    steps[batch.offsets[1:-1] - 1] = np.nan  # from one sequence to the next
    both = steps[:-1] * steps[1:]
    known = ~np.isnan(both)
    before, after = (np.where(known, part, 0.0) for part in (steps[:-1], steps[1:]))
    size = 0.5 * (np.square(before) + np.square(after)).sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        correlation = np.where(known, both, 0.0).sum(axis=0) / size
    may = (known.sum(axis=0) >= _LEAST_STEPS) & (correlation > _SMOOTH)
    found = np.flatnonzero(may)
    return found[_vary(slopes(batch, found), np.sqrt(size / np.maximum(known.sum(axis=0), 1))[found])]


def _vary(of_channels: FloatArray, step: FloatArray) -> BoolArray:
    """Whether slopes differ at all: those of a clock do not."""
    return np.asarray(np.nanstd(of_channels, axis=0) > _STRAIGHT * step, dtype=bool)


def slopes(batch: Batch, channels: IntArray) -> FloatArray:
    """Return how much some channels rise per frame, (N, n): that of a line fitted to the frames nearby.

    It is missing where the value is, and where no other value is nearby.
    """
    X = batch.X[:, channels]
    N, sequence = len(X), np.repeat(np.arange(len(batch.lengths)), batch.lengths)
    count, first, second, value, product = (np.zeros_like(X) for _ in range(5))
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


def with_slopes(batch: Batch, channels: IntArray) -> Batch:
    """Return Gaussian sequences with the slopes of some channels after their own."""
    if not len(channels):
        return batch
    X = np.hstack([batch.X, slopes(batch, channels)])
    like = Gaussian(np.zeros(X.shape[1]), np.ones(X.shape[1]))
    assert isinstance(batch.emissions, Gaussian)
    return batch._replace(X=X, emissions=like if batch.emissions.is_diagonal else like.full())


def names_with_slopes(known: Channels, channels: IntArray) -> Channels:
    """Return the names of the channels, and of their slopes."""
    more = tuple(f"slope of {known.names[k]}" for k in channels)
    return Channels(known.names + more, known.categories + (None,) * len(more))


def without_slopes(models: Models, n_dims: int) -> Models:
    """Return the same HMMs of the values alone, whatever the slopes: their marginal distributions."""
    if models.n_dims == n_dims:
        return models
    gaussians = models.components
    assert isinstance(gaussians, Gaussian)
    covars = gaussians.covars[..., :n_dims] if gaussians.is_diagonal else gaussians.covars[..., :n_dims, :n_dims]
    kept = Gaussian(np.ascontiguousarray(gaussians.means[..., :n_dims]), np.ascontiguousarray(covars))
    return models.with_components(kept)
