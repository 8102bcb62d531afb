"""SequenceClustering: from sequences to clusters and their HMMs in one call."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.metrics import adjusted_rand_score
from sklearn.utils.validation import check_is_fitted

from vhem._support.arrays import FloatArray, IntArray
from vhem._support.checks import check_enough
from vhem._support.errors import Count, FitWarning, InputError, ParameterError, warn
from vhem._support.frames import LabelFrame
from vhem._support.randomness import generator
from vhem._support.saving import register_estimator
from vhem.em.choose_states import ChosenShape, chosen_shape, compared_length
from vhem.em.common_states import by_common_states
from vhem.em.estimator import Clusterer
from vhem.em.fitting import FitPlan, borrowed, fit_batch, refitted
from vhem.em.grouped import Batch, Scale, still_channels, warn_of_items_without_values, warn_of_unseen
from vhem.em.mixture_starts import PARTITIONS
from vhem.em.mixtures import Mixtures
from vhem.em.ordering import orders
from vhem.em.parameters import check_parameters, documented
from vhem.em.polish import Candidate, Polish, followed, item_problem
from vhem.em.pooling import learned_from
from vhem.em.progress import Progress
from vhem.em.quickened import quickened
from vhem.em.shortened import Shortened
from vhem.em.slopes import with_slopes, without_slopes
from vhem.em.topology import topology_of
from vhem.em.ward import divergences, most_comparable, ward_partitions
from vhem.emissions import Components, Gaussian
from vhem.kernels.engine import n_threads
from vhem.kernels.models import Models
from vhem.models import H3M
from vhem.sequences import Sequences, SequencesLike, as_sequences
from vhem.sequences.slopes import names_with_slopes

_ANY = "ergodic"
_PER_CLUSTER, _MOST_COMPARED = 10, 6000  # items whose HMMs are compared pairwise; the others follow the likelihoods
_TOL = 1e-4
_CONFIRMED = 0.5  # adjusted Rand index of clusters before and after EM; below, HMMs of single items show few of them


@documented
@dataclass(eq=False, repr=False)
class SequenceClustering(LabelFrame, Clusterer):
    """Cluster sequences, or people with several sequences each, and learn an HMM for each cluster.

    There are three stages, each starting from the one before. First, one HMM per item (a sequence, or all sequences of
    a group), which borrow strength from each other, and Ward's tree on their divergences. Second, one HMM per cluster,
    learned by EM from the sequences themselves, with all sequences of an item kept together. Third, the same with items
    that may vary about their cluster's HMM, so that clusters are not split by differences that occur within all of
    them. Ward's tree is built for several kinds of HMMs, and all solutions vote: those that explain the sequences
    worse count less. (Of other families than Gaussians, solutions also trade clusters.) Of very many frames, a part is
    searched for clusters, whose HMMs are then learned from all frames.

    Parameters
    ----------
    n_clusters : int
        Number of clusters.
    n_states : int or "auto"
        States of each HMM. "auto" makes quick clusterings with 1 to 8 states (left-right: 2 to 16) and takes the number
        that BIC prefers.
    n_mix : int
        Gaussians per state.
    covariance_type : {"diag", "full"}
        Form of the covariances.
    topology : {"auto", "ergodic", "left-right", "left-right-skip"}
        Which transitions are possible: all; to stay or move on to the next state; or also to skip one. "auto" is
        ergodic, for behaviours that come and go, unless ``n_states="auto"`` finds that left-right HMMs explain the
        sequences better: those of a course that each sequence takes once.
    callback : callable, optional
        Called with a `Progress` when a stage is done. To stop, raise an exception in it.
    <random_state>
    <n_jobs>
    <emissions>
    <verbose>
    slopes : bool or "auto"
        Whether how fast values change takes part too: the slopes of channels, of lines fitted to the frames nearby, are
        then further channels. "auto" takes those of channels that change smoothly, if covariances are diagonal. Slopes
        are for Gaussians only, and take no part if HMMs are given.

    Attributes
    ----------
    labels_ : ndarray of shape (n,)
        Cluster of each item; the largest cluster is 0.
    responsibilities_ : ndarray of shape (n, n_clusters)
        Probability of each cluster for each item: what the solutions that were found believe, on average. They are
        calibrated: of items with 80 to 90 %, about as many are assigned correctly on simulated studies.
    centers_ : H3M
        One HMM per cluster, with the clusters' weights.
    hmms_ : H3M
        One HMM per item, with the items' names as ids.
    slopes_ : ndarray of int
        The channels whose slopes took part; empty if none did.
    centers_with_slopes_ : H3M
        The clusters' HMMs with these slopes as further channels, by which `predict` assigns new items. `centers_` and
        `hmms_` describe the values alone: they are marginal distributions.
    n_states_ : int
        States of the clusters' HMMs.
    topology_ : str
        Their topology.
    states_scores_ : dict of int to float
        With ``n_states="auto"``, the evidence for each number of states (log-likelihood less BIC's penalty, higher is
        better); otherwise empty.
    ids_ : list
        Names of the items: of the sequences, or of the groups in the order of their first sequence.
    stages_ : dict of str to ndarray
        Labels after each stage: "hmms", "em" and "final".
    agreement_ : float
        Adjusted Rand index between the first stage and the last: near 1, all stages agree; near 0, the later ones found
        other clusters than the HMMs of single items show. It does not say whether either is right.
    lower_bound_ : float
        What the last stage maximises; of long series, for the part of the frames that was searched.
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

    n_clusters: int = 8
    n_states: int | str = 3
    n_mix: int = 1
    covariance_type: str = "diag"
    topology: str = "auto"
    callback: Callable[[Progress], None] | None = None
    random_state: Any = None
    n_jobs: int | None = None
    emissions: Any = "gaussian"
    verbose: bool | None = None
    slopes: bool | str = "auto"

    responsibilities_: FloatArray = field(init=False)
    centers_: H3M = field(init=False)
    hmms_: H3M = field(init=False)
    slopes_: IntArray = field(init=False)
    centers_with_slopes_: H3M = field(init=False)
    n_states_: int = field(init=False)
    topology_: str = field(init=False)
    states_scores_: dict[int, float] = field(init=False)
    ids_: list[Any] = field(init=False)
    stages_: dict[str, IntArray] = field(init=False)
    agreement_: float = field(init=False)
    lower_bound_: float = field(init=False)
    candidates_: dict[str, float] = field(init=False)

    def fit(
        self,
        X: SequencesLike,
        y: Any = None,
        groups: Iterable[Any] | None = None,
        sample_weight: npt.ArrayLike | None = None,
        hmms: H3M | None = None,
        partition: npt.ArrayLike | None = None,
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
            compares these and, if they have the sizes of the clusters' HMMs, also trains them further in its own ways.
        partition : array of shape (n_items,), optional
            Clusters 0 to `n_clusters` - 1 to start from, in the place of Ward's trees: these alone are trained further,
            and nothing is searched for. HMMs that are given are then kept as they are.

        Returns
        -------
        SequenceClustering
            This estimator, fitted.
        """
        del y
        if isinstance(self.n_states, str) and self.n_states != "auto":
            raise ParameterError("n_states", self.n_states, "must be an integer of at least 1, or 'auto'")
        check_parameters(self, but=("n_states",) if self.n_states == "auto" else ())
        plan, rng = self._plan(), generator(self.random_state)
        sequences = as_sequences(X) if hmms is None else hmms.coded(X)
        batch = Batch.of(sequences, groups, sample_weight, plan.template(sequences) if hmms is None else _like(hmms))
        check_enough("n_clusters", self.n_clusters, len(batch.ids), "item")
        batch = self._with_slopes(batch, sequences, hmms)
        plan, whole = self._sized(plan, batch, hmms, rng), batch
        short = Shortened.of(batch, plan, self.n_clusters)
        batch = short.batch
        models = {} if hmms is None else {"given": quickened(_checked_hmms(hmms, batch), short.pace)}
        if hmms is None or (partition is None and self._are_like(hmms)):
            init: Any = "auto" if hmms is None else H3M.of_models(models["given"])
            models |= self._item_hmms(batch, replace(plan, init=init), rng)
        channels = sequences._remembered
        made = short.learned_from_all(models[_best_known(models)], whole, rng) if hmms is None else hmms.parameters
        made = without_slopes(made, sequences.n_dims)
        self.hmms_ = H3M.of_models(made, ids=batch.ids, channels=channels).with_evidence(*whole.evidence)
        polish = Polish(batch=batch, plan=plan, n_clusters=self.n_clusters, tell=self._tell)
        if partition is None:
            partitions = self._partitions(batch, models, rng)
            if not isinstance(batch.emissions, Gaussian):
                partitions |= self._by_sequences(batch, plan, rng)
        else:
            partitions = {"given": self._checked_partition(partition, len(batch.ids))}
        self._tell("hmms", 0.0)
        candidates = polish.learned(partitions, rng)
        self.candidates_ = {one.name: one.objective for one in candidates}
        if partition is None and self.topology_ == _ANY and isinstance(batch.emissions, Gaussian):
            candidates = self._or_by_rhythm(polish, candidates, deepcopy(rng))
        tried = polish.searched(candidates, rng) if partition is None else candidates
        self._keep(_with_all_frames(polish.decided(tried), short, whole, rng), batch, sequences)
        _warn_of_channels(sequences)
        warn_of_items_without_values(whole.X, whole.frame_offsets, whole.ids)
        return self

    def choose_states(self, X: SequencesLike, groups: Iterable[Any] | None = None) -> int:
        """Return the number of states that ``n_states="auto"`` chooses for these sequences."""
        return self.choose_shape(X, groups).n_states

    def choose_shape(self, X: SequencesLike, groups: Iterable[Any] | None = None) -> ChosenShape:
        """Return the `topology` and the `n_states` that "auto" chooses for these sequences, and the `scores`."""
        plan, sequences = self._plan(), as_sequences(X)
        batch = Batch.of(sequences, groups, None, plan.template(sequences))
        check_enough("n_clusters", self.n_clusters, len(batch.ids), "item")
        batch = with_slopes(batch, self.channels_with_slopes(sequences))
        return self._best_shape(batch, plan, generator(self.random_state))

    def predict(self, X: SequencesLike, groups: Iterable[Any] | None = None) -> IntArray:
        """Return the most probable cluster of each sequence, or of each group of sequences.

        New items are compared with the centres alone. For the items of the fit, `labels_` also know how items vary
        about their centres and what other solutions say, so the two may differ for a few of them.
        """
        return np.asarray(self.predict_proba(X, groups).argmax(axis=1))

    def predict_proba(self, X: SequencesLike, groups: Iterable[Any] | None = None) -> FloatArray:
        """Return the probability of each cluster for each sequence, or for each group of sequences."""
        check_is_fitted(self)
        sequences = self.centers_.coded(X)
        if sequences.n_dims != self.n_features_in_:
            raise InputError(
                "the sequences have {n} channels, but those that were clustered had {m}", "give the same channels",
                n=sequences.n_dims, m=self.n_features_in_,
            )  # fmt: skip
        batch = Batch.of(sequences, groups, None, _like(self.centers_))
        models, weights = self.centers_with_slopes_.parameters, self.centers_.weights
        problem = item_problem(with_slopes(batch, self.slopes_), models, n_threads(self.n_jobs))
        return problem.e_step(Mixtures(models, weights[None])).responsibilities

    def score(self, X: SequencesLike, y: Any = None) -> float:
        """Return the mean log-likelihood of the sequences under the mixture of the centres."""
        del y
        check_is_fitted(self)
        return self.centers_.score(X, self.n_jobs)

    def _plan(self) -> FitPlan:
        sizes = {name: getattr(self, name) for name in ("n_mix", "covariance_type", "emissions")}
        return FitPlan.checked(
            **sizes, topology=_ANY if self.topology == "auto" else self.topology,
            max_iter=100, tol=_TOL, reg_covar=1e-3, startprob_prior=0.1, transmat_prior=0.1, covars_prior=0.1,
            n_threads=n_threads(self.n_jobs),
        )  # fmt: skip

    def _with_slopes(self, batch: Batch, sequences: Sequences, hmms: H3M | None) -> Batch:
        """Return the sequences with the slopes that take part as further channels."""
        if hmms is not None and self.slopes is True:
            raise InputError("slopes=True is for HMMs that are learned here, but {hmms} are given", "leave one out")
        none = np.zeros(0, dtype=np.int64)
        self.slopes_ = self.channels_with_slopes(sequences) if hmms is None else none
        return with_slopes(batch, self.slopes_)

    def channels_with_slopes(self, X: SequencesLike) -> IntArray:
        """Return the channels of these sequences whose slopes take part, by position."""
        if self.slopes not in ("auto", True, False):
            raise ParameterError("slopes", self.slopes, "must be 'auto', True or False")
        sequences = as_sequences(X)
        gaussian = self.emissions == "gaussian" and not sequences.categories
        if self.slopes is True and not gaussian:
            raise ParameterError("slopes", True, "is for Gaussian emissions")
        suits = gaussian and self.covariance_type == "diag" and self.slopes == "auto"
        names = sequences.channels if self.slopes is True else sequences.smooth_channels if suits else []
        return np.array([sequences.channels.index(name) for name in names], dtype=np.int64)

    def _sized(self, plan: FitPlan, batch: Batch, hmms: H3M | None, rng: np.random.Generator) -> FitPlan:
        """Return the plan for the states asked for, or for those of given HMMs, or for those that suit best."""
        self.states_scores_, self.topology_ = {}, plan.shape.topology
        if hmms is not None and self.topology == "auto":
            self.topology_ = topology_of(hmms.startprob, hmms.transmat)
        if isinstance(self.n_states, int | np.integer):
            self.n_states_ = int(self.n_states)
        elif hmms is not None:
            self.n_states_ = int(hmms.n_states.max())
        else:
            self.topology_, self.n_states_, self.states_scores_ = self._best_shape(batch, plan, rng)
        return plan.with_topology(self.topology_).with_states(self.n_states_)

    def _best_shape(self, batch: Batch, plan: FitPlan, rng: np.random.Generator) -> ChosenShape:
        """Return what suits best; what follows is the same as if it had been asked for, so `rng` is not used up."""
        topologies = (_ANY, "left-right") if self.topology == "auto" else (self.topology,)
        return chosen_shape(batch, plan, self.n_clusters, topologies, deepcopy(rng))

    def _are_like(self, hmms: H3M) -> bool:
        """Whether HMMs given by the user can be trained further as this estimator's own."""
        sizes = (hmms.n_states == self.n_states_).all() and hmms.n_mix == self.n_mix == 1
        return bool(sizes and isinstance(hmms.emissions, Gaussian) and hmms.covariance_type == self.covariance_type)

    def _item_hmms(self, batch: Batch, plan: FitPlan, rng: np.random.Generator) -> dict[str, Models]:
        """Return one HMM per item: learned separately and, if the evidence supports it, borrowing in two ways."""
        scale = Scale.of(batch)
        plain = fit_batch(batch, scale, plan, rng)
        found = {"plain": plain.models}
        if (pooled := learned_from(plain, logarithmic=False)) is not None:
            found["pooled"] = refitted(batch, scale, plain, pooled, plan, rng).models
        if (pooled := learned_from(plain)) is not None:
            found["borrowed"] = borrowed(batch, scale, plain, pooled, plan, rng).models
        return found

    def _partitions(self, batch: Batch, models: dict[str, Models], rng: np.random.Generator) -> dict[str, IntArray]:
        """Return the distinct partitions that Ward's trees give."""
        n, tau, threads = len(batch.ids), compared_length(batch, self.topology_), n_threads(self.n_jobs)
        enough = max(self.n_clusters, min(_PER_CLUSTER * self.n_clusters, _MOST_COMPARED))
        most = max(most_comparable(self.topology_, tau, self.n_states_), enough)
        chosen = np.arange(n) if n <= most else np.sort(rng.choice(n, most, replace=False))
        apart = {name: divergences(items.take(chosen), tau, threads) for name, items in models.items()}
        apart["damped"] = np.log1p(apart[_best_known(models)])  # what is far from all decides less about the rest
        found = ward_partitions(apart, self.n_clusters)
        if n == len(chosen):
            return found
        plan = self._plan().with_topology(self.topology_).with_states(self.n_states_)
        return {name: followed(batch, chosen, labels, self.n_clusters, plan, rng) for name, labels in found.items()}

    def _by_sequences(self, batch: Batch, plan: FitPlan, rng: np.random.Generator) -> dict[str, IntArray]:
        """Return the partitions that EM-H3M starts from; an item belongs where most of its sequences do.

        Of Gaussians, likelihoods prefer some that are wrong (centres of several pieces), so these are for others only.
        """
        found = {}
        for name in ("smyth", "kmeans"):
            of_sequences = PARTITIONS[name](batch, self.n_clusters, plan, rng)
            votes = np.zeros((len(batch.ids), self.n_clusters))
            np.add.at(votes, (batch.groups, of_sequences), batch.lengths)
            found[name] = votes.argmax(axis=1).astype(np.int64)
        return found

    def _or_by_rhythm(self, polish: Polish, candidates: list[Candidate], rng: np.random.Generator) -> list[Candidate]:
        """Return the candidates, or else one whose clusters share their states, if it explains the sequences better.

        It is tried where EM hardly keeps the clusters that some HMMs of items show, and then decides alone.
        """
        if min(adjusted_rand_score(one.first, one.after_em) for one in candidates) >= _CONFIRMED:
            return candidates
        labels = by_common_states(polish.batch, self.n_clusters, polish.plan, rng)
        (common,) = polish.learned({"common states": labels}, rng)
        self.candidates_[common.name] = common.objective
        return [common] if all(common.objective > one.objective for one in candidates) else candidates

    def _checked_partition(self, partition: npt.ArrayLike, n_items: int) -> IntArray:
        labels = np.asarray(partition)
        whole = labels.shape == (n_items,) and np.isin(labels, range(self.n_clusters)).all()
        if not whole:
            raise InputError(
                "partition must be {n:cluster number} from 0 to {last}", n=Count(n_items), last=self.n_clusters - 1
            )
        return labels.astype(np.int64)

    def _keep(self, best: Candidate, batch: Batch, sequences: Sequences) -> None:
        models, shares = best.models, best.weights
        order, states = orders(models, shares)
        if self.topology_ == _ANY:
            models = models.reordered(states)
        z = best.responsibilities[:, order]
        made, weights, channels = models.take(order), shares[order] / shares.sum(), sequences._remembered
        self.centers_ = H3M.of_models(without_slopes(made, sequences.n_dims), weights, channels=channels)
        self.centers_with_slopes_ = self.centers_
        if len(self.slopes_):
            named = names_with_slopes(sequences._named, self.slopes_)
            self.centers_with_slopes_ = H3M.of_models(made, weights, channels=named)
        self.responsibilities_, self.labels_ = z, z.argmax(axis=1)
        self.ids_ = list(batch.ids)
        self.stages_ = {"hmms": best.first, "em": best.after_em, "final": self.labels_}
        self.agreement_ = float(adjusted_rand_score(best.first, self.labels_))
        self.lower_bound_ = best.objective
        self.n_features_in_ = sequences.n_dims
        n_empty = self.n_clusters - len(np.unique(self.labels_))
        if n_empty:
            warn(
                FitWarning(
                    "{n} of {clusters} clusters are not the most probable one for any item", "ask for fewer clusters",
                    n=n_empty, clusters=self.n_clusters,
                )
            )  # fmt: skip

    def _tell(self, stage: str, bound: float) -> None:
        if self.callback is not None:
            self.callback(Progress(0, stage, 0, bound, False, 1))


def _warn_of_channels(sequences: Sequences) -> None:
    """Warn about channels that say nothing: without a value, or always the same."""
    warn_of_unseen(sequences.X)
    still = still_channels(sequences.X, np.array([0, len(sequences.X)]), sequences.channels)
    if still:
        warn(FitWarning("values of {still} never change and say nothing about clusters", "leave them out", still=still))


def _with_all_frames(best: Candidate, short: Shortened, whole: Batch, rng: np.random.Generator) -> Candidate:
    """Return the clusters found in a part of the frames with HMMs learned from all frames of their items."""
    if short.step == 1:
        return best
    labels = best.responsibilities.argmax(axis=1)
    parts, own = np.unique(labels, return_inverse=True)
    order = np.argsort(own[whole.groups], kind="stable")
    groups = whole.cut(order, whole.lengths[order], own[whole.groups[order]], list(parts))
    models = best.models.copy()
    models.put(parts, short.learned_from_all(best.models.take(parts), groups, rng))
    return best._replace(models=models)


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


def _best_known(models: dict[str, Models]) -> str:
    """Return the name of the HMMs that are kept: the user's own, or those that borrow strength."""
    return next(name for name in ("given", "borrowed", "plain") if name in models)


def _from_older_file(fit: SequenceClustering, learned: dict[str, Any]) -> dict[str, Any]:
    """Return what files lack that were written when there were no slopes."""
    del fit
    return {"slopes_": np.zeros(0, dtype=np.int64), "centers_with_slopes_": learned["centers_"]}


register_estimator(SequenceClustering, completed=_from_older_file)
