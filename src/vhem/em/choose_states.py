"""How many states do the HMMs of clusters need? A quick clustering with each number, compared by BIC."""

from __future__ import annotations

import numpy as np

from vhem.em.cluster_starts import ward_labels
from vhem.em.fitting import FitPlan, fit_batch
from vhem.em.grouped import Batch, Scale
from vhem.em.loop import Limits, run
from vhem.em.mixture_starts import fit_parts
from vhem.em.mixtures import Mixtures
from vhem.em.polish import item_problem
from vhem.kernels.reduction import BaseModels

CANDIDATES = (1, 2, 3, 4, 5, 6, 8)
_MOST_ITEMS = 300  # that the quick clusterings are made of
_ITERATIONS = 3  # of EM on the sequences


def states_scores(batch: Batch, plan: FitPlan, n_clusters: int, tau: int, rng: np.random.Generator) -> dict[int, float]:
    """Return the evidence for each number of states, higher is better; of many items, a sample is asked.

    Numbers above the length of most sequences are left out: no sequence could visit that many states.
    """
    if len(batch.ids) > max(_MOST_ITEMS, 10 * n_clusters):
        size = max(_MOST_ITEMS, 10 * n_clusters)
        batch = batch.take(np.sort(rng.choice(len(batch.ids), size, replace=False)))
    candidates = [S for S in CANDIDATES if np.median(batch.lengths) >= S] or [1]
    return {S: evidence(batch, plan.with_states(S), n_clusters, tau, rng) for S in candidates}


def evidence(batch: Batch, plan: FitPlan, n_clusters: int, tau: int, rng: np.random.Generator) -> float:
    """Return log L - ½ p log n of a quick clustering with p parameters and n items.

    Items, and not frames, are what is counted: frames of an item resemble one another more than any HMM knows, and
    clusters are made of items.
    """
    n_items = len(batch.ids)
    hmms = fit_batch(batch, Scale.of(batch), plan, rng).models
    base = BaseModels.of(hmms, np.ones(n_items), np.ones(n_items), tau)
    labels = ward_labels(base, n_clusters, plan.n_threads)
    every = np.arange(len(batch.groups))
    models = fit_parts(batch, every, labels[batch.groups], n_clusters, plan, rng, n_init=1)
    problem = item_problem(batch, models, plan.n_threads)
    shares = np.bincount(labels, minlength=n_clusters) + 1.0
    start = Mixtures(problem.prior.possible(models), (shares / shares.sum())[None])
    done = run(problem, start, Limits(max_iter=_ITERATIONS, tol=plan.limits.tol))
    return float(done.bounds[-1] - 0.5 * np.log(n_items) * done.state.models.n_parameters().sum())
