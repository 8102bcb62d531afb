"""VHEM as a problem of EM: base models, in shards, that are to be reduced to fewer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from vhem._support.arrays import FloatArray
from vhem.em.loop import Problem, Step
from vhem.em.sharding import Shards
from vhem.emissions.gaussian import Gaussian, GaussianPrior
from vhem.kernels.maximise import Prior, maximise
from vhem.kernels.models import Models
from vhem.kernels.reduction import Reduction, Shortcuts

_SMALLEST_MASS = 1e-250  # of a cluster: below this its sums have no digits left, and it counts as empty


class Centers(NamedTuple):
    """The reduced models."""

    models: Models
    weights: FloatArray
    n_unvisited_states: int = 0  #: of clusters that have inputs


@dataclass(frozen=True, kw_only=True)
class ReductionProblem(Problem[Centers, Reduction]):
    """Base models, and how to go through them."""

    base: Shards
    reg_covar: float = 0.0
    shortcuts: Shortcuts = field(default_factory=Shortcuts)
    n_threads: int = 1

    @property
    def frames(self) -> FloatArray:  # type: ignore[override]
        """Virtual frames of all base models."""
        return np.array([self.base.virtual_frames])

    @property
    def strict(self) -> bool:  # type: ignore[override]
        """Whether nothing is added to the variances."""
        return self.reg_covar == 0

    def e_step(self, state: Centers) -> Reduction:
        """Return the bound and the sums."""
        return self.base.e_step(state.models, state.weights, self.shortcuts, self.n_threads)

    def count(self, state: Centers, expected: Reduction, anchors: Any) -> Reduction:
        """Return the sums, or make them again about other anchors."""
        if anchors is None:
            return expected
        return self.base.e_step(state.models, state.weights, self.shortcuts, self.n_threads, anchors=anchors)

    def m_step(self, state: Centers, expected: Reduction, sums: Reduction, anchors: Any) -> Step:
        """Return the centres that maximise the bound; a cluster without inputs stays as it is."""
        del expected
        alive = sums.mass >= _SMALLEST_MASS
        update = maximise(sums.sums.of_alive(alive), state.models, self._prior(state.models), anchors)
        if update.far and anchors is None:
            return Step(state, update.models.components)
        mass = np.where(alive, sums.mass, 0.0)
        weights = mass / mass.sum()
        real = np.arange(update.visited.shape[1]) < state.models.n_states[:, None]
        unvisited = int((real & alive[:, None] & ~update.visited).sum())
        # A weight too small for double precision becomes zero. That may cost inputs of next to no weight their share.
        dropped = bool(np.any((weights == 0) & (state.weights > 0)))
        return Step(Centers(update.models, weights, unvisited), excused=np.array([dropped]))

    def _prior(self, models: Models) -> Prior | None:
        if not self.reg_covar or not isinstance(models.components, Gaussian):
            return None  # only variances can be added to
        nothing = (np.zeros(models.startprob.shape), np.zeros(models.transmat.shape))
        return Prior(*nothing, GaussianPrior.none(len(models), models.n_dims, self.reg_covar))
