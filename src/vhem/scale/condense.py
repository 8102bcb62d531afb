"""Few HMMs that stand for many sequences: made from a part of the data, and made fewer by VHEM."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from vhem._support.arrays import FloatArray
from vhem.em.cluster_starts import STARTS, Shape
from vhem.em.grouped import Batch, Scale
from vhem.em.loop import Settings, run
from vhem.em.sharding import Shards
from vhem.estimators import mixture as em_h3m
from vhem.estimators.fit_hmms import Options, as_h3m, fit_batch, prior_for
from vhem.kernels.counting import Pairs, Prior
from vhem.kernels.parameters import Parameters
from vhem.kernels.reduction import BaseModels, expected_visits
from vhem.models import H3M
from vhem.models.stacking import stack
from vhem.sequences import Sequences

_PER_START = 50  # sequences per intermediate HMM that EM's start is made from
_ITERATIONS, _TOL = 15, 1e-4  # of everything done to a part: what is merged with others later need not be perfect


class Plan(NamedTuple):
    """How parts are learned from and HMMs are made fewer; what tasks need to know of the estimator."""

    local: str  #: "hmms" or "mixture"
    n_states: int
    n_intermediate: int  #: HMMs kept of a part, and of a merge
    fan_in: int  #: summaries that are merged into one
    tau: int
    n_virtual: float
    learning: Options  #: of the HMMs of a part
    merging: Settings  #: of VHEM
    n_init: int  #: restarts of VHEM in the last merge; a part makes one, and a merge on the way three
    missing: str  #: whether values may be
    seed: int


class Summary(NamedTuple):
    """HMMs with what each stands for: numbers of sequences and of frames, which add up to those of the data."""

    parameters: Parameters
    sequences: FloatArray  #: (K,)
    frames: FloatArray  #: (K,)

    @property
    def h3m(self) -> H3M:
        """The HMMs, weighted by the sequences they stand for."""
        return as_h3m(self.parameters, self.sequences / self.sequences.sum())

    @staticmethod
    def pooled(summaries: list[Summary]) -> Summary:
        """Return all HMMs of several summaries."""
        models, sequences, frames = zip(*summaries, strict=True)
        return Summary(stack(list(models)), np.concatenate(sequences), np.concatenate(frames))


class Counts(NamedTuple):
    """What happened while a part was learned from."""

    n_sequences: int
    n_frames: int
    n_floored: int  #: Gaussians whose variance ended at its floor
    n_reseeded: int  #: states that became empty and were re-initialised


def generator_for(plan: Plan, *place: int) -> np.random.Generator:
    """Return the randomness of one piece of work: it depends on its place in the tree, not on who does it when."""
    return np.random.default_rng(np.random.SeedSequence(plan.seed, spawn_key=place))


def summarised(sequences: Sequences, plan: Plan, index: int) -> tuple[Summary, Counts]:
    """Return HMMs that stand for the sequences of part `index`."""
    rng = generator_for(plan, 0, index)
    whole = Batch.of(sequences, None, None)
    batch = _some_of(whole, plan, rng)
    plan = _quick(plan)
    fits = fit_batch(batch, Scale.of(batch), plan.n_states, plan.learning, rng)
    singles = Summary(fits.parameters, np.ones(len(batch.ids)), batch.n_frames)
    made = reduced(singles, plan.n_intermediate, plan, rng, n_init=1)
    if plan.local == "mixture":
        made = _learned_by_em(made, whole, plan)
    counts = Counts(len(sequences), len(sequences.X), int(fits.n_floored.sum()), int(fits.n_reseeded.sum()))
    return made, counts


def _quick(plan: Plan) -> Plan:
    return plan._replace(
        learning=plan.learning._replace(max_iter=_ITERATIONS, tol=_TOL),
        merging=plan.merging._replace(max_iter=_ITERATIONS, tol=_TOL),
    )


def _some_of(batch: Batch, plan: Plan, rng: np.random.Generator) -> Batch:
    """Return the sequences to learn HMMs of: all, or a sample where they only are the start of EM."""
    n = _PER_START * plan.n_intermediate
    if plan.local == "hmms" or len(batch.ids) <= n:
        return batch
    return batch.take(np.sort(rng.choice(len(batch.ids), n, replace=False)))


def reduced(summary: Summary, n_models: int, plan: Plan, rng: np.random.Generator, n_init: int) -> Summary:
    """Return at most `n_models` HMMs that stand for those of `summary`: VHEM, the best of its restarts."""
    if len(summary.sequences) <= n_models:
        return summary
    return max(restarts(summary, n_models, plan, rng, n_init), key=lambda restart: restart.bound).summary


class Restart(NamedTuple):
    """One run of VHEM on a summary."""

    bound: float
    summary: Summary


def restarts(summary: Summary, n_models: int, plan: Plan, rng: np.random.Generator, n_init: int) -> Iterator[Restart]:
    """Run VHEM from several starts.

    HMM i stands for c_i sequences with f_i frames in all. It counts as N_i = n_virtual f_i / τ virtual sequences of
    length τ, and log ω_j as n_virtual c_i: as in EM-H3M on the sequences themselves, frames decide about parameters,
    sequences about weights. Neither depends on how many HMMs there are beside it, so it makes no difference to the
    counting in which parts the data came, or in which order.
    """
    base = BaseModels(
        summary.parameters,
        expected_visits(summary.parameters, plan.tau),
        plan.n_virtual * summary.frames / plan.tau,
        plan.n_virtual * summary.sequences,
        plan.tau,
    )
    shards, shares = Shards.of(base), summary.sequences / summary.sequences.sum()
    shape, uniform = Shape(n_models, plan.n_states, plan.learning.n_mix), np.full(n_models, 1 / n_models)
    # States made from pooled emissions may follow each other in any order, so they serve ergodic HMMs only.
    names = ["kmeans++", "emissions", "base"] if plan.learning.topology == "ergodic" else ["kmeans++", "base"]
    for r in range(n_init):
        start = STARTS[names[r % len(names)]](base, shares, shape, rng, plan.merging.n_threads)
        done = run(shards, start, uniform, plan.merging)
        last = shards.e_step(
            done.parameters, done.weights, plan.merging.shortcuts, plan.merging.n_threads, want_responsibilities=True
        )
        assert last.responsibilities is not None
        made = _standing_for(done.parameters, last.responsibilities, summary.sequences, summary.frames)
        yield Restart(last.bound, made)


def _standing_for(parameters: Parameters, z: FloatArray, sequences: FloatArray, frames: FloatArray) -> Summary:
    """Share out sequences and frames by responsibilities (n, K), and leave out HMMs that stand for nothing."""
    shared = Summary(parameters, sequences @ z, frames @ z)
    used = np.flatnonzero(shared.sequences > 1e-9 * shared.sequences.sum())
    if len(used) < len(shared.sequences):
        z = z[:, used] / z[:, used].sum(axis=1, keepdims=True)
        shared = Summary(parameters.take(used), sequences @ z, frames @ z)
    return shared


def _learned_by_em(start: Summary, batch: Batch, plan: Plan) -> Summary:
    """EM-H3M on the sequences of a part, from the HMMs that VHEM made of some of them."""
    whole = as_one_group(batch)
    weights = start.sequences / start.sequences.sum()
    prior = prior_of_mixture(start.parameters, whole, plan)
    done = em_h3m.run(whole, start.parameters, weights, prior, em_options(plan), em_h3m.Clock.start(None))
    pairs = Pairs.crossed(whole.lengths, len(weights))
    z = em_h3m.e_step(whole, done.parameters, done.weights, pairs, plan.learning.n_threads)[1].T
    lengths = whole.lengths[pairs.sequence[: len(z)]].astype(np.float64)
    return _standing_for(done.parameters, z, np.ones(len(z)), lengths)


def as_one_group(batch: Batch) -> Batch:
    """Return the batch as EM-H3M takes it."""
    return batch._replace(groups=np.zeros_like(batch.groups), ids=[0])


def em_options(plan: Plan) -> Options:
    """Return the options of EM-H3M: pseudo-counts that are nothing against a cluster's thousands of frames.

    They keep a state that the cluster has no use for from settling on a handful of frames.
    """
    return plan.learning._replace(startprob_prior=1.0, transmat_prior=1.0, covars_prior=10.0)


def prior_of_mixture(start: Parameters, whole: Batch, plan: Plan) -> Prior:
    """Return the variance floors of EM-H3M, from the scale of the data; what is impossible stays so."""
    scale = Scale(*(np.repeat(a, len(start.n_states), axis=0) for a in Scale.of(whole)))
    return prior_for(start.startprob > 0, start.transmat > 0, scale, em_options(plan))
