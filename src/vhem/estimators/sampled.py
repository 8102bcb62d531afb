"""SampledHEM: clusters HMMs by sequences drawn from them, the honest alternative to the variational bound."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils.validation import check_is_fitted

from vhem._support.arrays import FloatArray, IntArray
from vhem._support.checks import (
    check_as_many,
    check_choice,
    check_enough,
    check_in_range,
    check_integer,
    check_real,
)
from vhem._support.errors import BoundError, NotConvergedWarning
from vhem._support.randomness import generator
from vhem._support.saving import Saveable, register_estimator
from vhem.em.cluster_starts import STARTS, Shape
from vhem.estimators.divergence import check_dimensions, match_covariances
from vhem.estimators.vhem import canonical_order
from vhem.kernels.counting import Pairs, Prior, expectations, log_likelihoods, m_step
from vhem.kernels.engine import n_threads
from vhem.kernels.parameters import Parameters
from vhem.kernels.reduction import BaseModels, expected_visits
from vhem.models import H3M, HMM
from vhem.models.checks import check_h3m
from vhem.models.sampling import sample

_NEGLIGIBLE = 1e-20  # responsibility of a cluster for a base model below which its samples are left out
_FLOOR = 1e-6  # of the narrowest input's variance, below which no centre may fall
_ROUNDING = 1e-9  # a fall of the bound, relative to its size, that arithmetic can explain


class Samples(NamedTuple):
    """Sequences drawn from K base models, n of each, one model after the other."""

    X: FloatArray  #: (K · n · τ, d)
    offsets: IntArray
    n: int
    scales: FloatArray  #: (K,) how often each sequence of a model counts

    @staticmethod
    def draw(h3m: H3M, n: int, tau: int, rng: np.random.Generator) -> Samples:
        """Draw n sequences of τ frames from each HMM; those of model i count K ω_i times, or once if ω_i is zero."""
        labels = np.repeat(np.arange(len(h3m)), n)
        X, _ = sample(h3m.parameters, labels, np.full(len(labels), tau), rng)
        scales = len(h3m) * h3m.weights
        return Samples(X, tau * np.arange(len(labels) + 1), n, np.where(scales > 0, scales, 1.0))

    def take(self, used: IntArray) -> Samples:
        """Return the samples of some base models."""
        tau = int(self.offsets[1])
        X = self.X.reshape(len(self.scales), -1, self.X.shape[1])[used].reshape(-1, self.X.shape[1])
        return Samples(X, tau * np.arange(len(used) * self.n + 1), self.n, self.scales[used])

    def pairs(self, n_models: int) -> Pairs:
        """Return every sequence with every one of `n_models` HMMs."""
        return Pairs.crossed(np.diff(self.offsets), n_models)

    def scores(self, models: Parameters, threads: int) -> FloatArray:
        """Return Σ_{y of model i} log p(y | HMM j), (K, n_models)."""
        pairs = self.pairs(len(models.n_states))
        found = log_likelihoods(models, self.X, self.offsets, pairs, threads)
        totals = np.zeros((len(self.scales), len(models.n_states)))
        np.add.at(totals, (pairs.sequence // self.n, pairs.model), found)
        return totals


class Run(NamedTuple):
    """One run of EM from one start."""

    parameters: Parameters
    weights: FloatArray
    bounds: list[float]
    responsibilities: FloatArray
    converged: bool


class SampledHEM(Saveable, ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """Cluster HMMs by drawing sequences from them.

    Sequences are drawn from every input, and a mixture of HMMs is learned from them by EM, in which all sequences of
    one input belong to one cluster together: z_ij ∝ ω_j Π_n p(y_n | j) over the sequences of input i. With more of them
    this approaches the true expected log-likelihood, of which VHEM's bound is a lower estimate; the price is time and
    memory that grow with the number of sequences.

    Parameters
    ----------
    n_clusters : int
        Number of clusters.
    n_states, n_mix, covariance_type
        Of the centres, as in :class:`vhem.VHEM`.
    tau : int
        Length of the sequences drawn.
    n_samples : int
        Sequences drawn from each input; those of an input of weight ω_i count K ω_i times.
    init, n_init
        Starts, as in :class:`vhem.VHEM`.
    max_iter : int
        Largest number of iterations.
    tol : float
        A run ends when the objective rises by less than this many nats per frame drawn.
    random_state : int, numpy Generator, RandomState or None
        Seed of sequences and starts.
    n_jobs : int, optional
        Threads; None or -1 uses every core. The result does not depend on it.

    Attributes
    ----------
    centers_ : H3M
        One HMM per cluster, ordered as in :class:`vhem.VHEM`.
    labels_, responsibilities_ : ndarray of shape (K,) and (K, n_clusters)
        Cluster of each input, and z_ij.
    lower_bound_, lower_bounds_ : float, ndarray
        The objective Σ_i log Σ_j ω_j Π_n p(y_n | j), at the end and after every E-step. It never falls.
    n_iter_, converged_ : int, bool
        Iterations made, and whether the objective settled.

    Examples
    --------
    >>> import vhem
    >>> def viewer(x):
    ...     return vhem.HMM([0.9, 0.1], [[0.2, 0.8], [0.8, 0.2]], [[x], [x + 4]], [[1.0], [1.0]])
    >>> viewers = vhem.H3M([viewer(0.0), viewer(0.2), viewer(9.0), viewer(9.1), viewer(9.2)])
    >>> vhem.SampledHEM(n_clusters=2, random_state=0).fit(viewers).labels_
    array([1, 1, 0, 0, 0])
    """

    centers_: H3M
    labels_: IntArray
    responsibilities_: FloatArray
    lower_bound_: float
    lower_bounds_: FloatArray
    n_iter_: int
    converged_: bool

    def __init__(
        self,
        n_clusters: int = 8,
        n_states: int | None = None,
        n_mix: int | None = None,
        covariance_type: str | None = None,
        tau: int = 10,
        n_samples: int = 100,
        init: str | H3M = "auto",
        n_init: int = 4,
        max_iter: int = 100,
        tol: float = 1e-5,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.n_states = n_states
        self.n_mix = n_mix
        self.covariance_type = covariance_type
        self.tau = tau
        self.n_samples = n_samples
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.n_jobs = n_jobs

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
        samples = Samples.draw(h3m, self.n_samples, self.tau, rng)
        used = np.flatnonzero(h3m.weights > 0)
        part = samples.take(used) if len(used) < len(h3m) else samples
        runs = [self._run(part, start, weights, h3m) for start, weights in self._starts(h3m[used], rng)]
        best = max(runs, key=lambda run: run.bounds[-1])
        self._keep(best, samples)
        if not best.converged and self.tol > 0:
            warnings.warn(NotConvergedWarning("SampledHEM", "the objective", self.max_iter), stacklevel=2)
        return self

    def fit_predict(self, X: H3M | list[HMM], y: Any = None, **kwargs: Any) -> IntArray:
        """Cluster the HMMs of `X` and return the cluster of each."""
        del kwargs
        return self.fit(X, y).labels_

    def transform(self, X: H3M | HMM | list[HMM], random_state: Any = None) -> FloatArray:
        """Return the mean log-likelihood of sequences drawn from each HMM of `X` under each centre."""
        samples = self._fresh(X, random_state)
        return samples.scores(self.centers_.parameters, n_threads(self.n_jobs)) / samples.n

    def predict(self, X: H3M | HMM | list[HMM], random_state: Any = None) -> IntArray:
        """Return the cluster that sequences drawn from each HMM of `X` most probably belong to."""
        return np.asarray(self._logits(self._fresh(X, random_state)).argmax(1))

    def _fresh(self, X: H3M | HMM | list[HMM], random_state: Any) -> Samples:
        check_is_fitted(self)
        h3m = check_h3m("X", X)
        check_dimensions("X", h3m, "the fitted centres", self.centers_)
        seed = self.random_state if random_state is None else random_state
        return Samples.draw(h3m, self.n_samples, self.tau, generator(seed))

    def _check_parameters(self) -> None:
        check_integer("n_clusters", self.n_clusters, 1)
        for name in ("n_states", "n_mix"):
            if getattr(self, name) is not None:
                check_integer(name, getattr(self, name), 1)
        if self.covariance_type is not None:
            check_choice("covariance_type", self.covariance_type, ("diag", "full"))
        check_integer("tau", self.tau, 1)
        check_integer("n_samples", self.n_samples, 1)
        check_integer("n_init", self.n_init, 1)
        check_integer("max_iter", self.max_iter, 0)
        check_real("tol", self.tol, 0.0)
        if not isinstance(self.init, H3M):
            check_choice("init", self.init, ("auto", *STARTS))
        else:
            check_as_many(len(self.init), "HMM", "n_clusters", self.n_clusters)

    def _starts(self, h3m: H3M, rng: np.random.Generator) -> list[tuple[Parameters, FloatArray]]:
        """Return where to start from: the starts that VHEM takes."""
        if isinstance(self.init, H3M):
            return [(self.init.parameters, self.init.weights)]
        p = match_covariances(h3m.parameters, self.covariance_type or h3m.covariance_type)
        ones = np.ones(len(h3m))
        base = BaseModels(p, expected_visits(p, self.tau), self.n_samples * ones, ones, self.tau)
        n_states = self.n_states or int(np.ceil(np.median(p.n_states)))
        shape = Shape(self.n_clusters, n_states, self.n_mix or h3m.n_mix)
        kinds = list(STARTS) if self.init == "auto" else [self.init]
        uniform = np.full(self.n_clusters, 1 / self.n_clusters)
        seeds, threads = rng.spawn(self.n_init), n_threads(self.n_jobs)
        return [
            (STARTS[kinds[r % len(kinds)]](base, h3m.weights, shape, seed, threads), uniform)
            for r, seed in enumerate(seeds)
        ]

    def _run(self, samples: Samples, parameters: Parameters, weights: FloatArray, h3m: H3M) -> Run:
        """E-step, bound, M-step, until the bound stands still."""
        prior, threads = _only_a_floor(h3m, parameters), n_threads(self.n_jobs)
        threshold = self.tol * float(samples.scales.sum()) * samples.n * self.tau
        bounds, converged = list[float](), False
        for iteration in range(self.max_iter + 1):
            with np.errstate(divide="ignore"):
                logits = np.log(weights) + samples.scales[:, None] * samples.scores(parameters, threads)
            total = np.logaddexp.reduce(logits, axis=1)
            z = np.exp(logits - total[:, None])
            bounds.append(float(total.sum()))
            check_in_range("the objective", bounds[-1])
            if iteration:
                _check_rise(bounds)
                converged = bounds[-1] - bounds[-2] < threshold
            if converged or iteration == self.max_iter:
                break
            parameters, weights = _maximised(samples, parameters, z, prior, threads), z.mean(0)
        return Run(parameters, weights, bounds, z, converged)

    def _logits(self, samples: Samples) -> FloatArray:
        scores = samples.scores(self.centers_.parameters, n_threads(self.n_jobs))
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.centers_.weights) + samples.scales[:, None] * scores)

    def _keep(self, best: Run, samples: Samples) -> None:
        p, weights = best.parameters, best.weights
        if not isinstance(self.init, H3M):
            p, weights = canonical_order(p, weights)
        self.centers_ = H3M.from_arrays(
            p.startprob, p.transmat, p.means, p.covars, p.mix_weights, weights=weights, n_states=p.n_states
        )
        logits = self._logits(samples)
        self.responsibilities_ = np.exp(logits - np.logaddexp.reduce(logits, axis=1, keepdims=True))
        self.labels_ = self.responsibilities_.argmax(1)
        self.lower_bounds_, self.lower_bound_ = np.array(best.bounds), best.bounds[-1]
        self.n_iter_, self.converged_ = len(best.bounds) - 1, best.converged


def _maximised(samples: Samples, now: Parameters, z: FloatArray, prior: Prior, threads: int) -> Parameters:
    """Return Baum-Welch's M-step on all sequences, each weighted by its input's share in the cluster."""
    pairs = samples.pairs(z.shape[1])
    weights = (z * samples.scales[:, None])[pairs.sequence // samples.n, pairs.model]
    active = np.flatnonzero(weights > _NEGLIGIBLE)
    pairs, weights = pairs.take(active), weights[active]
    update = m_step(expectations(now, samples.X, samples.offsets, pairs, weights, threads), now, prior)
    if update.far:  # moments about means so far off have lost digits: take them about the new ones
        anchors = np.ascontiguousarray(update.parameters.means)
        again = expectations(now, samples.X, samples.offsets, pairs, weights, threads, anchors)
        update = m_step(again, now, prior, anchors)
    return Parameters._make(map(np.ascontiguousarray, update.parameters))


def _only_a_floor(h3m: H3M, start: Parameters) -> Prior:
    """Return a prior that does nothing but keep variances above a small part of the narrowest input's."""
    K, S = start.startprob.shape
    covars = h3m.covars if h3m.covariance_type == "diag" else np.linalg.eigvalsh(h3m.covars)
    floor = np.full((K, h3m.n_dims), _FLOOR * float(covars.min()))
    return Prior(np.zeros((K, S)), np.zeros((K, S, S)), 0.0, np.ones((K, h3m.n_dims)), floor)


def _check_rise(bounds: list[float]) -> None:
    before, after = bounds[-2:]
    if after < before - _ROUNDING * max(1.0, abs(before)):
        raise BoundError("the objective", before, after, len(bounds) - 1)


register_estimator(SampledHEM)
