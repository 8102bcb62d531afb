"""HMMs of different sizes in one set of arrays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vhem._support.arrays import FloatArray
from vhem.kernels.parameters import Parameters
from vhem.models.validation import as_full


def stack(parts: Sequence[Parameters]) -> Parameters:
    """Return all HMMs of `parts` in one set of arrays, padded to the most states and components.

    If some covariances are full, all become full.
    """
    if len({part.is_diagonal for part in parts}) > 1:
        parts = [as_full(part) for part in parts]
    stacked = _room_for(parts)
    begin = 0
    for part in parts:
        end = begin + len(part.n_states)
        _place(part, stacked.take(slice(begin, end)))
        begin = end
    return stacked


def _room_for(parts: Sequence[Parameters]) -> Parameters:
    """Return arrays of padding: probabilities of zero, means of zero, unit covariances."""
    K = sum(len(part.n_states) for part in parts)
    S = max(part.mix_weights.shape[1] for part in parts)
    M = max(part.mix_weights.shape[2] for part in parts)
    d = parts[0].means.shape[-1]
    unit: FloatArray = np.ones(d) if parts[0].is_diagonal else np.eye(d)
    return Parameters(
        np.zeros((K, S)),
        np.zeros((K, S, S)),
        np.zeros((K, S, M)),
        np.zeros((K, S, M, d)),
        np.tile(unit, (K, S, M) + (1,) * unit.ndim),
        np.zeros(K, dtype=np.int64),
    )


def _place(part: Parameters, room: Parameters) -> None:
    """Write `part` into the views of `room`."""
    _, S, M = part.mix_weights.shape
    room.startprob[:, :S] = part.startprob
    room.transmat[:, :S, :S] = part.transmat
    room.mix_weights[:, :S, :M] = part.mix_weights
    for array, target in ((part.means, room.means), (part.covars, room.covars)):
        target[:, :S, :M] = array
        target[:, :S, M:] = array[:, :, :1]  # weightless, but harmless to compute with
    room.n_states[:] = part.n_states
