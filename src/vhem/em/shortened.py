"""Long sequences made shorter, for searches that would take minutes of them and find the same in a part.

Of a course that is taken once, every so many-th frame is kept: a state that lasts for dozens of frames still lasts for
several. Of behaviours that come and go, stretches are kept that are spread evenly over the sequence, because how soon
states follow one another may be what tells items apart.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vhem._support.arrays import IntArray
from vhem.em.fitting import FitPlan, fit_batch
from vhem.em.grouped import Batch, Scale
from vhem.em.quickened import quickened
from vhem.kernels.models import Models
from vhem.models import H3M

_MUCH_WORK = 2_000_000  # frames × clusters × states, from twice which on sequences are shortened
_LEAST_LENGTH = 64  # frames that are left of most sequences
_STRETCH = 32  # frames of a stretch
_ITERATIONS = 10  # of Baum-Welch on all frames, from what was found in a part of them


class Shortened(NamedTuple):
    """What is left of some sequences."""

    batch: Batch
    step: int  #: one frame in so many is left
    plan: FitPlan

    @staticmethod
    def of(batch: Batch, plan: FitPlan, n_clusters: int) -> Shortened:
        """Return as much of the sequences as can be searched in seconds, and 64 frames of most at least."""
        step = affordable(batch, len(batch.X) * n_clusters * plan.shape.n_states / _MUCH_WORK)
        shorter = stretches if plan.shape.topology == "ergodic" else thinned
        return Shortened(shorter(batch, step), step, plan)

    @property
    def pace(self) -> float:
        """How many frames of the whole pass between two of these."""
        return 1 if self.plan.shape.topology == "ergodic" else self.step

    def learned_from_all(self, models: Models, whole: Batch, rng: np.random.Generator) -> Models:
        """Return HMMs trained on all frames of the groups that they belong to, from what they learned of a part."""
        if self.step == 1:
            return models
        start = H3M.of_models(quickened(models, 1 / self.pace))
        return fit_batch(whole, Scale.of(whole), self.plan.brief(_ITERATIONS, init=start), rng).models


def affordable(batch: Batch, wanted: float) -> int:
    """Return how many times shorter sequences can be: as wanted, but 64 frames are left of most."""
    return max(1, int(min(wanted, float(np.median(batch.lengths)) / _LEAST_LENGTH)))


def thinned(batch: Batch, step: int) -> Batch:
    """Return every so many-th frame of all sequences, from their first on."""
    if step <= 1:
        return batch
    offsets = np.concatenate([[0], np.cumsum(-(-batch.lengths // step))]).astype(np.int64)
    return batch._replace(X=batch.X[_time(batch) % step == 0], offsets=offsets)


def stretches(batch: Batch, step: int) -> Batch:
    """Return one stretch in so many, from the first of each sequence on, each as a sequence of its own."""
    if step <= 1:
        return batch
    number = _time(batch) // _STRETCH
    kept = np.flatnonzero(number % step == 0)
    sequence = np.repeat(np.arange(len(batch.groups)), batch.lengths)[kept]
    begins = np.flatnonzero(np.diff(sequence, prepend=-1) | np.diff(number[kept], prepend=-1))
    owner = sequence[begins]
    return batch._replace(
        X=batch.X[kept], offsets=np.append(begins, len(kept)).astype(np.int64), groups=batch.groups[owner],
        weights=batch.weights[owner],
    )  # fmt: skip


def _time(batch: Batch) -> IntArray:
    """Return the number of each frame in its sequence."""
    return np.arange(len(batch.X)) - np.repeat(batch.offsets[:-1], batch.lengths)
