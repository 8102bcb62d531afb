"""Baum-Welch for many HMMs at once, on the engine in use; `reference.counting` has the equations of the E-step."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vhem._support.arrays import FloatArray, IntArray
from vhem.emissions.components import Components
from vhem.emissions.gaussian import Gaussian
from vhem.kernels import compiled
from vhem.kernels.compiled import Iterations
from vhem.kernels.maximise import Prior
from vhem.kernels.models import Models, ModelSums
from vhem.kernels.reference import counting as reference

_FEW = 2  # times fewer pairs than sequences


class Pairs(NamedTuple):
    """Which sequences are seen under which HMMs. Neighbours should be of similar length: they run together."""

    sequence: IntArray  #: (n_pairs,)
    model: IntArray  #: (n_pairs,)

    @staticmethod
    def grouped(lengths: IntArray, groups: IntArray) -> Pairs:
        """Every sequence under the HMM of its group."""
        order = np.argsort(lengths, kind="stable").astype(np.int64)
        return Pairs(order, np.ascontiguousarray(groups[order]))

    @staticmethod
    def crossed(lengths: IntArray, n_models: int) -> Pairs:
        """Every sequence under every HMM, one HMM after another."""
        order = np.argsort(lengths, kind="stable").astype(np.int64)
        return Pairs(np.tile(order, n_models), np.repeat(np.arange(n_models), len(order)))

    @staticmethod
    def owned(lengths: IntArray, groups: IntArray, owners: IntArray) -> Pairs:
        """Every sequence under all HMMs of its group; `owners` has the group of each HMM, in ascending order."""
        first = np.searchsorted(owners, groups)
        n_models = np.searchsorted(owners, groups, side="right") - first
        sequence = np.repeat(np.arange(len(lengths)), n_models)
        place = np.arange(len(sequence)) - np.repeat(np.cumsum(n_models) - n_models, n_models)
        order = np.argsort(lengths[sequence], kind="stable")
        return Pairs(sequence, first[sequence] + place).take(order)

    def take(self, index: np.ndarray) -> Pairs:
        """Return the pairs at `index`."""
        return Pairs(self.sequence[index], self.model[index])

    def alone(self, X: FloatArray, offsets: IntArray) -> tuple[FloatArray, IntArray, Pairs]:
        """Return these pairs with the frames of their own sequences, where there are many others.

        Families other than Gaussians bring frames into another form first, in every E-step.
        """
        if not 0 < _FEW * len(self.sequence) < len(offsets):
            return X, offsets, self
        used, place = np.unique(self.sequence, return_inverse=True)
        lengths = np.diff(offsets)[used]
        ends = np.cumsum(lengths)
        rows = np.arange(ends[-1]) + np.repeat(offsets[used] - (ends - lengths), lengths)
        return X[rows], np.concatenate([[0], ends]), Pairs(place, self.model)


class Counts(NamedTuple):
    """What one E-step of Baum-Welch leaves: γ_t(s), ξ_t(r,s) and u = γ_t(s) η_t(m|s), summed over sequences."""

    log_likelihoods: FloatArray  #: (n_pairs,) log p(y) of every pair, without its weight
    sums: ModelSums  #: Σ w γ_1, Σ w ξ_t, and the family's sums with w u


def log_likelihoods(models: Models, X: FloatArray, offsets: IntArray, pairs: Pairs, n_threads: int = 1) -> FloatArray:
    """Return log p(y | HMM) of every pair, (n_pairs,)."""
    return expectations(models, X, offsets, pairs, np.zeros(len(pairs.model)), n_threads).log_likelihoods


def expectations(
    models: Models,
    X: FloatArray,
    offsets: IntArray,
    pairs: Pairs,
    weights: FloatArray,
    n_threads: int = 1,
    anchors: Components | None = None,
) -> Counts:
    """Return the sums that the M-step needs, over all pairs with their weights, about `anchors` or the models' own.

    The result has the same bits for any number of threads.
    """
    anchors = models.components if anchors is None else anchors
    if not compiled.knows(models):
        return Counts(*reference.expectations(models, X, offsets, *pairs, weights, anchors))
    if not isinstance(models.components, Gaussian):
        X, offsets, pairs = pairs.alone(X, offsets)
    made = compiled.expectations(
        models=models, X=X, offsets=offsets, **pairs._asdict(), weights=weights, anchors=anchors, n_threads=n_threads
    )
    return Counts(*made)


def advance(
    models: Models,
    X: FloatArray,
    offsets: IntArray,
    pairs: Pairs,
    weights: FloatArray,
    prior: Prior,
    iterations: Iterations,
    n_threads: int,
) -> None:
    """Iterate EM inside the compiled engine, in place, for as long as nothing needs closer attention.

    A shortcut for HMMs with one diagonal Gaussian, category or rate per state; others are left as they are.
    """
    if not isinstance(models.components, Gaussian):
        X, offsets, pairs = pairs.alone(X, offsets)
    pairs, weights, suits = _by_model(models, offsets, pairs, weights)
    if suits and compiled.knows_m_step(models):
        compiled.learn(
            models=models, X=X, offsets=offsets, **pairs._asdict(), weights=weights,
            prior=prior, iterations=iterations, n_threads=n_threads,
        )  # fmt: skip


def advance_posteriors(
    models: Models,
    X: FloatArray,
    offsets: IntArray,
    pairs: Pairs,
    weights: FloatArray,
    prior: dict[str, FloatArray],
    posterior: dict[str, FloatArray],
    iterations: Iterations,
    n_threads: int,
) -> None:
    """Iterate variational Bayes in the same way, where `compiled.knows_posteriors`; `models` are exp E log."""
    pairs, weights, suits = _by_model(models, offsets, pairs, weights)
    if suits:
        compiled.learn_posteriors(
            models=models, X=X, offsets=offsets, **pairs._asdict(), weights=weights,
            prior=prior, posterior=posterior, iterations=iterations, n_threads=n_threads,
        )  # fmt: skip


def _by_model(models: Models, offsets: IntArray, pairs: Pairs, weights: FloatArray) -> tuple[Pairs, FloatArray, bool]:
    """Return pairs with those of an HMM, and HMMs that take as long, side by side; and whether all HMMs suit."""
    n_frames = np.bincount(pairs.model, np.diff(offsets)[pairs.sequence], len(models))
    order = np.lexsort((pairs.model, n_frames[pairs.model]))
    same_size = bool((models.n_states == models.startprob.shape[1]).all())
    return pairs.take(order), weights[order], same_size and bool(n_frames.all())
