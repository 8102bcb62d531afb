"""The only place that calls the compiled module: one function per kernel, arrays in, new arrays out.

Every function but `knows` needs a compiled engine. `reference/` has the same kernels in NumPy.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from vhem._support.arrays import FloatArray, IntArray
from vhem.emissions.gaussian import Gaussian
from vhem.kernels.engine import engine
from vhem.kernels.models import Models
from vhem.kernels.parameters import Expectations, Parameters, Statistics
from vhem.kernels.reference.overlap import log_power

_LOG_ZERO = -1e300  # the kernels' way to write log 0
_THREAD_WORK = 2e6  # multiplications below which starting a thread costs more than it saves


def knows(*models: Models) -> bool:
    """Whether there is a compiled engine, and it knows the emissions of these models."""
    return engine().module is not None and all(isinstance(m.components, Gaussian) for m in models)


def _module() -> Any:
    return engine().module


def _useful_threads(n_threads: int, work: float) -> int:
    return max(1, min(n_threads, int(work / _THREAD_WORK)))


def expected_log_likelihood(
    *, base: Parameters, reduced: Parameters, tau: int, early_stop: bool, n_threads: int
) -> FloatArray:
    """Return J (K_b, K_r)."""
    J = np.empty((len(base.means), len(reduced.means)))
    constants, precisions = _densities(reduced)
    threads = _useful_threads(n_threads, _reduction_work(base, reduced, tau))
    _module().expected_log_likelihood(
        *base, *reduced._replace(covars=precisions), constants, tau, early_stop, False, threads, J
    )
    return J


def self_log_likelihood(*, models: Parameters, tau: int, early_stop: bool, n_threads: int) -> FloatArray:
    """Return J_ii (K,), every model against itself; give few at a time: emissions are computed for all pairs."""
    J = np.empty(len(models.means))
    constants, precisions = _densities(models)
    threads = _useful_threads(n_threads, _reduction_work(models.take(slice(1)), models, tau))
    _module().expected_log_likelihood(
        *models, *models._replace(covars=precisions), constants, tau, early_stop, True, threads, J
    )
    return J


def e_step(
    *,
    base: Parameters,
    occupancy: FloatArray,
    counts: FloatArray,
    scales: FloatArray,
    reduced: Parameters,
    log_weights: FloatArray,
    anchors: FloatArray,
    tau: int,
    prune: bool,
    early_stop: bool,
    want_responsibilities: bool,
    n_threads: int,
) -> Statistics:
    """Return VHEM's bound and the sums that its M-step needs."""
    out = Statistics.zeros(reduced)
    z = np.zeros((len(base.means), len(log_weights))) if want_responsibilities else np.empty((0, 0))
    constants, precisions = _densities(reduced)
    threads = _useful_threads(n_threads, _reduction_work(base, reduced, tau))
    bound, evaluated, forwarded = _module().e_step(
        *base, *reduced._replace(covars=precisions), constants, anchors, occupancy, counts, scales,
        log_weights, tau, prune, early_stop, threads, *out[1:7], z,
    )  # fmt: skip
    return out._replace(
        bound=bound, responsibilities=z if want_responsibilities else None, n_evaluated=evaluated, n_forward=forwarded
    )


def _densities(reduced: Parameters) -> tuple[FloatArray, FloatArray]:
    """Return log c - ½(d log 2π + log|Σ|) and Σ⁻¹ (its diagonal for diagonal covariances) of every Gaussian."""
    d = reduced.means.shape[-1]
    log_det: FloatArray
    if reduced.is_diagonal:
        log_det, precisions = np.log(reduced.covars).sum(-1), 1.0 / reduced.covars
    else:
        log_det = np.linalg.slogdet(reduced.covars)[1]
        precisions = np.asarray(np.linalg.inv(reduced.covars), np.float64)
    with np.errstate(divide="ignore"):
        log_mix = np.maximum(np.log(reduced.mix_weights), _LOG_ZERO)
    return log_mix - 0.5 * (d * np.log(2 * np.pi) + log_det), np.ascontiguousarray(precisions)


def _reduction_work(base: Parameters, reduced: Parameters, tau: int) -> float:
    pairs = len(base.means) * len(reduced.means)
    return float(pairs * min(tau, 100) * 5 * base.startprob.shape[1] * reduced.startprob.shape[1] ** 2)


def expectations(
    *,
    parameters: Parameters,
    X: FloatArray,
    offsets: IntArray,
    sequence: IntArray,
    model: IntArray,
    weights: FloatArray,
    anchors: FloatArray,
    n_threads: int,
) -> Expectations:
    """Return the sums of Baum-Welch's E-step over pairs of a sequence and a model, the same for any `n_threads`."""
    K, S, M, d = parameters.means.shape
    shapes = [(K, S), (K, S, S), (K, S, M), (K, S, M, d), parameters.covars.shape]
    out = Expectations(np.empty(len(weights)), *(np.zeros(shape) for shape in shapes))
    threads = _useful_threads(n_threads, _counting_work(parameters, offsets, sequence))
    _module().expectations(*parameters, anchors, X, offsets, sequence, model, weights, threads, *out)
    return out


