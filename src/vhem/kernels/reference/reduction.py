"""VHEM's equations in NumPy, to be read beside the formulas: the truth that the compiled kernels are tested against.

Letters: base model i with states β, γ and components m; reduced model j with states ρ, σ and components ℓ. Axes of
arrays are written behind them, as in `E[i,β,ρ]`. Everything is done in logs and for one reduced model at a time, over
a slice of base models small enough for memory; nothing is skipped.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from vhem._support.arrays import FloatArray
from vhem.kernels.parameters import Parameters, Statistics

_SLICE_BYTES = 1 << 26


class ReducedModel(NamedTuple):
    """One reduced model, cut to its true number of states."""

    startprob: FloatArray
    transmat: FloatArray
    log_startprob: FloatArray
    log_transmat: FloatArray
    log_mix: FloatArray
    means: FloatArray
    covars: FloatArray

    @staticmethod
    def of(reduced: Parameters, j: int) -> ReducedModel:
        """Cut model j out of `reduced`."""
        S = reduced.n_states[j]
        pi, A = reduced.startprob[j, :S], reduced.transmat[j, :S, :S]
        with np.errstate(divide="ignore"):
            logs = np.log(pi), np.log(A), np.log(reduced.mix_weights[j, :S])
        return ReducedModel(pi, A, *logs, reduced.means[j, :S], reduced.covars[j, :S])


def gaussian_term(base: Parameters, r: ReducedModel) -> FloatArray:
    """Return g[i,β,m,ρ,ℓ], the expected log-density of reduced Gaussian ρℓ under base Gaussian βm.

    g = -½ [ d log 2π + log|Σ_ρℓ| + tr(Σ_ρℓ⁻¹ Σ_βm) + (μ_ρℓ-μ_βm)ᵀ Σ_ρℓ⁻¹ (μ_ρℓ-μ_βm) ]
    """
    d = base.means.shape[-1]
    difference = base.means[:, :, :, None, None] - r.means
    if base.is_diagonal:
        spread = base.covars[:, :, :, None, None] + difference**2
        quadratic = (spread / r.covars).sum(-1)
        log_det = np.log(r.covars).sum(-1)
    else:
        precision = np.linalg.inv(r.covars)
        quadratic = np.einsum("ibmkl,rckl->ibmrc", base.covars, precision)
        quadratic += np.einsum("ibmrck,rckl,ibmrcl->ibmrc", difference, precision, difference, optimize=True)
        log_det = np.linalg.slogdet(r.covars)[1]
    return np.asarray(-0.5 * (d * np.log(2 * np.pi) + log_det + quadratic))


def emission_step(base: Parameters, r: ReducedModel) -> tuple[FloatArray, FloatArray]:
    """Return E[i,β,ρ] = Σ_m c_βm logsumexp_ℓ(log c_ρℓ + g) and η[i,β,m,ρ,ℓ] = softmax_ℓ(log c_ρℓ + g)."""
    logits = r.log_mix + gaussian_term(base, r)
    total = logsumexp(logits, axis=-1, keepdims=True)
    eta = np.exp(logits - total)
    return np.einsum("ibm,ibmr->ibr", base.mix_weights, total[..., 0]), eta


def backward(base: Parameters, r: ReducedModel, E: FloatArray, tau: int) -> tuple[FloatArray, list[FloatArray]]:
    """Return J[i] and the variational distributions φ_1[i,γ,σ], φ_2 … φ_τ [i,γ,ρ,σ].

    Λ_t(β,ρ) = Σ_γ a_βγ logsumexp_σ(log a_ρσ + E(γ,σ) + Λ_{t+1}(γ,σ)), from Λ_{τ+1} = 0 down to Λ_2.
    """
    phi = []
    ahead = np.zeros_like(E)
    for _ in range(tau - 1):
        logits = r.log_transmat + (E + ahead)[:, :, None, :]
        total = logsumexp(logits, axis=-1, keepdims=True)
        phi.append(np.exp(logits - total))
        ahead = base.transmat @ total[..., 0]
    logits = r.log_startprob + E + ahead
    total = logsumexp(logits, axis=-1, keepdims=True)
    phi.append(np.exp(logits - total))
    return np.einsum("ib,ib->i", base.startprob, total[..., 0]), phi[::-1]


def forward(base: Parameters, phi: list[FloatArray]) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return ν̂₁[i,σ], ν̂[i,γ,σ] and ξ̂[i,ρ,σ] of one virtual sequence.

    ξ_t(ρ,σ,γ) = [Σ_β ν_{t-1}(ρ,β) a_βγ] φ_t(σ|ρ,γ),  ν_t(σ,γ) = Σ_ρ ξ_t(ρ,σ,γ),  from ν_1 = π_γ φ_1(σ|γ).
    """
    nu = base.startprob[:, :, None] * phi[0]
    nu_1, nu_sum = nu.sum(1), nu.copy()
    xi_sum = np.zeros((*nu_1.shape, nu_1.shape[1]))
    for phi_t in phi[1:]:
        arriving = np.swapaxes(base.transmat, 1, 2) @ nu
        xi = arriving[..., None] * phi_t
        nu = xi.sum(2)
        nu_sum += nu
        xi_sum += xi.sum(1)
    return nu_1, nu_sum, xi_sum


