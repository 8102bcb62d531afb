"""The loop of EM over linear dynamical systems, for data and for systems alike."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from vhem._support.arrays import FloatArray, IntArray
from vhem._support.checks import check_in_range
from vhem._support.errors import BoundError, NotConvergedWarning, warn_if_any
from vhem.kernels.lds import Sums, Systems, m_step

_ROUNDING = 1e-9  # a fall of the bound, relative to its size, that arithmetic can explain

EStep = Callable[[Systems, FloatArray], tuple[float, Sums, FloatArray]]


class Settings(NamedTuple):
    """How long to iterate, and within which limits."""

    max_iter: int
    threshold: float  #: rise of the bound below which it counts as settled
    floor: float  #: smallest variance of the observations' noise
    isotropic: bool
    stable: bool


class Run(NamedTuple):
    """One run of EM from one start."""

    systems: Systems
    weights: FloatArray
    bounds: list[float]  #: one per E-step, the initial model's first
    responsibilities: FloatArray  #: of the last model
    converged: bool
    n_empty: int
    n_floored: int
    n_held_back: int


def run(systems: Systems, weights: FloatArray, e_step: EStep, settings: Settings) -> Run:
    """Iterate: E-step, bound, M-step, until the bound stands still."""
    systems, bounds = _within_limits(systems, settings), list[float]()
    counts, converged = [0, 0, 0], False
    for iteration in range(settings.max_iter + 1):
        with np.errstate(over="ignore", invalid="ignore"):  # the bound is checked
            bound, sums, z = e_step(systems, weights)
        check_in_range("the lower bound", bound)
        bounds.append(bound)
        if iteration:
            _check_rise(bounds)
            converged = bounds[-1] - bounds[-2] < settings.threshold
        if converged or iteration == settings.max_iter:
            break
        systems, weights, *counts = m_step(sums, systems, settings.floor, settings.isotropic, settings.stable)
    return Run(systems, weights, bounds, z, converged, *counts)


def _within_limits(systems: Systems, settings: Settings) -> Systems:
    """Return a start whose noise is of the kind that the M-step makes: otherwise its first step might go down."""
    R = np.maximum(systems.R, settings.floor)
    return systems._replace(R=np.broadcast_to(R.mean(1, keepdims=True), R.shape) if settings.isotropic else R)


def _check_rise(bounds: list[float]) -> None:
    before, after = bounds[-2:]
    if after < before - _ROUNDING * max(1.0, abs(before)):
        raise BoundError("the bound", before, after, len(bounds) - 1)


def in_order(best: Run) -> Run:
    """Return the run with the heaviest component first; ties go by their first members."""
    members = np.arange(best.responsibilities.shape[1]) == best.responsibilities.argmax(1)[:, None]
    order: IntArray = np.lexsort([members.argmax(0), -np.round(best.weights, 12)])
    return best._replace(
        systems=best.systems.take(order), weights=best.weights[order], responsibilities=best.responsibilities[:, order]
    )


def warn(best: Run, name: str, max_iter: int, tol: float) -> None:
    """Say once what the run could not do."""
    if not best.converged and tol > 0:
        warnings.warn(NotConvergedWarning(name, "the bound", max_iter), stacklevel=4)
    warn_if_any(
        best.n_empty,
        "{n:component} {n:is|are} empty, with weight zero",
        "ask for fewer",
        "raise {n_init}",
        stacklevel=4,
    )
    warn_if_any(
        best.n_floored,
        "{n:variance} of the observations' noise {n:is|are} at {n:its|their} floor: the states explain these "
        "dimensions completely",
        "ask for fewer states",
        stacklevel=4,
    )
    warn_if_any(
        best.n_held_back,
        "{n:system} {n:was|were} kept stable although the data ask for growth",
        "allow it by {stable:False}",
        stacklevel=4,
    )
