"""Spectral clustering: items placed by the leading eigenvectors of their affinities (Ng, Jordan and Weiss, 2001)."""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh
from scipy.sparse.linalg import eigsh

from vhem._support.arrays import FloatArray, IntArray
from vhem.kernels.kmeans import kmeans

_DENSE = 1000  # items for which all eigenvectors are affordable; for three times as many, Lanczos is 20 times faster
_FAR = 1e300


def spectral_embedding(affinity: FloatArray, n: int) -> FloatArray:
    """Return the n leading eigenvectors of D^-½ A D^-½, rows scaled to length one, (K, n)."""
    K = len(affinity)
    scale = 1.0 / np.sqrt(affinity.sum(axis=1))
    matrix = scale[:, None] * affinity * scale
    if K > _DENSE and n < K:
        vectors = eigsh(matrix, n, which="LA", v0=np.random.default_rng(0).standard_normal(K))[1]
    else:
        vectors = eigh(matrix, subset_by_index=(K - n, K - 1))[1]
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(length > 0, length, 1.0))


def temperature(apart: FloatArray) -> float:
    """Return the distance between items that counts as one: the median over all pairs, (K, K)."""
    others = apart[~np.eye(len(apart), dtype=bool)]
    return float(np.median(others)) if len(others) and np.median(others) > 0 else 1.0


def spectral_labels(apart: FloatArray, n_clusters: int, rng: np.random.Generator) -> IntArray:
    """Return a partition by how far apart items are, (K, K); of few distinct items it has fewer parts."""
    K, apart = len(apart), np.nan_to_num(apart, nan=_FAR, posinf=_FAR)  # numbers too large are the E-step's to refuse
    points = spectral_embedding(np.exp(-apart / temperature(apart)), min(n_clusters, K))
    return kmeans(points, np.array([0, K]), rng.random((1, n_clusters)))
