"""Items that vary, with full covariances: b ~ N(0, T_j) and precision Λ ~ Wishart(κ, (κ Σ_js)⁻¹) are matrices.

Everything else is as in :mod:`vhem.em.random_effects`, whose letters are used.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import digamma, gammaln

from vhem._support.arrays import FloatArray
from vhem.em.random_effects import (
    ALIKE,
    SHRINK,
    SPREAD,
    Effects,
    ItemSums,
    Posterior,
    Shares,
    VaryingItems,
    adapted_rows,
    divergence_of_rows,
    new_chain,
    root_of,
)
from vhem.emissions import Gaussian
from vhem.kernels.models import Models

_MOST_ALIKE = 200.0


@dataclass(frozen=True, kw_only=True)
class FullVaryingItems(VaryingItems):
    """Sequences of items that vary, under full covariances."""

    def initial_spread(self, variances: FloatArray) -> tuple[FloatArray, float]:
        """Return where T and κ start."""
        spread = np.broadcast_to(SPREAD * variances.mean(1, keepdims=True), variances.shape)
        return spread, ALIKE + variances.shape[-1]

    def of_prior(self, c: Effects) -> Posterior:
        """Return q before any data."""
        alike = np.full((*c.means.shape[:-1], 1), c.alike)
        return Posterior(np.zeros_like(c.means), c.spread, alike, c.alike * c.variances, c.loyalty * c.transmat)

    def precision(self, q: Posterior) -> FloatArray:
        """Return E Λ."""
        return np.asarray(q.shape[..., None] * _inverse(q.rate))

    def posterior(self, c: Effects, s: ItemSums, precision: FloatArray) -> Posterior:
        """Return q(b), then q(Λ) and q(A), given the states."""
        m, v = _effects(c.spread, s, precision)
        n = s.n_frames[..., None]
        rate = c.alike * c.variances + s.second - _twice(m, s.first) + n[..., None] * (_outer(m) + v)
        return Posterior(m, v, c.alike + n, rate, c.loyalty * c.transmat + s.trans)

    def adapted(self, c: Effects, q: Posterior) -> Models:
        """Return the HMMs exp(E log ·)."""
        d, nu = q.mean.shape[-1], q.shape[..., 0]
        # E log|Λ| - log|E Λ|, in which log|B| cancels
        lost = digamma((nu[..., None] - np.arange(d)) / 2).sum(-1) - d * np.log(nu / 2)
        lost = lost - _trace(self.precision(q), q.variance)
        gaussian = Gaussian((c.means + q.mean)[:, :, None], (q.rate / q.shape[..., None])[:, :, None])
        return adapted_rows(c, q, np.exp(0.5 * lost), gaussian)

    def divergence(self, c: Effects, q: Posterior) -> FloatArray:
        """Return KL(q || prior), (P,)."""
        precision, d = self.precision(q), q.mean.shape[-1]
        inverse = _inverse(c.spread)
        means = _trace(inverse, q.variance + _outer(q.mean)) - d
        means = 0.5 * (means + np.linalg.slogdet(c.spread)[1] - np.linalg.slogdet(q.variance)[1]).sum(-1)
        nu, k, B = q.shape[..., 0], c.alike, c.alike * c.variances
        wishart = -0.5 * k * (np.linalg.slogdet(B)[1] - np.linalg.slogdet(q.rate)[1])
        wishart = wishart + 0.5 * (_trace(B, precision) - nu * d)
        wishart = wishart + _multigammaln(np.asarray(k / 2), d) - _multigammaln(nu / 2, d)
        wishart = wishart + 0.5 * (nu - k) * digamma((nu[..., None] - np.arange(d)) / 2).sum(-1)
        return np.asarray(means + wishart.sum(-1) + divergence_of_rows(q.alpha, c.loyalty * c.transmat))

    def maximised(self, c: Effects, s: ItemSums, q: Posterior, shares: Shares) -> tuple[Effects, ItemSums]:
        """Return new centres and amounts of variation, and the sums about the new means."""
        precision, n, d = self.precision(q), shares.sizes, c.means.shape[-1]
        shift = _shift(c, s, precision, shares)
        s = _about(s, shift[shares.cluster])
        m, v = _effects(c.spread[shares.cluster], s, precision)
        moments = shares.summed(_outer(m) + v).sum(1)  # (K, d, d)
        variances = self._variances(c, shares.summed(precision), n)
        S, size = c.means.shape[1], np.einsum("...aa->...a", variances).mean(1)
        share = (np.einsum("...aa->...a", moments) / size).sum(0) / (n.sum() * S)
        spread = (moments + SHRINK * (share * size)[..., None] * np.eye(d)) / (n * S + SHRINK)[:, None, None]
        spread = np.broadcast_to(spread[:, None], variances.shape) + 1e-4 * variances
        gap = n[:, None] * (np.linalg.slogdet(variances)[1] + d) - _trace(variances, shares.summed(precision))
        gap = (gap + shares.summed(_log_precision(q))).sum() / (n.sum() * S)

        def slope(kappa: float) -> float:
            return float(d * np.log(kappa / 2) - digamma((kappa - np.arange(d)) / 2).sum() + gap)

        alike = root_of(slope, d + 1.0, _MOST_ALIKE)
        made = new_chain(c, s, shares)
        return made._replace(means=c.means + shift, variances=variances, spread=spread, alike=alike), s

    def _variances(self, c: Effects, total: FloatArray, n: FloatArray) -> FloatArray:
        """Return the inverse of the average precision, above the floor; a cluster of nobody keeps what it had."""
        d = c.means.shape[-1]
        alive = (n > 1e-6)[:, None, None, None]
        average = np.where(alive, total / np.maximum(n, 1e-9)[:, None, None, None], np.eye(d))
        found = np.where(alive, _inverse(average), c.variances)
        lack = np.maximum(self.floor - np.einsum("...aa->...a", found), 0.0)
        return np.asarray(found + np.eye(d) * lack[..., None])


def _inverse(a: FloatArray) -> FloatArray:
    return np.asarray(np.linalg.inv(a), np.float64)


def _outer(a: FloatArray) -> FloatArray:
    return np.asarray(a[..., :, None] * a[..., None, :])


def _twice(a: FloatArray, b: FloatArray) -> FloatArray:
    cross = a[..., :, None] * b[..., None, :]
    return np.asarray(cross + cross.swapaxes(-1, -2))


def _trace(a: FloatArray, b: FloatArray) -> FloatArray:
    return np.asarray((a * b).sum((-1, -2)))


def _log_precision(q: Posterior) -> FloatArray:
    """Return E log|Λ|, (P, S)."""
    d, nu = q.mean.shape[-1], q.shape[..., 0]
    return np.asarray(
        digamma((nu[..., None] - np.arange(d)) / 2).sum(-1) + d * np.log(2) - np.linalg.slogdet(q.rate)[1]
    )


def _multigammaln(a: FloatArray, d: int) -> FloatArray:
    return np.asarray(d * (d - 1) / 4 * np.log(np.pi) + gammaln(a[..., None] - np.arange(d) / 2).sum(-1))


def _effects(spread: FloatArray, s: ItemSums, precision: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return mean and covariance of q(b)."""
    v = _inverse(_inverse(spread) + s.n_frames[..., None, None] * precision)
    return np.einsum("...ab,...bc,...c->...a", v, precision, s.first), v


