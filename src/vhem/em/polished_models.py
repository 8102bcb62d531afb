"""VHEM's inputs as what they are, estimates: clusters learned from sequences like those behind them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vhem._support.arrays import FloatArray
from vhem.em.cluster_starts import CenterShape, ward_labels
from vhem.em.fitting import FitPlan
from vhem.em.loop import Limits, run
from vhem.em.polish import Polish
from vhem.em.reduction import Centers, ReductionProblem
from vhem.em.retold import retold
from vhem.em.sharding import Shards
from vhem.em.topology import topology_of
from vhem.emissions import Gaussian
from vhem.kernels.models import Models
from vhem.kernels.reduction import BaseModels
from vhem.models.evidence import Evidence

_MOVES = 1  # of the search
_LEAST_GAIN = 0.4  # nats per input that a move of the search must gain: an HMM knows less than its sequences
_LIMITS = Limits(max_iter=20, tol=1e-4)


class PolishedModels(NamedTuple):
    """Clusters of HMMs."""

    models: Models  #: one HMM per cluster
    responsibilities: FloatArray  #: (n, K)


def polished(
    base: BaseModels, evidence: Evidence, shape: CenterShape, rng: np.random.Generator, n_threads: int
) -> PolishedModels:
    """Return the clusters that Ward's parts lead to, and the HMM with the highest bound for each."""
    batch = retold(base.models, evidence, rng)
    plan = _plan(base.models, shape, n_threads)
    K = shape.n_clusters
    polish = Polish(batch=batch, base=base, plan=plan, n_clusters=K, n_moves=_MOVES, least_gain=_LEAST_GAIN)
    first = polish.learned("ward", ward_labels(base, K, n_threads), rng)
    best = polish.finished(polish.searched([first], rng))
    labels = best.responsibilities.argmax(axis=1)
    centers = [_center(base.take(labels == k), best.models.take([k]), n_threads) for k in range(K)]
    return PolishedModels(Models.joined(centers), best.responsibilities)


def _plan(models: Models, shape: CenterShape, n_threads: int) -> FitPlan:
    gaussian = models.components
    assert isinstance(gaussian, Gaussian)
    plan = FitPlan.checked(
        n_mix=1, covariance_type="diag" if gaussian.is_diagonal else "full",
        topology=topology_of(models.startprob, models.transmat), max_iter=100, tol=1e-4, reg_covar=1e-3,
        startprob_prior=0.1, transmat_prior=0.1, covars_prior=0.1, n_threads=n_threads,
    )  # fmt: skip
    return plan.with_states(shape.n_states)


def _center(members: BaseModels, start: Models, n_threads: int) -> Models:
    """Return the HMM with the highest bound for some inputs; without any, the one at hand."""
    if not len(members.counts):
        return start
    problem = ReductionProblem(base=Shards.of(members), n_threads=n_threads)
    models: Models = run(problem, Centers(start, np.ones(1)), _LIMITS).state.models
    return models
