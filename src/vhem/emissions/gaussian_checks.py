"""Checks on the parameters of Gaussians, over all of them at once; messages name the faulty one and the cure."""

from __future__ import annotations

import numpy as np

from vhem._support.arrays import FloatArray
from vhem._support.places import Names

SYMMETRY_TOLERANCE = 1e-8  # relative to the largest entry of the matrix


def check_shapes(means: FloatArray, covars: FloatArray, names: Names) -> None:
    """Refuse arrays with inconsistent shapes."""
    if means.ndim not in (3, 4) or 0 in means.shape:
        expected = "(S, d) or (S, M, d)" if names.single else "(K, S, d) or (K, S, M, d)"
        raise ValueError(f"means has shape {names.shape(means.shape)}; it must be {expected}, none of them 0.")
    allowed = [means.shape, (*means.shape, means.shape[-1])]
    if covars.shape not in allowed:
        expected = " or ".join(str(names.shape(shape)) for shape in allowed)
        raise ValueError(f"covars has shape {names.shape(covars.shape)}, but means needs {expected}.")


def checked_variances(covars: FloatArray, names: Names) -> FloatArray:
    """Return variances that are all positive."""
    if covars.min() < np.finfo(np.float64).tiny:
        k, s, m, j = (int(i) for i in np.unravel_index(np.argmin(covars), covars.shape))
        raise ValueError(
            f"{names.place(k, s, m)}: the variance of dimension {j} is {covars[k, s, m, j]}. Variances must "
            "be positive (at least 2.2e-308); give variances, not logarithms, and a floor if data never vary."
        )
    return covars


def checked_matrices(covars: FloatArray, names: Names) -> FloatArray:
    """Return matrices that are all symmetric and positive definite."""
    transposed = np.swapaxes(covars, -1, -2)
    skew = np.abs(covars - transposed).max(axis=(-1, -2))
    if (skew > SYMMETRY_TOLERANCE * np.abs(covars).max(axis=(-1, -2))).any():
        k, s, m = (int(i) for i in np.unravel_index(np.argmax(skew), skew.shape))
        raise ValueError(
            f"{names.place(k, s, m)}: the covariance matrix is not symmetric (entries differ by "
            f"{skew[k, s, m]:.3g}); give (Σ + Σᵀ)/2."
        )
    symmetric = 0.5 * (covars + transposed)
    try:
        np.linalg.cholesky(symmetric)
    except np.linalg.LinAlgError:
        raise ValueError(_least_definite(symmetric, names)) from None
    return symmetric


def _least_definite(covars: FloatArray, names: Names) -> str:
    smallest = np.linalg.eigvalsh(covars)[..., 0]
    k, s, m = (int(i) for i in np.unravel_index(np.argmin(smallest), smallest.shape))
    return (
        f"{names.place(k, s, m)}: the covariance matrix is not positive definite (smallest eigenvalue "
        f"{smallest[k, s, m]:.3g}). Add a small constant to its diagonal, or drop dependent dimensions."
    )
