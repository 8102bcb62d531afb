"""Clusters that nothing belongs to and states that nothing visits are removed; the rest is put in order."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from vhem._support.arrays import BoolArray, FloatArray, IntArray
from vhem.bayes.cluster_search import EMPTY, UNVISITED
from vhem.bayes.clusters import ClusterBeliefs
from vhem.em.ordering import orders
from vhem.emissions.dirichlet import mean_rows
from vhem.kernels.models import ModelSums
from vhem.models import H3M
from vhem.models.posterior import ModelPosterior


class Pruned(NamedTuple):
    """What is left of K clusters: heaviest first, and in each the most visited state first."""

    posterior: ModelPosterior
    weight_counts: FloatArray  #: Dirichlet parameters of the weights
    responsibilities: FloatArray
    n_removed_clusters: int
    n_removed_states: int

    def hmms(self) -> H3M:
        """Return the clusters' HMMs at the posterior means, with their weights."""
        return H3M.of_posterior(self.posterior, mean_rows(self.weight_counts))


def pruned(q: ClusterBeliefs, sums: ModelSums, mass: FloatArray, z: FloatArray, keeps_order: bool = False) -> Pruned:
    """Remove what the last E-step left empty; states keep their order if they must, as those of left-right HMMs."""
    kept = np.flatnonzero(mass >= EMPTY)
    q, z, visits = q.take(kept), z[:, kept], sums.occupancy[kept]
    visited = (visits >= UNVISITED) | keeps_order
    posterior, first = _ordered(q, visited, visits.sum(1), sums.start[kept].sum(1), keeps_order)
    z = z[:, first]
    removed = len(mass) - len(kept), int((~visited).sum())
    return Pruned(posterior, q.weights[first], z / z.sum(1, keepdims=True), *removed)


def _ordered(
    q: ClusterBeliefs, visited: BoolArray, frames: FloatArray, sequences: FloatArray, keeps_order: bool
) -> tuple[ModelPosterior, IntArray]:
    """Return the posterior without unvisited states, heaviest cluster and most visited state first, and that order."""
    S = visited.shape[1]
    hidden = np.where(visited, 0, S)  # unvisited states go last
    order = np.argsort(hidden + np.arange(S) / S, axis=1, kind="stable")
    n = visited.sum(1)
    whole = ModelPosterior(q.hmms.start, q.hmms.trans, q.hmms.emissions, frames, sequences).states(order)
    real = np.arange(S) < n[:, None]
    alpha = np.where(real, whole.alpha, 0.0)
    epsilon = np.where(real[:, :, None] & real[:, None, :], whole.epsilon, 0.0)
    emptied = replace(whole, alpha=alpha, epsilon=epsilon)
    first, states = orders(emptied.point(), q.weights)
    if keeps_order:
        states = np.broadcast_to(np.arange(S), states.shape)
    most = int(n.max())
    return emptied.states(states).take(first).states(np.tile(np.arange(most), (len(n), 1))), first
