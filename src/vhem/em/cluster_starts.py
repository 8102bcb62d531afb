"""Where VHEM starts: centres made from the inputs, in several ways."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial.distance import squareform

from vhem._support.arrays import FloatArray, IntArray
from vhem.em.aligned_start import averaged_by_state
from vhem.em.genetic import Solution, Species, with_cluster
from vhem.em.loop import Limits
from vhem.em.reduce import reduce_mixture, reductions, weighted_choice
from vhem.em.reduction import Centers, ReductionProblem
from vhem.em.resize import Chain, Mixture, resize, resize_mixture, stack_chains
from vhem.em.restarts import run_together
from vhem.em.sharding import Shards
from vhem.em.spectral import spectral_labels
from vhem.em.topology import topology_of
from vhem.em.ward import MOST_COMPARED, divergences, ward_labels
from vhem.em.ward_in_rounds import AT_ONCE, ward_in_rounds
from vhem.kernels.models import Models
from vhem.kernels.reduction import BaseModels, expected_log_likelihood

_CENTERS = 3  # tried for a part of Ward's tree, besides its medoid
_BLUR = 0.02  # of every probability row made from counts: a transition that happens not to occur stays possible
_POOL, _POOL_PER_CLUSTER = 2000, 20  # inputs that seeds are chosen from: the larger of this, and so many per cluster


@dataclass(frozen=True, kw_only=True)
class CenterShape:
    """What the centres are to be."""

    n_clusters: int
    n_states: int
    n_mix: int

    @staticmethod
    def like(models: Models, n_clusters: int, n_states: int | None = None, n_mix: int | None = None) -> CenterShape:
        """Return centres as large as the inputs typically are, unless specified otherwise."""
        typical = int(np.ceil(np.median(models.n_states)))
        return CenterShape(n_clusters=n_clusters, n_states=n_states or typical, n_mix=n_mix or models.shape[2])


Start = Callable[[BaseModels, FloatArray, CenterShape, np.random.Generator, int], Models]


def start_from_base(
    base: BaseModels, weights: FloatArray, shape: CenterShape, rng: np.random.Generator, n_threads: int
) -> Models:
    """Take distinct inputs drawn by weight, each shrunk or grown to the wanted size."""
    del n_threads
    K = min(shape.n_clusters, len(weights))
    chosen = rng.choice(len(weights), size=K, replace=False, p=weights)
    return _as_centers(base, chosen, shape, rng)


def start_kmeans_plus_plus(
    base: BaseModels, weights: FloatArray, shape: CenterShape, rng: np.random.Generator, n_threads: int
) -> Models:
    """Take inputs far from one another: each drawn in proportion to its divergence from those before it."""
    return _as_centers(base, _spread_out(base, weights, shape, rng, n_threads)[0], shape, rng)


def start_from_emissions(
    base: BaseModels, weights: FloatArray, shape: CenterShape, rng: np.random.Generator, n_threads: int
) -> Models:
    """Make groups around inputs far from one another; a group's states are its pooled emissions, reduced by HEM.

    If states have several Gaussians, HEM makes these from the emissions assigned to the state.
    """
    groups = _spread_out(base, weights, shape, rng, n_threads)[1]
    chains = [_centers_of_group(base, weights, group, shape, rng)[0] for group in groups]
    return stack_chains(_fill_up(chains, shape, rng))


def start_ward(
    base: BaseModels, weights: FloatArray, shape: CenterShape, rng: np.random.Generator, n_threads: int
) -> Models:
    """Cut Ward's tree of the symmetrised divergences into clusters, and make a centre for each.

    Deterministic for up to 6,000 inputs, unless a sample is drawn; above that, parts are drawn at random.
    """
    pool = _pool(len(weights), shape, rng)
    some = base.take(pool)
    if len(pool) <= AT_ONCE:
        labels = ward_labels(some, shape.n_clusters, n_threads)
    else:
        labels = ward_in_rounds(some, shape.n_clusters, rng, n_threads)
    return _from_partition(base, weights, pool, labels, shape, rng, n_threads)


def start_spectral(
    base: BaseModels, weights: FloatArray, shape: CenterShape, rng: np.random.Generator, n_threads: int
) -> Models:
    """Make spectral clusters of the symmetrised divergences, and a centre for each; large collections are sampled."""
    pool = _pool(len(weights), shape, rng)
    apart = squareform(divergences(base.models.take(pool), base.tau, n_threads))
    labels = spectral_labels(apart, shape.n_clusters, rng)
    return _from_partition(base, weights, pool, labels, shape, rng, n_threads)


def _pool(n: int, shape: CenterShape, rng: np.random.Generator) -> IntArray:
    """Return the inputs that a start is made from."""
    most = max(MOST_COMPARED, _POOL_PER_CLUSTER * shape.n_clusters)
    return np.arange(n) if n <= most else np.sort(rng.choice(n, most, replace=False))


def _from_partition(
    base: BaseModels, weights: FloatArray, pool: IntArray, labels: IntArray, shape: CenterShape,
    rng: np.random.Generator, n_threads: int,
) -> Models:  # fmt: skip
    """Make a centre for each part of some inputs."""
    groups = [pool[labels == c] for c in np.unique(labels)]
    if _is_aligned(base.models, shape):
        return _averaged(base.models, weights, groups, shape, rng)
    chains = [_best_center(base, weights, group, shape, rng, n_threads) for group in groups]
    return stack_chains(_fill_up(chains, shape, rng))


def _best_center(
    base: BaseModels, weights: FloatArray, group: IntArray, shape: CenterShape, rng: np.random.Generator, n_threads: int
) -> Chain:
    """Return the best of several centres of one group, each after some iterations on the group alone.

    One bad centre would not keep its group: the others would share it out.
    """
    part = base.take(group)
    chains = _centers_of_group(base, weights, group, shape, rng, _CENTERS)
    some = part if len(group) <= MOST_COMPARED else base.take(np.sort(rng.choice(group, MOST_COMPARED, replace=False)))
    chains.append(resize(Chain.of(some.models, _medoid(some, n_threads), base.tau), shape.n_states, shape.n_mix))
    problem, limits = ReductionProblem(base=Shards.of(part), n_threads=n_threads), Limits(max_iter=10, tol=1e-4)
    runs = run_together(problem, [Centers(stack_chains([chain]), np.ones(1)) for chain in chains], limits)
    best = max(runs, key=lambda one: one.bounds[-1])
    made = Chain.of(best.state.models, 0, base.tau)  # without components that lost all their weight
    return resize(made, shape.n_states, shape.n_mix)


def _medoid(part: BaseModels, n_threads: int) -> int:
    """Return the member under which the others are likeliest."""
    J = expected_log_likelihood(part.models, part.models, part.tau, n_threads=n_threads)
    return int(np.argmax(part.counts @ J))


def _is_aligned(models: Models, shape: CenterShape) -> bool:
    """Whether states correspond: left-right HMMs of the size wanted, which must stay left-right."""
    one_size = (models.n_states == shape.n_states).all() and models.shape[2] == shape.n_mix
    return bool(one_size and topology_of(models.startprob, models.transmat) != "ergodic")


def _averaged(
    models: Models, weights: FloatArray, groups: list[IntArray], shape: CenterShape, rng: np.random.Generator
) -> Models:
    """Return centres averaged state by state, so that zeros stay zeros."""
    every = np.concatenate(groups)
    labels = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
    made = averaged_by_state(models.take(every), weights[every], labels, len(groups))
    copies = made.take(np.arange(shape.n_clusters) % len(groups))
    if len(groups) < shape.n_clusters:
        copies = copies.with_components(copies.components.nudged(0.1, rng))
    return copies


def species_of_centers(problem: Any, base: BaseModels, weights: FloatArray, shape: CenterShape) -> Species:
    """Return what a genetic search for centres must know."""

    def divergences(a: Models, b: Models) -> FloatArray:
        J = expected_log_likelihood(a, b, base.tau, n_threads=problem.n_threads)
        return np.asarray(-J)

    def mutated(now: Solution, rng: np.random.Generator) -> Solution:
        J = expected_log_likelihood(base.models, now[0], base.tau, n_threads=problem.n_threads)
        k = int(rng.integers(len(now[1])))
        members = np.flatnonzero(J.argmax(axis=1) == k)
        if len(members) and rng.random() < 0.5:
            made = _centers_of_group(base, weights, members, shape, rng)[0]
        else:
            loss = np.maximum(base.to_self - J.max(axis=1), 0.0)
            made = Chain.of(base.models, weighted_choice(weights * loss**2, rng, []), base.tau)
        return with_cluster(now, k, stack_chains([resize(made, shape.n_states, shape.n_mix)]))

    return Species(problem, lambda s: Centers(*s), lambda c: (c.models, c.weights), divergences, mutated)


STARTS: dict[str, Start] = {
    "ward": start_ward,
    "kmeans++": start_kmeans_plus_plus,
    "emissions": start_from_emissions,
    "base": start_from_base,
    "spectral": start_spectral,
}
#: Those that restarts use in turn, unless one is asked for.
IN_TURN = ("ward", "kmeans++", "emissions", "base")


def _as_centers(base: BaseModels, chosen: IntArray, shape: CenterShape, rng: np.random.Generator) -> Models:
    chains = [Chain.of(base.models, int(k), base.tau) for k in chosen]
    return stack_chains(_fill_up([resize(chain, shape.n_states, shape.n_mix) for chain in chains], shape, rng))


def _fill_up(chains: list[Chain], shape: CenterShape, rng: np.random.Generator) -> list[Chain]:
    """More clusters than inputs: repeat centres with their means moved a little."""
    for k in range(shape.n_clusters - len(chains)):
        emissions = [e._replace(components=e.components.nudged(0.1, rng)) for e in chains[k].emissions]
        chains.append(chains[k]._replace(emissions=emissions))
    return chains


def _spread_out(
    base: BaseModels, weights: FloatArray, shape: CenterShape, rng: np.random.Generator, n_threads: int
) -> tuple[IntArray, list[IntArray]]:
    """Return inputs chosen by divergence, and around each the inputs nearest to it.

    The greedy form of k-means++: of a few candidates drawn, the one that brings all inputs closest to a seed is kept.
    Large collections are represented by a sample.
    """
    pool = np.arange(len(weights))
    if len(pool) > (n := max(_POOL, _POOL_PER_CLUSTER * shape.n_clusters)):
        pool = np.sort(rng.choice(pool, n, replace=False))
    models, weights = base.models.take(pool), weights[pool]
    to_self = base.to_self[pool] if len(pool) == len(base.counts) else base.take(pool).to_self

    def distances(candidates: IntArray) -> FloatArray:
        J = expected_log_likelihood(models, models.take(candidates), base.tau, n_threads=n_threads)
        return np.maximum(to_self[:, None] - J, 0.0)

    chosen = np.array([weighted_choice(weights, rng, [])])
    distance, nearest = distances(chosen)[:, 0], np.zeros(len(pool), dtype=np.int64)
    n_candidates = 2 + int(np.log(shape.n_clusters))
    while len(chosen) < min(shape.n_clusters, len(pool)):
        distance[chosen] = 0.0
        candidates = np.unique([weighted_choice(weights * distance, rng, chosen) for _ in range(n_candidates)])
        closer = np.minimum(distance[:, None], distances(candidates))
        best = int(np.argmin(weights @ closer))
        nearest[closer[:, best] < distance] = len(chosen)
        distance = closer[:, best]
        nearest[candidates[best]] = len(chosen)  # a seed belongs to itself, even among duplicates
        chosen = np.append(chosen, candidates[best])
    return pool[chosen], [pool[nearest == c] for c in range(len(chosen))]


def _centers_of_group(
    base: BaseModels, weights: FloatArray, group: IntArray, shape: CenterShape, rng: np.random.Generator, n: int = 1
) -> list[Chain]:
    """Return centres whose states are reductions of all emissions of a group, from several starts."""
    members = base.models.take(group)
    flow = weights[group, None] * base.visits[group]  # how much of the group's time each state takes
    pooled, owner = _pooled_emissions(members, flow)

    def center(states: Mixture, label: IntArray) -> Chain:
        n_states = len(states.weights)
        emissions = [_emission(states, pooled.take(label == s), s, shape.n_mix, rng) for s in range(n_states)]
        goes_to = np.zeros((*flow.shape, n_states))
        np.add.at(goes_to, (owner[:, 0], owner[:, 1], label), pooled.weights)
        goes_to /= np.maximum(goes_to.sum(-1, keepdims=True), np.finfo(float).tiny)
        start = np.einsum("i,ib,ibr->r", weights[group], members.startprob, goes_to)
        trans = np.einsum("ib,ibr,ibg,igs->rs", flow, goes_to, members.transmat, goes_to, optimize=True)
        chain = Chain(_blurred(start), _blurred(trans), states.weights, emissions)
        return resize(chain, shape.n_states, shape.n_mix)

    return [center(*found) for found in _group_emissions(pooled, owner, shape, rng, n)]


def _pooled_emissions(members: Models, flow: FloatArray) -> tuple[Mixture, IntArray]:
    """Return all components of all states with the time spent in them, and the (member, state) each belongs to."""
    share = flow[:, :, None] * members.mix_weights
    real = np.argwhere(share > 0)
    at = tuple(real.T)
    return Mixture(share[at], members.components.take(at)), real[:, :2]


def _group_emissions(
    pooled: Mixture, owner: IntArray, shape: CenterShape, rng: np.random.Generator, n: int
) -> list[tuple[Mixture, IntArray]]:
    """Return components for the states of a centre, and the state that each of the pooled ones goes to, n times.

    If centres have several components per state, those of one state of an input stay together: VHEM never separates
    them.
    """
    if shape.n_mix == 1:
        return reductions(pooled, shape.n_states, rng, n)
    number = np.unique(owner, axis=0, return_inverse=True)[1].ravel()
    found = reductions(pooled.grouped(number), shape.n_states, rng, n)
    return [(states, label[number]) for states, label in found]


def _emission(states: Mixture, parts: Mixture, s: int, n_mix: int, rng: np.random.Generator) -> Mixture:
    """Return the mixture of state s, made from what was assigned to it; one component or an empty state stays."""
    if n_mix > 1 and len(parts.weights):
        mixture = reduce_mixture(parts, n_mix, rng)[0]
        return resize_mixture(mixture.take(mixture.weights > 0), n_mix)
    return resize_mixture(Mixture(np.ones(1), states.components.take(slice(s, s + 1))), n_mix)


def _blurred(counts: FloatArray) -> FloatArray:
    total = counts.sum(-1, keepdims=True)
    n = counts.shape[-1]
    rows = np.where(total > 0, counts / np.where(total > 0, total, 1.0), 1.0 / n)
    return np.asarray((1 - _BLUR) * rows + _BLUR / n)
