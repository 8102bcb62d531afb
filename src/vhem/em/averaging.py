"""Centres of left-right HMMs: members of a cluster averaged state by state, so that zeros stay zeros."""

from __future__ import annotations

import numpy as np

from vhem._support.arrays import FloatArray, IntArray
from vhem.emissions.components import pooled
from vhem.kernels.models import Models


def averaged_by_state(models: Models, weights: FloatArray, labels: IntArray, n: int) -> Models:
    """Return for each of n labels the average of the models with that label: probabilities, and states one by one."""
    S, M = models.shape[1:]
    w = np.where(labels[:, None] == np.arange(n), weights[:, None], 0.0)
    rows = (np.einsum("ik,i...->k...", w, p) for p in (models.startprob, models.transmat, models.mix_weights))
    start, trans, mix = (p / p.sum(axis=-1, keepdims=True) for p in rows)
    states = [pooled(models.components.take((slice(None), s, m)), weights, labels, n) for s, m in np.ndindex(S, M)]
    components = states[0].joined(states).reshaped(S, M, n).map(lambda a: np.ascontiguousarray(np.moveaxis(a, 2, 0)))
    return Models(start, trans, mix, components, np.full(n, S, dtype=np.int64))
