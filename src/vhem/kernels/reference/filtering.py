"""Sequences under HMMs in readable NumPy: emission densities, forward, posteriors, Viterbi.

Everything runs in logs, so nothing underflows whatever the length of a sequence. Shapes: n sequences, whose T
frames lie one below the other in X (T, d); sequence i is ``X[offsets[i]:offsets[i + 1]]``.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from vhem._support.arrays import FloatArray, IntArray
from vhem.kernels.parameters import Parameters

LOG_TWO_PI = float(np.log(2 * np.pi))
LEAST_LOG = -1e290  # log-densities stay finite, however far a frame lies from a mean


def emission_log_density(parameters: Parameters, X: FloatArray) -> FloatArray:
    """Return log b_s(y) = log Σ_m c_m N(y; μ_m, Σ_m) of every frame, HMM and state.

    NaN is a missing value and is integrated out; a frame that misses everything has density one.

    Parameters
    ----------
    parameters : Parameters
        K HMMs with S states.
    X : array of shape (T, d)
        The frames.

    Returns
    -------
    array of shape (T, K, S)
        The log-densities; −∞ in states that only pad.
    """
    return np.asarray(np.logaddexp.reduce(component_log_density(parameters, X), axis=-1))


def component_log_density(parameters: Parameters, X: FloatArray) -> FloatArray:
    """Return log c_m N(y; μ_m, Σ_m) of every frame and Gaussian, (T, K, S, M)."""
    density = _diagonal_log_density if parameters.is_diagonal else _full_log_density
    return _log(parameters.mix_weights) + np.maximum(density(parameters, X), LEAST_LOG)


def _diagonal_log_density(parameters: Parameters, X: FloatArray) -> FloatArray:
    """Return −½ Σ_j [log 2πσ_j² + (x_j − μ_j)²/σ_j²] over the observed dimensions j, (T, K, S, M)."""
    total = np.zeros((len(X), *parameters.mix_weights.shape))
    for j in range(X.shape[1]):
        mean, variance = parameters.means[..., j], parameters.covars[..., j]
        x = X[:, j, None, None, None]
        with np.errstate(over="ignore"):
            term = -0.5 * (LOG_TWO_PI + np.log(variance) + (x - mean) ** 2 / variance)
        total += np.where(np.isnan(x), 0.0, term)
    return total


def _full_log_density(parameters: Parameters, X: FloatArray) -> FloatArray:
    """Return −½ [log|2πΣ_oo| + (x_o − μ_o)ᵀ Σ_oo⁻¹ (x_o − μ_o)] over observed entries o, (T, K, S, M)."""
    total = np.zeros((len(X), *parameters.mix_weights.shape))
    patterns, which = np.unique(~np.isnan(X), axis=0, return_inverse=True)
    for i, observed in enumerate(patterns):
        if observed.any():
            rows = np.flatnonzero(which.ravel() == i)
            means, covars = (
                parameters.means[..., observed],
                parameters.covars[..., observed, :][..., observed],
            )
            total[rows] = _gaussian_log_density(X[rows][:, observed], means, covars)
    return total


def _gaussian_log_density(X: FloatArray, means: FloatArray, covars: FloatArray) -> FloatArray:
    factor = np.linalg.cholesky(covars)  # (K, S, M, d, d)
    offset = np.moveaxis(X[:, None, None, None, :] - means, 0, -1)  # (K, S, M, d, T)
    with np.errstate(over="ignore"):
        distance = np.square(np.linalg.solve(factor, offset)).sum(axis=-2)
    half_log_det = np.log(np.diagonal(factor, axis1=-2, axis2=-1)).sum(axis=-1)
    log_density = -0.5 * (X.shape[1] * LOG_TWO_PI + distance) - half_log_det[..., None]
    return np.asarray(np.moveaxis(log_density, -1, 0))


def log_likelihoods(parameters: Parameters, X: FloatArray, offsets: IntArray) -> FloatArray:
    """Return log p(y_i | HMM k), (n, K), by the recursion α_t(s) = b_s(y_t) Σ_r α_{t−1}(r) a_rs."""
    scores = [_filter(parameters, frames)[1] for frames in _split(X, offsets)]
    return np.stack(scores)


def posteriors(parameters: Parameters, X: FloatArray, offsets: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return log p(y_i), (n,), and the posterior probabilities γ_t(s) of the states of one HMM, (T, S).

    From the last frame to the first, with α normalised and p_{t+1}(s) = Σ_r α_t(r) a_rs:

        γ_t(r) = Σ_s [ α_t(r) a_rs / p_{t+1}(s) ] γ_{t+1}(s)
    """
    log_trans = _log(parameters.transmat[0])
    gammas, scores = [], []
    for frames in _split(X, offsets):
        log_alpha, score = _filter(parameters, frames)
        gammas.append(_smooth(log_alpha[:, 0], log_trans))
        scores.append(score[0])
    return np.array(scores), np.concatenate(gammas)


def viterbi(parameters: Parameters, X: FloatArray, offsets: IntArray) -> tuple[FloatArray, IntArray]:
    """Return max_x log p(x, y_i) under one HMM, (n,), and the paths x that reach it, (T,)."""
    found = [_viterbi(parameters, frames) for frames in _split(X, offsets)]
    return np.array([score for score, _ in found]), np.concatenate([path for _, path in found])


def _split(X: FloatArray, offsets: IntArray) -> Iterator[FloatArray]:
    return (X[start:stop] for start, stop in itertools.pairwise(offsets))


def _log(p: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(p))


def _filter(parameters: Parameters, frames: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return log α_t(s), normalised over s, (T, K, S), and log p(y), (K,)."""
    log_trans = _log(parameters.transmat)
    log_alpha = emission_log_density(parameters, frames)
    score = np.zeros(len(parameters.n_states))
    predicted = _log(parameters.startprob)
    for t in range(len(frames)):
        log_alpha[t] += predicted
        share = np.logaddexp.reduce(log_alpha[t], axis=-1)
        log_alpha[t] -= share[:, None]
        score += share
        predicted = np.logaddexp.reduce(log_alpha[t][:, :, None] + log_trans, axis=1)
    return log_alpha, score


def _smooth(log_alpha: FloatArray, log_trans: FloatArray) -> FloatArray:
    gamma = np.exp(log_alpha)
    for t in range(len(gamma) - 2, -1, -1):
        joint = log_alpha[t][:, None] + log_trans
        ahead = np.logaddexp.reduce(joint, axis=0)
        reached = np.isfinite(ahead)
        gamma[t] = np.exp(joint[:, reached] - ahead[reached]) @ gamma[t + 1][reached]
    return gamma


def _viterbi(parameters: Parameters, frames: FloatArray) -> tuple[float, npt.NDArray[np.int64]]:
    log_trans = _log(parameters.transmat[0])
    log_density = emission_log_density(parameters, frames)[:, 0]
    origin = np.zeros(log_density.shape, dtype=np.int64)
    best = _log(parameters.startprob[0]) + log_density[0]
    total = 0.0
    for t in range(1, len(frames)):
        # Scores relative to the frame's best, so that long sequences lose nothing to rounding.
        total += best.max()
        candidates = (best - best.max())[:, None] + log_trans
        origin[t] = candidates.argmax(axis=0)
        best = candidates.max(axis=0) + log_density[t]
    path = np.empty(len(frames), dtype=np.int64)
    path[-1] = best.argmax()
    for t in range(len(frames) - 1, 0, -1):
        path[t - 1] = origin[t, path[t]]
    return total + float(best.max()), path
