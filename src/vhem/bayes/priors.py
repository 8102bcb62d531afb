"""Priors of many fits: data-scaled defaults, or what the user gives."""

from __future__ import annotations

from typing import Any

import numpy as np

from vhem._support.arrays import BoolArray, FloatArray
from vhem._support.errors import InputError
from vhem.bayes.beliefs import Beliefs
from vhem.bayes.records import Hyperparameters
from vhem.emissions.components import Components, FamilyPrior
from vhem.emissions.conjugate import Conjugate
from vhem.emissions.conjugates import NATURAL
from vhem.emissions.gaussian import Gaussian, GaussianPrior
from vhem.emissions.linear import LinearFamily, LinearPrior
from vhem.emissions.normal_wishart import NormalWishart
from vhem.emissions.product import Product, ProductPrior
from vhem.emissions.product_conjugate import ProductConjugate

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


def weak_prior(like: Components, typical: FamilyPrior, diagonal: bool) -> Conjugate:
    """Return a weak prior for every group, in units of what is typical of its data, (G, 1); for any family."""
    if isinstance(like, Product):
        assert isinstance(typical, ProductPrior)
        pairs = zip(like.parts, typical.parts, strict=True)
        return ProductConjugate([weak_prior(part, own, diagonal) for part, own in pairs], like.columns)
    if isinstance(typical, GaussianPrior):
        return prior_like_data(typical.mean, typical.scale, diagonal)
    assert isinstance(typical, LinearPrior)
    if like.family not in NATURAL:
        problem = "variational Bayes has no prior for {family} emissions"
        raise InputError(problem, 'use method="em"', family=like.family)
    return NATURAL[like.family].weak(like, typical.mean)


def typical_of(components: Components, share: FloatArray) -> FamilyPrior:
    """Return what is typical of all frames of components (B, S, 1), as one group; `share` (B, S) adds up to one."""
    if isinstance(components, Product):
        return ProductPrior(tuple(typical_of(part, share) for part in components.parts))
    if isinstance(components, Gaussian):
        means, wide = components.means[:, :, 0], share[..., None]
        mean = (wide * means).sum((0, 1))
        variance = (wide * (components.variances[:, :, 0] + (means - mean) ** 2)).sum((0, 1))
        return GaussianPrior(count=0.0, mean=mean[None], scale=variance[None], floor=0 * variance[None])
    assert isinstance(components, LinearFamily)
    mean = np.einsum("bs,bsdp->dp", share, components.expected_statistics()[:, :, 0])
    return LinearPrior(mean=mean[None], sums=0 * mean[None])


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
    """Return priors whose pseudo-counts are the same for all that is possible, in all chains or in each."""
    S = start.shape[-1]
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
