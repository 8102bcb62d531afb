"""Conjugate distributions of families with a shape: gamma, negative binomial, von Mises, beta.

They have the form of :mod:`vhem.emissions.natural`, q ∝ exp ⟨η, s⟩ dμ, with a normal density of the logarithm of the
shape in μ: what is called the shape may be a factor of 20 away from what is expected. All but the shape is integrated
out in closed form (beta: all but the mean), and the rest by quadrature.
"""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import betaln, digamma, expit, gammaln, i0e, polygamma

from vhem._support.arrays import FloatArray
from vhem.emissions.beta import Beta, exponents_of
from vhem.emissions.counts import NODES, RATIOS, SLOPE, weights
from vhem.emissions.gamma import Gamma, shape_of
from vhem.emissions.linear import LOG_ZERO, LinearFamily
from vhem.emissions.natural import Integrals, Natural, index_of
from vhem.emissions.negative_binomial import NegativeBinomial, size_of
from vhem.emissions.quadrature import Nodes, nodes_of
from vhem.emissions.von_mises import VonMises, VonMisesDegrees, log_norm, resultant

_WIDE = 1.5  # standard deviation of the logarithm of a shape, and of the log-odds of a mean
_REACH = 8.0  # standard deviations to look for a posterior in
_FEW = 0.1  # pseudo-frames, as those of a Gaussian's mean
_HALF = 0.5  # pseudo-counts of zeros and, under μ, of their absence


class Shaped(Natural):
    """Distributions of a shape, whose logarithm is normal under μ, and of the rest given the shape."""

    fields: ClassVar[tuple[str, ...]] = ("sums", "expected_log_shape")

    expected_log_shape: FloatArray  #: (*lead, d) the mean of the logarithm of the shape under μ

    def __init__(self, *arrays: FloatArray) -> None:
        super().__init__(*arrays)
        self._nodes: Nodes | None = None

    def put(self, index: Any, other: Self) -> None:
        """Overwrite the distributions at `index`."""
        super().put(index, other)
        self._nodes = None

    @property
    def nodes(self) -> Nodes:
        """The distribution of the logarithm of the shape, found once."""
        if self._nodes is None:
            centre = self.expected_log_shape
            ends = (centre - _REACH * _WIDE, centre + _REACH * _WIDE)
            self._nodes = nodes_of(self._log_density, ends)
        return self._nodes

    def _log_density(self, u: FloatArray) -> FloatArray:
        return np.asarray(self.log_rest(u) + _log_normal(u - self.expected_log_shape[..., None]))

    @abstractmethod
    def log_rest(self, u: FloatArray) -> FloatArray:
        """Return log ∫ exp ⟨η, s⟩ over all but the shape exp(u), (*lead, d, n)."""

    def _s(self, i: int) -> FloatArray:
        """Return a pseudo-sum beside the axis of nodes."""
        return np.asarray(self.sums[..., i, None])

    def _shape(self) -> FloatArray:
        return np.exp(self.nodes.mean(self.nodes.at[0]))

    def _shape_deviation(self) -> FloatArray:
        u = self.nodes.at[0]
        variance = self.nodes.mean((u - self.nodes.mean(u)[..., None]) ** 2)
        return np.asarray(self._shape() * np.sqrt(variance))

    def _drawn_log_shape(self, rng: np.random.Generator) -> FloatArray:
        """Return random logarithms of shapes: a node, and where within its step."""
        chosen = index_of(self.nodes.weights, rng)[..., None]
        u = np.take_along_axis(self.nodes.at[0], chosen, axis=-1)[..., 0]
        return np.asarray(u + (rng.random(u.shape) - 0.5) * self.nodes.steps[0])

    def _share(self, values: FloatArray) -> FloatArray:
        return self.nodes.mean(values)


def _log_normal(x: FloatArray, sd: float = _WIDE) -> FloatArray:
    return np.asarray(-0.5 * (x / sd) ** 2 - np.log(sd * np.sqrt(2 * np.pi)))


