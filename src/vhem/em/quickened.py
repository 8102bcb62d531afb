"""HMMs played faster: what takes n frames takes one. Long courses are compared by far fewer frames so.

Left-right HMMs have to be compared over the whole length of their sequences, since each state has its turn. If that is
a thousand frames, a state lasts for dozens of them, and comparing HMMs that leave their states so many times as soon
over so many times fewer frames finds nearly the same divergences, in units of one coarse frame.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from vhem.kernels.models import Models

_FRAMES = 64  # over which long courses are compared; up to twice as many are left as they are


def pace(topology: str, tau: int) -> int:
    """Return how many times faster HMMs may be played: left-right ones until 64 frames are left, others not at all.

    The states of others come back, and how soon they do may be what tells HMMs apart.
    """
    return 1 if topology == "ergodic" else max(1, tau // _FRAMES)


def quickened(models: Models, times: float) -> Models:
    """Return HMMs that leave every state so many times as soon, after one frame at the earliest; below 1, later."""
    if times == 1:
        return models
    stays = np.eye(models.transmat.shape[1], dtype=bool)
    moves = np.where(stays, 0.0, models.transmat)
    leaves = moves.sum(axis=2, keepdims=True)
    soon = moves * np.minimum(times, 1 / np.where(leaves > 0, leaves, 1.0))
    left = np.maximum(models.transmat.sum(axis=2) - soon.sum(axis=2), 0.0)  # nothing in rows that only pad
    return replace(models, transmat=np.where(stays, left[:, :, None], soon))
