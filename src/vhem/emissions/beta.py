"""Shares between 0 and 1: independent beta distributions in every column."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from scipy.special import betaincinv, betaln, digamma, expit, logit, polygamma

from vhem._support.arrays import FloatArray, IntArray
from vhem._support.errors import InputError
from vhem.emissions.components import Fault, first_place
from vhem.emissions.linear import LinearFamily, LinearPrior

_LEAST, _MOST = 1e-3, 1e6  # of a and b, and of their sum


class Beta(LinearFamily):
    """Shares with a mean and a precision per state.

    log f(y) = (a-1) log y + (b-1) log(1-y) - log B(a, b), with a = mean · precision and b = (1 - mean) · precision.

    Parameters
    ----------
    means, precisions : arrays of shape (S,), (S, d) or (S, M, d)
        The means, and the precisions a + b: the variance is mean (1 - mean) / (1 + precision).

    Examples
    --------
    >>> import vhem
    >>> hmm = vhem.HMM([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]], emissions=vhem.Beta(means=[0.1, 0.8], precisions=[9, 9]))
    >>> hmm.decode([[0.05, 0.2, 0.7, 0.9]])[1]
    [array([0, 0, 1, 1])]
    """

    family: ClassVar[str] = "beta"
    fields: ClassVar[tuple[str, ...]] = ("means", "precisions")
    harmless: ClassVar[tuple[float, ...]] = (0.5, 2.0)
    ranges: ClassVar[dict[str, tuple[float, float]]] = {"means": (0.0, 1.0), "precisions": (0.0, np.inf)}
    limited: ClassVar[tuple[str, ...]] = ("precisions",)
    words: ClassVar[dict[str, str]] = {"means": "mean", "precisions": "precision"}

    means: FloatArray  #: (*lead, d)
    precisions: FloatArray  #: (*lead, d)

    @property
    def exponents(self) -> tuple[FloatArray, FloatArray]:
        """The parameters a and b."""
        return self.means * self.precisions, (1 - self.means) * self.precisions

    def fault(self, X: FloatArray) -> Fault | None:
        """Return a value that is not between 0 and 1."""
        place = first_place((X <= 0) | (X >= 1))
        if not place:
            return None
        cures = ("divide percentages by 100", "move exact 0 and 1 inwards by half a unit of their precision")
        return Fault(*place, InputError("which is not between 0 and 1, both excluded", *cures))

    def features(self, X: FloatArray) -> FloatArray:
        """Return log-odds."""
        return np.asarray(logit(X))

    def statistics(self, X: FloatArray) -> FloatArray:
        """Return (1, log y, log(1-y))."""
        seen = ~np.isnan(X)
        y = np.where(seen, X, 0.5)
        return np.stack([np.ones_like(y), np.log(y), np.log1p(-y)], axis=-1) * seen[..., None]

    def coefficients(self) -> FloatArray:
        """Return (-log B(a, b), a-1, b-1)."""
        a, b = self.exponents
        return np.stack([-betaln(a, b), a - 1, b - 1], axis=-1)

    def expected_statistics(self) -> FloatArray:
        """Return (1, ψ(a) - ψ(a+b), ψ(b) - ψ(a+b))."""
        (a, b), whole = self.exponents, digamma(self.precisions)
        return np.stack([np.ones_like(a), digamma(a) - whole, digamma(b) - whole], axis=-1)

    def log_overlap(self, other: Beta, power: float) -> FloatArray:
        """Return Σ_columns [ log B(c, c') - power (log B(a, b) + log B(a', b')) ] of every pair."""
        one, two = (c.reshaped(-1).coefficients() for c in (self, other))
        both = power * (one[:, None] + two)
        c, d = both[..., 1] + 1, both[..., 2] + 1
        if (c <= 0).any() or (d <= 0).any():
            raise InputError("the overlap of beta distributions with exponents below 1 is infinite", "use {rho:0.5}")
        return np.asarray((both[..., 0] + betaln(c, d)).sum(axis=-1).reshape(*self.lead, *other.lead))

    def draw(self, index: IntArray, rng: np.random.Generator) -> FloatArray:
        """Return random shares."""
        a, b = self.reshaped(-1).take(index).exponents
        return _inside(rng.beta(a, b))

    def quantiles(self, index: IntArray, u: FloatArray) -> FloatArray:
        """Return shares."""
        return _inside(betaincinv(*self.reshaped(-1).take(index).exponents, u))

    def estimated(self, sums: FloatArray, prior: LinearPrior | None) -> Beta:
        """Return the likeliest means and precisions; a precision at its limit moves the mean with it."""
        n = np.where(sums[..., 0] > 0, sums[..., 0], 1.0)
        log_y, log_rest = (np.minimum(sums[..., i] / n, -1e-300) for i in (1, 2))
        a, b = exponents_of(log_y, log_rest)
        free = a + b
        precision = self._clipped(prior, "precisions", free)
        mean = np.where(precision == free, a / free, mean_at(precision, log_y - log_rest, a / free))
        return Beta.of(mean, precision)

    def limits(self, mean: FloatArray, floor: float) -> tuple[dict[str, FloatArray], dict[str, FloatArray]]:
        """Return the precision of all values, divided by the floor, as the largest."""
        n = np.maximum(mean[..., 0], 1e-300)
        a, b = exponents_of(np.minimum(mean[..., 1] / n, -1e-300), np.minimum(mean[..., 2] / n, -1e-300))
        return {}, {"precisions": np.minimum((a + b) / max(floor, 1e-8), _MOST)}

    def shifted(self, steps: FloatArray) -> Beta:
        """Return means with their log-odds moved."""
        m, s = self.means, self.precisions
        deviation = 1 / np.sqrt(m * (1 - m) * (1 + s))
        return Beta.of(expit(logit(m) + np.clip(steps * deviation, -1.0, 1.0)), s + 0.0)

    def centre(self) -> FloatArray:
        """Return log-odds of the means."""
        return np.asarray(logit(self.means))


def exponents_of(log_y: FloatArray, log_rest: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Solve ψ(a) - ψ(a+b) = E log y and ψ(b) - ψ(a+b) = E log(1-y) by Newton's method.

    The function that is maximised, (a-1) E log y + (b-1) E log(1-y) - log B(a, b), is concave.
    """
    g, h = np.exp(log_y), np.exp(log_rest)
    rest = np.maximum(1 - g - h, 1e-7)
    a, b = 0.5 + 0.5 * g / rest, 0.5 + 0.5 * h / rest
    for _ in range(50):
        whole, curve = digamma(a + b), polygamma(1, a + b)
        u, v = log_y - digamma(a) + whole, log_rest - digamma(b) + whole
        p, q = polygamma(1, a) - curve, polygamma(1, b) - curve
        determinant = p * q - curve**2
        step_a, step_b = (q * u + curve * v) / determinant, (p * v + curve * u) / determinant
        a, b = np.clip(a + step_a, 0.2 * a, 5 * a), np.clip(b + step_b, 0.2 * b, 5 * b)
        a, b = np.clip(a, _LEAST, _MOST), np.clip(b, _LEAST, _MOST)
        if (np.maximum(np.abs(step_a / a), np.abs(step_b / b)) < 1e-13).all():
            break
    return a, b


def mean_at(precision: FloatArray, difference: FloatArray, near: FloatArray) -> FloatArray:
    """Return the likeliest mean m at a given precision s: ψ(ms) - ψ((1-m)s) = E log y - E log(1-y)."""
    x = logit(np.clip(near, 1e-12, 1 - 1e-12))
    for _ in range(30):
        m = expit(x)
        a, b = m * precision, (1 - m) * precision
        slope = (polygamma(1, a) + polygamma(1, b)) * precision * m * (1 - m)
        x = x + np.clip((difference - digamma(a) + digamma(b)) / slope, -2.0, 2.0)
    return np.asarray(expit(x))


def _inside(share: FloatArray) -> FloatArray:
    """Return shares that are neither 0 nor 1."""
    return np.clip(share, np.finfo(float).tiny, 1 - np.finfo(float).epsneg)
