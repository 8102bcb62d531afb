"""VBHEM in every size asked for, from several starts each, and the choice among them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaln

from vhem._support.arrays import FloatArray
from vhem._support.checks import check_integer, check_integers
from vhem._support.errors import ParameterError
from vhem.bayes.beliefs import Beliefs
from vhem.bayes.clusters import ClusterBeliefs, ClusterLearner, Clusters, VariationalClusters
from vhem.bayes.priors import ROWS, prior_given, typical_of, weak_prior, with_rows
from vhem.bayes.records import Hyperparameters
from vhem.em.cluster_starts import STARTS, CenterShape, species_of_centers
from vhem.em.genetic import POPULATION, evolved
from vhem.em.how_sure import MOST, until_sure
from vhem.em.loop import Limits, Run, Watch, run
from vhem.em.sharding import Shards
from vhem.emissions.conjugate import Conjugate
from vhem.kernels.models import Models, ModelSums
from vhem.kernels.reduction import BaseModels, expected_log_likelihood

UNVISITED = 1e-3  # virtual frames: states with less are removed
_GIVEN = "given"  # start
EMPTY = 1e-3  # of an average input: clusters with less are removed


class Size(NamedTuple):
    """How many clusters, of how many states."""

    n_clusters: int
    n_states: int

    def n_relabelled(self) -> float:
        """Return ln K! + K ln S!: every solution stands for so many others."""
        K, S = self
        return float(gammaln(K + 1.0) + K * gammaln(S + 1.0))


def several_numbers(name: str, value: Any) -> list[int]:
    """Return one number, or several in ascending order, that a user gave."""
    if not isinstance(value, Iterable):
        return [check_integer(name, value, 1)]
    numbers = sorted(set(check_integers(name, list(value), 1)))
    if not numbers:
        raise ParameterError(name, value, "is empty: give one number, or several to choose from")
    return numbers


def is_diagonal(models: Models) -> bool:
    """Whether no covariances are matrices."""
    return all(array.ndim < 5 for name, array in models.components.arrays().items() if name.endswith("covars"))


class Found(NamedTuple):
    """The best run of one size."""

    size: Size
    start: str
    run: Run
    bounds: tuple[float, ...] = ()  #: of all runs of this size

    @property
    def n_occupied(self) -> int:
        """Clusters that inputs belong to."""
        return int((self.run.expected.reduction.mass >= EMPTY).sum())

    @property
    def is_whole(self) -> bool:
        """Whether inputs belong to every cluster, and something visits every state."""
        reduction = self.run.expected.reduction
        return self.n_occupied == self.size.n_clusters and bool((reduction.sums.occupancy >= UNVISITED).all())

    @property
    def score(self) -> float:
        """The bound plus the log of the number of relabelled solutions; empty clusters are not told apart."""
        return self.run.bounds[-1] + Size(self.n_occupied, self.size.n_states).n_relabelled()


@dataclass(frozen=True, kw_only=True)
class ClusterSearch:
    """The inputs, and how to search."""

    proper: BaseModels  #: the inputs as HMMs, for starts
    shards: Shards  #: the inputs as VBHEM takes them
    weights: FloatArray  #: (B,) of the inputs
    kinds: list[str]  #: of starts, taken in turn
    n_init: int | None  #: starts of every size; None: until one can be sure
    given: Models | None = None  #: centres to start from first
    genetic: bool = False  #: whether solutions then trade their clusters
    hyperparameters: str | Hyperparameters  #: "data", "learned" or fixed ones
    limits: Limits
    n_threads: int = 1

    @property
    def diagonal(self) -> bool:
        """Whether covariances are diagonal."""
        return is_diagonal(self.proper.models)

    def best(self, size: Size, rng: np.random.Generator, watch: Callable[[str], Watch]) -> Found:
        """Return the best run of one size: a single cluster of one state needs only one."""
        n = 1 if size == (1, 1) else self.n_init
        if self.genetic and size.n_clusters > 1:
            return self._evolved(size, n or POPULATION, rng)
        seeds, runs, names = rng.spawn(n or MOST), list[Found](), self._names(n or MOST)

        def batch(begin: int, end: int) -> list[float]:
            for r in range(begin, end):
                name = names[r]
                runs.append(Found(size, name, self._run(self.start(name, size, seeds[r]), size, watch(name))))
            return [found.run.bounds[-1] for found in runs]

        if n is None:
            until_sure(batch)
        else:
            batch(0, n)
        best = max(runs, key=lambda found: found.run.bounds[-1])
        best = best._replace(bounds=tuple(found.run.bounds[-1] for found in runs))
        return best if self.given is None or best.is_whole else self._unmoved(best)

    def _unmoved(self, instead_of: Found) -> Found:
        """Return the centres that were given, where a run from them lost some of the clusters or states."""
        assert self.given is not None
        problem = VariationalClusters(base=self.shards, n_threads=self.n_threads)
        made = run(problem, self.begin(self.given, self.prior(instead_of.size)), replace(self.limits, max_iter=0))
        return instead_of._replace(start=_GIVEN, run=made._replace(converged=instead_of.run.converged))

    def _evolved(self, size: Size, n: int, rng: np.random.Generator) -> Found:
        """Return the best run of a genetic search from n starts; the prior is not learned on the way."""
        problem, prior = VariationalClusters(base=self.shards, n_threads=self.n_threads), self.prior(size)
        starts = [self.start(name, size, seed) for name, seed in zip(self._names(n), rng.spawn(n), strict=True)]
        shape = CenterShape(n_clusters=size.n_clusters, n_states=size.n_states, n_mix=1)
        species = species_of_centers(problem, self.proper, self.weights, shape)._replace(
            state=lambda solution: self.begin(solution[0], prior), solution=lambda state: state.posterior.point()
        )
        best, runs = evolved(species, [self.begin(start, prior) for start in starts], rng.spawn(1)[0], self.limits)
        return Found(size, "genetic", best, tuple(one.bounds[-1] for one in [*runs, best]))

    def _names(self, n: int) -> list[str]:
        """Return what to start from, n times."""
        first = [] if self.given is None else [_GIVEN]
        return (first + self.kinds * (n // len(self.kinds) + 1))[:n]

    def start(self, name: str, size: Size, rng: np.random.Generator) -> Models:
        """Return centres to start from."""
        if name == _GIVEN:
            assert self.given is not None
            return self.given
        shape = CenterShape(n_clusters=size.n_clusters, n_states=size.n_states, n_mix=1)
        return STARTS[name](self.proper, self.weights, shape, rng, self.n_threads)

    def _run(self, start: Models, size: Size, watch: Watch) -> Run:
        problem = VariationalClusters(base=self.shards, n_threads=self.n_threads)
        state = self.begin(start, self.prior(size))
        if self.hyperparameters != "learned":
            return run(problem, state, self.limits, watch)
        first = run(problem, state, replace(self.limits, max_iter=self.limits.max_iter // 2), watch)
        learning = replace(problem, learner=ClusterLearner())
        more = run(learning, first.state, self.limits, watch)
        return more._replace(bounds=first.bounds + more.bounds)

    def begin(self, start: Models, prior: ClusterBeliefs) -> Clusters:
        """Return the posterior that follows from VHEM's E-step under given centres."""
        K = len(start)
        found = self.shards.e_step(start, np.full(K, 1 / K), VariationalClusters(base=self.shards).shortcuts)
        return begun(start, found.sums, found.mass, prior)

    def prior(self, size: Size) -> ClusterBeliefs:
        """Return the prior to begin with."""
        given, (K, S) = self.hyperparameters, size
        possible = np.ones((S, S), dtype=bool)
        emissions: Conjugate
        if isinstance(given, Hyperparameters):
            emissions = prior_given(given, 1, self.proper.models.n_dims, self.diagonal)
            rows, weight = (given.eta0 or ROWS, given.epsilon0), given.alpha0
        else:
            like = self.proper.models.components
            emissions = weak_prior(like.take((0, 0, 0)), typical_of(like, shares_of_states(self.proper)), self.diagonal)
            rows, weight = (ROWS, ROWS), ROWS
        return ClusterBeliefs(np.full(K, float(weight)), with_rows(emissions, possible[0], possible, K, *rows))


