"""Which states an HMM may start in, and which transitions it may make."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from vhem._support.arrays import FloatArray
from vhem._support.checks import check_choice

BoolArray = npt.NDArray[np.bool_]

TOPOLOGIES = {"ergodic": None, "left-right": 1, "left-right-skip": 2}  # how many states a transition may advance


def allowed(topology: str, n_states: int) -> tuple[BoolArray, BoolArray]:
    """Return masks of starting states (S,) and transitions (S, S).

    Examples
    --------
    >>> allowed("left-right", 3)[1].astype(int)
    array([[1, 1, 0], [0, 1, 1], [0, 0, 1]])
    """
    step = TOPOLOGIES[check_choice("topology", topology, list(TOPOLOGIES))]
    if step is None:
        return np.ones(n_states, dtype=bool), np.ones((n_states, n_states), dtype=bool)
    ahead = np.arange(n_states) - np.arange(n_states)[:, None]
    return np.arange(n_states) == 0, (ahead >= 0) & (ahead <= step)


def topology_of(startprob: FloatArray, transmat: FloatArray) -> str:
    """Return the narrowest topology that HMMs of several states have in common, (K, S) and (K, S, S).

    Examples
    --------
    >>> topology_of(np.array([[1.0, 0.0]]), np.array([[[0.9, 0.1], [0.0, 1.0]]]))
    'left-right'
    """
    if startprob.shape[1] == 1 or startprob[:, 1:].any() or np.tril(transmat, -1).any():
        return "ergodic"
    return "left-right-skip" if np.triu(transmat, 2).any() else "left-right"
