"""VBHEM: clusters HMMs, and finds how many clusters there are and how many states their centres have."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.special import logsumexp, softmax
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from vhem._support.arrays import BoolArray, FloatArray, IntArray
from vhem._support.checks import check_choice, check_enough, check_integer, check_real
from vhem._support.errors import InputError, NotConvergedWarning, warn
from vhem._support.randomness import generator
from vhem._support.saving import register_estimator
from vhem.bayes.beliefs import expected_models
from vhem.bayes.cluster_search import ClusterSearch, Found, Size, dispersion, is_diagonal, several_numbers
from vhem.bayes.clusters import VariationalClusters
from vhem.bayes.fit_vbhem import base_models
from vhem.bayes.pruning import pruned
from vhem.bayes.records import Hyperparameters
from vhem.bayes.varying_clusters import Varied, VaryingClusters, sampled
from vhem.em.cluster_starts import IN_TURN, STARTS
from vhem.em.estimator import Clusterer
from vhem.em.how_sure import HowSure
from vhem.em.loop import Limits, Watch, improved
from vhem.em.parameters import check_parameters, documented
from vhem.em.progress import Progress
from vhem.em.restarts import in_parallel
from vhem.em.sharding import Shards
from vhem.emissions import Gaussian
from vhem.emissions.dirichlet import expected_logs
from vhem.estimators.divergence import check_dimensions
from vhem.kernels.engine import n_threads
from vhem.kernels.models import Models
from vhem.kernels.reduction import BaseModels, expected_log_likelihood
from vhem.models import H3M, HMM
from vhem.models.checks import check_h3m

_UNKNOWN = 10.0  # virtual sequences of an input, and their length, if nothing is known about its data
_LOOK_AHEAD = 2  # sizes beyond the present one that must be worse before the search for the dispersion ends


class _Inputs(NamedTuple):
    """The inputs with the amounts of data behind them."""

    h3m: H3M
    counts: FloatArray  #: (B,) sequences
    tau: int


@documented
@dataclass(eq=False, repr=False)
class VBHEM(TransformerMixin, Clusterer):  # type: ignore[misc]
    """Cluster hidden Markov models by variational Bayes, which also finds the numbers of clusters and states.

    The objective is a lower bound of the evidence, which pays for every cluster and state: what the data do not need
    makes it smaller. The inputs are best learned by ``fit_hmms(..., method="vb")``: they then say how sure they are of
    their parameters, and how much data is behind them.

    Parameters
    ----------
    n_clusters, n_states : int, or several to choose from
        Numbers of clusters, and of states per centre. Of several, those with the highest score are kept (`scores_`).
        Numbers of clusters above the number of inputs are left out of a range.
    covariance_type : {"diag", "full"}, optional
        Form of the centres' covariances. None: that of the inputs.
    tau : int or "auto"
        Length of the virtual sequences. "auto": the average length of the sequences that the inputs were learned from,
        or 10 if they do not say.
    n_virtual : float or "auto"
        Virtual sequences per input. "auto": as many as it was learned from, divided by the dispersion: members of one
        cluster differ by more than chance, so each tells less about its cluster than its sequences would if all were
        drawn from one HMM. If the inputs do not say how much data is behind them, 10 takes the place of their number.
    hyperparameters : {"data", "learned"} or Hyperparameters
        The priors. "data": weak, in units of all inputs' spread. "learned": those that maximise the bound. Or fixed
        ones, as a :class:`vhem.bayes.Hyperparameters`.
    init : {"auto", "ward", "kmeans++", "emissions", "base", "spectral"}
        Where to start, as in `VHEM`. "auto": Ward's tree and, if `n_init` is larger, the others in turn.
    n_init : int or "auto"
        Restarts for every size that is fitted. With n_virtual="auto" and init="auto" the first starts from the centres
        that the comparison of sizes found. "auto": until the best bound was found three times, as in `VHEM`.
    search : {None, "genetic"}
        "genetic": solutions of several starts trade their clusters and replace them, as in `VHEM`; use about 8 of them.
    <limits>
    <callback>
    <verbose>
    <random_state>
    <n_jobs>

    Attributes
    ----------
    centers_ : H3M
        One HMM per cluster, at the posterior means, with the clusters' weights; it carries the posterior. Heaviest
        cluster first. Clusters without inputs and states that nothing visits are removed. With n_virtual="auto" the
        clusters and states that the comparison found are kept.
    labels_, responsibilities_ : ndarrays of shape (B,) and (B, K)
        Cluster of each input, and the probability of each cluster.
    n_clusters_ : int
        The number of clusters found.
    lower_bound_, lower_bounds_ : float, ndarray
        The bound at the end, and after every E-step; with n_virtual="auto", that of all of the inputs' sequences. The
        dispersion then only widens the posterior.
    sizes_, scores_ : ndarrays of shape (n, 2) and (n,)
        The pairs (clusters, states) that were tried, and how well they explain the inputs. With n_virtual="auto",
        numbers of clusters and of states are tried in turn, and the score is that of a mixture whose members vary about
        their centres, less ½ p ln B for p parameters: what differs between the members of every cluster makes no
        further cluster. There are three members per cluster or more on average: with fewer, nobody can tell how much
        they vary. With a given `n_virtual` all pairs are tried, and the score is the bound plus
        ln K! + K ln S! for the clusters that have inputs, because every solution stands for so many relabelled ones.
    cluster_counts_, cluster_probabilities_ : ndarrays
        Numbers of clusters that have inputs, and the probability of each: exp of the scores, added up over the numbers
        of states.
    weight_counts_ : ndarray of shape (K,)
        Dirichlet parameters of the clusters' weights.
    dispersion_, tau_ : float, int
        By how much members of a cluster differ, relative to what chance would explain; length of virtual sequences.
    how_sure_ : HowSure
        How many restarts of the size that was chosen found the best bound; `how_sure_.sentence` puts it in words.
    n_iter_, converged_ : int, bool
        Iterations of the best run, and whether its bound converged.
    n_removed_clusters_, n_removed_states_ : int
        Clusters that no input belongs to, and states that nothing visits; they were removed.

    References
    ----------
    H. Lan, Z. Liu, J. H. Hsiao, D. Yu, A. B. Chan, "Clustering hidden Markov models with variational Bayesian
    hierarchical EM", IEEE Transactions on Neural Networks and Learning Systems 34(3):1537-1551, 2023.

    Examples
    --------
    >>> import vhem
    >>> def viewer(x):  # looks at x, then at x + 4, and back
    ...     return vhem.HMM([0.9, 0.1], [[0.2, 0.8], [0.8, 0.2]], [[x], [x + 4]], [[1.0], [1.0]])
    >>> viewers = vhem.H3M([viewer(0.0), viewer(0.2), viewer(0.1), viewer(9.0), viewer(9.1), viewer(9.2), viewer(9.3)])
    >>> fit = vhem.VBHEM(n_clusters=range(1, 5), n_states=range(1, 4), random_state=0).fit(viewers)
    >>> fit.n_clusters_, fit.centers_.n_states
    (2, array([2, 2]))
    >>> fit.labels_
    array([1, 1, 1, 0, 0, 0, 0])
    """

    n_clusters: int | Iterable[int] = range(1, 9)
    n_states: int | Iterable[int] = range(1, 6)
    covariance_type: str | None = None
    tau: int | str = "auto"
    n_virtual: float | str = "auto"
    hyperparameters: str | Hyperparameters = "data"
    init: str = "auto"
    n_init: int | str = 2
    max_iter: int = 200
    tol: float = 1e-5
    callback: Callable[[Progress], None] | None = None
    verbose: bool | None = None
    random_state: Any = None
    n_jobs: int | None = None
    search: str | None = None

    centers_: H3M = field(init=False)
    responsibilities_: FloatArray = field(init=False)
    n_clusters_: int = field(init=False)
    lower_bound_: float = field(init=False)
    lower_bounds_: FloatArray = field(init=False)
    sizes_: IntArray = field(init=False)
    scores_: FloatArray = field(init=False)
    cluster_counts_: IntArray = field(init=False)
    cluster_probabilities_: FloatArray = field(init=False)
    weight_counts_: FloatArray = field(init=False)
    dispersion_: float = field(init=False)
    tau_: int = field(init=False)
    n_iter_: int = field(init=False)
    converged_: bool = field(init=False)
    how_sure_: HowSure = field(init=False)
    n_removed_clusters_: int = field(init=False)
    n_removed_states_: int = field(init=False)

    def fit(self, X: H3M | list[HMM], y: Any = None) -> Self:
        """Cluster the HMMs of `X`.

        Parameters
        ----------
        X : H3M or list of HMM
            The inputs, with one component per state.
        y : ignored
            Ignored; present for API consistency.

        Returns
        -------
        VBHEM
            This estimator, fitted.
        """
        del y
        check_parameters(
            self, but=("n_clusters", "n_states", "tau", "n_virtual", *["n_init"] * (self.n_init == "auto"))
        )
        if self.search is not None:
            check_choice("search", self.search, ("genetic",))
        inputs = self._inputs(check_h3m("X", X))
        sizes = self._sizes(len(inputs.h3m))
        rng = generator(self.random_state)
        compared = self._compared(inputs, sizes, rng)
        centers = None
        if compared:
            sizes = [max(compared, key=lambda size: compared[size].score)]
            centers = compared[sizes[0]].centers
        scale = self._dispersion(inputs, sizes) if self.n_virtual == "auto" else 1.0
        diluted = inputs._replace(counts=inputs.counts / scale)
        found = self._search(inputs if compared else diluted, sizes, rng, centers)
        best = max(found, key=lambda one: one.score)
        self.dispersion_, self.tau_ = scale, inputs.tau
        self.how_sure_ = HowSure.of(np.array(best.bounds))
        self._keep_scores(compared or {one.size: Varied(one.score, one.n_occupied) for one in found})
        self._keep(best, diluted)
        if not self.converged_ and self.tol > 0:
            warn(NotConvergedWarning("VBHEM", "the bound", self.max_iter))
        return self

    def predict_proba(self, X: H3M | HMM | list[HMM]) -> FloatArray:
        """Return the probability of each cluster for each HMM of `X`, (B, K)."""
        logits = self._logits(check_h3m("X", X))
        return np.asarray(softmax(logits, axis=1))

    def predict(self, X: H3M | HMM | list[HMM]) -> IntArray:
        """Return the most probable cluster of each HMM of `X`."""
        return np.asarray(self._logits(check_h3m("X", X)).argmax(1))

    def transform(self, X: H3M | HMM | list[HMM]) -> FloatArray:
        """Return the bound on E log p of sequences of each HMM of `X` under each cluster's posterior, (B, K)."""
        check_is_fitted(self)
        h3m = check_h3m("X", X)
        check_dimensions("X", h3m, "centers_", self.centers_)
        models = base_models(h3m, diagonal=is_diagonal(self.centers_.parameters))
        return expected_log_likelihood(models, self._expected_centers(), self.tau_, n_threads=n_threads(self.n_jobs))

    def score(self, X: H3M | HMM | list[HMM], y: Any = None) -> float:
        """Return the mean over the HMMs of `X` of log Σ_j exp(E log ω_j + N L_ij), per virtual sequence."""
        del y
        h3m = check_h3m("X", X)
        return float(logsumexp(self._logits(h3m), axis=1).sum() / self._inputs(h3m).counts.sum())

    # -- inputs and sizes

    def _inputs(self, h3m: H3M) -> _Inputs:
        """Return the inputs with the numbers and the length of their virtual sequences."""
        known = h3m.posterior
        frames = None if known is None else known.n_frames.sum()
        if self.tau == "auto":
            tau = round(_UNKNOWN if known is None else max(1.0, float(frames / known.n_sequences.sum())))
        else:
            tau = check_integer("tau", self.tau, 1)
        if self.n_virtual == "auto" and known is not None:
            counts = known.n_frames / tau
        elif self.n_virtual == "auto":
            counts = _UNKNOWN * len(h3m) * h3m.weights
        else:
            counts = check_real("n_virtual", self.n_virtual, 0.0, open_interval=True) * len(h3m) * h3m.weights
        if not isinstance(self.hyperparameters, Hyperparameters):
            check_choice("hyperparameters", self.hyperparameters, ("data", "learned"))
        check_choice("init", self.init, ("auto", *STARTS))
        if not (counts > 0).all():
            raise InputError("some inputs have weight zero", "leave them out")
        return _Inputs(h3m, counts, tau)

    def _sizes(self, n_inputs: int) -> list[Size]:
        several = isinstance(self.n_clusters, Iterable)
        clusters = several_numbers("n_clusters", self.n_clusters)
        if several:
            clusters = [K for K in clusters if n_inputs >= K] or clusters[:1]
        check_enough("n_clusters", clusters[0], n_inputs, "HMM")
        return [Size(K, S) for K in clusters for S in several_numbers("n_states", self.n_states)]

    # -- the search

    def _searcher(
        self, inputs: _Inputs, threads: int, quick: bool = False, centers: Models | None = None
    ) -> ClusterSearch:
        h3m, ones = inputs.h3m, np.ones(len(inputs.h3m))
        models, form = h3m.parameters, self.covariance_type or _form(h3m)
        models = models.with_components(models.components.with_covariances(form))
        proper = BaseModels.of(models, inputs.counts, ones, inputs.tau)
        taken = BaseModels.of(base_models(h3m, form == "diag"), inputs.counts, ones, inputs.tau)
        return ClusterSearch(
            proper=proper, shards=Shards.of(taken), weights=h3m.weights,
            kinds=list(IN_TURN) if self.init == "auto" or quick else [self.init],
            n_init=1 if quick else None if self.n_init == "auto" else int(self.n_init),
            given=centers if self.init == "auto" else None, genetic=not quick and self.search == "genetic",
            hyperparameters=self.hyperparameters, limits=Limits(max_iter=self.max_iter, tol=self.tol),
            n_threads=threads,
        )  # fmt: skip

    def _compared(self, inputs: _Inputs, sizes: list[Size], rng: np.random.Generator) -> dict[Size, Varied]:
        """Return how well every size explains inputs that vary; nothing if that is not to be found out."""
        if self.n_virtual != "auto" or not isinstance(inputs.h3m.emissions, Gaussian):
            return {}
        base, weights = sampled(self._searcher(inputs, 1).proper, inputs.h3m.weights, rng.spawn(1)[0])
        search = VaryingClusters(
            base=base, weights=weights, watch=lambda at: self._watcher(at, "varying members", len(sizes)),
            n_threads=n_threads(self.n_jobs),
        )  # fmt: skip
        return search.compared(sizes)

    def _dispersion(self, inputs: _Inputs, sizes: list[Size]) -> float:
        """Return how much more members of a cluster differ than chance explains.

        This depends on the number of clusters. It is that of the smallest number that explains the inputs: with the
        dispersion found for it, the next larger numbers are worse.
        """
        typical = int(np.ceil(np.median(inputs.h3m.n_states)))
        numbers = [K for K in dict.fromkeys(size.n_clusters for size in sizes) if len(inputs.h3m) > K]
        searcher = self._searcher(inputs, n_threads(self.n_jobs), quick=True)
        found = 1.0
        for at, K in enumerate(numbers):
            found = dispersion(searcher, Size(K, typical))
            trial = inputs._replace(counts=inputs.counts / found)
            ahead = [Size(n, typical) for n in numbers[at : at + 1 + _LOOK_AHEAD]]
            quick = self._searcher(trial, n_threads(self.n_jobs), quick=True)
            scores = [quick.best(size, generator(0), lambda _: _watch_nothing).score for size in ahead]
            if int(np.argmax(scores)) == 0:
                break
        return found

    def _search(
        self, inputs: _Inputs, sizes: list[Size], rng: np.random.Generator, centers: Models | None
    ) -> list[Found]:
        threads = n_threads(self.n_jobs)
        searcher = self._searcher(inputs, 1, centers=centers)
        seeds = rng.spawn(len(sizes))

        def one(k: int) -> Found:
            found = searcher.best(sizes[k], seeds[k], lambda name: self._watcher(k, name, len(sizes)))
            if self.verbose:
                print(f"VBHEM {sizes[k].n_clusters} clusters of {sizes[k].n_states} states  score {found.score:.6f}")
            return found

        return in_parallel(one, len(sizes), min(threads, len(sizes)))

    def _watcher(self, at: int, name: str, n: int) -> Watch:
        def watch(n_iter: IntArray, bounds: FloatArray, converged: BoolArray) -> None:
            if self.callback is not None:
                self.callback(Progress(at, name, int(n_iter[0]), float(bounds[0]), bool(converged[0]), n))

        return watch

    # -- results

    def _keep_scores(self, tried: dict[Size, Varied]) -> None:
        self.sizes_ = np.array(sorted(tried))
        self.scores_ = np.array([tried[size].score for size in sorted(tried)])
        occupied = np.array([tried[size].n_occupied for size in sorted(tried)])
        self.cluster_counts_ = np.unique(occupied)
        # A number of clusters may have been reached from several sizes; the best of each number of states counts.
        states = np.unique(self.sizes_[:, 1])
        cells = [
            [self.scores_[(occupied == K) & (self.sizes_[:, 1] == S)] for S in states] for K in self.cluster_counts_
        ]
        total = [logsumexp([cell.max() for cell in row if len(cell)]) for row in cells]
        self.cluster_probabilities_ = softmax(total)

    def _keep(self, best: Found, inputs: _Inputs) -> None:
        """Keep what was found; every input then counts only as much as the dispersion leaves of it.

        As in quasi-likelihood: members that vary make the centres uncertain, and do not change what these are. If they
        had counted so little from the beginning, states would have been lost.
        """
        searcher = self._searcher(inputs, n_threads(self.n_jobs))
        problem, state = VariationalClusters(base=searcher.shards), best.run.state
        q = improved(problem, state, problem.e_step(state)).state.posterior
        last = problem.reduced(q, responsibilities=True)
        assert last.responsibilities is not None
        found = pruned(q, last.sums, last.mass, last.responsibilities)
        self.n_removed_clusters_, self.n_removed_states_ = found.n_removed_clusters, found.n_removed_states
        self.weight_counts_, self.centers_ = found.weight_counts, found.hmms()
        self.responsibilities_ = found.responsibilities
        self.labels_ = self.responsibilities_.argmax(1)
        self.n_clusters_ = len(self.centers_)
        self.lower_bounds_ = np.array(best.run.bounds)
        self.lower_bound_ = float(best.run.bounds[-1])
        self.n_iter_ = len(best.run.bounds) - 1
        self.converged_ = bool(best.run.converged[0])
        self.n_features_in_ = self.centers_.n_dims

    def _expected_centers(self) -> Models:
        posterior = self.centers_.posterior
        assert posterior is not None
        made = expected_models(posterior.alpha, posterior.epsilon, *posterior.emissions.expected())
        return replace(made, n_states=self.centers_.n_states)

    def _logits(self, h3m: H3M) -> FloatArray:
        L = self.transform(h3m)
        counts = self._inputs(h3m).counts / self.dispersion_
        return np.asarray(expected_logs(self.weight_counts_) + counts[:, None] * L)


def _form(h3m: H3M) -> str:
    return "diag" if is_diagonal(h3m.parameters) else "full"


def _watch_nothing(*_: Any) -> None:
    return None


def _completed(fit: VBHEM, fitted: dict[str, Any]) -> dict[str, Any]:
    """Return what files of older versions lack."""
    del fit
    return {"how_sure_": HowSure.of(np.array([fitted["lower_bound_"]]))}


register_estimator(VBHEM, completed=_completed)
