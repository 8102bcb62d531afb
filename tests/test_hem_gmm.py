"""Gaussian mixtures, and their reduction by HEM."""

import numpy as np
import pytest
from helpers import random_covars, random_rows
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.mixture import GaussianMixture

from vhem import GMM, HEMGaussianMixture


def random_gmm(seed=0, K=12, d=2, covariance_type="diag", spread=3.0):
    rng = np.random.default_rng(seed)
    means = spread * rng.normal(size=(K, d))
    return GMM(random_rows(rng, (K,)), means, random_covars(rng, (K, d), covariance_type))


def full(covars):
    return np.array([np.diag(c) if c.ndim == 1 else c for c in covars])


def one_iteration(base, start, n_virtual, form):
    """One step of hierarchical EM written out, and the objective before it."""
    N = n_virtual * len(base) * base.weights
    g = np.empty((len(base), len(start)))
    for i, (m, S) in enumerate(zip(base.means, full(base.covars), strict=True)):
        for j, (mu, C) in enumerate(zip(start.means, full(start.covars), strict=True)):
            g[i, j] = multivariate_normal(mu, C).logpdf(m) - 0.5 * np.trace(np.linalg.solve(C, S))
    logits = (N[:, None] if form == "virtual" else 1.0) * np.log(start.weights) + N[:, None] * g
    bound = np.logaddexp.reduce(logits, axis=1)
    z = np.exp(logits - bound[:, None])
    weights = z.mean(0) if form == "models" else N @ z / N.sum()
    w = z * base.weights[:, None]
    means = (w.T @ base.means) / w.sum(0)[:, None]
    covars = []
    for j in range(len(start)):
        offset = base.means - means[j]
        spread = full(base.covars) + offset[:, :, None] * offset[:, None, :]
        covars.append(np.einsum("i,ikl->kl", w[:, j], spread) / w[:, j].sum())
    return bound.sum(), weights, means, np.array(covars)


