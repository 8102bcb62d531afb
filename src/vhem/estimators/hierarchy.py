"""Hierarchies of HMMs: VHEM on the inputs, then on the centres, up to the top."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Self

import numpy as np
from scipy.special import logsumexp
from sklearn.utils.validation import check_is_fitted

from vhem._support.arrays import FloatArray, IntArray
from vhem._support.checks import check_choice, check_enough, check_integer, check_integers
from vhem._support.errors import ParameterError, warn
from vhem._support.randomness import generator
from vhem._support.saving import register_estimator
from vhem.em.estimator import Estimator
from vhem.em.progress import Progress
from vhem.em.ward import MOST_COMPARED, divergences, merged_by_ward
from vhem.estimators.cluster_tree import SearchResult, Tree
from vhem.estimators.divergence import expected_log_likelihood
from vhem.estimators.vhem import VHEM, typical_tau
from vhem.kernels.engine import n_threads
from vhem.kernels.models import Models
from vhem.models import H3M, HMM
from vhem.models.checks import check_h3m
from vhem.sequences import SequencesLike

_RANDOM_STARTS = ("emissions", "kmeans++")  # of further trees


@dataclass(eq=False, repr=False)
class HierarchicalVHEM(Estimator):
    """Cluster HMMs level by level: fewer and fewer centres, each summarising those below it.

    Parameters
    ----------
    levels : sequence of int
        Numbers of clusters, from the level above the inputs to the top; strictly decreasing.
    variant : {"centres", "inputs"}
        "centres", the paper's: each level clusters the centres of the level below, which keep their weights. "inputs":
        each level starts in the same way and is then fitted to all inputs again; its clusters need not be unions of the
        clusters below. Comparing the two shows how much of the inputs a level's centres retain.
    n_trees : int
        Number of trees to build; the one whose top represents the inputs best is kept. A level's own bound only says
        how well it represents the level below; the losses of all levels add up at the top. The first tree starts from
        Ward's tree of the inputs, whose merges go on from level to level; further ones start at random.
    n_states, n_mix, covariance_type, tau, n_virtual, init, n_init, max_iter, tol, reg_covar, weight_form, callback,
    verbose, n_jobs
        As in :class:`VHEM`, for every level.
    random_state : int, numpy Generator, RandomState or None
        Seed; each level draws its own from it.

    Attributes
    ----------
    levels_ : list of H3M
        The centres of each level.
    labels_ : list of ndarray
        The cluster of each input, one array per level. In the variant "centres" they are compositions of `parents_`.
    parents_ : list of ndarray
        `parents_[0]` is the first level's cluster of each input, `parents_[l]` the cluster in level l + 1 of each
        centre of level l.
    fits_ : list of VHEM
        The fitted estimators, one per level.
    tree_scores_ : ndarray of shape (n_trees, n_levels)
        For every tree and level: log Σ_j ω_j exp J_ij, averaged over the inputs, per virtual frame.
    tree_ : Tree
        The hierarchy, to walk, cut, export and search.

    Examples
    --------
    >>> import vhem
    >>> from vhem.datasets import simulated_study
    >>> study = simulated_study()
    >>> fit = vhem.HierarchicalVHEM(levels=(6, 3), random_state=0).fit(study.hmms)
    >>> fit.tree_
    Tree(40 → 6 → 3)
    >>> len(set(fit.labels_[1]))
    3
    """

    levels: tuple[int, ...] = (8, 4, 2)
    variant: str = "centres"
    n_trees: int = 1
    n_states: int | None = None
    n_mix: int | None = None
    covariance_type: str | None = None
    tau: int | str = "auto"
    n_virtual: float | str = "auto"
    init: str = "auto"
    n_init: int | None = None
    max_iter: int = 100
    tol: float = 1e-5
    reg_covar: float | None = None
    weight_form: str = "models"
    callback: Callable[[Progress], None] | None = None
    verbose: bool | None = None
    random_state: Any = None
    n_jobs: int | None = None

    levels_: list[H3M] = field(init=False)
    labels_: list[IntArray] = field(init=False)
    parents_: list[IntArray] = field(init=False)
    fits_: list[VHEM] = field(init=False)
    tree_scores_: FloatArray = field(init=False)
    tree_: Tree = field(init=False)

    def fit(self, X: H3M | list[HMM], y: Any = None) -> Self:
        """Build the hierarchy over the HMMs of `X`; `y` is ignored."""
        del y
        inputs = check_h3m("X", X)
        sizes = self._check_levels()
        check_enough("levels", sizes[0], len(inputs), "HMM")
        rng = generator(self.random_state)
        trees, said = [], []
        for number in range(check_integer("n_trees", self.n_trees, 1)):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                trees.append(self._grow(inputs, sizes, rng, number))
            said.append({str(warning.message): warning.message for warning in caught})
        tau = trees[0][0][0].tau_
        self.tree_scores_ = np.array([[self._fitness(inputs, fit.centers_, tau) for fit in fits] for fits, _ in trees])
        best = int(np.argmax(self.tree_scores_[:, -1]))
        self.fits_, self.parents_ = trees[best]
        for message in said[best].values():  # warnings about trees that are not kept do not matter
            warn(message)
        self.levels_ = [fit.centers_ for fit in self.fits_]
        self.tree_ = Tree(inputs, self.levels_, self.parents_, tau)
        nested = self.variant == "centres"
        self.labels_ = [self.tree_.labels(k + 1) if nested else fit.labels_ for k, fit in enumerate(self.fits_)]
        return self

    def _grow(
        self, inputs: H3M, sizes: list[int], rng: np.random.Generator, number: int
    ) -> tuple[list[VHEM], list[IntArray]]:
        """Return the fitted levels of one tree, and the index of each HMM's cluster in the level above it."""
        # Ward's start is the same every time: only one tree can come of it, and the others start at random.
        other = self.init == "auto" and self.n_init is None and number > 0
        init = _RANDOM_STARTS[number % 2] if other else self.init
        fits: list[VHEM] = []
        parents: list[IntArray] = []
        below, labels = inputs, np.arange(len(inputs))
        goes_on = init == "auto" and self.n_init is None and len(inputs) <= MOST_COMPARED
        for size in sizes:
            tau = fits[0].tau_ if fits else self.tau
            start = self._merged(inputs, below, labels, size, rng) if goes_on and fits else init
            fit = self._vhem(size, init=start, tau=tau, random_state=rng).fit(below)
            parents.append(fit.labels_)
            if self.variant == "inputs" and below is not inputs:
                fit = self._vhem(size, init=fit.centers_, tau=tau).fit(inputs)
                parents[-1] = fit.predict(below)
            fits.append(fit)
            below, labels = fit.centers_, parents[-1][labels]
        return fits, parents

    def _merged(self, inputs: H3M, below: H3M, labels: IntArray, size: int, rng: np.random.Generator) -> H3M | str:
        """Return centres for the clusters that Ward's rule makes of those below, or "auto" if one of these is empty."""
        if len(np.unique(labels)) < len(below):
            return "auto"
        tau = typical_tau(inputs) if self.tau == "auto" else int(self.tau)
        groups = merged_by_ward(divergences(inputs.parameters, tau, n_threads(self.n_jobs)), labels, size)
        weights = np.bincount(groups, below.weights, size)
        quietly = {"tau": tau, "callback": None, "verbose": False, "random_state": rng}
        order = np.argsort(-weights, kind="stable")
        made = [self._vhem(1, **quietly).fit(below[groups == k]).centers_ for k in order]
        return H3M.of_models(Models.joined([one.parameters for one in made]), weights[order], channels=inputs._channels)

    def _fitness(self, inputs: H3M, centers: H3M, tau: int) -> float:
        """Return how well a level represents the inputs: log Σ_j ω_j exp J_ij, on average, per virtual frame."""
        J = expected_log_likelihood(inputs, centers, tau, n_jobs=self.n_jobs)
        with np.errstate(divide="ignore"):
            log_weights = np.log(centers.weights)
        return float(inputs.weights @ logsumexp(log_weights + J, axis=1) / tau)

    def search(
        self, query: SequencesLike | HMM | H3M, k: int = 1, beam_width: int = 4, n_jobs: int | None = None
    ) -> SearchResult:
        """Find the inputs that fit sequences or HMMs best by descending the tree; see :meth:`Tree.search`."""
        check_is_fitted(self)
        return self.tree_.search(query, k, beam_width, n_jobs)

    def _check_levels(self) -> list[int]:
        check_choice("variant", self.variant, ("centres", "inputs"))
        try:
            sizes = check_integers("levels", tuple(self.levels), 1)
        except TypeError:
            raise ParameterError("levels", self.levels, "must be a sequence of integers, such as (8, 4, 2)") from None
        if not sizes or any(a <= b for a, b in pairwise(sizes)):
            raise ParameterError("levels", self.levels, "must name at least one level and strictly decrease")
        return sizes

    def _vhem(self, n_clusters: int, **changes: Any) -> VHEM:
        own = ("levels", "variant", "n_trees")
        shared = {name: value for name, value in self.get_params().items() if name not in own}
        return VHEM(n_clusters, **{**shared, **changes})


register_estimator(HierarchicalVHEM)
