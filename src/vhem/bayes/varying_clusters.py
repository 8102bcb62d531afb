"""How many clusters there are, and of how many states, if the members of a cluster vary.

No two people are exactly alike. A bound that takes members of a cluster for copies of its HMM finds the more clusters,
the more is known about each member. Here every member has an HMM of its own, near its cluster's
(:mod:`vhem.em.random_effects`), and members are what counts as data: a further cluster with p parameters has to raise
the objective by ½ p ln n for n members, whatever the number of their frames.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from vhem._support.arrays import FloatArray
from vhem.bayes.cluster_search import EMPTY, Size, shares_of_states
from vhem.bayes.priors import typical_of
from vhem.em.cluster_starts import CenterShape, start_ward
from vhem.em.loop import Limits, Watch, run
from vhem.em.random_effects import VaryingItems
from vhem.em.random_effects_full import FullVaryingItems
from vhem.em.virtual_items import VirtualItems
from vhem.emissions.gaussian import Gaussian
from vhem.kernels.models import Models
from vhem.kernels.reduction import BaseModels

_LEAST_MEMBERS = 3  # of a cluster, on average: with fewer, nobody can tell how much members vary
_MOST_MEMBERS = 1500  # that sizes are compared on; of more, a sample
_FLOOR = 1e-3  # of the variance of all frames: the smallest variance of a state
_LIMITS = Limits(max_iter=30, tol=1e-4)


class Varied(NamedTuple):
    """How well one size explains the inputs."""

    score: float
    n_occupied: int  #: clusters that inputs belong to
    centers: Models | None = None  #: HMMs of frames of any member


@dataclass(frozen=True, kw_only=True)
class VaryingClusters:
    """The inputs, and the sizes to compare."""

    base: BaseModels
    weights: FloatArray  #: (B,) of the inputs
    watch: Callable[[int], Watch]  #: of the size with this number
    n_threads: int = 1
    seen: dict[Size, Varied] = field(default_factory=dict)  #: the sizes tried so far

    def compared(self, sizes: list[Size]) -> dict[Size, Varied]:
        """Try numbers of clusters and of states in turn, each with the best of the other, until nothing changes."""
        clusters, states = (sorted(set(numbers)) for numbers in zip(*sizes, strict=True))
        clusters = [K for K in clusters if len(self.weights) >= _LEAST_MEMBERS * K] or clusters[:1]
        typical = float(np.median(self.base.models.n_states))
        K, S = clusters[0], min(states, key=lambda n: (abs(n - typical), -n))
        before = None
        while before != (K, S):
            before = K, S
            K = max(clusters, key=lambda n: self.tried(Size(n, before[1])).score)
            S = max(states, key=lambda n: self.tried(Size(K, n)).score)
        return self.seen

    def tried(self, size: Size) -> Varied:
        """Return how well a size explains the inputs."""
        if size not in self.seen:
            self.seen[size] = self._tried(size)
        return self.seen[size]

    def _tried(self, size: Size) -> Varied:
        rng, n = np.random.default_rng(0), len(self.weights)
        shape = CenterShape(n_clusters=size.n_clusters, n_states=size.n_states, n_mix=1)
        start = start_ward(self.base, self.weights, shape, rng, self.n_threads)
        kind = VaryingItems if _gaussian(self.base).is_diagonal else FullVaryingItems
        typical: Any = typical_of(_gaussian(self.base), shares_of_states(self.base))
        problem = kind(batch=VirtualItems(self.base), floor=_FLOOR * typical.scale[0])
        done = run(
            problem, problem.begin(start, np.full(len(start), 1 / len(start))), _LIMITS, self.watch(len(self.seen))
        )
        mass = done.expected.responsibilities.sum(0)
        score = done.bounds[-1] - 0.5 * self._n_parameters(size) * np.log(n)
        return Varied(float(score), int((mass >= EMPTY).sum()), done.state.centers.models())

    def _n_parameters(self, size: Size) -> int:
        """Return the parameters of the centres, of how much members' means vary, and of the weights."""
        (K, S), d = size, self.base.models.n_dims
        spread = d if _gaussian(self.base).is_diagonal else d * (d + 1) // 2
        return K * (S**2 - 1 + S * self.base.models.components.n_parameters() + spread) + K - 1


def sampled(base: BaseModels, weights: FloatArray, rng: np.random.Generator) -> tuple[BaseModels, FloatArray]:
    """Return as many inputs as can be compared in a short time."""
    if len(weights) <= _MOST_MEMBERS:
        return base, weights
    chosen = np.sort(rng.choice(len(weights), _MOST_MEMBERS, replace=False))
    return base.take(chosen), weights[chosen] / weights[chosen].sum()


def _gaussian(base: BaseModels) -> Gaussian:
    gaussian = base.models.components
    assert isinstance(gaussian, Gaussian)
    return gaussian
