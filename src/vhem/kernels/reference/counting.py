"""The E-step of Baum-Welch in readable NumPy: the reference that the compiled kernel is tested against.

Everything runs in logs and for one pair of a sequence and an HMM at a time. Letters: forward probabilities α,
posteriors γ of states and ξ of transitions, shares η of a state's components.
"""

from __future__ import annotations

import numpy as np

from vhem._support.arrays import FloatArray, IntArray
from vhem.emissions.components import Components
from vhem.kernels.models import Models, ModelSums
from vhem.kernels.reference.filtering import component_log_density, filtered, log, smoothed


def expectations(
    models: Models,
    X: FloatArray,
    offsets: IntArray,
    sequence: IntArray,
    model: IntArray,
    weight: FloatArray,
    anchors: Components,
) -> tuple[FloatArray, ModelSums]:
    """Return the log-likelihoods of pairs (sequence, model), and the sums over them, each with its weight."""
    scores, out = np.empty(len(sequence)), ModelSums.zeros(models)
    for pair, (i, k, w) in enumerate(zip(sequence, model, weight, strict=True)):
        frames = X[offsets[i] : offsets[i + 1]]
        hmm = models.take(slice(k, k + 1))
        log_alpha, score = filtered(hmm, frames)
        scores[pair] = score[0]
        if w > 0:
            _add(out, k, w, hmm, frames, log_alpha[:, 0], anchors.take(k))
    return scores, out


def _add(
    out: ModelSums, k: int, w: float, hmm: Models, frames: FloatArray, log_alpha: FloatArray, anchors: Components
) -> None:
    gamma = smoothed(log_alpha, log(hmm.transmat[0]))
    u = w * gamma[:, :, None] * component_shares(hmm, frames)
    out.start[k] += w * gamma[0]
    out.trans[k] += w * transition_counts(log_alpha, log(hmm.transmat[0]), gamma)
    for name, sums in hmm.components.take(0).frame_sums(frames, u, anchors).items():
        out.components[name][k] += sums


def transition_counts(log_alpha: FloatArray, log_trans: FloatArray, gamma: FloatArray) -> FloatArray:
    """Return Σ_t ξ_t(r,s) with ξ_t(r,s) = [ α_t(r) a_rs / Σ_r α_t(r) a_rs ] γ_{t+1}(s)."""
    counts = np.zeros_like(log_trans)
    for now, later in zip(log_alpha[:-1], gamma[1:], strict=True):
        joint = now[:, None] + log_trans
        ahead = np.logaddexp.reduce(joint, axis=0)
        reached = np.isfinite(ahead)
        counts[:, reached] += np.exp(joint[:, reached] - ahead[reached]) * later[reached]
    return counts


def component_shares(hmm: Models, frames: FloatArray) -> FloatArray:
    """Return η_t(m|s) = c_m f_m(y_t) / b_s(y_t) of one HMM, (T, S, M); zero in states that only pad."""
    joint = component_log_density(hmm, frames)[:, 0]
    total = np.logaddexp.reduce(joint, axis=-1, keepdims=True)
    real = np.isfinite(total)
    return np.asarray(np.where(real, np.exp(joint - np.where(real, total, 0.0)), 0.0))
