"""Expectations between linear dynamical systems, exact: how likely one system's sequences are under another.

Base system b generates the sequences, reduced system r filters and smooths them. The state that both need is
s_t = [x^b_t ; x̂^r_{t|t-1} ; 1], the base state, the reduced system's prediction of its own state, and a constant;
everything is linear in it. r's smoother finds x̂_{t|τ} = x̂_{t|t-1} + V_t r_{t-1}, where r_{t-1} = Φ_t s_t + noise of
covariance Ψ_t. All base systems are stacked along the first axis, for one reduced system at a time. Observations
are taken about the reduced system's ȳ, and enter only through products of the states' size.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vhem._support.arrays import FloatArray
from vhem.kernels.blas import single_threaded
from vhem.kernels.reference.lds import Filter, kalman
from vhem.kernels.systems import Sums, Systems, symmetric, transposed

_CHUNK = 4_000_000  # memory, in numbers, for the second moments of one chunk of base systems
NEGLIGIBLE = 1e-18  # weight of a base system, relative to the average of its cluster, below which it has no effect


class _Pairs(NamedTuple):
    """K base systems and one reduced system, and the products of observation matrices that the recursions use."""

    base: Systems
    reduced: Systems  #: of one
    f: Filter  #: the reduced system's
    H: FloatArray  #: (K, d, m) [C_b, -C_r, h]: innovations are H s + w, with h = ȳ_b - ȳ_r
    WH: FloatArray  #: (K, n, m) C_rᵀ R_r⁻¹ H
    HRH: FloatArray  #: (K, m, m) Hᵀ R_r⁻¹ H
    noise: FloatArray  #: (K, n, n) C_rᵀ R_r⁻¹ R_b R_r⁻¹ C_r

    @staticmethod
    def of(base: Systems, reduced: Systems, tau: int) -> _Pairs:
        f = kalman(reduced, tau)
        K = len(base.A)
        C_r = np.broadcast_to(reduced.C, (K, *reduced.C.shape[1:]))
        H = np.concatenate([base.C, -C_r, (base.offset - reduced.offset)[:, :, None]], axis=2)
        noise = (f.W * base.R[:, None, :]) @ transposed(f.W)
        return _Pairs(base, reduced, f, H, f.W @ H, transposed(H / reduced.R[:, :, None]) @ H, noise)

    @property
    def own(self) -> slice:
        """The position of the reduced system's prediction in s."""
        n_b = self.base.A.shape[-1]
        return slice(n_b, n_b + self.reduced.A.shape[-1])

    def step(self, t: int) -> FloatArray:
        """Return F_t, by which s_{t+1} = F_t s_t + noise.

        F_t = [[A_b, 0, 0], [A_r G_t C_b, A_r (I - G_t C_r), A_r G_t h], [0, 0, 1]]
        """
        K, m = len(self.H), self.H.shape[2]
        n_b = self.base.A.shape[-1]
        F = np.zeros((K, m, m))
        F[:, :n_b, :n_b] = self.base.A
        F[:, self.own] = self.f.gain[t] @ self.WH
        F[:, self.own, self.own] += self.reduced.A
        F[:, -1, -1] = 1.0
        return F

    def shock(self, t: int) -> FloatArray:
        """Return the covariance of the noise in s_{t+1}."""
        n_b = self.base.A.shape[-1]
        covar = np.zeros((len(self.H), self.H.shape[2], self.H.shape[2]))
        covar[:, :n_b, :n_b] = self.base.Q
        covar[:, self.own, self.own] = self.f.gain[t] @ self.noise @ transposed(self.f.gain[t])
        return covar

    def start(self) -> FloatArray:
        """Return E[s_1 s_1ᵀ]."""
        K = len(self.H)
        mean = np.concatenate([self.base.mean, np.repeat(self.reduced.mean, K, 0), np.ones((K, 1))], axis=1)
        second = mean[:, :, None] * mean[:, None, :]
        n_b = self.base.A.shape[-1]
        second[:, :n_b, :n_b] += self.base.covar
        return np.asarray(second)


