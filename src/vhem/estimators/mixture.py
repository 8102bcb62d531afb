"""EM-H3M: a mixture of HMMs learned from sequences (Smyth 1997)."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils.validation import check_is_fitted

from vhem._support.arrays import FloatArray, IntArray
from vhem._support.checks import check_as_many, check_choice, check_enough, check_integer, check_real
from vhem._support.errors import BoundError, NotConvergedWarning, warn_if_any
from vhem._support.phrases import AT_FLOOR, LOWERED
from vhem._support.randomness import RandomState, generator
from vhem._support.saving import Saveable, register_estimator
from vhem.em.grouped import Batch, Scale
from vhem.em.loop import Report
from vhem.em.many_hmms import ROUNDING
from vhem.em.mixture_starts import PARTITIONS, fit_parts
from vhem.em.progress import Progress, Restart, check_callback
from vhem.em.topology import allowed
from vhem.estimators.fit_hmms import Options, as_h3m, given_start, is_plain, n_parameters, prior_for
from vhem.estimators.vhem import canonical_order
from vhem.kernels.counting import Pairs, Prior, Update, expectations, floored, log_likelihoods, log_prior, m_step
from vhem.kernels.engine import n_threads
from vhem.kernels.parameters import Expectations, Parameters
from vhem.models import H3M
from vhem.sequences import Sequences, SequencesLike, as_sequences

_NEGLIGIBLE = 1e-16  # responsibility, relative to a cluster's average, below which a sequence does not show in its sums


class Run(NamedTuple):
    """One run of EM from one start."""

    parameters: Parameters
    weights: FloatArray
    bounds: list[float]  #: one per E-step, the initial model's first
    converged: bool
    timed_out: bool
    n_floored: int
    n_falls: int


_seconds: ContextVar[Callable[[], float]] = ContextVar("seconds", default=time.perf_counter)


@contextmanager
def time_measured_by(clock: Callable[[], float]) -> Iterator[None]:
    """Let `time_limit` count the seconds of another clock, such as `time.process_time`, in what runs inside."""
    token = _seconds.set(clock)
    try:
        yield
    finally:
        _seconds.reset(token)


class Clock(NamedTuple):
    """How much time is left."""

    end: float

    @staticmethod
    def start(limit: float | None) -> Clock:
        """Begin now; without a limit there is always time."""
        return Clock(np.inf if limit is None else _seconds.get()() + limit)

    @property
    def is_over(self) -> bool:
        """Whether the time is up."""
        return _seconds.get()() >= self.end


def e_step(
    batch: Batch, parameters: Parameters, weights: FloatArray, pairs: Pairs, threads: int
) -> tuple[FloatArray, FloatArray]:
    """Return log Σ_k ω_k p(y_n|k), (n,), and the responsibilities z_nk, (K, n); sequences in the order of the pairs."""
    scores = log_likelihoods(parameters, batch.X, batch.offsets, pairs, threads).reshape(len(weights), -1)
    with np.errstate(divide="ignore"):
        scores += np.log(weights)[:, None]
    top = scores.max(axis=0)
    shares = np.exp(scores - top)
    total = shares.sum(axis=0)
    return top + np.log(total), shares / total


def sums_for_update(
    batch: Batch, z: FloatArray, parameters: Parameters, pairs: Pairs, threads: int, anchors: FloatArray | None = None
) -> tuple[Expectations, FloatArray]:
    """Return the sums for the M-step, in which every statistic of sequence n counts z_nk in cluster k, and Σ_n z_nk."""
    w = z * batch.weights[pairs.sequence[: z.shape[1]]]
    mass = w.sum(axis=1)
    shows = np.flatnonzero(w * z.shape[1] > _NEGLIGIBLE * mass[:, None])
    return expectations(parameters, batch.X, batch.offsets, pairs.take(shows), w.ravel()[shows], threads, anchors), mass


def update(
    batch: Batch, z: FloatArray, parameters: Parameters, pairs: Pairs, prior: Prior, threads: int
) -> tuple[Update, FloatArray]:
    """Return the M-step's HMMs and weights."""
    sums, mass = sums_for_update(batch, z, parameters, pairs, threads)
    made = m_step(sums, parameters, prior)
    if made.far:  # the variances lost digits: count again, about the new means
        anchors = made.parameters.means
        made = m_step(sums_for_update(batch, z, parameters, pairs, threads, anchors)[0], parameters, prior, anchors)
    return made, mass / mass.sum()


