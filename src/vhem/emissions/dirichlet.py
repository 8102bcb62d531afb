"""Rows of probabilities that are not known exactly: Dirichlet distributions, in arrays whose last axis is a row.

A pseudo-count of zero means that something is impossible, in the prior and hence in the posterior.
"""

from __future__ import annotations

import numpy as np
from scipy.special import betaincinv, digamma, gammaln

from vhem._support.arrays import FloatArray


def expected_logs(alpha: FloatArray) -> FloatArray:
    """Return E log p = ψ(α) - ψ(Σα), -∞ where α is zero."""
    possible = alpha > 0
    if possible.all():
        return np.asarray(digamma(alpha) - digamma(alpha.sum(-1, keepdims=True)))
    total = np.maximum(alpha.sum(-1, keepdims=True), 1e-300)
    return np.where(possible, digamma(np.where(possible, alpha, 1.0)) - digamma(total), -np.inf)


def geometric_rows(alpha: FloatArray) -> FloatArray:
    """Return exp E log p: rows that sum to less than one, the less is known, the less."""
    return np.asarray(np.exp(expected_logs(alpha)))


def divergence(alpha: FloatArray, prior: FloatArray) -> FloatArray:
    """Return KL[Dir(α) ‖ Dir(α0)] of every row.

    lnΓ(Σα) - Σ lnΓ(α) - lnΓ(Σα0) + Σ lnΓ(α0) + Σ (α-α0)(ψ(α) - ψ(Σα)).
    """
    prior = np.broadcast_to(prior, alpha.shape)
    possible = prior > 0
    if possible.all():
        if (prior == prior.flat[0]).all():  # as priors mostly are: their logs are then those of one number
            prior = prior[(slice(1),) * (prior.ndim - 1)]
        total, total0 = alpha.sum(-1), prior.sum(-1)
        terms = gammaln(prior) - gammaln(alpha) + (alpha - prior) * (digamma(alpha) - digamma(total)[..., None])
        return np.asarray(gammaln(total) - gammaln(total0) + terms.sum(-1))
    a, a0 = np.where(possible, alpha, 1.0), np.where(possible, prior, 1.0)
    total, total0 = np.where(possible, alpha, 0.0).sum(-1), np.where(possible, prior, 0.0).sum(-1)
    real = total0 > 0
    total, total0 = np.where(real, total, 1.0), np.where(real, total0, 1.0)
    terms = gammaln(a0) - gammaln(a) + (a - a0) * (digamma(a) - digamma(total)[..., None])
    return np.asarray(gammaln(total) - gammaln(total0) + np.where(possible, terms, 0.0).sum(-1))


def mean_rows(alpha: FloatArray) -> FloatArray:
    """Return E p = α / Σα; zeros where nothing is possible."""
    total = alpha.sum(-1, keepdims=True)
    return np.asarray(alpha / np.where(total > 0, total, 1.0))


def deviation_of_rows(alpha: FloatArray) -> FloatArray:
    """Return the standard deviations of the probabilities."""
    total = alpha.sum(-1, keepdims=True)
    p = mean_rows(alpha)
    return np.asarray(np.sqrt(p * (1 - p) / (total + 1)))


def interval_of_rows(alpha: FloatArray, level: float) -> tuple[FloatArray, FloatArray]:
    """Return between which values each probability lies with a probability of `level`; its marginal is beta."""
    rest = alpha.sum(-1, keepdims=True) - alpha
    certain = (alpha <= 0) | (rest <= 0)
    a, b = np.where(certain, 1.0, alpha), np.where(certain, 1.0, rest)
    known = np.where(alpha > 0, 1.0, 0.0)
    low, high = (np.where(certain, known, betaincinv(a, b, q)) for q in (0.5 - level / 2, 0.5 + level / 2))
    return low, high


def drawn_rows(alpha: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Return random rows, drawn through gamma variates in logs: tiny pseudo-counts do not give 0/0."""
    possible = alpha > 0
    a = np.where(possible, alpha, 1.0)
    logs = np.log(rng.standard_gamma(a + 1)) + np.log(rng.random(a.shape)) / a
    logs = np.where(possible, logs, -np.inf)
    top = logs.max(-1, keepdims=True)
    rows = np.exp(logs - np.where(np.isfinite(top), top, 0.0))
    return mean_rows(rows)
