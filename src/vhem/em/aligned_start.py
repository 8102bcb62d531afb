"""Where VHEM starts on left-right HMMs: members of a cluster averaged state by state, so that zeros stay zeros."""

from __future__ import annotations

import numpy as np

from vhem._support.arrays import FloatArray, IntArray
from vhem._support.randomness import RandomState, generator
from vhem.emissions.components import pooled
from vhem.kernels.kmeans import kmeans
from vhem.kernels.models import Models
from vhem.models import H3M

_TRIES = 5  # runs of k-means


def aligned_start(hmms: H3M, n_clusters: int, random_state: RandomState = None) -> H3M:
    """Return centres for HMMs whose states correspond: state s of each is the s-th stretch of its sequences.

    The HMMs are grouped by k-means on the means of all their states. A centre has the average probabilities of its
    group, and in each state the mean and covariance of the group's emissions in that state.

    Parameters
    ----------
    hmms : H3M
        HMMs of one number of states, with at least `n_clusters` members.
    n_clusters : int
        Number of centres.
    random_state : None, int, Generator or RandomState
        Seed of k-means.

    Examples
    --------
    >>> from vhem import HMM, fit_hmms
    >>> rises = [[0.0, 0.1, 5.0, 5.1], [0.1, 0.0, 5.1, 5.0], [9.0, 9.1, 4.0, 4.1]]
    >>> hmms = fit_hmms(rises, n_states=2, topology="left-right", random_state=0)
    >>> start = aligned_start(hmms, 2, random_state=0)
    >>> sorted(start.weights.round(3)), bool(start.transmat[0, 1, 0] == 0)
    ([np.float64(0.333), np.float64(0.667)], True)
    """
    labels = _grouped(hmms, n_clusters, generator(random_state))
    made = averaged_by_state(hmms.parameters, hmms.weights, labels, n_clusters)
    mass = np.bincount(labels, hmms.weights, n_clusters)
    return H3M.of_models(made, mass / mass.sum())


def averaged_by_state(models: Models, weights: FloatArray, labels: IntArray, n: int) -> Models:
    """Return for each of n labels the average of the models with that label: probabilities, and states one by one."""
    S, M = models.shape[1:]
    w = np.where(labels[:, None] == np.arange(n), weights[:, None], 0.0)
    rows = (np.einsum("ik,i...->k...", w, p) for p in (models.startprob, models.transmat, models.mix_weights))
    start, trans, mix = (p / p.sum(axis=-1, keepdims=True) for p in rows)
    states = [pooled(models.components.take((slice(None), s, m)), weights, labels, n) for s, m in np.ndindex(S, M)]
    components = states[0].joined(states).reshaped(S, M, n).map(lambda a: np.ascontiguousarray(np.moveaxis(a, 2, 0)))
    return Models(start, trans, mix, components, np.full(n, S, dtype=np.int64))


def _grouped(hmms: H3M, n_clusters: int, rng: np.random.Generator) -> IntArray:
    """Return the group of each HMM; no group is empty or without weight."""
    n = len(hmms)
    points = hmms.emissions.centre().reshape(n, -1)
    best, least = np.arange(n) % n_clusters, np.inf
    for _ in range(_TRIES if n_clusters > 1 else 0):
        labels = kmeans(points, np.array([0, n]), rng.random((1, n_clusters)))
        mass = np.bincount(labels, hmms.weights, n_clusters)
        if (mass > 0).all():
            centers = np.stack([points[labels == k].mean(axis=0) for k in range(n_clusters)])
            inertia = float(np.square(points - centers[labels]).sum())
            if inertia < least:
                best, least = labels, inertia
    return best
