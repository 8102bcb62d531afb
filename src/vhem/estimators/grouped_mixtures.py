"""EM-H3M for many groups of sequences at once: a small mixture of HMMs for every song, say."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from vhem._support.arrays import FloatArray, IntArray
from vhem._support.checks import check_integer
from vhem._support.randomness import RandomState, generator
from vhem.em.grouped import Batch, Scale
from vhem.em.mixture_starts import sequence_statistics
from vhem.em.topology import allowed
from vhem.estimators.fit_hmms import Options, as_h3m, fit_batch, prior_for
from vhem.kernels.counting import Pairs, Prior, expectations, floored, log_likelihoods, log_prior, m_step
from vhem.kernels.engine import n_threads
from vhem.kernels.kmeans import kmeans
from vhem.kernels.parameters import Parameters
from vhem.models import H3M
from vhem.sequences import SequencesLike, as_sequences

_START_ITERATIONS = 5  # of Baum-Welch, for the HMMs that EM starts from
_PRIOR = 0.1  # imagined observations, as in `fit_hmms`
_NEGLIGIBLE = 1e-12  # responsibility below which a sequence is not gone through again for an HMM's sums


class _Work(NamedTuple):
    """The groups whose mixtures have not settled yet. HMM k of group g is number g · K + k."""

    chosen: IntArray  #: which groups they are
    batch: Batch
    parameters: Parameters
    weights: FloatArray  #: (G, K)
    prior: Prior
    objectives: FloatArray  #: (G,)

    @property
    def pairs(self) -> Pairs:
        """Every sequence under every HMM of its group, one k after the other."""
        K = self.weights.shape[1]
        order = np.argsort(self.batch.lengths, kind="stable").astype(np.int64)
        return Pairs(np.tile(order, K), np.concatenate([self.batch.groups[order] * K + k for k in range(K)]))

    def take(self, rows: IntArray) -> _Work:
        """Return some of the groups."""
        K = self.weights.shape[1]
        hmms = (rows[:, None] * K + np.arange(K)).ravel()
        parts = (self.parameters.take(hmms), self.weights[rows], self.prior.take(hmms), self.objectives[rows])
        return _Work(self.chosen[rows], self.batch.take(rows), *parts)


def fit_mixtures(
    sequences: SequencesLike,
    groups: Iterable[Any],
    n_components: int = 2,
    n_states: int = 3,
    n_mix: int = 1,
    covariance_type: str = "diag",
    topology: str = "ergodic",
    max_iter: int = 20,
    tol: float = 1e-3,
    reg_covar: float = 1e-3,
    random_state: RandomState = None,
    n_jobs: int | None = None,
) -> list[H3M]:
    """Learn a mixture of HMMs for every group of sequences, all groups at once.

    EM as in `MixtureOfHMMs`, with the priors of `fit_hmms`, started from k-means on statistics of the sequences of each
    group.

    Parameters
    ----------
    sequences : list of (T_i, d) arrays, 3-D array or Sequences
        The sequences; NaN is marginalised.
    groups : list
        One label per sequence; those with equal labels make a group.
    n_components : int
        HMMs per mixture. A group of fewer sequences has one for each.
    n_states, n_mix, covariance_type, topology, reg_covar
        As in `fit_hmms`.
    max_iter, tol : int, float
        EM stops after so many iterations, or when it gains less than so many nats per frame.
    random_state : None, int, Generator or RandomState
        Seed.
    n_jobs : int, optional
        Threads. None or -1 uses every core.

    Returns
    -------
    list of H3M
        One mixture per group, in the order of first appearance; the heaviest HMM first.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> ys = [rng.normal(size=(30, 1)) + shift for shift in (0, 0, 5, 5, 20, 20, 25, 25)]
    >>> first, second = fit_mixtures(ys, ["a"] * 4 + ["b"] * 4, n_components=2, n_states=1, random_state=0)
    >>> np.sort(second.means.ravel()).round(0), second.weights
    (array([20., 25.]), array([0.5, 0.5]))
    """
    check_integer("n_components", n_components, 1)
    check_integer("n_states", n_states, 1)
    options = Options(
        n_mix, covariance_type, topology, "auto", 1, max_iter, tol, reg_covar, _PRIOR, _PRIOR, _PRIOR,
        n_threads(n_jobs),
    ).checked()  # fmt: skip
    batch = Batch.of(as_sequences(sequences), groups, None)
    work = _start(batch, n_components, n_states, options, generator(random_state))
    done: dict[int, H3M] = {}
    for iteration in range(max_iter + 1):
        scores, z, pairs = _e_step(work, options.n_threads)
        before, work = work.objectives, work._replace(objectives=scores)
        settled = np.abs(scores - before) < tol * work.batch.n_frames
        settled |= iteration == max_iter
        for g in np.flatnonzero(settled):
            done[int(work.chosen[g])] = _mixture(work, int(g))
        if settled.all():
            break
        if settled.any():
            work = work.take(np.flatnonzero(~settled))
            scores, z, pairs = _e_step(work, options.n_threads)
        work = _m_step(work, z, pairs, options.n_threads)
    return [done[g] for g in range(len(batch.ids))]


def _start(batch: Batch, K: int, n_states: int, options: Options, rng: np.random.Generator) -> _Work:
    """Part the sequences of each group in K, and learn an HMM from every part; a part without any copies another."""
    G = len(batch.ids)
    bounds = np.searchsorted(batch.groups, np.arange(G + 1))
    labels = kmeans(sequence_statistics(batch), bounds, rng.random((G, K)), options.n_threads)
    parts = batch.groups * K + labels
    order = np.argsort(parts, kind="stable")
    present, index = np.unique(parts[order], return_inverse=True)
    split = batch.cut(order, batch.lengths[order], index, present.tolist())
    brief = options._replace(max_iter=_START_ITERATIONS)
    fitted = fit_batch(split, Scale.of(split), n_states, brief, rng).parameters
    weights = np.bincount(parts, minlength=G * K).reshape(G, K).astype(np.float64)
    heaviest = np.arange(G) * K + weights.argmax(axis=1)
    source = np.where(weights.ravel() > 0, np.arange(G * K), np.repeat(heaviest, K))
    prior = prior_for(
        *allowed(options.topology, n_states), Scale(*(np.repeat(a, K, 0) for a in Scale.of(batch))), options
    )
    parameters = floored(fitted.take(np.searchsorted(present, source)), prior)
    shares = weights / weights.sum(axis=1, keepdims=True)
    return _Work(np.arange(G), batch, parameters, shares, prior, np.full(G, -np.inf))


def _e_step(work: _Work, threads: int) -> tuple[FloatArray, FloatArray, Pairs]:
    """Return the objective of every group, (G,), responsibilities (K, n), and the pairs in whose order these are."""
    pairs, batch = work.pairs, work.batch
    K = work.weights.shape[1]
    scores = log_likelihoods(work.parameters, batch.X, batch.offsets, pairs, threads).reshape(K, -1)
    owner = batch.groups[pairs.sequence[: scores.shape[1]]]
    with np.errstate(divide="ignore"):
        scores += np.log(work.weights[owner]).T
    total = np.logaddexp.reduce(scores, axis=0)
    penalties = log_prior(work.parameters, work.prior).reshape(-1, K).sum(axis=1)
    objectives = np.bincount(owner, total, len(work.weights)) + penalties
    return objectives, np.exp(scores - total), pairs


def _m_step(work: _Work, z: FloatArray, pairs: Pairs, threads: int) -> _Work:
    shows = np.flatnonzero(z.ravel() > _NEGLIGIBLE)
    data = (work.batch.X, work.batch.offsets, pairs.take(shows), z.ravel()[shows], threads)
    made = m_step(expectations(work.parameters, *data), work.parameters, work.prior)
    if made.far:  # the variances lost digits: count again, about the new means
        anchors = made.parameters.means
        made = m_step(expectations(work.parameters, *data, anchors), work.parameters, work.prior, anchors)
    G, K = work.weights.shape
    mass = np.bincount(pairs.model, z.ravel(), G * K).reshape(G, K)
    return work._replace(parameters=made.parameters, weights=mass / mass.sum(axis=1, keepdims=True))


def _mixture(work: _Work, g: int) -> H3M:
    """Return the mixture of one group, without HMMs that no sequence belongs to."""
    K = work.weights.shape[1]
    weights = work.weights[g]
    order = np.argsort(-weights, kind="stable")
    order = order[weights[order] > _NEGLIGIBLE]
    return as_h3m(work.parameters.take(g * K + order), weights[order] / weights[order].sum())
