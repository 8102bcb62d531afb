"""One HMM for every group of sequences, from several starts: the basis of `fit_hmms` and of the starts of mixtures."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from vhem._support.arrays import BoolArray
from vhem._support.checks import check_choice
from vhem._support.errors import Count, InputError
from vhem.em.baum_welch import BaumWelch, Fits, learn
from vhem.em.grouped import Batch, Scale
from vhem.em.loop import Limits
from vhem.em.neighbours import neighbours
from vhem.em.parameters import check_values
from vhem.em.pooling import LEAST_ITEMS, Pooled, learned_from, with_pooled
from vhem.em.progress import FitReporter
from vhem.em.sequence_starts import STARTS, start_names
from vhem.em.settings import Priors, Shape
from vhem.em.template import template
from vhem.em.topology import allowed
from vhem.emissions import Components, Gaussian
from vhem.kernels.models import Models
from vhem.models import H3M, HMM
from vhem.sequences import Sequences

_ROUNDS = 2  # of starting HMMs where those of similar items ended


@dataclass(frozen=True, kw_only=True)
class FitPlan:
    """What all fits of one call share."""

    shape: Shape
    priors: Priors
    limits: Limits
    init: str | H3M | HMM = "auto"
    n_init: int = 1
    n_threads: int = 1
    pooling: bool = False  #: whether HMMs borrow strength from each other
    reporter: FitReporter = field(default_factory=FitReporter)

    @staticmethod
    def checked(
        *, n_mix: int, covariance_type: str, topology: str, reg_covar: float, startprob_prior: float,
        transmat_prior: float, covars_prior: float, max_iter: int, tol: float, emissions: Any = "gaussian", **rest: Any,
    ) -> FitPlan:  # fmt: skip
        """Return a plan made from users' parameters; the number of states is set later."""
        check_values(
            n_mix=n_mix, covariance_type=covariance_type, topology=topology, n_init=rest.get("n_init", 1),
            max_iter=max_iter, tol=tol, reg_covar=reg_covar, startprob_prior=startprob_prior,
            transmat_prior=transmat_prior, covars_prior=covars_prior,
        )  # fmt: skip
        if not isinstance(rest.get("init", "auto"), (H3M, HMM)):
            check_choice("init", rest.get("init", "auto"), ("auto", *STARTS))
        priors = Priors(startprob=startprob_prior, transmat=transmat_prior, covars=covars_prior, reg_covar=reg_covar)
        shape = Shape(n_states=1, n_mix=n_mix, covariance_type=covariance_type, topology=topology, emissions=emissions)
        return FitPlan(shape=shape, priors=priors, limits=Limits(max_iter=max_iter, tol=tol), **rest)

    def template(self, sequences: Sequences) -> Components:
        """Return one component of the family that these sequences are to be modelled by."""
        return template(self.shape.emissions, sequences, self.shape.covariance_type, self.init)

    def with_states(self, n_states: int) -> FitPlan:
        """Return the plan for HMMs of another size."""
        return replace(self, shape=replace(self.shape, n_states=n_states))

    def with_topology(self, topology: str) -> FitPlan:
        """Return the plan for HMMs with other transitions."""
        return replace(self, shape=replace(self.shape, topology=topology))

    def brief(self, max_iter: int, **changes: Any) -> FitPlan:
        """Return the plan for a start, which need not converge."""
        return replace(self, limits=Limits(max_iter=max_iter, tol=self.limits.tol), **changes)


