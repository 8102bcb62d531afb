"""How much data HMMs were learned from: what tells estimates from facts."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from vhem._support.arrays import BoolArray, FloatArray, floats
from vhem._support.errors import InputError


class Evidence(NamedTuple):
    """Sequences and frames behind each of K HMMs; 0 if unknown."""

    n_sequences: FloatArray  #: (K,)
    n_frames: FloatArray  #: (K,)

    @staticmethod
    def unknown(n: int) -> Evidence:
        """Return the evidence of HMMs of unknown origin."""
        return Evidence(np.zeros(n), np.zeros(n))

    @staticmethod
    def checked(n_sequences: npt.ArrayLike, n_frames: npt.ArrayLike, n: int) -> Evidence:
        """Return numbers given by a user, for n HMMs."""
        made = Evidence(_each("n_sequences", n_sequences, n), _each("n_frames", n_frames, n))
        wrong = np.flatnonzero((made.n_frames < made.n_sequences) | ((made.n_sequences == 0) != (made.n_frames == 0)))
        if len(wrong):
            k = int(wrong[0])
            raise InputError(
                "HMM {k} was learned from {n:g} sequences with {frames:g} frames in all",
                "give at least one frame per sequence, or 0 for both if they are unknown",
                k=k, n=made.n_sequences[k], frames=made.n_frames[k],
            )  # fmt: skip
        return made

    @staticmethod
    def of_file(state: dict[str, Any], n: int) -> Evidence:
        """Return what a file says; files of older versions say nothing."""
        if "n_sequences" not in state:
            return Evidence.unknown(n)
        return Evidence.checked(state["n_sequences"], state["n_frames"], n)

    @staticmethod
    def joined(parts: list[Evidence]) -> Evidence:
        """Return the evidence of several sets of HMMs."""
        return Evidence(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))

    def take(self, index: Any) -> Evidence:
        """Return the evidence of some HMMs."""
        return Evidence(self.n_sequences[index], self.n_frames[index])

    @property
    def is_known(self) -> BoolArray:
        """Whether anything is known about each HMM, (K,)."""
        return np.asarray(self.n_frames > 0)

    @property
    def typical_length(self) -> int | None:
        """The median of the HMMs' mean lengths, if any is known."""
        known = self.is_known
        if not known.any():
            return None
        return max(1, round(float(np.median(self.n_frames[known] / self.n_sequences[known]))))


def _each(name: str, value: npt.ArrayLike, n: int) -> FloatArray:
    array = floats(value, name)
    if array.shape not in ((), (n,)) or not np.isfinite(array).all() or (array < 0).any():
        raise InputError(
            "{name} must be one number or {n}, finite and not negative, got {value}", name=name, n=n, value=value
        )
    return np.array(np.broadcast_to(array, (n,)))
