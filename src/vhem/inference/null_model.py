"""Data as they would be with fewer clusters: people who vary about the centres, as much as they do in the data."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from vhem._support.arrays import FloatArray, IntArray
from vhem.em.grouped import Batch
from vhem.em.loop import Limits, run
from vhem.em.random_effects import Effects, VaryingItems
from vhem.em.random_effects_full import FullVaryingItems
from vhem.emissions import Gaussian
from vhem.inference.pipeline import Fitted, Study
from vhem.inference.varying_people import Variety, learned_variety, varied_rows
from vhem.kernels.models import Models
from vhem.models.sampling import sample

_ITERATIONS = 30  # of learning how much people vary; the centres are known
_ROUNDS, _DRAWS = 4, 6  # of finding the spread that gives what was learned
_STEP, _MOST = 1.0, 10.0  # of its logarithm at a time, and in all
_FLOOR = 1e-3  # of the data's variance, as in SequenceClustering


class NullModel(NamedTuple):
    """Centres, and how much people vary about them."""

    study: Study
    weights: FloatArray  #: (K,)
    centers: Effects | Variety

    def draw(self, rng: np.random.Generator) -> Study:
        """Return a study of the same size: as many people, with sequences as long, and gaps in the same places."""
        b, centers = self.study.batch, self.centers
        kinds = rng.choice(len(self.weights), size=self.study.n, p=self.weights)
        people = centers.people(kinds, rng) if isinstance(centers, Variety) else _people(centers, kinds, rng)
        X, _ = sample(people, b.groups, b.lengths, rng)
        return self.study._replace(batch=b._replace(X=np.where(np.isnan(b.X), np.nan, X)))


def null_model(study: Study, fitted: Fitted) -> NullModel:
    """Learn how much people vary about the centres of a clustering."""
    models, weights = fitted.centers.parameters, np.maximum(fitted.centers.weights, 1e-6)
    weights = weights / weights.sum()
    gaussian = models.components
    if not isinstance(gaussian, Gaussian) or models.shape[2] > 1:
        return NullModel(study, weights, _variety(study, weights, models))
    problem = _problem(study, gaussian.covars.ndim > gaussian.means.ndim)
    effects = _learned(problem, models, weights)
    return NullModel(study, weights, effects._replace(spread=_unbiased_spread(study, weights, models, effects)))


def _variety(study: Study, weights: FloatArray, models: Models) -> Variety:
    def drawn(variety: Variety, rng: np.random.Generator) -> Batch:
        return NullModel(study, weights, variety).draw(rng).batch

    return learned_variety(study.batch, models, weights, drawn)


def _problem(study: Study, full: bool) -> VaryingItems:
    kind = FullVaryingItems if full else VaryingItems
    return kind(batch=study.batch, floor=_FLOOR * np.nanvar(study.batch.X, axis=0))


def _learned(problem: VaryingItems, models: Models, weights: FloatArray) -> Effects:
    done = run(problem, problem.begin(models, weights), Limits(max_iter=_ITERATIONS, tol=1e-5))
    centers: Effects = done.state.centers
    return centers


def _unbiased_spread(study: Study, weights: FloatArray, models: Models, learned: Effects) -> FloatArray:
    """Return the spread of people's means under which data would give the spread that was learned.

    What is learned from few sequences per person is too small, because states and means explain each other. Data drawn
    with it would vary less than those of the study, and everything about the study would look significant.
    """
    scale, seed = 1.0, 0
    for _ in range(_ROUNDS):
        null = NullModel(study, weights, learned._replace(spread=scale * learned.spread))
        rng = np.random.default_rng(seed)  # the same draws in every round, so that only the spread changes
        drawn = [null.draw(rng) for _ in range(_DRAWS)]
        found = [_learned(_problem(one, learned.variances.ndim == 4), models, weights) for one in drawn]
        logs = [np.log(_amount(one.spread)) for one in found]
        scale *= float(np.exp(np.clip(np.log(_amount(learned.spread)) - np.mean(logs), -_STEP, _STEP)))
        scale = min(max(scale, 1 / _MOST), _MOST)
    return np.asarray(scale * learned.spread)


def _amount(spread: FloatArray) -> float:
    return float((np.einsum("...aa->...a", spread) if spread.ndim == 4 else spread).mean())


def _people(c: Effects, kinds: IntArray, rng: np.random.Generator) -> Models:
    """Return an HMM for each person: a centre, and a draw of how the person deviates from it."""
    n, S = len(kinds), c.startprob.shape[1]
    means, covars = _full(c, kinds, rng) if c.variances.ndim == 4 else _diagonal(c, kinds, rng)
    trans = varied_rows(c.loyalty, c.transmat[kinds], rng)
    gaussian = Gaussian(means[:, :, None], covars[:, :, None])
    return Models(c.startprob[kinds], trans, np.ones((n, S, 1)), gaussian, np.full(n, S, dtype=np.int64))


def _diagonal(c: Effects, kinds: IntArray, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    means = c.means[kinds] + np.sqrt(c.spread[kinds]) * rng.standard_normal(c.means[kinds].shape)
    precision = rng.standard_gamma(c.alike / 2, size=means.shape) * 2 / (c.alike * c.variances[kinds])
    return means, 1 / precision


def _full(c: Effects, kinds: IntArray, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Draw means and, from a Wishart distribution by Bartlett's decomposition, precisions."""
    shape, d = c.means[kinds].shape, c.means.shape[-1]
    means = np.asarray(c.means[kinds] + _times(np.linalg.cholesky(c.spread[kinds]), rng.standard_normal(shape)))
    lower = np.tril(rng.standard_normal((*shape, d)), -1)
    diagonal = np.sqrt(2 * rng.standard_gamma((c.alike - np.arange(d)) / 2, size=shape))
    lower = lower + diagonal[..., None] * np.eye(d)
    scale = np.linalg.cholesky(np.linalg.inv(c.alike * c.variances[kinds]))
    root = scale @ lower
    covars = np.linalg.inv(root @ np.swapaxes(root, -1, -2))
    return means, (covars + np.swapaxes(covars, -1, -2)) / 2


def _times(matrix: Any, vector: FloatArray) -> FloatArray:
    return np.asarray((matrix @ vector[..., None])[..., 0])
