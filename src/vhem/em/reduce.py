"""HEM for Gaussian mixtures (Vasconcelos and Lippman): VHEM on HMMs of one state and sequences of one frame."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vhem._support.arrays import FloatArray, IntArray
from vhem._support.checks import check_in_range
from vhem.em.loop import Settings, run
from vhem.em.sharding import Shards
from vhem.kernels.parameters import Parameters
from vhem.kernels.reduction import BaseModels, Shortcuts

_NO_WEIGHT = 1e-12  # of the heaviest: what is lighter changes nothing


class Gaussians(NamedTuple):
    """A Gaussian mixture: weights (n,), means (n, d), covars (n, d) or (n, d, d)."""

    weights: FloatArray
    means: FloatArray
    covars: FloatArray


def reduce_gaussians(
    gaussians: Gaussians, n_components: int, rng: np.random.Generator, n_virtual: float = 20.0, max_iter: int = 50
) -> tuple[Gaussians, IntArray]:
    """Return a mixture of at most `n_components` that stands for `gaussians`, and the component each went to."""
    kept = gaussians.weights > _NO_WEIGHT * gaussians.weights.max()
    counts = n_virtual * kept.sum() * gaussians.weights[kept] / gaussians.weights.sum()
    parameters = _one_state(Gaussians(*(array[kept] for array in gaussians)))
    base = BaseModels(parameters, np.ones((len(counts), 1)), counts, counts, tau=1)
    chosen = _seed(parameters.means[:, 0, 0], counts, min(n_components, len(counts)), rng)
    weights = np.full(len(chosen), 1 / len(chosen))
    shards = Shards.of(base)
    result = run(shards, parameters.take(chosen), weights, Settings(max_iter, tol=1e-4))
    z = shards.e_step(result.parameters, result.weights, Shortcuts(), want_responsibilities=True).responsibilities
    assert z is not None
    labels = np.zeros(len(kept), dtype=np.int64)
    labels[kept] = z.argmax(1)
    reduced = Gaussians(result.weights, result.parameters.means[:, 0, 0], result.parameters.covars[:, 0, 0])
    return reduced, labels


def _one_state(gaussians: Gaussians) -> Parameters:
    n = len(gaussians.weights)
    ones = np.ones((n, 1))
    return Parameters(
        ones,
        ones[:, :, None],
        ones[:, :, None],
        np.ascontiguousarray(gaussians.means[:, None, None]),
        np.ascontiguousarray(gaussians.covars[:, None, None]),
        np.ones(n, dtype=np.int64),
    )


def _seed(points: FloatArray, weights: FloatArray, n: int, rng: np.random.Generator) -> IntArray:
    """k-means++ on the means, in units of their spread."""
    scaled = (points - points.mean(0)) / np.where(points.std(0) > 0, points.std(0), 1.0)
    chosen = [weighted_choice(weights, rng, [])]
    distance = np.full(len(points), np.inf)
    while len(chosen) < n:
        distance = np.minimum(distance, ((scaled - scaled[chosen[-1]]) ** 2).sum(1))
        distance[chosen] = 0.0
        chosen.append(weighted_choice(weights * distance, rng, chosen))
    return np.array(chosen)


def weighted_choice(weights: FloatArray, rng: np.random.Generator, exclude: IntArray | list[int]) -> int:
    """Draw an index with probability proportional to `weights`; evenly among the rest if none has weight."""
    total = weights.sum()
    check_in_range("a distance between models", total)
    if not total > 0:
        rest = np.setdiff1d(np.arange(len(weights)), exclude)
        return int(rng.choice(rest))
    return int(rng.choice(len(weights), p=weights / total))
