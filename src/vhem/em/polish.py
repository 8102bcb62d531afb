"""From a partition of items to clusters: an HMM for each part, EM on the sequences, and items that vary.

This is what `SequenceClustering` does with sequences, and `VHEM` with sequences like those that its inputs were learned
from.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from vhem._support.arrays import FloatArray, IntArray
from vhem._support.errors import Count, FitWarning, warn
from vhem.em.fitting import FitPlan
from vhem.em.genetic import Effort, evolved
from vhem.em.grouped import Batch, Scale
from vhem.em.loop import Limits, run
from vhem.em.mixture_starts import fit_parts, species_of_mixtures
from vhem.em.mixtures import Items, MixtureProblem, Mixtures
from vhem.em.random_effects import VaryingItems
from vhem.em.random_effects_full import FullVaryingItems
from vhem.em.settings import Priors
from vhem.em.votes import averaged
from vhem.emissions import Gaussian
from vhem.kernels.models import Models

_EM_ITERATIONS, _MORE_ITERATIONS = 5, 20  # of EM on the sequences: of every candidate, and of the best
_LAST_ITERATIONS = 10  # with varying items, of the best candidate
_STARTS = 3  # of the HMM of each part
_TOL = 1e-4
_MUCH_WORK = 250_000  # frames × clusters above which the search is shorter
_PATIENCE = 60  # children without a higher likelihood after which the search ends; fewer if there is much work
_MOST_NUMBERS = 3e7  # that varying items may take: items × clusters × states × dimensions


class Candidate(NamedTuple):
    """One partition, trained further."""

    name: str
    first: IntArray  #: labels of Ward's tree
    after_em: IntArray  #: labels after EM on the sequences
    models: Models
    weights: FloatArray
    responsibilities: FloatArray  #: (n, K)
    objective: float
    state: Any = None  #: of varying items, to be trained further

    @property
    def n_used(self) -> int:
        """Clusters that have items; the likelihood alone may prefer to leave one empty."""
        return len(np.unique(self.responsibilities.argmax(axis=1)))


@dataclass(frozen=True, kw_only=True)
class Polish:
    """Sequences of items, and what the clusters' HMMs are to be."""

    batch: Batch
    plan: FitPlan
    n_clusters: int
    n_varied: int = 5  #: iterations of every candidate with items that vary about their cluster's HMM
    tell: Callable[[str, float], None] = lambda *_: None

    @property
    def may_vary(self) -> bool:
        """Whether items are to vary, and there is a model for it, and memory."""
        shape, batch = self.plan.shape, self.batch
        d = batch.X.shape[1] if shape.covariance_type == "diag" else batch.X.shape[1] ** 2
        numbers = len(batch.ids) * self.n_clusters * shape.n_states * (shape.n_states + 4 * d)
        plain = isinstance(batch.emissions, Gaussian) and batch.cases is None
        return self.n_varied > 0 and plain and shape.n_mix == 1 and numbers <= _MOST_NUMBERS

    def learned(self, partitions: dict[str, IntArray], rng: np.random.Generator) -> list[Candidate]:
        """Return a candidate for each partition; equal ones are learned once, and vote as often as they were found."""
        found: list[Candidate] = []
        for name, labels in partitions.items():
            same = [one for one in found if (one.first == labels).all()]
            found.append(same[0]._replace(name=name) if same else self._learned(name, labels, rng))
        return found

    def _learned(self, name: str, labels: IntArray, rng: np.random.Generator) -> Candidate:
        """Learn an HMM from each part of a partition, then EM, then let items vary."""
        batch, K = self.batch, self.n_clusters
        models = fit_parts(batch, np.arange(len(batch.groups)), labels[batch.groups], K, self.plan, rng, _STARTS)
        shares = np.bincount(labels, minlength=K) + 1.0
        problem = item_problem(batch, models, self.plan.n_threads)
        start = Mixtures(problem.prior.possible(models), (shares / shares.sum())[None])
        done = run(problem, start, Limits(max_iter=_EM_ITERATIONS, tol=_TOL))
        z, weights = done.expected.responsibilities, done.state.weights[0]
        made = Candidate(name, labels, z.argmax(axis=1), done.state.models, weights, z, done.bounds[-1])
        self.tell("em", made.objective)
        return self._varied(made, self.n_varied) if self.may_vary else made

    def searched(self, candidates: list[Candidate], rng: np.random.Generator) -> list[Candidate]:
        """Return the candidates, and a better one if families other than Gaussians make a search worth its time.

        Likelihoods prefer some clusters of Gaussians that are wrong, made of several pieces.
        """
        gaussian = isinstance(self.batch.emissions, Gaussian)
        return candidates if gaussian else [self._evolved(candidates, rng), *candidates]

    def _evolved(self, candidates: list[Candidate], rng: np.random.Generator) -> Candidate:
        """Let candidates trade their clusters: likelihoods of categories and counts have many local optima."""
        problem = item_problem(self.batch, candidates[0].models, self.plan.n_threads)
        species = species_of_mixtures(problem, self.plan)
        starts = [species.state((one.models, one.weights)) for one in candidates]
        work = len(self.batch.X) * self.n_clusters
        effort = Effort(patience=int(np.clip(_PATIENCE * _MUCH_WORK / work, 5, _PATIENCE)), n_iter=_EM_ITERATIONS)
        limits = Limits(max_iter=_MORE_ITERATIONS, tol=_TOL)
        found, firsts = evolved(species, starts, rng, limits, effort)
        parent = candidates[int(np.argmax([first.bounds[-1] for first in firsts]))]
        z = found.expected.responsibilities
        self.tell("search", found.bounds[-1])
        return parent._replace(
            models=found.state.models, weights=found.state.weights[0], responsibilities=z, objective=found.bounds[-1]
        )

    def decided(self, candidates: list[Candidate]) -> Candidate:
        """Return the best candidate, trained further, with the responsibilities that all vote for."""
        best = max(candidates, key=lambda one: one.objective)
        if best.state is None:
            fullest = max(candidates, key=lambda one: (one.n_used, one.objective))
            if fullest.n_used < len(np.unique(fullest.first)):
                return self._as_it_began(fullest)
            done = self._converged(fullest)
            return done if done.n_used == fullest.n_used else fullest
        done = self._varied(best, _LAST_ITERATIONS)
        voters = [done._replace(objective=one.objective) if one is best else one for one in candidates]
        return elected(voters)._replace(objective=done.objective)

    def _as_it_began(self, emptied: Candidate) -> Candidate:
        """Return the parts that a candidate started from, with an HMM each; EM left one of them without items."""
        K, labels = self.n_clusters, emptied.first
        warn(
            FitWarning(
                "by the likelihood of the sequences, {n:cluster} would have no items, so the clusters of the HMMs are "
                "kept", "ask for fewer clusters", n=Count(K - emptied.n_used),
            )
        )  # fmt: skip
        every, rng = np.arange(len(self.batch.groups)), np.random.default_rng(0)
        models = fit_parts(self.batch, every, labels[self.batch.groups], K, self.plan, rng)
        z = np.eye(K)[labels]
        return emptied._replace(after_em=labels, models=models, weights=z.mean(axis=0), responsibilities=z)

    def _converged(self, best: Candidate) -> Candidate:
        problem = item_problem(self.batch, best.models, self.plan.n_threads)
        start = Mixtures(problem.prior.possible(best.models), best.weights[None])
        done = run(problem, start, Limits(max_iter=_MORE_ITERATIONS, tol=_TOL))
        return best._replace(
            models=done.state.models, weights=done.state.weights[0], objective=done.bounds[-1],
            responsibilities=done.expected.responsibilities,
        )  # fmt: skip

    def _varied(self, made: Candidate, n_iter: int) -> Candidate:
        problem = item_problem(self.batch, made.models, self.plan.n_threads)
        emissions: Any = problem.prior.emissions
        kind = VaryingItems if self.plan.shape.covariance_type == "diag" else FullVaryingItems
        varying = kind(batch=self.batch, floor=emissions.floor[0], n_threads=self.plan.n_threads)
        state = made.state or varying.begin(made.models, np.maximum(made.weights, 1e-3))
        done = run(varying, state, Limits(max_iter=n_iter, tol=_TOL))
        z, centers = done.expected.responsibilities, done.state.centers
        self.tell("varying items", done.bounds[-1])
        return made._replace(
            models=centers.models(), weights=z.mean(axis=0), responsibilities=z, objective=done.bounds[-1],
            state=done.state,
        )  # fmt: skip


