"""HEM for mixtures of any family (Vasconcelos and Lippman): VHEM on HMMs of one state and sequences of one frame."""

from __future__ import annotations

import numpy as np

from vhem._support.arrays import BoolArray, FloatArray, IntArray
from vhem._support.checks import check_in_range
from vhem.em.loop import Limits
from vhem.em.reduction import Centers, ReductionProblem
from vhem.em.resize import Mixture
from vhem.em.restarts import run_together
from vhem.em.sharding import Shards
from vhem.kernels.models import Models
from vhem.kernels.reduction import BaseModels, Shortcuts

_NO_WEIGHT = 1e-12  # of the heaviest: what is lighter changes nothing


def reduce_mixture(
    mixture: Mixture, n_components: int, rng: np.random.Generator, n_virtual: float = 20.0, max_iter: int = 50
) -> tuple[Mixture, IntArray]:
    """Return a mixture of at most `n_components` that represents `mixture`, and the component each was assigned to."""
    return reductions(mixture, n_components, rng, 1, n_virtual, max_iter)[0]


def reductions(
    mixture: Mixture, n_components: int, rng: np.random.Generator, n_starts: int, n_virtual: float = 20.0,
    max_iter: int = 50,
) -> list[tuple[Mixture, IntArray]]:  # fmt: skip
    """Return what `reduce_mixture` makes from several starts."""
    kept = mixture.weights > _NO_WEIGHT * mixture.weights.max()
    counts = n_virtual * kept.sum() * mixture.weights[kept] / mixture.weights.sum()
    models = _one_state(mixture.take(kept))
    shards = Shards.of(BaseModels(models, np.ones((len(counts), 1)), counts, counts, tau=1))
    points, n = models.components.centre()[:, 0, 0], min(n_components, len(counts))
    chosen = [_seed(points, counts, n, rng) for _ in range(n_starts)]
    starts = [Centers(models.take(seeds), np.full(n, 1 / n)) for seeds in chosen]
    runs = run_together(ReductionProblem(base=shards), starts, Limits(max_iter=max_iter, tol=1e-4))
    return [_assigned(shards, one.state, kept) for one in runs]


def _assigned(shards: Shards, made: Centers, kept: BoolArray) -> tuple[Mixture, IntArray]:
    z = shards.e_step(made.models, made.weights, Shortcuts(), want_responsibilities=True).responsibilities
    assert z is not None
    labels = np.zeros(len(kept), dtype=np.int64)
    labels[kept] = z.argmax(1)
    return Mixture(made.weights, made.models.components.take((slice(None), 0, 0))), labels


def _one_state(mixture: Mixture) -> Models:
    n = len(mixture.weights)
    ones = np.ones((n, 1))
    components = mixture.components.map(np.ascontiguousarray).reshaped(n, 1, 1)
    return Models(ones, ones[:, :, None], ones[:, :, None], components, np.ones(n, dtype=np.int64))


def _seed(points: FloatArray, weights: FloatArray, n: int, rng: np.random.Generator) -> IntArray:
    """k-means++ on the centres, in units of their spread."""
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
