"""Durations, steps, amounts: gamma distributions in every column, perhaps with a mass at zero."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from scipy.special import digamma, gammaincinv, gammaln, polygamma

from vhem._support.arrays import BoolArray, FloatArray, IntArray, floats
from vhem._support.errors import InputError
from vhem.emissions.components import FamilyPrior, Fault, Number, first_place, means_by_column
from vhem.emissions.linear import LinearFamily, LinearPrior, log

_SHAPES = (1e-3, 1e6)  # beyond, a distribution is all but a spike, and sums of logarithms have lost their digits


class Gamma(LinearFamily):
    """Positive amounts with a mean and a shape per state, and perhaps exact zeros.

    With probability 1-z, log f(y) = a log b - log Γ(a) + (a-1) log y - b y with shape a and rate b = a / mean; with
    probability z, y is zero. The standard deviation is mean / √a.

    Parameters
    ----------
    means, shapes : arrays of shape (S,), (S, d) or (S, M, d)
        The means of what is positive, and the shapes a, of S states (with M components) and d columns.
    zeros : array of the same shape, optional
        The probability z of an exact zero; none by default, and then a zero is an error.

    Examples
    --------
    >>> import vhem
    >>> steps = vhem.Gamma(means=[0.2, 3.0], shapes=[2.0, 4.0], zeros=[0.3, 0.0])
    >>> hmm = vhem.HMM([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]], emissions=steps)
    >>> hmm.decode([[0.0, 0.1, 0.3, 2.5, 4.0]])[1]
    [array([0, 0, 0, 1, 1])]
    """

    family: ClassVar[str] = "gamma"
    fields: ClassVar[tuple[str, ...]] = ("means", "shapes", "zeros")
    harmless: ClassVar[tuple[float, ...]] = (1.0, 1.0, 0.0)
    ranges: ClassVar[dict[str, tuple[float, float]]] = {
        "means": (0.0, np.inf), "shapes": (0.0, np.inf), "zeros": (-1e-300, 1.0),
    }  # fmt: skip
    limited: ClassVar[tuple[str, ...]] = ("shapes",)
    words: ClassVar[dict[str, str]] = {"means": "mean", "shapes": "shape", "zeros": "probability of a zero"}

    means: FloatArray  #: (*lead, d)
    shapes: FloatArray  #: (*lead, d)
    zeros: FloatArray  #: (*lead, d)

    def __init__(self, means: npt.ArrayLike, shapes: npt.ArrayLike, zeros: npt.ArrayLike | None = None) -> None:
        super().__init__(means, shapes, np.zeros(np.shape(floats(means, "means"))) if zeros is None else zeros)

    @property
    def may_be_zero(self) -> BoolArray:
        """Which columns have a mass at zero, (d,)."""
        return np.asarray((self.zeros > 0).reshape(-1, self.n_dims).any(axis=0))

    def padding(self) -> Gamma:
        """Return one harmless component, with a mass at zero where these have one."""
        ones = np.ones(self.n_dims)
        return Gamma.of(ones, ones, np.where(self.may_be_zero, 0.5, 0.0))

    def fault(self, X: FloatArray) -> Fault | None:
        """Return a negative value, or a zero where none can be."""
        place = first_place(X < 0)
        if place:
            return Fault(*place, InputError("which is negative: gamma distributions emit positive values"))
        place = first_place((X == 0) & ~self.may_be_zero)
        if not place:
            return None
        why = InputError("which a gamma distribution cannot emit", "allow zeros: 'zero-gamma' instead of 'gamma'")
        return Fault(*place, why)

    def features(self, X: FloatArray) -> FloatArray:
        """Return logarithms, and whether a value is zero."""
        zero = np.where(np.isnan(X), np.nan, X == 0)
        return np.concatenate([np.log(np.where(X > 0, X, np.nan)), zero], axis=1)

    @property
    def own_units(self) -> BoolArray:
        """Only indicators of zeros."""
        return np.repeat([False, True], self.n_dims)

    def statistics(self, X: FloatArray) -> FloatArray:
        """Return (1, log y, y, 0) of positive values, and (0, 0, 0, 1) of zeros."""
        positive = X > 0
        y = np.where(positive, X, 1.0)
        return np.stack([positive, np.log(y), np.where(positive, y, 0.0), X == 0], axis=-1)

    def observed(self, sums: FloatArray) -> FloatArray:
        """Return the number of positive values and zeros."""
        return np.asarray(sums[..., 0] + sums[..., 3])

    def coefficients(self) -> FloatArray:
        """Return (log(1-z) + a log b - log Γ(a), a-1, -b, log z)."""
        a, b = self.shapes, self.shapes / self.means
        return np.stack([np.log1p(-self.zeros) + a * np.log(b) - gammaln(a), a - 1, -b, log(self.zeros)], axis=-1)

    def expected_statistics(self) -> FloatArray:
        """Return 1-z times (1, ψ(a) - log b, mean), and z."""
        a, positive = self.shapes, 1 - self.zeros
        mean_log = digamma(a) - np.log(a / self.means)
        return np.stack([positive, positive * mean_log, positive * self.means, self.zeros], axis=-1)

    def log_overlap(self, other: Gamma, power: float) -> FloatArray:
        """Return log ∫ f^power f'^power of every pair: over positive values, and at zero."""
        one, two = self.reshaped(-1), other.reshaped(-1)
        a, b = (c.coefficients() for c in (one, two))
        both = power * (a[:, None] + b)
        shape, rate = both[..., 1] + 1, -both[..., 2]
        if (shape <= 0).any():
            raise InputError("the overlap of gamma distributions with shapes below 1 is infinite", "use {rho:0.5}")
        positive = both[..., 0] + gammaln(shape) - shape * np.log(rate)
        total = np.logaddexp(positive, both[..., 3]).sum(axis=-1)
        return np.asarray(total.reshape(*self.lead, *other.lead))

    def draw(self, index: IntArray, rng: np.random.Generator) -> FloatArray:
        """Return random amounts."""
        flat = self.reshaped(-1).take(index)
        y = np.maximum(rng.gamma(flat.shapes, flat.means / flat.shapes), np.finfo(float).tiny)
        return np.where(rng.random(y.shape) < flat.zeros, 0.0, y)

    def quantiles(self, index: IntArray, u: FloatArray) -> FloatArray:
        """Return amounts; zeros are the smallest."""
        flat = self.reshaped(-1).take(index)
        share = np.clip((u - flat.zeros) / (1 - flat.zeros), 0.0, 1 - np.finfo(float).epsneg)
        y = np.maximum(gammaincinv(flat.shapes, share) * (flat.means / flat.shapes), np.finfo(float).tiny)
        return np.where(u < flat.zeros, 0.0, y)

    def estimated(self, sums: FloatArray, prior: LinearPrior | None) -> Gamma:
        """Return means, the shapes that log a - ψ(a) = log mean - mean log asks for, and the shares of zeros."""
        n, total = sums[..., 0], self.observed(sums)
        known = n > 0
        mean = np.where(known, sums[..., 2] / np.where(known, n, 1.0), self.means)
        gap = np.log(mean) - sums[..., 1] / np.where(known, n, 1.0)
        shape = np.where(known, self._clipped(prior, "shapes", shape_of(gap)), self.shapes)
        return Gamma.of(mean, shape, self._clipped(prior, "zeros", sums[..., 3] / np.where(total > 0, total, 1.0)))

    def prior(self, typical: FamilyPrior, count: float, floor: float) -> LinearPrior:
        """Return pseudo-frames with the average statistics, and `floor` more of zeros, where these are possible."""
        made = super().prior(typical, count, floor)
        more = made.mean + np.array([0.0, 0.0, 0.0, 1.0])
        return replace(made, sums=made.sums + floor * np.where(self.may_be_zero[:, None], more, 0.0))

    def limits(self, mean: FloatArray, floor: float) -> tuple[dict[str, FloatArray], dict[str, FloatArray]]:
        """Return the shape of all values, divided by the floor, as the largest."""
        n = np.maximum(mean[..., 0], 1e-300)
        own = shape_of(np.log(np.maximum(mean[..., 2] / n, 1e-300)) - mean[..., 1] / n)
        return {}, {"shapes": np.minimum(own / max(floor, 1e-8), _SHAPES[1])}

    def within_reach(self, n: int, share: float) -> LinearPrior:
        """Return the limits of the shapes, and a share of the smallest mass at zero as its floor."""
        made, zeros = super().within_reach(n, share), self.zeros.reshape(-1, self.n_dims)
        least = np.where(self.may_be_zero, share * np.where(zeros > 0, zeros, 1.0).min(axis=0), 0.0)
        return replace(made, low={**made.low, "zeros": np.tile(least, (n, 1))})

    def shifted(self, steps: FloatArray) -> Gamma:
        """Return larger or smaller means."""
        factor = np.exp(np.clip(steps / np.sqrt(self.shapes), -1.0, 1.0))
        return Gamma.of(self.means * factor, self.shapes + 0.0, self.zeros + 0.0)

    def n_parameters(self) -> int:
        """Return two per column, and one for zeros where they are possible."""
        return 2 * self.n_dims + int(self.may_be_zero.sum())

    def numbers(
        self, mix_weights: FloatArray, columns: Sequence[str], categories: Sequence[Sequence[str] | None]
    ) -> list[Number]:
        """Return the means, zeros included, and where there may be zeros their probability."""
        del categories
        made = means_by_column(mix_weights, (1 - self.zeros) * self.means, columns)
        zero = means_by_column(mix_weights, self.zeros, [f"{column} = 0" for column in columns], 1.0)
        return made + [zero[j] for j in np.flatnonzero(self.may_be_zero)]

    def centre(self) -> FloatArray:
        """Return logarithms of the means, and the probabilities of zeros."""
        return np.concatenate([np.log(self.means), self.zeros], axis=-1)


class ZeroGamma(Gamma):
    """What `emissions="zero-gamma"` makes: a Gamma with a mass at zero."""

    @classmethod
    def template(cls, X: FloatArray, n_categories: Sequence[int | None], covariance_type: str) -> Gamma:  # type: ignore[override]
        """Return one harmless component with a mass at zero."""
        del n_categories, covariance_type
        ones = np.ones(X.shape[1])
        return Gamma.of(ones, ones, 0.5 * ones)


def shape_of(gap: FloatArray) -> FloatArray:
    """Solve log a - ψ(a) = gap by Newton's method in 1/a, from Minka's approximation."""
    s = np.clip(gap, 0.4 / _SHAPES[1], 1e4)
    a = (3 - s + np.sqrt((s - 3) ** 2 + 24 * s)) / (12 * s)
    for _ in range(8):
        a = 1 / (1 / a + (np.log(a) - digamma(a) - s) / (a**2 * (1 / a - polygamma(1, a))))
    return np.clip(a, *_SHAPES)
