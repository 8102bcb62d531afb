"""VHEM's inputs as what they are, estimates: clusters learned from sequences like those behind them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vhem._support.arrays import FloatArray, IntArray
from vhem.em.cluster_starts import CenterShape
from vhem.em.fitting import FitPlan
from vhem.em.loop import Limits, run
from vhem.em.polish import Polish, elected, followed
from vhem.em.reduction import Centers, ReductionProblem
from vhem.em.retold import retold
from vhem.em.sharding import Shards
from vhem.em.topology import topology_of
from vhem.em.ward import divergences, most_comparable, ward_partitions
from vhem.emissions import Gaussian
from vhem.kernels.models import Models
from vhem.kernels.reduction import BaseModels
from vhem.models.evidence import Evidence

_COPIES = 4  # of the sequences of other families than Gaussians, each with a quarter of the weight
_WARD = 0.5  # votes of Ward's parts, against one for what was learned from them: HMMs know less than sequences
_VARIED = 3  # iterations with items that vary; with full covariances they took most of the time and gained nothing
_LIMITS = Limits(max_iter=20, tol=1e-4)


class PolishedModels(NamedTuple):
    """Clusters of HMMs."""

    models: Models  #: one HMM per cluster
    responsibilities: FloatArray  #: (n, K)


def polished(
    base: BaseModels, evidence: Evidence, cases: FloatArray | None, shape: CenterShape, rng: np.random.Generator,
    n_threads: int,
) -> PolishedModels:  # fmt: skip
    """Return the clusters that Ward's parts lead to, and an HMM for each.

    `cases` says how many cases each input stands for, if they differ. Centres of Gaussians are the HMMs with the
    highest bound. By the bound, a base state chooses a state of the centre without having seen the observation; states
    that share categories or counts are then hardly told apart, and centres would fall to one state. So the centres of
    other families are those that the sequences are likeliest under.
    """
    K, gaussian = shape.n_clusters, isinstance(base.models.components, Gaussian)
    batch = retold(base.models, evidence, rng, 1 if gaussian else _COPIES)._replace(cases=cases)
    plan = _plan(base.models, shape, n_threads)
    n_varied = _VARIED if plan.shape.covariance_type == "diag" else 0
    polish = Polish(batch=batch, plan=plan, n_clusters=K, n_varied=n_varied)
    best = elected(polish.learned(_partitions(base, polish, rng), rng), _WARD)
    if not gaussian:
        return PolishedModels(best.models, best.responsibilities)
    labels = best.responsibilities.argmax(axis=1)
    centers = [_center(base.take(labels == k), best.models.take([k]), n_threads) for k in range(K)]
    return PolishedModels(Models.joined(centers), best.responsibilities)


def _partitions(base: BaseModels, polish: Polish, rng: np.random.Generator) -> dict[str, IntArray]:
    """Return the parts of Ward's trees; of too many left-right inputs a sample is compared, and the others follow."""
    n, K, plan, topology = len(base.counts), polish.n_clusters, polish.plan, polish.plan.shape.topology
    most = max(most_comparable(topology, base.tau, plan.shape.n_states), 10 * K)
    if n <= most or topology == "ergodic":
        return ward_partitions(_apart(base, plan.n_threads), K)
    chosen = np.sort(rng.choice(n, most, replace=False))
    found = ward_partitions(_apart(base.take(chosen), plan.n_threads), K)
    return {name: followed(polish.batch, chosen, labels, K, plan, rng) for name, labels in found.items()}


def _apart(base: BaseModels, n_threads: int) -> dict[str, FloatArray]:
    """Return divergences over τ frames, half and twice as many, and damped ones.

    By the damped ones, clusters far from all others do not decide which of the others are merged.
    """
    lengths = {"ward": base.tau, "half as long": max(1, base.tau // 2), "twice as long": 2 * base.tau}
    apart = {name: divergences(base.models, tau, n_threads) for name, tau in lengths.items()}
    return apart | {"damped": np.log1p(apart["ward"])}


def _plan(models: Models, shape: CenterShape, n_threads: int) -> FitPlan:
    gaussian = models.components
    full = isinstance(gaussian, Gaussian) and not gaussian.is_diagonal
    plan = FitPlan.checked(
        n_mix=1, covariance_type="full" if full else "diag",
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
