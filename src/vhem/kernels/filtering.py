"""Sequences under HMMs, on the engine in use; `reference.filtering` has the equations."""

from __future__ import annotations

import numpy as np

from vhem._support.arrays import FloatArray, IntArray
from vhem.kernels import compiled, counting
from vhem.kernels.counting import Pairs
from vhem.kernels.models import Models
from vhem.kernels.reference import filtering as reference

IMPOSSIBLE = -1e280  # a log-likelihood below this contains log 0, for which the engines write a finite number
_MOST_PAIRS = 2**20  # of a sequence and an HMM that are listed at a time


def log_likelihoods(models: Models, X: FloatArray, offsets: IntArray, n_threads: int = 1) -> FloatArray:
    """Return log p(y_i | HMM k), shape (n, K)."""
    if not compiled.knows(models):
        return reference.log_likelihoods(models, X, offsets)
    lengths, K = np.diff(offsets), len(models)
    scores, step = np.empty((len(lengths), K)), max(1, _MOST_PAIRS // len(lengths))
    for k in range(0, K, step):
        some = models.take(slice(k, k + step))
        pairs = Pairs.crossed(lengths, len(some))
        found = counting.log_likelihoods(some, X, offsets, pairs, n_threads).reshape(len(some), -1)
        scores[pairs.sequence[: len(lengths)], k : k + step] = found.T
    return scores


def posteriors(models: Models, X: FloatArray, offsets: IntArray, n_threads: int = 1) -> tuple[FloatArray, FloatArray]:
    """Return log p(y_i), (n,), and the posterior probabilities of the states of one HMM, (T, S)."""
    if not compiled.knows(models):
        return reference.posteriors(models, X, offsets)
    return compiled.posteriors(models=models, X=X, offsets=offsets, n_threads=n_threads)


def viterbi(models: Models, X: FloatArray, offsets: IntArray, n_threads: int = 1) -> tuple[FloatArray, IntArray]:
    """Return max_x log p(x, y_i) under one HMM, (n,), and the paths x that reach it, (T,)."""
    if not compiled.knows(models):
        return reference.viterbi(models, X, offsets)
    return compiled.viterbi(models=models, X=X, offsets=offsets, n_threads=n_threads)
