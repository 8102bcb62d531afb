"""The probability product kernel between HMMs in NumPy, in logs: the reference for the compiled kernel.

Letters: model i of `a` with states β, γ and components m; model j of `b` with states ρ, σ and components ℓ. The power
is written `power`, since ρ is taken.
"""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

from vhem._support.arrays import FloatArray
from vhem.kernels.models import Models


def log_power(p: FloatArray, power: float) -> FloatArray:
    """Return log p^power; zeros give minus infinity."""
    with np.errstate(divide="ignore"):
        return np.asarray(power * np.log(p))


def log_emission_kernel(a: Models, b: Models, j: int, power: float) -> FloatArray:
    """Return log κ[i,β,ρ] between the states of all models of `a` and model j of `b`.

    κ(β,ρ) = Σ_mℓ (c_βm c_ρℓ)^power ∫ f_βm(y)^power f_ρℓ(y)^power dy
    """
    overlap = a.components.log_overlap(b.components.take(j), power)
    c_a, c_b = log_power(a.mix_weights, power), log_power(b.mix_weights[j], power)
    return np.asarray(logsumexp(c_a[:, :, :, None, None] + c_b + overlap, axis=(2, 4)))


def log_ppk(a: Models, b: Models, length: int, power: float) -> FloatArray:
    """Return log k[i,j] = log Σ F_T with F_1 = (π π'ᵀ)^power ∘ κ and F_{t+1} = [(A^power)ᵀ F_t A'^power] ∘ κ."""
    log_start, log_trans = log_power(a.startprob, power), log_power(a.transmat, power)
    kernel = np.empty((len(a), len(b)))
    for j in range(len(b)):
        start, trans = log_power(b.startprob[j], power), log_power(b.transmat[j], power)
        kappa = log_emission_kernel(a, b, j, power)
        F = log_start[:, :, None] + start + kappa
        for _ in range(length - 1):
            G = logsumexp(F[:, :, :, None] + trans, axis=2)  # (i, β, σ)
            F = logsumexp(G[:, :, None, :] + log_trans[:, :, :, None], axis=1) + kappa
        kernel[:, j] = logsumexp(F, axis=(1, 2))
    return kernel
