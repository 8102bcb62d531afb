"""Few HMMs that stand for many sequences: made from a part of the data, and made fewer by VHEM."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vhem.kernels.baum_welch import Pairs
from vhem.kernels.parameters import FloatArray, IntArray, Parameters
from vhem.kernels.vhem import BaseModels, Shortcuts, expected_visits
from vhem.learning import em_h3m
from vhem.learning.batch import Batch, Scale
from vhem.learning.baum_welch import Options, as_h3m, fit_batch, prior_for
from vhem.learning.initialisation import STARTS, Shape
from vhem.learning.iteration import Settings, run
from vhem.learning.shards import Shards
from vhem.models import H3M
from vhem.models.stacking import stack
from vhem.sequences import Sequences


class Plan(NamedTuple):
    """How parts are learned from and HMMs are made fewer; what tasks need to know of the estimator."""

    local: str  #: "hmms" or "mixture"
    n_states: int
    n_intermediate: int  #: HMMs kept of a part, and of a merge
    tau: int
    n_virtual: float
    learning: Options  #: of the HMMs of a part
    em_iterations: int  #: on a part's sequences, where local is "mixture"
    merging: Settings  #: of VHEM
    n_init: int  #: restarts of VHEM in a merge
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
    n_reseeded: int  #: states that had died and were started again


def generator_for(plan: Plan, level: int, index: int) -> np.random.Generator:
    """Return the randomness of one piece of work: it depends on the place in the tree alone, not on who does it when."""
    return np.random.default_rng(np.random.SeedSequence(plan.seed, spawn_key=(level, index)))


def learn(sequences: Sequences, plan: Plan, index: int) -> tuple[Summary, Counts]:
    """Return HMMs that stand for the sequences of part `index`."""
    rng = generator_for(plan, 0, index)
    batch = Batch.of(sequences, sequences.groups, None)
    fits = fit_batch(batch, Scale.of(batch), plan.n_states, plan.learning, rng)
    n = len(batch.ids)
    singles = Summary(fits.parameters, np.bincount(batch.groups, minlength=n).astype(np.float64), batch.n_frames)
    made = reduced(singles, plan.n_intermediate, plan, rng)
    if plan.local == "mixture":
        made = _polished(made, batch, plan)
    counts = Counts(len(sequences), len(sequences.X), int(fits.n_floored.sum()), int(fits.n_reseeded.sum()))
    return made, counts


def reduced(summary: Summary, n_models: int, plan: Plan, rng: np.random.Generator, n_init: int = 1) -> Summary:
    """Return at most `n_models` HMMs that stand for those of `summary`: VHEM, best of `n_init` starts.

    HMM i stands for c_i sequences with f_i frames in all. It counts as N_i = n_virtual f_i / τ imagined sequences of
    length τ, and log ω_j as n_virtual c_i: as in EM-H3M on the sequences themselves, frames decide about parameters,
    sequences about weights. Neither depends on how many HMMs there are beside it, so it makes no difference to the
    counting in which parts the data came, or in which order.
    """
    if len(summary.sequences) <= n_models:
        return summary
    base = BaseModels(
        summary.parameters,
        expected_visits(summary.parameters, plan.tau),
        plan.n_virtual * summary.frames / plan.tau,
        plan.n_virtual * summary.sequences,
        plan.tau,
    )
    shares = summary.sequences / summary.sequences.sum()
    shape = Shape(n_models, plan.n_states, plan.learning.n_mix)
    shards, uniform = Shards.of(base), np.full(n_models, 1 / n_models)
    # States made from pooled emissions may follow each other in any order, so they serve ergodic HMMs only.
    names = ["kmeans++", "emissions" if plan.learning.topology == "ergodic" else "base"]
    runs = [
        run(shards, STARTS[names[r % 2]](base, shares, shape, rng, plan.merging.n_threads), uniform, plan.merging)
        for r in range(n_init)
    ]
    best = max(runs, key=lambda r: r.bounds[-1])
    last = shards.e_step(
        best.parameters, best.weights, plan.merging.shortcuts, plan.merging.n_threads, want_responsibilities=True
    )
    assert last.responsibilities is not None
    return _standing_for(best.parameters, last.responsibilities, summary.sequences, summary.frames)


def _standing_for(parameters: Parameters, z: FloatArray, sequences: FloatArray, frames: FloatArray) -> Summary:
    """Share out sequences and frames by responsibilities (n, K), and leave out HMMs that stand for nothing."""
    shared = Summary(parameters, sequences @ z, frames @ z)
    used = np.flatnonzero(shared.sequences > 1e-9 * shared.sequences.sum())
    if len(used) < len(shared.sequences):
        z = z[:, used] / z[:, used].sum(axis=1, keepdims=True)
        shared = Summary(parameters.take(used), sequences @ z, frames @ z)
    return shared


def _polished(summary: Summary, batch: Batch, plan: Plan) -> Summary:
    """Some iterations of EM on the part's sequences, from the HMMs that VHEM made of them."""
    options = plan.learning._replace(
        max_iter=plan.em_iterations, startprob_prior=0.0, transmat_prior=0.0, covars_prior=0.0
    )
    K = len(summary.sequences)
    whole = batch._replace(groups=np.zeros_like(batch.groups), ids=[0])
    scale = Scale(*(np.repeat(a, K, axis=0) for a in Scale.of(whole)))
    start = summary.parameters
    prior = prior_for(start.startprob > 0, start.transmat > 0, scale, options)
    clock = em_h3m.Clock.start(None)
    weights = summary.sequences / summary.sequences.sum()
    done = em_h3m.run(whole, start, weights, prior, options, clock)
    pairs = Pairs.crossed(whole.lengths, K)
    z = em_h3m.e_step(whole, done.parameters, done.weights, pairs, options.n_threads)[1].T
    lengths = whole.lengths[pairs.sequence[: len(z)]].astype(np.float64)
    return _standing_for(done.parameters, z, np.ones(len(z)), lengths)
