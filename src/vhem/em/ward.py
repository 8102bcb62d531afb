"""Ward's tree of HMMs by their symmetrised divergences."""

from __future__ import annotations

import numpy as np
from scipy.cluster.hierarchy import linkage
from scipy.spatial.distance import squareform

from vhem._support.arrays import FloatArray, IntArray
from vhem.em.quickened import pace, quickened
from vhem.em.topology import topology_of
from vhem.kernels.models import Models
from vhem.kernels.reduction import BaseModels, expected_log_likelihood

MOST_COMPARED = 1500  # HMMs of which all pairs are compared, where nothing asks for more


def ward_labels(base: BaseModels, n_clusters: int, n_threads: int = 1) -> IntArray:
    """Return the parts of Ward's tree; exactly that many, even among duplicates."""
    if n_clusters == 1:
        return np.zeros(len(base.counts), dtype=np.int64)
    return _cut(divergences(base.models, base.tau, n_threads), n_clusters)


def ward_partitions(apart: dict[str, FloatArray], n_clusters: int) -> dict[str, IntArray]:
    """Return the partitions that Ward's trees of several kinds of divergences give, numbered alike."""
    return {name: _cut(squares, n_clusters) for name, squares in apart.items()}


def most_comparable(
    topology: str, tau: int, n_states: int, most: int = MOST_COMPARED, work: float | None = None
) -> int:
    """Return for how many HMMs all pairs can be compared: `most`, or fewer if that took more multiplications.

    For left-right HMMs there are logarithms beside these, so fewer are made by default.
    """
    frames, by_default = tau // pace(topology, tau), 1e10 if topology == "ergodic" else 4e9
    return min(most, int(np.sqrt((work or by_default) / (frames * 2 * n_states**3))))


def divergences(models: Models, tau: int, n_threads: int = 1) -> FloatArray:
    """Return the symmetrised divergences of all pairs, in SciPy's condensed form; those of long courses roughly."""
    times = pace(topology_of(models.startprob, models.transmat), tau)
    return times * symmetrised(quickened(models, times), tau // times, n_threads)


def symmetrised(models: Models, tau: int, n_threads: int = 1) -> FloatArray:
    """Return the symmetrised divergences of all pairs over τ frames, in SciPy's condensed form."""
    J = expected_log_likelihood(models, models, tau, n_threads=n_threads)
    loss = np.maximum(np.diagonal(J)[:, None] - J, 0.0)
    return np.asarray(squareform(loss + loss.T, checks=False))


def merged_by_ward(squares: FloatArray, labels: IntArray, n_clusters: int) -> IntArray:
    """Return the new cluster of every cluster: Ward's merges, resumed from a partition, until that many are left.

    `squares` are the inputs' divergences in condensed form. Unlike a tree of the clusters' centres, this knows how many
    inputs a cluster has and how much they differ.
    """
    apart, members = squareform(squares), np.eye(labels.max() + 1)[labels]
    parents = np.arange(members.shape[1])
    while len(left := np.unique(parents)) > n_clusters:
        Z = np.stack([members[:, parents == k].sum(axis=1) for k in left], axis=1)
        sizes = Z.sum(axis=0)
        between = Z.T @ apart @ Z / np.outer(sizes, sizes)
        within = np.diagonal(between) / 2
        loss = (between - within - within[:, None]) / (1 / sizes + 1 / sizes[:, None])
        a, b = np.unravel_index(np.where(np.eye(len(left), dtype=bool), np.inf, loss).argmin(), loss.shape)
        parents[parents == left[b]] = left[a]
    return _renumbered(parents)


def _cut(squares: FloatArray, n_clusters: int) -> IntArray:
    """Return the parts of Ward's tree of squared distances, exactly that many."""
    if not len(squares):
        return np.zeros(1, dtype=np.int64)
    return cut(linkage(np.sqrt(squares), method="ward"), n_clusters)


def cut(tree: FloatArray, n_clusters: int) -> IntArray:
    """Return the parts of a tree in SciPy's form, exactly that many, numbered in the order of their first items.

    SciPy's own `cut_tree` takes longer than the tree itself, and `fcluster` makes fewer parts of duplicates.
    """
    n = len(tree) + 1
    top = np.arange(2 * n - 1)
    for k in range(n - n_clusters - 1, -1, -1):
        top[tree[k, :2].astype(np.int64)] = top[n + k]
    return _renumbered(top[:n])


def _renumbered(labels: IntArray) -> IntArray:
    """Return the same partition with clusters numbered in the order of their first items."""
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    return np.asarray(np.argsort(np.argsort(first))[inverse.ravel()], dtype=np.int64)