def expected_log_likelihood(base: Parameters, reduced: Parameters, tau: int) -> FloatArray:
    """Return J[i,j], the lower bound on E_{y~i} log p(y_1:τ | j)."""
    J = np.empty((len(base.means), len(reduced.means)))
    for rows, part in _slices(base, reduced, tau):
        for j in range(J.shape[1]):
            r = ReducedModel.of(reduced, j)
            J[rows, j] = backward(part, r, emission_step(part, r)[0], tau)[0]
    return J


def e_step(
    base: Parameters,
    reduced: Parameters,
    log_weights: FloatArray,
    counts: FloatArray,
    scales: FloatArray,
    anchors: FloatArray,
    tau: int,
) -> Statistics:
    """Return z_ij = softmax_j(a_i log ω_j + N_i J_ij), 𝒥, and the sums of the M-step.

    `counts` are the N_i, `scales` the a_i: ones in the paper's form of the weights, N_i in the second.
    """
    J = expected_log_likelihood(base, reduced, tau)
    logits = scales[:, None] * log_weights + counts[:, None] * J
    total = logsumexp(logits, axis=1, keepdims=True)
    z = np.exp(logits - total)
    out = Statistics.zeros(reduced)._replace(
        bound=float(total.sum()), mass=scales @ z, responsibilities=z, n_evaluated=J.size, n_forward=J.size
    )
    for rows, part in _slices(base, reduced, tau):
        for j in range(J.shape[1]):
            _add_pair_sums(out, part, reduced, j, z[rows, j] * counts[rows], anchors[j], tau)
    return out


def _add_pair_sums(
    out: Statistics, base: Parameters, reduced: Parameters, j: int, w: FloatArray, anchors: FloatArray, tau: int
) -> None:
    r = ReducedModel.of(reduced, j)
    S = len(r.startprob)
    E, eta = emission_step(base, r)
    nu_1, nu, xi = forward(base, backward(base, r, E, tau)[1])
    u = np.einsum("i,ibr,ibm,ibmrc->ibmrc", w, nu, base.mix_weights, eta)
    difference = base.means[:, :, :, None, None] - anchors[:S]
    out.start[j, :S] += w @ nu_1
    out.trans[j, :S, :S] += np.einsum("i,irs->rs", w, xi)
    out.occupancy[j, :S] += u.sum((0, 1, 2))
    out.first[j, :S] += np.einsum("ibmrc,ibmrck->rck", u, difference)
    if base.is_diagonal:
        second = base.covars[:, :, :, None, None] + difference**2
        out.second[j, :S] += np.einsum("ibmrc,ibmrck->rck", u, second)
    else:
        out.second[j, :S] += np.einsum("ibmrc,ibmkl->rckl", u, base.covars)
        out.second[j, :S] += np.einsum("ibmrc,ibmrck,ibmrcl->rckl", u, difference, difference, optimize=True)


def _slices(base: Parameters, reduced: Parameters, tau: int) -> Iterator[tuple[slice, Parameters]]:
    """Cut the base models so that φ and the differences of means of one slice stay within memory."""
    K, S_b, M_b, d = base.means.shape
    S_r, M_r = reduced.means.shape[1:3]
    bytes_per_model = 8 * S_b * S_r * (tau * S_r + 2 * M_b * M_r * d)
    step = max(1, _SLICE_BYTES // bytes_per_model)
    for i in range(0, K, step):
        rows = slice(i, min(K, i + step))
        yield rows, base.take(rows)
