"""Rows of probabilities that are not known exactly: Dirichlet distributions, in arrays whose last axis is a row.

A pseudo-count of zero means that something is impossible, in the prior and hence in the posterior.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import betaincinv, digamma

from vhem._support.arrays import FloatArray
from vhem.emissions.gamma_functions import log_gamma_and_digamma


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


class KnownRows(NamedTuple):
    """What E-steps and bounds need to know of Dirichlet distributions."""

    alpha: FloatArray
    logs: FloatArray  #: E log p, -∞ where α is zero
    log_norm: FloatArray  #: of every row, lnΓ(Σα) - Σ lnΓ(α) over what is possible

    @staticmethod
    def of(alpha: FloatArray) -> KnownRows:
        """Return both for every row; rows in which nothing is possible have a norm of zero."""
        possible = alpha > 0
        some = not possible.all()
        numbers = np.concatenate([alpha, alpha.sum(-1, keepdims=True)], axis=-1)
        log_gamma, psi = log_gamma_and_digamma(np.where(numbers > 0, numbers, 1.0) if some else numbers)
        logs = psi[..., :-1] - psi[..., -1:]
        norm = log_gamma[..., -1] - log_gamma[..., :-1].sum(-1)  # impossible ones count as lnΓ(1) = 0
        return KnownRows(alpha, np.where(possible, logs, -np.inf) if some else logs, norm)

    def divergence(self, prior: FloatArray) -> FloatArray:
        """Return KL[Dir(α) ‖ Dir(α0)] of every row.

        lnΓ(Σα) - Σ lnΓ(α) - lnΓ(Σα0) + Σ lnΓ(α0) + Σ (α-α0)(ψ(α) - ψ(Σα)).
        """
        prior = np.broadcast_to(prior, self.alpha.shape)
        one = prior[(slice(1),) * (prior.ndim - 1)]
        same = bool((prior == one).all())  # as rows of priors mostly are
        known = KnownRows.of(one if same else prior)
        logs = self.logs if np.isfinite(known.logs).all() else np.where(prior > 0, self.logs, 0.0)
        return np.asarray(self.log_norm - known.log_norm + np.einsum("...s,...s->...", self.alpha - prior, logs))


def divergence(alpha: FloatArray, prior: FloatArray) -> FloatArray:
    """Return KL[Dir(α) ‖ Dir(α0)] of every row."""
    return KnownRows.of(alpha).divergence(prior)


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
