"""Sequences under HMMs, on the engine in use; `reference.filtering` has the equations."""

from __future__ import annotations

from vhem._support.arrays import FloatArray, IntArray
from vhem.kernels import compiled
from vhem.kernels.engine import engine
from vhem.kernels.parameters import Parameters
from vhem.kernels.reference import filtering as reference


def log_likelihoods(parameters: Parameters, X: FloatArray, offsets: IntArray, n_threads: int = 1) -> FloatArray:
    """Return log p(y_i | HMM k), shape (n, K)."""
    if engine().module is None:
        return reference.log_likelihoods(parameters, X, offsets)
    return compiled.log_likelihoods(parameters=parameters, X=X, offsets=offsets, n_threads=n_threads)


def posteriors(
    parameters: Parameters, X: FloatArray, offsets: IntArray, n_threads: int = 1
) -> tuple[FloatArray, FloatArray]:
    """Return log p(y_i), (n,), and the posterior probabilities of the states of one HMM, (T, S)."""
    if engine().module is None:
        return reference.posteriors(parameters, X, offsets)
    return compiled.posteriors(parameters=parameters, X=X, offsets=offsets, n_threads=n_threads)


def viterbi(
    parameters: Parameters, X: FloatArray, offsets: IntArray, n_threads: int = 1
) -> tuple[FloatArray, IntArray]:
    """Return max_x log p(x, y_i) under one HMM, (n,), and the paths x that reach it, (T,)."""
    if engine().module is None:
        return reference.viterbi(parameters, X, offsets)
    return compiled.viterbi(parameters=parameters, X=X, offsets=offsets, n_threads=n_threads)
