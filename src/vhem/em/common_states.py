"""Clusters of items that share their states and differ in how they move between them.

Where items visit few of their states, or each state for long, HMMs of single items know little about transitions, and
differ mostly in which states were visited. So one HMM is learned from all items, the transitions of each item between
its states are counted, and the counts are clustered as a mixture of Markov chains.
"""

from __future__ import annotations

import numpy as np

from vhem._support.arrays import FloatArray, IntArray
from vhem.em.fitting import FitPlan
from vhem.em.grouped import Batch
from vhem.em.mixture_starts import fit_parts

_STARTS, _ITERATIONS = 20, 50  # of the mixture of chains
_WEIGHT = 1.0  # transitions from each state, as everybody makes them, that every cluster begins with


def by_common_states(batch: Batch, K: int, plan: FitPlan, rng: np.random.Generator) -> IntArray:
    """Return a partition of the items by how they move between the states of one HMM of all."""
    every, n = np.arange(len(batch.groups)), len(batch.ids)
    one = fit_parts(batch, every, np.zeros(len(every), dtype=np.int64), 1, plan, rng)
    own = one.take(np.zeros(n, dtype=np.int64))
    sums = batch.item_expectations(own, own.components, np.arange(n), plan.n_threads)[1]
    return clustered_chains(np.concatenate([sums.start[:, None], sums.trans], axis=1), K, rng)


def clustered_chains(counts: FloatArray, K: int, rng: np.random.Generator) -> IntArray:
    """Return the likeliest clusters of items by their counts (n, rows, S), each row of a distribution of its own."""
    n, rows, S = counts.shape
    total = counts.sum(axis=0) + 1 / S
    prior = _WEIGHT * total / total.sum(axis=1, keepdims=True)
    flat, best, highest = counts.reshape(n, -1), np.zeros(n, dtype=np.int64), -np.inf
    for _ in range(_STARTS):
        z = np.zeros((n, K))
        z[rng.choice(n, K, replace=False), np.arange(K)] = 1.0
        for _ in range(_ITERATIONS):
            sums = (z.T @ flat).reshape(K, rows, S) + prior
            chains = np.log(sums / sums.sum(axis=2, keepdims=True))
            joint = flat @ chains.reshape(K, -1).T + np.log((z.sum(axis=0) + 1) / (n + K))
            top = joint.max(axis=1, keepdims=True)
            z = np.exp(joint - top)
            scale = z.sum(axis=1, keepdims=True)
            z /= scale
        found = float((top + np.log(scale)).sum())
        if found > highest:
            best, highest = joint.argmax(axis=1), found
    return np.asarray(best, dtype=np.int64)