def run(
    batch: Batch,
    start: Parameters,
    weights: FloatArray,
    prior: Prior,
    options: Options,
    clock: Clock,
    report: Report = lambda *_: None,
) -> Run:
    """Iterate from `start` until the objective stands still, or time or iterations are used up."""
    pairs = Pairs.crossed(batch.lengths, len(weights))
    counts = batch.weights[pairs.sequence[: len(batch.groups)]]
    parameters, bounds, n_falls, converged, n_floored = floored(start, prior), [], 0, False, 0
    for iteration in range(options.max_iter + 1):
        scores, z = e_step(batch, parameters, weights, pairs, options.n_threads)
        bounds.append(float(counts @ scores + log_prior(parameters, prior).sum()))
        if iteration:
            n_falls += _fell(bounds, is_plain(options))
            converged = abs(bounds[-1] - bounds[-2]) < options.tol * batch.n_frames.sum()
        report(iteration, bounds[-1], converged)
        if converged or iteration == options.max_iter or clock.is_over:
            break
        made, weights = update(batch, z, parameters, pairs, prior, options.n_threads)
        parameters, n_floored = made.parameters, int(made.n_floored.sum())
    return Run(parameters, weights, bounds, converged, not converged and clock.is_over, n_floored, n_falls)


def _fell(bounds: list[float], strict: bool) -> bool:
    before, after = bounds[-2:]
    if after >= before - ROUNDING * max(1.0, abs(before)):
        return False
    if strict or not np.isfinite(after):
        raise BoundError("the log-likelihood", before, after, len(bounds) - 1)
    return True


