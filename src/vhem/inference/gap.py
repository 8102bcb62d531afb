"""gap_statistic: how much tighter clusters are than those of data without any."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from scipy.cluster.hierarchy import linkage
from scipy.spatial.distance import pdist, squareform

from vhem._support.arrays import FloatArray, IntArray
from vhem._support.checks import check_enough, check_integer, check_integers
from vhem._support.randomness import RandomState, generator
from vhem.em.parameters import documented
from vhem.em.ward import cut
from vhem.inference.groups import squared_distances
from vhem.models import H3M, HMM
from vhem.models.checks import check_h3m

_TINY = 1e-9  # of the largest eigenvalue: directions without any spread


class Gap(NamedTuple):
    """The gap statistic of every number of clusters."""

    n_clusters: IntArray  #: 1, 2, …
    gap: FloatArray  #: log of the spread within clusters, expected without clusters minus found
    error: FloatArray  #: its standard error
    best: int  #: the smallest number whose gap is within one standard error of the next; 1: no clusters


@documented
def gap_statistic(
    hmms: H3M | list[HMM], candidates: Iterable[int] = range(1, 7), tau: int = 10, n_reference: int = 50,
    random_state: RandomState = None, n_jobs: int | None = None,
) -> Gap:  # fmt: skip
    """Compare the spread within clusters with that in data without clusters (Tibshirani, Walther and Hastie 2001).

    HMMs become points whose distances are the square roots of their symmetrised divergences (principal coordinates).
    References are uniform in the box that these points fill. Clusters are the parts of Ward's tree.

    Parameters
    ----------
    hmms : H3M or list of HMM
        The inputs.
    candidates : iterable of int
        Numbers of clusters; all numbers up to the largest are compared, and one more.
    tau : int
        Length of the virtual sequences that HMMs are compared by.
    n_reference : int
        Reference data sets.
    <random_state>
    <n_jobs>

    Returns
    -------
    Gap
        One entry per number of clusters from 1.

    Examples
    --------
    >>> from vhem.datasets import simulated_study
    >>> from vhem.inference import gap_statistic
    >>> gap_statistic(simulated_study().hmms, random_state=0).best
    3
    """
    h3m, rng = check_h3m("hmms", hmms), generator(random_state)
    largest = max(check_integers("candidates", list(candidates), 1))
    check_enough("candidates", largest, len(h3m), "HMM")
    numbers = np.arange(1, min(largest + 1, len(h3m) - 1) + 1)
    points = principal_coordinates(squared_distances(h3m, tau, n_jobs))
    seen = log_spreads(points, numbers)
    low, width = points.min(axis=0), np.ptp(points, axis=0)
    n = check_integer("n_reference", n_reference, 2)
    drawn = np.stack([log_spreads(low + width * rng.random(points.shape), numbers) for _ in range(n)])
    gap, error = drawn.mean(axis=0) - seen, drawn.std(axis=0) * np.sqrt(1 + 1 / n)
    enough = np.flatnonzero(gap[:-1] >= gap[1:] - error[1:])
    best = numbers[enough[0]] if len(enough) else numbers[-1]
    return Gap(numbers, gap, error, int(best))


def principal_coordinates(squares: FloatArray) -> FloatArray:
    """Return points whose squared distances are those given, as far as points in space can have them."""
    centred = squares - squares.mean(axis=0) - squares.mean(axis=1)[:, None] + squares.mean()
    values, vectors = np.linalg.eigh(-centred / 2)
    kept = values > max(_TINY * values[-1], 0.0)
    return np.asarray(vectors[:, kept] * np.sqrt(values[kept])) if kept.any() else np.zeros((len(squares), 1))


def log_spreads(points: FloatArray, numbers: IntArray) -> FloatArray:
    """Return log Σ_clusters (squared distances to the cluster's mean) of Ward's tree cut into each number of parts."""
    if np.ptp(points) == 0:
        return np.zeros(len(numbers))
    distances = pdist(points)
    tree, squares = linkage(distances, "ward"), squareform(distances) ** 2
    made = [_spread(squares, cut(tree, int(k))) for k in numbers]
    return np.log(np.maximum(made, 1e-300))


def _spread(squares: FloatArray, labels: IntArray) -> float:
    parts = (squares[np.ix_(labels == k, labels == k)] for k in np.unique(labels))
    return float(sum(part.sum() / (2 * len(part)) for part in parts))
