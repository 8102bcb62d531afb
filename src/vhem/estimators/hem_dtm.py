"""HEM-DTM: clusters linear dynamical systems by the sequences they generate, and gives each cluster a new system."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any, Self

import numpy as np
from scipy.special import softmax
from sklearn.utils.validation import check_is_fitted

from vhem._support.arrays import FloatArray, IntArray
from vhem._support.checks import check_choice, check_enough, check_in_range
from vhem._support.errors import InputError, InputTypeError
from vhem._support.randomness import generator
from vhem._support.saving import register_estimator
from vhem.em.dynamic_textures import TextureProblem, Textures, keep, warn_of_run
from vhem.em.estimator import EMClusterer
from vhem.em.loop import Limits, Run
from vhem.em.parameters import check_parameters, documented
from vhem.em.reduce import weighted_choice
from vhem.estimators.dtm import check_same_dimensions, check_start
from vhem.kernels import lds_pairs as kernels
from vhem.kernels.systems import Systems
from vhem.models.lds import LinearDynamicalSystem, MixtureOfLDS


@documented
@dataclass(eq=False, repr=False)
class HEMDynamicTextures(EMClusterer):
    """Reduce a mixture of linear dynamical systems to fewer (hierarchical EM).

    Expected log-likelihoods and statistics between systems are exact and cost time linear in τ; no sequence is drawn.

    Parameters
    ----------
    n_clusters : int
        Number of clusters.
    tau : int
        Length of the virtual sequences.
    n_virtual : float
        Virtual sequences per system, on average; a system of weight ω_i has N_i = n_virtual · K · ω_i.
    noise : {"diag", "isotropic"}
        Noise of the centres' observations.
    init : {"kmeans++", "base"} or MixtureOfLDS
        Inputs far from one another, inputs drawn at random, or a mixture, which is used as it is (its systems may have
        a different number of states, and their order is kept).
    n_init : int
        Restarts; the one with the highest bound is kept.
    <limits>
    stable : bool
        Whether every A is kept stable.
    <random_state>
    <verbose>

    Attributes
    ----------
    centers_ : MixtureOfLDS
        One system per cluster, heaviest first.
    labels_, responsibilities_ : ndarray of shape (K,) and (K, n_clusters)
        Cluster of each input, and z_ij.
    lower_bound_, lower_bounds_ : float, ndarray
        The objective Σ_i log Σ_j ω_j exp(N_i E_ij), at the end and after every E-step. It never falls.
    n_iter_, converged_ : int, bool
        Number of iterations, and whether the bound converged.
    n_empty_, n_held_back_ : int
        Clusters without members, and centres held back by `stable`, at the end.

    Notes
    -----
    E_ij = E_{y ~ i} log p(y_1:τ | j) follows from the joint Gaussian of a base system's state and the prediction that
    the reduced system's Kalman filter makes from its observations. Inputs of weight zero take no part in the fit; they
    are labelled as an input of average weight would be.

    References
    ----------
    A. Mumtaz, E. Coviello, G. Lanckriet, A. B. Chan, "Clustering dynamic textures with the hierarchical EM algorithm
    for modeling video", IEEE Transactions on Pattern Analysis and Machine Intelligence 35, 2013.

    Examples
    --------
    >>> from vhem import HEMDynamicTextures, LinearDynamicalSystem, MixtureOfLDS
    >>> systems = [LinearDynamicalSystem([[a]], [[1.0], [c]], [[1.0]], 0.1) for a in (0.5, 0.6) for c in (1.0, 9.0)]
    >>> fit = HEMDynamicTextures(n_clusters=2, random_state=0).fit(MixtureOfLDS(systems))
    >>> fit.labels_
    array([0, 1, 0, 1])
    """

    n_clusters: int = 8
    tau: int = 10
    n_virtual: float = 100.0
    noise: str = "diag"
    init: str | MixtureOfLDS = "kmeans++"
    n_init: int = 4
    max_iter: int = 200
    tol: float = 1e-4
    stable: bool = True
    random_state: Any = None
    verbose: bool | None = None

    centers_: MixtureOfLDS = field(init=False)

    def fit(self, X: MixtureOfLDS | list[LinearDynamicalSystem], y: Any = None) -> Self:
        """Cluster the systems of `X`."""
        del y
        self._check_parameters()
        mixture = _as_mixture(X)
        used = np.flatnonzero(mixture.weights > 0)
        check_enough("n_clusters", self.n_clusters, len(used), "weighted system")
        if isinstance(self.init, MixtureOfLDS):
            check_same_dimensions(self.init, mixture.n_dims)
        base, counts = mixture.parameters.take(used), self._counts(mixture)[used]
        n_init = 1 if isinstance(self.init, MixtureOfLDS) else self.n_init
        runs = [self._run(base, counts, rng) for rng in generator(self.random_state).spawn(n_init)]
        best = max(runs, key=lambda r: r.bounds[-1])
        self.centers_ = keep(self, best, ordered=not isinstance(self.init, MixtureOfLDS))
        if len(used) < len(mixture):
            self.responsibilities_ = self.predict_proba(mixture)
            self.labels_ = self.responsibilities_.argmax(1)
        warn_of_run(best, type(self).__name__, self.max_iter, self.tol)
        return self

    def transform(self, X: MixtureOfLDS | LinearDynamicalSystem | list[LinearDynamicalSystem]) -> FloatArray:
        """Return E_ij, the expected log-likelihood of sequences of each system of `X` under each centre."""
        check_is_fitted(self)
        return _expected(_as_mixture(X), self.centers_, self.tau)

    def predict_proba(self, X: MixtureOfLDS | LinearDynamicalSystem | list[LinearDynamicalSystem]) -> FloatArray:
        """Return the probability of each cluster for each system of `X`."""
        return np.asarray(softmax(self._logits(_as_mixture(X)), axis=1))

    def predict(self, X: MixtureOfLDS | LinearDynamicalSystem | list[LinearDynamicalSystem]) -> IntArray:
        """Return the most probable cluster of each system of `X`."""
        return np.asarray(self._logits(_as_mixture(X)).argmax(1))

    def score(self, X: MixtureOfLDS | LinearDynamicalSystem | list[LinearDynamicalSystem], y: Any = None) -> float:
        """Return the objective on `X` per virtual sequence: higher is better."""
        del y
        mixture = _as_mixture(X)
        total = np.logaddexp.reduce(self._logits(mixture), axis=1)
        used = mixture.weights > 0
        return float(total[used].sum() / self._counts(mixture)[used].sum())

    def _logits(self, mixture: MixtureOfLDS) -> FloatArray:
        E = self.transform(mixture)
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.centers_.weights) + self._counts(mixture)[:, None] * E)

    def _counts(self, mixture: MixtureOfLDS) -> FloatArray:
        counts = self.n_virtual * len(mixture) * mixture.weights
        return np.where(counts > 0, counts, float(self.n_virtual))

    def _check_parameters(self) -> None:
        check_parameters(self)
        if isinstance(self.init, MixtureOfLDS):
            check_start(self.init, "n_clusters", self.n_clusters, self.stable)
        else:
            check_choice("init", self.init, ("kmeans++", "base"))

    def _run(self, base: Systems, counts: FloatArray, rng: np.random.Generator) -> Run:
        def e_step(systems: Systems, weights: FloatArray) -> Any:
            return kernels.e_step(base, systems, weights, counts, self.tau)

        problem = TextureProblem(
            sums_of=e_step, n_frames=float(counts.sum()) * self.tau, floor=0.0, isotropic=self.noise == "isotropic",
            stable=self.stable,
        )  # fmt: skip
        limits = Limits(max_iter=self.max_iter, tol=self.tol)
        if isinstance(self.init, MixtureOfLDS):
            return problem.learn(Textures(self.init.parameters, self.init.weights), limits)
        choose = self._spread_out if self.init == "kmeans++" else self._at_random
        start = _shrunk(base.take(choose(base, counts, rng)), self.stable)
        return problem.learn(Textures(start, np.full(self.n_clusters, 1 / self.n_clusters)), limits)

    def _at_random(self, base: Systems, counts: FloatArray, rng: np.random.Generator) -> IntArray:
        del base
        return rng.choice(len(counts), self.n_clusters, replace=False, p=counts / counts.sum())

    def _spread_out(self, base: Systems, counts: FloatArray, rng: np.random.Generator) -> IntArray:
        """k-means++ by the divergence E_ii - E_ij."""
        expected = partial(kernels.expected_log_likelihood, tau=self.tau)
        own = np.array([expected(one, one)[0, 0] for one in map(base.take, _singles(len(counts)))])
        chosen = [weighted_choice(counts, rng, [])]
        distance = np.full(len(counts), np.inf)
        while len(chosen) < self.n_clusters:
            E = expected(base, base.take(slice(chosen[-1], chosen[-1] + 1)))[:, 0]
            distance = np.minimum(distance, np.maximum(own - E, 0.0))
            distance[chosen] = 0.0
            chosen.append(weighted_choice(counts * distance, rng, chosen))
        return np.array(chosen)


def _singles(n: int) -> list[slice]:
    return [slice(i, i + 1) for i in range(n)]


def _shrunk(systems: Systems, stable: bool) -> Systems:
    """Return systems to start from: stable ones, if that is asked for."""
    radius = np.abs(np.linalg.eigvals(systems.A)).max(axis=1)
    scale = np.where(stable & (radius >= 1), 0.99 / np.maximum(radius, 1e-300), 1.0)
    return systems._replace(A=systems.A * scale[:, None, None])


def _as_mixture(X: Any) -> MixtureOfLDS:
    if isinstance(X, MixtureOfLDS):
        return X
    if isinstance(X, LinearDynamicalSystem):
        return MixtureOfLDS([X])
    if isinstance(X, (list, tuple)) and X and all(isinstance(part, LinearDynamicalSystem) for part in X):
        return MixtureOfLDS(X)
    raise InputTypeError(
        "{X} must be a MixtureOfLDS or a list of LinearDynamicalSystem, got {kind}",
        "Turn sequences into systems first, for example with DynamicTextureMixture",
        kind=type(X).__name__,
    )


def _expected(base: MixtureOfLDS, reduced: MixtureOfLDS, tau: int) -> FloatArray:
    if base.n_dims != reduced.n_dims:
        raise InputError("the systems differ in dimension: {a} and {b}", a=base.n_dims, b=reduced.n_dims)
    with np.errstate(over="ignore", invalid="ignore"):
        E = kernels.expected_log_likelihood(base.parameters, reduced.parameters, tau)
    check_in_range("an expected log-likelihood", E)
    return E


register_estimator(HEMDynamicTextures)
