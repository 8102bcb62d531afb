"""SequenceClustering: from sequences to clusters and their HMMs in one call."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from scipy.cluster.hierarchy import cut_tree
from sklearn.base import ClusterMixin
from sklearn.metrics import adjusted_rand_score
from sklearn.utils.validation import check_is_fitted

from vhem._support.arrays import FloatArray, IntArray
from vhem._support.checks import check_enough
from vhem._support.errors import Count, FitWarning, InputError, warn
from vhem._support.frames import LabelFrame
from vhem._support.randomness import generator
from vhem._support.saving import register_estimator
from vhem.em.baum_welch import Fits
from vhem.em.cluster_starts import ward_labels, ward_tree
from vhem.em.estimator import Estimator
from vhem.em.fitting import FitPlan, fit_batch, refitted
from vhem.em.grouped import Batch, Scale
from vhem.em.loop import Limits, run
from vhem.em.mixture_starts import fit_parts
from vhem.em.mixtures import Items, MixtureProblem, Mixtures
from vhem.em.ordering import orders
from vhem.em.parameters import check_parameters, documented
from vhem.em.pooling import learned_from
from vhem.em.progress import Progress
from vhem.em.random_effects import VaryingItems
from vhem.em.random_effects_full import FullVaryingItems
from vhem.em.settings import Priors
from vhem.emissions import Components, Gaussian
from vhem.kernels.engine import n_threads
from vhem.kernels.models import Models
from vhem.kernels.reduction import BaseModels
from vhem.models import H3M
from vhem.sequences import SequencesLike, as_sequences
from vhem.sequences.channels import Channels

_TAU = 10  # frames by which ergodic HMMs are compared; left-right ones are compared over the typical length
_EM_ITERATIONS = 5  # of EM on the sequences, before items may vary
_ITERATIONS = {"diag": (5, 10), "full": (3, 7)}  # with varying items: of every candidate, and more of the best
_TOL = 1e-4
_MOVES, _MUCH_WORK = 3, 250_000  # moves of the search; frames × clusters above which there is one
_SAMPLE = 1500  # items whose HMMs are compared pairwise; the others follow the likelihoods
_MOST_NUMBERS = 3e7  # that varying items may take: items × clusters × states × dimensions


class _Candidate(NamedTuple):
    """One partition, trained further."""

    name: str
    first: IntArray  #: labels of Ward's tree
    after_em: IntArray  #: labels after EM on the sequences
    models: Models
    weights: FloatArray
    responsibilities: FloatArray  #: (n, K)
    objective: float
    state: Any = None  #: of varying items, to be trained further
    scores: FloatArray | None = None  #: (n, K) how well every item fits every cluster, if items vary


@documented
class SequenceClustering(LabelFrame, ClusterMixin, Estimator):  # type: ignore[misc]
    """Cluster sequences, or people with several sequences each, and learn an HMM for each cluster.

    There are three stages, each starting from the one before. First, one HMM per item (a sequence, or all sequences of
    a group), which borrow strength from each other, and Ward's tree on their divergences. Second, one HMM per cluster,
    learned by EM from the sequences themselves, with all sequences of an item kept together. Third, the same with items
    that may vary about their cluster's HMM, so that clusters are not split by differences that occur within all of
    them. Ward's tree is built for several ways of pooling the HMMs' variances; the partition that explains the
    sequences best is kept.

    Parameters
    ----------
    n_clusters : int
        Number of clusters.
    <sizes>
    <topology>
    callback : callable, optional
        Called with a `Progress` when a stage is done. To stop, raise an exception in it.
    <random_state>
    <n_jobs>
    <emissions>
    <verbose>

    Attributes
    ----------
    labels_ : ndarray of shape (n,)
        Cluster of each item; the largest cluster is 0.
    responsibilities_ : ndarray of shape (n, n_clusters)
        Probability of each cluster for each item.
    centers_ : H3M
        One HMM per cluster, with the clusters' weights.
    hmms_ : H3M
        One HMM per item, with the items' names as ids.
    ids_ : list
        Names of the items: of the sequences, or of the groups in the order of their first sequence.
    stages_ : dict of str to ndarray
        Labels after each stage: "hmms", "em" and "final".
    agreement_ : float
        Adjusted Rand index between the first stage and the last: near 1, the clusters are clear; near 0, they depend on
        the method.
    lower_bound_ : float
        What the last stage maximises.
    candidates_ : dict of str to float
        The same for every partition that was tried.

    Examples
    --------
    >>> import numpy as np, vhem
    >>> rng = np.random.default_rng(0)
    >>> slow = [np.repeat([0.0, 3.0], 20) + rng.normal(size=40) for _ in range(10)]
    >>> quick = [np.tile([0.0, 3.0], 20) + rng.normal(size=40) for _ in range(10)]
    >>> fit = vhem.SequenceClustering(n_clusters=2, n_states=2, random_state=0).fit(slow + quick)
    >>> len(set(fit.labels_[:10])), len(set(fit.labels_[10:])), fit.labels_[0] != fit.labels_[10]
    (1, 1, np.True_)
    """

    labels_: IntArray
    responsibilities_: FloatArray
    centers_: H3M
    hmms_: H3M
    ids_: list[Any]
    stages_: dict[str, IntArray]
    agreement_: float
    lower_bound_: float
    candidates_: dict[str, float]

    def __init__(
        self,
        n_clusters: int = 8,
        n_states: int = 3,
        n_mix: int = 1,
        covariance_type: str = "diag",
        topology: str = "ergodic",
        callback: Callable[[Progress], None] | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        emissions: Any = "gaussian",
        verbose: bool | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.n_states = n_states
        self.n_mix = n_mix
        self.covariance_type = covariance_type
        self.topology = topology
        self.callback = callback
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.emissions = emissions
        self.verbose = verbose

    def fit(
        self,
        X: SequencesLike,
        y: Any = None,
        groups: Iterable[Any] | None = None,
        sample_weight: npt.ArrayLike | None = None,
        hmms: H3M | None = None,
    ) -> Self:
        """Cluster the sequences of `X`.

        Parameters
        ----------
        X : list of (T_i, d) arrays, 3-D array or Sequences
            The sequences; NaN marks missing values, which are integrated out.
        y : ignored
            Ignored; present for API consistency.
        groups : list, optional
            One label per sequence (a person, say): those with equal labels are clustered as one item.
        sample_weight : array of shape (n,), optional
            How much each sequence counts in its item. If not given, the case weights of the sequences, if they have
            any: they say how much each item counts, and items do not vary then (the third stage is left out).
        hmms : H3M, optional
            One HMM per item, in the order of the items, where they are learned already: the first stage then
            compares these.

        Returns
        -------
        SequenceClustering
            This estimator, fitted.
        """
        del y
        check_parameters(self)
        plan, rng = self._plan(), generator(self.random_state)
        sequences = as_sequences(X) if hmms is None else hmms.coded(X)
        batch = Batch.of(sequences, groups, sample_weight, plan.template(sequences) if hmms is None else _like(hmms))
        check_enough("n_clusters", self.n_clusters, len(batch.ids), "item")
        if hmms is None:
            fits = self._item_hmms(batch, plan, rng)
            models = {name: fit.models for name, fit in fits.items()}
        else:
            models = {"plain": _checked_hmms(hmms, batch)}
        own, channels = models["arithmetic" if "arithmetic" in models else "plain"], sequences._remembered
        self.hmms_ = H3M.of_models(own, ids=batch.ids, channels=channels)
        partitions = self._partitions(batch, models, rng)
        self._tell("hmms", 0.0)
        candidates = [self._learned(name, labels, batch, plan, rng) for name, labels in partitions.items()]
        best = max(candidates, key=lambda one: one.objective)
        if best.scores is not None:
            best = self._searched(best, batch, plan, rng)
        self._keep(self._learned_on(best, batch, plan), batch, channels)
        self.candidates_ = {one.name: one.objective for one in candidates}
        return self

    def fit_predict(self, X: SequencesLike, y: Any = None, **kwargs: Any) -> IntArray:
        """Cluster the sequences of `X` and return the cluster of each item."""
        return self.fit(X, y, **kwargs).labels_

    def predict(self, X: SequencesLike, groups: Iterable[Any] | None = None) -> IntArray:
        """Return the most probable cluster of each sequence, or of each group of sequences."""
        return np.asarray(self.predict_proba(X, groups).argmax(axis=1))

    def predict_proba(self, X: SequencesLike, groups: Iterable[Any] | None = None) -> FloatArray:
        """Return the probability of each cluster for each sequence, or for each group of sequences."""
        check_is_fitted(self)
        batch = Batch.of(self.centers_.coded(X), groups, None, _like(self.centers_))
        problem = _item_problem(batch, self.centers_.parameters, n_threads(self.n_jobs))
        return problem.e_step(Mixtures(self.centers_.parameters, self.centers_.weights[None])).responsibilities

    def score(self, X: SequencesLike, y: Any = None) -> float:
        """Return the mean log-likelihood of the sequences under the mixture of the centres."""
        del y
        check_is_fitted(self)
        return self.centers_.score(X, self.n_jobs)

    def _plan(self) -> FitPlan:
        sizes = {name: getattr(self, name) for name in ("n_mix", "covariance_type", "topology", "emissions")}
        plan = FitPlan.checked(
            **sizes, max_iter=100, tol=_TOL, reg_covar=1e-3, startprob_prior=0.1, transmat_prior=0.1, covars_prior=0.1,
            n_threads=n_threads(self.n_jobs),
        )  # fmt: skip
        return plan.with_states(self.n_states)

    def _item_hmms(self, batch: Batch, plan: FitPlan, rng: np.random.Generator) -> dict[str, Fits]:
        """Return one HMM per item, for every way of pooling that the evidence supports."""
        scale = Scale.of(batch)
        fits = {"plain": fit_batch(batch, scale, plan, rng)}
        for name, logarithmic in (("log", True), ("arithmetic", False)):
            pooled = learned_from(fits["plain"], logarithmic)
            if pooled is not None:
                fits[name] = refitted(batch, scale, fits["plain"], pooled, plan, rng)
        return fits

    def _partitions(self, batch: Batch, models: dict[str, Models], rng: np.random.Generator) -> dict[str, IntArray]:
        """Return the distinct partitions that Ward's trees give."""
        n = len(batch.ids)
        chosen = np.arange(n) if n <= _SAMPLE else np.sort(rng.choice(n, _SAMPLE, replace=False))
        found: dict[str, IntArray] = {}
        for name, items in models.items():
            base = _compared(items.take(chosen), self._tau(batch))
            labels = _renumbered(ward_labels(base, self.n_clusters, n_threads(self.n_jobs)))
            if not any((labels == other).all() for other in found.values()):
                found[name] = labels
        return found if n == len(chosen) else {k: self._spread(batch, chosen, v, rng) for k, v in found.items()}

    def _tau(self, batch: Batch) -> int:
        return _TAU if self.topology == "ergodic" else int(np.median(batch.lengths))

    def _base(self, batch: Batch) -> BaseModels:
        return _compared(self.hmms_.parameters, self._tau(batch))

    def _spread(self, batch: Batch, chosen: IntArray, labels: IntArray, rng: np.random.Generator) -> IntArray:
        """Let items that were not compared follow the HMMs of the parts."""
        part, plan = batch.take(chosen), self._plan()
        models = fit_parts(part, np.arange(len(part.groups)), labels[part.groups], self.n_clusters, plan, rng)
        uniform = np.full((1, self.n_clusters), 1 / self.n_clusters)
        problem = _item_problem(batch, models, plan.n_threads)
        every = problem.e_step(Mixtures(problem.prior.possible(models), uniform)).responsibilities.argmax(axis=1)
        every[chosen] = labels
        return np.asarray(every, dtype=np.int64)

    def _learned(
        self, name: str, labels: IntArray, batch: Batch, plan: FitPlan, rng: np.random.Generator, n_init: int = 3
    ) -> _Candidate:
        """Learn an HMM from each part of a partition, then EM, then let items vary."""
        K = self.n_clusters
        models = fit_parts(batch, np.arange(len(batch.groups)), labels[batch.groups], K, plan, rng, n_init)
        shares = np.bincount(labels, minlength=K) + 1.0
        problem = _item_problem(batch, models, plan.n_threads)
        start = Mixtures(problem.prior.possible(models), (shares / shares.sum())[None])
        done = run(problem, start, Limits(max_iter=_EM_ITERATIONS, tol=_TOL))
        z, weights = done.expected.responsibilities, done.state.weights[0]
        made = _Candidate(name, labels, z.argmax(axis=1), done.state.models, weights, z, done.bounds[-1], None)
        self._tell("em", made.objective)
        return made if not self._may_vary(batch) else self._varied(made, problem, _ITERATIONS[self.covariance_type][0])

    def _searched(self, best: _Candidate, batch: Batch, plan: FitPlan, rng: np.random.Generator) -> _Candidate:
        """Dissolve the cluster that is missed least and split the widest one, as long as that explains more."""
        if len(batch.ids) > _SAMPLE:
            return best
        few = len(batch.X) * self.n_clusters <= _MUCH_WORK
        tried: set[tuple[int, int]] = set()
        for _ in range(_MOVES if few else 1):
            move = _proposed(best, self._base(batch), tried)
            if move is None:
                break
            tried.add(move.pair)
            found = self._learned(best.name, move.labels, batch, plan, rng, n_init=1)
            if found.objective > best.objective:
                best, tried = found._replace(first=best.first), set()
        return best

    def _may_vary(self, batch: Batch) -> bool:
        d = batch.X.shape[1] if self.covariance_type == "diag" else batch.X.shape[1] ** 2
        numbers = len(batch.ids) * self.n_clusters * self.n_states * (self.n_states + 4 * d)
        plain = isinstance(batch.emissions, Gaussian) and batch.cases is None
        return plain and self.n_mix == 1 and numbers <= _MOST_NUMBERS

    def _varied(self, made: _Candidate, problem: MixtureProblem, n_iter: int) -> _Candidate:
        emissions: Any = problem.prior.emissions
        kind = VaryingItems if self.covariance_type == "diag" else FullVaryingItems
        varying = kind(batch=problem.batch, floor=emissions.floor[0], n_threads=problem.n_threads)
        state = made.state or varying.begin(made.models, np.maximum(made.weights, 1e-3))
        done = run(varying, state, Limits(max_iter=n_iter, tol=_TOL))
        z, centers = done.expected.responsibilities, done.state.centers
        self._tell("varying items", done.bounds[-1])
        return made._replace(
            models=centers.models(), weights=z.mean(axis=0), responsibilities=z, objective=done.bounds[-1],
            state=done.state, scores=done.expected.scores,
        )  # fmt: skip

    def _learned_on(self, best: _Candidate, batch: Batch, plan: FitPlan) -> _Candidate:
        """Train the best candidate further."""
        problem = _item_problem(batch, best.models, plan.n_threads)
        if best.state is not None:
            return self._varied(best, problem, _ITERATIONS[self.covariance_type][1])
        start = Mixtures(problem.prior.possible(best.models), best.weights[None])
        done = run(problem, start, Limits(max_iter=20, tol=_TOL))
        return best._replace(
            models=done.state.models, weights=done.state.weights[0], objective=done.bounds[-1],
            responsibilities=done.expected.responsibilities,
        )  # fmt: skip

    def _keep(self, best: _Candidate, batch: Batch, channels: Channels | None) -> None:
        models, shares = best.models, np.average(best.responsibilities, axis=0, weights=batch.cases)
        order, states = orders(models, shares)
        if self.topology == "ergodic":
            models = models.reordered(states)
        z = best.responsibilities[:, order]
        self.centers_ = H3M.of_models(models.take(order), shares[order] / shares.sum(), channels=channels)
        self.responsibilities_, self.labels_ = z, z.argmax(axis=1)
        self.ids_ = list(batch.ids)
        self.stages_ = {"hmms": best.first, "em": best.after_em, "final": self.labels_}
        self.agreement_ = float(adjusted_rand_score(best.first, self.labels_))
        self.lower_bound_ = best.objective
        self.n_features_in_ = batch.X.shape[1]
        n_empty = self.n_clusters - len(np.unique(self.labels_))
        if n_empty:
            warn(
                FitWarning(
                    "{n} of {clusters} clusters are the most probable one of no item", "ask for fewer clusters",
                    n=n_empty, clusters=self.n_clusters,
                )
            )  # fmt: skip

    def _tell(self, stage: str, bound: float) -> None:
        if self.callback is not None:
            self.callback(Progress(0, stage, 0, bound, False, 1))


