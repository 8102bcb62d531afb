"""Linear dynamical systems in NumPy: Kalman filter, smoother, and the sums of EM.

The symbols are those of `vhem.kernels.systems`. All systems of a set are stacked along the first axis. Observations
may be wide: by Woodbury's identity, with D = Cᵀ R⁻¹ C and U_t = (I + D V_t)⁻¹, the inverse of y's covariance
Σ_t = C V_t Cᵀ + R is never formed:

    Cᵀ Σ_t⁻¹ = U_t Cᵀ R⁻¹      V^f_t = V_t U_t      log|Σ_t| = log|R| - log|U_t|      Σ_t⁻¹ = R⁻¹ - R⁻¹ C V^f_t Cᵀ R⁻¹

No covariance of states is inverted either, so Q and S may be singular. A value that is missing has no row in C, R and
Σ_t: it adds nothing to D_t. Covariances depend on what is missing, so sequences with gaps are taken one at a time.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from vhem._support.arrays import FloatArray, IntArray
from vhem.kernels.blas import single_threaded
from vhem.kernels.systems import Smoothed, Sums, Systems, symmetric, transposed

_CHUNK = 4_000_000  # memory, in numbers, for the means of states of one chunk of sequences


class Filter(NamedTuple):
    """The part of the Kalman filter that does not depend on observations; time, if any, is the first axis."""

    W: FloatArray  #: (K, n, d) Cᵀ R⁻¹
    D: FloatArray  #: (T, K, n, n) Cᵀ R⁻¹ C
    V: FloatArray  #: (T, K, n, n) covariance of x_t given y_1 … y_{t-1}
    U: FloatArray  #: (T, K, n, n) (I + D V)⁻¹
    Vf: FloatArray  #: (T, K, n, n) covariance of x_t given y_1 … y_t
    gain: FloatArray  #: (T, K, n, n) A V^f
    L: FloatArray  #: (T, K, n, n) A (I - G C), how a prediction error propagates
    log_det: FloatArray  #: (T, K) log|2π Σ_t|


def kalman(systems: Systems, length: int, seen: np.ndarray | None = None) -> Filter:
    """Return the filter for sequences of up to `length` frames: V_1 = S, V_{t+1} = A V^f_t Aᵀ + Q.

    `seen` (length, d) says which values of a sequence are there; all of them by default.
    """
    A, V, identity = systems.A, systems.covar, np.eye(systems.A.shape[-1])
    W = transposed(systems.C / systems.R[:, :, None])
    masks = np.ones((1, W.shape[-1]), bool) if seen is None else seen
    D = symmetric((W * masks[:, None, None]) @ systems.C)
    log_R = (np.log(2 * np.pi * systems.R) * masks[:, None]).sum(-1)
    D, log_R = np.broadcast_to(D, (length, *D.shape[1:])), np.broadcast_to(log_R, (length, *log_R.shape[1:]))
    Vs, Us, Vfs, log_dets = list[FloatArray](), list[FloatArray](), list[FloatArray](), list[FloatArray]()
    for t in range(length):
        inflated = identity + D[t] @ V
        U = np.linalg.inv(inflated)
        Vf = symmetric(V @ U)
        Vs.append(V)
        Us.append(np.asarray(U))
        Vfs.append(Vf)
        log_dets.append(np.asarray(log_R[t] + np.linalg.slogdet(inflated)[1]))
        V = symmetric(A @ Vf @ transposed(A) + systems.Q)
    stacked = np.stack(Vfs)
    gain = A @ stacked
    return Filter(W, D, np.stack(Vs), np.stack(Us), stacked, gain, A - gain @ D, np.stack(log_dets))


class _Batch(NamedTuple):
    """Sequences from the longest to the shortest, so that those that reach frame t are the first `active[t]`."""

    starts: IntArray  #: row of X where each sequence begins
    active: IntArray  #: (T + 1,) sequences longer than t

    @staticmethod
    def of(offsets: IntArray, chosen: IntArray) -> _Batch:
        lengths = np.diff(offsets)[chosen]
        return _Batch(offsets[chosen], np.array([(lengths > t).sum() for t in range(lengths[0] + 1)]))


class _Filtered(NamedTuple):
    scores: FloatArray  #: (m, K) log p(y)
    predicted: list[FloatArray]  #: of each t, x̂_{t|t-1} (K, m_t, n)
    innovations: list[FloatArray]  #: of each t, Cᵀ Σ_t⁻¹ e_t (K, m_t, n)


def _filter(systems: Systems, f: Filter, X: FloatArray, batch: _Batch) -> _Filtered:
    """e_t = y_t - ȳ - C x̂_t, x̂_{t+1} = A (x̂_t + V_t Cᵀ Σ_t⁻¹ e_t), log p = -½ Σ_t [log|2π Σ_t| + eᵀ Σ⁻¹ e]."""
    m, K = len(batch.starts), len(systems.A)
    scores, predicted, innovations = np.zeros((K, m)), [], []
    x = np.repeat(systems.mean[:, None], m, axis=1)
    for t, active in enumerate(batch.active[:-1]):
        x = x[:, :active]
        e = X[batch.starts[:active] + t] - systems.offset[:, None] - x @ transposed(systems.C)
        e = np.where(np.isnan(e), 0.0, e)
        projected = e @ transposed(f.W)
        quadratic = (e**2 / systems.R[:, None]).sum(-1) - (projected @ f.Vf[t] * projected).sum(-1)
        scores[:, :active] -= 0.5 * (f.log_det[t][:, None] + quadratic)
        predicted.append(x)
        innovations.append(projected @ transposed(f.U[t]))
        x = (x + innovations[-1] @ f.V[t]) @ transposed(systems.A)
    return _Filtered(scores.T, predicted, innovations)


def _batches(systems: Systems, X: FloatArray, offsets: IntArray) -> Iterator[tuple[IntArray, _Batch, Filter]]:
    """Cut the sequences, longest first, into chunks whose states fit into memory; those with gaps come last."""
    lengths = np.diff(offsets)
    broken = np.array([bool(np.isnan(X[a:b]).any()) for a, b in itertools.pairwise(offsets)])
    order = np.argsort(-lengths, kind="stable")
    whole, at = order[~broken[order]], 0
    f = kalman(systems, int(lengths[whole[0]])) if len(whole) else None
    while f is not None and at < len(whole):
        chosen = whole[at : at + max(1, _CHUNK // int(lengths[whole[at]] * systems.mean.size))]
        yield chosen, _Batch.of(offsets, chosen), f
        at += len(chosen)
    for i in np.flatnonzero(broken):
        one = np.array([i])
        yield one, _Batch.of(offsets, one), kalman(systems, int(lengths[i]), ~np.isnan(X[offsets[i] : offsets[i + 1]]))


@single_threaded
def log_likelihoods(systems: Systems, X: FloatArray, offsets: IntArray) -> FloatArray:
    """Return log p(y_i | system k), (n_sequences, K)."""
    scores = np.empty((len(offsets) - 1, len(systems.A)))
    for chosen, batch, f in _batches(systems, X, offsets):
        scores[chosen] = _filter(systems, f, X, batch).scores
    return scores


@single_threaded
def smooth(systems: Systems, X: FloatArray, offsets: IntArray) -> list[Smoothed]:
    """Return the moments of the states of one system given each sequence.

    From the last frame to the first, with N and r zero after the last:

        r_{t-1} = Cᵀ Σ_t⁻¹ e_t + Lᵀ r_t      N_{t-1} = Cᵀ Σ_t⁻¹ C + Lᵀ N_t L
        x̂_{t|T} = x̂_t + V_t r_{t-1}          V_{t|T} = V_t - V_t N_{t-1} V_t     V_{t+1,t|T} = (I - V_{t+1} N_t) L V_t
    """
    return [_smooth_one(systems, X[a:b]) for a, b in itertools.pairwise(offsets)]


def _smooth_one(systems: Systems, y: FloatArray) -> Smoothed:
    f = kalman(systems, len(y), ~np.isnan(y))
    filtered = _filter(systems, f, y, _Batch.of(np.array([0, len(y)]), np.array([0])))
    n = systems.A.shape[-1]
    r, N = np.zeros(n), np.zeros((n, n))
    means, covars, lags = [], [], []
    for t in range(len(y) - 1, -1, -1):
        V, L = f.V[t, 0], f.L[t, 0]
        if t + 1 < len(y):
            lags.append((np.eye(n) - f.V[t + 1, 0] @ N) @ L @ V)
        r = filtered.innovations[t][0, 0] + L.T @ r
        N = f.U[t, 0] @ f.D[t, 0] + L.T @ N @ L
        means.append(filtered.predicted[t][0, 0] + V @ r)
        covars.append(symmetric(V - V @ N @ V))
    return Smoothed(*(np.array(part[::-1]).reshape(-1, *shape) for part, shape in
                      ((means, (n,)), (covars, (n, n)), (lags, (n, n)))))  # fmt: skip


@single_threaded
def e_step(systems: Systems, weights: FloatArray, X: FloatArray, offsets: IntArray) -> tuple[float, Sums, FloatArray]:
    """Return Σ_i log Σ_k ω_k p(y_i|k), the sums of the M-step, and z_ik ∝ ω_k p(y_i|k)."""
    sums, bound, z = Sums.zeros(systems), 0.0, np.empty((len(offsets) - 1, len(weights)))
    with np.errstate(divide="ignore"):
        log_weights = np.log(weights)
    for chosen, batch, f in _batches(systems, X, offsets):
        filtered = _filter(systems, f, X, batch)
        joint = filtered.scores + log_weights
        total = np.logaddexp.reduce(joint, axis=1)
        z[chosen] = np.exp(joint - total[:, None])
        bound += float(total.sum())
        sums = sums.plus(_smoothed_sums(systems, f, X, batch, filtered, z[chosen].T))
    return bound, sums, z


def _smoothed_sums(
    systems: Systems, f: Filter, X: FloatArray, batch: _Batch, filtered: _Filtered, z: FloatArray
) -> Sums:
    """`smooth` for all sequences and systems, weighted by z (K, m) and summed.

    Covariances do not depend on the observations, so the sum of N over sequences follows N's own recursion.
    """
    sums = Sums.zeros(systems)
    K, n = systems.mean.shape
    r, N, ahead = np.zeros((K, 0, n)), np.zeros((K, n, n)), np.zeros((K, 0, n))
    for t in range(len(batch.active) - 2, -1, -1):
        active, going_on = batch.active[t], batch.active[t + 1]
        w, V, L, CSC = z[:, :active, None], f.V[t], f.L[t], f.U[t] @ f.D[t]
        all_w, on_w = (z[:, :count].sum(1)[:, None, None] for count in (active, going_on))
        if going_on:
            sums.lag[:] += (on_w * np.eye(n) - f.V[t + 1] @ N) @ L @ V
        carried = np.concatenate([r @ L, np.zeros((K, active - going_on, n))], axis=1)
        r = filtered.innovations[t] + carried
        N = on_w * CSC + transposed(L) @ N @ L
        x = filtered.predicted[t] + r @ V
        before, wx = x[:, :going_on], w * x
        sums.xx_before[:] += on_w * V - V @ N @ V + transposed(wx[:, :going_on]) @ before
        N = N + (all_w - on_w) * CSC
        second = all_w * V - V @ N @ V + transposed(wx) @ x
        sums.xx[:] += second
        sums.x[:] += wx.sum(1)
        sums.lag[:] += transposed(ahead) @ wx[:, :going_on]
        _add_observations(sums, systems, X[batch.starts[:active] + t], w, x, second)
        sums.frames[:] += all_w[:, 0, 0]
        sums.steps[:] += on_w[:, 0, 0]
        ahead = x
    sums.first[:], sums.first_second[:] = wx.sum(1), second
    return sums._replace(mass=z.sum(1), weight=z.sum(1))


def _add_observations(
    sums: Sums, systems: Systems, frames: FloatArray, w: FloatArray, x: FloatArray, second: FloatArray
) -> None:
    """Add one frame of each sequence; a missing value, of the one sequence then, is C x + w, as far as x is known."""
    gone = np.isnan(frames).any(axis=0)
    y = np.where(gone, 0.0, frames - systems.offset[:, None])
    wx = w * x
    sums.y[:] += (w * y).sum(1)
    sums.yx[:] += transposed(y) @ wx
    sums.yy[:] += (w * y**2).sum(1)
    if gone.any():
        C = systems.C[:, gone]
        sums.y[:, gone] += (C @ transposed(wx)).sum(-1)
        sums.yx[:, gone] += C @ second
        sums.yy[:, gone] += (C @ second * C).sum(-1) + w.sum(1) * systems.R[:, gone]
