"""A uniform random sample of a stream of sequences, whatever the order of its parts."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vhem._support.arrays import FloatArray
from vhem.sequences import Sequences


class Sample(NamedTuple):
    """Every sequence of the stream has a random key; the `size` sequences with the smallest keys are kept."""

    size: int
    keys: FloatArray
    sequences: Sequences | None

    @staticmethod
    def empty(size: int) -> Sample:
        """Return a sample of nothing, with room for `size` sequences."""
        return Sample(size, np.empty(0), None)

    @property
    def threshold(self) -> float:
        """The key above which no sequence is kept. It only decreases, so parts may use an older one."""
        return float(self.keys.max(initial=0.0)) if len(self.keys) == self.size else 1.0

    def key_of(self, n: int) -> float:
        """Return the key up to which there are n sequences of the sample, -1 for none."""
        return float(np.partition(self.keys, n - 1)[n - 1]) if n else -1.0

    def split(self, key: float) -> tuple[Sequences | None, Sequences | None]:
        """Return the sequences with larger keys, and the others."""
        if self.sequences is None:
            return None, None
        larger = self.keys > key
        kept, spared = (self.sequences[np.flatnonzero(rows)] if rows.any() else None for rows in (larger, ~larger))
        return kept, spared

    def plus(self, other: Sample) -> Sample:
        """Return the sample of both streams."""
        if other.sequences is None:
            return self
        if self.sequences is None:
            return other
        both = np.concatenate([self.keys, other.keys])
        X = np.concatenate([self.sequences.X, other.sequences.X])
        lengths = np.concatenate([self.sequences.lengths, other.sequences.lengths])
        kept = np.sort(np.argsort(both, kind="stable")[: self.size])
        return Sample(self.size, both[kept], Sequences.from_concatenated(X, lengths)[kept])


def drawn(sequences: Sequences, size: int, threshold: float, keys: FloatArray) -> Sample:
    """Return those sequences of a part that may be among the `size` smallest keys of the stream."""
    chosen = np.argsort(keys, kind="stable")[:size]
    chosen = np.sort(chosen[keys[chosen] < threshold])
    if not len(chosen):
        return Sample.empty(size)
    return Sample(size, keys[chosen], Sequences(sequences[chosen], ids=range(len(chosen))))
