"""Random sequences from HMMs."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from vhem._support.arrays import FloatArray, IntArray
from vhem._support.errors import ParameterError
from vhem.kernels.models import Models


def checked_lengths(n_sequences: int, length: npt.ArrayLike) -> IntArray:
    """Return the length of each of `n_sequences` sequences."""
    if isinstance(n_sequences, bool) or not isinstance(n_sequences, (int, np.integer)) or n_sequences < 1:
        raise ParameterError("n_sequences", n_sequences, "must be a positive integer")
    lengths = np.asarray(length)
    if not np.issubdtype(lengths.dtype, np.integer) or lengths.shape not in ((), (n_sequences,)):
        raise ParameterError("length", length, "must be one integer or {n} integers", n=n_sequences)
    if lengths.min() < 1:
        raise ParameterError("length", int(lengths.min()), "must be positive")
    return np.broadcast_to(lengths, (n_sequences,)).astype(np.int64)


def sample(
    models: Models, labels: IntArray, lengths: IntArray, rng: np.random.Generator
) -> tuple[FloatArray, IntArray]:
    """Return one sequence from HMM ``labels[i]`` of length ``lengths[i]`` for each i, and the states passed.

    Returns
    -------
    X : array of shape (Σ T_i, d)
        The sequences, concatenated.
    states : array of shape (Σ T_i,)
        The state of each frame.
    """
    states = _sample_states(models, labels, lengths, rng)
    owner = np.repeat(labels, lengths)
    component = _choose(_cumulative(models.mix_weights)[owner, states], rng)
    drawn_from = np.ravel_multi_index((owner, states, component), models.shape)
    return models.components.draw(drawn_from, rng), states


def _sample_states(models: Models, labels: IntArray, lengths: IntArray, rng: np.random.Generator) -> IntArray:
    start, trans = _cumulative(models.startprob), _cumulative(models.transmat)
    begins = np.cumsum(lengths) - lengths
    states = np.empty(lengths.sum(), dtype=np.int64)
    states[begins] = _choose(start[labels], rng)
    for t in range(1, lengths.max()):
        active = lengths > t
        rows = begins[active] + t
        states[rows] = _choose(trans[labels[active], states[rows - 1]], rng)
    return states


def _cumulative(p: FloatArray) -> FloatArray:
    """Return cumulative probabilities that end in exactly one (in rows that are not padding)."""
    sums = np.cumsum(p, axis=-1)
    return sums / np.where(sums[..., -1:] > 0, sums[..., -1:], 1.0)


def _choose(cumulative: FloatArray, rng: np.random.Generator) -> IntArray:
    """Return one draw per row; an entry of probability zero adds nothing to the sum and is never drawn."""
    chosen = (rng.random(len(cumulative))[:, None] >= cumulative).sum(axis=1)
    return np.asarray(chosen, dtype=np.int64)
