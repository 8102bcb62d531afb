"""Counts: independent Poisson distributions in every column."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from scipy import stats
from scipy.special import gammaln

from vhem._support.arrays import FloatArray, IntArray
from vhem.emissions.components import Fault
from vhem.emissions.counts import expected_log_factorial, fault_of_counts, log_factorials, log_sum_over_counts
from vhem.emissions.linear import LinearFamily, LinearPrior

_LEAST_RATE = 1e-6  # of a column in which nothing was ever counted


class Poisson(LinearFamily):
    """Counts with a rate per state: log p(y) = y log λ - λ - log y!.

    Parameters
    ----------
    rates : array of shape (S,), (S, d) or (S, M, d)
        The expected counts λ per frame, of S states (with M components) and d columns.

    Examples
    --------
    >>> import vhem
    >>> hmm = vhem.HMM([0.5, 0.5], [[0.9, 0.1], [0.2, 0.8]], emissions=vhem.Poisson([1.0, 20.0]))
    >>> hmm.decode([[0, 2, 18, 25, 1]])[1]
    [array([0, 0, 1, 1, 0])]
    """

    family: ClassVar[str] = "poisson"
    fields: ClassVar[tuple[str, ...]] = ("rates",)
    ranges: ClassVar[dict[str, tuple[float, float]]] = {"rates": (0.0, np.inf)}
    limited: ClassVar[tuple[str, ...]] = ("rates",)
    words: ClassVar[dict[str, str]] = {"rates": "rate"}

    rates: FloatArray  #: (*lead, d)

    def fault(self, X: FloatArray) -> Fault | None:
        """Return a value that is not a count."""
        return fault_of_counts(X)

    def features(self, X: FloatArray) -> FloatArray:
        """Return square roots, whose variance hardly depends on the rate."""
        return np.asarray(np.sqrt(X))

    def log_base(self, X: FloatArray) -> FloatArray:
        """Return -Σ log y!."""
        return -log_factorials(X)

    def coefficients(self) -> FloatArray:
        """Return (-λ, log λ)."""
        return np.stack([-self.rates, np.log(self.rates)], axis=-1)

    def expected_statistics(self) -> FloatArray:
        """Return (1, λ)."""
        return np.stack([np.ones_like(self.rates), self.rates], axis=-1)

    def expected_log_base(self) -> FloatArray:
        """Return -Σ E log y!."""
        return np.asarray(-expected_log_factorial(self.rates).sum(axis=-1))

    def log_overlap(self, other: Poisson, power: float) -> FloatArray:
        """Return log Σ_y p(y)^power q(y)^power of every pair."""
        a, b = np.broadcast_arrays(self.reshaped(-1).rates[:, None], other.reshaped(-1).rates)
        shape, a, b = a.shape, a.ravel(), b.ravel()

        def log_terms(y: FloatArray, i: int) -> FloatArray:
            return np.asarray(power * (y * np.log(a[i] * b[i]) - a[i] - b[i] - 2 * gammaln(y + 1)))

        peak = np.sqrt(a * b)
        total = log_sum_over_counts(log_terms, peak, np.sqrt((peak + 1) / (2 * power)))
        return np.asarray(total.reshape(shape).sum(axis=-1).reshape(*self.lead, *other.lead))

    def draw(self, index: IntArray, rng: np.random.Generator) -> FloatArray:
        """Return random counts."""
        return rng.poisson(self.reshaped(-1).rates[index]).astype(np.float64)

    def quantiles(self, index: IntArray, u: FloatArray) -> FloatArray:
        """Return counts."""
        return np.asarray(stats.poisson.ppf(u, self.reshaped(-1).rates[index]))

    def estimated(self, sums: FloatArray, prior: LinearPrior | None) -> Poisson:
        """Return the average counts."""
        n = np.where(sums[..., 0] > 0, sums[..., 0], 1.0)
        return Poisson.of(self._clipped(prior, "rates", np.maximum(sums[..., 1] / n, np.finfo(float).tiny)))

    def limits(self, mean: FloatArray, floor: float) -> tuple[dict[str, FloatArray], dict[str, FloatArray]]:
        """Return a share of the average rate as the smallest."""
        return {"rates": np.maximum(floor * mean[..., 1], floor * _LEAST_RATE)}, {}

    def shifted(self, steps: FloatArray) -> Poisson:
        """Return larger or smaller rates."""
        return Poisson.of(self.rates * np.exp(np.clip(steps / np.sqrt(self.rates), -1.0, 1.0)))

    def centre(self) -> FloatArray:
        """Return square roots of the rates."""
        return np.sqrt(self.rates)