def elected(candidates: list[Candidate], ward: float = 0.0) -> Candidate:
    """Return the best candidate with the responsibilities that all vote for.

    A candidate counts exp(-1) as much if it explains one nat less per item, and the parts of Ward's tree that it came
    from count `ward` times as much as itself. If a cluster were left without items, the best candidate decides alone.
    """
    scores = np.array([one.objective / len(one.first) for one in candidates])
    first, weights = int(scores.argmax()), np.exp(scores - scores.max())
    best = candidates[first]
    voters = [one.responsibilities for one in candidates]
    if ward > 0:
        voters += [np.eye(best.responsibilities.shape[1])[one.first] for one in candidates]
        weights = np.concatenate([weights, ward * weights])
    z = averaged(voters, weights, first)
    if len(np.unique(z.argmax(axis=1))) < z.shape[1]:
        z = best.responsibilities
    return best._replace(responsibilities=z, weights=z.mean(axis=0))


def followed(
    batch: Batch, chosen: IntArray, labels: IntArray, n_clusters: int, plan: FitPlan, rng: np.random.Generator
) -> IntArray:
    """Return the parts of all items, given those of some: the others follow the HMMs of the parts."""
    some = batch.take(chosen)
    models = fit_parts(some, np.arange(len(some.groups)), labels[some.groups], n_clusters, plan, rng)
    uniform = np.full((1, n_clusters), 1 / n_clusters)
    problem = item_problem(batch, models, plan.n_threads)
    every = problem.e_step(Mixtures(problem.prior.possible(models), uniform)).responsibilities.argmax(axis=1)
    every[chosen] = labels
    return np.asarray(every, dtype=np.int64)


def item_problem(batch: Batch, models: Models, threads: int) -> MixtureProblem:
    """Return EM in which all sequences of an item belong to one cluster."""
    n = len(batch.ids)
    cases = np.ones(n) if batch.cases is None else batch.cases
    items = Items(batch.groups, batch.weights, cases, np.zeros(n, dtype=np.int64))
    whole = batch._replace(groups=np.zeros_like(batch.groups), ids=[0])
    scale = Scale.of(whole).repeated(len(models))
    prior = Priors.weak(batch.emissions).spread(models.startprob > 0, models.transmat > 0, scale)
    return MixtureProblem(
        batch=batch, items=items, prior=prior, n_components=len(models), strict=False, n_threads=threads
    )