@pytest.mark.parametrize("covariance_type", ["diag", "full"])
@pytest.mark.parametrize("form", ["models", "virtual"])
def test_one_iteration_against_the_formulas(covariance_type, form):
    base, start = random_gmm(0, covariance_type=covariance_type), random_gmm(1, K=3, covariance_type=covariance_type)
    fit = HEMGaussianMixture(3, init=start, n_virtual=2.0, max_iter=1, tol=0, weight_form=form).fit(base)
    bound, weights, means, covars = one_iteration(base, start, 2.0, form)
    assert fit.lower_bounds_[0] == pytest.approx(bound, rel=1e-12)
    np.testing.assert_allclose(fit.mixture_.weights, weights, rtol=1e-9)
    np.testing.assert_allclose(fit.mixture_.means, means, rtol=1e-9)
    expected = covars if covariance_type == "full" else np.diagonal(covars, axis1=1, axis2=2)
    np.testing.assert_allclose(fit.mixture_.covars, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("covariance_type", ["full", "tied", "diag", "spherical"])
def test_one_component_is_scikit_learns_own(covariance_type):
    rng = np.random.default_rng(2)
    X = np.concatenate([rng.normal(m, s, size=(200, 3)) for m, s in ((0, 1), (4, 2), (-5, 0.5))])
    many = GaussianMixture(6, covariance_type=covariance_type, random_state=0, reg_covar=0.0).fit(X)
    fit = HEMGaussianMixture(1, covariance_type="full").fit(many)
    # EM keeps the mean of the data, so all components together are the single Gaussian of the data.
    single = GaussianMixture(1, reg_covar=0.0).fit(X)
    np.testing.assert_allclose(fit.mixture_.means, single.means_, rtol=1e-6, atol=1e-8)
    if covariance_type in ("full", "tied"):
        np.testing.assert_allclose(fit.mixture_.covars, single.covariances_, rtol=1e-6, atol=1e-8)
    assert fit.lower_bounds_[-1] >= fit.lower_bounds_[0] - 1e-9 * abs(fit.lower_bounds_[0])  # up to rounding
    points = GMM.from_sklearn(many)
    np.testing.assert_allclose(points.score_samples(X), many.score_samples(X), rtol=1e-9)
    np.testing.assert_allclose(points.predict_proba(X), many.predict_proba(X), atol=1e-9)
    np.testing.assert_array_equal(points.predict(X), many.predict(X))


@pytest.mark.parametrize("seed", range(6))
def test_the_bound_never_falls_and_seeds_repeat(seed):
    base = random_gmm(seed, K=30, d=3, covariance_type=["diag", "full"][seed % 2])
    estimator = HEMGaussianMixture(4, n_virtual=[0.5, 20.0, 500.0][seed % 3], max_iter=300, random_state=seed)
    fit = estimator.fit(base)
    assert np.all(np.diff(fit.lower_bounds_) >= -1e-9 * np.abs(fit.lower_bounds_[1:]))
    np.testing.assert_array_equal(fit.predict(base), fit.labels_)
    again = clone(estimator).fit(base)
    assert again.mixture_ == fit.mixture_
    assert fit.score(base) == pytest.approx(fit.lower_bound_ / (estimator.n_virtual * 30), rel=1e-9)


def test_hierarchy_and_pools():
    rng = np.random.default_rng(3)
    centers = np.array([[0.0, 0.0], [20.0, 0.0], [0.0, 20.0]])
    parts = [
        GMM(np.full(8, 1 / 8), np.repeat(c[None], 8, 0) + rng.normal(size=(8, 2)), np.ones((8, 2))) for c in centers
    ]
    fine = HEMGaussianMixture(6, random_state=0).fit(parts)
    coarse = HEMGaussianMixture(3, random_state=0).fit(fine.mixture_)
    labels = coarse.labels_[fine.labels_]
    assert all(len(set(labels[8 * k : 8 * k + 8])) == 1 for k in range(3))
    assert len(set(labels)) == 3


def test_sampling_matches_the_density():
    gmm = random_gmm(4, K=3, covariance_type="full")
    X, labels = gmm.sample(40_000, random_state=0)
    np.testing.assert_allclose(X.mean(0), gmm.weights @ gmm.means, atol=0.1)
    np.testing.assert_allclose(np.bincount(labels) / len(labels), gmm.weights, atol=0.02)
    X[0, 0] = np.nan
    marginal = GMM(gmm.weights, gmm.means[:, 1:], gmm.covars[:, 1:, 1:])
    assert gmm.score_samples(X[:1])[0] == pytest.approx(marginal.score_samples(X[:1, 1:])[0])


def test_bad_input():
    with pytest.raises(TypeError, match="X must be a GMM"):
        HEMGaussianMixture(2).fit(np.zeros((5, 2)))
    with pytest.raises(NotFittedError):
        HEMGaussianMixture(2).fit(GaussianMixture(3))
    with pytest.raises(NotFittedError):
        HEMGaussianMixture(2).predict(random_gmm())
    with pytest.raises(ValueError, match="n_components must be an integer of at least 1"):
        HEMGaussianMixture(0).fit(random_gmm())
    with pytest.raises(ValueError, match="weight_form must be one of"):
        HEMGaussianMixture(2, weight_form="x").fit(random_gmm())
    with pytest.raises(ValueError, match=r"weights sum to 1\.5 instead of 1"):
        GMM([0.5, 1.0], np.zeros((2, 1)), np.ones((2, 1)))
    with pytest.raises(ValueError, match=r"component 1: the variance of dimension 0 is 0\.0"):
        GMM([0.5, 0.5], np.zeros((2, 1)), [[1.0], [0.0]])
    with pytest.raises(ValueError, match=r"covars has shape \(3, 1\), but means needs \(2, 1\)"):
        GMM([0.5, 0.5], np.zeros((2, 1)), np.ones((3, 1)))
    with pytest.raises(ValueError, match=r"means has shape \(2,\)"):
        GMM([0.5, 0.5], [0.0, 1.0], [[1.0], [1.0]])
    with pytest.raises(ValueError, match=r"points of shape \(n, 2\)"):
        random_gmm().score_samples([[1.0]])
