"""Linear dynamical systems in NumPy: Kalman filter, smoother, and the sums and the M-step of EM.

x_1 ~ N(μ, S), x_{t+1} = A x_t + v with v ~ N(0, Q), y_t = C x_t + ȳ + w with w ~ N(0, R), R diagonal. All systems of a
set are stacked along the first axis. Observations may be wide: by Woodbury's identity, with D = Cᵀ R⁻¹ C and U_t = (I +
D V_t)⁻¹, the inverse of y's covariance Σ_t = C V_t Cᵀ + R is never formed:

    Cᵀ Σ_t⁻¹ = U_t Cᵀ R⁻¹      V^f_t = V_t U_t      log|Σ_t| = log|R| - log|U_t|      Σ_t⁻¹ = R⁻¹ - R⁻¹ C V^f_t Cᵀ R⁻¹

No covariance of states is inverted either, so Q and S may be singular.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from vhem._support.arrays import FloatArray, IntArray
from vhem.kernels.blas import single_threaded

LOG_TWO_PI = float(np.log(2 * np.pi))
_SMALLEST_MASS = 1e-250  # of a component: below this its sums have no digits left, and it counts as empty
_CHUNK = 4_000_000  # memory, in numbers, for the means of states of one chunk of sequences


class Systems(NamedTuple):
    """K linear dynamical systems with n-dimensional states and d-dimensional observations."""

    A: FloatArray  #: (K, n, n)
    C: FloatArray  #: (K, d, n)
    Q: FloatArray  #: (K, n, n)
    R: FloatArray  #: (K, d) variances
    mean: FloatArray  #: (K, n) μ
    covar: FloatArray  #: (K, n, n) S
    offset: FloatArray  #: (K, d) ȳ

    def take(self, index: np.ndarray | slice) -> Systems:
        """Return the systems at `index`."""
        return Systems._make(array[index] for array in self)


class Filter(NamedTuple):
    """The part of the Kalman filter that does not depend on observations; time, if any, is the first axis."""

    W: FloatArray  #: (K, n, d) Cᵀ R⁻¹
    D: FloatArray  #: (K, n, n) Cᵀ R⁻¹ C
    V: FloatArray  #: (T, K, n, n) covariance of x_t given y_1 … y_{t-1}
    U: FloatArray  #: (T, K, n, n) (I + D V)⁻¹
    Vf: FloatArray  #: (T, K, n, n) covariance of x_t given y_1 … y_t
    gain: FloatArray  #: (T, K, n, n) A V^f
    L: FloatArray  #: (T, K, n, n) A (I - G C), how a prediction error propagates
    log_det: FloatArray  #: (T, K) log|Σ_t|


def transposed(matrices: FloatArray) -> FloatArray:
    """Return the transposes of a stack of matrices."""
    return np.swapaxes(matrices, -1, -2)


def symmetric(matrices: FloatArray) -> FloatArray:
    """Return the matrices without the skewness that rounding left."""
    return 0.5 * (matrices + transposed(matrices))


def kalman(systems: Systems, length: int) -> Filter:
    """Return the filter for sequences of up to `length` frames: V_1 = S, V_{t+1} = A V^f_t Aᵀ + Q."""
    A = systems.A
    W = transposed(systems.C / systems.R[:, :, None])
    D = symmetric(W @ systems.C)
    V = systems.covar
    Vs, Us, Vfs, log_dets = list[FloatArray](), list[FloatArray](), list[FloatArray](), list[FloatArray]()
    log_R, identity = np.log(systems.R).sum(-1), np.eye(A.shape[-1])
    for _ in range(length):
        inflated = identity + D @ V
        U = np.linalg.inv(inflated)
        Vf = symmetric(V @ U)
        Vs.append(V)
        Us.append(np.asarray(U))
        Vfs.append(Vf)
        log_dets.append(np.asarray(log_R + np.linalg.slogdet(inflated)[1]))
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
    """e_t = y_t - ȳ - C x̂_t, x̂_{t+1} = A (x̂_t + V_t Cᵀ Σ_t⁻¹ e_t), log p = -½ Σ_t [d log 2π + log|Σ_t| + eᵀ Σ⁻¹ e]."""
    m, K, d = len(batch.starts), len(systems.A), X.shape[1]
    scores, predicted, innovations = np.zeros((K, m)), [], []
    x = np.repeat(systems.mean[:, None], m, axis=1)
    for t, active in enumerate(batch.active[:-1]):
        x = x[:, :active]
        e = X[batch.starts[:active] + t] - systems.offset[:, None] - x @ transposed(systems.C)
        projected = e @ transposed(f.W)
        quadratic = (e**2 / systems.R[:, None]).sum(-1) - (projected @ f.Vf[t] * projected).sum(-1)
        scores[:, :active] -= 0.5 * (d * LOG_TWO_PI + f.log_det[t][:, None] + quadratic)
        predicted.append(x)
        innovations.append(projected @ transposed(f.U[t]))
        x = (x + innovations[-1] @ f.V[t]) @ transposed(systems.A)
    return _Filtered(scores.T, predicted, innovations)


def _batches(offsets: IntArray, systems: Systems) -> Iterator[tuple[IntArray, _Batch]]:
    """Cut the sequences, longest first, into chunks whose states fit into memory."""
    lengths = np.diff(offsets)
    order = np.argsort(-lengths, kind="stable")
    size = systems.mean.size
    at = 0
    while at < len(order):
        chosen = order[at : at + max(1, _CHUNK // int(lengths[order[at]] * size))]
        yield chosen, _Batch.of(offsets, chosen)
        at += len(chosen)


@single_threaded
def log_likelihoods(systems: Systems, X: FloatArray, offsets: IntArray) -> FloatArray:
    """Return log p(y_i | system k), (n_sequences, K)."""
    f = kalman(systems, int(np.diff(offsets).max()))
    scores = np.empty((len(offsets) - 1, len(systems.A)))
    for chosen, batch in _batches(offsets, systems):
        scores[chosen] = _filter(systems, f, X, batch).scores
    return scores


class Smoothed(NamedTuple):
    """The posterior moments of the states of one sequence."""

    means: FloatArray  #: (T, n) E[x_t | y]
    covars: FloatArray  #: (T, n, n) Cov(x_t | y)
    lag_covars: FloatArray  #: (T - 1, n, n) Cov(x_{t+1}, x_t | y)


@single_threaded
def smooth(systems: Systems, y: FloatArray) -> Smoothed:
    """Return the moments of the states of one system given all of `y`.

    From the last frame to the first, with N and r zero after the last:

        r_{t-1} = Cᵀ Σ_t⁻¹ e_t + Lᵀ r_t      N_{t-1} = Cᵀ Σ_t⁻¹ C + Lᵀ N_t L
        x̂_{t|T} = x̂_t + V_t r_{t-1}          V_{t|T} = V_t - V_t N_{t-1} V_t     V_{t+1,t|T} = (I - V_{t+1} N_t) L V_t
    """
    f = kalman(systems, len(y))
    filtered = _filter(systems, f, y, _Batch.of(np.array([0, len(y)]), np.array([0])))
    n = systems.A.shape[-1]
    r, N = np.zeros(n), np.zeros((n, n))
    means, covars, lags = [], [], []
    for t in range(len(y) - 1, -1, -1):
        V, L = f.V[t, 0], f.L[t, 0]
        if t + 1 < len(y):
            lags.append((np.eye(n) - f.V[t + 1, 0] @ N) @ L @ V)
        r = filtered.innovations[t][0, 0] + L.T @ r
        N = f.U[t, 0] @ f.D[0] + L.T @ N @ L
        means.append(filtered.predicted[t][0, 0] + V @ r)
        covars.append(symmetric(V - V @ N @ V))
    return Smoothed(*(np.array(part[::-1]).reshape(-1, *shape) for part, shape in
                      ((means, (n,)), (covars, (n, n)), (lags, (n, n)))))  # fmt: skip


class Sums(NamedTuple):
    """What an E-step leaves for the M-step: weighted sums over sequences, of every system. y is taken about ȳ."""

    mass: FloatArray  #: (K,) Σ z
    weight: FloatArray  #: (K,) Σ w
    frames: FloatArray  #: (K,) Σ w T
    steps: FloatArray  #: (K,) Σ w (T - 1)
    first: FloatArray  #: (K, n) Σ w E[x_1]
    first_second: FloatArray  #: (K, n, n) Σ w E[x_1 x_1ᵀ]
    x: FloatArray  #: (K, n) Σ w Σ_t E[x_t]
    xx: FloatArray  #: (K, n, n) Σ w Σ_t E[x_t x_tᵀ]
    xx_before: FloatArray  #: (K, n, n) the same without the last frame
    lag: FloatArray  #: (K, n, n) Σ w Σ_{t<T} E[x_{t+1} x_tᵀ]
    y: FloatArray  #: (K, d) Σ w Σ_t (y_t - ȳ)
    yx: FloatArray  #: (K, d, n) Σ w Σ_t E[(y_t - ȳ) x_tᵀ]
    yy: FloatArray  #: (K, d) Σ w Σ_t (y_t - ȳ)², per dimension

    @staticmethod
    def zeros(systems: Systems) -> Sums:
        """Return empty sums."""
        K, d, n = systems.C.shape
        vector, matrix = np.zeros((K, n)), np.zeros((K, n, n))
        seen = np.zeros((K, d)), np.zeros((K, d, n)), np.zeros((K, d))
        parts = (np.zeros(K),) * 4 + (vector, matrix, vector, matrix, matrix, matrix, *seen)
        return Sums._make(part.copy() for part in parts)

    def plus(self, other: Sums) -> Sums:
        """Return the sums of both."""
        return Sums._make(a + b for a, b in zip(self, other, strict=True))


@single_threaded
def e_step(systems: Systems, weights: FloatArray, X: FloatArray, offsets: IntArray) -> tuple[float, Sums, FloatArray]:
    """Return Σ_i log Σ_k ω_k p(y_i|k), the sums of the M-step, and z_ik ∝ ω_k p(y_i|k)."""
    f = kalman(systems, int(np.diff(offsets).max()))
    sums, bound, z = Sums.zeros(systems), 0.0, np.empty((len(offsets) - 1, len(weights)))
    with np.errstate(divide="ignore"):
        log_weights = np.log(weights)
    for chosen, batch in _batches(offsets, systems):
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
        w, V, L, CSC = z[:, :active, None], f.V[t], f.L[t], f.U[t] @ f.D
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
        y = X[batch.starts[:active] + t] - systems.offset[:, None]
        sums.y[:] += (w * y).sum(1)
        sums.yx[:] += transposed(y) @ wx
        sums.yy[:] += (w * y**2).sum(1)
        sums.frames[:] += all_w[:, 0, 0]
        sums.steps[:] += on_w[:, 0, 0]
        ahead = x
    sums.first[:], sums.first_second[:] = wx.sum(1), second
    return sums._replace(mass=z.sum(1), weight=z.sum(1))


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
