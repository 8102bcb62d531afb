"""Gaussians that are not known exactly: Normal-Wishart, or Normal-Gamma if covariances are diagonal.

Precision Λ ~ Wishart(W, ν) and μ | Λ ~ N(m, (β Λ)⁻¹). With variances every dimension has a one-dimensional Wishart of
its own, that is, a Gamma distribution, with the same ν and β. What is stored is R = W⁻¹, because updates add to it and
E-steps divide it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy as np
from scipy.special import digamma

from vhem._support.arrays import FloatArray
from vhem.emissions.components import Components, Sums
from vhem.emissions.conjugate import Conjugate, Expected, Updated
from vhem.emissions.gamma_functions import log_gamma_and_digamma
from vhem.emissions.gaussian import FAR_SHIFT, Gaussian

_LOG_2 = float(np.log(2.0))


class NormalWishart(Conjugate):
    """Distributions of means and precisions."""

    family: ClassVar[str] = "gaussian"
    fields: ClassVar[tuple[str, ...]] = ("beta", "v", "m", "rate")
    __slots__ = ("beta", "m", "rate", "v")

    beta: FloatArray  #: (*lead) frames that the mean is worth
    v: FloatArray  #: (*lead) degrees of freedom ν
    m: FloatArray  #: (*lead, d)
    rate: FloatArray  #: (*lead, d, d) R = W⁻¹, or (*lead, d) its diagonal

    def __init__(self, beta: FloatArray, v: FloatArray, m: FloatArray, rate: FloatArray) -> None:
        self.beta, self.v, self.m, self.rate = beta, v, m, rate

    @property
    def lead(self) -> tuple[int, ...]:
        """The leading axes."""
        return self.m.shape[:-1]

    @property
    def n_dims(self) -> int:
        """Dimensions d."""
        return int(self.m.shape[-1])

    @property
    def is_diagonal(self) -> bool:
        """Whether every dimension has its own precision."""
        return self.rate.ndim == self.m.ndim

    @property
    def W(self) -> FloatArray:  # noqa: N802  (the symbol of the literature)
        """The scale matrices R⁻¹."""
        return np.asarray(1 / self.rate if self.is_diagonal else np.linalg.inv(self.rate))

    def padding(self) -> NormalWishart:
        """Return a standard distribution."""
        d = self.n_dims
        rate = np.ones(d) if self.is_diagonal else np.eye(d)
        return NormalWishart(np.array(1.0), np.array(d + 2.0), np.zeros(d), rate)

    @staticmethod
    def about(gaussian: Gaussian, n_frames: float) -> NormalWishart:
        """Return what is known of Gaussians after so many frames; they are the posterior means."""
        freedom = n_frames + (2 if gaussian.is_diagonal else gaussian.n_dims + 1)
        beta, v = np.full(gaussian.lead, n_frames), np.full(gaussian.lead, freedom)
        return NormalWishart(beta, v, gaussian.means, n_frames * gaussian.covars)

    # -- logs

    def _halves(self) -> FloatArray:
        """(ν + 1 - i) / 2 for every i; ν / 2 for every dimension of a Normal-Gamma."""
        offsets = np.zeros(self.n_dims) if self.is_diagonal else np.arange(self.n_dims)
        return np.asarray((self.v[..., None] - offsets) / 2)

    def _over_halves(self, function: Callable[[FloatArray], FloatArray]) -> FloatArray:
        """Return Σ f of these halves; those of a Normal-Gamma are the same for every dimension."""
        if self.is_diagonal:
            return np.asarray(self.n_dims * function(self.v / 2))
        return np.asarray(function(self._halves()).sum(-1))

    def log_det_rate(self) -> FloatArray:
        """Return log|R|."""
        return np.asarray(np.log(self.rate).sum(-1) if self.is_diagonal else np.linalg.slogdet(self.rate)[1])

    def expected_log_det(self) -> FloatArray:
        """Return E log|Λ| = Σ ψ((ν+1-i)/2) + d log 2 + log|W|."""
        return np.asarray(self._over_halves(digamma) + self.n_dims * _LOG_2 - self.log_det_rate())

    def _log_normaliser_and_det(self) -> tuple[FloatArray, FloatArray]:
        """Return log B(W, ν), without the power of π that cancels, and E log|Λ|."""
        halves = self.v[..., None] / 2 if self.is_diagonal else self._halves()
        times = self.n_dims if self.is_diagonal else 1
        log_gammas, digammas = (times * part.sum(-1) for part in log_gamma_and_digamma(halves))
        log_det = self.log_det_rate() - self.n_dims * _LOG_2
        return np.asarray(0.5 * self.v * log_det - log_gammas), np.asarray(digammas - log_det)

    def anchors(self) -> Gaussian:
        """Return the Gaussians of `expected`."""
        return Gaussian(self.m, self.rate / (self.v[..., None] if self.is_diagonal else self.v[..., None, None]))

    def expected(self) -> Expected:
        """Return Gaussians N(m, R/ν), and ½ [E log|Λ| - log|νW|] - ½ d/β."""
        loss = self._over_halves(digamma) + self.n_dims * (_LOG_2 - np.log(self.v)) - self.n_dims / self.beta
        return Expected(self.anchors(), np.asarray(0.5 * loss))

    def squared_distance(self, point: FloatArray, W: FloatArray | None = None) -> FloatArray:
        """Return (m - point)ᵀ W (m - point)."""
        offset = self.m - point
        if self.is_diagonal:
            return np.asarray((offset**2 / self.rate).sum(-1))
        return np.asarray(np.einsum("...a,...ab,...b->...", offset, self.W if W is None else W, offset))

    def divergence(self, prior: NormalWishart) -> FloatArray:
        """Return KL[NW ‖ NW0] of every component."""
        d, ratio = self.n_dims, prior.beta / self.beta
        W = self.W
        distance = self.squared_distance(prior.m, W)
        means = 0.5 * (d * (ratio - 1 - np.log(ratio)) + prior.beta * self.v * distance)
        trace = (prior.rate * W).sum(-1) if self.is_diagonal else (prior.rate * W).sum((-1, -2))
        norm, log_det = self._log_normaliser_and_det()
        wishart = norm - prior._log_normaliser_and_det()[0] + 0.5 * (self.v - prior.v) * log_det
        return np.asarray(means + wishart + 0.5 * self.v * (trace - d))

    def updated(self, sums: Sums, anchors: Components, extra: float = 0.0) -> Updated:
        """Return the posterior; sums (K, S, 1, …) about anchors a.

        β = β0 + n, ν = ν0 + n, m = (β0 m0 + n ȳ)/β, R = R0 + Σ u (y-ȳ)(y-ȳ)ᵀ + (β0 n/β)(ȳ-m0)(ȳ-m0)ᵀ.
        """
        assert isinstance(anchors, Gaussian)
        n, first, second = sums["count"][..., 0], sums["first"][..., 0, :], sums["second"][:, :, 0]
        offset = first / np.where(n > 0, n, 1.0)[..., None]
        mean = anchors.means[..., 0, :] + offset
        beta = self.beta + n
        away = mean - self.m
        scatter = second - self._square(offset, n)
        share = self.beta * n / beta
        m = self.m + (n / beta)[..., None] * away
        rate = self.rate + scatter + self._square(away, share)
        if not self.is_diagonal:
            rate = 0.5 * (rate + np.swapaxes(rate, -1, -2))
        v = self.v + n + extra
        variances = (rate if self.is_diagonal else _diagonal(rate)) / v[..., None]
        far = bool((offset**2 > FAR_SHIFT * variances).any())
        return Updated(NormalWishart(beta, v, m, rate), far)

    def _square(self, offset: FloatArray, weight: FloatArray) -> FloatArray:
        if self.is_diagonal:
            return np.asarray(weight[..., None] * offset**2)
        return np.asarray(weight[..., None, None] * offset[..., :, None] * offset[..., None, :])

    # -- what users see

    def _spare(self) -> FloatArray:
        """ν - d - 1, by which R is divided to give the mean covariance; ν if there is no mean."""
        spare = self.v - (2 if self.is_diagonal else self.n_dims + 1)
        spare = np.where(spare > 0, spare, self.v)
        return np.asarray(spare[..., None] if self.is_diagonal else spare[..., None, None])

    def point(self) -> Gaussian:
        """Return Gaussians with the means of μ and Λ⁻¹."""
        return Gaussian(self.m, self.rate / self._spare())

    def predictive(self) -> Gaussian:
        """Return Gaussians with the mean and covariance of the next frame, a Student's t: E Λ⁻¹ (β+1)/β."""
        wider = (self.beta + 1) / self.beta
        return Gaussian(
            self.m, self.point().covars * (wider[..., None] if self.is_diagonal else wider[..., None, None])
        )

    def drawn(self, rng: np.random.Generator) -> Gaussian:
        """Return Gaussians with random means and covariances; Wisharts by Bartlett's decomposition."""
        d = self.n_dims
        if self.is_diagonal:
            variances = 0.5 * self.rate / rng.standard_gamma(np.broadcast_to(self.v[..., None] / 2, self.rate.shape))
            noise = rng.standard_normal(self.m.shape) * np.sqrt(variances / self.beta[..., None])
            return Gaussian(self.m + noise, variances)
        A = np.tril(rng.standard_normal((*self.lead, d, d)), -1)
        A[..., np.arange(d), np.arange(d)] = np.sqrt(2 * rng.standard_gamma(self._halves()))
        # Λ = L A Aᵀ Lᵀ with L Lᵀ = W, so a root of Λ⁻¹ is (L A)⁻ᵀ.
        root = np.swapaxes(np.linalg.inv(np.linalg.cholesky(self.W) @ A), -1, -2)
        noise = np.einsum("...ab,...b->...a", root, rng.standard_normal(self.m.shape))
        return Gaussian(self.m + noise / np.sqrt(self.beta)[..., None], root @ np.swapaxes(root, -1, -2))

    def deviations(self) -> dict[str, FloatArray]:
        """Return the deviations of the means, and of the variances."""
        variances = self.point().variances
        # The marginal of a variance is inverse gamma with this shape.
        shape = (self.v - (0 if self.is_diagonal else self.n_dims - 1))[..., None] / 2
        spread = variances / np.sqrt(np.where(shape > 2, shape - 2, np.nan))
        return {"means": np.sqrt(variances / self.beta[..., None]), "covars": spread}


def _diagonal(matrices: FloatArray) -> FloatArray:
    return np.diagonal(matrices, axis1=-2, axis2=-1)