class Amounts(Shaped):
    """Of gamma distributions: rate b | shape a ~ Gamma(s₀ a, s₂) with dμ = d log b; zeros z ~ Beta(s₃, s₀ + ½)."""

    family: ClassVar[str] = "gamma"

    @classmethod
    def weak(cls, like: Gamma, mean: FloatArray) -> Amounts:
        """Return a tenth of an average pseudo-frame, half a pseudo-zero, and shapes near that of all values."""
        n = np.maximum(mean[..., 0], 1e-300)
        own = shape_of(np.log(np.maximum(mean[..., 2] / n, 1e-300)) - mean[..., 1] / n)
        unit = mean / n[..., None]
        sums = _FEW * np.stack([np.ones_like(n), unit[..., 1], unit[..., 2], np.zeros_like(n)], axis=-1)
        sums[..., 3] = np.where(like.may_be_zero, _HALF, 0.0)
        return Amounts(sums[:, None], np.log(own)[:, None])

    @property
    def _zeros(self) -> Any:
        return self.sums[..., 3] > 0

    @property
    def like(self) -> Gamma:
        """Means and shapes of one."""
        ones = np.ones(self.n_dims)
        return Gamma.of(ones, ones, 0.5 * self._zeros.reshape(-1, self.n_dims).any(0))

    def padding(self) -> Amounts:
        """Return some pseudo-frames."""
        zeros = self.like.zeros > 0
        return Amounts(np.stack([np.full(self.n_dims, 5.0), np.full(self.n_dims, -1.0), np.full(self.n_dims, 5.0),
                                 zeros.astype(np.float64)], axis=-1), np.zeros(self.n_dims))  # fmt: skip

    def log_rest(self, u: FloatArray) -> FloatArray:
        """Return s₁ (a-1) - s₀ log Γ(a) + log Γ(s₀ a) - s₀ a log s₂."""
        a, n = np.exp(u), self._s(0)
        return np.asarray(self._s(1) * (a - 1) - n * gammaln(a) + gammaln(n * a) - n * a * np.log(self._s(2)))

    def integrals(self) -> Integrals:
        """Return log Z and E η."""
        a, n, rate = np.exp(self.nodes.at[0]), self._s(0), self._s(2)
        log_b = digamma(n * a) - np.log(rate)
        eta = [self._share(a * log_b - gammaln(a)), self._share(a) - 1, -self._share(n * a / rate)]
        yes, no = np.where(self._zeros, self.sums[..., 3], 1.0), self.sums[..., 0] + _HALF
        log_z = np.where(self._zeros, digamma(yes) - digamma(yes + no), LOG_ZERO)
        log_rest = np.where(self._zeros, digamma(no) - digamma(yes + no), 0.0)
        norm = self.nodes.log_norm + np.where(self._zeros, betaln(yes, no), 0.0)
        return Integrals(norm, np.stack([eta[0] + log_rest, eta[1], eta[2], log_z], axis=-1))

    def _share_of_zeros(self) -> FloatArray:
        return np.asarray(self.sums[..., 3] / (self.sums[..., 3] + self.sums[..., 0] + _HALF))

    def point(self) -> Gamma:
        """Return the mean of all frames, the geometric mean of the shape, and the shares of zeros."""
        return Gamma.of(self.sums[..., 2] / self.sums[..., 0], self._shape(), self._share_of_zeros())

    def predictive(self) -> Gamma:
        """Return gamma distributions with the means of y and log y of the next frame."""
        a, n = np.exp(self.nodes.at[0]), self._s(0)
        mean_log = self._share(digamma(a) - digamma(n * a)) + np.log(self.sums[..., 2])
        mean = self._share(self._s(2) * a / np.maximum(n * a - 1, 0.5 * n * a))
        return Gamma.of(mean, shape_of(np.log(mean) - mean_log), self._share_of_zeros())

    def drawn(self, rng: np.random.Generator) -> Gamma:
        """Return random shapes, rates given these, and shares of zeros."""
        a = np.exp(self._drawn_log_shape(rng))
        b = np.maximum(rng.standard_gamma(self.sums[..., 0] * a), 1e-290) / self.sums[..., 2]
        zeros = np.where(self._zeros, rng.beta(np.maximum(self.sums[..., 3], 1e-9), self.sums[..., 0] + _HALF), 0.0)
        return Gamma.of(a / b, a, np.minimum(zeros, 1 - 1e-12))

    def deviations(self) -> dict[str, FloatArray]:
        """Return the deviations; those of the means from the variance of log b."""
        spread = np.sqrt(self._share(polygamma(1, self._s(0) * np.exp(self.nodes.at[0]))))
        p, total = self._share_of_zeros(), self.sums[..., 3] + self.sums[..., 0] + _HALF
        return {
            "means": self.point().means * spread, "shapes": self._shape_deviation(),
            "zeros": np.sqrt(p * (1 - p) / (total + 1)),
        }  # fmt: skip


