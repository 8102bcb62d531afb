"""Mixtures of HMMs learned from sequences, one mixture or many at once, as a problem of EM.

Sequences belong to items, which are assigned as a whole: all sequences of a person, all samples of an HMM, or each
sequence on its own. Items belong to mixtures: one for all, or a small one for every song. With a_i the weight of an
item and w_n that of a sequence inside it, the objective of a mixture is

    Σ_i a_i log Σ_k ω_k Π_{n of i} p(y_n | HMM k)^w_n  +  the log prior.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from vhem._support.arrays import FloatArray, IntArray, log_sum_and_softmax
from vhem.em.grouped import Batch
from vhem.em.loop import Problem, Step
from vhem.kernels.counting import Pairs, expectations, log_likelihoods
from vhem.kernels.maximise import Prior, maximise
from vhem.kernels.models import Models, ModelSums

_NEGLIGIBLE = 1e-16  # responsibility, relative to a cluster's average, below which a sequence does not affect its sums
_DEAD = 1e-100  # share of all items below which an HMM is no longer learned: its sums would soon lose all their digits


class Items(NamedTuple):
    """How sequences are assigned."""

    item: IntArray  #: (n,) the item of each sequence
    inside: FloatArray  #: (n,) w_n, how often a sequence counts in its item
    weights: FloatArray  #: (I,) a_i
    mixture: IntArray  #: (I,) the mixture of each item

    @staticmethod
    def single(batch: Batch, mixture: IntArray | None = None) -> Items:
        """Each sequence on its own, counted by its weight."""
        n = len(batch.groups)
        mixture = np.zeros(n, dtype=np.int64) if mixture is None else mixture
        return Items(np.arange(n), np.ones(n), batch.weights, mixture)

    def totals(self, scores: FloatArray) -> FloatArray:
        """Return Σ_n w_n scores of every item, (I, K)."""
        if len(self.weights) == len(self.item):  # each on its own: nothing to add up
            return scores * self.inside[:, None]
        weighted = (scores * self.inside[:, None]).T
        return np.stack([np.bincount(self.item, row, len(self.weights)) for row in weighted], axis=1)


class Mixtures(NamedTuple):
    """G mixtures of K HMMs; HMM k of mixture g is number g · K + k."""

    models: Models
    weights: FloatArray  #: (G, K)


class Assigned(NamedTuple):
    """What an E-step leaves."""

    bounds: FloatArray  #: (G,) objectives
    scores: FloatArray  #: (I,) log-likelihoods of the items under their mixtures
    responsibilities: FloatArray  #: (I, K)


@dataclass(frozen=True, kw_only=True)
class MixtureProblem(Problem[Mixtures, Assigned]):
    """Sequences, items and priors."""

    batch: Batch
    items: Items
    prior: Prior  #: of all HMMs
    n_components: int
    strict: bool
    n_threads: int

    @cached_property
    def frames(self) -> FloatArray:  # type: ignore[override]
        """Weighted frames of each mixture."""
        each = self.items.weights[self.items.item] * self.items.inside * self.batch.lengths
        n_mixtures = len(self.prior.start) // self.n_components
        return np.asarray(np.bincount(self.items.mixture[self.items.item], each, n_mixtures), np.float64)

    def name(self, row: np.int64) -> str:
        """Return the name of the objective, for messages."""
        del row
        return "the log-likelihood"

    @cached_property
    def _pairs(self) -> Pairs:
        """Every sequence under every HMM of its mixture, one k after another, with neighbours of similar length."""
        order = np.argsort(self.batch.lengths, kind="stable").astype(np.int64)
        mixture = self.items.mixture[self.items.item[order]]
        models = [mixture * self.n_components + k for k in range(self.n_components)]
        return Pairs(np.tile(order, self.n_components), np.concatenate(models))

    @cached_property
    def _pairs_of_model(self) -> IntArray:
        return np.maximum(np.bincount(self._pairs.model, minlength=len(self.prior.start)), 1)

    def e_step(self, state: Mixtures) -> Assigned:
        """Return the objectives and the responsibilities of every item."""
        made = self.assigned(state)
        penalty = self.prior.log_density(state.models).reshape(-1, self.n_components).sum(axis=1)
        return made._replace(bounds=made.bounds + penalty)

    def assigned(self, state: Mixtures) -> Assigned:
        """Return the same without the prior."""
        batch, items, pairs, K = self.batch, self.items, self._pairs, self.n_components
        found = log_likelihoods(state.models, batch.X, batch.offsets, pairs, self.n_threads).reshape(K, -1)
        scores = np.empty((len(batch.lengths), K))
        scores[pairs.sequence[: len(scores)]] = found.T
        with np.errstate(divide="ignore"):
            logits = items.totals(scores) + np.log(state.weights[items.mixture])
        total, shares = log_sum_and_softmax(logits)
        bounds = np.bincount(items.mixture, items.weights * total, len(state.weights)).astype(np.float64)
        return Assigned(bounds, total, shares)

    def count(self, state: Mixtures, expected: Assigned, anchors: Any) -> ModelSums:
        """Return the sums, in which every statistic of a sequence counts by its item's responsibility."""
        pairs, items = self._pairs, self.items
        share = (expected.responsibilities * items.weights[:, None])[items.item] * items.inside[:, None]
        w = share[pairs.sequence[: len(share)]].T.ravel()
        mass = np.bincount(pairs.model, w, len(state.models))
        total = mass.reshape(-1, self.n_components).sum(axis=1)
        alive = mass > _DEAD * np.repeat(total, self.n_components)
        negligible = np.where(alive, _NEGLIGIBLE * mass / self._pairs_of_model, np.inf)
        shows = np.flatnonzero(w > negligible[pairs.model])
        data = (self.batch.X, self.batch.offsets, pairs.take(shows), w[shows], self.n_threads)
        return expectations(state.models, *data, anchors).sums

    def mass(self, expected: Assigned) -> FloatArray:
        """Return Σ_i a_i z_ik of every HMM, (G, K)."""
        items, z = self.items, expected.responsibilities
        n = len(self.prior.start) // self.n_components
        return np.stack([np.bincount(items.mixture, items.weights * row, n) for row in z.T], axis=1)

    def m_step(self, state: Mixtures, expected: Assigned, sums: ModelSums, anchors: Any) -> Step:
        """Return the HMMs and weights that the sums make most likely."""
        update = maximise(sums, state.models, self.prior, anchors)
        if update.far and anchors is None:
            return Step(state, update.models.components)
        mass = self.mass(expected)
        return Step(Mixtures(update.models, mass / mass.sum(axis=1, keepdims=True)))

    def take(self, state: Mixtures, expected: Assigned, rows: IntArray) -> tuple[MixtureProblem, Mixtures, Assigned]:
        """Return some of the mixtures, with their items and sequences."""
        hmms = (rows[:, None] * self.n_components + np.arange(self.n_components)).ravel()
        place = np.full(len(state.weights), -1)
        place[rows] = np.arange(len(rows))
        kept_items = np.flatnonzero(place[self.items.mixture] >= 0)
        number = np.full(len(self.items.mixture), -1)
        number[kept_items] = np.arange(len(kept_items))
        kept = np.flatnonzero(number[self.items.item] >= 0)
        item = number[self.items.item[kept]]
        batch = self.batch.cut(kept, self.batch.lengths[kept], item, list(range(len(kept_items))))
        mixture = place[self.items.mixture[kept_items]]
        items = Items(item, self.items.inside[kept], self.items.weights[kept_items], mixture)
        problem = replace(self, batch=batch, items=items, prior=self.prior.take(hmms))
        assigned = (expected.bounds[rows], expected.scores[kept_items], expected.responsibilities[kept_items])
        return problem, Mixtures(state.models.take(hmms), state.weights[rows]), Assigned(*assigned)
