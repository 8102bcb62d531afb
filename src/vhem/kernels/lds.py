"""Linear dynamical systems: Kalman filter, smoother and E-step on the engine in use, and the M-step of EM.

`reference.lds` has the equations.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np

from vhem._support.arrays import FloatArray, IntArray
from vhem.kernels import compiled_systems as compiled
from vhem.kernels.blas import single_threaded
from vhem.kernels.engine import engine
from vhem.kernels.reference import lds as reference
from vhem.kernels.systems import Smoothed, Sums, Systems, symmetric, transposed

_SMALLEST_MASS = 1e-250  # of a component: below this its sums have no digits left, and it counts as empty


def log_likelihoods(systems: Systems, X: FloatArray, offsets: IntArray) -> FloatArray:
    """Return log p(y_i | system k), (n_sequences, K); missing values are integrated out."""
    if engine().module is None:
        return reference.log_likelihoods(systems, X, offsets)
    return compiled.log_likelihoods(systems, X, offsets)


def smooth(systems: Systems, X: FloatArray, offsets: IntArray) -> list[Smoothed]:
    """Return the moments of the states of one system given each sequence."""
    if engine().module is None:
        return reference.smooth(systems, X, offsets)
    return compiled.smooth(systems, X, offsets)


def e_step(systems: Systems, weights: FloatArray, X: FloatArray, offsets: IntArray) -> tuple[float, Sums, FloatArray]:
    """Return Σ_i log Σ_k ω_k p(y_i|k), the sums of the M-step, and z_ik ∝ ω_k p(y_i|k)."""
    if engine().module is None:
        return reference.e_step(systems, weights, X, offsets)
    return compiled.e_step(systems, weights, X, offsets)


class Update(NamedTuple):
    """The M-step's result, and where it was constrained."""

    systems: Systems
    weights: FloatArray
    n_empty: int  #: components without members: they keep their parameters
    n_floored: int  #: variances of observations that were kept at the floor
    n_held_back: int  #: transition matrices kept stable


@single_threaded
def m_step(sums: Sums, systems: Systems, floor: float, isotropic: bool, stable: bool) -> Update:
    """Return the systems that maximise the bound for these sums, within the limits asked for.

    [C ȳ] = [Γ y] [[Φ, g], [gᵀ, F]]⁻¹, R = (Λ - [C ȳ][Γ y]ᵀ)/F, A = Ψ φ⁻¹, Q = (φ̄ - A Ψᵀ - Ψ Aᵀ + A φ Aᵀ)/steps. A
    floor under R and a stable A are constraints of the maximisation, so the bound rises all the same: the objective
    falls steadily from the free optimum to either side, and A is moved from its current, stable value as far as it
    stays stable.
    """
    empty = sums.mass < _SMALLEST_MASS
    one = np.where(empty, 1.0, sums.weight)
    mean = sums.first / one[:, None]
    covar = symmetric(sums.first_second / one[:, None, None] - mean[:, :, None] * mean[:, None, :])
    C, offset, R = _observation(sums, isotropic)
    A, Q, held_back = _transition(sums, systems, stable)
    new = Systems(A, C, Q, np.maximum(R, floor), mean, _positive(covar), systems.offset + offset)
    kept = Systems._make(
        np.where(empty[(slice(None),) + (None,) * (now.ndim - 1)], old, now)
        for now, old in zip(new, systems, strict=True)
    )
    mass = np.where(empty, 0.0, sums.mass)
    n_floored = int((R[~empty] < floor).sum())
    return Update(kept, mass / mass.sum(), int(empty.sum()), n_floored, int((held_back & ~empty).sum()))


def _observation(sums: Sums, isotropic: bool) -> tuple[FloatArray, FloatArray, FloatArray]:
    n = sums.x.shape[1]
    design = np.empty((len(sums.x), n + 1, n + 1))
    design[:, :n, :n], design[:, n, n] = sums.xx, sums.frames
    design[:, :n, n] = design[:, n, :n] = sums.x
    moments = np.concatenate([sums.yx, sums.y[:, :, None]], axis=2)
    found = moments @ np.linalg.pinv(symmetric(design), hermitian=True)
    R = (sums.yy - (found * moments).sum(-1)) / np.maximum(sums.frames, _SMALLEST_MASS)[:, None]
    if isotropic:
        R = np.repeat(R.mean(axis=1, keepdims=True), R.shape[1], axis=1)
    return found[:, :, :n], found[:, :, n], R


def _transition(sums: Sums, systems: Systems, stable: bool) -> tuple[FloatArray, FloatArray, np.ndarray]:
    best = sums.lag @ np.linalg.pinv(symmetric(sums.xx_before), hermitian=True)
    A = np.array([_stable_towards(new, old) for new, old in zip(best, systems.A, strict=True)]) if stable else best
    moved = (sums.steps > 0)[:, None, None]
    A = np.where(moved, A, systems.A)
    after = sums.xx - sums.first_second
    cross = A @ transposed(sums.lag)
    noise = after - cross - transposed(cross) + A @ sums.xx_before @ transposed(A)
    Q = noise / np.maximum(sums.steps, _SMALLEST_MASS)[:, None, None]
    return A, np.where(moved, _positive(symmetric(Q)), systems.Q), (best != A).any(axis=(1, 2)) & moved[:, 0, 0]


def spectral_radius(A: FloatArray) -> float:
    """Return the largest modulus of an eigenvalue: below one, the system is stable."""
    return float(np.abs(np.linalg.eigvals(A)).max())


def _stable_towards(new: FloatArray, old: FloatArray) -> FloatArray:
    """Return `new` if it is stable, or else the furthest stable point of a few on the way to it."""
    for share in itertools.chain([1.0], 1.0 - 0.5 ** np.arange(6, 0, -1.0), 0.5 ** np.arange(2, 8)):
        A = old + share * (new - old) if share < 1 else new
        if spectral_radius(A) < 1:
            return A
    return old


def _positive(matrices: FloatArray) -> FloatArray:
    """Return covariances without the negative eigenvalues that rounding left."""
    values, vectors = np.linalg.eigh(matrices)
    if (values >= 0).all():
        return matrices
    return symmetric((vectors * np.maximum(values, 0.0)[..., None, :]) @ transposed(vectors))