class Counts(Shaped):
    """Of negative binomial distributions: p | size r ~ Beta(s₀ r, s₁) with dμ = d logit p, where p = r / (r + mean)."""

    family: ClassVar[str] = "negativebinomial"

    @classmethod
    def weak(cls, like: NegativeBinomial, mean: FloatArray) -> Counts:
        """Return pseudo-frames with one count in all, and sizes near that of all values."""
        del like
        n = np.maximum(mean[..., :1], 1e-300)
        unit = np.where(mean[..., 1:2] > 0, mean / n, 1e-6)
        unit[..., 0] = 1.0
        size = np.clip(size_of(unit[..., 1], unit[..., 2:]), 0.05, 50.0)
        return Counts((unit / unit[..., 1:2])[:, None], np.log(size)[:, None])

    @property
    def like(self) -> NegativeBinomial:
        """Means and sizes of one."""
        return NegativeBinomial.of(np.ones(self.n_dims), np.ones(self.n_dims))

    def padding(self) -> Counts:
        """Return some pseudo-frames."""
        return Counts(5 * self.like.expected_statistics(), np.zeros(self.n_dims))

    def log_rest(self, u: FloatArray) -> FloatArray:
        """Return log B(s₀ r, s₁) - ⟨w(r), s₂…⟩ + slope s₁."""
        r = np.exp(u)
        nodes = np.einsum("...np,...p->...n", weights(r), self.sums[..., 2:])
        return np.asarray(betaln(self._s(0) * r, self._s(1)) - nodes + SLOPE * self._s(1))

    def integrals(self) -> Integrals:
        """Return log Z and E η."""
        r, n, y = np.exp(self.nodes.at[0]), self._s(0), self._s(1)
        whole = digamma(n * r + y)
        eta = [self._share(r * (digamma(n * r) - whole)), self._share(digamma(y) - whole) + SLOPE]
        w = np.einsum("...n,...np->...p", self.nodes.weights, weights(r))
        return Integrals(self.nodes.log_norm, np.concatenate([np.stack(eta, axis=-1), -w], axis=-1))

    def point(self) -> NegativeBinomial:
        """Return the mean of all pseudo-frames and frames, and the geometric mean of the size."""
        return NegativeBinomial.of(self.sums[..., 1] / self.sums[..., 0], self._shape())

    def predictive(self) -> NegativeBinomial:
        """Return the mean of the next frame, as wide as it is over the posterior of the size."""
        mean = self.point().means
        r = np.exp(self.nodes.at[0])[..., None]
        nodes = -np.expm1(-r * np.log1p(mean[..., None, None] / r * RATIOS)) / RATIOS
        average = np.einsum("...n,...np->...p", self.nodes.weights, nodes)
        assert average.shape[-1] == len(NODES)
        return NegativeBinomial.of(mean, size_of(mean, average))

    def drawn(self, rng: np.random.Generator) -> NegativeBinomial:
        """Return random sizes, and means given these."""
        r = np.exp(self._drawn_log_shape(rng))
        p = np.clip(rng.beta(self.sums[..., 0] * r, self.sums[..., 1]), 1e-12, 1 - 1e-12)
        return NegativeBinomial.of(r * (1 - p) / p, r)

    def deviations(self) -> dict[str, FloatArray]:
        """Return the deviations."""
        mean, size = self.point().means, self._shape()
        return {"means": np.sqrt((mean + mean**2 / size) / self.sums[..., 0]), "sizes": self._shape_deviation()}


