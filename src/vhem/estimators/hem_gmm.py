"""HEM for Gaussian mixtures as an estimator: VHEM on HMMs of one state and sequences of one frame."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from vhem._support.arrays import FloatArray, IntArray
from vhem._support.checks import check_enough, check_integer
from vhem._support.errors import InputTypeError
from vhem._support.saving import register_estimator
from vhem.em.estimator import EMClusterer
from vhem.em.parameters import documented
from vhem.estimators.vhem import VHEM
from vhem.models import GMM, H3M

MixtureLike = Any  #: GMM, a fitted scikit-learn GaussianMixture, or a list of such


@documented
@dataclass(eq=False, repr=False)
class HEMGaussianMixture(EMClusterer):
    """Reduce a Gaussian mixture to fewer components (hierarchical EM).

    Virtual points from each component of the given mixture are explained by a smaller one; no point is ever drawn. The
    result is a mixture again, so hierarchies are made by reducing the result.

    Parameters
    ----------
    n_components : int
        Components of the reduced mixture.
    covariance_type : {"diag", "full"}, optional
        Form of the reduced mixture's covariances. None: that of the given one.
    n_virtual : float
        Virtual points per component, on average. The more, the harder the assignments.
    weight_form : {"models", "virtual"}
        "models", the paper's: a component's weight is the share of given components assigned to it, ω_j = mean_i z_ij.
        "virtual": the share of their weight, ω_j ∝ Σ_i N_i z_ij, so that the reduced density follows the given one.
    init : {"auto", "kmeans++", "emissions", "base"} or GMM
        Where to start, as in :class:`vhem.VHEM`; a GMM is used as it is.
    n_init, max_iter, tol, reg_covar, random_state, n_jobs
        As in :class:`vhem.VHEM`.
    <verbose>

    Attributes
    ----------
    mixture_ : GMM
        The reduced mixture, heaviest component first.
    labels_, responsibilities_ : ndarray of shape (K,) and (K, n_components)
        Component that each given component was assigned to, and z_ij.
    lower_bound_, lower_bounds_ : float, ndarray
        The objective Σ_i log Σ_j ω_j exp(N_i g_ij), at the end and after every E-step. It never falls.
    n_iter_, converged_ : int, bool
        Number of iterations, and whether the bound converged.

    Notes
    -----
    z_ij = softmax_j(log ω_j + N_i g_ij) with the expected log-density g_ij = E_{y ~ i} log N(y; μ_j, Σ_j) and N_i =
    n_virtual · K · ω_i. Mean and covariance of component j are those of all given components together, weighted by
    z_ij ω_i.

    References
    ----------
    N. Vasconcelos, A. Lippman, "Learning mixture hierarchies", NIPS 1998.

    Examples
    --------
    >>> from vhem import GMM, HEMGaussianMixture
    >>> fine = GMM([0.25] * 4, means=[[0.0], [1.0], [9.0], [10.0]], covars=[[1.0]] * 4)
    >>> fit = HEMGaussianMixture(n_components=2, random_state=0).fit(fine)
    >>> fit.labels_
    array([0, 0, 1, 1])
    >>> fit.mixture_.means.ravel().round(3), fit.mixture_.covars.ravel().round(3)
    (array([0.5, 9.5]), array([1.25, 1.25]))
    >>> HEMGaussianMixture(n_components=1).fit(fit.mixture_).mixture_.means.round(3)
    array([[5.]])
    """

    n_components: int = 8
    covariance_type: str | None = None
    n_virtual: float = 100.0
    weight_form: str = "models"
    init: str | GMM = "auto"
    n_init: int = 4
    max_iter: int = 100
    tol: float = 1e-5
    reg_covar: float = 0.0
    random_state: Any = None
    n_jobs: int | None = None
    verbose: bool | None = None

    mixture_: GMM = field(init=False)

    def fit(self, X: MixtureLike, y: Any = None) -> Self:
        """Reduce `X`: a GMM, a fitted scikit-learn GaussianMixture, or a list of them, pooled with equal weights."""
        del y
        check_integer("n_components", self.n_components, 1)
        shared = ("covariance_type", "n_virtual", "weight_form", "n_init", "max_iter", "tol", "reg_covar")
        settings = {name: getattr(self, name) for name in (*shared, "random_state", "n_jobs")}
        init = _as_h3m(self.init) if isinstance(self.init, GMM) else self.init
        inputs = _as_h3m(X)
        if isinstance(init, str):
            check_enough("n_components", self.n_components, len(inputs), "component")
        fit = VHEM(self.n_components, n_states=1, n_mix=1, tau=1, init=init, **settings).fit(inputs)
        centers = fit.centers_
        self.mixture_ = GMM(centers.weights, centers.means[:, 0, 0], centers.covars[:, 0, 0])
        for name in ("labels_", "responsibilities_", "lower_bound_", "lower_bounds_", "n_iter_", "converged_"):
            setattr(self, name, getattr(fit, name))
        self._reduction = fit
        return self

    def predict_proba(self, X: MixtureLike) -> FloatArray:
        """Return the probability of each reduced component for each component of the mixture `X`."""
        check_is_fitted(self)
        return self._reduction.predict_proba(_as_h3m(X))

    def predict(self, X: MixtureLike) -> IntArray:
        """Return the reduced component for each component of the mixture `X`; points go to `mixture_.predict`."""
        return np.asarray(self.predict_proba(X).argmax(1))

    def score(self, X: MixtureLike, y: Any = None) -> float:
        """Return the objective on the mixture `X` per virtual point: higher is better."""
        check_is_fitted(self)
        return self._reduction.score(_as_h3m(X), y)


def _as_h3m(X: MixtureLike) -> H3M:
    """Return the components of one or several mixtures as HMMs of one state."""
    if isinstance(X, (list, tuple)) and X:
        return H3M.pool([_as_h3m(part) for part in X], weights=np.ones(len(X)))
    mixture = _as_gmm(X)
    return H3M.of_models(mixture.components, mixture.weights)


def _as_gmm(X: MixtureLike) -> GMM:
    if isinstance(X, GMM):
        return X
    if hasattr(X, "covariance_type") and hasattr(X, "get_params"):
        check_is_fitted(X)
        return GMM.from_sklearn(X)
    raise InputTypeError(
        "{X} must be a GMM, a fitted scikit-learn GaussianMixture or a list of them, got {kind}",
        "Fit a mixture to points first",
        kind=type(X).__name__,
    )


register_estimator(HEMGaussianMixture)
