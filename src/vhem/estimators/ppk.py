"""SC-PPK: spectral clustering of HMMs by the probability product kernel, and by two other affinities."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from vhem._support.arrays import FloatArray, IntArray
from vhem._support.checks import check_choice, check_enough, check_in_range, check_integer, check_real
from vhem._support.errors import InputError
from vhem._support.randomness import generator
from vhem._support.saving import register_estimator
from vhem.em.estimator import Clusterer
from vhem.em.parameters import check_parameters, documented
from vhem.em.spectral import spectral_embedding, temperature
from vhem.estimators.divergence import check_dimensions, divergence, expected_log_likelihood
from vhem.estimators.vhem import VHEM
from vhem.estimators.wasserstein import aggregated_wasserstein
from vhem.kernels import overlap as kernels
from vhem.kernels.engine import n_threads
from vhem.models import H3M, HMM
from vhem.models.checks import check_h3m

_LARGEST_LOG = 709.0  # its exponential is still a double


@documented
def ppk(
    a: H3M | HMM | list[HMM],
    b: H3M | HMM | list[HMM],
    length: int,
    rho: float = 0.5,
    *,
    log: bool = False,
    n_jobs: int | None = None,
) -> FloatArray:
    """Probability product kernel between HMMs.

    k(a, b) = Σ_{x,x'} ∫ p_a(x, y)^ρ p_b(x', y)^ρ dy over sequences y of `length` frames and state paths x, x', by

        F_1 = (π π'ᵀ)^ρ ∘ κ        F_{t+1} = [ (A^ρ)ᵀ F_t A'^ρ ] ∘ κ        k = Σ F_T

    with κ(s,s') = Σ_mm' (c_sm c'_s'm')^ρ ∫ N_sm(y)^ρ N'_s'm'(y)^ρ dy between the Gaussians of two states.

    Parameters
    ----------
    a, b : H3M, HMM or list of HMM
        The models; they may differ in the numbers of states and of Gaussians per state.
    length : int
        Length T of the sequences.
    rho : float
        The power; ½ is Bhattacharyya's kernel, 1 the expected likelihood kernel.
    log : bool
        Whether to return log k. The kernel falls exponentially with the length and the number of dimensions and becomes
        zero below 1e-308; its logarithm is always exact.
    <n_jobs>

    Returns
    -------
    ndarray of shape (K_a, K_b)
        k, or log k.

    Notes
    -----
    For models of one state with one Gaussian each, this is ∫ p_a^ρ p_b^ρ. With hidden states it is an upper bound of
    that for ρ < 1 and equal to it for ρ = 1, and k(a, a) is not 1. Normalise: k(a,b) / √(k(a,a) k(b,b)).

    References
    ----------
    T. Jebara, R. Kondor, A. Howard, "Probability product kernels", Journal of Machine Learning Research 5, 2004.

    Examples
    --------
    >>> import vhem
    >>> low = vhem.HMM([1.0], [[1.0]], [[0.0]], [[1.0]])
    >>> high = vhem.HMM([1.0], [[1.0]], [[2.0]], [[1.0]])
    >>> vhem.ppk([low, high], [low, high], length=2).round(4)
    array([[1.    , 0.3679],
           [0.3679, 1.    ]])
    """
    first = check_h3m("a", a)
    second = first if b is a else check_h3m("b", b)
    length, rho = check_integer("length", length, 1), check_real("rho", rho, 0.0, open_interval=True)
    check_dimensions("a", first, "b", second)
    p, q = first.parameters, second.parameters
    both = (p.components, q.components)
    p, q = (models.with_components(models.components.matched(both)) for models in (p, q))
    with np.errstate(over="ignore", invalid="ignore"):  # the result is checked
        kernel = kernels.log_ppk(p, p if second is first else q, length, rho, n_threads(n_jobs))
    check_in_range("a kernel between two HMMs", kernel)
    return kernel if log else _exponential(kernel)


def _exponential(log_kernel: FloatArray) -> FloatArray:
    if log_kernel.max() > _LARGEST_LOG:
        raise InputError(
            "the largest kernel is exp({largest:.6g}), beyond double precision, because densities are high",
            "get its logarithm with {log:True}", "use {rho:0.5}", largest=log_kernel.max(),
        )  # fmt: skip
    with np.errstate(under="ignore"):
        return np.asarray(np.exp(log_kernel))


@documented
@dataclass(eq=False, repr=False)
class PPKClustering(Clusterer):
    """Cluster HMMs by spectral clustering of their pairwise affinities (SC-PPK).

    Affinities are computed between all pairs of inputs, the inputs are embedded by the leading eigenvectors of the
    normalised affinity matrix, and k-means finds the clusters there (Ng, Jordan and Weiss). Time and memory grow with
    the square of the number of HMMs.

    Parameters
    ----------
    n_clusters : int
        Number of clusters.
    length : int
        Length T of the sequences in the kernel or divergence.
    rho : float
        Power of the kernel.
    temperature : float, optional
        The number that log-affinities are divided by. None: `length` for "ppk", so that affinities are those of an
        average frame; for the others the median dissimilarity of two inputs.
    affinity : {"ppk", "divergence", "wasserstein"}
        "ppk": log k_ij - ½ log k_ii - ½ log k_jj. "divergence": -½ (D_ij + D_ji), with :func:`vhem.divergence` on
        sequences of `length`. "wasserstein": -d_ij², with :func:`vhem.aggregated_wasserstein`.
    centers : {"inputs", "novel"}
        "inputs": the centre of a cluster is the input nearest to its k-means centre. "novel": it is a new HMM, made by
        `VHEM` with one cluster from the members (the hybrid of the two methods).
    n_init : int
        Restarts of k-means.
    <random_state>
    <n_jobs>
    <verbose>

    Attributes
    ----------
    labels_ : ndarray of shape (K,)
        Cluster of each input; the cluster with the greatest weight comes first.
    affinity_ : ndarray of shape (K, K)
        exp(log-affinity / temperature), with ones on the diagonal.
    temperature_ : float
        The temperature used.
    embedding_ : ndarray of shape (K, n_clusters)
        The inputs as k-means saw them: rows of the eigenvectors, scaled to length one.
    center_indices_ : ndarray of shape (n_clusters,)
        For each cluster, the input nearest to its k-means centre.
    centers_ : H3M
        The centres, weighted by the inputs in their clusters.

    Notes
    -----
    New HMMs cannot be placed in the embedding: `predict` labels them by the centre under which their sequences are
    likeliest, which need not be the cluster that a new fit would put them in.

    References
    ----------
    T. Jebara, Y. Song, K. Thadani, "Spectral clustering and embedding with hidden Markov models", ECML 2007.
    A. Ng, M. Jordan, Y. Weiss, "On spectral clustering: analysis and an algorithm", NIPS 2001.

    Examples
    --------
    >>> import vhem
    >>> hmms = [vhem.HMM([1.0], [[1.0]], [[x]], [[1.0]]) for x in (0.0, 0.3, 9.0, 0.1, 9.2)]
    >>> fit = vhem.PPKClustering(n_clusters=2, length=5, random_state=0).fit(hmms)
    >>> fit.labels_
    array([0, 0, 1, 0, 1])
    >>> fit.centers_.weights
    array([0.6, 0.4])
    """

    n_clusters: int = 8
    length: int = 10
    rho: float = 0.5
    temperature: float | None = None
    affinity: str = "ppk"
    centers: str = "inputs"
    n_init: int = 10
    random_state: Any = None
    n_jobs: int | None = None
    verbose: bool | None = None

    affinity_: FloatArray = field(init=False)
    temperature_: float = field(init=False)
    embedding_: FloatArray = field(init=False)
    center_indices_: IntArray = field(init=False)
    centers_: H3M = field(init=False)

    def fit(self, X: H3M | list[HMM], y: Any = None) -> Self:
        """Cluster the HMMs of `X`."""
        del y
        self._check_parameters()
        h3m = check_h3m("X", X)
        check_enough("n_clusters", self.n_clusters, len(h3m), "HMM")
        rng = generator(self.random_state)
        log_affinity = self._log_affinity(h3m)
        self.temperature_ = self._temperature(log_affinity)
        self.affinity_ = np.exp(log_affinity / self.temperature_)
        self.embedding_ = spectral_embedding(self.affinity_, self.n_clusters)
        self._assign(h3m, rng)
        self.centers_ = self._make_centers(h3m, rng)
        return self

    def predict(self, X: H3M | HMM | list[HMM]) -> IntArray:
        """Return, for each HMM of `X`, the cluster under whose centre its sequences are likeliest."""
        check_is_fitted(self)
        J = expected_log_likelihood(check_h3m("X", X), self.centers_, self.length, n_jobs=self.n_jobs)
        return np.asarray(J.argmax(1))

    def _check_parameters(self) -> None:
        check_parameters(self)
        check_choice("affinity", self.affinity, ("ppk", "divergence", "wasserstein"))
        check_choice("centers", self.centers, ("inputs", "novel"))

    def _log_affinity(self, h3m: H3M) -> FloatArray:
        if self.affinity == "ppk":
            kernel = ppk(h3m, h3m, self.length, self.rho, log=True, n_jobs=self.n_jobs)
            own = np.diagonal(kernel)
            found = kernel - 0.5 * (own[:, None] + own)
        elif self.affinity == "divergence":
            one_way = divergence(h3m, h3m, self.length, n_jobs=self.n_jobs)
            found = -0.5 * (one_way + one_way.T)
        else:
            found = -(aggregated_wasserstein(h3m, h3m, length=self.length) ** 2)
        np.fill_diagonal(found, 0.0)
        return np.minimum(found, 0.0)  # rounding, or the slack of the divergence's bound

    def _temperature(self, log_affinity: FloatArray) -> float:
        if self.temperature is not None:
            return float(self.temperature)
        if self.affinity == "ppk":
            return float(self.length)
        return temperature(-log_affinity)

    def _assign(self, h3m: H3M, rng: np.random.Generator) -> None:
        """k-means on the embedding; the heaviest cluster becomes the first."""
        from sklearn.cluster import KMeans  # noqa: PLC0415  (slow to import)

        seed = int(rng.integers(2**31))
        means = KMeans(self.n_clusters, n_init=self.n_init, random_state=seed).fit(self.embedding_)
        weights = np.bincount(means.labels_, h3m.weights, minlength=self.n_clusters)
        order = np.lexsort([_first_members(means.labels_, self.n_clusters), -np.round(weights, 12)])
        self.labels_ = np.argsort(order)[means.labels_]
        distance = ((self.embedding_[:, None] - means.cluster_centers_[order]) ** 2).sum(-1)
        distance[self.labels_[:, None] != np.arange(self.n_clusters)] += 4.0  # members before others
        self.center_indices_ = distance.argmin(0)

    def _make_centers(self, h3m: H3M, rng: np.random.Generator) -> H3M:
        weights = np.bincount(self.labels_, h3m.weights, minlength=self.n_clusters)
        chosen = [self._center(h3m, j, rng) for j in range(self.n_clusters)]
        return H3M(chosen, weights=weights, ids=[h3m.ids[i] for i in self.center_indices_])

    def _center(self, h3m: H3M, j: int, rng: np.random.Generator) -> HMM:
        members = np.flatnonzero(self.labels_ == j)
        if self.centers == "inputs" or len(members) < 2:
            return h3m[int(self.center_indices_[j])]
        fit = VHEM(1, tau=self.length, random_state=rng.spawn(1)[0], n_jobs=self.n_jobs).fit(h3m[members])
        return fit.centers_[0]


def _first_members(labels: IntArray, n_clusters: int) -> IntArray:
    """Return the first input of each cluster, by which ties of weight are broken."""
    return np.array([np.argmax(labels == j) if (labels == j).any() else len(labels) for j in range(n_clusters)])


register_estimator(PPKClustering)
