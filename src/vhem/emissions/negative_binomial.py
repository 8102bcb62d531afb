"""Counts that vary more than Poisson's: independent negative binomial distributions in every column."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from scipy import stats
from scipy.special import gammaln

from vhem._support.arrays import FloatArray, IntArray
from vhem.emissions.components import Fault
from vhem.emissions.counts import NODES, RATIOS, SLOPE, fault_of_counts, log_factorials, log_sum_over_counts, weights
from vhem.emissions.linear import LinearFamily, LinearPrior, membership

_SIZES = (1e-3, 1e6)  # beyond the larger it is a Poisson distribution
_LEAST_MEAN = 1e-9


class NegativeBinomial(LinearFamily):
    """Counts with a mean μ and a size r per state; their variance is μ + μ² / r.

    log p(y) = log Γ(y+r) - log Γ(r) - log y! + r log r/(r+μ) + y log μ/(r+μ), in which log Γ(y+r) is a sum over
    statistics of y (see `vhem.emissions.counts`).

    Parameters
    ----------
    means, sizes : arrays of shape (S,), (S, d) or (S, M, d)
        The means μ and the sizes r, of S states (with M components) and d columns.

    Examples
    --------
    >>> import vhem
    >>> spikes = vhem.NegativeBinomial(means=[2.0, 30.0], sizes=[3.0, 3.0])
    >>> vhem.HMM([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]], emissions=spikes).decode([[0, 4, 1, 55, 12, 31]])[1]
    [array([0, 0, 0, 1, 1, 1])]
    """

    family: ClassVar[str] = "negativebinomial"
    fields: ClassVar[tuple[str, ...]] = ("means", "sizes")
    harmless: ClassVar[tuple[float, ...]] = (1.0, 1.0)
    ranges: ClassVar[dict[str, tuple[float, float]]] = {"means": (0.0, np.inf), "sizes": (0.0, np.inf)}
    limited: ClassVar[tuple[str, ...]] = ("means", "sizes")
    words: ClassVar[dict[str, str]] = {"means": "mean", "sizes": "size"}

    means: FloatArray  #: (*lead, d)
    sizes: FloatArray  #: (*lead, d)

    def fault(self, X: FloatArray) -> Fault | None:
        """Return a value that is not a count."""
        return fault_of_counts(X)

    def features(self, X: FloatArray) -> FloatArray:
        """Return logarithms."""
        return np.asarray(np.log1p(X))

    def statistics(self, X: FloatArray) -> FloatArray:
        """Return (1, y, (1 - e^-yt) / (1 - e^-t) at all nodes t)."""
        values, place = np.unique(X, return_inverse=True)
        y = np.nan_to_num(values)[:, None]
        table = np.concatenate([np.ones_like(y), y, -np.expm1(-y * NODES) / RATIOS], axis=1)
        return np.asarray((table * ~np.isnan(values)[:, None])[place.reshape(X.shape)])

    def sums_by_label(self, X: FloatArray, labels: IntArray, n: int) -> FloatArray:
        """Return the sums of the statistics; they are many, so they are made once for equal counts."""
        sums = np.empty((n, X.shape[1], 2 + len(NODES)))
        for j, x in enumerate(X.T):
            values, place = np.unique(x, return_inverse=True)
            sums[:, j] = membership(labels, place, (n, len(values))) @ self.statistics(values[:, None])[:, 0]
        return sums

    def log_base(self, X: FloatArray) -> FloatArray:
        """Return -Σ log y!."""
        return -log_factorials(X)

    def log_density(self, X: FloatArray) -> FloatArray:
        """Return the log-probabilities, with log Γ itself."""
        x = X.reshape(len(X), *(1,) * len(self.lead), -1)
        return np.asarray(np.nan_to_num(_log_pmf(x, self.means, self.sizes)).sum(axis=-1))

    def coefficients(self) -> FloatArray:
        """Return (r log r/(r+μ), log μ/(r+μ) + slope, -w(r))."""
        mu, r = self.means, self.sizes
        constant, slope = -r * np.log1p(mu / r), np.log(mu / (r + mu)) + SLOPE
        return np.concatenate([constant[..., None], slope[..., None], -weights(r)], axis=-1)

    def expected_statistics(self) -> FloatArray:
        """Return (1, μ, (1 - E e^-yt) / (1 - e^-t)) with E e^-yt = (1 + μ/r (1 - e^-t))^-r."""
        mu, r = self.means[..., None], self.sizes[..., None]
        nodes = -np.expm1(-r * np.log1p(mu / r * RATIOS)) / RATIOS
        return np.concatenate([np.ones_like(mu), mu, nodes], axis=-1)

    def expected_log_base(self) -> FloatArray:
        """Return -Σ E log y!."""
        nodes = self.expected_statistics()[..., 2:]
        return np.asarray((nodes @ weights(np.ones(())) - SLOPE * self.means).sum(axis=-1))

    def log_overlap(self, other: NegativeBinomial, power: float) -> FloatArray:
        """Return log Σ_y p(y)^power q(y)^power of every pair."""
        one, two = self.reshaped(-1), other.reshaped(-1)
        means, sizes = (np.broadcast_arrays(a[:, None], b) for a, b in ((one.means, two.means), (one.sizes, two.sizes)))
        shape, flat = means[0].shape, [a.ravel() for a in (*means, *sizes)]

        def log_terms(y: FloatArray, i: int) -> FloatArray:
            m, n, r, s = (a[i] for a in flat)
            return np.asarray(power * (_log_pmf(y, m, r) + _log_pmf(y, n, s)))

        m, n, r, s = flat
        decay = power * (np.log1p(r / m) + np.log1p(s / n))  # of the tail, per count
        total = log_sum_over_counts(log_terms, np.maximum(m, n), 5.0 / np.minimum(decay, 1.0) + np.sqrt(m + n))
        return np.asarray(total.reshape(shape).sum(axis=-1).reshape(*self.lead, *other.lead))

    def draw(self, index: IntArray, rng: np.random.Generator) -> FloatArray:
        """Return random counts."""
        flat = self.reshaped(-1).take(index)
        return np.asarray(rng.negative_binomial(flat.sizes, flat.sizes / (flat.sizes + flat.means)), np.float64)

    def quantiles(self, index: IntArray, u: FloatArray) -> FloatArray:
        """Return counts."""
        flat = self.reshaped(-1).take(index)
        return np.asarray(stats.nbinom.ppf(u, flat.sizes, flat.sizes / (flat.sizes + flat.means)))

    def estimated(self, sums: FloatArray, prior: LinearPrior | None) -> NegativeBinomial:
        """Return average counts, and the likeliest sizes given them."""
        n = np.where(sums[..., 0] > 0, sums[..., 0], 1.0)
        mean = self._clipped(prior, "means", np.maximum(sums[..., 1] / n, _LEAST_MEAN))
        size = size_of(mean, sums[..., 2:] / n[..., None])
        return NegativeBinomial.of(mean, self._clipped(prior, "sizes", size))

    def limits(self, mean: FloatArray, floor: float) -> tuple[dict[str, FloatArray], dict[str, FloatArray]]:
        """Return a share of the average count as the smallest."""
        return {"means": np.maximum(floor * mean[..., 1], _LEAST_MEAN)}, {}

    def shifted(self, steps: FloatArray) -> NegativeBinomial:
        """Return larger or smaller means."""
        deviation = np.sqrt(1 / self.means + 1 / self.sizes)
        return NegativeBinomial.of(self.means * np.exp(np.clip(steps * deviation, -1.0, 1.0)), self.sizes + 0.0)

    def centre(self) -> FloatArray:
        """Return logarithms of the means."""
        return np.asarray(np.log1p(self.means))


def _log_pmf(y: FloatArray, mu: FloatArray, r: FloatArray) -> FloatArray:
    constant = -gammaln(r) - r * np.log1p(mu / r)
    return np.asarray(gammaln(y + r) - gammaln(y + 1) + constant + y * np.log(mu / (r + mu)))


def size_of(mean: FloatArray, nodes: FloatArray) -> FloatArray:
    """Solve E ψ(y+r) - ψ(r) = log(1 + μ/r), from the average statistics at the nodes: bisection, in log r.

    The left side exceeds the right below the solution, and there is only one; without one, counts vary no more than
    Poisson's, and r is as large as it may be.
    """
    low, high = (np.full(mean.shape, np.log(limit)) for limit in _SIZES)
    for _ in range(60):
        middle = 0.5 * (low + high)
        r = np.exp(middle)
        above = ((weights(r) * NODES) * nodes).sum(axis=-1) > np.log1p(mean / r)
        low, high = np.where(above, middle, low), np.where(above, high, middle)
        if (high - low).max() < 1e-13:
            break
    return np.asarray(np.exp(0.5 * (low + high)))
