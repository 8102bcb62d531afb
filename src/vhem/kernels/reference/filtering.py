"""Sequences under HMMs in readable NumPy: emission densities, forward, posteriors, Viterbi.

Everything runs in logs, so nothing underflows whatever the length of a sequence. Shapes: n sequences, whose T frames
are concatenated in X (T, d); sequence i is ``X[offsets[i]:offsets[i + 1]]``.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from vhem._support.arrays import FloatArray, IntArray
from vhem.kernels.models import Models
from vhem.kernels.stopping import check_stopped

LEAST_LOG = -1e290  # log-densities stay finite, however far a frame is from a mean


def emission_log_density(models: Models, X: FloatArray) -> FloatArray:
    """Return log b_s(y) = log Σ_m c_m f_m(y) of every frame, HMM and state, (T, K, S); −∞ in states that only pad.

    NaN is a missing value and is integrated out; a frame without any value has density one.
    """
    return np.asarray(np.logaddexp.reduce(component_log_density(models, X), axis=-1))


def component_log_density(models: Models, X: FloatArray) -> FloatArray:
    """Return log c_m f_m(y) of every frame and component, (T, K, S, M)."""
    return log(models.mix_weights) + np.maximum(models.components.log_density(X), LEAST_LOG)


def log_likelihoods(models: Models, X: FloatArray, offsets: IntArray) -> FloatArray:
    """Return log p(y_i | HMM k), (n, K), by the recursion α_t(s) = b_s(y_t) Σ_r α_{t−1}(r) a_rs."""
    scores = [filtered(models, frames)[1] for frames in _split(X, offsets)]
    return np.stack(scores)


def posteriors(models: Models, X: FloatArray, offsets: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return log p(y_i), (n,), and the posterior probabilities γ_t(s) of the states of one HMM, (T, S).

    From the last frame to the first, with α normalised and p_{t+1}(s) = Σ_r α_t(r) a_rs:

        γ_t(r) = Σ_s [ α_t(r) a_rs / p_{t+1}(s) ] γ_{t+1}(s)
    """
    log_trans = log(models.transmat[0])
    gammas, scores = [], []
    for frames in _split(X, offsets):
        log_alpha, score = filtered(models, frames)
        gammas.append(smoothed(log_alpha[:, 0], log_trans))
        scores.append(score[0])
    return np.array(scores), np.concatenate(gammas)


def viterbi(models: Models, X: FloatArray, offsets: IntArray) -> tuple[FloatArray, IntArray]:
    """Return max_x log p(x, y_i) under one HMM, (n,), and the paths x that reach it, (T,)."""
    found = [_viterbi(models, frames) for frames in _split(X, offsets)]
    return np.array([score for score, _ in found]), np.concatenate([path for _, path in found])


def _split(X: FloatArray, offsets: IntArray) -> Iterator[FloatArray]:
    return (X[start:stop] for start, stop in itertools.pairwise(offsets))


def log(p: FloatArray) -> FloatArray:
    """Return log p; zeros give minus infinity."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(p))


def filtered(models: Models, frames: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return log α_t(s), normalised over s, (T, K, S), and log p(y), (K,)."""
    log_trans = log(models.transmat)
    log_alpha = emission_log_density(models, frames)
    score = np.zeros(len(models.n_states))
    predicted = log(models.startprob)
    for t in range(len(frames)):
        check_stopped()
        log_alpha[t] += predicted
        share = np.logaddexp.reduce(log_alpha[t], axis=-1)
        log_alpha[t] -= share[:, None]
        score += share
        predicted = np.logaddexp.reduce(log_alpha[t][:, :, None] + log_trans, axis=1)
    return log_alpha, score


def smoothed(log_alpha: FloatArray, log_trans: FloatArray) -> FloatArray:
    """Return the posterior probabilities γ_t(s) of one HMM's states, (T, S)."""
    gamma = np.exp(log_alpha)
    for t in range(len(gamma) - 2, -1, -1):
        joint = log_alpha[t][:, None] + log_trans
        ahead = np.logaddexp.reduce(joint, axis=0)
        reached = np.isfinite(ahead)
        gamma[t] = np.exp(joint[:, reached] - ahead[reached]) @ gamma[t + 1][reached]
    return gamma


def _viterbi(models: Models, frames: FloatArray) -> tuple[float, npt.NDArray[np.int64]]:
    log_trans = log(models.transmat[0])
    log_density = emission_log_density(models, frames)[:, 0]
    origin = np.zeros(log_density.shape, dtype=np.int64)
    best = log(models.startprob[0]) + log_density[0]
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