def learn(
    *,
    parameters: Parameters,
    X: FloatArray,
    offsets: IntArray,
    sequence: IntArray,
    model: IntArray,
    weights: FloatArray,
    prior_start: FloatArray,
    prior_trans: FloatArray,
    prior_covar: float,
    prior_scale: FloatArray,
    floor: FloatArray,
    least: FloatArray,
    tolerance: FloatArray,
    max_iter: int,
    n_threads: int,
    objectives: FloatArray,
    n_iter: IntArray,
) -> None:
    """Iterate Baum-Welch in place: `parameters`, `objectives` and `n_iter` are changed.

    For HMMs of one size with one sequence each and one diagonal Gaussian per state. Each HMM stops before the iteration
    in which it has converged or gone down, a state has died (fewer than `least` weighted frames), a mean has moved so
    far that digits are lost, or `max_iter` is reached. `objectives` then has the objective before its last M-step, and
    `n_iter` counts its M-steps.
    """
    start, trans, scale, floor = map(np.ascontiguousarray, (prior_start, prior_trans, prior_scale, floor))
    threads = _useful_threads(n_threads, _counting_work(parameters, offsets, sequence))
    _module().learn(
        *parameters, start, trans, prior_covar, scale, floor, X, offsets, sequence, model, weights, least, tolerance,
        max_iter, threads, objectives, n_iter,
    )  # fmt: skip


def _counting_work(parameters: Parameters, offsets: IntArray, sequence: IntArray) -> float:
    _, S, M, d = parameters.means.shape
    return float(np.diff(offsets)[sequence].sum() * S * (S + M * d + 5))


def log_likelihoods(*, parameters: Parameters, X: FloatArray, offsets: IntArray, n_threads: int) -> FloatArray:
    """Return log p(y_i | HMM k), (n, K)."""
    scores = np.empty((len(offsets) - 1, len(parameters.n_states)))
    _module().log_likelihoods(*parameters, X, offsets, n_threads, scores)
    return scores


def posteriors(
    *, parameters: Parameters, X: FloatArray, offsets: IntArray, n_threads: int
) -> tuple[FloatArray, FloatArray]:
    """Return log p(y_i), (n,), and the posterior probabilities of the states of one HMM, (T, S)."""
    scores = np.empty(len(offsets) - 1)
    gamma = np.empty((len(X), parameters.n_states[0]))
    _module().posteriors(*parameters, X, offsets, n_threads, scores, gamma)
    return scores, gamma


def viterbi(*, parameters: Parameters, X: FloatArray, offsets: IntArray, n_threads: int) -> tuple[FloatArray, IntArray]:
    """Return max_x log p(x, y_i) under one HMM, (n,), and the paths x that reach it, (T,)."""
    scores = np.empty(len(offsets) - 1)
    paths = np.empty(len(X), dtype=np.int64)
    _module().viterbi(*parameters, X, offsets, n_threads, scores, paths)
    return scores, paths


def log_ppk(*, a: Parameters, b: Parameters, length: int, power: float, n_threads: int) -> FloatArray:
    """Return log k (K_a, K_b); where `a` and `b` are one object, its upper triangle."""
    kernel = np.empty((len(a.means), len(b.means)))
    threads = _useful_threads(n_threads, _overlap_work(a, b, length))
    _module().log_ppk(*_powers(a, power), *_powers(b, power), length, power, a is b, threads, kernel)
    return kernel


def _powers(models: Parameters, power: float) -> tuple[np.ndarray, ...]:
    logs = log_power(models.startprob, power), log_power(models.transmat, power)
    own = Gaussian(models.means, models.covars).log_overlap_weight(power)
    weights = np.maximum(log_power(models.mix_weights, power) + own, _LOG_ZERO)
    return *logs, weights, models.means, models.covars, models.n_states


def _overlap_work(a: Parameters, b: Parameters, length: int) -> float:
    (K_a, S_a, M_a, d), (K_b, S_b, M_b, _) = a.means.shape, b.means.shape
    emissions = M_a * M_b * (d if a.is_diagonal else d**3 / 6) * 4
    return float(K_a * K_b * S_a * S_b * (emissions + length * (S_a + S_b)))


def kmeans(
    *, Z: FloatArray, offsets: IntArray, uniforms: FloatArray, max_iter: int, most_points: int, n_threads: int
) -> IntArray:
    """Return the cluster of every point among the points of its group; -1 is never left."""
    labels = np.full(len(Z), -1, dtype=np.int64)
    _module().kmeans(Z, offsets, uniforms, max_iter, most_points, n_threads, labels)
    return labels


def group_moments(*, X: FloatArray, offsets: IntArray) -> list[FloatArray]:
    """Return count, mean, sum of squared deviations and largest absolute value of every group and dimension, (G, d)."""
    out = [np.empty((len(offsets) - 1, X.shape[1])) for _ in range(4)]
    _module().group_moments(X, offsets, *out)
    return out
