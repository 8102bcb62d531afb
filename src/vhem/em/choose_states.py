"""How many states do the HMMs of clusters need, and may they come back? Quick clusterings, compared by BIC."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from vhem._support.arrays import IntArray
from vhem.em.fitting import FitPlan, fit_batch
from vhem.em.grouped import Batch, Scale
from vhem.em.loop import Limits, run
from vhem.em.mixture_starts import fit_parts
from vhem.em.mixtures import Mixtures
from vhem.em.polish import item_problem
from vhem.em.shortened import affordable, stretches, thinned
from vhem.em.ward import most_comparable, ward_labels
from vhem.kernels.reduction import BaseModels

#: A course that everything takes once needs more states than behaviours that come back.
CANDIDATES = {
    "ergodic": (1, 2, 3, 4, 5, 6, 8),
    "left-right": (2, 3, 4, 6, 8, 12, 16),
    "left-right-skip": (2, 3, 4, 6, 8, 12, 16),
}
_ENOUGH = 2  # numbers of states in a row that are no better than a smaller one, after which none is tried
_MOST_ITEMS, _MOST_WORK = 200, 1e9  # that the quick clusterings are made of; multiplications of one comparison
_ITERATIONS = 3  # of EM on the sequences
_TAU = 10  # frames by which ergodic HMMs are compared; left-right ones are compared over the typical length
_MOST_COMPARED_STATES = 6  # of HMMs of items; clusters with more states begin as those with the number before ended
_MOST_FRAMES = 30_000  # of all sequences, from twice which on they are shortened


class ChosenShape(NamedTuple):
    """What suits some sequences, and the evidence for each number of states in that topology."""

    topology: str
    n_states: int
    scores: dict[int, float]


def compared_length(batch: Batch, topology: str) -> int:
    """Return the τ by which HMMs of these sequences are compared."""
    return _TAU if topology == "ergodic" else int(np.median(batch.lengths))


def chosen_shape(
    batch: Batch, plan: FitPlan, n_clusters: int, topologies: Iterable[str], rng: np.random.Generator
) -> ChosenShape:
    """Return the topology and the number of states that BIC prefers; of many items, a sample is asked."""
    topologies = list(topologies)
    largest = [(t, max(S for S in (1, *CANDIDATES[t]) if _may_have(batch, S) and S <= _MOST_COMPARED_STATES))
               for t in topologies]  # fmt: skip
    size = min(most_comparable(t, compared_length(batch, t), S, _MOST_ITEMS, _MOST_WORK) for t, S in largest)
    size = max(size, 10 * n_clusters)
    if len(batch.ids) > size:
        batch = batch.take(np.sort(rng.choice(len(batch.ids), size, replace=False)))
    step = affordable(batch, len(batch.X) / _MOST_FRAMES)
    found = [_best_of(thinned(batch, step), plan.with_topology(t), n_clusters, rng) for t in topologies]
    best = max(found, key=lambda one: one.scores[one.n_states])
    if step == 1 or best.topology != "ergodic":
        return best
    return _best_of(
        stretches(batch, step), plan.with_topology(best.topology), n_clusters, rng
    )  # thinned states no longer follow one another


def _best_of(batch: Batch, plan: FitPlan, n_clusters: int, rng: np.random.Generator) -> ChosenShape:
    """Return the number of states that BIC prefers in one topology."""
    scores = _scores(batch, plan, n_clusters, rng)
    return ChosenShape(plan.shape.topology, max(scores, key=scores.__getitem__), scores)


def _may_have(batch: Batch, n_states: int) -> bool:
    """Whether most sequences are long enough to visit that many states."""
    return bool(np.median(batch.lengths) >= n_states)


def _scores(batch: Batch, plan: FitPlan, n_clusters: int, rng: np.random.Generator) -> dict[int, float]:
    """Return the evidence for numbers of states, higher is better.

    Numbers above the length of most sequences are left out: no sequence could visit that many states.
    """
    scores: dict[int, float] = {}
    labels = np.zeros(0, dtype=np.int64)
    for S in [S for S in CANDIDATES[plan.shape.topology] if _may_have(batch, S)] or [1]:
        sized = plan.with_states(S)
        if S <= _MOST_COMPARED_STATES or not scores:
            labels = _compared(batch, sized, n_clusters, rng)
        scores[S], labels = _evidence(batch, sized, labels, n_clusters, rng)
        if max(scores.values()) > max(list(scores.values())[-_ENOUGH:]):
            break
    return scores


def _compared(batch: Batch, plan: FitPlan, n_clusters: int, rng: np.random.Generator) -> IntArray:
    """Return the parts of Ward's tree of the items' HMMs."""
    n_items = len(batch.ids)
    hmms = fit_batch(batch, Scale.of(batch), plan, rng).models
    base = BaseModels.of(hmms, np.ones(n_items), np.ones(n_items), compared_length(batch, plan.shape.topology))
    return ward_labels(base, n_clusters, plan.n_threads)


def _evidence(
    batch: Batch, plan: FitPlan, labels: IntArray, n_clusters: int, rng: np.random.Generator
) -> tuple[float, IntArray]:
    """Return log L - ½ p log n of a quick clustering with p parameters and n items, and its labels.

    Items, and not frames, are what is counted: frames of an item resemble one another more than any HMM knows, and
    clusters are made of items.
    """
    every = np.arange(len(batch.groups))
    models = fit_parts(batch, every, labels[batch.groups], n_clusters, plan, rng, n_init=1)
    problem = item_problem(batch, models, plan.n_threads)
    shares = np.bincount(labels, minlength=n_clusters) + 1.0
    start = Mixtures(problem.prior.possible(models), (shares / shares.sum())[None])
    done = run(problem, start, Limits(max_iter=_ITERATIONS, tol=plan.limits.tol))
    penalty = 0.5 * np.log(len(batch.ids)) * done.state.models.n_parameters().sum()
    return float(done.bounds[-1] - penalty), done.expected.responsibilities.argmax(axis=1)
