"""What sequence analysts do: optimal matching between sequences of states, and partitioning around medoids."""

from __future__ import annotations

import numpy as np

from vhem._support.arrays import FloatArray, IntArray
from vhem.sequences import Sequences


def optimal_matching(sequences: Sequences) -> FloatArray:
    """Return the distances between all sequences of one channel: insertions cost 1 and substitutions 2.

    With these costs (TraMineR's constant ones) the distance is T + T' - 2 · the longest common subsequence.

    Examples
    --------
    >>> optimal_matching(Sequences([[0.0, 1.0, 1.0], [1.0, 1.0], [0.0, 2.0, 1.0]])).tolist()
    [[0.0, 1.0, 2.0], [1.0, 0.0, 3.0], [2.0, 3.0, 0.0]]
    """
    padded = sequences.to_padded()[:, :, 0]
    codes = np.where(np.isnan(padded), -1, padded).astype(np.int64)
    distinct, place = np.unique(codes, axis=0, return_inverse=True)
    lengths = (distinct >= 0).sum(axis=1)
    one, other = np.triu_indices(len(distinct), 1)
    common = _common(distinct, one, other)
    far = np.zeros((len(distinct), len(distinct)))
    far[one, other] = far[other, one] = lengths[one] + lengths[other] - 2 * common
    return np.asarray(far[np.ix_(place.ravel(), place.ravel())])


def _common(codes: IntArray, one: IntArray, other: IntArray) -> IntArray:
    """Return the lengths of the longest common subsequences of pairs, all pairs at once."""
    T = codes.shape[1]
    mine, theirs = codes[one].T.astype(np.int16), codes[other].T.astype(np.int16)
    theirs[theirs < 0] = -2  # what is after the end is never the same
    before = np.zeros((T + 1, len(one)), dtype=np.int16)
    for i in range(T):
        row = np.zeros_like(before)
        for j in range(T):
            np.maximum(before[j + 1], row[j], out=row[j + 1])
            np.maximum(row[j + 1], before[j] + (mine[i] == theirs[j]), out=row[j + 1])
        before = row
    return before[T].astype(np.int64)


def pam(far: FloatArray, n_clusters: int, weights: FloatArray) -> IntArray:
    """Return labels by PAM (Kaufman and Rousseeuw): medoids chosen one by one, then swapped while that helps.

    Examples
    --------
    >>> points = np.array([0.0, 1.0, 10.0, 11.0])
    >>> pam(np.abs(points[:, None] - points), 2, np.ones(4)).tolist()
    [0, 0, 1, 1]
    """
    medoids = [int((weights @ far).argmin())]
    while len(medoids) < n_clusters:
        nearest = far[:, medoids].min(axis=1)
        medoids.append(int((weights @ np.minimum(nearest[:, None], far)).argmin()))
    cost = float(weights @ far[:, medoids].min(axis=1))
    while True:
        found = [_best_swap(far, medoids, k, weights) for k in range(n_clusters)]
        k = int(np.argmin([value for value, _ in found]))
        if found[k][0] >= cost - 1e-9 * abs(cost):
            break
        cost, medoids[k] = found[k]
    return np.asarray(far[:, sorted(medoids)].argmin(axis=1), dtype=np.int64)


def _best_swap(far: FloatArray, medoids: list[int], k: int, weights: FloatArray) -> tuple[float, int]:
    """Return the lowest cost with another medoid in the place of the k-th, and that medoid."""
    rest = [m for j, m in enumerate(medoids) if j != k]
    nearest = far[:, rest].min(axis=1) if rest else np.full(len(far), np.inf)
    costs = weights @ np.minimum(nearest[:, None], far)
    return float(costs.min()), int(costs.argmin())
