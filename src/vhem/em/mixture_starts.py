"""Where EM-H3M starts: a partition of the sequences, made in several ways, and one HMM for each part."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform

from vhem._support.arrays import FloatArray, IntArray
from vhem.em.fitting import FitPlan, fit_batch
from vhem.em.genetic import Solution, Species, with_cluster
from vhem.em.grouped import Batch, Scale
from vhem.em.mixtures import MixtureProblem, Mixtures
from vhem.kernels.filtering import log_likelihoods
from vhem.kernels.kmeans import kmeans
from vhem.kernels.models import Models
from vhem.kernels.reduction import expected_log_likelihood

_SAMPLE = 300  # sequences that Smyth's start compares pairwise; the others follow the likelihoods
_TAU = 10  # frames by which Ward's start compares ergodic HMMs
_TRIES = 5  # runs of k-means on the statistics of sequences
_ITERATIONS = 10  # Baum-Welch iterations for the HMMs that a start is made of

Partition = Callable[[Batch, int, FitPlan, np.random.Generator], IntArray]


def at_random(batch: Batch, K: int, plan: FitPlan, rng: np.random.Generator) -> IntArray:
    """Assign every sequence to a random cluster."""
    del plan
    return rng.integers(K, size=len(batch.groups))


def by_statistics(batch: Batch, K: int, plan: FitPlan, rng: np.random.Generator) -> IntArray:
    """k-means on each sequence's means, deviations and average steps, per dimension."""
    del plan
    Z = sequence_statistics(batch)
    offsets = np.array([0, len(Z)])
    best, least = np.zeros(len(Z), dtype=np.int64), np.inf
    for _ in range(_TRIES):
        labels = kmeans(Z, offsets, rng.random((1, K)))
        count = np.maximum(np.bincount(labels, minlength=K), 1)[:, None]
        centers = np.stack([np.bincount(labels, z, K) for z in Z.T], axis=1) / count
        inertia = np.square(Z - centers[labels]).sum()
        if inertia < least:
            best, least = labels, inertia
    return best


def by_likelihoods(batch: Batch, K: int, plan: FitPlan, rng: np.random.Generator) -> IntArray:
    """Smyth's start: one HMM per sequence, pairwise log-likelihoods, hierarchical clustering.

    The squared distance of two sequences is what each loses, per frame, under the other's HMM; clusters are merged by
    Ward's rule, because complete linkage, which Smyth used, makes clusters of single outliers. If there are many
    sequences, a sample is compared, and the others go where they are likeliest.
    """

    def loss(singles: Batch) -> FloatArray:
        ones = replace(plan.priors, startprob=1.0, transmat=1.0, covars=1.0)
        hmms = fit_batch(singles, Scale.of(singles), plan.brief(_ITERATIONS, n_init=3, priors=ones), rng)
        L = log_likelihoods(hmms.models, singles.X, singles.offsets, plan.n_threads) / singles.lengths[:, None]
        return np.maximum(np.diagonal(L)[:, None] - L, 0.0)

    return _by_pairs(batch, K, plan, rng, loss)


def by_ward(batch: Batch, K: int, plan: FitPlan, rng: np.random.Generator) -> IntArray:
    """VHEM's start: one HMM per sequence, which borrow strength from each other, and Ward's tree on divergences."""
    tau = _TAU if plan.shape.topology == "ergodic" else int(np.median(batch.lengths))

    def loss(singles: Batch) -> FloatArray:
        tenth = replace(plan.priors, startprob=0.1, transmat=0.1, covars=0.1)
        hmms = fit_batch(singles, Scale.of(singles), plan.brief(100, n_init=1, priors=tenth, pooling=True), rng)
        J = expected_log_likelihood(hmms.models, hmms.models, tau, n_threads=plan.n_threads)
        return np.maximum(np.diagonal(J)[:, None] - J, 0.0)

    return _by_pairs(batch, K, plan, rng, loss)


