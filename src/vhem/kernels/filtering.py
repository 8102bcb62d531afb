"""Sequences under HMMs, on the engine in use; `reference.filtering` has the equations."""

from __future__ import annotations

import numpy as np

from vhem._support.arrays import FloatArray, IntArray
from vhem.kernels.engine import engine
from vhem.kernels.parameters import Parameters
from vhem.kernels.reference import filtering as reference


def log_likelihoods(parameters: Parameters, X: FloatArray, offsets: IntArray, n_threads: int = 1) -> FloatArray:
    """Return log p(y_i | HMM k), shape (n, K)."""
    module = engine().module
    if module is None:
        return reference.log_likelihoods(parameters, X, offsets)
    scores = np.empty((len(offsets) - 1, len(parameters.n_states)))
    module.log_likelihoods(*parameters, X, offsets, n_threads, scores)
    return scores


def posteriors(
    parameters: Parameters, X: FloatArray, offsets: IntArray, n_threads: int = 1
) -> tuple[FloatArray, FloatArray]:
    """Return log p(y_i), (n,), and the posterior probabilities of the states of one HMM, (T, S)."""
    module = engine().module
    if module is None:
        return reference.posteriors(parameters, X, offsets)
    scores = np.empty(len(offsets) - 1)
    gamma = np.empty((len(X), parameters.n_states[0]))
    module.posteriors(*parameters, X, offsets, n_threads, scores, gamma)
    return scores, gamma


def viterbi(
    parameters: Parameters, X: FloatArray, offsets: IntArray, n_threads: int = 1
) -> tuple[FloatArray, IntArray]:
    """Return max_x log p(x, y_i) under one HMM, (n,), and the paths x that reach it, (T,)."""
    module = engine().module
    if module is None:
        return reference.viterbi(parameters, X, offsets)
    scores = np.empty(len(offsets) - 1)
    paths = np.empty(len(X), dtype=np.int64)
    module.viterbi(*parameters, X, offsets, n_threads, scores, paths)
    return scores, paths
