"""Search for the highest bound: solutions that trade their clusters, and clusters that are replaced.

Local optima of mixtures mostly differ in one or two clusters that are merged or split wrongly. A child takes each of
its clusters from one of two parents, whose clusters are matched first; or it is a parent with one cluster made anew,
from an input that its parent explains badly or from the cluster's own members. Each child is trained for a few
iterations, those of VHEM in broods that share their E-steps, and takes the place of the worst solution if it is better
than that and not a copy of another.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from vhem._support.arrays import FloatArray, IntArray
from vhem.em.loop import Limits, Problem, Run, run
from vhem.em.restarts import run_together
from vhem.kernels.models import Models

POPULATION = 8
_ITERATIONS, _BROOD = 12, 8  # of a child; children that are born before the first of them may be a parent
_PATIENCE, _MOST_CHILDREN = 300, 2000  # children without a higher bound after which the search ends, and in all
_LEAST_WEIGHT = 0.01  # of a cluster in a child, as a share of the average

Solution = tuple[Models, FloatArray]  # the HMMs of the clusters, and their weights


class Effort(NamedTuple):
    """How long to search."""

    patience: int  #: children without a higher bound after which the search ends
    n_iter: int  #: iterations of EM that a child gets


class Species(NamedTuple):
    """What the search must know about a problem."""

    problem: Problem[Any, Any]
    state: Callable[[Solution], Any]  #: what EM starts from
    solution: Callable[[Any], Solution]  #: and the way back
    distances: Callable[[Models, Models], FloatArray]  #: between the clusters of two solutions, (K, K)
    mutated: Callable[[Solution, np.random.Generator], Solution]  #: the same with one cluster made anew


def evolved(
    species: Species, starts: list[Any], rng: np.random.Generator, limits: Limits, effort: Effort | None = None
) -> tuple[Run, list[Run]]:
    """Return the best run that was found, and those of the starts, of which none is better."""
    problem, effort = species.problem, effort or Effort(_PATIENCE, _ITERATIONS)
    first = run_together(problem, starts, limits)
    population, stale = list(first), 0
    brief = Limits(max_iter=effort.n_iter, tol=limits.tol, clock=limits.clock)
    near = limits.tol * float(problem.frames[0])
    brood = _BROOD if problem.together(starts) else 1
    for _ in range(_MOST_CHILDREN // brood):
        if stale >= effort.patience or limits.clock.is_over:
            break
        born = [species.state(_born(species, population, rng)) for _ in range(brood)]
        for child in run_together(problem, born, brief):
            best = max(one.bounds[-1] for one in population)
            _admit(population, child, near)
            stale = 0 if child.bounds[-1] > best + near else stale + 1
    best_run = max(population, key=lambda one: one.bounds[-1])
    if any(best_run is one for one in first):
        return best_run, first
    return _continued(best_run, run(problem, best_run.state, limits)), first


def _continued(short: Run, whole: Run) -> Run:
    return whole._replace(bounds=short.bounds + whole.bounds[1:])


def _born(species: Species, population: list[Run], rng: np.random.Generator) -> Solution:
    order = rng.permutation(len(population))
    one = species.solution(population[order[0]].state)
    if len(population) > 1 and rng.random() < 0.5:
        return _crossed(one, species.solution(population[order[1]].state), species.distances, rng)
    return species.mutated(one, rng)


def _crossed(
    one: Solution, other: Solution, distances: Callable[[Models, Models], FloatArray], rng: np.random.Generator
) -> Solution:
    """Take each cluster from one of the parents."""
    K = len(one[1])
    partner = linear_sum_assignment(distances(one[0], other[0]))[1]
    mine = rng.random(K) < 0.5
    both = Models.joined([one[0], other[0].take(partner)])
    pick: IntArray = np.where(mine, np.arange(K), K + np.arange(K))
    return both.take(pick), _shares(np.where(mine, one[1], other[1][partner]))


def with_cluster(one: Solution, k: int, newcomer: Models) -> Solution:
    """Return a solution with cluster k replaced."""
    models, weights = one[0].copy(), one[1].copy()
    models.put([k], newcomer)
    weights[k] = weights.mean()
    return models, _shares(weights)


def _shares(weights: FloatArray) -> FloatArray:
    weights = np.maximum(weights, _LEAST_WEIGHT * weights.mean())
    return np.asarray(weights / weights.sum())


def _admit(population: list[Run], child: Run, near: float) -> None:
    """Let a child replace its copy, if it is better than that, or else the worst."""
    bound = child.bounds[-1]
    worst = min(range(len(population)), key=lambda i: population[i].bounds[-1])
    copies = [i for i, one in enumerate(population) if abs(one.bounds[-1] - bound) <= near]
    place = copies[0] if copies else worst
    if bound > population[place].bounds[-1]:
        population[place] = child
