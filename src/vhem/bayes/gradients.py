"""How the bound changes with the hyperparameters, the posterior held fixed: exact at a maximum over posteriors."""

from __future__ import annotations

import numpy as np
from scipy.special import digamma

from vhem._support.arrays import FloatArray
from vhem._support.errors import InputError
from vhem.bayes.records import Hyperparameters, Posterior
from vhem.emissions.dirichlet import expected_logs
from vhem.emissions.normal_wishart import NormalWishart


def bound_gradient(posterior: Posterior, hyperparameters: Hyperparameters) -> dict[str, FloatArray]:
    """Return the derivatives of a VB-HMM's lower bound by its hyperparameters.

    They are partial derivatives, with the posterior held fixed. Where the bound has converged, they are also the
    derivatives of the bound at its maximum: ``fit_hmms(..., hyperparameters="each")`` ends where they vanish, or at
    the limit of a hyperparameter's range.

    Parameters
    ----------
    posterior : Posterior
        Of one HMM, with or without groups.
    hyperparameters : Hyperparameters
        The priors.

    Returns
    -------
    dict
        Derivatives by "alpha0", "epsilon0", "beta0", "v0", "W0" (one number if W0 is one) and "m0".

    Examples
    --------
    >>> from vhem.bayes import Hyperparameters, Posterior, bound_gradient, fit_hmm
    >>> priors = Hyperparameters(alpha0=1.0, epsilon0=1.0, beta0=1.0, v0=3.0, W0=1.0, m0=[0.0])
    >>> start = Posterior(alpha=[1.0], epsilon=[[1.0]], beta=[1.0], v=[3.0], m=[[0.0]], W=[[[1.0]]])
    >>> posterior = fit_hmm([[4.5, 5.5]], start, priors).posterior
    >>> bound_gradient(posterior, priors)["m0"] > 0  # a larger prior mean would fit better
    array([ True])
    """
    if posterior.beta is None or hyperparameters.beta0 is None:
        raise InputError("gradients are those of one HMM: {posterior} and {hyperparameters} need beta and beta0")
    h, W = hyperparameters, posterior.W
    d, diagonal = posterior.m.shape[1], W.ndim == 2
    q = NormalWishart(posterior.beta, posterior.v, posterior.m, 1 / W if diagonal else np.asarray(np.linalg.inv(W)))
    W0, m0 = np.asarray(h.W0, np.float64), np.asarray(h.m0, np.float64)
    away = q.m - m0
    precise = posterior.v[:, None] * W if diagonal else posterior.v[:, None, None] * W
    pull = precise * away if diagonal else np.einsum("kab,kb->ka", precise, away)
    return {
        "alpha0": _rows(posterior.alpha.reshape(-1, posterior.alpha.shape[-1]), h.alpha0),
        "epsilon0": _rows(posterior.epsilon.reshape(-1, posterior.epsilon.shape[-1]), h.epsilon0),
        "beta0": np.asarray(0.5 * (d / hyperparameters.beta0 - d / q.beta - (away * pull).sum(-1)).sum()),
        "v0": _freedom(q, W0, h.v0),
        "W0": _scale(precise if diagonal else np.einsum("kaa->ka", precise), W0, h.v0),
        "m0": np.asarray(hyperparameters.beta0 * pull.sum(0)),
    }


def _rows(alpha: FloatArray, a: float) -> FloatArray:
    """Σ_rows [ S ψ(S a) - S ψ(a) ] + Σ E log p."""
    n, S = alpha.shape
    return np.asarray(n * S * (digamma(S * a) - digamma(a)) + expected_logs(alpha).sum())


def _freedom(q: NormalWishart, W0: FloatArray, v0: float) -> FloatArray:
    """Σ_states ½ [ E log|Λ| - log|W0| - d log 2 - Σ ψ((v0+1-i)/2) ]."""
    d = q.n_dims
    offsets = np.zeros(d) if q.is_diagonal else np.arange(d)
    own = np.log(np.broadcast_to(W0, (d,))).sum() + d * np.log(2) + digamma((v0 - offsets) / 2).sum()
    return np.asarray(0.5 * (q.expected_log_det() - own).sum())


def _scale(traces: FloatArray, W0: FloatArray, v0: float) -> FloatArray:
    """½ Σ_states [ v W_dd / w_d² - v0 / w_d ], added up if all dimensions share w."""
    w = np.broadcast_to(W0, traces.shape[1:])
    each = 0.5 * (traces / w**2 - v0 / w).sum(0)
    return np.asarray(each if W0.size > 1 else each.sum())
