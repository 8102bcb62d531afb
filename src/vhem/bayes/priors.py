"""Priors of many fits: data-scaled defaults, or what the user gives."""

from __future__ import annotations

from typing import Any

import numpy as np

from vhem._support.arrays import BoolArray, FloatArray
from vhem._support.errors import InputError
from vhem.bayes.beliefs import Beliefs
from vhem.bayes.records import Hyperparameters
from vhem.emissions.normal_wishart import NormalWishart

ROWS = 0.5  # pseudo-counts of every start and transition probability
_SHARE = 0.1  # of the data's variance, that a state is expected to have
_FREEDOM = 3.0  # degrees of freedom of a dimension's precision, above those that a Wishart needs
_BETA = 0.1  # frames that the prior mean is worth: means then lie anywhere in the data


def prior_like_data(mean: FloatArray, variance: FloatArray, diagonal: bool) -> NormalWishart:
    """Return a weak prior for every group, in units of its own data, (G, 1).

    A state is expected to have a tenth of the variance of its group's frames, with three degrees of freedom, and its
    mean to lie where the frames lie.
    """
    G, d = mean.shape
    v = _FREEDOM + (0.0 if diagonal else d - 1.0)
    rate = v * _SHARE * variance
    rate = rate if diagonal else rate[..., None] * np.eye(d)
    ones = np.ones((G, 1))
    return NormalWishart(_BETA * ones, v * ones, mean[:, None], rate[:, None])


def prior_given(h: Hyperparameters, n: int, d: int, diagonal: bool) -> NormalWishart:
    """Return given hyperparameters as the prior of n fits, (n, 1)."""
    beta0 = h.beta0 if h.lambda0 is None else h.lambda0
    if beta0 is None:
        raise InputError("the hyperparameters lack {lack}", lack="beta0")
    m0 = np.atleast_1d(np.asarray(h.m0, np.float64))
    if len(m0) != d:
        raise InputError("{m0} has {n} entries, but frames have {d}", n=len(m0), d=d)
    least = 0.0 if diagonal else d - 1.0
    if not h.v0 > least:
        raise InputError("{v0} is {v:g}, but must be greater than {least:g}", v=h.v0, least=least)
    rate = 1 / np.broadcast_to(np.asarray(h.W0, np.float64), (d,))
    one = NormalWishart(*map(np.asarray, (float(beta0), float(h.v0), m0, rate if diagonal else rate * np.eye(d))))
    return one.map(lambda array: np.broadcast_to(array, (n, 1, *array.shape)).copy())


def with_rows(
    emissions: Any, start: BoolArray, trans: BoolArray, n_chains: int, start0: float, trans0: float
) -> Beliefs:
    """Return priors whose pseudo-counts are the same for all that is possible."""
    S = len(start)
    return Beliefs(
        np.broadcast_to(start0 * start, (n_chains, S)).copy(),
        np.broadcast_to(trans0 * trans, (n_chains, S, S)).copy(),
        emissions,
    )


def record_of(prior: Beliefs, fit: int, chain: int) -> Hyperparameters | None:
    """Return the hyperparameters of one fit; None if its emissions are not Gaussian."""
    own = prior.emissions
    if not isinstance(own, NormalWishart):
        return None
    return Hyperparameters(
        alpha0=float(prior.start[chain].max()), epsilon0=float(prior.trans[chain].max()),
        beta0=float(own.beta[fit, 0]), v0=float(own.v[fit, 0]), m0=own.m[fit, 0].copy(),
        W0=1 / _rates(own)[fit, 0],
    )  # fmt: skip


def _rates(own: NormalWishart) -> FloatArray:
    return own.rate if own.is_diagonal else np.diagonal(own.rate, axis1=-2, axis2=-1)
