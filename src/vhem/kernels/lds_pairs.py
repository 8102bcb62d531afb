"""Expectations between linear dynamical systems on the engine in use; `reference.lds_pairs` has the equations."""

from __future__ import annotations

import numpy as np

from vhem._support.arrays import FloatArray, log_sum_and_softmax
from vhem.kernels import compiled_systems as compiled
from vhem.kernels.engine import engine
from vhem.kernels.reference import lds_pairs as reference
from vhem.kernels.systems import Sums, Systems


def expected_log_likelihood(base: Systems, reduced: Systems, tau: int) -> FloatArray:
    """Return E_ij = E_{y ~ base i} log p(y_1:τ | reduced j), (K_b, K_r)."""
    if engine().module is None:
        return reference.expected_log_likelihood(base, reduced, tau)
    return compiled.expected_log_likelihood(base, reduced, tau)


def e_step(
    base: Systems, reduced: Systems, weights: FloatArray, counts: FloatArray, tau: int
) -> tuple[float, Sums, FloatArray]:
    """Return Σ_i log Σ_j ω_j exp(N_i E_ij), the sums of the M-step, and z_ij = softmax_j(log ω_j + N_i E_ij)."""
    with np.errstate(divide="ignore"):
        logits = np.log(weights) + counts[:, None] * expected_log_likelihood(base, reduced, tau)
    total, z = log_sum_and_softmax(logits)
    w = z * counts[:, None]
    sums = reference.sums(base, reduced, w, tau) if engine().module is None else compiled.sums(base, reduced, w, tau)
    return float(total.sum()), sums._replace(mass=z.sum(0)), z
