"""HMMs that start where others ended: the HMM of another item under which an item's sequences are likeliest.

Baum-Welch finds one of many local optima, and two items of one kind may end in different ones: the same course of
events, cut into states in two ways. Starting each from its neighbour's HMM makes states mean the same wherever the
sequences allow it, and often raises the likelihoods too.
"""

from __future__ import annotations

import numpy as np

from vhem._support.arrays import FloatArray, IntArray
from vhem.em.grouped import Batch
from vhem.kernels.counting import Pairs, log_likelihoods
from vhem.kernels.models import Models

_MOST_HMMS = 100  # among which neighbours are looked for
_LEAST_HMMS, _MUCH_WORK = 20, 1e5  # among which they are, if frames of an item × HMMs × states were more than this
_MOST_FRAMES = 200  # of each item, by which HMMs are compared


def neighbours(batch: Batch, models: Models, rng: np.random.Generator, n_threads: int = 1) -> IntArray:
    """Return, for every item, the other item whose HMM explains its sequences best; of many items, one of a sample."""
    n, begun = len(models), _beginnings(batch)
    most = int(np.clip(_MUCH_WORK * n / (len(begun.X) * models.shape[1]), _LEAST_HMMS, _MOST_HMMS))
    pool = np.arange(n) if n <= most else np.sort(rng.choice(n, most, replace=False))
    L = _likelihoods(begun, models.take(pool), n_threads)
    L[pool, np.arange(len(pool))] = -np.inf
    return np.asarray(pool[L.argmax(axis=1)], dtype=np.int64)


def _beginnings(batch: Batch) -> Batch:
    """Return the first sequences of each item, as far as they are needed."""
    lengths = batch.lengths
    before = batch.offsets[:-1] - batch.frame_offsets[batch.groups]
    kept = np.flatnonzero(before < _MOST_FRAMES)
    return batch.cut(kept, np.minimum(lengths, _MOST_FRAMES - before)[kept], batch.groups[kept], batch.ids)


def _likelihoods(batch: Batch, models: Models, n_threads: int) -> FloatArray:
    """Return the log-likelihood of every item's sequences under every HMM, (n, K)."""
    n, K = len(batch.ids), len(models)
    pairs = Pairs.crossed(batch.lengths, K)
    found = log_likelihoods(models, batch.X, batch.offsets, pairs, n_threads) * batch.weights[pairs.sequence]
    totals = np.bincount(batch.groups[pairs.sequence] * K + pairs.model, found, n * K)
    return np.asarray(totals.reshape(n, K), dtype=np.float64)
