"""EM-H3M: a mixture of HMMs learned from sequences (Smyth 1997)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from vhem._support.arrays import BoolArray, FloatArray, IntArray
from vhem._support.checks import check_as_many, check_choice, check_enough
from vhem._support.errors import InputError, NotConvergedWarning, ParameterError, warn, warn_if_any
from vhem._support.phrases import AT_FLOOR, LOWERED, STILL
from vhem._support.randomness import RandomState, generator
from vhem._support.saving import register_estimator
from vhem.bayes.cluster_search import Size, is_diagonal, several_numbers
from vhem.bayes.fitting import check_one_component
from vhem.bayes.mixtures import FoundMixture, VariationalMixture, learned_mixture, mixture_prior
from vhem.bayes.records import Hyperparameters
from vhem.em.estimator import EMClusterer
from vhem.em.fitting import FitPlan, given_start
from vhem.em.genetic import evolved
from vhem.em.grouped import Batch, Scale, still_channels, warn_of_items_without_values, warn_of_unseen
from vhem.em.loop import Clock, Run, Watch, run
from vhem.em.mixture_starts import PARTITIONS, fit_parts, species_of_mixtures
from vhem.em.mixtures import Items, MixtureProblem, Mixtures
from vhem.em.ordering import canonical_order
from vhem.em.parameters import check_parameters, documented
from vhem.em.progress import Progress, Restart
from vhem.em.settings import Priors
from vhem.em.topology import allowed
from vhem.emissions import Components
from vhem.kernels.engine import n_threads
from vhem.kernels.models import Models
from vhem.models import H3M
from vhem.sequences import Sequences, SequencesLike, as_sequences
from vhem.sequences.channels import Channels


@documented
@dataclass(eq=False, repr=False)
class MixtureOfHMMs(EMClusterer):
    """Learn a mixture of HMMs from sequences, and cluster them with it: EM-H3M.

    p(y) = Σ_k ω_k p(y | HMM k). The E-step assigns sequences, z_nk ∝ ω_k p(y_n | HMM k), the M-step is that of
    Baum-Welch with every statistic of sequence n weighted by z_nk. The log-likelihood (plus the logs of the priors, if
    any) never falls.

    Parameters
    ----------
    n_components : int, or several to choose from
        Number of HMMs. Several only with method="vb": those with the highest score are kept (`scores_`).
    <sizes>
        With method="vb", several numbers of states may be given to choose from, and `n_mix` must be 1.
    <topology>
    init : {"auto", "smyth", "kmeans", "ward", "random"} or H3M
        Where to start. "smyth": one HMM per sequence, hierarchical clustering of their pairwise log-likelihoods, one
        HMM per cluster. "kmeans": clusters of the sequences' means, deviations and average steps. "ward": the parts
        of Ward's tree on the divergences between one HMM per sequence, as in VHEM. "random": random clusters. "auto":
        the restarts use these in turn, and the best likelihood wins. An H3M, such as VHEM's centres, is refined; its
        order is kept, and its sizes, covariances and zeros replace the parameters.
    n_init : int
        Restarts. The default of 2 lets "auto" try Smyth's start and k-means; one of them is nearly always good.
    search : {None, "genetic"}
        "genetic": the solutions of the starts trade their HMMs and replace them, until 300 attempts in a row have not
        raised the likelihood; see :class:`vhem.VHEM`. It is never below that of its starts; use about 8 of them.
    <limits>
    <priors>
    time_limit : float, optional
        Seconds after which no further iteration or restart begins. The first start's E-step is always made.
    <callback>
    <verbose>
    <random_state>
    <n_jobs>
    <emissions>

    method : {"em", "vb"}
        "em" maximises the likelihood. "vb", variational Bayes, finds a posterior distribution, which `model_` carries:
        its bound pays for every HMM and state, HMMs that no sequence belongs to and states that nothing visits are
        removed, and priors and floors (`reg_covar` and what ends in `_prior`) are not used.
    hyperparameters : {"data", "learned"} or Hyperparameters
        Of "vb": the priors. "data": weak, in units of the data. "learned": those that maximise the bound. Or fixed
        ones, as a :class:`vhem.bayes.Hyperparameters`.

    Attributes
    ----------
    model_ : H3M
        The mixture; heaviest HMM first, unless `init` was an H3M.
    n_components_ : int
        The number of HMMs.
    sizes_, scores_ : ndarrays of shape (m, 2) and (m,)
        The pairs (HMMs, states) that were tried, and the score of each. Of "vb" this is the bound plus
        ln K! + K ln S! for the HMMs that have sequences, because every solution stands for so many relabelled ones; of
        "em" it is the objective of the only size.
    labels_, responsibilities_ : ndarrays of shape (n,) and (n, n_components)
        Most probable HMM of each sequence, and the probability of each.
    lower_bound_, lower_bounds_ : float, ndarray
        The objective at the end, and after every E-step from the initial model on.
    n_iter_, converged_, timed_out_ : int, bool, bool
        Number of iterations, whether the objective converged, and whether time ran out.
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

    n_components: int | Iterable[int] = 8
    n_states: int | Iterable[int] = 3
    n_mix: int = 1
    covariance_type: str = "diag"
    topology: str = "ergodic"
    init: str | H3M = "auto"
    n_init: int = 2
    max_iter: int = 100
    tol: float = 1e-5
    reg_covar: float = 1e-3
    startprob_prior: float | None = None
    transmat_prior: float | None = None
    covars_prior: float | None = None
    time_limit: float | None = None
    callback: Callable[[Progress], None] | None = None
    verbose: bool | None = None
    random_state: Any = None
    n_jobs: int | None = None
    emissions: Any = "gaussian"
    search: str | None = None
    method: str = "em"
    hyperparameters: str | Hyperparameters = "data"

    model_: H3M = field(init=False)
    timed_out_: bool = field(init=False)
    restarts_: list[Restart] = field(init=False)
    n_empty_clusters_: int = field(init=False)
    n_floored_: int = field(init=False)
    n_falls_: int = field(init=False)
    n_features_in_: int = field(init=False)
    n_components_: int = field(init=False)
    sizes_: IntArray = field(init=False)
    scores_: FloatArray = field(init=False)

    def fit(self, X: SequencesLike, y: Any = None, sample_weight: npt.ArrayLike | None = None) -> Self:
        """Learn the mixture.

        Parameters
        ----------
        X : list of (T_i, d) arrays, 3-D array or Sequences
            The sequences; NaN is marginalised.
        y : ignored
            Ignored; present for API consistency.
        sample_weight : array of shape (n,), optional
            How much each sequence counts. If not given,
            the case weights of the sequences, if they have any.

        Returns
        -------
        MixtureOfHMMs
            This estimator, fitted.
        """
        del y
        clock = Clock.start(self.time_limit)
        plan = self._plan(clock)
        sequences = self.init.coded(X) if isinstance(self.init, H3M) else as_sequences(X)
        if not isinstance(self.init, H3M):
            check_enough("n_components", self._sizes()[0].n_clusters, len(sequences), "sequence")
        batch = Batch.of(sequences, [0] * len(sequences), sample_weight, plan.template(sequences))
        plan = replace(plan, priors=self._priors(batch.emissions))
        if self.method == "vb":
            return self._fit_bayesian(batch, plan, sequences)
        runs, names = self._run_all(batch, plan)
        best = max(runs, key=lambda r: r.bounds[-1])
        self.restarts_ = [
            Restart(name, np.array(r.bounds), bool(r.converged[0])) for name, r in zip(names, runs, strict=False)
        ]
        self._keep(best, self._problem(best.state.models, batch, plan), sequences._remembered)
        self.sizes_, self.scores_ = np.array(self._sizes()), np.array([self.lower_bound_])
        self._warn(still_channels(sequences.X, sequences.offsets, sequences.channels))
        warn_of_unseen(sequences.X)
        warn_of_items_without_values(sequences.X, sequences.offsets, sequences.ids)
        return self

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
        return -2 * n * self.score(X) + self._model().n_parameters() * float(np.log(n))

    def aic(self, X: SequencesLike) -> float:
        """Return -2 log L + 2 p for p free parameters: lower is better."""
        return -2 * len(as_sequences(X)) * self.score(X) + 2 * self._model().n_parameters()

    def _model(self) -> H3M:
        check_is_fitted(self)
        return self.model_

    def _sizes(self) -> list[Size]:
        """Return the sizes asked for."""
        numbers = [several_numbers(name, getattr(self, name)) for name in ("n_components", "n_states")]
        return [Size(K, S) for K in numbers[0] for S in numbers[1]]

    def _check_method(self) -> None:
        check_choice("method", self.method, ("em", "vb"))
        if self.method == "em":
            if len(sizes := self._sizes()) > 1:
                name = "n_components" if sizes[0].n_clusters != sizes[-1].n_clusters else "n_states"
                raise InputError("{name} must be one number", "choose among several with method='vb'", name=name)
            return
        if not isinstance(self.hyperparameters, Hyperparameters):
            check_choice("hyperparameters", self.hyperparameters, ("data", "learned"))
        check_one_component(self.n_mix)
        if self.search is not None:
            raise ParameterError("search", self.search, "must be None for variational Bayes")

    def _plan(self, clock: Clock) -> FitPlan:
        check_parameters(self, but=("n_components", "n_states"))
        if self.search is not None:
            check_choice("search", self.search, ("genetic",))
        self._check_method()
        if not isinstance(self.init, H3M):
            check_choice("init", self.init, ("auto", *PARTITIONS))
        elif len(self.init) != (K := self._sizes()[0].n_clusters) or len(self._sizes()) > 1:
            check_as_many(len(self.init), "HMM", "n_components", K)
        same = ("n_mix", "covariance_type", "topology", "n_init", "max_iter", "tol", "reg_covar", "emissions")
        shared: dict[str, Any] = {name: getattr(self, name) for name in same}
        shared |= dict.fromkeys(("startprob_prior", "transmat_prior", "covars_prior"), 0.0)  # they depend on the family
        plan = FitPlan.checked(**shared, n_threads=n_threads(self.n_jobs)).with_states(self._sizes()[0].n_states)
        init = self.init if isinstance(self.init, H3M) else plan.init
        return replace(plan, limits=replace(plan.limits, clock=clock), init=init)

    def _priors(self, emissions: Components) -> Priors:
        """Return the pseudo-counts asked for, or those of the family."""
        names = ("startprob", "transmat", "covars")
        given = {name: getattr(self, f"{name}_prior") for name in names}
        chosen = {name: value for name, value in given.items() if value is not None}
        return replace(Priors.weak(emissions), **chosen, reg_covar=self.reg_covar)

    def _evolved(self, batch: Batch, plan: FitPlan) -> tuple[list[Run], list[str]]:
        """Search from all starts together."""
        names, rng = self._start_names(), generator(self.random_state)
        starts = [self._start(name, batch, plan, one) for name, one in zip(names, rng.spawn(len(names)), strict=True)]
        problem = self._problem(starts[0].models, batch, plan)
        starts = [start._replace(models=problem.prior.possible(start.models)) for start in starts]
        best, runs = evolved(species_of_mixtures(problem, plan), starts, rng.spawn(1)[0], plan.limits)
        return [*runs, best], [*names, "genetic"]

    def _run_all(self, batch: Batch, plan: FitPlan) -> tuple[list[Run], list[str]]:
        if self.search == "genetic" and not isinstance(self.init, H3M):
            return self._evolved(batch, plan)
        names = self._start_names()
        runs: list[Run] = []
        for name, rng in zip(names, generator(self.random_state).spawn(len(names)), strict=True):
            if runs and plan.limits.clock.is_over:
                break
            start = self._start(name, batch, plan, rng)
            problem = self._problem(start.models, batch, plan)
            start = start._replace(models=problem.prior.possible(start.models))
            runs.append(run(problem, start, plan.limits, self._watch(len(runs), name, len(names))))
            if self.verbose:
                print(f"MixtureOfHMMs restart {len(runs)} ({name})  objective {runs[-1].bounds[-1]:.6f}")
        return runs, names

    def _watch(self, restart: int, name: str, n_restarts: int) -> Watch:
        def watch(n_iter: IntArray, bounds: FloatArray, converged: BoolArray) -> None:
            if self.callback is not None:
                told = (int(n_iter[0]), float(bounds[0]), bool(converged[0]))
                self.callback(Progress(restart, name, *told, n_restarts))

        return watch

    def _start_names(self) -> list[str]:
        if isinstance(self.init, H3M):
            return ["H3M"]
        kinds = list(PARTITIONS) if self.init == "auto" else [self.init]
        return [kinds[r % len(kinds)] for r in range(self.n_init)]

    def _start(
        self, name: str, batch: Batch, plan: FitPlan, rng: np.random.Generator, n_components: int | None = None
    ) -> Mixtures:
        if isinstance(self.init, H3M):
            return Mixtures(given_start(self.init, len(self.init), batch.X.shape[1]), self.init.weights[None])
        K, n = n_components or self._sizes()[0].n_clusters, len(batch.groups)
        labels = PARTITIONS[name](batch, K, plan, rng)
        shares = np.bincount(labels, minlength=K) + 1.0
        return Mixtures(fit_parts(batch, np.arange(n), labels, K, plan, rng), (shares / shares.sum())[None])

    def _problem(self, start: Models, batch: Batch, plan: FitPlan) -> MixtureProblem:
        prior = plan.priors.spread(*self._possible(start), Scale.of(batch).repeated(len(start)))
        return MixtureProblem(
            batch=batch, items=Items.single(batch), prior=prior, n_components=len(start),
            strict=plan.priors.are_none, n_threads=plan.n_threads,
        )  # fmt: skip

    def _possible(self, start: Models) -> tuple[BoolArray, BoolArray]:
        """Return which states may come first, and which transitions there may be."""
        given = isinstance(self.init, H3M)
        return (start.startprob > 0, start.transmat > 0) if given else allowed(self.topology, start.shape[1])

    # -- variational Bayes

    def _fit_bayesian(self, batch: Batch, plan: FitPlan, sequences: Sequences) -> Self:
        sizes = [size for size in self._sizes() if size.n_clusters <= len(sequences)]
        found = [
            self._best_of_size(size, at, len(sizes), batch, plan.with_states(size.n_states), rng)
            for at, (size, rng) in enumerate(zip(sizes, generator(self.random_state).spawn(len(sizes)), strict=True))
        ]
        best = max(found, key=lambda one: one.score)
        self.restarts_ = [
            Restart(f"{one.size.n_clusters} HMMs of {one.size.n_states} states", np.array(one.run.bounds),
                    bool(one.run.converged[0])) for one in found
        ]  # fmt: skip
        self.sizes_, self.scores_ = np.array(sizes), np.array([one.score for one in found])
        self._keep_bayesian(best, sequences._remembered)
        self._warn("")
        return self

    def _best_of_size(
        self, size: Size, at: int, n_sizes: int, batch: Batch, plan: FitPlan, rng: np.random.Generator
    ) -> FoundMixture:
        runs, names = [], self._start_names() if size.n_clusters > 1 else self._start_names()[:1]
        for name, seed in zip(names, rng.spawn(len(names)), strict=True):
            start = self._start(name, batch, plan, seed, size.n_clusters)
            problem = VariationalMixture(data=self._problem(start.models, batch, plan))
            prior = mixture_prior(
                problem.data, self._possible(start.models), is_diagonal(start.models), self.hyperparameters
            )
            state, watch = problem.begin(start, prior), self._watch(at, name, n_sizes)
            made = learned_mixture(problem, state, plan.limits, watch, self.hyperparameters == "learned")
            runs.append(FoundMixture(size, problem, made))
            if plan.limits.clock.is_over:
                break
        return max(runs, key=lambda one: one.run.bounds[-1])

    def _keep_bayesian(self, best: FoundMixture, channels: Channels | None) -> None:
        left = best.pruned(self.topology != "ergodic" or isinstance(self.init, H3M))
        model = left.hmms()
        self.model_ = model if channels is None else model._remembering(channels)
        self.n_empty_clusters_, self.n_floored_ = 0, 0
        self._keep_course(best.run)
        self.responsibilities_ = left.responsibilities
        self.labels_ = left.responsibilities.argmax(axis=1)

    def _keep(self, best: Run, problem: MixtureProblem, channels: Channels | None) -> None:
        models, weights = best.state.models, best.state.weights[0]
        self.n_floored_ = int(models.components.n_at_floor(problem.prior.emissions).sum())
        if not isinstance(self.init, H3M):
            if self.topology == "ergodic":
                models, weights = canonical_order(models, weights)
            else:
                order = np.argsort(-weights, kind="stable")
                models, weights = models.take(order), weights[order]
        self.model_ = H3M.of_models(models, weights, channels=channels)
        self._keep_course(best)
        z = problem.e_step(Mixtures(self.model_.parameters, self.model_.weights[None])).responsibilities
        self.responsibilities_ = z
        self.labels_ = z.argmax(axis=1)
        self.n_empty_clusters_ = int((z.sum(axis=0) < 1e-6).sum())

    def _keep_course(self, best: Run) -> None:
        self.lower_bounds_ = np.array(best.bounds)
        self.lower_bound_ = best.bounds[-1]
        self.n_iter_ = len(best.bounds) - 1
        self.converged_ = bool(best.converged[0])
        self.timed_out_ = best.timed_out
        self.n_falls_ = int(best.n_falls[0])
        self.n_features_in_ = self.model_.n_dims
        self.n_components_ = len(self.model_)

    def _warn(self, still: str) -> None:
        if not self.converged_ and not self.timed_out_ and self.tol > 0:
            warn(NotConvergedWarning("MixtureOfHMMs", "the likelihood", self.max_iter))
        empty = self.n_empty_clusters_
        warn_if_any(empty, "{n:HMM} {n:has|have} no sequence", "ask for fewer", "raise {n_init}")
        if still:
            warn_if_any(self.n_floored_, AT_FLOOR, STILL, still=still)
        else:
            warn_if_any(self.n_floored_, AT_FLOOR)
        warn_if_any(self.n_falls_, LOWERED)


def _completed(fit: MixtureOfHMMs, fitted: dict[str, Any]) -> dict[str, Any]:
    """Return what files of older versions lack."""
    del fit
    K, S = len(fitted["model_"]), int(fitted["model_"].n_states.max())
    return {"n_components_": K, "sizes_": np.array([[K, S]]), "scores_": np.array([fitted["lower_bound_"]])}


register_estimator(MixtureOfHMMs, completed=_completed)
