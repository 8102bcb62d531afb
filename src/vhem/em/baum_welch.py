"""Baum-Welch for many HMMs at once: each has its own likelihood, and drops out when it has converged."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from vhem._support.arrays import BoolArray, FloatArray, IntArray
from vhem.em.grouped import Batch
from vhem.em.loop import Ended, Limits, Problem, Step, Watch, run
from vhem.emissions.components import Components
from vhem.kernels.compiled import Iterations
from vhem.kernels.counting import Counts, Pairs, advance, expectations
from vhem.kernels.maximise import Prior, maximise
from vhem.kernels.models import Models, ModelSums

_DEAD = 0.01  # frames: a state that explains less than this is empty
_BLUR = 0.1  # of the probability rows of an HMM one of whose states is re-initialised


class Fits(NamedTuple):
    """The results; one entry, or row, per HMM."""

    models: Models
    objectives: FloatArray  #: log-likelihood plus log prior
    log_likelihoods: FloatArray
    occupancy: FloatArray  #: (K, S) expected frames in each state
    n_iter: IntArray
    converged: BoolArray
    n_floored: IntArray
    n_reseeded: IntArray
    n_falls: IntArray

    def put(self, index: IntArray, other: Fits, rows: IntArray) -> None:
        """Overwrite the results at `index` by some rows of `other`."""
        self.models.put(index, other.models.take(rows))
        for mine, theirs in zip(self[1:], other[1:], strict=True):
            mine[index] = theirs[rows]


class _Reseeds:
    """Random frames for empty states, which depend on the HMM and on its history alone.

    Engines and numbers of threads differ in which HMMs they bring how far at a time; one stream of random numbers for
    all HMMs would give each whatever its turn is.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._seed: int | None = None  # drawn when first needed, so that fits without empty states use up nothing

    def frames(self, groups: IntArray, n_before: IntArray, state: int, offsets: IntArray, n: int) -> IntArray:
        """Return `n` frames of each group, for a state of HMMs that have re-initialised `n_before` of them."""
        if self._seed is None:
            self._seed = int(self._rng.integers(2**63))
        bits = np.full((len(groups), n), self._seed, dtype=np.uint64)
        for part in (groups[:, None], n_before[:, None], state, np.arange(n)):
            bits = _scattered(bits ^ np.asarray(part).astype(np.uint64))
        share = (bits >> np.uint64(11)) * 2.0**-53
        first, end = offsets[groups][:, None], offsets[groups + 1][:, None]
        return np.asarray(first + (share * (end - first)).astype(np.int64))


