"""Calls of the compiled kernels of linear dynamical systems, as `compiled` has them for HMMs.

They need a compiled engine.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from vhem._support.arrays import FloatArray, IntArray
from vhem.kernels.engine import engine
from vhem.kernels.stopping import stop_flag
from vhem.kernels.systems import Smoothed, Sums, Systems

_BEYOND = 4  # fields of Sums that do not depend on states: mass, weight, frames, steps


def _systems(module: Any, systems: Systems) -> Any:
    arrays = {name: np.ascontiguousarray(array, np.float64) for name, array in systems._asdict().items()}
    return module.Systems(**arrays)


def _sequences(module: Any, X: FloatArray, offsets: IntArray) -> Any:
    return module.Sequences(X=np.ascontiguousarray(X, np.float64), offsets=np.ascontiguousarray(offsets, np.int64))


def _run(module: Any) -> Any:
    return module.Run(n_threads=1, stop=stop_flag())


def _room(module: Any, sums: Sums) -> Any:
    return module.SystemSums(**dict(zip(Sums._fields[_BEYOND:], sums[_BEYOND:], strict=True)))


def log_likelihoods(systems: Systems, X: FloatArray, offsets: IntArray) -> FloatArray:
    """Return log p(y_i | system k), (n, K)."""
    module = engine().module
    scores = np.empty((len(offsets) - 1, len(systems.A)))
    module.filter_systems(
        systems=_systems(module, systems), sequences=_sequences(module, X, offsets), scores=scores, run=_run(module)
    )
    return scores


def smooth(systems: Systems, X: FloatArray, offsets: IntArray) -> list[Smoothed]:
    """Return the moments of the states of one system given each sequence."""
    module = engine().module
    n = systems.A.shape[-1]
    means, covars, lags = np.empty((len(X), n)), np.empty((len(X), n, n)), np.empty((len(X), n, n))
    module.smooth_states(
        systems=_systems(module, systems), sequences=_sequences(module, X, offsets), means=means, covars=covars,
        lags=lags, run=_run(module),
    )  # fmt: skip
    return [Smoothed(means[a:b], covars[a:b], lags[a : b - 1]) for a, b in itertools.pairwise(offsets)]


def e_step(systems: Systems, weights: FloatArray, X: FloatArray, offsets: IntArray) -> tuple[float, Sums, FloatArray]:
    """Return Σ_i log Σ_k ω_k p(y_i|k), the sums of the M-step, and z_ik ∝ ω_k p(y_i|k)."""
    module = engine().module
    scores, sums = np.empty((len(offsets) - 1, len(weights))), Sums.zeros(systems)
    z, lengths = np.empty_like(scores), np.diff(offsets).astype(np.float64)
    with np.errstate(divide="ignore"):
        log_weights = np.log(weights)
    module.system_expectations(
        systems=_systems(module, systems), log_weights=log_weights, sequences=_sequences(module, X, offsets),
        scores=scores, z=z, sums=_room(module, sums), run=_run(module),
    )  # fmt: skip
    mass = z.sum(0)
    bound = float(np.logaddexp.reduce(scores + log_weights, axis=1).sum())
    return bound, sums._replace(mass=mass, weight=mass, frames=lengths @ z, steps=(lengths - 1) @ z), z


def expected_log_likelihood(base: Systems, reduced: Systems, tau: int) -> FloatArray:
    """Return E_ij = E_{y ~ base i} log p(y_1:τ | reduced j), (K_b, K_r)."""
    module = engine().module
    scores = np.empty((len(base.A), len(reduced.A)))
    one, two = _systems(module, base), _systems(module, reduced)
    module.score_systems(base=one, reduced=two, tau=tau, scores=scores, run=_run(module))
    return scores


def sums(base: Systems, reduced: Systems, w: FloatArray, tau: int) -> Sums:
    """Return the sums of the M-step over base systems of weights `w` (K_b, K_r); `mass` is left to the caller."""
    module = engine().module
    made, total = Sums.zeros(reduced), w.sum(0)
    one, two = _systems(module, base), _systems(module, reduced)
    module.reduce_systems(
        base=one, reduced=two, weights=np.ascontiguousarray(w), tau=tau, sums=_room(module, made), run=_run(module)
    )
    return made._replace(weight=total, frames=tau * total, steps=(tau - 1) * total)
