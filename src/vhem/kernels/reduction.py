"""VHEM's kernels as the algorithms call them: on the engine in use, with what a fit can prepare once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vhem._support.arrays import FloatArray
from vhem.kernels import compiled
from vhem.kernels.engine import engine
from vhem.kernels.parameters import Parameters, Statistics
from vhem.kernels.reference import reduction as reference

_SMALLEST_MASS = 1e-250  # of a cluster: below this its sums have no digits left, and it counts as empty
_SMALLEST_SHARE = 1e-15  # of a cluster's mass: a state or Gaussian with less is left as it is (see m_step)
_SELF_BLOCK = 32  # models at a time against themselves: emissions are computed for all pairs of a block


class Shortcuts(NamedTuple):
    """What the compiled engine may leave out; results stay those of the full equations."""

    prune: bool = True  #: pairs whose responsibility is provably below 1e-27, and their statistics
    early_stop: bool = True  #: steps of a long recursion that has become stationary

    @staticmethod
    def of(allowed: bool) -> Shortcuts:
        """All of them, or none."""
        return Shortcuts(allowed, allowed)


class BaseModels(NamedTuple):
    """The base models of a fit, with what does not change from one iteration to the next."""

    parameters: Parameters
    occupancy: FloatArray  #: (K_b, S) Σ_t p_t(β): how often each state is visited in τ steps
    counts: FloatArray  #: (K_b,) N_i
    scales: FloatArray  #: (K_b,) a_i
    tau: int


def expected_visits(parameters: Parameters, tau: int) -> FloatArray:
    """Return Σ_{t=1..τ} π Aᵗ⁻¹ of every model, in about log₂ τ matrix products."""
    power, sums = parameters.transmat, np.broadcast_to(np.eye(parameters.transmat.shape[1]), parameters.transmat.shape)
    now, total = parameters.startprob[:, None, :], np.zeros_like(parameters.startprob)[:, None, :]
    while tau:
        if tau & 1:
            total = total + now @ sums
            now = now @ power
        sums, power, tau = sums + power @ sums, power @ power, tau >> 1
    return np.ascontiguousarray(total[:, 0])


def expected_log_likelihood(
    base: Parameters, reduced: Parameters, tau: int, early_stop: bool = True, n_threads: int = 1
) -> FloatArray:
    """Return J (K_b, K_r)."""
    if engine().name == "reference":
        return reference.expected_log_likelihood(base, reduced, tau)
    return compiled.expected_log_likelihood(
        base=base, reduced=reduced, tau=tau, early_stop=early_stop, n_threads=n_threads
    )


def self_log_likelihood(models: Parameters, tau: int, early_stop: bool = True, n_threads: int = 1) -> FloatArray:
    """Return J_ii (K,), every model against itself."""
    J = np.empty(len(models.means))
    for i in range(0, len(J), _SELF_BLOCK):
        rows = slice(i, i + _SELF_BLOCK)
        part = models.take(rows)
        if engine().name == "reference":
            J[rows] = np.diagonal(reference.expected_log_likelihood(part, part, tau))
        else:
            J[rows] = compiled.self_log_likelihood(models=part, tau=tau, early_stop=early_stop, n_threads=n_threads)
    return J


def e_step(
    base: BaseModels,
    reduced: Parameters,
    weights: FloatArray,
    shortcuts: Shortcuts,
    n_threads: int = 1,
    anchors: FloatArray | None = None,
    want_responsibilities: bool = False,
) -> Statistics:
    """Return the bound and the sums that `m_step` needs."""
    parameters = base.parameters
    anchors = reduced.means if anchors is None else anchors
    with np.errstate(divide="ignore"):
        log_weights = np.log(weights)
    if engine().name == "reference":
        return reference.e_step(parameters, reduced, log_weights, base.counts, base.scales, anchors, base.tau)
    return compiled.e_step(
        base=parameters,
        occupancy=base.occupancy,
        counts=base.counts,
        scales=base.scales,
        reduced=reduced,
        log_weights=log_weights,
        anchors=anchors,
        tau=base.tau,
        prune=shortcuts.prune,
        early_stop=shortcuts.early_stop,
        want_responsibilities=want_responsibilities,
        n_threads=n_threads,
    )


class Update(NamedTuple):
    """The M-step's result, and what it could not estimate and therefore left as it was."""

    parameters: Parameters
    weights: FloatArray
    n_unvisited_states: int
    shift: float  #: largest squared move of a mean in units of the new variance: how far the anchors were off


def m_step(
    statistics: Statistics, reduced: Parameters, anchors: FloatArray | None = None, reg_covar: float = 0.0
) -> Update:
    """Return the model that maximises the bound for these statistics.

    Where a sum is zero (an empty cluster, a state never visited, no transitions because τ = 1), there is nothing to
    estimate from and the present value stays. So do states and Gaussians with less than 1e-15 of their cluster's mass:
    no result shows them, and they would rest on pairs of models so far apart that the compiled engine skips them.
    """
    anchors = reduced.means if anchors is None else anchors
    empty = statistics.mass < _SMALLEST_MASS
    alive = ~empty[:, None, None]
    count = np.where(alive, statistics.occupancy, 0.0)
    least = _SMALLEST_SHARE * count.sum((1, 2), keepdims=True)
    estimated = count > least
    visited = count.sum(-1, keepdims=True) > least
    n = np.where(estimated, count, 1.0)
    offset = statistics.first / n[..., None]
    second = statistics.second / n[(...,) + (None,) * (statistics.second.ndim - n.ndim)]
    if reduced.is_diagonal:
        covars = second - offset**2
        shift = offset**2 / np.where(covars > 0, covars, np.inf)
    else:
        covars = second - offset[..., :, None] * offset[..., None, :]
        variances = np.diagonal(covars, axis1=-2, axis2=-1)
        shift = offset**2 / np.where(variances > 0, variances, np.inf)
    parameters = Parameters(
        _normalised(statistics.start * alive[:, 0], reduced.startprob),
        _normalised(np.where(visited, statistics.trans, 0.0), reduced.transmat),
        _normalised(np.where(visited, count, 0.0), reduced.mix_weights),
        np.where(estimated[..., None], anchors + offset, reduced.means),
        _where_estimated(estimated, _regularised(covars, reg_covar, reduced.is_diagonal), reduced.covars),
        reduced.n_states,
    )
    mass = np.where(empty, 0.0, statistics.mass)
    real = np.arange(reduced.startprob.shape[1]) < reduced.n_states[:, None]
    unvisited = real & ~empty[:, None] & ~visited[..., 0]
    return Update(
        parameters,
        mass / mass.sum(),
        int(unvisited.sum()),
        float(np.max(np.where(estimated[..., None], shift, 0.0))),
    )


def _normalised(sums: FloatArray, otherwise: FloatArray) -> FloatArray:
    total = sums.sum(-1, keepdims=True)
    return np.where(total > 0, sums / np.where(total > 0, total, 1.0), otherwise)


def _regularised(covars: FloatArray, reg_covar: float, diagonal: bool) -> FloatArray:
    return covars + reg_covar * (1.0 if diagonal else np.eye(covars.shape[-1]))


def _where_estimated(estimated: np.ndarray, new: FloatArray, old: FloatArray) -> FloatArray:
    return np.where(estimated[(...,) + (None,) * (new.ndim - estimated.ndim)], new, old)