class Angles(Shaped):
    """Of von Mises distributions: direction | κ is von Mises about (s₁, s₂) with concentration κ |s|."""

    family: ClassVar[str] = "vonmises"
    kind: ClassVar[type[VonMises]] = VonMises

    @classmethod
    def weak(cls, like: VonMises, mean: FloatArray) -> Self:
        """Return a tenth of a pseudo-frame without direction, and concentrations around 2."""
        del like
        sums = np.zeros_like(mean)
        sums[..., 0] = _FEW
        return cls(sums[:, None], np.full((len(mean), 1, mean.shape[1]), np.log(2.0)))

    @property
    def like(self) -> VonMises:
        """Concentrations of one."""
        return self.kind.of(np.zeros(self.n_dims), np.ones(self.n_dims))

    def padding(self) -> Self:
        """Return a pseudo-frame."""
        return type(self)(np.tile([1.0, 0.5, 0.0], (self.n_dims, 1)), np.zeros(self.n_dims))

    def _length(self) -> FloatArray:
        return np.hypot(self._s(1), self._s(2))

    def log_rest(self, u: FloatArray) -> FloatArray:
        """Return log I₀(κ |s|) - s₀ log 2π I₀(κ)."""
        kappa = np.exp(u)
        x = kappa * self._length()
        # The exponentials of both Bessel functions are taken together: κ may be 1e6.
        rest = np.log(i0e(x)) - self._s(0) * np.log(self.kind.turn * i0e(kappa))
        return np.asarray(rest + kappa * (self._length() - self._s(0)))

    def integrals(self) -> Integrals:
        """Return log Z and E η."""
        kappa, phi = np.exp(self.nodes.at[0]), np.arctan2(self.sums[..., 2], self.sums[..., 1])
        long = self._share(kappa * resultant(kappa * self._length()))
        eta = np.stack([-self._share(log_norm(kappa, self.kind.turn)), long * np.cos(phi), long * np.sin(phi)], axis=-1)
        return Integrals(self.nodes.log_norm, eta)

    def point(self) -> VonMises:
        """Return the mean direction and the geometric mean of the concentration."""
        return self.kind.of_radians(np.arctan2(self.sums[..., 2], self.sums[..., 1]), self._shape())

    def predictive(self) -> VonMises:
        """Return directions whose resultant is that of the next frame."""
        kappa, phi = np.exp(self.nodes.at[0]), np.arctan2(self.sums[..., 2], self.sums[..., 1])
        long = self._share(resultant(kappa) * resultant(kappa * self._length()))
        mean = np.stack([np.ones_like(long), long * np.cos(phi), long * np.sin(phi)], axis=-1)
        return self.like.estimated(mean, None)

    def drawn(self, rng: np.random.Generator) -> VonMises:
        """Return random concentrations, and directions given these."""
        kappa = np.exp(self._drawn_log_shape(rng))
        phi = np.arctan2(self.sums[..., 2], self.sums[..., 1])
        return self.kind.of_radians(rng.vonmises(phi, np.minimum(kappa * self._length()[..., 0], 1e9)), kappa)

    def deviations(self) -> dict[str, FloatArray]:
        """Return the deviations; that of a direction is circular."""
        long = self._share(resultant(np.exp(self.nodes.at[0]) * self._length()))
        around = np.sqrt(-2 * np.log(np.clip(long, 1e-300, 1.0))) * (self.kind.turn / (2 * np.pi))
        return {"directions": around, "concentrations": self._shape_deviation()}


class AnglesInDegrees(Angles):
    """The same of angles in degrees."""

    family: ClassVar[str] = "vonmises:degrees"
    kind: ClassVar[type[VonMises]] = VonMisesDegrees


