"""HMMs with more or fewer states, or Gaussians a state, that stay close to what they were: for starting points."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vhem._support.arrays import FloatArray, IntArray
from vhem.em.reduce import Gaussians
from vhem.kernels.parameters import Parameters
from vhem.kernels.reduction import expected_visits

_SPLIT = 0.5  # the two halves of a split Gaussian move apart by this many standard deviations each


class Chain(NamedTuple):
    """One HMM without padding, and how often each of its states is visited."""

    startprob: FloatArray
    transmat: FloatArray
    visits: FloatArray
    emissions: list[Gaussians]

    @staticmethod
    def of(models: Parameters, k: int, tau: int) -> Chain:
        """Cut model k out of `models`, without components of weight zero."""
        S = int(models.n_states[k])
        visits = expected_visits(models.take(slice(k, k + 1)), tau)[0, :S]
        emissions = []
        for s in range(S):
            used = models.mix_weights[k, s] > 0
            arrays = (models.mix_weights[k, s], models.means[k, s], models.covars[k, s])
            emissions.append(Gaussians(*(array[used] for array in arrays)))
        return Chain(models.startprob[k, :S], models.transmat[k, :S, :S], visits, emissions)


def resize(chain: Chain, n_states: int, n_mix: int) -> Chain:
    """Return the chain with states merged or split, then Gaussians merged or split, until the numbers fit."""
    while len(chain.visits) > n_states:
        chain = _merge_two_states(chain)
    while len(chain.visits) < n_states:
        chain = _split_state(chain, int(np.argmax(chain.visits)))
    return chain._replace(emissions=[resize_mixture(mixture, n_mix) for mixture in chain.emissions])


def resize_mixture(mixture: Gaussians, n: int) -> Gaussians:
    """Return a mixture of exactly n Gaussians."""
    while len(mixture.weights) > n:
        a, b = _closest(mixture)
        mixture = grouped(mixture, np.where(np.arange(len(mixture.weights)) == b, a, np.arange(len(mixture.weights))))
    while len(mixture.weights) < n:
        mixture = _split_gaussian(mixture, int(np.argmax(mixture.weights)))
    return mixture


def stack(chains: list[Chain]) -> Parameters:
    """Return chains of equal size as stacked arrays."""
    return Parameters(
        np.stack([c.startprob for c in chains]),
        np.stack([c.transmat for c in chains]),
        np.stack([[e.weights for e in c.emissions] for c in chains]),
        np.stack([[e.means for e in c.emissions] for c in chains]),
        np.stack([[e.covars for e in c.emissions] for c in chains]),
        np.array([len(c.visits) for c in chains], dtype=np.int64),
    )


def moments(mixture: Gaussians) -> tuple[FloatArray, FloatArray]:
    """Return mean and covariance of a mixture as a whole."""
    total, n = mixture.weights.sum(), len(mixture.weights)
    w = mixture.weights / total if total > 0 else np.full(n, 1 / n)
    mean = w @ mixture.means
    difference = mixture.means - mean
    if mixture.covars.ndim == 2:
        return mean, w @ (mixture.covars + difference**2)
    outer = difference[:, :, None] * difference[:, None, :]
    return mean, np.tensordot(w, mixture.covars + outer, 1)


def grouped(mixture: Gaussians, labels: IntArray) -> Gaussians:
    """Replace the Gaussians of each label by one with their moments."""
    parts = [Gaussians(*(array[labels == label] for array in mixture)) for label in np.unique(labels)]
    pairs = [moments(part) for part in parts]
    return Gaussians(
        np.array([part.weights.sum() for part in parts]),
        np.stack([mean for mean, _ in pairs]),
        np.stack([covar for _, covar in pairs]),
    )


def _closest(mixture: Gaussians) -> tuple[int, int]:
    """Return the pair whose merging loses least, by Runnalls' bound ½[w_ab log|Σ_ab| - w_a log|Σ_a| - w_b log|Σ_b|]."""
    n, best, pair = len(mixture.weights), np.inf, (0, 1)
    weighted = mixture.weights * _log_det(mixture.covars)
    for a in range(n):
        for b in range(a + 1, n):
            two = Gaussians(*(array[[a, b]] for array in mixture))
            loss = two.weights.sum() * _log_det(moments(two)[1][None])[0] - weighted[a] - weighted[b]
            if loss < best:
                best, pair = loss, (a, b)
    return pair


def _log_det(covars: FloatArray) -> FloatArray:
    return np.asarray(np.log(covars).sum(-1) if covars.ndim == 2 else np.linalg.slogdet(covars)[1])


def _merge_two_states(chain: Chain) -> Chain:
    pairs = [moments(mixture) for mixture in chain.emissions]
    summary = Gaussians(chain.visits, np.stack([mean for mean, _ in pairs]), np.stack([cov for _, cov in pairs]))
    a, b = _closest(summary)
    share = chain.visits[[a, b]]
    share = share / share.sum() if share.sum() > 0 else np.full(2, 0.5)
    rows = chain.transmat.copy()
    rows[a] = share @ chain.transmat[[a, b]]
    rows[:, a] += rows[:, b]
    keep = np.arange(len(rows)) != b
    start, visits = chain.startprob.copy(), chain.visits.copy()
    start[a] += start[b]
    visits[a] += visits[b]
    parts = [chain.emissions[a], chain.emissions[b]]
    pooled = Gaussians(
        np.concatenate([s * part.weights for s, part in zip(share, parts, strict=True)]),
        np.concatenate([part.means for part in parts]),
        np.concatenate([part.covars for part in parts]),
    )
    emissions = [pooled if s == a else mixture for s, mixture in enumerate(chain.emissions)]
    return Chain(start[keep], rows[keep][:, keep], visits[keep], [e for e, k in zip(emissions, keep, strict=True) if k])


def _split_state(chain: Chain, s: int) -> Chain:
    """Two states for one: entered equally often, left alike, their means apart."""
    order = np.append(np.arange(len(chain.visits)), s)
    half = np.where(order == s, 0.5, 1.0)
    emissions = [chain.emissions[o] for o in order]
    for place, sign in ((s, -1.0), (-1, 1.0)):
        _, covar = moments(chain.emissions[s])
        means = chain.emissions[s].means + sign * _SPLIT * _principal_deviation(covar)
        emissions[place] = chain.emissions[s]._replace(means=means)
    return Chain(
        chain.startprob[order] * half, chain.transmat[order][:, order] * half, chain.visits[order] * half, emissions
    )


def _split_gaussian(mixture: Gaussians, m: int) -> Gaussians:
    order = np.append(np.arange(len(mixture.weights)), m)
    weights = mixture.weights[order] * np.where(order == m, 0.5, 1.0)
    means = mixture.means[order]
    deviation = _SPLIT * _principal_deviation(mixture.covars[m])
    means[m] -= deviation
    means[-1] += deviation
    return Gaussians(weights, means, mixture.covars[order])


def _principal_deviation(covar: FloatArray) -> FloatArray:
    """Return one standard deviation along the widest axis."""
    if covar.ndim == 1:
        return np.where(np.arange(len(covar)) == np.argmax(covar), np.sqrt(covar), 0.0)
    values, vectors = np.linalg.eigh(covar)
    return np.asarray(vectors[:, -1] * np.sqrt(values[-1]))
