"""A bound that sees the observation: base HMMs whose Gaussians are cut into pieces, each a state of its own.

The variational distribution of the paper chooses a reduced state for every base state, whatever was observed in it. Let
a Gaussian be drawn as y = μ + L (√α u + √(1-α) v) with Σ = LLᵀ and u one of Q nodes. Which piece (m, u) the observation
lies in is then known to the variational distribution if pieces are states: π'_(γ,p) = π_γ c_γm / Q and
a'_(β,·)(γ,p) = a_βγ c_γm / Q. This is VHEM on larger base HMMs, with the same recursions, pruning and sums.
The compiled engine is told what is behind the pieces (`Pieces`): Λ is the same for all pieces of a state.
"""

from __future__ import annotations

import numpy as np

from vhem._support.arrays import FloatArray
from vhem._support.checks import check_choice, check_integer
from vhem._support.errors import InputError, ParameterError
from vhem.emissions import Gaussian
from vhem.kernels.models import Models

BOUNDS = ("paper", "observed")
_ALPHA = 0.8  # share of a Gaussian's variance that lies between its pieces


def check_bound(bound: str, n_nodes: int) -> None:
    """Refuse unknown bounds, and odd numbers of nodes: they come in pairs."""
    check_choice("bound", bound, BOUNDS)
    if check_integer("n_nodes", n_nodes, 2) % 2:
        raise ParameterError("n_nodes", n_nodes, "must be even: nodes come in pairs")


def nodes(n: int, n_dims: int, rng: np.random.Generator, diagonal: bool = True) -> FloatArray:
    """Return antithetic nodes (n, d) with mean zero.

    Their mean square is one in every dimension or, for full covariances, along as many orthogonal axes as there are
    pairs.
    """
    half = rng.standard_normal((n // 2, n_dims))
    if diagonal:
        half = half / np.sqrt((half**2).mean(axis=0))
    else:
        left, _, right = np.linalg.svd(half, full_matrices=False)
        half = np.sqrt(n / 2) * left @ right
    return np.concatenate([half, -half])


def in_pieces(models: Models, u: FloatArray) -> Models:
    """Return HMMs with a state for every piece of every Gaussian; means and covariances of states stay the same."""
    gaussian = models.components
    if not isinstance(gaussian, Gaussian):
        problem = "the bound {name} is available for Gaussians only"
        raise InputError(problem, "use {other}", name="observed", other="paper")
    K, S, M = models.shape
    Q = len(u)
    share = np.repeat(models.mix_weights.reshape(K, S * M) / Q, Q, axis=1)  # of every piece in its state
    owner = np.repeat(np.arange(S), M * Q)
    trans = models.transmat[:, owner][:, :, owner] * share[:, None, :]
    cut = _cut(gaussian, u).reshaped(K, S * M * Q, 1)
    ones = np.ones((K, S * M * Q, 1)) * (owner < models.n_states[:, None])[:, :, None]
    return Models(models.startprob[:, owner] * share, trans, ones, cut, models.n_states * M * Q)


def _cut(gaussian: Gaussian, u: FloatArray) -> Gaussian:
    """Return the pieces (K, S, M, Q) of Gaussians (K, S, M)."""
    means, covars = gaussian.means[..., None, :], gaussian.covars
    if gaussian.is_diagonal:
        inside = np.broadcast_to(((1 - _ALPHA) * covars)[..., None, :], (*gaussian.lead, *u.shape))
        return Gaussian(means + np.sqrt(_ALPHA * covars)[..., None, :] * u, np.ascontiguousarray(inside))
    factor = np.linalg.cholesky(covars)
    left = factor @ (np.eye(u.shape[1]) - _ALPHA * u.T @ u / len(u)) @ np.swapaxes(factor, -1, -2)
    inside = np.broadcast_to(left[..., None, :, :], (*gaussian.lead, len(u), *left.shape[-2:]))
    shift = np.sqrt(_ALPHA) * np.einsum("...de,qe->...qd", factor, u)
    return Gaussian(means + shift, np.ascontiguousarray(inside))
