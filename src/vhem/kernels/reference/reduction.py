"""VHEM's equations in NumPy, to be read along with the formulas: the reference for the compiled kernels.

Letters: base model i with states β, γ and components m; reduced model j with states ρ, σ and components ℓ. Axes of
arrays follow their names, as in `E[i,β,ρ]`. Everything is done in logs and for one reduced model at a time, over a
slice of base models small enough for memory; nothing is skipped.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from vhem._support.arrays import FloatArray
from vhem.emissions.components import Components
from vhem.kernels.models import Models, ModelSums
from vhem.kernels.stopping import check_stopped

_SLICE_BYTES = 1 << 26


class ReducedModel(NamedTuple):
    """One reduced model, without its padding."""

    log_startprob: FloatArray
    log_transmat: FloatArray
    log_mix: FloatArray
    components: Components

    @staticmethod
    def of(reduced: Models, j: int) -> ReducedModel:
        """Cut model j out of `reduced`."""
        S = reduced.n_states[j]
        rows = (reduced.startprob[j, :S], reduced.transmat[j, :S, :S], reduced.mix_weights[j, :S])
        with np.errstate(divide="ignore"):
            start, trans, mix = (np.log(p) for p in rows)
        return ReducedModel(start, trans, mix, reduced.components.take((j, slice(S))))


def emission_step(base: Models, r: ReducedModel) -> tuple[FloatArray, FloatArray]:
    """Return E[i,β,ρ] = Σ_m c_βm logsumexp_ℓ(log c_ρℓ + g) and η[i,β,m,ρ,ℓ] = softmax_ℓ(log c_ρℓ + g)."""
    logits = r.log_mix + base.components.expected_log_density(r.components)
    total = logsumexp(logits, axis=-1, keepdims=True)
    eta = np.exp(logits - total)
    return np.einsum("ibm,ibmr->ibr", base.mix_weights, total[..., 0]), eta


def backward(base: Models, r: ReducedModel, E: FloatArray, tau: int) -> tuple[FloatArray, list[FloatArray]]:
    """Return J[i] and the variational distributions φ_1[i,γ,σ], φ_2 … φ_τ [i,γ,ρ,σ].

    Λ_t(β,ρ) = Σ_γ a_βγ logsumexp_σ(log a_ρσ + E(γ,σ) + Λ_{t+1}(γ,σ)), from Λ_{τ+1} = 0 down to Λ_2.
    """
    phi = []
    ahead = np.zeros_like(E)
    for _ in range(tau - 1):
        check_stopped()
        logits = r.log_transmat + (E + ahead)[:, :, None, :]
        total = logsumexp(logits, axis=-1, keepdims=True)
        phi.append(np.exp(logits - total))
        ahead = base.transmat @ total[..., 0]
    logits = r.log_startprob + E + ahead
    total = logsumexp(logits, axis=-1, keepdims=True)
    phi.append(np.exp(logits - total))
    return np.einsum("ib,ib->i", base.startprob, total[..., 0]), phi[::-1]


def forward(base: Models, phi: list[FloatArray]) -> tuple[FloatArray, FloatArray, FloatArray]:
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


def expected_log_likelihood(base: Models, reduced: Models, tau: int) -> FloatArray:
    """Return J[i,j], the lower bound on E_{y~i} log p(y_1:τ | j)."""
    J = np.empty((len(base), len(reduced)))
    for rows, part in _slices(base, reduced, tau):
        for j in range(J.shape[1]):
            r = ReducedModel.of(reduced, j)
            J[rows, j] = backward(part, r, emission_step(part, r)[0], tau)[0]
    return J


def e_step(
    base: Models,
    reduced: Models,
    log_weights: FloatArray,
    counts: FloatArray,
    scales: FloatArray,
    anchors: Components,
    tau: int,
) -> tuple[FloatArray, FloatArray, ModelSums]:
    """Return log Σ_j exp(logits) of every base model, z_ij = softmax_j(a_i log ω_j + N_i J_ij), and the M-step's sums.

    `counts` are the N_i, `scales` the a_i: ones in the paper's form of the weights, N_i in the second.
    """
    logits = scales[:, None] * log_weights + counts[:, None] * expected_log_likelihood(base, reduced, tau)
    total = logsumexp(logits, axis=1, keepdims=True)
    z = np.exp(logits - total)
    out = ModelSums.zeros(reduced)
    for rows, part in _slices(base, reduced, tau):
        for j in range(len(reduced)):
            _add_pair_sums(out, part, reduced, j, z[rows, j] * counts[rows], anchors.take(j), tau)
    return total[:, 0], z, out


def _add_pair_sums(
    out: ModelSums, base: Models, reduced: Models, j: int, w: FloatArray, anchors: Components, tau: int
) -> None:
    """Add model j's sums, in which u = w ν̂(ρ,β) c_βm η(ℓ|m;β,ρ)."""
    r = ReducedModel.of(reduced, j)
    S = len(r.log_startprob)
    E, eta = emission_step(base, r)
    nu_1, nu, xi = forward(base, backward(base, r, E, tau)[1])
    u = np.einsum("i,ibr,ibm,ibmrc->ibmrc", w, nu, base.mix_weights, eta)
    out.start[j, :S] += w @ nu_1
    out.trans[j, :S, :S] += np.einsum("i,irs->rs", w, xi)
    for name, sums in base.components.expected_sums(u, anchors.take(slice(S))).items():
        out.components[name][j, :S] += sums


def _slices(base: Models, reduced: Models, tau: int) -> Iterator[tuple[slice, Models]]:
    """Cut the base models so that φ and the differences of means of one slice stay within memory."""
    (K, S_b, M_b), (_, S_r, M_r) = base.shape, reduced.shape
    bytes_per_model = 8 * S_b * S_r * (tau * S_r + 2 * M_b * M_r * base.n_dims)
    step = max(1, _SLICE_BYTES // bytes_per_model)
    for i in range(0, K, step):
        rows = slice(i, min(K, i + step))
        yield rows, base.take(rows)
