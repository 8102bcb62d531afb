"""How many states do the HMMs of clusters need, and may they come back? Quick clusterings, compared by BIC."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from vhem.em.cluster_starts import most_comparable, ward_labels
from vhem.em.fitting import FitPlan, fit_batch
from vhem.em.grouped import Batch, Scale
from vhem.em.loop import Limits, run
from vhem.em.mixture_starts import fit_parts
from vhem.em.mixtures import Mixtures
from vhem.em.polish import item_problem
from vhem.kernels.reduction import BaseModels

#: A course that everything takes once needs more states than behaviours that come back.
CANDIDATES = {
    "ergodic": (1, 2, 3, 4, 5, 6, 8),
    "left-right": (2, 3, 4, 6, 8, 12, 16),
    "left-right-skip": (2, 3, 4, 6, 8, 12, 16),
}
_ENOUGH = 2  # numbers of states in a row that are no better than a smaller one, after which none is tried
_MOST_ITEMS, _MOST_WORK = 300, 3e9  # that the quick clusterings are made of; multiplications of one comparison
_ITERATIONS = 3  # of EM on the sequences
_TAU = 10  # frames by which ergodic HMMs are compared; left-right ones are compared over the typical length


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
    largest = [(t, max(S for S in (1, *CANDIDATES[t]) if np.median(batch.lengths) >= S)) for t in topologies]
    size = min(most_comparable(compared_length(batch, t), S, _MOST_ITEMS, _MOST_WORK) for t, S in largest)
    size = max(size, 10 * n_clusters)
    if len(batch.ids) > size:
        batch = batch.take(np.sort(rng.choice(len(batch.ids), size, replace=False)))
    found = []
    for topology in topologies:
        scores = _scores(batch, plan.with_topology(topology), n_clusters, rng)
        found.append(ChosenShape(topology, max(scores, key=scores.__getitem__), scores))
    return max(found, key=lambda one: one.scores[one.n_states])


def _scores(batch: Batch, plan: FitPlan, n_clusters: int, rng: np.random.Generator) -> dict[int, float]:
    """Return the evidence for numbers of states, higher is better.

    Numbers above the length of most sequences are left out: no sequence could visit that many states.
    """
    scores: dict[int, float] = {}
    for S in [S for S in CANDIDATES[plan.shape.topology] if np.median(batch.lengths) >= S] or [1]:
        scores[S] = _evidence(batch, plan.with_states(S), n_clusters, rng)
        if max(scores.values()) > max(list(scores.values())[-_ENOUGH:]):
            break
    return scores


def _evidence(batch: Batch, plan: FitPlan, n_clusters: int, rng: np.random.Generator) -> float:
    """Return log L - ½ p log n of a quick clustering with p parameters and n items.

    Items, and not frames, are what is counted: frames of an item resemble one another more than any HMM knows, and
    clusters are made of items.
    """
    n_items = len(batch.ids)
    hmms = fit_batch(batch, Scale.of(batch), plan, rng).models
    base = BaseModels.of(hmms, np.ones(n_items), np.ones(n_items), compared_length(batch, plan.shape.topology))
    labels = ward_labels(base, n_clusters, plan.n_threads)
    every = np.arange(len(batch.groups))
    models = fit_parts(batch, every, labels[batch.groups], n_clusters, plan, rng, n_init=1)
    problem = item_problem(batch, models, plan.n_threads)
    shares = np.bincount(labels, minlength=n_clusters) + 1.0
    start = Mixtures(problem.prior.possible(models), (shares / shares.sum())[None])
    done = run(problem, start, Limits(max_iter=_ITERATIONS, tol=plan.limits.tol))
    return float(done.bounds[-1] - 0.5 * np.log(n_items) * done.state.models.n_parameters().sum())
