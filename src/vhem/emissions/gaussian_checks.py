"""Checks on the parameters of Gaussians, over all of them at once; messages name the faulty one and the cure."""

from __future__ import annotations

import numpy as np

from vhem._support.arrays import FloatArray
from vhem._support.errors import InputError
from vhem._support.places import Names

SYMMETRY_TOLERANCE = 1e-8  # relative to the largest entry of the matrix


def check_shapes(means: FloatArray, covars: FloatArray, names: Names) -> None:
    """Refuse arrays with inconsistent shapes."""
    if means.ndim not in (3, 4) or 0 in means.shape:
        expected = "(S, d) or (S, M, d)" if names.single else "(K, S, d) or (K, S, M, d)"
        raise InputError(
            "{means} has shape {shape}; it must be {expected}, none of them 0",
            shape=names.shape(means.shape), expected=expected,
        )  # fmt: skip
    allowed = [means.shape, (*means.shape, means.shape[-1])]
    if covars.shape not in allowed:
        expected = " or ".join(str(names.shape(shape)) for shape in allowed)
        raise InputError(
            "{covars} has shape {shape}, but {means} needs {expected}",
            shape=names.shape(covars.shape), expected=expected,
        )  # fmt: skip


def checked_variances(covars: FloatArray, names: Names) -> FloatArray:
    """Return variances that are all positive."""
    if covars.min() < np.finfo(np.float64).tiny:
        k, s, m, j = (int(i) for i in np.unravel_index(np.argmin(covars), covars.shape))
        raise InputError(
            "{place}: the variance of dimension {j} is {value}. Variances must be positive (at least 2.2e-308)",
            "give variances, not logarithms, and a floor if data never vary",
            place=names.place(k, s, m), j=j, value=covars[k, s, m, j],
        )  # fmt: skip
    return covars


def checked_matrices(covars: FloatArray, names: Names) -> FloatArray:
    """Return matrices that are all symmetric and positive definite."""
    transposed = np.swapaxes(covars, -1, -2)
    skew = np.abs(covars - transposed).max(axis=(-1, -2))
    if (skew > SYMMETRY_TOLERANCE * np.abs(covars).max(axis=(-1, -2))).any():
        k, s, m = (int(i) for i in np.unravel_index(np.argmax(skew), skew.shape))
        raise InputError(
            "{place}: the covariance matrix is not symmetric (entries differ by {skew:.3g})", "give (Σ + Σᵀ)/2",
            place=names.place(k, s, m), skew=skew[k, s, m],
        )  # fmt: skip
    symmetric = 0.5 * (covars + transposed)
    try:
        np.linalg.cholesky(symmetric)
    except np.linalg.LinAlgError:
        raise _least_definite(symmetric, names) from None
    return symmetric


def _least_definite(covars: FloatArray, names: Names) -> InputError:
    smallest = np.linalg.eigvalsh(covars)[..., 0]
    k, s, m = (int(i) for i in np.unravel_index(np.argmin(smallest), smallest.shape))
    return InputError(
        "{place}: the covariance matrix is not positive definite (smallest eigenvalue {value:.3g})",
        "Add a small constant to its diagonal",
        "drop dependent dimensions",
        place=names.place(k, s, m), value=smallest[k, s, m],
    )  # fmt: skip
