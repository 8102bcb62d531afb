"""One partition out of several: each item goes where most of them put it.

Ward's parts and what EM makes of them err in different places, the more so if the model is wrong (frames that resemble
their neighbours, for instance). Every solution votes with what it believes, and those that explain the sequences worse
count less.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import linear_sum_assignment

from vhem._support.arrays import FloatArray

_ROUNDS = 2  # of matching the clusters of all solutions with those of their average


def averaged(solutions: list[FloatArray], weights: FloatArray, first: int) -> FloatArray:
    """Return the weighted average of memberships, (n, K) each, whose clusters are first matched with one another.

    Clusters have the order of those of solution `first`.
    """
    average = solutions[first]
    for _ in range(_ROUNDS):
        matched = [z[:, _match(average, z)] for z in solutions]
        average = np.average(matched, axis=0, weights=weights)
    return np.asarray(average)


def _match(average: FloatArray, other: FloatArray) -> FloatArray:
    """Return the cluster of `other` that stands for each cluster, so that overlaps (cosines) are largest."""
    sizes = average.sum(axis=0)[:, None] * other.sum(axis=0)
    overlap = average.T @ other / np.sqrt(np.maximum(sizes, 1e-300))
    return np.asarray(linear_sum_assignment(-overlap)[1])