def fit_batch(batch: Batch, scale: Scale, plan: FitPlan, rng: np.random.Generator) -> Fits:
    """Fit one HMM to every group, from every start, and keep the best of each."""
    if not isinstance(plan.init, str):
        start = given_start(plan.init, len(batch.ids), batch.X.shape[1])
        return _fitted(batch, scale, start, (start.startprob > 0, start.transmat > 0), plan, rng)
    best: Fits | None = None
    for make in start_names(plan.init, plan.shape.topology, plan.n_init):
        start = make(batch, scale, plan.shape, rng, plan.n_threads)
        now = _fitted(batch, scale, start, allowed(plan.shape.topology, plan.shape.n_states), plan, rng)
        if best is None:
            best = now
        else:
            better = np.flatnonzero(now.objectives > best.objectives)
            best.put(better, now, better)
    assert best is not None
    pooled = learned_from(best)
    if plan.pooling and (pooled is not None or may_borrow(batch)):
        best = borrowed(batch, scale, best, pooled, plan, rng)
    return best if plan.shape.topology != "ergodic" else _most_visited_first(best)


def _fitted(
    batch: Batch,
    scale: Scale,
    start: Models,
    masks: tuple[BoolArray, BoolArray],
    plan: FitPlan,
    rng: np.random.Generator,
) -> Fits:
    prior, reporter = plan.priors.spread(*masks, scale), plan.reporter
    problem = BaumWelch.of(batch, prior, start.shape[1], strict=plan.priors.are_none, rng=rng, n_threads=plan.n_threads)
    reporter.begin(len(batch.ids))
    return learn(problem, start, plan.limits, reporter.watch)


def may_borrow(batch: Batch) -> bool:
    """Whether HMMs of other families than Gaussians are enough to tell each other what states mean."""
    return len(batch.ids) >= LEAST_ITEMS and not isinstance(batch.emissions, Gaussian)


def refitted(
    batch: Batch, scale: Scale, fits: Fits, pooled: Pooled | None, plan: FitPlan, rng: np.random.Generator
) -> Fits:
    """Return the HMMs trained further, with their common prior if there is one."""
    prior = plan.priors.spread(*allowed(plan.shape.topology, plan.shape.n_states), scale)
    prior = prior if pooled is None else with_pooled(prior, pooled)
    problem = BaumWelch.of(batch, prior, fits.models.shape[1], strict=False, rng=rng, n_threads=plan.n_threads)
    again = learn(problem, fits.models, plan.limits, plan.reporter.watch)
    return again._replace(n_iter=fits.n_iter + again.n_iter, n_reseeded=fits.n_reseeded + again.n_reseeded)


def borrowed(
    batch: Batch, scale: Scale, fits: Fits, pooled: Pooled | None, plan: FitPlan, rng: np.random.Generator
) -> Fits:
    """Return HMMs that borrow strength: variances from all others, and the meaning of states from the most similar.

    Items that never visit a state of the most similar HMM keep their own.
    """
    now = fits if pooled is None else refitted(batch, scale, fits, pooled, plan, rng)
    for _ in range(_ROUNDS):
        nearest = neighbours(batch, now.models, rng, plan.n_threads)
        again = refitted(batch, scale, now._replace(models=now.models.take(nearest)), pooled, plan, rng)
        fitting = np.flatnonzero(again.n_reseeded == now.n_reseeded)
        now.put(fitting, again, fitting)
    return now


def given_start(init: H3M | HMM, n: int, n_dims: int) -> Models:
    """Return copies of the HMMs to start from, one for each of n groups."""
    if init.n_dims != n_dims:
        problem = "{init} has {n:dimension}, but the sequences have {d}; they must agree"
        raise InputError(problem, n=Count(init.n_dims), d=n_dims)
    if isinstance(init, HMM):
        init = H3M([init])
        index = np.zeros(n, dtype=np.intp)
    elif len(init) != n:
        problem = "{init} has {k:HMM} for {n} sequences or groups"
        raise InputError(problem, "give one for each", "give one HMM", k=Count(len(init)), n=n)
    else:
        index = np.arange(n)
    return init.parameters.take(index)


def _most_visited_first(fits: Fits) -> Fits:
    order = np.argsort(-fits.occupancy, axis=1, kind="stable")
    occupancy = np.take_along_axis(fits.occupancy, order, axis=1)
    return fits._replace(models=fits.models.reordered(order), occupancy=occupancy)
