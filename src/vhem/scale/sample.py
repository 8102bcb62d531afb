"""A uniform random sample of a stream of sequences, whatever the order of its parts."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vhem._support.arrays import FloatArray
from vhem.sequences import Sequences

_WAITING = 0.25  # share of the size that may wait, at most


class Sample(NamedTuple):
    """Every sequence of the stream has a random key; the `size` sequences with the smallest keys are kept.

    Until `whole` is called, some of later parts wait to be sorted in.
    """

    size: int
    keys: FloatArray
    sequences: Sequences | None
    waiting: tuple[Sample, ...] = ()  #: most later parts bring few sequences, and sorting all for each takes long

    @staticmethod
    def empty(size: int) -> Sample:
        """Return a sample of nothing, with room for `size` sequences."""
        return Sample(size, np.empty(0), None)

    @property
    def threshold(self) -> float:
        """A key above which no sequence is kept. It only decreases, so parts may use an older one."""
        return float(self.keys.max(initial=0.0)) if len(self.keys) == self.size else 1.0

    def key_of(self, n: int) -> float:
        """Return the key up to which there are n sequences of a whole sample, -1 for none."""
        return float(np.partition(self.keys, n - 1)[n - 1]) if n else -1.0

    def split(self, key: float) -> tuple[Sequences | None, Sequences | None]:
        """Return the sequences of a whole sample with larger keys, and the others."""
        if self.sequences is None:
            return None, None
        larger = self.keys > key
        kept, spared = (self.sequences[np.flatnonzero(rows)] if rows.any() else None for rows in (larger, ~larger))
        return kept, spared

    def plus(self, other: Sample) -> Sample:
        """Return the sample of both streams."""
        if other.sequences is None:
            return self
        both = self._replace(waiting=(*self.waiting, other.whole()))
        return both if sum(len(one.keys) for one in both.waiting) <= _WAITING * self.size else both.whole()

    def whole(self) -> Sample:
        """Return the sample with nothing waiting."""
        parts = [one for one in (self._replace(waiting=()), *self.waiting) if one.sequences is not None]
        if len(parts) < 2:
            return parts[0] if parts else self
        keys = np.concatenate([one.keys for one in parts])
        some = [one.sequences for one in parts if one.sequences is not None]
        X, lengths = np.concatenate([one.X for one in some]), np.concatenate([one.lengths for one in some])
        kept = np.sort(np.argsort(keys, kind="stable")[: self.size])
        return Sample(self.size, keys[kept], Sequences.from_concatenated(X, lengths)[kept])


def drawn(sequences: Sequences, size: int, threshold: float, keys: FloatArray) -> Sample:
    """Return those sequences of a part that may be among the `size` smallest keys of the stream."""
    chosen = np.argsort(keys, kind="stable")[:size]
    chosen = np.sort(chosen[keys[chosen] < threshold])
    if not len(chosen):
        return Sample.empty(size)
    return Sample(size, keys[chosen], Sequences(sequences[chosen], ids=range(len(chosen))))
