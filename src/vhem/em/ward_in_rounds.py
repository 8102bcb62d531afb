"""Ward's tree of so many HMMs that not all pairs can be compared: it grows in rounds, each in parts.

In a round, HMMs are compared within parts, whose borders are drawn at random, and a third of the merges still needed
are made, the cheapest first. Where a border cuts through a cluster, only pieces of it can merge; the next round draws
other borders. Once few enough clusters are left, one tree of all of them makes the remaining merges.

A merged cluster is represented by one of its HMMs, the medoid. The distance between two medoids exceeds that between
their centroids. Divergences are treated as squared distances in a space of many dimensions, where a medoid's offset
from its centroid is nearly at right angles to everything else. So its square adds to the distance, and is subtracted
again. (In a few dimensions this gains nothing.)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.spatial.distance import squareform

from vhem._support.arrays import Float32Array, FloatArray, IntArray
from vhem._support.checks import check_in_range
from vhem.em.quickened import pace, quickened
from vhem.em.topology import topology_of
from vhem.em.ward import symmetrised
from vhem.kernels.models import Models
from vhem.kernels.reduction import BaseModels, expected_log_likelihood, self_log_likelihood

AT_ONCE = 6000  # the most HMMs, or clusters left, that are compared in all pairs
_PART = 400  # HMMs in a part of the first round, at most; later parts are larger, as there are fewer clusters
_DRAWN = 64  # HMMs that a set is split around, at most; larger sets are split again
_FARTHEST = 1e30  # divergences: they are kept as float32
_SHARE = 3  # of the merges still to be made, one in so many is made in a round; with one in two, more were wrong
_FEW = 0.02  # merges per cluster that are not put off to another round


class _Clusters(NamedTuple):
    """The clusters of a round."""

    medoids: IntArray  #: the HMMs that represent them
    sizes: FloatArray  #: how many HMMs they have
    off: FloatArray  #: squared distances of medoids from centroids

    def take(self, index: IntArray) -> _Clusters:
        """Return the clusters at `index`."""
        return _Clusters(self.medoids[index], self.sizes[index], self.off[index])


class _Merges(NamedTuple):
    """Merges within one part, cheapest first."""

    kept: IntArray  #: clusters that take up others
    gone: IntArray  #: those that are taken up
    costs: FloatArray


def ward_in_rounds(base: BaseModels, n_clusters: int, rng: np.random.Generator, n_threads: int = 1) -> IntArray:
    """Return a label for each HMM: nearly the partition of Ward's tree, into exactly `n_clusters` parts."""
    apart = _Divergences(base, n_threads)
    n = len(base.counts)
    labels, clusters = np.arange(n), _Clusters(np.arange(n), np.ones(n), np.zeros(n))
    while (left := len(clusters.medoids) - n_clusters) > 0:
        now = len(clusters.medoids)
        most = AT_ONCE if now <= AT_ONCE else min(_PART * n // now, AT_ONCE)
        parts = apart.parts(clusters.medoids, most, rng)
        last = len(parts) == 1 or left <= _FEW * n_clusters
        clusters, number = _merged(clusters, parts, apart, left if last else -(-left // _SHARE))
        labels = number[labels]
    return labels


class _Divergences:
    """Symmetrised divergences between HMMs; those of long courses roughly."""

    def __init__(self, base: BaseModels, n_threads: int) -> None:
        times = pace(topology_of(base.models.startprob, base.models.transmat), base.tau)
        self.models: Models = quickened(base.models, times)
        self.tau, self.n_threads = base.tau // times, n_threads
        self.to_self = self_log_likelihood(self.models, self.tau, n_threads=n_threads)

    def among(self, some: IntArray) -> FloatArray:
        """Return the divergences of all pairs."""
        squares = symmetrised(self.models.take(some), self.tau, self.n_threads)
        check_in_range("a divergence between HMMs", np.where(squares == np.inf, 0.0, squares))
        return np.asarray(squareform(squares))

    def between(self, some: IntArray, others: IntArray) -> FloatArray:
        """Return the divergences of each of some HMMs to each of the others."""
        loss = self.to_self[some][:, None] - self._likelihood(some, others)
        return np.asarray(loss + self.to_self[others] - self._likelihood(others, some).T)

    def parts(self, some: IntArray, most: int, rng: np.random.Generator) -> list[IntArray]:
        """Return parts of `some`, as positions in it: at most so many HMMs each, around HMMs drawn at random."""
        waiting, small = [np.arange(len(some))], []
        while waiting:
            part = waiting.pop()
            if len(part) <= most:
                small.append(part)
                continue
            drawn = rng.choice(part, min(-(-2 * len(part) // most), _DRAWN), replace=False)
            nearest = self.between(some[part], some[drawn]).argmin(axis=1)
            pieces = [part[nearest == k] for k in np.unique(nearest)]
            if len(pieces) == 1:  # all the same
                pieces = np.array_split(part, -(-len(part) // most))
            waiting += pieces
        return _filled(small, most)

    def _likelihood(self, a: IntArray, b: IntArray) -> FloatArray:
        a_models, b_models = self.models.take(a), self.models.take(b)
        return expected_log_likelihood(a_models, b_models, self.tau, n_threads=self.n_threads)


def _filled(pieces: list[IntArray], most: int) -> list[IntArray]:
    """Join consecutive pieces into parts. Pieces of one split are near one another; others need not be."""
    parts = [pieces[0]]
    for piece in pieces[1:]:
        if len(parts[-1]) + len(piece) <= most:
            parts[-1] = np.concatenate([parts[-1], piece])
        else:
            parts.append(piece)
    return parts


def _merged(
    clusters: _Clusters, parts: list[IntArray], apart: _Divergences, n_merges: int
) -> tuple[_Clusters, IntArray]:
    """Return the clusters after the cheapest merges within parts, and the new number of every cluster."""
    some = [clusters.take(part) for part in parts]
    squares = [np.minimum(apart.among(s.medoids), _FARTHEST).astype(np.float32) for s in some]
    merges = [_ward_merges(s, between) for s, between in zip(some, squares, strict=True)]
    which = np.repeat(np.arange(len(parts)), [len(m.costs) for m in merges])
    cheapest = np.argsort(np.concatenate([m.costs for m in merges]), kind="stable")[:n_merges]
    made: list[tuple[int, float, float]] = []
    number = np.empty(len(clusters.medoids), dtype=np.int64)
    for k, n in enumerate(np.bincount(which[cheapest], minlength=len(parts))):
        for group in _groups(merges[k], n):
            number[parts[k][group]] = len(made)
            made.append(_as_one(some[k].take(group), squares[k][np.ix_(group, group)]))
    return _Clusters(*(np.array(array) for array in zip(*made, strict=True))), number


def _between_centroids(clusters: _Clusters, squares: Float32Array) -> FloatArray:
    """Return squared distances between centroids, from those between medoids."""
    between = np.maximum(squares - clusters.off[:, None] - clusters.off, 0.0)
    np.fill_diagonal(between, 0.0)
    return np.asarray(between)


def _ward_merges(clusters: _Clusters, squares: Float32Array) -> _Merges:
    """Return all merges of Ward's tree of clusters that have sizes; SciPy's begins with single items."""
    n, sizes = len(squares), clusters.sizes.copy()
    cost = _between_centroids(clusters, squares) * (2 * sizes[:, None] * sizes / (sizes[:, None] + sizes))
    np.fill_diagonal(cost, np.inf)
    partner = cost.argmin(axis=1)
    least = cost[np.arange(n), partner]
    merges = _Merges(np.empty(n - 1, dtype=np.int64), np.empty(n - 1, dtype=np.int64), np.empty(n - 1))
    for k in range(n - 1):
        i = int(least.argmin())
        j = int(partner[i])
        merges.kept[k], merges.gone[k], merges.costs[k] = i, j, least[i]
        merged = (sizes[i] + sizes) * cost[i] + (sizes[j] + sizes) * cost[j] - sizes * least[i]
        merged /= sizes[i] + sizes[j] + sizes
        merged[[i, j]] = np.inf
        cost[i] = cost[:, i] = merged
        cost[j] = cost[:, j] = np.inf
        sizes[i] += sizes[j]
        least[j] = np.inf
        closer = merged < least
        partner[closer], least[closer] = i, merged[closer]
        for c in {i, *np.flatnonzero(np.isfinite(least) & ((partner == i) | (partner == j)) & ~closer).tolist()}:
            partner[c] = cost[c].argmin()
            least[c] = cost[c, partner[c]]
    return merges


def _groups(merges: _Merges, n: int) -> list[IntArray]:
    """Return which clusters are together after the first n merges."""
    top = np.arange(len(merges.costs) + 1)
    for kept, gone in zip(merges.kept[:n], merges.gone[:n], strict=True):
        top[top == gone] = kept
    order = np.argsort(top, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(top[order])) + 1)


def _as_one(clusters: _Clusters, squares: Float32Array) -> tuple[int, float, float]:
    """Return the medoid nearest to the centroid of some clusters together, their size, and how far off it is."""
    if len(squares) == 1:
        return clusters.medoids[0], clusters.sizes[0], clusters.off[0]
    share = clusters.sizes / clusters.sizes.sum()
    from_centroids = squares - clusters.off[:, None]
    np.fill_diagonal(from_centroids, clusters.off)
    off = share @ from_centroids - 0.5 * share @ _between_centroids(clusters, squares) @ share
    best = int(off.argmin())
    return clusters.medoids[best], clusters.sizes.sum(), max(off[best], 0.0)
