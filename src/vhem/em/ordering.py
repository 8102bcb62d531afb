"""A canonical order of clusters and states, so that equal results look equal."""

from __future__ import annotations

import numpy as np

from vhem._support.arrays import FloatArray, IntArray
from vhem.kernels.models import Models
from vhem.models.stationary import long_run_occupancies


def canonical_order(models: Models, weights: FloatArray) -> tuple[Models, FloatArray]:
    """Return the models heaviest first, and in each the states by the time spent in them in the long run."""
    first, states = orders(models, weights)
    return models.reordered(states).take(first), weights[first]


def orders(models: Models, weights: FloatArray) -> tuple[IntArray, IntArray]:
    """Return that order: of the models (K,), and of the states of each (K, S).

    Ties, up to rounding, are broken by where the states lie.
    """
    real = np.arange(models.shape[1]) < models.n_states[:, None]
    mass = np.where(real, long_run_occupancies(models), -1.0)
    center = np.einsum("ksm,ksmd->ksd", models.mix_weights, models.components.centre())
    states = np.stack([_sorted_by(m, c) for m, c in zip(mass, center, strict=True)])
    return _sorted_by(weights, np.take_along_axis(center, states[:, :, None], 1)[:, 0]), states


def _sorted_by(key: FloatArray, ties: FloatArray) -> IntArray:
    columns = [ties[:, k] for k in range(ties.shape[1] - 1, -1, -1)]
    return np.lexsort([*columns, -np.round(key, 9)])