def _by_pairs(
    batch: Batch, K: int, plan: FitPlan, rng: np.random.Generator, loss: Callable[[Batch], FloatArray]
) -> IntArray:
    """Merge sequences by Ward's rule on what they lose by each other's HMMs; of many, the others go where they fit."""
    n = len(batch.groups)
    chosen = np.arange(n) if n <= _SAMPLE else np.sort(rng.choice(n, _SAMPLE, replace=False))
    if len(chosen) <= K:
        return np.arange(n) % K
    found_loss = loss(batch.cut(chosen, batch.lengths[chosen], np.arange(len(chosen)), list(range(len(chosen)))))
    tree = linkage(np.sqrt(squareform(found_loss + found_loss.T, checks=False)), method="ward")
    found = np.asarray(fcluster(tree, K, criterion="maxclust") - 1, dtype=np.int64)
    if n == len(chosen):
        return found
    models = fit_parts(batch, chosen, found, K, plan, rng)
    labels = log_likelihoods(models, batch.X, batch.offsets, plan.n_threads).argmax(axis=1)
    labels[chosen] = found
    return np.asarray(labels, dtype=np.int64)


PARTITIONS: dict[str, Partition] = {
    "smyth": by_likelihoods,
    "kmeans": by_statistics,
    "ward": by_ward,
    "random": at_random,
}


def fit_parts(
    batch: Batch,
    sequences: IntArray,
    labels: IntArray,
    K: int,
    plan: FitPlan,
    rng: np.random.Generator,
    n_init: int = 3,
) -> Models:
    """Return one HMM for each part of some sequences; a part without any gets one at random."""
    empty = np.setdiff1d(np.arange(K), labels)
    sequences = np.append(sequences, rng.choice(sequences, size=len(empty)))
    labels = np.append(labels, empty)
    order = np.argsort(labels, kind="stable")
    parts = batch.cut(sequences[order], batch.lengths[sequences[order]], labels[order], list(range(K)))
    parts = parts._replace(weights=np.ones(len(order)))
    return fit_batch(parts, Scale.of(parts), plan.brief(_ITERATIONS, n_init=n_init), rng).models


def sequence_statistics(batch: Batch) -> FloatArray:
    """Return the statistics of every sequence in units of their spread; what is unknown is average."""
    whole = batch._replace(groups=np.arange(len(batch.groups)), ids=list(range(len(batch.groups))))
    scale = Scale.of(whole)
    values = batch.features
    steps = np.abs(np.diff(values, axis=0, append=values[-1:]))
    steps[batch.offsets[1:] - 1] = 0.0
    moved = np.add.reduceat(np.nan_to_num(steps), batch.offsets[:-1], axis=0) / batch.lengths[:, None]
    features = np.concatenate([scale.mean, np.sqrt(scale.variance), moved], axis=1)
    spread = features.std(axis=0)
    return np.ascontiguousarray((features - features.mean(axis=0)) / np.where(spread > 0, spread, 1.0))


def species_of_mixtures(problem: MixtureProblem, plan: FitPlan) -> Species:
    """Return what a genetic search for a mixture must know."""
    batch, K, items = problem.batch, problem.n_components, problem.items
    frames = np.bincount(items.item, items.inside * batch.lengths)
    tau = _TAU if plan.shape.topology == "ergodic" else int(np.median(batch.lengths))

    def distances(a: Models, b: Models) -> FloatArray:
        return np.asarray(-expected_log_likelihood(a, b, tau, n_threads=plan.n_threads))

    def state(solution: Solution) -> Mixtures:
        return Mixtures(problem.prior.possible(solution[0]), solution[1][None])

    def mutated(now: Solution, rng: np.random.Generator) -> Solution:
        assigned = problem.e_step(state(now))
        k = int(rng.integers(K))
        members = np.flatnonzero(assigned.responsibilities.argmax(axis=1) == k)
        if len(members) > 1 and rng.random() < 0.5:
            chosen = rng.choice(members, size=(len(members) + 1) // 2, replace=False)
        else:
            score = assigned.scores / frames
            loss = (score.max() - score) ** 2 + 1e-12
            chosen = rng.choice(len(loss), size=1, p=loss / loss.sum())
        own = np.flatnonzero(np.isin(items.item, chosen))
        one = fit_parts(batch, own, np.zeros(len(own), dtype=np.int64), 1, plan, rng, n_init=1)
        return with_cluster(now, k, one)

    return Species(problem, state, lambda s: (s.models, s.weights[0]), distances, mutated)
