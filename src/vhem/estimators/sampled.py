"""SampledHEM: clusters HMMs by sequences drawn from them, as an alternative to the variational bound."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from vhem._support.arrays import FloatArray, IntArray
from vhem._support.checks import check_as_many, check_choice, check_enough
from vhem._support.errors import NotConvergedWarning, warn
from vhem._support.randomness import generator
from vhem._support.saving import register_estimator
from vhem.em.cluster_starts import IN_TURN, STARTS, CenterShape
from vhem.em.estimator import EMClusterer
from vhem.em.grouped import Batch
from vhem.em.loop import Limits, Run, run
from vhem.em.mixtures import Items, MixtureProblem, Mixtures
from vhem.em.ordering import canonical_order
from vhem.em.parameters import check_parameters, documented
from vhem.estimators.divergence import check_dimensions
from vhem.kernels.engine import n_threads
from vhem.kernels.filtering import log_likelihoods
from vhem.kernels.maximise import Prior
from vhem.kernels.reduction import BaseModels
from vhem.models import H3M, HMM
from vhem.models.checks import check_h3m
from vhem.models.sampling import sample
from vhem.sequences.channels import Channels

_FLOOR = 1e-6  # of the narrowest input's variance, below which no centre may fall


def draw(h3m: H3M, n: int, tau: int, rng: np.random.Generator) -> tuple[Batch, Items]:
    """Draw n sequences of τ frames from each HMM; those of model i count K ω_i times, or once if ω_i is zero."""
    labels = np.repeat(np.arange(len(h3m)), n)
    X, _ = sample(h3m.parameters, labels, np.full(len(labels), tau), rng)
    like = h3m.emissions.padding()
    batch = Batch(X, tau * np.arange(len(labels) + 1), labels, np.ones(len(labels)), list(range(len(h3m))), like)
    scales = len(h3m) * h3m.weights
    inside = np.where(scales > 0, scales, 1.0)[labels]
    return batch, Items(labels, inside, np.ones(len(h3m)), np.zeros(len(h3m), dtype=np.int64))


@documented
@dataclass(eq=False, repr=False)
class SampledHEM(EMClusterer):
    """Cluster HMMs by drawing sequences from them.

    Sequences are drawn from every input, and a mixture of HMMs is learned from them by EM, in which all sequences of
    one input belong to one cluster together: z_ij ∝ ω_j Π_n p(y_n | j) over the sequences of input i. With more of them
    this approaches the true expected log-likelihood, which VHEM bounds from below; the cost in time and memory grows
    with the number of sequences.

    Parameters
    ----------
    n_clusters : int
        Number of clusters.
    n_states, n_mix, covariance_type
        Size and covariances of the centres, as in :class:`vhem.VHEM`.
    tau : int
        Length of the sequences drawn.
    n_samples : int
        Sequences drawn from each input; those of an input of weight ω_i count K ω_i times.
    init, n_init
        Starts, as in :class:`vhem.VHEM`.
    <limits>
    <random_state>
    <n_jobs>
    <verbose>

    Attributes
    ----------
    centers_ : H3M
        One HMM per cluster, ordered as in :class:`vhem.VHEM`.
    labels_, responsibilities_ : ndarray of shape (K,) and (K, n_clusters)
        Cluster of each input, and z_ij.
    lower_bound_, lower_bounds_ : float, ndarray
        The objective Σ_i log Σ_j ω_j Π_n p(y_n | j), at the end and after every E-step. It never falls.
    n_iter_, converged_ : int, bool
        Number of iterations, and whether the objective converged.

    Examples
    --------
    >>> import vhem
    >>> def viewer(x):
    ...     return vhem.HMM([0.9, 0.1], [[0.2, 0.8], [0.8, 0.2]], [[x], [x + 4]], [[1.0], [1.0]])
    >>> viewers = vhem.H3M([viewer(0.0), viewer(0.2), viewer(9.0), viewer(9.1), viewer(9.2)])
    >>> vhem.SampledHEM(n_clusters=2, random_state=0).fit(viewers).labels_
    array([1, 1, 0, 0, 0])
    """

    n_clusters: int = 8
    n_states: int | None = None
    n_mix: int | None = None
    covariance_type: str | None = None
    tau: int = 10
    n_samples: int = 100
    init: str | H3M = "auto"
    n_init: int = 4
    max_iter: int = 100
    tol: float = 1e-5
    random_state: Any = None
    n_jobs: int | None = None
    verbose: bool | None = None

    centers_: H3M = field(init=False)

    def fit(self, X: H3M | list[HMM], y: Any = None) -> Self:
        """Cluster the HMMs of `X`."""
        del y
        self._check_parameters()
        h3m = check_h3m("X", X)
        if isinstance(self.init, H3M):
            check_dimensions("X", h3m, "init", self.init)
        else:
            check_enough("n_clusters", self.n_clusters, len(h3m), "HMM")
        rng = generator(self.random_state)
        drawn = draw(h3m, self.n_samples, self.tau, rng)
        used = np.flatnonzero(h3m.weights > 0)
        problem = self._problem(*_of_some(*drawn, used), h3m)
        limits = Limits(max_iter=self.max_iter, tol=self.tol)
        starts = (s._replace(models=problem.prior.possible(s.models)) for s in self._starts(h3m[used], rng))
        runs = [run(problem, start, limits) for start in starts]
        best = max(runs, key=lambda one: one.bounds[-1])
        self._keep(best, self._problem(*drawn, h3m), h3m._channels)
        if not self.converged_ and self.tol > 0:
            warn(NotConvergedWarning("SampledHEM", "the objective", self.max_iter))
        return self

    def transform(self, X: H3M | HMM | list[HMM], random_state: Any = None) -> FloatArray:
        """Return the mean log-likelihood of sequences drawn from each HMM of `X` under each centre."""
        batch, items, _ = self._fresh(X, random_state)
        scores = log_likelihoods(self.centers_.parameters, batch.X, batch.offsets, n_threads(self.n_jobs))
        return items._replace(inside=np.ones(len(scores))).totals(scores) / self.n_samples

    def predict(self, X: H3M | HMM | list[HMM], random_state: Any = None) -> IntArray:
        """Return the cluster that sequences drawn from each HMM of `X` most probably belong to."""
        problem = self._problem(*self._fresh(X, random_state))
        return np.asarray(problem.e_step(self._centers()).responsibilities.argmax(1))

    def _fresh(self, X: H3M | HMM | list[HMM], random_state: Any) -> tuple[Batch, Items, H3M]:
        check_is_fitted(self)
        h3m = check_h3m("X", X)
        check_dimensions("X", h3m, "the fitted centres", self.centers_)
        seed = self.random_state if random_state is None else random_state
        return *draw(h3m, self.n_samples, self.tau, generator(seed)), h3m

    def _centers(self) -> Mixtures:
        return Mixtures(self.centers_.parameters, self.centers_.weights[None])

    def _check_parameters(self) -> None:
        check_parameters(self)
        if not isinstance(self.init, H3M):
            check_choice("init", self.init, ("auto", *STARTS))
        else:
            check_as_many(len(self.init), "HMM", "n_clusters", self.n_clusters)

    def _starts(self, h3m: H3M, rng: np.random.Generator) -> list[Mixtures]:
        """Return the starting points: those of VHEM."""
        if isinstance(self.init, H3M):
            return [Mixtures(self.init.parameters, self.init.weights[None])]
        models = h3m.parameters
        if self.covariance_type is not None:
            models = models.with_components(models.components.with_covariances(self.covariance_type))
        ones = np.ones(len(h3m))
        base = BaseModels.of(models, self.n_samples * ones, ones, self.tau)
        shape = CenterShape.like(models, self.n_clusters, self.n_states, self.n_mix)
        kinds = list(IN_TURN) if self.init == "auto" else [self.init]
        uniform = np.full((1, self.n_clusters), 1 / self.n_clusters)
        seeds, threads = rng.spawn(self.n_init), n_threads(self.n_jobs)
        return [
            Mixtures(STARTS[kinds[r % len(kinds)]](base, h3m.weights, shape, seed, threads), uniform)
            for r, seed in enumerate(seeds)
        ]

    def _problem(self, batch: Batch, items: Items, h3m: H3M) -> MixtureProblem:
        """Return the problem with a prior that only keeps centres from becoming far narrower than the inputs."""
        K, S = self.n_clusters, self._most_states(h3m)
        floor = h3m.emissions.within_reach(K, _FLOOR)
        return MixtureProblem(
            batch=batch, items=items, prior=Prior(np.zeros((K, S)), np.zeros((K, S, S)), floor), n_components=K,
            strict=True, n_threads=n_threads(self.n_jobs),
        )  # fmt: skip

    def _most_states(self, h3m: H3M) -> int:
        if isinstance(self.init, H3M):
            return int(self.init.n_states.max())
        return CenterShape.like(h3m.parameters, self.n_clusters, self.n_states).n_states

    def _keep(self, best: Run, problem: MixtureProblem, channels: Channels | None) -> None:
        models, weights = best.state.models, best.state.weights[0]
        if not isinstance(self.init, H3M):
            models, weights = canonical_order(models, weights)
        self.centers_ = H3M.of_models(models, weights, channels=channels)
        self.responsibilities_ = problem.e_step(self._centers()).responsibilities
        self.labels_ = self.responsibilities_.argmax(1)
        self.lower_bounds_, self.lower_bound_ = np.array(best.bounds), best.bounds[-1]
        self.n_iter_, self.converged_ = len(best.bounds) - 1, bool(best.converged[0])


def _of_some(batch: Batch, items: Items, used: IntArray) -> tuple[Batch, Items]:
    """Return the sequences of some of the inputs."""
    if len(used) == len(items.weights):
        return batch, items
    kept = np.flatnonzero(np.isin(items.item, used))
    number = np.searchsorted(used, items.item[kept])
    cut = batch.cut(kept, batch.lengths[kept], number, list(range(len(used))))
    return cut, Items(number, items.inside[kept], items.weights[used], items.mixture[used])


register_estimator(SampledHEM)