class MixtureOfHMMs(Saveable, ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """Learn a mixture of HMMs from sequences, and cluster them by it: EM-H3M.

    p(y) = Σ_k ω_k p(y | HMM k). The E-step assigns sequences, z_nk ∝ ω_k p(y_n | HMM k), the M-step is that of
    Baum-Welch with every statistic of sequence n weighted by z_nk. The log-likelihood (plus the logs of the priors, if
    any) never falls.

    Parameters
    ----------
    n_components : int
        Number of HMMs.
    n_states, n_mix : int
        States of each HMM, Gaussians a state.
    covariance_type : {"diag", "full"}
        Form of the covariances.
    topology : {"ergodic", "left-right", "left-right-skip"}
        Which transitions are possible; see `fit_hmms`.
    init : {"auto", "smyth", "kmeans", "random"} or H3M
        Where to start. "smyth": one HMM per sequence, hierarchical clustering of their pairwise log-likelihoods, one
        HMM per cluster. "kmeans": clusters of the sequences' means, deviations and average steps. "random": random
        clusters. "auto": the restarts take these in turn, and the best likelihood wins. An H3M, such as VHEM's centres,
        is polished as it is; its order is kept, and its sizes, covariances and zeros take the place of the parameters.
    n_init : int
        Restarts. The default of 2 lets "auto" try Smyth's start and k-means; one of them is nearly always good.
    max_iter : int
        Largest number of iterations.
    tol : float
        A run ends when the log-likelihood gains less than this many nats per frame.
    reg_covar, startprob_prior, transmat_prior, covars_prior : float
        Variance floor as a share of the data's variance, and priors as counts of imagined observations, as in
        `fit_hmms`. Priors are off by default: clusters have many sequences.
    time_limit : float, optional
        Seconds after which no further iteration or restart is begun. The E-step of the first start is always made.
    callback : callable, optional
        Called after every E-step with a `Progress`, as in `VHEM`.
    verbose : bool
        Print a line per restart.
    random_state : int, numpy Generator, RandomState or None
        Seed of the starts. One seed gives one answer, whatever `n_jobs` (unless `time_limit` cuts it short).
    n_jobs : int, optional
        Threads. None or -1 uses every core.

    Attributes
    ----------
    model_ : H3M
        The mixture; heaviest HMM first, unless `init` was an H3M.
    labels_, responsibilities_ : ndarrays of shape (n,) and (n, n_components)
        Most probable HMM of each sequence, and the probability of each.
    lower_bound_, lower_bounds_ : float, ndarray
        The objective at the end, and after every E-step from the initial model on.
    n_iter_, converged_, timed_out_ : int, bool, bool
        Iterations made, whether the objective had settled, and whether time ran out.
    restarts_ : list of Restart
        Start, objectives and convergence of every restart.
    n_empty_clusters_, n_floored_, n_falls_ : int
        HMMs without any sequence, Gaussians with a variance at its floor, and iterations that lowered the objective
        beyond rounding.

    References
    ----------
    P. Smyth, "Clustering sequences with hidden Markov models", Advances in Neural Information Processing Systems 9,
    1997.

    Examples
    --------
    >>> import numpy as np, vhem
    >>> rng = np.random.default_rng(0)
    >>> slow = [np.repeat([0.0, 3.0], 20) + rng.normal(size=40) for _ in range(10)]
    >>> quick = [np.tile([0.0, 3.0], 20) + rng.normal(size=40) for _ in range(10)]
    >>> fit = vhem.MixtureOfHMMs(n_components=2, n_states=2, random_state=0).fit(slow + quick)
    >>> len(set(fit.labels_[:10])), len(set(fit.labels_[10:])), fit.labels_[0] != fit.labels_[10]
    (1, 1, np.True_)
    """

    model_: H3M
    labels_: IntArray
    responsibilities_: FloatArray
    lower_bound_: float
    lower_bounds_: FloatArray
    n_iter_: int
    converged_: bool
    timed_out_: bool
    restarts_: list[Restart]
    n_empty_clusters_: int
    n_floored_: int
    n_falls_: int
    n_features_in_: int

    def __init__(
        self,
        n_components: int = 8,
        n_states: int = 3,
        n_mix: int = 1,
        covariance_type: str = "diag",
        topology: str = "ergodic",
        init: str | H3M = "auto",
        n_init: int = 2,
        max_iter: int = 100,
        tol: float = 1e-5,
        reg_covar: float = 1e-3,
        startprob_prior: float = 0.0,
        transmat_prior: float = 0.0,
        covars_prior: float = 0.0,
        time_limit: float | None = None,
        callback: Callable[[Progress], None] | None = None,
        verbose: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.n_states = n_states
        self.n_mix = n_mix
        self.covariance_type = covariance_type
        self.topology = topology
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.reg_covar = reg_covar
        self.startprob_prior = startprob_prior
        self.transmat_prior = transmat_prior
        self.covars_prior = covars_prior
        self.time_limit = time_limit
        self.callback = callback
        self.verbose = verbose
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: SequencesLike, y: Any = None, sample_weight: npt.ArrayLike | None = None) -> Self:
        """Learn the mixture.

        Parameters
        ----------
        X : list of (T_i, d) arrays, 3-D array or Sequences
            The sequences; NaN is marginalised.
        y : ignored
            For scikit-learn's sake.
        sample_weight : array of shape (n,), optional
            How much each sequence counts.

        Returns
        -------
        MixtureOfHMMs
            This estimator, fitted.
        """
        del y
        clock = Clock.start(self.time_limit)
        options = self._options()
        sequences = as_sequences(X)
        if not isinstance(self.init, H3M):
            check_enough("n_components", self.n_components, len(sequences), "sequence")
        batch = Batch.of(sequences, [0] * len(sequences), sample_weight)
        runs, names = self._run_all(batch, options, clock)
        best = max(runs, key=lambda r: r.bounds[-1])
        self._keep(best, batch)
        self.restarts_ = [Restart(name, np.array(r.bounds), r.converged) for name, r in zip(names, runs, strict=False)]
        self._assign(batch, options)
        self._warn(best)
        return self

    def fit_predict(self, X: SequencesLike, y: Any = None, **kwargs: Any) -> IntArray:
        """Learn the mixture and return the most probable HMM of each sequence."""
        return self.fit(X, y, **kwargs).labels_

    def predict(self, X: SequencesLike) -> IntArray:
        """Return the most probable HMM of each sequence."""
        return self._model().predict(X, self.n_jobs)

    def predict_proba(self, X: SequencesLike) -> FloatArray:
        """Return the probability of each HMM for each sequence, (n, n_components)."""
        return self._model().predict_proba(X, self.n_jobs)

    def score_samples(self, X: SequencesLike) -> FloatArray:
        """Return the log-likelihood of each sequence, (n,)."""
        return self._model().score_samples(X, self.n_jobs)

    def score(self, X: SequencesLike, y: Any = None) -> float:
        """Return the mean log-likelihood of the sequences."""
        del y
        return self._model().score(X, self.n_jobs)

    def sample(
        self, n_sequences: int = 1, length: npt.ArrayLike = 10, random_state: RandomState = None
    ) -> tuple[Sequences, IntArray]:
        """Return random sequences and the HMM that emitted each; see `H3M.sample`."""
        return self._model().sample(n_sequences, length, random_state)

    def bic(self, X: SequencesLike) -> float:
        """Return -2 log L + p log n for p free parameters and n sequences: lower is better."""
        n = len(as_sequences(X))
        return -2 * n * self.score(X) + self._n_parameters() * float(np.log(n))

    def aic(self, X: SequencesLike) -> float:
        """Return -2 log L + 2 p for p free parameters: lower is better."""
        return -2 * len(as_sequences(X)) * self.score(X) + 2 * self._n_parameters()

    def _model(self) -> H3M:
        check_is_fitted(self)
        return self.model_

    def _n_parameters(self) -> int:
        return int(n_parameters(self._model().parameters, self.topology).sum()) + len(self.model_) - 1

    def _options(self) -> Options:
        check_integer("n_components", self.n_components, 1)
        check_integer("n_states", self.n_states, 1)
        check_callback(self.callback)
        if self.time_limit is not None:
            check_real("time_limit", self.time_limit, 0.0)
        if not isinstance(self.init, H3M):
            check_choice("init", self.init, ("auto", *PARTITIONS))
        else:
            check_as_many(len(self.init), "HMM", "n_components", self.n_components)
        return Options(
            self.n_mix, self.covariance_type, self.topology, "auto", self.n_init, self.max_iter, self.tol,
            self.reg_covar, self.startprob_prior, self.transmat_prior, self.covars_prior, n_threads(self.n_jobs),
        ).checked()  # fmt: skip

    def _run_all(self, batch: Batch, options: Options, clock: Clock) -> tuple[list[Run], list[str]]:
        names = self._start_names()
        runs: list[Run] = []
        for name, rng in zip(names, generator(self.random_state).spawn(len(names)), strict=True):
            if runs and clock.is_over:
                break
            start, weights = self._start(name, batch, options, rng)
            report = self._reporter(len(runs), name, len(names))
            runs.append(run(batch, start, weights, self._prior(start, batch, options), options, clock, report))
            if self.verbose:
                print(f"MixtureOfHMMs restart {len(runs)} ({name})  objective {runs[-1].bounds[-1]:.6f}")
        return runs, names

    def _reporter(self, restart: int, name: str, n_restarts: int) -> Report:
        def report(iteration: int, bound: float, converged: bool) -> None:
            if self.callback is not None:
                self.callback(Progress(restart, name, iteration, bound, converged, n_restarts))

        return report

    def _start_names(self) -> list[str]:
        if isinstance(self.init, H3M):
            return ["H3M"]
        kinds = list(PARTITIONS) if self.init == "auto" else [self.init]
        return [kinds[r % len(kinds)] for r in range(self.n_init)]

    def _start(
        self, name: str, batch: Batch, options: Options, rng: np.random.Generator
    ) -> tuple[Parameters, FloatArray]:
        K, n = self.n_components, len(batch.groups)
        if isinstance(self.init, H3M):
            return given_start(self.init, K, batch.X.shape[1]), self.init.weights
        labels = PARTITIONS[name](batch, K, self.n_states, options, rng)
        parameters = fit_parts(batch, np.arange(n), labels, K, self.n_states, options, rng)
        shares = np.bincount(labels, minlength=K) + 1.0
        return parameters, shares / shares.sum()

    def _prior(self, start: Parameters, batch: Batch, options: Options) -> Prior:
        scale = Scale(*(np.repeat(a, self.n_components, axis=0) for a in Scale.of(batch)))
        given = isinstance(self.init, H3M)
        masks = (start.startprob > 0, start.transmat > 0) if given else allowed(self.topology, self.n_states)
        return prior_for(*masks, scale, options)

    def _keep(self, best: Run, batch: Batch) -> None:
        parameters, weights = best.parameters, best.weights
        if not isinstance(self.init, H3M):
            if self.topology == "ergodic":
                parameters, weights = canonical_order(parameters, weights)
            else:
                order = np.argsort(-weights, kind="stable")
                parameters, weights = parameters.take(order), weights[order]
        self.model_ = as_h3m(parameters, weights)
        self.lower_bounds_ = np.array(best.bounds)
        self.lower_bound_ = best.bounds[-1]
        self.n_iter_ = len(best.bounds) - 1
        self.converged_ = best.converged
        self.timed_out_ = best.timed_out
        self.n_floored_ = best.n_floored
        self.n_falls_ = best.n_falls
        self.n_features_in_ = batch.X.shape[1]

    def _assign(self, batch: Batch, options: Options) -> None:
        pairs = Pairs.crossed(batch.lengths, self.n_components)
        z = np.empty((len(batch.groups), self.n_components))
        _, shares = e_step(batch, self.model_.parameters, self.model_.weights, pairs, options.n_threads)
        z[pairs.sequence[: len(z)]] = shares.T
        self.responsibilities_ = z
        self.labels_ = z.argmax(axis=1)
        self.n_empty_clusters_ = int((z.sum(axis=0) < 1e-6).sum())

    def _warn(self, best: Run) -> None:
        if not best.converged and not best.timed_out and self.tol > 0:
            warnings.warn(NotConvergedWarning("MixtureOfHMMs", "the likelihood", self.max_iter), stacklevel=3)
        empty = self.n_empty_clusters_
        warn_if_any(empty, "{n:HMM} {n:has|have} no sequence", "ask for fewer", "raise {n_init}", stacklevel=3)
        warn_if_any(self.n_floored_, AT_FLOOR, stacklevel=3)
        warn_if_any(self.n_falls_, LOWERED, stacklevel=3)


register_estimator(MixtureOfHMMs)
