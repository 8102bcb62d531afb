"""VHEM as a problem of EM: base models, in shards, that are to be reduced to fewer.

Restarts of small problems are members of one problem: their centres lie side by side in one set of models, as mixtures
of one size, and only the assignment of base models is made for each mixture alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

import numpy as np

from vhem._support.arrays import FloatArray, IntArray
from vhem.em.loop import Problem, Step, improved
from vhem.em.sharding import Shards
from vhem.emissions.gaussian import Gaussian, GaussianPrior
from vhem.kernels.maximise import Prior, maximise
from vhem.kernels.models import Models
from vhem.kernels.reduction import Reduction, Shortcuts

_NONE = np.zeros(1, np.int64)
_SMALLEST_MASS = 1e-250  # of a cluster: below this its sums have no digits left, and it counts as empty


class Centers(NamedTuple):
    """The reduced models, of one mixture or several of one size."""

    models: Models
    weights: FloatArray
    n_unvisited_states: IntArray = _NONE  #: of clusters that have inputs, per mixture

    def take(self, mixtures: IntArray, index: IntArray) -> Centers:
        """Return some of the mixtures, whose models are at `index`."""
        return Centers(self.models.take(index), self.weights[index], self.n_unvisited_states[mixtures])

    @staticmethod
    def joined(parts: list[Centers]) -> Centers:
        """Return the mixtures of all, side by side."""
        models = Models.joined([part.models for part in parts])
        unvisited = np.concatenate([part.n_unvisited_states for part in parts])
        return Centers(models, np.concatenate([part.weights for part in parts]), unvisited)


@dataclass(frozen=True, kw_only=True)
class ReductionProblem(Problem[Centers, Reduction]):
    """Base models, and how to go through them."""

    base: Shards
    reg_covar: float = 0.0
    shortcuts: Shortcuts = field(default_factory=Shortcuts)
    n_threads: int = 1
    n_mixtures: int = 1

    @property
    def frames(self) -> FloatArray:  # type: ignore[override]
        """Virtual frames of all base models, for each mixture."""
        return np.full(self.n_mixtures, self.base.virtual_frames)

    @property
    def strict(self) -> bool:  # type: ignore[override]
        """Whether nothing is added to the variances."""
        return self.reg_covar == 0

    def for_one_run(self) -> Self:
        """Return the problem with a memory from one E-step to the next."""
        return replace(self, base=self.base.for_one_run())

    def e_step(self, state: Centers) -> Reduction:
        """Return the bound and the sums."""
        return self.count(state, None, None)

    def count(self, state: Centers, expected: Reduction | None, anchors: Any) -> Reduction:
        """Return the sums, or make them again about other anchors."""
        if expected is not None and anchors is None:
            return expected
        given = (state.models, state.weights, self.shortcuts, self.n_threads)
        return self.base.e_step(*given, anchors=anchors, n_mixtures=self.n_mixtures)

    def m_step(self, state: Centers, expected: Reduction, sums: Reduction, anchors: Any) -> Step:
        """Return the centres that maximise the bound; a cluster without inputs stays as it is."""
        alive = sums.mass >= _SMALLEST_MASS
        update = maximise(sums.sums.of_alive(alive), state.models, self._prior(state.models), anchors)
        if update.far and anchors is None:
            return Step(state, update.models.components) if self.n_mixtures == 1 else self._one_by_one(state, expected)
        mass = np.where(alive, sums.mass, 0.0).reshape(self.n_mixtures, -1)
        weights = (mass / mass.sum(axis=1, keepdims=True)).ravel()
        real = np.arange(update.visited.shape[1]) < state.models.n_states[:, None]
        unvisited = real & alive[:, None] & ~update.visited
        # A weight too small for double precision becomes zero. That may cost inputs of next to no weight their share.
        dropped = ((weights == 0) & (state.weights > 0)).reshape(self.n_mixtures, -1).any(axis=1)
        made = Centers(update.models, weights, unvisited.reshape(self.n_mixtures, -1).sum(axis=1))
        return Step(made, excused=dropped)

    def _one_by_one(self, state: Centers, expected: Reduction) -> Step:
        """Make the M-step mixture by mixture: only some need their sums about other anchors."""
        each = [improved(*self.take(state, expected, np.array([k]))) for k in range(self.n_mixtures)]
        excused = np.concatenate([step.excused for step in each if step.excused is not None])
        return Step(Centers.joined([step.state for step in each]), excused=excused)

    def take(self, state: Centers, expected: Reduction, rows: IntArray) -> tuple[Self, Centers, Reduction]:
        """Return the problem, state and E-step of some mixtures."""
        index = np.arange(len(state.weights)).reshape(self.n_mixtures, -1)[rows].ravel()
        return self.of_size(len(rows)), state.take(rows, index), expected.take(rows, index)

    def of_size(self, n: int) -> Self:
        """Return the problem for n mixtures."""
        return replace(self, n_mixtures=n)

    def together(self, states: list[Centers]) -> tuple[Self, Centers] | None:
        """Return several starts as members of one problem, if they are of one size."""
        if len({tuple(a.shape for a in state.models.arrays().values()) for state in states}) > 1:
            return None
        return self.of_size(len(states)), Centers.joined(states)

    def _prior(self, models: Models) -> Prior | None:
        if not self.reg_covar or not isinstance(models.components, Gaussian):
            return None  # only variances can be added to
        nothing = (np.zeros(models.startprob.shape), np.zeros(models.transmat.shape))
        return Prior(*nothing, GaussianPrior.none(len(models), models.n_dims, self.reg_covar))
