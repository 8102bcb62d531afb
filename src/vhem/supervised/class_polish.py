"""What the sequences of labelled classes still teach after VHEM: EM on them, and variances that classes share."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from vhem._support.arrays import FloatArray, IntArray
from vhem.em.pooling import LEAST_ITEMS, pooled_variances
from vhem.emissions import Gaussian
from vhem.estimators.fit_hmms import fit_hmms
from vhem.estimators.mixture import MixtureOfHMMs
from vhem.models import H3M
from vhem.sequences import Sequences

_PRIOR = 0.1  # pseudo-counts: classes may be small


def polished(
    centers: H3M, members: IntArray, sequences: Sequences, n_iter: int, reg_covar: float, n_jobs: int | None
) -> H3M:
    """Return the centres of one class after a few iterations of EM on its sequences.

    Each centre first learns from its own members, the sequences whose HMMs VHEM gave to it. Otherwise a centre with too
    small variances might lose all sequences at once to another one.
    """
    priors: dict[str, float] = dict.fromkeys(("startprob_prior", "transmat_prior", "covars_prior"), _PRIOR)
    options: dict[str, Any] = {
        "max_iter": n_iter,
        "reg_covar": reg_covar,
        "n_jobs": n_jobs,
        "random_state": 0,
        **priors,
    }
    used, labels = np.unique(members, return_inverse=True)
    first = np.sort(np.unique(labels, return_index=True)[1])
    order = labels[first]  # fit_hmms has the groups in order of appearance
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it need not converge
        learned = fit_hmms(sequences, groups=labels, init=centers[used[order]], **options)
        start = learned.with_weights(np.bincount(labels)[order] / len(labels))
        return MixtureOfHMMs(len(start), init=start, **options).fit(sequences).model_


def with_shared_variances(mixtures: list[H3M], counts: FloatArray) -> list[H3M]:
    """Return mixtures, one per class, learned from so many sequences, whose Gaussians borrow strength from each other.

    As in `fit_hmms`, what all states say together about variances is worth κ observations to each of them. Observations
    are sequences here, not frames: those of one sequence resemble each other. Classes then differ less by chance in
    their variances, which decide a likelihood as much as means do. Several Gaussians per state, other families and
    fewer than eight states stay as they are.
    """
    if not all(isinstance(m.emissions, Gaussian) and m.parameters.shape[2] == 1 for m in mixtures):
        return mixtures
    n = np.concatenate([_sequences(m, k) for m, k in zip(mixtures, counts, strict=True)])
    gaussians = [m.emissions.reshaped(-1) for m in mixtures]
    covars, variances = (np.concatenate([getattr(g, name) for g in gaussians]) for name in ("covars", "variances"))
    known = n > 2
    if known.sum() < LEAST_ITEMS:
        return mixtures
    kappa = pooled_variances(n, variances, logarithmic=False).n_frames
    common = np.average(covars[known], axis=0, weights=n[known])
    return [_drawn_to(common, kappa, m, k) for m, k in zip(mixtures, counts, strict=True)]


def _sequences(mixture: H3M, n_sequences: float) -> FloatArray:
    """Return how many sequences each state was learned from."""
    return np.repeat(mixture.weights * n_sequences, mixture.parameters.shape[1])


def _drawn_to(common: FloatArray, kappa: float, mixture: H3M, n_sequences: float) -> H3M:
    """Return a mixture with covariances (n Σ + κ V) / (n + κ)."""
    models = mixture.parameters
    own = models.components
    assert isinstance(own, Gaussian)
    n = (mixture.weights * n_sequences).reshape(-1, *(1,) * (own.covars.ndim - 1))
    drawn = Gaussian(own.means, np.ascontiguousarray((n * own.covars + kappa * common) / (n + kappa)))
    return H3M.of_models(models.with_components(drawn), mixture.weights)
