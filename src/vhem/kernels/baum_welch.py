"""Baum-Welch for many HMMs at once, on the engine in use; `reference_baum_welch` has the equations of the E-step."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vhem.kernels import reference_baum_welch as reference
from vhem.kernels.engine import engine
from vhem.kernels.parameters import Expectations, FloatArray, IntArray, Parameters

_THREAD_WORK = 2e6  # elementary steps that are worth a thread of their own


class Pairs(NamedTuple):
    """Which sequences are seen under which HMMs. Neighbours should be of similar length: they are done side by side."""

    sequence: IntArray  #: (n_pairs,)
    model: IntArray  #: (n_pairs,)

    @staticmethod
    def grouped(lengths: IntArray, groups: IntArray) -> Pairs:
        """Every sequence under the HMM of its group."""
        order = np.argsort(lengths, kind="stable").astype(np.int64)
        return Pairs(order, np.ascontiguousarray(groups[order]))

    @staticmethod
    def crossed(lengths: IntArray, n_models: int) -> Pairs:
        """Every sequence under every HMM, one HMM after the other."""
        order = np.argsort(lengths, kind="stable").astype(np.int64)
        return Pairs(np.tile(order, n_models), np.repeat(np.arange(n_models), len(order)))

    def take(self, index: np.ndarray) -> Pairs:
        """Return the pairs at `index`."""
        return Pairs(self.sequence[index], self.model[index])


def log_likelihoods(
    parameters: Parameters, X: FloatArray, offsets: IntArray, pairs: Pairs, n_threads: int = 1
) -> FloatArray:
    """Return log p(y | HMM) of every pair, (n_pairs,)."""
    return expectations(parameters, X, offsets, pairs, np.zeros(len(pairs.model)), n_threads).log_likelihoods


def expectations(
    parameters: Parameters,
    X: FloatArray,
    offsets: IntArray,
    pairs: Pairs,
    weights: FloatArray,
    n_threads: int = 1,
    anchors: FloatArray | None = None,
) -> Expectations:
    """Return the sums that the M-step needs, over all pairs with their weights; the anchors default to the means.

    The result has the same bits for any number of threads.
    """
    anchors = parameters.means if anchors is None else anchors
    module = engine().module
    if module is None:
        return reference.expectations(parameters, X, offsets, *pairs, weights, anchors)
    K, S, M, d = parameters.means.shape
    shapes = [(S,), (S, S), (S, M), (S, M, d), parameters.covars.shape[1:]]
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes])
    totals, scores = np.zeros((K, int(ends[-1]))), np.empty(len(weights))
    n_threads = _useful_threads(parameters, offsets, pairs, n_threads)
    module.expectations(*parameters, anchors, X, offsets, *pairs, weights, n_threads, scores, totals)
    parts = np.split(totals, ends[:-1], axis=1)
    return Expectations(scores, *(part.reshape(K, *shape) for part, shape in zip(parts, shapes, strict=True)))


def _useful_threads(parameters: Parameters, offsets: IntArray, pairs: Pairs, n_threads: int) -> int:
    _, S, M, d = parameters.means.shape
    frames = float(np.diff(offsets)[pairs.sequence].sum())
    return max(1, min(n_threads, int(frames * S * (S + M * d + 5) / _THREAD_WORK)))
