"""k-means on the points of many groups, each on its own: the start of many HMMs."""

from __future__ import annotations

import numpy as np

from vhem._support.arrays import FloatArray, IntArray
from vhem.kernels import compiled
from vhem.kernels.engine import engine
from vhem.kernels.stopping import check_stopped

_MAX_ITER = 10  # a start need not have converged: the EM that follows moves it anyway
_NEARER = 1 - 1e-12  # times the least squared distance: of centres equally far but for rounding, the first is taken
_MOST_POINTS = 20_000  # of a group, evenly spaced, that move the centres


def kmeans(Z: FloatArray, offsets: IntArray, uniforms: FloatArray, n_threads: int = 1) -> IntArray:
    """Return the cluster of every point among the points of its group.

    Parameters
    ----------
    Z : array of shape (N, d)
        Points; group g is ``Z[offsets[g]:offsets[g + 1]]`` and may be empty.
    offsets : array of shape (G + 1,)
        Where groups begin.
    uniforms : array of shape (G, C)
        Random numbers in [0, 1), one for each of the C centres that are to be drawn (k-means++).
    n_threads : int
        Threads; the result does not depend on it.

    Returns
    -------
    array of shape (N,)
        Clusters 0 … C-1; some stay empty if a group has fewer distinct points.
    """
    if engine().module is not None:
        return compiled.kmeans(
            Z=Z, offsets=offsets, uniforms=uniforms, max_iter=_MAX_ITER, most_points=_MOST_POINTS, n_threads=n_threads
        )
    labels = np.full(len(Z), -1, dtype=np.int64)
    for g, uniform in enumerate(uniforms):
        points = Z[offsets[g] : offsets[g + 1]]
        if len(points):
            labels[offsets[g] : offsets[g + 1]] = _kmeans(points, uniform)
    return labels


def _kmeans(points: FloatArray, uniform: FloatArray) -> IntArray:
    sample = points[:: -(-len(points) // _MOST_POINTS)]
    centers = _seeds(points, sample, uniform)
    labels = np.full(len(sample), -1)
    for _ in range(_MAX_ITER):
        check_stopped()
        before, labels = labels, _nearest(sample, centers)
        if (labels == before).all():
            break
        for c in np.unique(labels):
            centers[c] = sample[labels == c].mean(axis=0)
    return _nearest(points, centers)


def _seeds(points: FloatArray, sample: FloatArray, uniform: FloatArray) -> FloatArray:
    """k-means++: each centre is a point drawn in proportion to its squared distance from the centres before it."""
    centers = [points[int(uniform[0] * len(points))]]
    distance = np.full(len(sample), np.inf)
    for u in uniform[1:]:
        distance = np.minimum(distance, np.square(sample - centers[-1]).sum(axis=1))
        total = np.cumsum(distance)
        far = int(np.searchsorted(total, u * total[-1], side="right"))
        centers.append(sample[far] if total[-1] > 0 and far < len(sample) else points[int(u * len(points))])
    return np.array(centers)


def _nearest(points: FloatArray, centers: FloatArray) -> IntArray:
    distances = np.square(points[:, None] - centers).sum(axis=-1)
    best, least = np.zeros(len(points), dtype=np.int64), distances[:, 0]
    for c in range(1, len(centers)):
        nearer = distances[:, c] < least * _NEARER
        best[nearer] = c
        least = np.where(nearer, distances[:, c], least)
    return best
