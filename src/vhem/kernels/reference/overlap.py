"""The probability product kernel between HMMs in NumPy, in logs: the truth that the compiled kernel is tested against.

Letters: model i of `a` with states β, γ and components m; model j of `b` with states ρ, σ and components ℓ. The power
is written `power`, since ρ is taken.
"""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

from vhem._support.arrays import FloatArray
from vhem.kernels.parameters import Parameters


def log_power(p: FloatArray, power: float) -> FloatArray:
    """Return log p^power; zeros give minus infinity."""
    with np.errstate(divide="ignore"):
        return np.asarray(power * np.log(p))


def log_weights(models: Parameters, power: float) -> FloatArray:
    """Return log w(s,m), the part of log κ that one Gaussian brings along, (K, S, M).

    log w = power · log c + ½ (1 - power) log|Σ| + ½ d [ (½ - power) log 2π - ½ log power ]
    """
    d = models.means.shape[-1]
    log_det = np.log(models.covars).sum(-1) if models.is_diagonal else np.linalg.slogdet(models.covars)[1]
    constant = 0.5 * d * ((0.5 - power) * np.log(2 * np.pi) - 0.5 * np.log(power))
    return np.asarray(log_power(models.mix_weights, power) + 0.5 * (1 - power) * log_det + constant)


def log_emission_kernel(a: Parameters, b: Parameters, j: int, power: float) -> FloatArray:
    """Return log κ[i,β,ρ] between the states of all models of `a` and model j of `b`.

    κ(β,ρ) = Σ_mℓ (c_βm c_ρℓ)^power ∫ N_βm(y)^power N_ρℓ(y)^power dy, in closed form

        log ∫ … = log w_βm + log w_ρℓ - ½ log|Σ_βm + Σ_ρℓ| - ½ power · Δᵀ (Σ_βm + Σ_ρℓ)⁻¹ Δ        Δ = μ_βm - μ_ρℓ
    """
    difference = a.means[:, :, :, None, None] - b.means[j]
    spread = a.covars[:, :, :, None, None] + b.covars[j]
    if a.is_diagonal:
        log_det, distance = np.log(spread).sum(-1), (difference**2 / spread).sum(-1)
    else:
        log_det = np.linalg.slogdet(spread)[1]
        solved = np.linalg.solve(spread, difference[..., None])[..., 0]
        distance = (difference * solved).sum(-1)
    w_a, w_b = log_weights(a, power), log_weights(b, power)[j]
    logits = w_a[:, :, :, None, None] + w_b - 0.5 * (log_det + power * distance)
    return np.asarray(logsumexp(logits, axis=(2, 4)))


def log_ppk(a: Parameters, b: Parameters, length: int, power: float) -> FloatArray:
    """Return log k[i,j] = log Σ F_T with F_1 = (π π'ᵀ)^power ∘ κ and F_{t+1} = [(A^power)ᵀ F_t A'^power] ∘ κ."""
    log_start, log_trans = log_power(a.startprob, power), log_power(a.transmat, power)
    kernel = np.empty((len(a.means), len(b.means)))
    for j in range(len(b.means)):
        start, trans = log_power(b.startprob[j], power), log_power(b.transmat[j], power)
        kappa = log_emission_kernel(a, b, j, power)
        F = log_start[:, :, None] + start + kappa
        for _ in range(length - 1):
            G = logsumexp(F[:, :, :, None] + trans, axis=2)  # (i, β, σ)
            F = logsumexp(G[:, :, None, :] + log_trans[:, :, :, None], axis=1) + kappa
        kernel[:, j] = logsumexp(F, axis=(1, 2))
    return kernel