def _forward(pairs: _Pairs, tau: int) -> tuple[FloatArray, list[FloatArray]]:
    """Return E_b[log p(y_1:τ | r)] (K,) and E[s_t s_tᵀ] of every t.

    With innovations e = H s + w, E_b[log p] = Σ_t -½ [ log|2π Σ_t| + tr(Σ_t⁻¹ E[eeᵀ]) ], and
    tr(Σ⁻¹ E[eeᵀ]) = tr((Hᵀ Σ⁻¹ H) E[ssᵀ]) + tr(Σ⁻¹ R_b) by Σ⁻¹ = R_r⁻¹ - R_r⁻¹ C_r V^f C_rᵀ R_r⁻¹.
    """
    f = pairs.f
    own_noise = (pairs.base.R / pairs.reduced.R).sum(-1)
    score, second, seconds = np.zeros(len(pairs.H)), pairs.start(), []
    for t in range(tau):
        seconds.append(second)
        weighed = pairs.HRH - transposed(pairs.WH) @ f.Vf[t] @ pairs.WH
        trace = (weighed * second).sum((1, 2)) + own_noise - (f.Vf[t] * pairs.noise).sum((1, 2))
        score -= 0.5 * (f.log_det[t] + trace)
        if t + 1 < tau:
            F = pairs.step(t)
            second = symmetric(F @ second @ transposed(F) + pairs.shock(t))
    return score, seconds


class _Moments(NamedTuple):
    """For every base system, what the reduced system's smoother finds on average: sums over t."""

    first: FloatArray  #: (K, n) E[x_1]
    first_second: FloatArray  #: (K, n, n) E[x_1 x_1ᵀ]
    x: FloatArray  #: (K, n)
    xx: FloatArray  #: (K, n, n)
    xx_before: FloatArray  #: (K, n, n) without the last frame
    lag: FloatArray  #: (K, n, n) E[x_{t+1} x_tᵀ]
    sx: FloatArray  #: (K, m, n) E[s_t x̂_tᵀ]
    wx: FloatArray  #: (K, n, n) β_tᵀ V_t, with Cov(w_t, x̂_t) = R_b R_r⁻¹ C_r β_tᵀ V_t
    ss: FloatArray  #: (K, m, m) E[s_t s_tᵀ]


def _backward(pairs: _Pairs, seconds: list[FloatArray]) -> _Moments:
    """Smooth from the last frame to the first, summing the moments.

    With L = A_r (I - G_t C_r), gain = A_r V^f_t, and Φ, Ψ, N those of the frame after, zero at the end:

        β ← U_t + Lᵀ Φ^r gain      Ψ ← β (C_rᵀ R_r⁻¹ R_b R_r⁻¹ C_r) βᵀ + Lᵀ Φ^x Q_b Φ^xᵀ L + Lᵀ Ψ L
        Φ ← U_t C_rᵀ R_r⁻¹ H + Lᵀ Φ F_t      N ← U_t D + Lᵀ N L      x̂_{t|τ} = M s_t + noise, M = [0 I 0] + V_t Φ
    """
    f, base = pairs.f, pairs.base
    K, m = pairs.H.shape[0], pairs.H.shape[2]
    n_b, n = base.A.shape[-1], pairs.reduced.A.shape[-1]
    pick = np.zeros((n, m))
    pick[:, pairs.own] = np.eye(n)
    Phi, Psi, N = np.zeros((K, n, m)), np.zeros((K, n, n)), np.zeros((n, n))
    M = smoothed = np.zeros((K, n, m))
    xx, lag, wx, before = (np.zeros((K, n, n)) for _ in range(4))
    sx, ss, second = np.zeros((K, m, n)), np.zeros((K, m, m)), xx
    for t in range(len(seconds) - 1, -1, -1):
        V, U, L, gain, S, F = f.V[t, 0], f.U[t, 0], f.L[t, 0], f.gain[t, 0], seconds[t], pairs.step(t)
        if t + 1 < len(seconds):
            # x̂_{t|τ} = x̂^f_t + gainᵀ r_t, and x̂^f_t = (pick + V^f C_rᵀ R_r⁻¹ H) s_t + G_t w_t
            V_next, filtered = f.V[t + 1, 0], pick + f.Vf[t, 0] @ pairs.WH
            joint = F @ S @ transposed(filtered)
            joint[:, pairs.own] += gain @ pairs.noise @ f.Vf[t, 0]
            with_r = smoothed @ transposed(Phi) + V_next @ Psi
            lag += M @ joint + with_r @ gain + (np.eye(n) - V_next @ N) @ L @ V
        beta = U + L.T @ Phi[:, :, pairs.own] @ gain
        from_state = L.T @ Phi[:, :, :n_b]
        Psi = beta @ pairs.noise @ transposed(beta) + from_state @ base.Q @ transposed(from_state) + L.T @ Psi @ L
        Phi, N = U @ pairs.WH + L.T @ Phi @ F, U @ f.D[t, 0] + L.T @ N @ L
        M = pick + V @ Phi
        smoothed = M @ S  # E[x̂_t s_tᵀ]
        second = symmetric(smoothed @ transposed(M) + V @ Psi @ V + V - V @ N @ V)
        xx, sx, ss, wx = xx + second, sx + transposed(smoothed), ss + S, wx + transposed(beta) @ V
        before = before + second if t + 1 < len(seconds) else before
    return _Moments(smoothed[:, :, -1], second, sx[:, -1], xx, before, lag, sx, wx, ss)


