"""VB-HMMs of every group of sequences, from several starts and in several sizes: what `fit_hmms(method="vb")` does."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaln

from vhem._support.arrays import BoolArray, FloatArray, IntArray
from vhem._support.errors import ParameterError
from vhem.bayes.beliefs import Beliefs
from vhem.bayes.empirical import GaussianStatistics, Learner, Ranges, RowStatistics
from vhem.bayes.priors import ROWS, prior_given, weak_prior, with_rows
from vhem.bayes.records import Hyperparameters
from vhem.bayes.variational import Variational, VariationalHMMs
from vhem.em.fitting import given_start
from vhem.em.grouped import Batch, Scale
from vhem.em.loop import Limits, run
from vhem.em.progress import FitReporter
from vhem.em.sequence_starts import start_names
from vhem.em.settings import Shape
from vhem.em.topology import allowed
from vhem.emissions.conjugate import Conjugate
from vhem.emissions.known import Known
from vhem.emissions.normal_wishart import NormalWishart
from vhem.kernels.counting import Pairs
from vhem.kernels.maximise import normalised
from vhem.kernels.models import Models
from vhem.models import H3M, HMM
from vhem.models.posterior import ModelPosterior

_UNVISITED = 1e-3  # frames: states that explain less are removed
_ROUNDS = 50  # of learning shared hyperparameters, at most
_STEPS = 10  # iterations in each of them


def check_one_component(n_mix: int) -> None:
    """Refuse states of several components, for which there is no posterior."""
    if n_mix != 1:
        raise ParameterError(
            "n_mix", n_mix, "must be 1 for variational Bayes, in which every state has one component",
            "give several {n_states} to choose from, since two states can do what two components do",
            "give {method:'em'}",
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class VBPlan:
    """What all fits of one call share."""

    shape: Shape
    limits: Limits
    init: str | H3M | HMM = "auto"
    n_init: int = 1
    hyperparameters: str | Hyperparameters = "data"  #: "data", "each", "shared" or fixed ones
    regions: Known | None = None  #: known emissions, (1, S)
    n_threads: int = 1
    reporter: FitReporter = field(default_factory=FitReporter)

    @property
    def diagonal(self) -> bool:
        """Whether covariances are diagonal."""
        return self.shape.covariance_type == "diag"

    def with_states(self, n_states: int) -> VBPlan:
        """Return the plan for HMMs of another size."""
        return replace(self, shape=replace(self.shape, n_states=n_states))


class Chains(NamedTuple):
    """Which chain every sequence belongs to, and which group every chain."""

    of_sequence: IntArray  #: (n,) in the order of the batch
    owner: IntArray  #: (C,) never falling
    ids: list[Any]  #: (C,)

    @staticmethod
    def one_each(batch: Batch) -> Chains:
        """One chain for every group."""
        return Chains(batch.groups, np.arange(len(batch.ids)), batch.ids)


class VBFits(NamedTuple):
    """Posteriors of all groups, in one size."""

    state: Variational
    bounds: FloatArray  #: (G,)
    occupancy: FloatArray  #: (G, S)
    n_iter: IntArray
    converged: BoolArray

    @property
    def n_states(self) -> int:
        """The size."""
        return int(self.state.posterior.start.shape[1])

    def scores(self) -> FloatArray:
        """Return the bounds plus ln S!, because every solution stands for S! relabelled ones."""
        return np.asarray(self.bounds + gammaln(self.n_states + 1.0))

    def take(self, fits: IntArray, chains: IntArray) -> VBFits:
        """Return some of the fits."""
        state = Variational(*(beliefs.take(chains, fits) for beliefs in self.state))
        rows = {name: getattr(self, name)[fits] for name in ("bounds", "occupancy", "n_iter", "converged")}
        return VBFits(state=state, **rows)


def fit_sizes(batch: Batch, chains: Chains, sizes: list[int], plan: VBPlan, rng: np.random.Generator) -> list[VBFits]:
    """Return the posteriors of all groups in every size."""
    scale = Scale.of(batch)
    fits = []
    for S in sizes:
        sized = plan.with_states(S)
        prior = first_prior(scale, chains, sized)
        best = best_of_starts(batch, chains, scale, prior, sized, rng)
        if plan.hyperparameters == "each":
            best = refitted(batch, chains, best, plan, Learner())
        fits.append(best)
    return with_shared_prior(batch, chains, fits, plan) if plan.hyperparameters == "shared" else fits


def first_prior(scale: Scale, chains: Chains, plan: VBPlan) -> Beliefs:
    """Return the priors to begin with."""
    given, (G, d) = plan.hyperparameters, scale.mean.shape
    emissions: Conjugate
    if plan.regions is not None:
        emissions = plan.regions.map(lambda array: np.repeat(array, G, axis=0))
    elif isinstance(given, Hyperparameters):
        emissions = prior_given(given, G, d, plan.diagonal)
    else:
        emissions = weak_prior(scale.emissions, scale.typical, plan.diagonal)
    rows = (given.alpha0, given.epsilon0) if isinstance(given, Hyperparameters) else (ROWS, ROWS)
    return with_rows(emissions, *allowed(plan.shape.topology, plan.shape.n_states), len(chains.owner), *rows)


def problem_of(batch: Batch, chains: Chains, plan: VBPlan, n_copies: int = 1, **rest: Any) -> VariationalHMMs:
    """Return the problem of all groups, several times over: copy r of group g is fit r · G + g."""
    order = np.argsort(batch.lengths, kind="stable").astype(np.int64)
    G, C = len(batch.ids), len(chains.owner)
    copies = np.arange(n_copies)[:, None]
    sequence = np.tile(order, n_copies)
    return VariationalHMMs(
        X=batch.X, offsets=batch.offsets, pairs=Pairs(sequence, (copies * C + chains.of_sequence[order]).ravel()),
        weights=batch.weights[sequence], owner=(copies * G + chains.owner).ravel(),
        frames=np.tile(batch.n_frames, n_copies), names=list(batch.ids) * n_copies, n_threads=plan.n_threads, **rest,
    )  # fmt: skip


def best_of_starts(
    batch: Batch, chains: Chains, scale: Scale, prior: Beliefs, plan: VBPlan, rng: np.random.Generator
) -> VBFits:
    """Run all starts of all groups side by side, and keep the best of each group."""
    models = _starts(batch, scale, plan, rng)
    R, G, C = len(models), len(batch.ids), len(chains.owner)
    plan.reporter.begin(R * G)
    single = problem_of(batch, chains, plan)
    starts = [single.begin(start, prior) for start in models]
    state = Variational(_copies([s.posterior for s in starts]), _copies([prior] * R))
    fits = _collected(problem_of(batch, chains, plan, R), state, plan)
    best = fits.bounds.reshape(R, G).argmax(0)
    return fits.take(best * G + np.arange(G), best[chains.owner] * C + np.arange(C))


def _starts(batch: Batch, scale: Scale, plan: VBPlan, rng: np.random.Generator) -> list[Models]:
    G, S = len(batch.ids), plan.shape.n_states
    if not isinstance(plan.init, str):
        return [given_start(plan.init, G, batch.X.shape[1])]
    if plan.regions is not None:
        masks = [mask.astype(np.float64) for mask in allowed(plan.shape.topology, S)]
        start, trans = (normalised(mask, mask) for mask in masks)
        rows = (np.tile(start, (G, 1)), np.tile(trans, (G, 1, 1)), np.ones((G, S, 1)))
        gaussians = plan.regions.point().map(lambda array: np.repeat(array, G, axis=0)).reshaped(G, S, 1)
        return [Models(*rows, gaussians, np.full(G, S, dtype=np.int64))]
    makers = start_names(plan.init, plan.shape.topology, 1 if S == 1 else plan.n_init)
    return [make(batch, scale, plan.shape, rng, plan.n_threads) for make in makers]


def _copies(parts: list[Beliefs]) -> Beliefs:
    start, trans = (np.concatenate([getattr(part, name) for part in parts]) for name in ("start", "trans"))
    return Beliefs(start, trans, parts[0].emissions.joined([part.emissions for part in parts]))


def refitted(batch: Batch, chains: Chains, fits: VBFits, plan: VBPlan, learner: Learner) -> VBFits:
    """Return the fits, iterated further while each learns its prior."""
    plan.reporter.begin(len(fits.bounds))
    again = _collected(problem_of(batch, chains, plan, learner=learner), fits.state, plan)
    return again._replace(n_iter=fits.n_iter + again.n_iter)


def _collected(problem: VariationalHMMs, state: Variational, plan: VBPlan) -> VBFits:
    own = state._replace(posterior=state.posterior.copy())  # which the run may change in place
    result = run(problem, own, plan.limits, plan.reporter.watch)
    bounds, occupancy = np.empty(len(problem.frames)), np.empty((len(problem.frames), state.posterior.start.shape[1]))
    out = Variational(*(_room(problem, beliefs) for beliefs in result.ended[0].state))
    for part in result.ended:
        at = np.isin(problem.owner, part.rows)
        for room, beliefs in zip(out, part.state, strict=True):
            room.start[at], room.trans[at] = beliefs.start, beliefs.trans
            room.emissions.put(part.rows, beliefs.emissions)
        bounds[part.rows] = part.expected.bounds
        own = part.expected.sums.occupancy
        occupancy[part.rows] = 0.0
        np.add.at(occupancy, problem.owner[at], own)
    return VBFits(out, bounds, occupancy, result.n_iter, result.converged)


def _room(problem: VariationalHMMs, like: Beliefs) -> Beliefs:
    C, F = len(problem.owner), len(problem.frames)
    emissions = like.emissions.map(lambda array: np.empty((F, *array.shape[1:])))
    return Beliefs(np.empty((C, *like.start.shape[1:])), np.empty((C, *like.trans.shape[1:])), emissions)


def with_shared_prior(batch: Batch, chains: Chains, fits: list[VBFits], plan: VBPlan) -> list[VBFits]:
    """Let all groups learn one prior together: every group counts with its best size, which may change on the way."""
    before, limits = -np.inf, replace(plan.limits, max_iter=_STEPS)
    short = replace(plan, limits=limits)
    plan.reporter.begin(len(batch.ids))
    for _ in range(_ROUNDS):
        scores = np.column_stack([fit.scores() for fit in fits])
        now = float(scores.max(1).sum())
        if now - before < plan.limits.tol * batch.n_frames.sum():
            break
        before = now
        prior = common_prior(fits, chains, scores.argmax(1), Ranges())
        fits = [_under(batch, chains, fit, prior, short) for fit in fits]
    return fits


class CommonPrior(NamedTuple):
    """One prior for all sizes."""

    start: float
    trans: float
    emissions: Conjugate  #: (1, 1)


def common_prior(fits: list[VBFits], chains: Chains, chosen: IntArray, ranges: Ranges) -> CommonPrior:
    """Return the prior that maximises the sum of the bounds of the chosen sizes."""
    first = fits[0].state.prior.emissions
    reference = first.m[:1, 0] if isinstance(first, NormalWishart) else np.zeros((1, 1))
    start, trans, gaussian = [], [], []
    for size, fit in enumerate(fits):
        rows = np.flatnonzero(chosen == size)
        if len(rows):
            mine = np.flatnonzero(np.isin(chains.owner, rows))
            q, prior = (beliefs.take(mine, rows) for beliefs in fit.state)
            where = np.zeros(len(q.start), dtype=np.int64)
            start.append(RowStatistics.of(q.start, prior.start, where, 1))
            trans.append(RowStatistics.of(q.trans, prior.trans, where, 1))
            if isinstance(q.emissions, NormalWishart):
                gaussian.append(GaussianStatistics.of(q.emissions, reference, where[: len(rows)], 1))
    start0, trans0 = (float(_total(parts).best(ranges.rows)[0]) for parts in (start, trans))
    emissions = first.take(slice(1))
    if gaussian and isinstance(emissions, NormalWishart):
        emissions = _total(gaussian).best(emissions, ranges, iid=False)
    return CommonPrior(start0, trans0, emissions)


def _total(parts: list[Any]) -> Any:
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def _under(batch: Batch, chains: Chains, fit: VBFits, prior: CommonPrior, plan: VBPlan) -> VBFits:
    old = fit.state.prior
    emissions = old.emissions
    if isinstance(emissions, NormalWishart):
        emissions = prior.emissions.map(lambda array: np.repeat(array, len(fit.bounds), axis=0))
    new = Beliefs(np.where(old.start > 0, prior.start, 0.0), np.where(old.trans > 0, prior.trans, 0.0), emissions)
    again = _collected(problem_of(batch, chains, plan), fit.state._replace(prior=new), plan)
    return again._replace(n_iter=fit.n_iter + again.n_iter)


class Chosen(NamedTuple):
    """Every group in its best size, without states that nothing visits."""

    posterior: ModelPosterior  #: of all chains
    n_states: IntArray  #: (C,)
    n_removed: IntArray  #: (C,) states that nothing visits
    size: IntArray  #: (G,) which of the sizes was chosen
    scores: FloatArray  #: (G, sizes)


def chosen_sizes(batch: Batch, chains: Chains, fits: list[VBFits], in_order: bool) -> Chosen:
    """Return the best size of every group; unless states stay `in_order`, the most visited come first."""
    scores = np.column_stack([fit.scores() for fit in fits])
    size = scores.argmax(1)
    S = max(fit.n_states for fit in fits)
    C = len(chains.owner)
    n_states, n_removed = np.zeros(C, dtype=np.int64), np.zeros(C, dtype=np.int64)
    parts, places = [], []
    for k, fit in enumerate(fits):
        groups = np.flatnonzero(size == k)
        for keep, rows in _alike(fit.occupancy[groups], groups, in_order):
            at = np.flatnonzero(np.isin(chains.owner, rows))
            parts.append(_cut(batch, chains, fit, at, keep[np.searchsorted(rows, chains.owner[at])]).padded(S))
            n_states[at], n_removed[at] = keep.shape[1], fit.n_states - keep.shape[1]
            places.append(at)
    order = np.argsort(np.concatenate(places), kind="stable")
    posterior = ModelPosterior.joined(parts).take(order)
    most = int(n_states.max())
    trimmed = posterior.states(np.broadcast_to(np.arange(most), (C, most)))
    return Chosen(trimmed, n_states, n_removed, size, scores)


def _alike(occupancy: FloatArray, groups: IntArray, in_order: bool) -> list[tuple[IntArray, IntArray]]:
    """Return the states to keep, (n, S') for each number S' of them, and the groups that keep so many."""
    if in_order:
        every = np.broadcast_to(np.arange(occupancy.shape[1]), occupancy.shape)
        return [(every, groups)] if len(groups) else []
    order = np.argsort(-occupancy, axis=1, kind="stable")
    n = np.maximum((occupancy >= _UNVISITED).sum(1), 1)
    return [(order[n == m, :m], groups[n == m]) for m in np.unique(n)]


def _cut(batch: Batch, chains: Chains, fit: VBFits, at: IntArray, keep: IntArray) -> ModelPosterior:
    q = fit.state.posterior
    amount = batch.weights * batch.lengths
    n = len(chains.owner)
    frames = np.bincount(chains.of_sequence, amount, n)[at].astype(np.float64)
    sequences = np.bincount(chains.of_sequence, batch.weights, n)[at].astype(np.float64)
    whole = ModelPosterior(q.start[at], q.trans[at], q.emissions.take(chains.owner[at]), frames, sequences)
    return whole.states(keep)