def _scattered(bits: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Return 64 other bits for each 64: SplitMix64's step (Steele, Lea and Flood, 2014), for many numbers at once."""
    bits = bits + np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


class _State(NamedTuple):
    models: Models
    n_reseeded: IntArray

    def take(self, rows: IntArray) -> _State:
        return _State(self.models.take(rows), self.n_reseeded[rows])


class _Expected(NamedTuple):
    bounds: FloatArray
    log_likelihoods: FloatArray  #: (K,) of all sequences of an HMM
    sums: ModelSums

    def take(self, rows: IntArray) -> _Expected:
        return _Expected(self.bounds[rows], self.log_likelihoods[rows], self.sums.take(rows))


@dataclass(frozen=True, kw_only=True)
class BaumWelch(Problem[_State, _Expected]):
    """HMMs to be learned, each from the sequences of its group."""

    batch: Batch
    prior: Prior
    strict: bool
    reseeds: _Reseeds
    n_threads: int
    chosen: IntArray  #: the groups still iterating
    pairs: Pairs
    weights: FloatArray  #: of the pairs
    frames: FloatArray
    least: FloatArray  #: weighted frames below which a state is empty

    @staticmethod
    def of(
        batch: Batch, prior: Prior, n_states: int, *, strict: bool, rng: np.random.Generator,
        n_threads: int,
    ) -> BaumWelch:  # fmt: skip
        """Return the problem of all groups."""
        pairs = Pairs.grouped(batch.lengths, batch.groups)
        n_frames, frames = batch.n_frames, np.diff(batch.frame_offsets)
        least = np.where(frames > n_states, _DEAD * n_frames / frames, 0.0)
        return BaumWelch(
            batch=batch, prior=prior, strict=strict, reseeds=_Reseeds(rng), n_threads=n_threads,
            chosen=np.arange(len(frames)), pairs=pairs, weights=batch.weights[pairs.sequence], frames=n_frames,
            least=least,
        )  # fmt: skip

    def name(self, row: np.int64) -> str:
        """Return whose likelihood it is."""
        return f"the likelihood of {self.batch.ids[row]!r}"

    def advance(self, state: _State, bounds: FloatArray, n_iter: IntArray, limits: Limits) -> None:
        """Iterate inside the compiled engine, if it can."""
        iterations = Iterations(limits.max_iter, limits.tol * self.frames, bounds, n_iter, self.least)
        advance(
            state.models, self.batch.X, self.batch.offsets, self.pairs, self.weights, self.prior, iterations,
            self.n_threads,
        )  # fmt: skip

    def _counted(self, models: Models, anchors: Components | None) -> Counts:
        batch = self.batch
        return expectations(models, batch.X, batch.offsets, self.pairs, self.weights, self.n_threads, anchors)

    def e_step(self, state: _State) -> _Expected:
        """Return the objectives and the sums."""
        e = self._counted(state.models, None)
        scores = np.bincount(self.pairs.model, self.weights * e.log_likelihoods, len(self.chosen))
        return _Expected(scores + self.prior.log_density(state.models), np.asarray(scores, np.float64), e.sums)

    def count(self, state: _State, expected: _Expected, anchors: Any) -> ModelSums:
        """Return the sums of the E-step, or others about new means."""
        return expected.sums if anchors is None else self._counted(state.models, anchors).sums

    def m_step(self, state: _State, expected: _Expected, sums: ModelSums, anchors: Any) -> Step:
        """Return the next HMMs; empty states are re-initialised."""
        update = maximise(sums, state.models, self.prior, anchors)
        if update.far and anchors is None:
            return Step(state, update.models.components)
        return self._reseeded(_State(update.models, state.n_reseeded), expected.sums.occupancy)

    def _reseeded(self, state: _State, occupancy: FloatArray) -> Step:
        """Give states that have become empty a random frame of their group as mean, and make them reachable.

        A group with too few frames for its states is left alone, and each state gets as many chances as there are
        states.
        """
        dead = occupancy < self.least[:, None]
        if not dead.any():
            return Step(state)
        S = dead.shape[1]
        dead &= (np.arange(S) < state.models.n_states[:, None]) & (state.n_reseeded < S)[:, None]
        models = state.models.copy()
        for s in np.flatnonzero(dead.any(axis=0)):
            self._seed(models, np.flatnonzero(dead[:, s]), int(s), state.n_reseeded)
        return Step(_State(models, state.n_reseeded + dead.sum(axis=1)), excused=np.asarray(dead.any(axis=1)))

    def _seed(self, models: Models, k: IntArray, s: int, n_reseeded: IntArray) -> None:
        """Re-initialise state s of HMMs k, in place."""
        n, M = len(k), models.mix_weights.shape[2]
        frames = self.reseeds.frames(self.chosen[k], n_reseeded[k], s, self.batch.frame_offsets, M).ravel()
        made = models.components.seeded(self.batch.X[frames], self.prior.emissions, np.repeat(k, M))
        models.components.put((k, s), made.map(lambda a: a.reshape(n, M, *a.shape[1:])))
        models.mix_weights[k, s] = 1 / M
        for table in (models.startprob[:, None], models.transmat):
            rows = table[k]
            possible = rows[:, :, s] > 0
            rows[possible] *= 1 - _BLUR
            rows[:, :, s][possible] += _BLUR
            table[k] = rows

    def take(self, state: _State, expected: _Expected, rows: IntArray) -> tuple[BaumWelch, _State, _Expected]:
        """Return some of the HMMs, and their sequences."""
        place = np.full(len(self.chosen), -1)
        place[rows] = np.arange(len(rows))
        kept = np.flatnonzero(place[self.pairs.model] >= 0)
        pairs = Pairs(self.pairs.sequence[kept], place[self.pairs.model[kept]])
        problem = replace(
            self, chosen=self.chosen[rows], pairs=pairs, weights=self.weights[kept], frames=self.frames[rows],
            least=self.least[rows], prior=self.prior.take(rows),
        )  # fmt: skip
        return problem, state.take(rows), expected.take(rows)


def learn(problem: BaumWelch, start: Models, limits: Limits, watch: Watch = lambda *_: None) -> Fits:
    """Iterate from `start` until every HMM has converged."""
    begin = _State(problem.prior.possible(start).copy(), np.zeros(len(start), dtype=np.int64))
    result = run(problem, begin, limits, watch)
    order = np.argsort(np.concatenate([part.rows for part in result.ended]), kind="stable")
    models = Models.joined([part.state.models for part in result.ended]).take(order)
    ends = [_of_members(part) for part in result.ended]
    bounds, scores, occupancy, n_reseeded = (np.concatenate(a)[order] for a in zip(*ends, strict=True))
    n_floored = models.components.n_at_floor(problem.prior.emissions)
    ended = (result.n_iter, result.converged, n_floored, n_reseeded, result.n_falls)
    return Fits(models, bounds, scores, occupancy, *ended)


def _of_members(part: Ended) -> tuple[Any, ...]:
    expected = part.expected
    return expected.bounds, expected.log_likelihoods, expected.sums.occupancy, part.state.n_reseeded