def _chunks(base: Systems, reduced: Systems, tau: int) -> list[slice]:
    m = base.A.shape[-1] + reduced.A.shape[-1] + 1
    size = max(1, _CHUNK // (tau * m * m + base.C.shape[1] * m))
    return [slice(i, i + size) for i in range(0, len(base.A), size)]


@single_threaded
def expected_log_likelihood(base: Systems, reduced: Systems, tau: int) -> FloatArray:
    """Return E_ij = E_{y ~ base i} log p(y_1:τ | reduced j), (K_b, K_r)."""
    scores = np.empty((len(base.A), len(reduced.A)))
    for j in range(len(reduced.A)):
        one = reduced.take(slice(j, j + 1))
        for rows in _chunks(base, one, tau):
            scores[rows, j] = _forward(_Pairs.of(base.take(rows), one, tau), tau)[0]
    return scores


@single_threaded
def sums(base: Systems, reduced: Systems, w: FloatArray, tau: int) -> Sums:
    """Return the sums of the M-step over base systems of weights `w` (K_b, K_r); `mass` is left to the caller."""
    parts = [_sums(base, reduced.take(slice(j, j + 1)), w[:, j], tau) for j in range(len(reduced.A))]
    return Sums._make(np.concatenate(arrays) for arrays in zip(*parts, strict=True))


def _sums(base: Systems, reduced: Systems, w: FloatArray, tau: int) -> Sums:
    """Return the sums over base systems for one reduced system; those that cannot affect them are left out."""
    total = Sums.zeros(reduced)
    members = np.flatnonzero(w > NEGLIGIBLE * w.mean())
    for rows in _chunks(base, reduced, tau):
        chosen = members[rows]
        if len(chosen):
            pairs = _Pairs.of(base.take(chosen), reduced, tau)
            total = total.plus(_weighted(pairs, _backward(pairs, _forward(pairs, tau)[1]), w[chosen], tau))
    return total


def _weighted(pairs: _Pairs, moments: _Moments, w: FloatArray, tau: int) -> Sums:
    first, first_second, x, xx, before, lag, sx, wx, ss = (
        np.tensordot(w, part, 1)[None] if k < 6 else w[:, None, None] * part for k, part in enumerate(moments)
    )
    view = pairs.H.copy()  # [C_b, 0, h]: y - ȳ_r = view s + w
    view[:, :, pairs.own] = 0.0
    seen = view @ ss
    ratio = pairs.base.R / pairs.reduced.R
    yx = (view @ sx).sum(0) + np.einsum("kd,de,kef->df", ratio, pairs.reduced.C[0], wx, optimize=True)
    yy = (seen * view).sum((0, 2)) + tau * (w @ pairs.base.R)
    total = np.array([w.sum()])
    return Sums(
        total, total, tau * total, (tau - 1) * total, first, first_second, x, xx, before, lag,
        seen[:, :, -1].sum(0)[None], yx[None], yy[None],
    )  # fmt: skip
