"""People who vary about their cluster's HMM, whatever its states emit, and how much they do.

A person's emissions are drawn from the conjugate distribution that so many frames of the centre would leave, and rows
of transitions from Dirichlet distributions about the centre's: the fewer frames, the more people vary. How many there
are is found by simulation. Frames of all people are counted under the centres; what is sought are numbers with which
simulated people differ as much in these counts as those of the study. So nothing depends on how well people's own
parameters can be learned, and every family of emissions is treated alike.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from vhem._support.arrays import FloatArray, IntArray
from vhem.em.grouped import Batch
from vhem.emissions.components import Components, Sums
from vhem.emissions.conjugate import Conjugate
from vhem.emissions.conjugates import about
from vhem.emissions.linear import LinearFamily
from vhem.emissions.product import Product, sums_of_part
from vhem.emissions.product_conjugate import ProductConjugate
from vhem.kernels.models import Models

_FIRST, _LEAST, _MOST = 50.0, 1.0, 1e5  # frames
_STEPS = (2.0, 1.5, 1.0, 0.75, 0.5, 0.35, 0.25, 0.18, 0.12)  # of their logarithms
_DRAWS = 8  # simulated studies in each step
_TINY = 1e-9


class Variety(NamedTuple):
    """Centres, and how much people vary about them."""

    centers: Models  #: with one component per state
    loyalty: float  #: frames that a row of the transition matrix is worth
    alike: tuple[float, ...]  #: frames that emissions are worth, for each part of a product

    def people(self, kinds: IntArray, rng: np.random.Generator) -> Models:
        """Return an HMM for each person: a centre, and a draw of how the person deviates from it."""
        c = self.centers.take(kinds)
        own = _about(c.components.take((slice(None), slice(None), 0)), self.alike).drawn(rng)
        rows = varied_rows(self.loyalty, c.transmat, rng)
        return Models(c.startprob, rows, c.mix_weights, own.reshaped(*c.shape), c.n_states)


def varied_rows(loyalty: float, rows: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Return rows of probabilities drawn from Dirichlet distributions about some rows."""
    drawn = rng.standard_gamma(np.maximum(loyalty * rows, 0.0)) + 1e-300 * (rows > 0)
    return np.asarray(drawn / drawn.sum(axis=-1, keepdims=True))


def _about(components: Components, n_frames: tuple[float, ...]) -> Conjugate:
    """Return what so many frames of these components would leave open about them, part by part."""
    if not isinstance(components, Product):
        return about(components, n_frames[0])
    parts = [about(part, n) for part, n in zip(components.parts, n_frames, strict=True)]
    return ProductConjugate(parts, components.columns)


def one_component_each(models: Models) -> Models:
    """Return the same HMMs with a state for every component: p(s', m' | s, m) = a_ss' c_s'm'."""
    K, S, M = models.shape
    if M == 1:
        return models
    start = (models.startprob[..., None] * models.mix_weights).reshape(K, S * M)
    rows = models.transmat[..., None] * models.mix_weights[:, None]
    trans = np.repeat(rows.reshape(K, S, S * M), M, axis=1)
    used = (models.mix_weights.reshape(K, S * M, 1) > 0).astype(np.float64)
    return Models(start, trans, used, models.components.reshaped(K, S * M, 1), M * models.n_states)


def learned_variety(
    batch: Batch, centers: Models, weights: FloatArray, draw: Callable[[Variety, np.random.Generator], Batch]
) -> Variety:
    """Return how much people vary; `draw` makes data of people who vary in a given way."""
    models = one_component_each(centers)
    seen = _spreads(batch, models, weights)
    scale = [np.maximum(np.nanmean(part, axis=0), _TINY) for part in seen]
    goal = [float(np.nanmean(part / s)) for part, s in zip(seen, scale, strict=True)]
    logs = np.full(len(goal), np.log(_FIRST))
    for step in _STEPS:
        rng = np.random.default_rng(0)  # the same draws in every step, so that only the amounts change
        now = _of_logs(models, logs)
        drawn = [_spreads(draw(now, rng), models, weights) for _ in range(_DRAWS)]
        found = [np.mean([np.nanmean(one[i] / scale[i]) for one in drawn]) for i in range(len(goal))]
        logs = np.clip(logs + step * np.sign(np.array(found) - goal), np.log(_LEAST), np.log(_MOST))
    return _of_logs(models, logs)


def _of_logs(models: Models, logs: FloatArray) -> Variety:
    loyalty, *alike = (float(n) for n in np.exp(logs))
    return Variety(models, loyalty, tuple(alike))


def _spreads(batch: Batch, models: Models, weights: FloatArray) -> list[FloatArray]:
    """Return how far people are from their centre, squared and per frame: transitions, then emissions part by part.

    One row per person, NaN for states that a person does not visit.
    """
    n, K = len(batch.ids), len(models)
    every = models.take(np.tile(np.arange(K), n))
    scores, sums = batch.item_expectations(every, every.components, np.repeat(np.arange(n), K), 1)
    own = np.arange(n) * K + (scores.reshape(n, K) + np.log(weights)).argmax(axis=1)
    visits = sums.trans[own].sum(axis=-1, keepdims=True)
    chain = _per_frame(sums.trans[own] - visits * every.transmat[own], visits)
    emitted = {name: array[own] for name, array in sums.components.items()}
    return [chain, *_emitted(every.components.take(own), emitted)]


def _emitted(components: Components, sums: Sums) -> list[FloatArray]:
    if isinstance(components, Product):
        return [_emitted(part, sums_of_part(sums, i))[0] for i, part in enumerate(components.parts)]
    if isinstance(components, LinearFamily):
        n = components.observed(sums["statistics"])[..., None]
        return [_per_frame(sums["statistics"] - n * components.expected_statistics(), n)]
    return [_per_frame(sums["first"], sums["count"][..., None])]  # Gaussians: sums about the centre's means


def _per_frame(away: FloatArray, n: FloatArray) -> FloatArray:
    squared = np.where(n > 0.5, away**2 / np.maximum(n, _TINY), np.nan)
    return squared.reshape(len(squared), -1)
