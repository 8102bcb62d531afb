"""consensus: who is put together again and again, whichever inputs are left out and wherever the clustering starts."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
from sklearn.base import clone

from vhem._support.arrays import FloatArray
from vhem._support.checks import check_enough, check_integer
from vhem._support.randomness import RandomState, generator
from vhem.em.parameters import documented
from vhem.estimators.vhem import VHEM
from vhem.models import H3M, HMM
from vhem.models.checks import check_h3m

_SHARE = 0.8  # of the inputs in every resample
_SURE = 0.1  # pairs that are together in less, or in more than one minus this, are clear


class Consensus(NamedTuple):
    """How often pairs of inputs were in one cluster."""

    matrix: FloatArray  #: (n, n) share of the resamples with both in which they were together
    ambiguous: float  #: share of pairs that were sometimes together and sometimes not (10 to 90 %): 0 is clear


@documented
def consensus(
    hmms: H3M | list[HMM], n_clusters: int, estimator: VHEM | None = None, n_resamples: int = 30,
    random_state: RandomState = None,
) -> Consensus:  # fmt: skip
    """Cluster random parts of the inputs, from different starts, and count who is put together.

    Parameters
    ----------
    hmms : H3M or list of HMM
        The inputs.
    n_clusters : int
        Number of clusters.
    estimator : VHEM, optional
        Its settings are used. Half of the resamples start from Ward's tree, half from random inputs.
    n_resamples : int
        Resamples, each of 80 % of the inputs.
    <random_state>

    Returns
    -------
    Consensus
        The matrix, and the share of pairs that are ambiguous.

    Examples
    --------
    >>> from vhem.datasets import simulated_study
    >>> from vhem.inference import consensus
    >>> found = consensus(simulated_study().hmms, 3, n_resamples=6, random_state=0)
    >>> found.matrix.shape, found.ambiguous < 0.1
    ((40, 40), True)
    """
    h3m, rng = check_h3m("hmms", hmms), generator(random_state)
    n = len(h3m)
    size = max(int(np.ceil(_SHARE * n)), min(n, n_clusters))
    check_enough("n_clusters", check_integer("n_clusters", n_clusters, 1), size, "HMM in each resample")
    together, both = np.zeros((n, n)), np.zeros((n, n))
    model = clone(VHEM() if estimator is None else estimator).set_params(n_clusters=n_clusters)
    for k in range(check_integer("n_resamples", n_resamples, 1)):
        part = np.sort(rng.choice(n, size, replace=False))
        model.set_params(random_state=int(rng.integers(2**31)), init="auto" if k % 2 == 0 else "kmeans++")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            labels = model.fit(h3m[part]).labels_
        both[np.ix_(part, part)] += 1
        together[np.ix_(part, part)] += labels[:, None] == labels
    matrix = np.divide(together, both, out=np.full((n, n), np.nan), where=both > 0)
    pairs = matrix[np.triu_indices(n, 1)]
    return Consensus(matrix, float(np.mean((pairs > _SURE) & (pairs < 1 - _SURE))))
