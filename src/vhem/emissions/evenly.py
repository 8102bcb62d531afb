"""Frames that follow their distribution as exactly as their number allows, where random ones would add noise."""

from __future__ import annotations

import numpy as np

from vhem._support.arrays import FloatArray, IntArray


def strata(place: IntArray, n_dims: int, rng: np.random.Generator) -> FloatArray:
    """Return numbers between 0 and 1, (n, d): the frames of a place have (½, 1½, …) / their number, in random order."""
    count = np.bincount(place)
    first = np.cumsum(count) - count
    u = np.empty((len(place), n_dims))
    for column in u.T:
        order = np.lexsort((rng.random(len(place)), place))
        column[order] = (np.arange(len(place)) - first[place[order]] + 0.5) / count[place[order]]
    return u


def standardised(noise: FloatArray, place: IntArray, n_places: int) -> FloatArray:
    """Return noise whose mean is zero and mean square one at every place; a single frame becomes zero."""
    count = np.maximum(np.bincount(place, minlength=n_places), 1)[:, None]
    noise = noise - (_totals(noise, place, n_places) / count)[place]
    square = _totals(noise**2, place, n_places) / count
    return np.asarray(noise * np.where(square > 1e-20, 1 / np.sqrt(np.maximum(square, 1e-20)), 0.0)[place])


def whitened(noise: FloatArray, place: IntArray, n_places: int) -> FloatArray:
    """Return noise whose covariance is one at every place with more frames than dimensions."""
    d = noise.shape[1]
    count = np.bincount(place, minlength=n_places)
    products = _totals((noise[:, :, None] * noise[:, None, :]).reshape(len(noise), -1), place, n_places)
    enough = np.flatnonzero(count > d)
    inverse = np.broadcast_to(np.eye(d), (n_places, d, d)).copy()
    inverse[enough] = np.linalg.inv(np.linalg.cholesky((products[enough] / count[enough, None]).reshape(-1, d, d)))
    return np.asarray(np.einsum("nij,nj->ni", inverse[place], noise))


def _totals(values: FloatArray, place: IntArray, n_places: int) -> FloatArray:
    return np.stack([np.bincount(place, column, n_places) for column in values.T], axis=1)