class Shares(Shaped):
    """Of beta distributions: mean and precision, with normal densities of their log-odds and logarithm in μ."""

    family: ClassVar[str] = "beta"

    @classmethod
    def weak(cls, like: Beta, mean: FloatArray) -> Shares:
        """Return no pseudo-frames; precisions near that of all values."""
        del like
        n = np.maximum(mean[..., 0], 1e-300)
        a, b = exponents_of(np.minimum(mean[..., 1] / n, -1e-9), np.minimum(mean[..., 2] / n, -1e-9))
        return Shares(np.zeros_like(mean)[:, None], np.log(np.clip(a + b, 0.1, 1e4))[:, None])

    @property
    def like(self) -> LinearFamily:
        """Even shares."""
        return Beta.of(np.full(self.n_dims, 0.5), np.full(self.n_dims, 2.0))

    def padding(self) -> Shares:
        """Return no pseudo-frames."""
        return Shares(np.zeros((self.n_dims, 3)), np.ones(self.n_dims))

    @property
    def nodes(self) -> Nodes:
        """The distribution of the scaled log-odds of the mean and of the logarithm of the precision, found once."""
        if self._nodes is None:
            centre = self.expected_log_shape
            reach = np.full(centre.shape, _REACH * _WIDE)
            self._nodes = nodes_of(self._log_joint, (-_REACH - reach, _REACH + reach), (centre - reach, centre + reach))
        return self._nodes

    @cached_property
    def _centre(self) -> FloatArray:
        """The log-odds of about the likeliest mean."""
        n = self.sums[..., 0] + _HALF
        logs = ((self.sums[..., i] + _HALF * np.log(0.5)) / n for i in (1, 2))
        a, b = exponents_of(*logs)
        return np.asarray(np.log(a) - np.log(b))

    def _log_odds(self, w: FloatArray, u: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return log-odds x of the mean, and dx/dw.

        The larger the precision, the better frames tell the mean: in units of that the density is nearly a rectangle's.
        """
        n, centre = self._s(0), self._centre[..., None]
        a, b = _exponents(centre, u)
        slope = expit(centre) * expit(-centre) * np.exp(u)
        scale = 1 / np.sqrt(1 / _WIDE**2 + n * slope**2 * (polygamma(1, a) + polygamma(1, b)))
        return np.asarray(centre + w * scale), np.asarray(scale)

    def _at(self) -> tuple[FloatArray, FloatArray]:
        """Return the log-odds and the logarithms of the precisions at the nodes."""
        w, u = self.nodes.at
        return self._log_odds(w, u)[0], u

    def _log_joint(self, w: FloatArray, u: FloatArray) -> FloatArray:
        x, scale = self._log_odds(w, u)
        a, b = _exponents(x, u)
        linear = (a - 1) * self._s(1) + (b - 1) * self._s(2) - self._s(0) * betaln(a, b)
        normal = _log_normal(x) + _log_normal(u - self.expected_log_shape[..., None])
        return np.asarray(linear + normal + np.log(scale))

    def log_rest(self, u: FloatArray) -> FloatArray:
        """Refuse: nothing is integrated out."""
        raise NotImplementedError("mean and precision are integrated together.")

    def integrals(self) -> Integrals:
        """Return log Z and E η."""
        a, b = _exponents(*self._at())
        eta = [-self._share(betaln(a, b)), self._share(a) - 1, self._share(b) - 1]
        return Integrals(self.nodes.log_norm, np.stack(eta, axis=-1))

    def point(self) -> Beta:
        """Return the mean of the mean, and the geometric mean of the precision."""
        x, u = self._at()
        return Beta.of(self._share(expit(x)), np.exp(self._share(u)))

    def predictive(self) -> Beta:
        """Return beta distributions with the means of log y and log(1-y) of the next frame."""
        a, b = _exponents(*self._at())
        whole = digamma(a + b)
        logs = [self._share(digamma(c) - whole) for c in (a, b)]
        c, d = exponents_of(*logs)
        return Beta.of(c / (c + d), c + d)

    def drawn(self, rng: np.random.Generator) -> Beta:
        """Return random means and precisions."""
        chosen = index_of(self.nodes.weights, rng)[..., None]
        values = []
        for at, step in zip(self.nodes.at, self.nodes.steps, strict=True):
            own = np.take_along_axis(at, chosen, axis=-1)[..., 0]
            values.append(own + (rng.random(own.shape) - 0.5) * step)
        x = self._log_odds(values[0][..., None], values[1][..., None])[0][..., 0]
        return Beta.of(np.clip(expit(x), 1e-12, 1 - 1e-12), np.exp(values[1]))

    def deviations(self) -> dict[str, FloatArray]:
        """Return the deviations."""
        x, u = self._at()
        m, s = expit(x), self.point().precisions
        centred = m - self._share(m)[..., None]
        spread = self._share((u - self._share(u)[..., None]) ** 2)
        return {"means": np.sqrt(self._share(centred**2)), "precisions": s * np.sqrt(spread)}


def _exponents(x: FloatArray, u: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return a and b of a mean with log-odds x and a precision with logarithm u."""
    precision = np.exp(u)
    return np.asarray(np.maximum(expit(x) * precision, 1e-300)), np.asarray(np.maximum(expit(-x) * precision, 1e-300))
