"""HMMs with more or fewer states, or components per state, close to the originals: for starting points."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vhem._support.arrays import FloatArray, IntArray
from vhem.emissions.components import Components, pooled
from vhem.kernels.models import Models
from vhem.kernels.reduction import expected_visits

_SPLIT = 0.5  # the two halves of what is split move apart by this many standard deviations each


class Mixture(NamedTuple):
    """A mixture of n distributions."""

    weights: FloatArray  #: (n,)
    components: Components  #: (n,) of them

    def take(self, index: IntArray | np.ndarray) -> Mixture:
        """Return some of the components."""
        return Mixture(self.weights[index], self.components.take(index))

    def grouped(self, labels: IntArray) -> Mixture:
        """Replace the components of each label by the one that represents them."""
        names, number = np.unique(labels, return_inverse=True)
        weights = np.asarray(np.bincount(number, self.weights, len(names)), np.float64)
        return Mixture(weights, pooled(self.components, self.weights, number, len(names)))

    def whole(self) -> Components:
        """Return the one component that represents the mixture, with a leading axis of length one."""
        return self.grouped(np.zeros(len(self.weights), dtype=np.int64)).components

    @staticmethod
    def joined(parts: list[Mixture]) -> Mixture:
        """Return the components of several mixtures as one."""
        weights = np.concatenate([part.weights for part in parts])
        return Mixture(weights, parts[0].components.joined([part.components for part in parts]))


class Chain(NamedTuple):
    """One HMM without padding, and how often each of its states is visited."""

    startprob: FloatArray
    transmat: FloatArray
    visits: FloatArray
    emissions: list[Mixture]

    @staticmethod
    def of(models: Models, k: int, tau: int) -> Chain:
        """Cut model k out of `models`, without components of weight zero."""
        S = int(models.n_states[k])
        visits = expected_visits(models.take(slice(k, k + 1)), tau)[0, :S]
        states = [Mixture(models.mix_weights[k, s], models.components.take((k, s))) for s in range(S)]
        emissions = [state.take(state.weights > 0) for state in states]
        return Chain(models.startprob[k, :S], models.transmat[k, :S, :S], visits, emissions)


def resize(chain: Chain, n_states: int, n_mix: int) -> Chain:
    """Return the chain with states merged or split, then components merged or split, until the numbers fit."""
    while len(chain.visits) > n_states:
        chain = _merge_two_states(chain)
    while len(chain.visits) < n_states:
        chain = _split_state(chain, int(np.argmax(chain.visits)))
    return chain._replace(emissions=[resize_mixture(mixture, n_mix) for mixture in chain.emissions])


def resize_mixture(mixture: Mixture, n: int) -> Mixture:
    """Return a mixture of exactly n components."""
    while len(mixture.weights) > n:
        a, b = _closest(mixture)
        every = np.arange(len(mixture.weights))
        mixture = mixture.grouped(np.where(every == b, a, every))
    while len(mixture.weights) < n:
        mixture = _split_component(mixture, int(np.argmax(mixture.weights)))
    return mixture


def stack_chains(chains: list[Chain]) -> Models:
    """Return chains of equal size as stacked arrays."""
    whole = Mixture.joined([emission for chain in chains for emission in chain.emissions])
    K, S = len(chains), len(chains[0].visits)
    return Models(
        np.stack([c.startprob for c in chains]),
        np.stack([c.transmat for c in chains]),
        whole.weights.reshape(K, S, -1),
        whole.components.reshaped(K, S, -1),
        np.full(K, S, dtype=np.int64),
    )


def _closest(mixture: Mixture) -> tuple[int, int]:
    """Return the pair whose merging loses least: Σ w [ E log f - E log f_ab ] over its two members f."""
    n, w = len(mixture.weights), mixture.weights
    own = np.diagonal(mixture.components.expected_log_density(mixture.components))
    pairs = [(a, b) for a in range(n) for b in range(a + 1, n)]
    losses = []
    for a, b in pairs:
        two = mixture.take(np.array([a, b]))
        merged = two.components.expected_log_density(two.whole())[:, 0]
        losses.append(w[[a, b]] @ (own[[a, b]] - merged))
    return pairs[int(np.argmin(losses))]


def _merge_two_states(chain: Chain) -> Chain:
    wholes = [mixture.whole() for mixture in chain.emissions]
    a, b = _closest(Mixture(chain.visits, wholes[0].joined(wholes)))
    share = chain.visits[[a, b]]
    share = share / share.sum() if share.sum() > 0 else np.full(2, 0.5)
    rows = chain.transmat.copy()
    rows[a] = share @ chain.transmat[[a, b]]
    rows[:, a] += rows[:, b]
    keep = np.arange(len(rows)) != b
    start, visits = chain.startprob.copy(), chain.visits.copy()
    start[a] += start[b]
    visits[a] += visits[b]
    parts = [
        chain.emissions[s]._replace(weights=w * chain.emissions[s].weights) for s, w in ((a, share[0]), (b, share[1]))
    ]
    emissions = [Mixture.joined(parts) if s == a else mixture for s, mixture in enumerate(chain.emissions)]
    return Chain(start[keep], rows[keep][:, keep], visits[keep], [e for e, k in zip(emissions, keep, strict=True) if k])


def _split_state(chain: Chain, s: int) -> Chain:
    """Two states for one: entered equally often, left alike, their emissions moved apart as a whole."""
    order = np.append(np.arange(len(chain.visits)), s)
    half = np.where(order == s, 0.5, 1.0)
    emissions = [chain.emissions[o] for o in order]
    for place, side in ((s, 0), (-1, 1)):
        mixture = chain.emissions[s]
        emissions[place] = mixture._replace(components=mixture.components.apart(_SPLIT, mixture.whole())[side])
    return Chain(
        chain.startprob[order] * half, chain.transmat[order][:, order] * half, chain.visits[order] * half, emissions
    )


def _split_component(mixture: Mixture, m: int) -> Mixture:
    order = np.append(np.arange(len(mixture.weights)), m)
    weights = mixture.weights[order] * np.where(order == m, 0.5, 1.0)
    one = mixture.components.take(slice(m, m + 1))
    low, high = one.apart(_SPLIT, one)
    components = mixture.components.take(order)
    components.put(slice(m, m + 1), low)
    components.put(slice(-1, None), high)
    return Mixture(weights, components)