def begun(start: Models, sums: ModelSums, mass: FloatArray, prior: ClusterBeliefs) -> Clusters:
    """Return the posterior that follows from the sums of an E-step under given HMMs."""
    emissions = prior.hmms.emissions.updated(sums.components, start.components).posterior
    hmms = Beliefs(prior.hmms.start + sums.start, prior.hmms.trans + sums.trans, emissions)
    return Clusters(ClusterBeliefs(prior.weights + mass, hmms), prior)


def shares_of_states(base: BaseModels) -> FloatArray:
    """Return the shares of all virtual frames that each state has, (B, S)."""
    share = base.visits * base.counts[:, None]
    return np.asarray(share / share.sum())


def dispersion(search: ClusterSearch, size: Size) -> float:
    """Return how much more the inputs differ from the centres of their parts of Ward's tree than chance explains.

    An HMM with p parameters, learned from N sequences of its cluster's HMM, would lose p / 2N nats per sequence to it
    by chance. The loss J_ii - J_ij that is found, relative to that, is the dispersion.
    """
    return dispersion_about(search.proper, search.start("ward", size, np.random.default_rng(0)), search.n_threads)


def dispersion_about(base: BaseModels, centers: Models, n_threads: int = 1) -> float:
    """Return how much more the inputs differ from the nearest centre than chance explains; at least 1."""
    J = expected_log_likelihood(base.models, centers, base.tau, n_threads=n_threads)
    loss = 2 * base.counts * np.maximum(base.to_self - J.max(axis=1), 0.0) / base.models.n_parameters()
    return max(1.0, float(loss.sum() / max(len(loss) - len(centers), 1)))
