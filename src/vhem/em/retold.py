"""Sequences like those that HMMs were learned from, made from nothing but the HMMs.

Random draws would add noise to noise: an HMM of forty frames is an estimate, and forty frames drawn from it are a worse
one. So these sequences repeat what the HMM knows as exactly as their number allows. Chains leave a state when the
transitions owed to other states add up, so that counts of transitions are within one of their expectation; and the
frames of a state have its mean and variance exactly, if there are two or more, or its quantiles. Learning from them
returns nearly the HMM that they came from, and they count as much as the data behind it. A few categories cannot have
small probabilities, so an HMM may be retold several times over, each time with less weight.
"""

from __future__ import annotations

import numpy as np

from vhem._support.arrays import FloatArray, IntArray
from vhem.em.grouped import Batch
from vhem.kernels.models import Models
from vhem.models.evidence import Evidence

_MOST_FRAMES = 400  # per HMM: more evidence would only make its local optimum certain, and take time


def retold(models: Models, evidence: Evidence, rng: np.random.Generator, most_copies: int = 1) -> Batch:
    """Return as many sequences from each HMM as it was learned from, all of their mean length; at most 400 frames.

    HMMs of fewer frames are retold as often as 400 frames allow, up to so many times.
    """
    lengths = np.maximum(1, np.round(evidence.n_frames / evidence.n_sequences)).astype(np.int64)
    numbers = np.round(np.minimum(evidence.n_sequences, _MOST_FRAMES / lengths)).astype(np.int64)
    lengths, numbers = np.minimum(lengths, _MOST_FRAMES), np.maximum(numbers, 1)
    copies = np.clip(_MOST_FRAMES // (numbers * lengths), 1, most_copies)
    numbers *= copies
    owner = np.repeat(np.arange(len(models)), numbers)
    place = np.repeat(owner, lengths[owner]) * models.shape[1] + _walks(models, numbers, lengths)
    X = models.components.drawn_evenly(place, rng)
    offsets = np.concatenate([[0], np.cumsum(lengths[owner])]).astype(np.int64)
    return Batch(X, offsets, owner, 1 / copies[owner], list(range(len(models))), models.components.padding())


def _walks(models: Models, numbers: IntArray, lengths: IntArray) -> IntArray:
    """Return the states of all sequences, HMM after HMM; what a chain owes is carried over to its next sequence."""
    first_owed, owed = np.zeros_like(models.startprob), np.zeros_like(models.transmat)
    offsets = np.concatenate([[0], np.cumsum(numbers * lengths)])
    states = np.empty(offsets[-1], dtype=np.int64)
    for n in range(numbers.max()):
        walking = np.flatnonzero(numbers > n)
        now = _next_start(models, first_owed, walking)
        for t in range(lengths[walking].max()):
            if t:
                on = lengths[walking] > t
                walking = walking[on]
                now = _next_state(models, owed, walking, now[on])
            states[offsets[walking] + n * lengths[walking] + t] = now
    return states


def _next_start(models: Models, owed: FloatArray, k: IntArray) -> IntArray:
    owed[k] += models.startprob[k]
    start = np.where(models.startprob[k] > 0, owed[k], -np.inf).argmax(axis=1)
    owed[k, start] -= 1
    return np.asarray(start, dtype=np.int64)


def _next_state(models: Models, owed: FloatArray, k: IntArray, state: IntArray) -> IntArray:
    """Return the next state of each chain.

    A chain that stays with probability a leaves for the first time after round(1 / (1 - a)) frames, and then on average
    as often as it should.
    """
    away = models.transmat[k, state]
    rows = np.arange(len(k))
    stay = away[rows, state].copy()
    away[rows, state] = 0.0
    owed[k, state] += away
    now = owed[k, state]
    leaves = (now.sum(axis=1) >= (1 + stay) / 2) & away.any(axis=1)
    chosen = np.where(leaves, np.where(away > 0, now, -np.inf).argmax(axis=1), state)
    owed[k[leaves], state[leaves], chosen[leaves]] -= 1
    return np.asarray(chosen, dtype=np.int64)
