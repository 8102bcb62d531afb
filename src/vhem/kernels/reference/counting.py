"""The E-step of Baum-Welch in readable NumPy: the truth that the compiled kernel is tested against.

Everything runs in logs and for one pair of a sequence and an HMM at a time. Letters: forward probabilities α,
posteriors γ of states and ξ of transitions, shares η of a state's components.
"""

from __future__ import annotations

import numpy as np

from vhem._support.arrays import FloatArray, IntArray
from vhem.kernels.parameters import Expectations, Parameters
from vhem.kernels.reference.filtering import _filter, _log, _smooth, component_log_density


def expectations(
    parameters: Parameters,
    X: FloatArray,
    offsets: IntArray,
    sequence: IntArray,
    model: IntArray,
    weight: FloatArray,
    anchors: FloatArray,
) -> Expectations:
    """Return the sums of `Expectations` over pairs (sequence, model), each with its weight."""
    K, S, M, d = parameters.means.shape
    out = Expectations(
        np.empty(len(sequence)),
        np.zeros((K, S)),
        np.zeros((K, S, S)),
        np.zeros((K, S, M)),
        np.zeros((K, S, M, d)),
        np.zeros(parameters.covars.shape),
    )
    for pair, (i, k, w) in enumerate(zip(sequence, model, weight, strict=True)):
        frames = X[offsets[i] : offsets[i + 1]]
        hmm = parameters.take(slice(k, k + 1))
        log_alpha, score = _filter(hmm, frames)
        out.log_likelihoods[pair] = score[0]
        if w > 0:
            _add(out, k, w, hmm, frames, log_alpha[:, 0], anchors[k])
    return out


def _add(
    out: Expectations,
    k: int,
    w: float,
    hmm: Parameters,
    frames: FloatArray,
    log_alpha: FloatArray,
    anchors: FloatArray,
) -> None:
    gamma = _smooth(log_alpha, _log(hmm.transmat[0]))
    u = w * gamma[:, :, None] * component_shares(hmm, frames)
    out.start[k] += w * gamma[0]
    out.trans[k] += w * transition_counts(log_alpha, _log(hmm.transmat[0]), gamma)
    out.occupancy[k] += u.sum(axis=0)
    for s, m in np.ndindex(u.shape[1:]):
        mean, covar = filled_in(frames, hmm.means[0, s, m], hmm.covars[0, s, m])
        offset = mean - anchors[s, m]
        out.first[k, s, m] += u[:, s, m] @ offset
        square = offset**2 if hmm.is_diagonal else offset[:, :, None] * offset[:, None, :]
        out.second[k, s, m] += np.tensordot(u[:, s, m], square + covar, axes=1)


def transition_counts(log_alpha: FloatArray, log_trans: FloatArray, gamma: FloatArray) -> FloatArray:
    """Return Σ_t ξ_t(r,s) with ξ_t(r,s) = [ α_t(r) a_rs / Σ_r α_t(r) a_rs ] γ_{t+1}(s)."""
    counts = np.zeros_like(log_trans)
    for now, later in zip(log_alpha[:-1], gamma[1:], strict=True):
        joint = now[:, None] + log_trans
        ahead = np.logaddexp.reduce(joint, axis=0)
        reached = np.isfinite(ahead)
        counts[:, reached] += np.exp(joint[:, reached] - ahead[reached]) * later[reached]
    return counts


def component_shares(hmm: Parameters, frames: FloatArray) -> FloatArray:
    """Return η_t(m|s) = c_m N(y_t; μ_m, Σ_m) / b_s(y_t) of one HMM, (T, S, M); zero in states that only pad."""
    joint = component_log_density(hmm, frames)[:, 0]
    total = np.logaddexp.reduce(joint, axis=-1, keepdims=True)
    real = np.isfinite(total)
    return np.asarray(np.where(real, np.exp(joint - np.where(real, total, 0.0)), 0.0))


def filled_in(frames: FloatArray, mean: FloatArray, covar: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the frames with gaps filled by their conditional means, and the covariances of what was filled in.

    With o observed and h missing under N(μ, Σ):  E[y_h|y_o] = μ_h + Σ_ho Σ_oo⁻¹ (y_o - μ_o)  and
    Cov[y_h|y_o] = Σ_hh - Σ_ho Σ_oo⁻¹ Σ_oh. For diagonal covariances these are μ_h and Σ_hh themselves.
    """
    missing = np.isnan(frames)
    if covar.ndim == 1:
        return np.where(missing, mean, frames), np.where(missing, covar, 0.0)
    filled = frames.copy()
    spread = np.zeros((len(frames), *covar.shape))
    for t in np.flatnonzero(missing.any(axis=1)):
        h, o = np.flatnonzero(missing[t]), np.flatnonzero(~missing[t])
        gain = np.linalg.solve(covar[np.ix_(o, o)], covar[np.ix_(o, h)]).T
        filled[t, h] = mean[h] + gain @ (frames[t, o] - mean[o])
        spread[t][np.ix_(h, h)] = covar[np.ix_(h, h)] - gain @ covar[np.ix_(o, h)]
    return filled, spread
