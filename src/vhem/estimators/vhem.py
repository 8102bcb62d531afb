"""VHEM: clusters HMMs by the distributions they represent, and makes a new HMM as the centre of each cluster."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from scipy.special import logsumexp, softmax
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from vhem._support.arrays import FloatArray, IntArray
from vhem._support.checks import check_as_many, check_choice, check_enough, check_flag
from vhem._support.errors import FitWarning, NotConvergedWarning, ParameterError, warn, warn_if_any
from vhem._support.frames import LabelFrame
from vhem._support.randomness import generator
from vhem._support.saving import register_estimator
from vhem.em.cluster_starts import IN_TURN, STARTS, CenterShape, species_of_centers
from vhem.em.estimator import EMClusterer
from vhem.em.genetic import POPULATION, evolved
from vhem.em.how_sure import MOST, HowSure, until_sure
from vhem.em.loop import Limits, Run, run
from vhem.em.observed import check_bound
from vhem.em.ordering import orders
from vhem.em.parameters import check_parameters, documented
from vhem.em.polished_models import PolishedModels, polished
from vhem.em.progress import Progress, Restart
from vhem.em.reduction import Centers, ReductionProblem
from vhem.em.restarts import in_parallel, in_stacks, run_together
from vhem.em.sharding import Shards
from vhem.em.topology import topology_of
from vhem.emissions import Gaussian
from vhem.estimators.divergence import check_dimensions, expected_log_likelihood, observed, seen_by
from vhem.executors.local import as_executor
from vhem.kernels.engine import n_threads
from vhem.kernels.filtering import IMPOSSIBLE
from vhem.kernels.models import Models, Pieces
from vhem.kernels.reduction import BaseModels, Shortcuts
from vhem.models import H3M, HMM
from vhem.models.checks import check_h3m
from vhem.sequences.channels import Channels

StartOf = Callable[[str, np.random.Generator, int], Centers]  # its name, a seed and threads

_RESTARTS, _RESTARTS_OF_MANY = 12, 4  # of random starts, by default: small problems cost nothing, and bounds differ
_MANY_PAIRS = 50_000  # inputs times clusters
_TAU, _N_VIRTUAL = 10, 100.0  # by default
_MOST_POLISHED = 2000  # inputs, whose divergences are all computed
_ALIKE = 1e-9  # by how much weights may differ and still count as equal
_FLOOR = 1e-3  # of the smallest probability in the inputs: what probabilities of zero are raised to
_EMPTY = 1e-3  # a cluster with less than this much of one input counts as empty


@documented
@dataclass(eq=False, repr=False)
class VHEM(LabelFrame, TransformerMixin, EMClusterer):  # type: ignore[misc]
    """Cluster hidden Markov models by the distributions they represent.

    The inputs are an H3M, a weighted collection of HMMs. Each cluster is summarised by a new HMM, its centre, chosen so
    that virtual sequences from the cluster's members are as likely as possible under it. No sequence is ever drawn: the
    expectations are computed by a variational bound, so the cost depends on the number of HMMs, not on the data behind
    them.

    Parameters
    ----------
    n_clusters : int
        Number of clusters.
    n_states : int, optional
        States per centre. None: the median of the inputs' numbers, rounded up.
    n_mix : int, optional
        Gaussians per state of each centre. None: as many as the inputs have.
    covariance_type : {"diag", "full"}, optional
        Form of the centres' covariances. None: that of the inputs.
    tau : int or "auto"
        Length of the virtual sequences. The longer, the more the order of events counts relative to where they happen,
        and the further apart models are. "auto": 10; for left-right HMMs the typical length of the sequences that they
        were learned from, if they remember it.
    n_virtual : float or "auto"
        Virtual sequences per input, on average; an input of weight ω_i has N_i = n_virtual · K · ω_i of them. It
        acts as an inverse temperature: at 100, nearly all assignments are hard, whether or not the clusters are clear.
        With values near or below 1, ambiguous inputs stay ambiguous. "auto": 100, and after `polish` responsibilities
        that take into account how much data there was for each input.
    polish : bool
        Whether to treat inputs as estimates if they remember how much data they were learned from (those of `fit_hmms`
        do). From the parts of several of Ward's trees, clusters are then learned from sequences like those behind the
        inputs, by a model whose inputs may vary about their cluster's HMM, as in :class:`vhem.SequenceClustering`; all
        solutions vote, and responsibilities are the shares of the votes. A centre is the HMM with the highest bound for
        its cluster; if states are not Gaussian, the HMM under which the sequences are likeliest, because by the bound
        states that share categories or counts fall together. Bounds are not maximised over clusters, and `n_iter_` is
        0. It is left out if `init`, `n_init`, `n_virtual`, `bound` or `search` is given, for several components per
        state, for Gaussian inputs of unequal weight and for more than 2,000 inputs. False: the paper's algorithm.
    bound : {"paper", "observed"}
        Which lower bound on the expected log-likelihoods is maximised. "paper": the paper's. "observed": a tighter
        one that sees roughly where an observation lies (see `expected_log_likelihood`), for Gaussians. It takes about
        five times as long; without `polish`, clusters that differ in few observations are found more often. Bound and
        responsibilities at the end are those on fresh nodes.
    n_nodes : int
        Nodes per Gaussian of the observed bound, an even number.
    init : {"auto", "ward", "kmeans++", "emissions", "base", "spectral"}, H3M or list of HMM
        Where to start. "ward": the parts of Ward's tree on the divergences between inputs, with a centre for each; for
        left-right inputs these are left-right too, and stay so. The tree is made of a random sample if there are more
        than 1,500 inputs and more than twenty per cluster; above 6,000 inputs it grows in parts drawn at random, so
        that the result depends on `random_state`. "spectral": the same of spectral clusters. "kmeans++":
        inputs far from one another. "emissions": groups around such inputs, their states made from the pooled emissions
        of the group. "base": distinct inputs drawn at random. "auto": Ward's start and, if `n_init` is larger, all but
        the spectral one in turn. An H3M is used once, as it is, and the order of its clusters and states is kept;
        `n_states`, `n_mix`, `covariance_type` and `n_init` then have no effect.
    n_init : int or "auto", optional
        Restarts; the one with the highest bound is kept. None: one from Ward's tree or from spectral clusters; 12 of
        the other starts, or 4 if inputs times clusters exceed 50,000. "auto": restarts go on until the best bound was
        found three times, or 200 were made. More restarts find higher bounds, but not always better clusters: the bound
        is a bound, and HMMs of short sequences are estimates.
    search : {None, "genetic"}
        "genetic": solutions of several starts (8, or `n_init`) trade their clusters and replace them, until 300
        attempts in a row have not raised the bound. For those who want the highest bound: it finds it in a fraction of
        the time that restarts take, and is never below that of its starts.
    <limits>
    reg_covar : float, optional
        Added to the variances of Gaussians in every iteration. None adds nothing: a centre's covariance is at least the
        average of its members', so it cannot collapse. With positive values the bound may fall; this is counted and
        reported in a warning. If inputs have categories (or zeros of a gamma) of probability 0, None raises these to a
        thousandth of the smallest probability that any input has, so that no input rules out what another one emits; 0
        leaves them as they are.
    weight_form : {"models", "virtual"}
        How clusters are weighted. "models", the paper's: the share of inputs, whatever their weights, ω_j = mean_i
        z_ij. "virtual": the share of virtual sequences, ω_j ∝ Σ_i N_i z_ij, which respects the inputs' weights.
    shortcuts : bool
        Whether the compiled engine may skip what provably does not affect the result (pairs of models far apart, steps
        of long recursions that have become stationary). Set it to False only for checking.
    <callback>
    <verbose>
    <random_state>
    <n_jobs>
    executor : {"serial", "threads"}, dask.distributed.Client or Executor, optional
        Where E-steps run. With many thousands of inputs they are cut into shards, which are sent once to where the
        work is done and stay there; only sums travel. The result does not depend on it.

    Attributes
    ----------
    centers_ : H3M
        One HMM per cluster, with the clusters' weights. Heaviest cluster first, and in it the state most visited in
        the long run first, unless `init` was an H3M.
    labels_ : ndarray of shape (K,)
        Cluster of each input.
    responsibilities_ : ndarray of shape (K, n_clusters)
        Probability of each cluster for each input, z_ij.
    lower_bound_, lower_bounds_ : float, ndarray
        The objective at the end, and after every E-step from the initial model on. It never falls.
    n_iter_ : int
        Number of iterations.
    converged_ : bool
        Whether the bound converged.
    restarts_ : list of Restart
        Start, bounds and convergence of every restart.
    how_sure_ : HowSure
        How many restarts found the best bound, and how many different bounds there were; `how_sure_.sentence` puts it
        in words.
    tau_ : int
        Length of the virtual sequences.
    polished_ : bool
        Whether clusters were polished. `labels_` and `responsibilities_` then take into account how much data there was
        for each input; `predict` assigns by the bound alone, and may differ for inputs between two clusters.
    n_empty_clusters_, n_unvisited_states_ : int
        Centres that no input belongs to (their weight is zero and they keep their last parameters), and
        states of other centres that no input visits.

    Notes
    -----
    With z_ij = softmax_j(log ω_j + N_i J_ij), where J_ij ≤ E_{y~i} log p(y_1:τ|j), the objective is
    𝒥 = Σ_i log Σ_j ω_j exp(N_i J_ij). Inputs of weight zero take no part in the fit; they are assigned as an input of
    average weight would be.

    References
    ----------
    E. Coviello, A. B. Chan, G. R. G. Lanckriet, "Clustering hidden Markov models with variational HEM", Journal of
    Machine Learning Research 15:697-747, 2014.

    Examples
    --------
    >>> import vhem
    >>> def viewer(x):  # looks at x, then at x + 4, and back
    ...     return vhem.HMM([0.9, 0.1], [[0.2, 0.8], [0.8, 0.2]], [[x], [x + 4]], [[1.0], [1.0]])
    >>> viewers = vhem.H3M([viewer(0.0), viewer(0.2), viewer(9.0), viewer(9.1), viewer(9.2)])
    >>> fit = vhem.VHEM(n_clusters=2, random_state=0).fit(viewers)
    >>> fit.labels_
    array([1, 1, 0, 0, 0])
    >>> fit.centers_[1].means[:, 0, 0].round(2)
    array([0.1, 4.1])
    """

    n_clusters: int = 8
    n_states: int | None = None
    n_mix: int | None = None
    covariance_type: str | None = None
    tau: int | str = "auto"
    n_virtual: float | str = "auto"
    init: str | H3M = "auto"
    n_init: int | str | None = None
    max_iter: int = 100
    tol: float = 1e-5
    reg_covar: float | None = None
    weight_form: str = "models"
    shortcuts: bool = True
    callback: Callable[[Progress], None] | None = None
    verbose: bool | None = None
    random_state: Any = None
    n_jobs: int | None = None
    executor: Any = None
    polish: bool = True
    bound: str = "paper"
    n_nodes: int = 8
    search: str | None = None

    centers_: H3M = field(init=False)
    restarts_: list[Restart] = field(init=False)
    how_sure_: HowSure = field(init=False)
    n_empty_clusters_: int = field(init=False)
    n_unvisited_states_: int = field(init=False)
    tau_: int = field(init=False)
    polished_: bool = field(init=False)

    def fit(self, X: H3M | list[HMM], y: Any = None) -> Self:
        """Cluster the HMMs of `X`.

        Parameters
        ----------
        X : H3M or list of HMM
            The inputs.
        y : ignored
            Ignored; present for API consistency.

        Returns
        -------
        VHEM
            This estimator, fitted.
        """
        del y
        self._check_parameters()
        h3m = check_h3m("X", X)
        start = self._given_start()
        if start is not None:
            check_dimensions("X", h3m, "init", start)
        else:
            check_enough("n_clusters", self.n_clusters, len(h3m), "HMM")
        used = np.flatnonzero(h3m.weights > 0)
        self.tau_ = typical_tau(h3m) if self.tau == "auto" else int(self.tau)
        base = self._base_models(h3m, used, start)
        executor, rng = as_executor(self.executor, self.n_jobs), generator(self.random_state)
        shards = Shards.of(self._seen(base, rng), executor)
        polish = self._polished(h3m, base) if self._may_polish(h3m, base) else None
        self.polished_ = polish is not None
        if polish is not None:
            runs, names = [self._measured(shards, polish)], ["polish"]
        else:
            runs, names = self._run_all(base, shards, h3m.weights[used] / h3m.weights[used].sum(), start)
        best = int(np.argmax([r.bounds[-1] for r in runs]))
        if self.verbose:
            print(f"VHEM keeps restart {best + 1} ({names[best]}) with bound {runs[best].bounds[-1]:.6f}")
        self.restarts_ = [
            Restart(n, np.array(r.bounds), bool(r.converged[0])) for n, r in zip(names, runs, strict=True)
        ]
        self.how_sure_ = HowSure.of(np.array([r.bounds[-1] for r in runs]))
        order = self._keep(runs[best], ordered=start is None, channels=h3m._channels)
        fresh = shards if self.bound == "paper" else Shards.of(self._seen(base, rng), executor)
        self._assign(fresh, h3m, used)
        if polish is not None:
            self.responsibilities_ = polish.responsibilities[:, order]
            self.labels_ = self.responsibilities_.argmax(1)
        self._warn(runs[best], len(used))
        return self

    def transform(self, X: H3M | HMM | list[HMM]) -> FloatArray:
        """Return J, the expected log-likelihood of sequences of each HMM of `X` under each centre, (K, n_clusters)."""
        check_is_fitted(self)
        options: dict[str, Any] = {"bound": self.bound, "n_nodes": self.n_nodes}
        return expected_log_likelihood(check_h3m("X", X), self.centers_, self.tau_, **options, n_jobs=self.n_jobs)

    def predict_proba(self, X: H3M | HMM | list[HMM]) -> FloatArray:
        """Return the probability of each cluster for each HMM of `X`, (K, n_clusters)."""
        logits = self._logits(check_h3m("X", X))
        return np.asarray(softmax(logits, axis=1))

    def predict(self, X: H3M | HMM | list[HMM]) -> IntArray:
        """Return the most probable cluster of each HMM of `X`."""
        return np.asarray(self._logits(check_h3m("X", X)).argmax(1))

    def score(self, X: H3M | HMM | list[HMM], y: Any = None) -> float:
        """Return the objective 𝒥 on `X` per virtual sequence: higher is better."""
        del y
        h3m = check_h3m("X", X)
        logits, used = self._logits(h3m), h3m.weights > 0
        return float(logsumexp(logits[used], axis=1).sum() / self._counts(h3m)[used].sum())

    def _check_parameters(self) -> None:
        check_parameters(self, but=("n_init",) if self.n_init == "auto" else ())
        check_flag("polish", self.polish)
        check_bound(self.bound, self.n_nodes)
        if self.search is not None:
            check_choice("search", self.search, ("genetic",))
        if self.search == "genetic" and self.n_init == "auto":
            raise ParameterError("n_init", self.n_init, "must be a number, or None, for a genetic search")

    def _given_start(self) -> H3M | None:
        """Return the H3M to start from, if `init` is not a name."""
        if isinstance(self.init, str):
            check_choice("init", self.init, ("auto", *STARTS))
            return None
        start = check_h3m(
            "init, if it is not one of 'auto', 'ward', 'kmeans++', 'emissions', 'base' and 'spectral',", self.init
        )
        check_as_many(len(start), "HMM", "n_clusters", self.n_clusters)
        return start

    def _counts(self, h3m: H3M) -> FloatArray:
        """N_i; an input of weight zero counts as an average one when it is only assigned."""
        each = _N_VIRTUAL if self.n_virtual == "auto" else float(self.n_virtual)
        counts = each * len(h3m) * h3m.weights
        return np.where(counts > 0, counts, each)

    def _scales(self, counts: FloatArray) -> FloatArray:
        return counts if self.weight_form == "virtual" else np.ones_like(counts)

    def _base_models(self, h3m: H3M, used: IntArray, start: H3M | None) -> BaseModels:
        models = h3m.parameters
        if start is not None:
            models = seen_by(models, start.emissions)
        elif self.covariance_type is not None:
            models = models.with_components(models.components.with_covariances(self.covariance_type))
        if len(used) < len(h3m):
            models = models.take(used)
        counts = self._counts(h3m)[used]
        return BaseModels.of(self._without_zeros(models, models), counts, self._scales(counts), self.tau_)

    def _without_zeros(self, models: Models, inputs: Models) -> Models:
        """Return HMMs that do not rule out a category that one of the inputs emits, unless zeros are to stay."""
        if self.reg_covar is not None or isinstance(models.components, Gaussian):
            return models
        limits = inputs.components.within_reach(len(models), _FLOOR)
        return models.with_components(models.components.above_floor(limits))

    def _seen(self, base: BaseModels, rng: np.random.Generator) -> BaseModels:
        """Return the base models as the bound sees them: the observed one around nodes of its own."""
        if self.bound == "paper":
            return base
        models = observed(base.models, self.n_nodes, rng)
        return BaseModels.of(models, base.counts, base.scales, base.tau, Pieces(base.models, self.n_nodes))

    def _run_all(
        self, base: BaseModels, shards: Shards, weights: FloatArray, given: H3M | None
    ) -> tuple[list[Run], list[str]]:
        """Make all restarts, in parallel as far as there are threads; each has its own seed."""
        threads, rng = n_threads(self.n_jobs), generator(self.random_state)
        limits = Limits(max_iter=self.max_iter, tol=self.tol)
        problem = ReductionProblem(
            base=shards, reg_covar=self.reg_covar or 0.0, shortcuts=Shortcuts.of(self.shortcuts), n_threads=threads
        )
        uniform = np.full(self.n_clusters, 1 / self.n_clusters)

        def start(name: str, seed: np.random.Generator, threads: int) -> Centers:
            if given is not None:
                return Centers(self._without_zeros(given.parameters, base.models), given.weights)
            return Centers(STARTS[name](base, weights, self._shape(base), seed, threads), uniform)

        if self.search == "genetic" and given is None:
            names = self._start_names(base, given)
            starts = [start(n, s, threads) for n, s in zip(names, rng.spawn(len(names)), strict=True)]
            species = species_of_centers(problem, base, weights, self._shape(base))
            best, runs = evolved(species, starts, rng.spawn(1)[0], limits)
            return [*runs, best], [*names, "genetic"]
        if self.n_init == "auto" and given is None:
            return self._run_until_sure(problem, start, rng, limits, base)
        names = self._start_names(base, given)
        seeds = rng.spawn(len(names))
        return self._run_side_by_side(problem, start, names, seeds, limits, len(base.counts)), names

    def _run_until_sure(
        self, problem: ReductionProblem, start: StartOf, rng: np.random.Generator, limits: Limits, base: BaseModels
    ) -> tuple[list[Run], list[str]]:
        """Make restarts until the best was found often enough."""
        names = self._start_names(base, None)
        seeds, runs = rng.spawn(len(names)), []

        def batch(begin: int, end: int) -> list[float]:
            rows = slice(begin, end)
            runs.extend(
                self._run_side_by_side(problem, start, names[rows], seeds[rows], limits, len(base.counts), begin)
            )
            return [r.bounds[-1] for r in runs]

        until_sure(batch)
        return runs, names[: len(runs)]

    def _run_side_by_side(
        self, problem: ReductionProblem, start: StartOf, names: list[str], seeds: list[np.random.Generator],
        limits: Limits, n_inputs: int, first: int = 0,
    ) -> list[Run]:  # fmt: skip
        threads = min(problem.n_threads, len(names)) if self.executor is None else 1
        stacks = in_stacks(len(names), n_inputs * self.n_clusters, threads)
        threads_each = max(1, problem.n_threads // min(threads, len(stacks)))
        lock, alone = threading.Lock(), replace(problem, n_threads=threads_each)

        def restarts(k: int) -> list[Run]:
            rows = stacks[k]

            def watch(r: int, n_iter: int, bound: float, converged: bool) -> None:
                with lock:
                    which = (first + rows[r], names[rows[r]])
                    self._tell(Progress(*which, n_iter, bound, converged, first + len(names)))

            with np.errstate(over="ignore", invalid="ignore"):  # the bound is checked
                starts = [start(names[r], seeds[r], threads_each) for r in rows]
                return run_together(alone, starts, limits, watch)

        return [one for stack in in_parallel(restarts, len(stacks), min(threads, len(stacks))) for one in stack]

    def _start_names(self, base: BaseModels, given: H3M | None) -> list[str]:
        if given is not None:
            return ["H3M"]
        kinds = list(IN_TURN) if self.init == "auto" else [str(self.init)]
        small = len(base.counts) * self.n_clusters <= _MANY_PAIRS
        by_default = 1 if kinds[0] in ("ward", "spectral") else _RESTARTS if small else _RESTARTS_OF_MANY
        if self.search == "genetic":
            by_default = POPULATION
        n_init = MOST if self.n_init == "auto" else int(self.n_init or by_default)
        return [kinds[r % len(kinds)] for r in range(n_init)]

    def _shape(self, base: BaseModels) -> CenterShape:
        return CenterShape.like(base.models, self.n_clusters, self.n_states, self.n_mix)

    def _tell(self, progress: Progress) -> None:
        if self.verbose:
            state = "  converged" if progress.converged else ""
            print(
                f"VHEM restart {progress.restart + 1} ({progress.init})  iteration {progress.iteration:3d}  "
                f"bound {progress.lower_bound:.6f}{state}"
            )
        if self.callback is not None:
            self.callback(progress)

    def _keep(self, best: Run, ordered: bool, channels: Channels | None) -> IntArray:
        """Keep the centres in their order, which is returned; states of left-right HMMs are in order already."""
        centers = best.state
        models, weights = centers.models, centers.weights
        order = np.arange(len(weights))
        if ordered:
            order, states = orders(models, weights)
            if topology_of(models.startprob, models.transmat) == "ergodic":
                models = models.reordered(states)
            models, weights = models.take(order), weights[order]
        self.centers_ = H3M.of_models(models, weights, channels=channels)
        self.lower_bounds_ = np.array(best.bounds)
        self.n_iter_ = len(best.bounds) - 1
        self.converged_ = bool(best.converged[0])
        self.n_unvisited_states_ = int(centers.n_unvisited_states[0])
        self.n_features_in_ = self.centers_.n_dims
        return order

    def _assign(self, shards: Shards, h3m: H3M, used: IntArray) -> None:
        """One more E-step, so that responsibilities, labels and bound are those of the centres as they came out."""
        centers = self.centers_
        statistics = shards.e_step(
            centers.parameters, centers.weights, Shortcuts.of(self.shortcuts), n_threads(self.n_jobs),
            want_responsibilities=True,
        )  # fmt: skip
        assert statistics.responsibilities is not None
        z = np.empty((len(h3m), self.n_clusters))
        z[used] = statistics.responsibilities
        unused = np.flatnonzero(h3m.weights == 0)
        if len(unused):
            z[unused] = self.predict_proba(h3m)[unused]
        self.responsibilities_ = z
        self.labels_ = z.argmax(1)
        self.lower_bound_ = statistics.bound
        self.n_empty_clusters_ = int((z[used].sum(0) < _EMPTY).sum())

    def _may_polish(self, h3m: H3M, base: BaseModels) -> bool:
        """Whether inputs are estimates of known precision, and nothing else was asked for."""
        default = self.polish and self.init == "auto" and self.n_init is None and self.n_virtual == "auto"
        default = default and self.bound == "paper" and self.search is None
        alike = np.ptp(h3m.weights) <= _ALIKE or not isinstance(base.models.components, Gaussian)
        known = h3m.evidence.is_known.all() and h3m.weights.all()
        single = self._shape(base).n_mix == 1 and base.models.shape[2] == 1
        return bool(default and alike and known and single and self.n_clusters < len(h3m) <= _MOST_POLISHED)

    def _polished(self, h3m: H3M, base: BaseModels) -> PolishedModels | None:
        """Return clusters learned from sequences like those behind the inputs, or None if one of them was lost."""
        rng, threads = generator(self.random_state), n_threads(self.n_jobs)
        cases = h3m.weights * len(h3m) if np.ptp(h3m.weights) > _ALIKE else None
        done = polished(base, h3m.evidence, cases, self._shape(base), rng, threads)
        return done if len(np.unique(done.responsibilities.argmax(1))) == self.n_clusters else None

    def _measured(self, shards: Shards, polish: PolishedModels) -> Run:
        """Return VHEM's bound for polished centres, as a run of no iterations."""
        problem = ReductionProblem(base=shards, n_threads=n_threads(self.n_jobs))
        found = run(problem, Centers(polish.models, polish.responsibilities.mean(0)), Limits(max_iter=0))
        self._tell(Progress(0, "polish", 0, found.bounds[-1], True))
        return found._replace(converged=np.ones(1, dtype=bool))

    def _warn(self, best: Run, n_used: int) -> None:
        if not self.converged_ and self.tol > 0:
            warn(NotConvergedWarning("VHEM", "the bound", self.max_iter))
        if self.n_clusters > n_used:
            warn(
                FitWarning(
                    "there are more clusters ({n}) than inputs with weight ({used}), and {empty} are empty",
                    "ask for fewer clusters",
                    n=self.n_clusters, used=n_used, empty=self.n_empty_clusters_,
                )
            )  # fmt: skip
        else:
            warn_if_any(
                self.n_empty_clusters_,
                "{n} of {clusters} clusters {n:is|are} empty: centres that no input belongs to mean nothing",
                "ask for fewer clusters",
                "raise {n_init}",
                clusters=self.n_clusters,
            )
        warn_if_any(
            self.n_unvisited_states_,
            "{n:state} of the centres {n:is|are} visited by no input and {n:keeps its|keep their} last parameters",
            "{n_states} may be too large",
        )
        warn_if_any(
            int(best.n_falls[0]),
            "the bound fell in {n:iteration} because the floor of the variances, {floor:g}, is not part of it",
            "lower {reg_covar} for a result closer to the optimum",
            floor=self.reg_covar,
        )

    def _logits(self, h3m: H3M) -> FloatArray:
        J = np.maximum(self.transform(h3m), IMPOSSIBLE)
        counts = self._counts(h3m)
        with np.errstate(divide="ignore"):
            log_weights = np.log(self.centers_.weights)
        return np.asarray(self._scales(counts)[:, None] * log_weights + counts[:, None] * J)


def typical_tau(h3m: H3M) -> int:
    """Return the length by which HMMs are compared best: 10 frames; for left-right ones that of their sequences."""
    if topology_of(h3m.startprob, h3m.transmat) == "ergodic":
        return _TAU
    return h3m.evidence.typical_length or _TAU


def _completed(fit: VHEM, fitted: dict[str, Any]) -> dict[str, Any]:
    """Return what files of older versions lack."""
    bounds = np.array([restart.lower_bounds[-1] for restart in fitted["restarts_"]])
    return {"tau_": fit.tau, "polished_": False, "how_sure_": HowSure.of(bounds)}


register_estimator(VHEM, completed=_completed)
