"""HMMs of different sizes in one set of arrays."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np

from vhem.kernels.models import Models


def stack(parts: Sequence[Models]) -> Models:
    """Return all HMMs of `parts` in one set of arrays, padded to the largest numbers of states and components.

    If some covariances are full, all become full.
    """
    common = reduce(lambda one, part: one.matched([part.components]), parts, parts[0].components)
    parts = [part.with_components(part.components.matched([common])) for part in parts]
    stacked = _room_for(parts)
    begin = 0
    for part in parts:
        end = begin + len(part)
        _place(part, stacked.take(slice(begin, end)))
        begin = end
    return stacked


def _room_for(parts: Sequence[Models]) -> Models:
    """Return arrays of padding: probabilities of zero, harmless components."""
    K = sum(len(part) for part in parts)
    S = max(part.shape[1] for part in parts)
    M = max(part.shape[2] for part in parts)
    components = parts[0].components.padding().map(lambda array: np.tile(array, (K, S, M) + (1,) * array.ndim))
    return Models(np.zeros((K, S)), np.zeros((K, S, S)), np.zeros((K, S, M)), components, np.zeros(K, dtype=np.int64))


def _place(part: Models, room: Models) -> None:
    """Write `part` into the views of `room`."""
    _, S, M = part.shape
    room.startprob[:, :S] = part.startprob
    room.transmat[:, :S, :S] = part.transmat
    room.mix_weights[:, :S, :M] = part.mix_weights
    room.components.put((slice(None), slice(S), slice(M)), part.components)
    first = part.components.take((slice(None), slice(None), slice(1)))  # weightless, but harmless to compute with
    room.components.put((slice(None), slice(S), slice(M, None)), first)
    room.n_states[:] = part.n_states
