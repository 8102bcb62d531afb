"""EM-H3M by variational Bayes: a mixture of HMMs learned from sequences, with a posterior distribution.

    L = Σ_n w_n log Σ_k exp(E log ω_k + log Z_nk)  -  KL[q(ω) ‖ prior] - Σ_k KL[q(HMM k) ‖ prior]

where log Z_nk is the log-likelihood of sequence n under exp E log of HMM k. Sequences are gone through as EM-H3M does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from vhem._support.arrays import BoolArray, FloatArray
from vhem.bayes.cluster_search import EMPTY, Size, begun
from vhem.bayes.clusters import ClusterBeliefs, ClusterLearner, Clusters, next_clusters
from vhem.bayes.priors import ROWS, prior_given, weak_prior, with_rows
from vhem.bayes.pruning import Pruned, pruned
from vhem.bayes.records import Hyperparameters
from vhem.em.grouped import Scale
from vhem.em.loop import Limits, Problem, Run, Step, Watch, run
from vhem.em.mixtures import Assigned, MixtureProblem, Mixtures
from vhem.emissions.conjugate import Conjugate
from vhem.kernels.models import ModelSums


@dataclass(frozen=True, kw_only=True)
class VariationalMixture(Problem[Clusters, Assigned]):
    """Sequences, and how to go through them."""

    data: MixtureProblem  #: its prior takes no part
    learner: ClusterLearner | None = None
    strict: bool = True

    @property
    def frames(self) -> FloatArray:  # type: ignore[override]
        """All frames."""
        return self.data.frames

    def _expected(self, q: ClusterBeliefs) -> Mixtures:
        return Mixtures(q.expected_models(), q.expected_weights()[None])

    def begin(self, start: Mixtures, prior: ClusterBeliefs) -> Clusters:
        """Return the posterior that follows from an E-step of EM-H3M."""
        assigned = self.data.assigned(start)
        sums = self.data.count(start, assigned, None)
        return begun(start.models, sums, self.data.mass(assigned)[0], prior)

    def e_step(self, state: Clusters) -> Assigned:
        """Return the bound and the responsibilities."""
        made = self.data.assigned(self._expected(state.posterior))
        return made._replace(bounds=made.bounds - state.posterior.divergence(state.prior))

    def count(self, state: Clusters, expected: Assigned, anchors: Any) -> ModelSums:
        """Return the sums, in which every statistic of a sequence counts by its responsibility."""
        return self.data.count(self._expected(state.posterior), expected, anchors)

    def m_step(self, state: Clusters, expected: Assigned, sums: ModelSums, anchors: Any) -> Step:
        """Return the posterior that the sums make of the prior, and then a better prior if it is learned."""
        return next_clusters(state, sums, self.data.mass(expected)[0], anchors, self.learner)


class FoundMixture(NamedTuple):
    """A run of one size."""

    size: Size
    problem: VariationalMixture
    run: Run

    @property
    def n_occupied(self) -> int:
        """HMMs that sequences belong to."""
        return int((self.problem.data.mass(self.run.expected)[0] >= EMPTY).sum())

    @property
    def score(self) -> float:
        """The bound plus the log of the number of relabelled solutions; empty HMMs are not told apart."""
        return self.run.bounds[-1] + Size(self.n_occupied, self.size.n_states).n_relabelled()

    def pruned(self, keeps_order: bool) -> Pruned:
        """Return what is left when empty HMMs and states that nothing visits are removed."""
        state, expected = self.run.state, self.run.expected
        sums, mass = self.problem.count(state, expected, None), self.problem.data.mass(expected)[0]
        return pruned(state.posterior, sums, mass, expected.responsibilities, keeps_order)


def mixture_prior(
    data: MixtureProblem, possible: tuple[BoolArray, BoolArray], diagonal: bool, given: str | Hyperparameters
) -> ClusterBeliefs:
    """Return the prior of the HMMs of a mixture: weak and in units of the data, unless given."""
    K, batch = data.n_components, data.batch
    emissions: Conjugate
    if isinstance(given, Hyperparameters):
        emissions = prior_given(given, 1, batch.X.shape[1], diagonal)
        rows, weight = (given.eta0 or given.alpha0, given.epsilon0), given.alpha0
    else:
        scale = Scale.of(batch._replace(groups=np.zeros_like(batch.groups), ids=[0]))
        emissions = weak_prior(scale.emissions, scale.typical, diagonal)
        rows, weight = (ROWS, ROWS), ROWS
    return ClusterBeliefs(np.full(K, float(weight)), with_rows(emissions, *possible, K, *rows))


def learned_mixture(
    problem: VariationalMixture, start: Clusters, limits: Limits, watch: Watch, learns_prior: bool
) -> Run:
    """Return a run of one start; the prior is learned, if at all, once the first half of the iterations is done."""
    if not learns_prior:
        return run(problem, start, limits, watch)
    first = run(problem, start, replace(limits, max_iter=limits.max_iter // 2), watch)
    more = run(replace(problem, learner=ClusterLearner()), first.state, limits, watch)
    return more._replace(bounds=first.bounds + more.bounds)
