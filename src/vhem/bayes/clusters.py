"""VBHEM as a problem of EM: base models that are to be reduced to clusters, each with a posterior distribution.

The recursion is VHEM's with expected logs in place of logs, so it runs on the same kernel with everything that skips:
the expected logs of probabilities sum to less than one, and a state's own loss of density is never positive.

    L = Σ_i log Σ_j exp N_i (E log ω_j + L_ij)  -  KL[q(ω) ‖ prior] - Σ_j KL[q(HMM j) ‖ prior]
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

import numpy as np

from vhem._support.arrays import FloatArray, IntArray
from vhem.bayes.beliefs import Beliefs, expected_models
from vhem.bayes.empirical import GaussianStatistics, Ranges, RowStatistics
from vhem.em.loop import Problem, Step
from vhem.em.sharding import Shards
from vhem.emissions import dirichlet
from vhem.emissions.normal_wishart import NormalWishart
from vhem.kernels.models import Models, ModelSums
from vhem.kernels.reduction import Reduction, Shortcuts

_ALONE = 1e-12  # EMHMM: pseudo-transitions of a single state


class ClusterBeliefs(NamedTuple):
    """Distributions of the weights of K clusters and of their HMMs: a prior or a posterior."""

    weights: FloatArray  #: (K,) α
    hmms: Beliefs  #: of the HMMs; a prior has emissions (1, 1)

    def expected_weights(self) -> FloatArray:
        """Return exp E log ω."""
        return dirichlet.geometric_rows(self.weights)

    def expected_models(self) -> Models:
        """Return exp E log of the HMMs."""
        return expected_models(self.hmms.start, self.hmms.trans, *self.hmms.emissions.expected())

    def point(self) -> tuple[Models, FloatArray]:
        """Return the HMMs and weights at the posterior means."""
        K, S = self.hmms.start.shape
        rows = (dirichlet.mean_rows(self.hmms.start), dirichlet.mean_rows(self.hmms.trans), np.ones((K, S, 1)))
        components = self.hmms.emissions.point().map(np.ascontiguousarray).reshaped(K, S, 1)
        return Models(*rows, components, np.full(K, S, dtype=np.int64)), dirichlet.mean_rows(self.weights)

    def divergence(self, prior: ClusterBeliefs) -> float:
        """Return KL[self ‖ prior]."""
        q, p = self.hmms, prior.hmms
        rows = dirichlet.divergence(q.start, p.start).sum() + dirichlet.divergence(q.trans, p.trans).sum()
        weights = dirichlet.divergence(self.weights, prior.weights)
        return float(weights + rows + q.emissions.divergence(p.emissions).sum())

    def take(self, clusters: IntArray) -> ClusterBeliefs:
        """Return the posterior of some clusters."""
        return ClusterBeliefs(self.weights[clusters], self.hmms.take(clusters, clusters))


class Clusters(NamedTuple):
    """Where EM is: the posterior, and the prior if it is learned too."""

    posterior: ClusterBeliefs
    prior: ClusterBeliefs


class Assigned(NamedTuple):
    """What an E-step leaves."""

    bounds: FloatArray  #: (1,)
    reduction: Reduction


@dataclass(frozen=True, kw_only=True)
class VariationalClusters(Problem[Clusters, Assigned]):
    """Base models, and how to go through them."""

    base: Shards
    learner: ClusterLearner | None = None
    extra: float = 0.0  #: EMHMM's own degree of freedom, with which the bound may fall
    strict: bool = True
    shortcuts: Shortcuts = field(default_factory=Shortcuts)
    n_threads: int = 1

    @property
    def frames(self) -> FloatArray:  # type: ignore[override]
        """Virtual frames of all base models."""
        return np.array([self.base.virtual_frames])

    def for_one_run(self) -> Self:
        """Return the problem with a memory from one E-step to the next."""
        return replace(self, base=self.base.for_one_run())

    def reduced(self, q: ClusterBeliefs, anchors: Any = None, responsibilities: bool = False) -> Reduction:
        """Return VHEM's E-step with expected logs."""
        return self.base.e_step(
            q.expected_models(), q.expected_weights(), self.shortcuts, self.n_threads, anchors=anchors,
            want_responsibilities=responsibilities,
        )  # fmt: skip

    def e_step(self, state: Clusters) -> Assigned:
        """Return the bound and the sums."""
        made = self.reduced(state.posterior)
        return Assigned(np.array([made.bound - state.posterior.divergence(state.prior)]), made)

    def count(self, state: Clusters, expected: Assigned, anchors: Any) -> Reduction:
        """Return the sums, or make them again about other anchors."""
        return expected.reduction if anchors is None else self.reduced(state.posterior, anchors)

    def m_step(self, state: Clusters, expected: Assigned, sums: Reduction, anchors: Any) -> Step:
        """Return the posterior that the sums make of the prior, and then a better prior if it is learned."""
        del expected
        counted = sums.sums
        if self.extra and counted.trans.shape[1] == 1:
            counted = counted._replace(trans=np.full_like(counted.trans, _ALONE))
        return next_clusters(state, counted, sums.mass, anchors, self.learner, self.extra)


def next_clusters(
    state: Clusters, sums: ModelSums, mass: FloatArray, anchors: Any, learner: ClusterLearner | None, extra: float = 0.0
) -> Step:
    """Return the posterior after the sums of an E-step about the anchors, and then a better prior if it is learned."""
    q, prior = state
    about = q.hmms.emissions.anchors()
    about = about.reshaped(*about.lead, 1) if anchors is None else anchors
    made = prior.hmms.emissions.updated(sums.components, about, extra)
    if made.far and anchors is None:
        means = made.posterior.anchors()
        return Step(state, means.reshaped(*means.lead, 1))
    hmms = Beliefs(prior.hmms.start + sums.start, prior.hmms.trans + sums.trans, made.posterior)
    q = ClusterBeliefs(prior.weights + mass, hmms)
    return Step(Clusters(q, learner(q, prior) if learner else prior))


@dataclass(frozen=True, kw_only=True)
class ClusterLearner:
    """Learns the prior from the posterior of all clusters."""

    ranges: Ranges = field(default_factory=Ranges)
    iid: bool = False

    def __call__(self, q: ClusterBeliefs, prior: ClusterBeliefs) -> ClusterBeliefs:
        """Return a better prior."""
        K, one = len(q.weights), np.zeros(1, dtype=np.int64)
        all_of_them = np.zeros(K, dtype=np.int64)
        weights = RowStatistics.of(q.weights[None], prior.weights[None], one, 1).best(self.ranges.rows)
        start = RowStatistics.of(q.hmms.start, prior.hmms.start, all_of_them, 1).best(self.ranges.rows)
        trans = RowStatistics.of(q.hmms.trans, prior.hmms.trans, all_of_them, 1).best(self.ranges.rows)
        emissions = prior.hmms.emissions
        if isinstance(q.hmms.emissions, NormalWishart) and isinstance(emissions, NormalWishart):
            found = GaussianStatistics.of(q.hmms.emissions, emissions.m[:, 0], all_of_them, 1)
            emissions = found.best(emissions, self.ranges, self.iid)
        hmms = Beliefs(
            np.where(prior.hmms.start > 0, start, 0.0), np.where(prior.hmms.trans > 0, trans, 0.0), emissions
        )
        return ClusterBeliefs(np.full_like(prior.weights, weights[0]), hmms)
