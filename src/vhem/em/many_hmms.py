"""The loop of Baum-Welch for many HMMs at once: E-step, objective, M-step; whoever has settled drops out."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from vhem._support.arrays import FloatArray, IntArray
from vhem._support.errors import BoundError
from vhem.em.grouped import Batch, Scale
from vhem.kernels.counting import Limits, Pairs, Prior, advance, expectations, floored, log_prior, m_step
from vhem.kernels.parameters import Expectations, Parameters

ROUNDING = 1e-9  # a fall of the objective, relative to its size, that arithmetic can explain
_DEAD = 0.01  # frames: a state that explains less than this has died
_BLUR = 0.1  # of the probability rows of an HMM one of whose states is seeded again


class Settings(NamedTuple):
    """How long to iterate."""

    max_iter: int
    tol: float  #: nats per frame
    strict: bool  #: whether a falling objective is an error, or only counted
    n_threads: int


class Fits(NamedTuple):
    """How the HMMs came out; one entry, or row, for each."""

    parameters: Parameters
    objectives: FloatArray  #: log-likelihood plus log prior
    log_likelihoods: FloatArray
    occupancy: FloatArray  #: (K, S) expected frames in each state
    n_iter: IntArray
    converged: np.ndarray
    n_floored: IntArray
    n_reseeded: IntArray
    n_falls: IntArray

    @staticmethod
    def room_for(start: Parameters) -> Fits:
        """Return a place for the results of HMMs like these."""
        K = len(start.n_states)
        counts = [np.zeros(K, dtype=np.int64) for _ in range(4)]
        parameters = _copy(start)
        objectives, scores, occupancy = np.full(K, -np.inf), np.empty(K), np.zeros(start.startprob.shape)
        return Fits(parameters, objectives, scores, occupancy, counts[0], np.zeros(K, dtype=bool), *counts[1:])

    def put(self, index: IntArray, other: Fits, rows: IntArray) -> None:
        """Overwrite the results at `index` by some rows of `other`."""
        for mine, theirs in zip((*self.parameters, *self[1:]), (*other.parameters, *other[1:]), strict=True):
            mine[index] = theirs[rows]

    def take(self, index: IntArray) -> Fits:
        """Return the results at `index`."""
        return Fits._make([self.parameters.take(index), *(a[index] for a in self[1:])])


def _copy(p: Parameters) -> Parameters:
    return Parameters._make(np.array(array) for array in p)


class _Working(NamedTuple):
    """The HMMs that have not settled yet, and their sequences."""

    chosen: IntArray
    pairs: Pairs
    weights: FloatArray  #: of the pairs
    n_frames: FloatArray
    least: FloatArray  #: weighted frames below which a state has died
    prior: Prior

    def keep(self, rows: IntArray) -> tuple[_Working, IntArray]:
        """Return some of them, and the pairs that remain."""
        place = np.full(len(self.chosen), -1)
        place[rows] = np.arange(len(rows))
        kept = np.flatnonzero(place[self.pairs.model] >= 0)
        pairs = Pairs(self.pairs.sequence[kept], place[self.pairs.model[kept]])
        rest = (self.n_frames[rows], self.least[rows], self.prior.take(rows))
        return _Working(self.chosen[rows], pairs, self.weights[kept], *rest), kept


def run(
    batch: Batch,
    start: Parameters,
    prior: Prior,
    scale: Scale,
    settings: Settings,
    rng: np.random.Generator,
    report: Callable[[int], None] = lambda _: None,
) -> Fits:
    """Iterate from `start` until every HMM has settled or `max_iter` is reached; `report` is told how many have."""
    done, now = Fits.room_for(start), Fits.room_for(floored(start, prior))
    pairs = Pairs.grouped(batch.lengths, batch.groups)
    n_frames, frames = batch.n_frames, np.diff(batch.frame_offsets)
    least = np.where(frames > start.startprob.shape[1], _DEAD * n_frames / frames, 0.0)
    work = _Working(np.arange(len(frames)), pairs, batch.weights[pairs.sequence], n_frames, least, prior)
    while True:
        _advance(now, work, batch, settings)
        e = expectations(now.parameters, batch.X, batch.offsets, work.pairs, work.weights, settings.n_threads)
        before, now = now.objectives, _scored(now, e, work)
        now.n_falls[:] += _fell(before, now.objectives, work, batch, settings.strict)
        now.converged[:] = np.abs(now.objectives - before) < settings.tol * work.n_frames
        over = now.converged | (now.n_iter >= settings.max_iter)
        report(len(frames) - int((~over).sum()))
        if over.any():
            done.put(work.chosen[over], now, np.flatnonzero(over))
            left = np.flatnonzero(~over)
            if not len(left):
                return _floors_counted(done, prior)
            now = now.take(left)
            work, kept = work.keep(left)
            e = Expectations(e.log_likelihoods[kept], *(a[left] for a in e[1:]))
        now = _updated(now, e, work, batch, settings)
        now = _reseeded(now, work, batch, scale, rng)


def _advance(now: Fits, work: _Working, batch: Batch, settings: Settings) -> None:
    limits = Limits(work.least, settings.tol * work.n_frames, settings.max_iter, settings.n_threads)
    data = (batch.X, batch.offsets, work.pairs, work.weights, work.prior, limits)
    advance(now.parameters, *data, now.objectives, now.n_iter)


def _floors_counted(done: Fits, prior: Prior) -> Fits:
    if not done.parameters.is_diagonal:
        return done
    low = done.parameters.covars <= prior.floor[:, None, None]
    return done._replace(n_floored=low.any(axis=-1).sum(axis=(1, 2)))


def _scored(now: Fits, e: Expectations, work: _Working) -> Fits:
    scores = np.asarray(np.bincount(work.pairs.model, work.weights * e.log_likelihoods, len(work.chosen)), np.float64)
    objectives = scores + log_prior(now.parameters, work.prior)
    occupancy = e.occupancy @ np.ones(e.occupancy.shape[-1])
    return now._replace(objectives=objectives, log_likelihoods=scores, occupancy=occupancy)


def _updated(now: Fits, e: Expectations, work: _Working, batch: Batch, settings: Settings) -> Fits:
    update = m_step(e, now.parameters, work.prior)
    if update.far:  # the variances lost digits: count again, about the new means
        anchors = update.parameters.means
        again = (batch.X, batch.offsets, work.pairs, work.weights, settings.n_threads, anchors)
        update = m_step(expectations(now.parameters, *again), now.parameters, work.prior, anchors)
    return now._replace(parameters=update.parameters, n_floored=update.n_floored, n_iter=now.n_iter + 1)


def _fell(before: FloatArray, after: FloatArray, work: _Working, batch: Batch, strict: bool) -> np.ndarray:
    fell = np.asarray(~(after >= before - ROUNDING * np.maximum(1.0, np.abs(before))))
    if fell.any() and (strict or np.isnan(after).any()):
        k = int(np.argmax(fell))
        raise BoundError(f"the likelihood of {batch.ids[work.chosen[k]]!r}", float(before[k]), float(after[k]))
    return fell


def _reseeded(now: Fits, work: _Working, batch: Batch, scale: Scale, rng: np.random.Generator) -> Fits:
    """Give states that died a random frame of their group for a mean, and make them reachable.

    A group with too few frames for its states is left alone, and each state gets as many chances as there are states.
    """
    dead = now.occupancy < work.least[:, None]
    if not dead.any():
        return now
    S = dead.shape[1]
    dead &= (np.arange(S) < now.parameters.n_states[:, None]) & (now.n_reseeded < S)[:, None]
    p = _copy(now.parameters)
    for k, s in np.argwhere(dead):
        _seed_state(p, int(k), int(s), int(work.chosen[k]), batch, scale, rng)
    now.n_reseeded[:] += dead.sum(axis=1)
    return now._replace(parameters=p, objectives=np.where(dead.any(axis=1), -np.inf, now.objectives))


def _seed_state(
    p: Parameters, k: int, s: int, group: int, batch: Batch, scale: Scale, rng: np.random.Generator
) -> None:
    begin, end = batch.frame_offsets[group : group + 2]
    frames = batch.X[rng.integers(begin, end, size=p.means.shape[2])]
    p.means[k, s] = np.where(np.isnan(frames), scale.mean[group], frames)
    variance = scale.variance[group]
    p.covars[k, s] = variance if p.is_diagonal else np.diag(variance)
    p.mix_weights[k, s] = 1 / p.mix_weights.shape[2]
    for rows in (p.startprob[k : k + 1], p.transmat[k]):
        possible = rows[:, s] > 0
        rows[possible] *= 1 - _BLUR
        rows[possible, s] += _BLUR
