"""The loop of VHEM: E-step, bound, M-step, until the bound stands still."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from vhem._support.arrays import FloatArray
from vhem._support.checks import check_in_range
from vhem._support.errors import BoundError
from vhem.em.sharding import Shards
from vhem.kernels.parameters import Parameters
from vhem.kernels.reduction import Shortcuts, Update, m_step

_ROUNDING = 1e-9  # a fall of the bound, relative to its size, that arithmetic can explain
_FAR_SHIFT = 1e6  # squared standard deviations: moments about an anchor this far off have lost six digits


class Settings(NamedTuple):
    """How long and how exactly to iterate."""

    max_iter: int = 100
    tol: float = 1e-5
    reg_covar: float = 0.0
    shortcuts: Shortcuts = Shortcuts()
    n_threads: int = 1


class Run(NamedTuple):
    """One run of VHEM from one start."""

    parameters: Parameters
    weights: FloatArray
    bounds: list[float]  #: one per E-step, the initial model's first
    converged: bool
    n_unvisited_states: int  #: of the last model
    n_falls: int  #: iterations in which regularisation lowered the bound


Report = Callable[[int, float, bool], None]


def run(
    base: Shards, start: Parameters, weights: FloatArray, settings: Settings, report: Report = lambda *_: None
) -> Run:
    """Iterate from `start`; `report` is told iteration, bound and whether it has converged."""
    parameters, bounds, n_falls, converged, dropped = start, [], 0, False, False
    update = Update(start, weights, 0, 0.0)
    for iteration in range(settings.max_iter + 1):
        statistics = base.e_step(parameters, weights, settings.shortcuts, settings.n_threads)
        check_in_range("the lower bound", statistics.bound)
        bounds.append(statistics.bound)
        if iteration and not dropped:
            n_falls += _fell(bounds, settings.reg_covar)
        if iteration:
            converged = abs(bounds[-1] - bounds[-2]) < settings.tol * base.virtual_frames
        report(iteration, bounds[-1], converged)
        if converged or iteration == settings.max_iter:
            break
        update = m_step(statistics, parameters, reg_covar=settings.reg_covar)
        if update.shift > _FAR_SHIFT:
            update = _update_about_new_means(base, parameters, weights, update.parameters.means, settings)
        # A weight too small for double precision becomes zero. That may cost inputs of next to no weight their share.
        dropped = bool(np.any((update.weights == 0) & (weights > 0)))
        parameters, weights = update.parameters, update.weights
    return Run(parameters, weights, bounds, converged, update.n_unvisited_states, n_falls)


def _update_about_new_means(
    base: Shards, parameters: Parameters, weights: FloatArray, anchors: FloatArray, settings: Settings
) -> Update:
    """Repeat an M-step whose start lay so far off that its covariances lost digits."""
    statistics = base.e_step(parameters, weights, settings.shortcuts, settings.n_threads, anchors=anchors)
    return m_step(statistics, parameters, anchors, settings.reg_covar)


def _fell(bounds: list[float], reg_covar: float) -> bool:
    before, after = bounds[-2:]
    if after >= before - _ROUNDING * max(1.0, abs(before)):
        return False
    if reg_covar == 0:
        raise BoundError("the lower bound", before, after, len(bounds) - 1)
    return True
