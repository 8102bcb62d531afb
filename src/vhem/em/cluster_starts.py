"""Where VHEM starts: centres made from the inputs, in several ways."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from vhem._support.arrays import FloatArray, IntArray
from vhem.em.reduce import Gaussians, reduce_gaussians, weighted_choice
from vhem.em.resize import Chain, grouped, resize, resize_mixture, stack
from vhem.kernels.parameters import Parameters
from vhem.kernels.reduction import BaseModels, expected_log_likelihood, self_log_likelihood

_BLUR = 0.02  # of every probability row made from counts: a transition nobody happened to make stays possible
_POOL, _POOL_PER_CLUSTER = 2000, 20  # inputs that seeds are chosen from: the larger of this, and so many per cluster


class Shape(NamedTuple):
    """What the centres are to be."""

    n_clusters: int
    n_states: int
    n_mix: int


Start = Callable[[BaseModels, FloatArray, Shape, np.random.Generator, int], Parameters]


def start_from_base(
    base: BaseModels, weights: FloatArray, shape: Shape, rng: np.random.Generator, n_threads: int
) -> Parameters:
    """Take distinct inputs drawn by weight, each shrunk or grown to the wanted size."""
    del n_threads
    K = min(shape.n_clusters, len(weights))
    chosen = rng.choice(len(weights), size=K, replace=False, p=weights)
    return _as_centers(base, chosen, shape, rng)


def start_kmeans_plus_plus(
    base: BaseModels, weights: FloatArray, shape: Shape, rng: np.random.Generator, n_threads: int
) -> Parameters:
    """Take inputs far from one another: each drawn in proportion to its divergence from those before it."""
    return _as_centers(base, _spread_out(base, weights, shape, rng, n_threads)[0], shape, rng)


def start_from_emissions(
    base: BaseModels, weights: FloatArray, shape: Shape, rng: np.random.Generator, n_threads: int
) -> Parameters:
    """Make groups around inputs far from one another; a group's states are its pooled emissions, reduced by HEM.

    Where states have several Gaussians, HEM makes these of the emissions that went to the state.
    """
    groups = _spread_out(base, weights, shape, rng, n_threads)[1]
    chains = [_center_of_group(base, weights, group, shape, rng) for group in groups]
    return stack(_fill_up(chains, shape, rng))


STARTS: dict[str, Start] = {
    "kmeans++": start_kmeans_plus_plus,
    "emissions": start_from_emissions,
    "base": start_from_base,
}


def _as_centers(base: BaseModels, chosen: IntArray, shape: Shape, rng: np.random.Generator) -> Parameters:
    chains = [Chain.of(base.parameters, int(k), base.tau) for k in chosen]
    return stack(_fill_up([resize(chain, shape.n_states, shape.n_mix) for chain in chains], shape, rng))


def _fill_up(chains: list[Chain], shape: Shape, rng: np.random.Generator) -> list[Chain]:
    """More clusters than inputs: repeat centres with their means moved a little."""
    for k in range(shape.n_clusters - len(chains)):
        chains.append(chains[k]._replace(emissions=[_jittered(e, rng) for e in chains[k].emissions]))
    return chains


def _jittered(mixture: Gaussians, rng: np.random.Generator) -> Gaussians:
    variances = mixture.covars if mixture.covars.ndim == 2 else np.diagonal(mixture.covars, axis1=1, axis2=2)
    return mixture._replace(means=mixture.means + 0.1 * np.sqrt(variances) * rng.standard_normal(mixture.means.shape))


def _spread_out(
    base: BaseModels, weights: FloatArray, shape: Shape, rng: np.random.Generator, n_threads: int
) -> tuple[IntArray, list[IntArray]]:
    """Return inputs chosen by divergence, and around each the inputs nearest to it.

    The greedy form of k-means++: of a few candidates drawn, the one that brings all inputs closest to a seed is kept.
    Large collections are represented by a sample.
    """
    pool = np.arange(len(weights))
    if len(pool) > (n := max(_POOL, _POOL_PER_CLUSTER * shape.n_clusters)):
        pool = np.sort(rng.choice(pool, n, replace=False))
    models, weights = base.parameters.take(pool), weights[pool]
    to_self = self_log_likelihood(models, base.tau, n_threads=n_threads)

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
        nearest[candidates[best]] = len(chosen)  # a seed is its own, even among twins
        chosen = np.append(chosen, candidates[best])
    return pool[chosen], [pool[nearest == c] for c in range(len(chosen))]


def _center_of_group(
    base: BaseModels, weights: FloatArray, group: IntArray, shape: Shape, rng: np.random.Generator
) -> Chain:
    members = base.parameters.take(group)
    flow = weights[group, None] * base.occupancy[group]  # how much of the group's time each state takes
    pooled, owner = _pooled_emissions(members, flow)
    states, label = _group_emissions(pooled, owner, shape, rng)
    n = len(states.weights)
    wholes = [Gaussians(np.ones(1), states.means[s : s + 1], states.covars[s : s + 1]) for s in range(n)]
    parts = [Gaussians(*(array[label == s] for array in pooled)) for s in range(n)]
    emissions = [_emission(*both, shape.n_mix, rng) for both in zip(wholes, parts, strict=True)]
    goes_to = np.zeros((*flow.shape, n))
    np.add.at(goes_to, (owner[:, 0], owner[:, 1], label), pooled.weights)
    goes_to /= np.maximum(goes_to.sum(-1, keepdims=True), np.finfo(float).tiny)
    start = np.einsum("i,ib,ibr->r", weights[group], members.startprob, goes_to)
    trans = np.einsum("ib,ibr,ibg,igs->rs", flow, goes_to, members.transmat, goes_to, optimize=True)
    chain = Chain(_blurred(start), _blurred(trans), states.weights, emissions)
    return resize(chain, shape.n_states, shape.n_mix)


def _pooled_emissions(members: Parameters, flow: FloatArray) -> tuple[Gaussians, IntArray]:
    """Return all Gaussians of all states with the time spent in them, and the (member, state) each belongs to."""
    share = flow[:, :, None] * members.mix_weights
    real = np.argwhere(share > 0)
    at = tuple(real.T)
    return Gaussians(share[at], members.means[at], members.covars[at]), real[:, :2]


def _group_emissions(
    pooled: Gaussians, owner: IntArray, shape: Shape, rng: np.random.Generator
) -> tuple[Gaussians, IntArray]:
    """Return a Gaussian for each state of the centre, and the state that each of the pooled ones goes to.

    Where centres have several Gaussians a state, those of one state of an input go the same way: VHEM will never part
    them.
    """
    if shape.n_mix == 1:
        return reduce_gaussians(pooled, shape.n_states, rng)
    number = np.unique(owner, axis=0, return_inverse=True)[1].ravel()
    states, label = reduce_gaussians(grouped(pooled, number), shape.n_states, rng)
    return states, label[number]


def _emission(whole: Gaussians, parts: Gaussians, n_mix: int, rng: np.random.Generator) -> Gaussians:
    """Return the mixture of a state: made of what went to it; one Gaussian, or a state of nothing, stays as it was."""
    mixture = reduce_gaussians(parts, n_mix, rng)[0] if n_mix > 1 and len(parts.weights) else whole
    used = mixture.weights > 0
    return resize_mixture(Gaussians(*(array[used] for array in mixture)), n_mix)


def _blurred(counts: FloatArray) -> FloatArray:
    total = counts.sum(-1, keepdims=True)
    n = counts.shape[-1]
    rows = np.where(total > 0, counts / np.where(total > 0, total, 1.0), 1.0 / n)
    return np.asarray((1 - _BLUR) * rows + _BLUR / n)