class _Move(NamedTuple):
    """One cluster dissolved, and another split in two."""

    pair: tuple[int, int]
    labels: IntArray


def _proposed(now: _Candidate, base: BaseModels, tried: set[tuple[int, int]]) -> _Move | None:
    """Return the most promising move that was not tried yet.

    A cluster is missed by what its items lose in their second-best clusters, and is as wide as the last merge of Ward's
    tree of its members.
    """
    assert now.scores is not None
    labels, F = now.responsibilities.argmax(axis=1), now.scores
    K, rows = F.shape[1], np.arange(len(F))
    second = np.where(np.eye(K, dtype=bool)[labels], -np.inf, F).argmax(axis=1)
    loss = np.bincount(labels, F[rows, labels] - F[rows, second], K)
    halves = {c: _halved(base, np.flatnonzero(labels == c)) for c in range(K) if (labels == c).sum() > 1}
    widest = max((height for height, _ in halves.values()), default=0.0)
    promise = {
        (a, c): height / max(widest, 1e-300) - loss[a] / max(loss.max(), 1e-300)
        for c, (height, _) in halves.items()
        for a in range(K)
        if a != c and (a, c) not in tried
    }
    if not promise:
        return None
    a, c = max(promise, key=lambda pair: promise[pair])
    moved = np.where(labels == a, second, labels)
    moved[halves[c][1]] = a
    return _Move((a, c), moved)


