"""Durations without a memory: independent exponential distributions in every column."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from vhem._support.arrays import FloatArray, IntArray
from vhem._support.errors import InputError
from vhem.emissions.components import Fault, first_place
from vhem.emissions.linear import LinearFamily, LinearPrior

_TINY = 1e-150  # the smallest mean: its inverse, and the square of that, are numbers


class Exponential(LinearFamily):
    """Durations with a mean per state: log f(y) = -log m - y / m.

    Parameters
    ----------
    means : array of shape (S,), (S, d) or (S, M, d)
        The mean durations m, of S states (with M components) and d columns.

    Examples
    --------
    >>> import vhem
    >>> hmm = vhem.HMM([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]], emissions=vhem.Exponential([0.2, 5.0]))
    >>> hmm.decode([[0.1, 0.2, 7.0, 4.0]])[1]
    [array([0, 0, 1, 1])]
    """

    family: ClassVar[str] = "exponential"
    fields: ClassVar[tuple[str, ...]] = ("means",)
    ranges: ClassVar[dict[str, tuple[float, float]]] = {"means": (0.0, np.inf)}
    limited: ClassVar[tuple[str, ...]] = ("means",)
    words: ClassVar[dict[str, str]] = {"means": "mean"}

    means: FloatArray  #: (*lead, d)

    def fault(self, X: FloatArray) -> Fault | None:
        """Return a negative value."""
        place = first_place(X < 0)
        return place and Fault(*place, InputError("which is negative: durations are not", "correct it"))

    def features(self, X: FloatArray) -> FloatArray:
        """Return cube roots, which are nearly symmetric."""
        return np.asarray(np.cbrt(X))

    def coefficients(self) -> FloatArray:
        """Return (-log m, -1/m)."""
        return np.stack([-np.log(self.means), -1 / self.means], axis=-1)

    def expected_statistics(self) -> FloatArray:
        """Return (1, m)."""
        return np.stack([np.ones_like(self.means), self.means], axis=-1)

    def log_overlap(self, other: Exponential, power: float) -> FloatArray:
        """Return Σ_columns [ -power log(m m') - log(power/m + power/m') ] of every pair."""
        a, b = self.reshaped(-1).means[:, None], other.reshaped(-1).means
        total = (-power * np.log(a * b) - np.log(power * (1 / a + 1 / b))).sum(axis=-1)
        return np.asarray(total.reshape(*self.lead, *other.lead))

    def draw(self, index: IntArray, rng: np.random.Generator) -> FloatArray:
        """Return random durations."""
        return np.asarray(rng.exponential(self.reshaped(-1).means[index]))

    def quantiles(self, index: IntArray, u: FloatArray) -> FloatArray:
        """Return durations."""
        return np.asarray(-np.log1p(-u) * self.reshaped(-1).means[index])

    def estimated(self, sums: FloatArray, prior: LinearPrior | None) -> Exponential:
        """Return the average durations."""
        n = np.where(sums[..., 0] > 0, sums[..., 0], 1.0)
        return Exponential.of(self._clipped(prior, "means", np.maximum(sums[..., 1] / n, _TINY)))

    def limits(self, mean: FloatArray, floor: float) -> tuple[dict[str, FloatArray], dict[str, FloatArray]]:
        """Return a share of the average duration as the smallest."""
        return {"means": np.maximum(floor * mean[..., 1], _TINY)}, {}

    def shifted(self, steps: FloatArray) -> Exponential:
        """Return longer or shorter means."""
        return Exponential.of(self.means * np.exp(np.clip(steps, -1.0, 1.0)))

    def centre(self) -> FloatArray:
        """Return logarithms of the means."""
        return np.asarray(np.log(self.means))
