"""A few HMMs that represent many sequences: learned from a part of the data, and reduced by VHEM."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from vhem._support.arrays import FloatArray
from vhem.em.cluster_starts import STARTS, CenterShape
from vhem.em.fitting import FitPlan, fit_batch
from vhem.em.grouped import Batch, Scale
from vhem.em.loop import Limits, improved, run
from vhem.em.mixtures import Items, MixtureProblem, Mixtures
from vhem.em.reduction import Centers, ReductionProblem
from vhem.em.restarts import in_stacks, run_together
from vhem.em.settings import Priors
from vhem.em.sharding import Shards
from vhem.kernels.models import Models
from vhem.kernels.reduction import BaseModels
from vhem.models import H3M
from vhem.models.stacking import stack
from vhem.sequences import Sequences

_PER_MODEL = 50  # sequences per intermediate HMM that a part's HMMs are learned from, before one iteration on all
_ITERATIONS, _TOL = 15, 1e-4  # for everything done to a part: what is merged later need not be perfect


class Plan(NamedTuple):
    """How parts are learned from and HMMs are reduced: what tasks need to know about the estimator."""

    local: str  #: "hmms" or "mixture"
    n_intermediate: int  #: HMMs kept per part, and per merge
    fan_in: int  #: summaries that are merged into one
    tau: int
    n_virtual: float
    learning: FitPlan  #: of the HMMs of a part
    merging: Limits  #: of VHEM
    n_init: int  #: restarts of VHEM in the last merge; one for a part, three for other merges
    missing: str  #: whether values may be missing
    seed: int

    def with_threads(self, n: int) -> Plan:
        """Return the plan for work that has n threads to itself."""
        return self._replace(learning=replace(self.learning, n_threads=n))


class Summary(NamedTuple):
    """HMMs with what each represents: numbers of sequences and of frames, which add up to those of the data."""

    parameters: Models
    sequences: FloatArray  #: (K,)
    frames: FloatArray  #: (K,)

    @property
    def h3m(self) -> H3M:
        """The HMMs, weighted by the sequences they represent."""
        return H3M.of_models(self.parameters, self.sequences / self.sequences.sum())

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
    """Return the randomness of one piece of work: it depends on its place in the tree, not on where or when it runs."""
    return np.random.default_rng(np.random.SeedSequence(plan.seed, spawn_key=place))


def summarised(sequences: Sequences, plan: Plan, index: int) -> tuple[Summary, Counts]:
    """Return HMMs that represent the sequences of part `index`."""
    rng = generator_for(plan, 0, index)
    whole = Batch.of(sequences, None, None, plan.learning.template(sequences))
    batch = whole if plan.local == "hmms" else _some_of(whole, _PER_MODEL * plan.n_intermediate, rng)
    plan = _quick(plan)
    fits = fit_batch(batch, Scale.of(batch), plan.learning, rng)
    singles = Summary(fits.models, np.ones(len(batch.ids)), batch.n_frames)
    made = reduced(singles, plan.n_intermediate, plan, rng, n_init=1)
    if plan.local == "mixture":
        made = _learned_by_em(made, batch, whole, plan)
    counts = Counts(len(sequences), len(sequences.X), int(fits.n_floored.sum()), int(fits.n_reseeded.sum()))
    return made, counts


def _quick(plan: Plan) -> Plan:
    limits = Limits(max_iter=_ITERATIONS, tol=_TOL)
    return plan._replace(learning=replace(plan.learning, limits=limits), merging=limits)


def _some_of(batch: Batch, n: int, rng: np.random.Generator) -> Batch:
    """Return n random sequences, or all if there are fewer."""
    if len(batch.ids) <= n:
        return batch
    return batch.take(np.sort(rng.choice(len(batch.ids), n, replace=False)))


def reduced(summary: Summary, n_models: int, plan: Plan, rng: np.random.Generator, n_init: int) -> Summary:
    """Return at most `n_models` HMMs that represent those of `summary`: the best restart of VHEM."""
    if len(summary.sequences) <= n_models:
        return summary
    return max(restarts(summary, n_models, plan, rng, n_init), key=lambda restart: restart.bound).summary


class Restart(NamedTuple):
    """One run of VHEM on a summary."""

    bound: float
    summary: Summary


def restarts(summary: Summary, n_models: int, plan: Plan, rng: np.random.Generator, n_init: int) -> Iterator[Restart]:
    """Run VHEM from several starts.

    HMM i represents c_i sequences with f_i frames in all. It counts as N_i = n_virtual f_i / τ virtual sequences of
    length τ, and log ω_j as n_virtual c_i: as in EM-H3M on the sequences themselves, frames determine parameters,
    sequences determine weights. Neither depends on the number of other HMMs, so the counts do not depend on how the
    data were divided into parts, or on their order.
    """
    base = BaseModels.of(
        summary.parameters,
        plan.n_virtual * summary.frames / plan.tau,
        plan.n_virtual * summary.sequences,
        plan.tau,
    )
    threads, sizes = plan.learning.n_threads, plan.learning.shape
    problem = ReductionProblem(base=Shards.of(base), n_threads=threads)
    shares = summary.sequences / summary.sequences.sum()
    shape = CenterShape(n_clusters=n_models, n_states=sizes.n_states, n_mix=sizes.n_mix)
    uniform = np.full(n_models, 1 / n_models)
    # States made from pooled emissions may follow each other in any order, so they suit only ergodic HMMs.
    names = ["kmeans++", "emissions", "base"] if sizes.topology == "ergodic" else ["kmeans++", "base"]
    starts = [Centers(STARTS[names[r % len(names)]](base, shares, shape, rng, threads), uniform) for r in range(n_init)]
    for done in _runs(problem, starts, len(shares), plan.merging):
        last = problem.base.e_step(done.models, done.weights, problem.shortcuts, threads, want_responsibilities=True)
        assert last.responsibilities is not None
        made = _standing_for(done.models, last.responsibilities, summary.sequences, summary.frames)
        yield Restart(last.bound, made)


def _runs(problem: ReductionProblem, starts: list[Centers], n_inputs: int, limits: Limits) -> Iterator[Centers]:
    """Yield where VHEM ends; restarts of small problems are run together."""
    for side_by_side in in_stacks(len(starts), n_inputs * len(starts[0].weights), 1):
        yield from (one.state for one in run_together(problem, [starts[r] for r in side_by_side], limits))


def _standing_for(models: Models, z: FloatArray, sequences: FloatArray, frames: FloatArray) -> Summary:
    """Distribute sequences and frames by responsibilities (n, K), and drop HMMs that represent nothing."""
    shared = Summary(models, sequences @ z, frames @ z)
    used = np.flatnonzero(shared.sequences > 1e-9 * shared.sequences.sum())
    if len(used) < len(shared.sequences):
        z = z[:, used] / z[:, used].sum(axis=1, keepdims=True)
        shared = Summary(models.take(used), sequences @ z, frames @ z)
    return shared


def _learned_by_em(start: Summary, some: Batch, whole: Batch, plan: Plan) -> Summary:
    """EM-H3M on the sequences that VHEM's HMMs were learned from, and one iteration on all of the part.

    What is wrong with the HMMs of a part is corrected later, but their counts must be those of all its sequences.
    """
    problem = mixture_problem(start.parameters, some, plan)
    now = run(problem, mixtures(problem, start), plan.learning.limits).state
    problem = mixture_problem(start.parameters, whole, plan)
    expected = problem.e_step(now)
    done, z = improved(problem, now, expected).state, expected.responsibilities
    return _standing_for(done.models, z, np.ones(len(z)), whole.lengths.astype(np.float64))


def mixtures(problem: MixtureProblem, start: Summary) -> Mixtures:
    """Return a summary as a start of EM-H3M."""
    weights = start.sequences / start.sequences.sum()
    return Mixtures(problem.prior.possible(start.parameters), weights[None])


def mixture_problem(start: Models, batch: Batch, plan: Plan) -> MixtureProblem:
    """Return EM-H3M on sequences; what is impossible under `start` stays so.

    The pseudo-counts are negligible against a cluster's thousands of frames. They keep a state that the cluster does
    not need from converging on a handful of frames.
    """
    priors = Priors(startprob=1.0, transmat=1.0, covars=10.0, reg_covar=plan.learning.priors.reg_covar)
    whole = batch._replace(groups=np.zeros_like(batch.groups), ids=[0])
    prior = priors.spread(start.startprob > 0, start.transmat > 0, Scale.of(whole).repeated(len(start)))
    return MixtureProblem(
        batch=batch, items=Items.single(batch), prior=prior, n_components=len(start), strict=False,
        n_threads=plan.learning.n_threads,
    )  # fmt: skip