def _halved(base: BaseModels, members: IntArray) -> tuple[float, IntArray]:
    """Return the squared height of the last merge of Ward's tree of some items, and one side of it."""
    tree = ward_tree(base.take(members))
    side = cut_tree(tree, 2)[:, 0] == 1
    return float(tree[-1, 2] ** 2), members[side]


def _checked_hmms(hmms: H3M, batch: Batch) -> Models:
    if len(hmms) != len(batch.ids) or hmms.n_dims != batch.X.shape[1]:
        raise InputError(
            "hmms has {n:HMM} of {d} dimensions for {items:item} of {dims}",
            "give one HMM for each item, learned from the same columns",
            n=Count(len(hmms)), d=hmms.n_dims, items=Count(len(batch.ids)), dims=batch.X.shape[1],
        )  # fmt: skip
    return hmms.parameters


def _like(h3m: H3M) -> Components:
    return h3m.emissions.padding()


def _compared(models: Models, tau: int) -> BaseModels:
    ones = np.ones(len(models))
    return BaseModels.of(models, ones, ones, tau)


def _item_problem(batch: Batch, models: Models, threads: int) -> MixtureProblem:
    """Return EM in which all sequences of an item belong to one cluster."""
    n = len(batch.ids)
    cases = np.ones(n) if batch.cases is None else batch.cases
    items = Items(batch.groups, batch.weights, cases, np.zeros(n, dtype=np.int64))
    whole = batch._replace(groups=np.zeros_like(batch.groups), ids=[0])
    scale = Scale.of(whole).repeated(len(models))
    prior = Priors(reg_covar=1e-3).spread(models.startprob > 0, models.transmat > 0, scale)
    return MixtureProblem(
        batch=batch, items=items, prior=prior, n_components=len(models), strict=False, n_threads=threads
    )


def _renumbered(labels: IntArray) -> IntArray:
    """Return the same partition with clusters numbered in the order of their first items."""
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    return np.asarray(np.argsort(np.argsort(first))[inverse.ravel()], dtype=np.int64)


register_estimator(SequenceClustering)
