"""HMMs that borrow strength: what all of them say about variances becomes the prior of each (empirical Bayes).

A state that has seen n frames knows its variance only as well as n - 1 degrees of freedom allow. Since all states of
all HMMs together show how much the true variances differ, each estimate can be drawn towards the common scale by as
many pseudo-frames κ as the evidence warrants: the estimator that limma (Smyth 2004) uses for the variances of genes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import digamma, polygamma

from vhem._support.arrays import FloatArray
from vhem.em.baum_welch import Fits
from vhem.emissions import Gaussian
from vhem.emissions.gaussian import GaussianPrior
from vhem.kernels.maximise import Prior

LEAST_ITEMS = 8  # below this many HMMs nothing is pooled: they would say too little about each other
_LEAST_FRAMES = 2.0  # of a state that is taken into account
_RANGE = (0.1, 50.0)  # of κ
_ALIKE = 2.0  # κ from which variances are alike enough to be averaged; below, only their logarithms are


class Pooled(NamedTuple):
    """The prior that all HMMs have in common."""

    n_frames: float  #: κ, pseudo-frames
    scale: FloatArray  #: (d,) their variances


def pooled_variances(n: FloatArray, variances: FloatArray, logarithmic: bool) -> Pooled:
    """Return the common prior of states that have seen n frames, (k,), and have these variances, (k, d).

    With df = n - 1 and s² = var · n/df, e = log s² - ψ(df/2) + log(df/2) scatters about the log of the true variance
    with variance ψ′(df/2), and its excess scatter gives κ: ψ′(κ/2) = var(e) - mean ψ′(df/2). The scale is the
    average variance or, if variances differ by orders of magnitude, that of the logarithms.
    """
    heard = n > _LEAST_FRAMES
    n, variances = n[heard], variances[heard]
    df = n - 1
    e = np.log(np.maximum(variances * (n / df)[:, None], 1e-300)) - (digamma(df / 2) - np.log(df / 2))[:, None]
    noise = polygamma(1, df / 2)
    w = 1 / noise / (1 / noise).sum()
    center = w @ e
    spread = w @ (e - center) ** 2 * len(w) / max(len(w) - 1, 1)
    excess = float((spread - w @ noise).mean())
    kappa = float(np.clip(2 * _inverse_trigamma(excess), *_RANGE)) if excess > 0 else _RANGE[1]
    if logarithmic:
        return Pooled(kappa, np.exp(center + digamma(kappa / 2) - np.log(kappa / 2)))
    return Pooled(kappa, (n @ variances) / df.sum())


def _inverse_trigamma(y: float) -> float:
    """Solve ψ′(x) = y by Newton's method on 1/ψ′, which is nearly a straight line."""
    if y > 1e7:
        return float(1 / np.sqrt(y))
    if y < 1e-6:
        return 1 / y
    x = 0.5 + 1 / y
    for _ in range(50):
        now = polygamma(1, x)
        step = now * (1 - now / y) / polygamma(2, x)
        x += step
        if -step / x < 1e-8:
            break
    return float(x)


def learned_from(fits: Fits, logarithmic: bool | None = None) -> Pooled | None:
    """Return what the HMMs say together, or None if they are too few.

    None for `logarithmic` decides by κ.
    """
    gaussian = fits.models.components
    if len(fits.models) < LEAST_ITEMS or not isinstance(gaussian, Gaussian) or fits.models.shape[2] > 1:
        return None
    n, variances = fits.occupancy.ravel(), gaussian.variances.reshape(-1, gaussian.n_dims)
    if (n > _LEAST_FRAMES).sum() < LEAST_ITEMS:
        return None
    found = pooled_variances(n, variances, bool(logarithmic))
    if logarithmic is None and found.n_frames < _ALIKE:
        found = pooled_variances(n, variances, True)
    return found


def with_pooled(prior: Prior, pooled: Pooled) -> Prior:
    """Return a prior of HMMs whose variances have the common prior instead of their own."""
    own = prior.emissions
    assert isinstance(own, GaussianPrior)
    scale = np.broadcast_to(pooled.scale, own.scale.shape)
    return prior._replace(emissions=GaussianPrior(count=pooled.n_frames, mean=own.mean, scale=scale, floor=own.floor))
