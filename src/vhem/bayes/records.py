"""Posteriors and hyperparameters in the form that the literature and EMHMM's files have."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from vhem._support.arrays import FloatArray
from vhem._support.errors import InputError, ParameterError


@dataclass(frozen=True, kw_only=True)
class Hyperparameters:
    """The priors of an HMM with Gaussian states, or of clusters of such HMMs.

    Attributes
    ----------
    alpha0 : float
        Pseudo-counts of every start probability, Dir(α0, …); of clusters, those of every cluster's weight.
    epsilon0 : float
        Pseudo-counts of every transition.
    beta0 : float, optional
        How many frames the prior mean of a state is worth. Of clusters, this is `lambda0`.
    v0 : float
        Degrees of freedom of the Wishart prior of the precisions; more than d - 1 (0 for diagonal covariances).
    W0 : float or array of shape (d,)
        Scale of that prior: one number for all dimensions, or one each. The mean precision is v0 · W0.
    m0 : array of shape (d,)
        Prior mean.
    eta0, lambda0 : float, optional
        Of clusters only: pseudo-counts of every start probability, and β0.

    Examples
    --------
    >>> from vhem.bayes import Hyperparameters
    >>> Hyperparameters(alpha0=0.1, epsilon0=0.1, beta0=1.0, v0=5.0, W0=0.005, m0=[256.0, 192.0]).v0
    5.0
    """

    alpha0: float
    epsilon0: float
    v0: float
    W0: float | npt.ArrayLike
    m0: npt.ArrayLike
    beta0: float | None = None
    eta0: float | None = None
    lambda0: float | None = None

    def __post_init__(self) -> None:
        for name in ("alpha0", "epsilon0", "v0", "beta0", "eta0", "lambda0"):
            value = getattr(self, name)
            if value is not None and not (np.ndim(value) == 0 and np.isfinite(value) and value > 0):
                raise ParameterError(name, value, "must be a positive number")
        W0, m0 = np.asarray(self.W0, np.float64), np.atleast_1d(np.asarray(self.m0, np.float64))
        if not (np.isfinite(W0) & (W0 > 0)).all() or (W0.ndim and W0.shape not in ((1,), m0.shape)):
            raise ParameterError(
                "W0", self.W0, "must be one positive number, or one for each of {n} dimensions", n=len(m0)
            )
        if not np.isfinite(m0).all() or m0.ndim != 1:
            raise ParameterError("m0", self.m0, "must be one finite number for each dimension")


@dataclass(frozen=True, kw_only=True)
class Posterior:
    """The posterior of an HMM with S Gaussian states, or of K clusters of such HMMs.

    Attributes
    ----------
    alpha : array of shape (S,), (groups, S) or (K,)
        Dirichlet parameters of the start probabilities; of clusters, those of their weights.
    epsilon : array of shape (S, S), (groups, S, S) or (K, S, S)
        Dirichlet parameters of the transitions, row by row.
    beta, v : arrays of shape (S,), or (K, S)
        μ | Λ ~ N(m, (β Λ)⁻¹), Λ ~ Wishart(W, v). Of clusters, β is called `lambda_`.
    m : array of shape (S, d), or (K, S, d)
        Means.
    W : array of shape (S, d, d), or (K, S, d, d)
        Scale matrices; without the last axis, covariances are diagonal.
    eta, lambda_ : arrays of shape (K, S), optional
        Of clusters only: Dirichlet parameters of the start probabilities, and β.

    Examples
    --------
    >>> from vhem.bayes import Posterior
    >>> one = Posterior(alpha=[2.0], epsilon=[[5.0]], beta=[6.0], v=[8.0], m=[[0.5]], W=[[[0.2]]])
    >>> one.m.shape
    (1, 1)
    """

    alpha: FloatArray
    epsilon: FloatArray
    v: FloatArray
    m: FloatArray
    W: FloatArray
    beta: FloatArray | None = None
    eta: FloatArray | None = None
    lambda_: FloatArray | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None:
                array = np.ascontiguousarray(value, np.float64)
                if not np.isfinite(array).all():
                    raise InputError("{field} of the posterior has values that are not finite", field=field.name)
                object.__setattr__(self, field.name, array)
        if self.beta is None and (self.eta is None or self.lambda_ is None):
            raise InputError("a posterior needs beta (of one HMM), or eta and lambda_ (of clusters)")