def _shift(c: Effects, s: ItemSums, precision: FloatArray, shares: Shares) -> FloatArray:
    """Return how far the means move: items' own means count by W = (T + (n Λ)⁻¹)⁻¹ = T⁻¹ - T⁻¹ v T⁻¹."""
    d, of_centers = c.means.shape[-1], _inverse(c.spread)
    inverse = of_centers[shares.cluster]
    v = _inverse(inverse + s.n_frames[..., None, None] * precision)
    W = inverse - inverse @ v @ inverse
    own = s.first / np.maximum(s.n_frames[..., None], 1e-9)
    right = shares.summed((W @ own[..., None])[..., 0])
    # Of states that hardly anything visits, W is rounding; a cluster may even have been forgotten for all items.
    ridge = 1e-10 * (shares.sizes[:, None] + 1e-9) * np.trace(of_centers, axis1=-2, axis2=-1)
    total = shares.summed(W) + ridge[..., None, None] * np.eye(d)
    return np.asarray(np.linalg.solve(total, right[..., None])[..., 0])


def _about(s: ItemSums, shift: FloatArray) -> ItemSums:
    """Return the same sums about means moved by `shift`."""
    n = s.n_frames[..., None]
    second = s.second - _twice(shift, s.first) + n[..., None] * _outer(shift)
    return s._replace(first=s.first - n * shift, second=second)
