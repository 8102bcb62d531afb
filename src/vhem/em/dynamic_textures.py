"""Mixtures of linear dynamical systems as a problem of EM, for sequences and for systems alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from vhem._support.arrays import FloatArray, IntArray
from vhem._support.errors import NotConvergedWarning, warn, warn_if_any
from vhem.em.loop import Limits, Problem, Run, Step, run
from vhem.kernels.lds import m_step
from vhem.kernels.systems import Sums, Systems
from vhem.models import MixtureOfLDS

EStep = Callable[[Systems, FloatArray], tuple[float, Sums, FloatArray]]


class Textures(NamedTuple):
    """A mixture of systems, and what the last M-step did to it."""

    systems: Systems
    weights: FloatArray
    n_empty: int = 0
    n_floored: int = 0
    n_held_back: int = 0


class _Expected(NamedTuple):
    bound: float
    sums: Sums
    responsibilities: FloatArray

    @property
    def bounds(self) -> FloatArray:
        return np.array([self.bound])


@dataclass(frozen=True, kw_only=True)
class TextureProblem(Problem[Textures, _Expected]):
    """An E-step, and the limits of the M-step."""

    sums_of: EStep
    n_frames: float
    floor: float  #: smallest variance of the observations' noise
    isotropic: bool
    stable: bool
    strict: bool = True

    @property
    def frames(self) -> FloatArray:  # type: ignore[override]
        """Frames, virtual or real."""
        return np.array([self.n_frames])

    def e_step(self, state: Textures) -> _Expected:
        """Return bound, sums and responsibilities."""
        with np.errstate(over="ignore", invalid="ignore"):  # the bound is checked
            return _Expected(*self.sums_of(state.systems, state.weights))

    def count(self, state: Textures, expected: _Expected, anchors: Any) -> Sums:
        """Return the sums of the E-step."""
        del state, anchors
        return expected.sums

    def m_step(self, state: Textures, expected: _Expected, sums: Sums, anchors: Any) -> Step:
        """Return the next systems."""
        del expected, anchors
        return Step(Textures(*m_step(sums, state.systems, self.floor, self.isotropic, self.stable)))

    def learn(self, start: Textures, limits: Limits) -> Run:
        """Iterate from systems with noise as the M-step makes it, or the first step might lower the bound."""
        R = np.maximum(start.systems.R, self.floor)
        R = np.broadcast_to(R.mean(1, keepdims=True), R.shape) if self.isotropic else R
        return run(self, start._replace(systems=start.systems._replace(R=R)), limits)


def heaviest_first(weights: FloatArray, z: FloatArray) -> IntArray:
    """Return the order of components by weight; ties go by their first members."""
    members = np.arange(z.shape[1]) == z.argmax(1)[:, None]
    return np.lexsort([members.argmax(0), -np.round(weights, 12)])


def keep(estimator: Any, best: Run, ordered: bool) -> MixtureOfLDS:
    """Store what every estimator of dynamical systems learns, and return the mixture."""
    textures, z = best.state, best.expected.responsibilities
    order = heaviest_first(textures.weights, z) if ordered else np.arange(len(textures.weights))
    estimator.responsibilities_ = z[:, order]
    estimator.labels_ = estimator.responsibilities_.argmax(1)
    estimator.lower_bounds_ = np.array(best.bounds)
    estimator.lower_bound_ = best.bounds[-1]
    estimator.n_iter_ = len(best.bounds) - 1
    estimator.converged_ = bool(best.converged[0])
    estimator.n_empty_, estimator.n_floored_ = textures.n_empty, textures.n_floored
    estimator.n_held_back_ = textures.n_held_back
    return MixtureOfLDS.of(textures.systems.take(order), textures.weights[order])


def warn_of_run(best: Run, name: str, max_iter: int, tol: float) -> None:
    """Warn once about what went wrong in the run."""
    if not best.converged.all() and tol > 0:
        warn(NotConvergedWarning(name, "the bound", max_iter))
    warn_if_any(
        best.state.n_empty, "{n:component} {n:is|are} empty, with weight zero", "ask for fewer", "raise {n_init}"
    )
    warn_if_any(
        best.state.n_floored,
        "{n:variance} of the observations' noise {n:is|are} at {n:its|their} floor: the states explain these "
        "dimensions completely",
        "ask for fewer states",
    )
    warn_if_any(
        best.state.n_held_back,
        "{n:system} {n:was|were} kept stable although the data ask for growth",
        "allow it with {stable:False}",
    )
