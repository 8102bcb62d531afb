"""Conjugate distributions of every family: integrals, evidence, and HMMs learned with them."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from helpers import available_engines, use_engine
from numpy.testing import assert_allclose
from scipy.special import digamma, gammaln, logsumexp

import vhem
from vhem.bayes.priors import typical_of, weak_prior
from vhem.emissions.components import Components
from vhem.emissions.gamma_functions import log_gamma_and_digamma

RNG = np.random.default_rng

TRUTH: dict[str, Components] = {
    "categorical": vhem.Categorical([[0.85, 0.1, 0.05], [0.05, 0.1, 0.85]]),
    "bernoulli": vhem.Bernoulli([[0.9, 0.1], [0.2, 0.95]]),
    "poisson": vhem.Poisson([2.0, 15.0]),
    "exponential": vhem.Exponential([0.2, 5.0]),
    "gamma": vhem.Gamma(means=[1.0, 6.0], shapes=[5.0, 8.0]),
    "zero-gamma": vhem.Gamma(means=[1.0, 6.0], shapes=[5.0, 8.0], zeros=[0.5, 0.02]),
    "negativebinomial": vhem.NegativeBinomial(means=[2.0, 30.0], sizes=[5.0, 8.0]),
    "beta": vhem.Beta(means=[0.15, 0.8], precisions=[20.0, 12.0]),
    "vonmises": vhem.VonMises(directions=[0.3, 2.5], concentrations=[6.0, 9.0]),
    "vonmises:degrees": vhem.VonMisesDegrees(directions=[20.0, 150.0], concentrations=[6.0, 9.0]),
    "product": vhem.Product([vhem.Gaussian([[0.0], [3.0]], [[1.0], [1.0]]), vhem.Poisson([2.0, 8.0])]),
}
NATURAL = [name for name in TRUTH if name != "product"]


def hmm_of(name):
    return vhem.HMM([0.6, 0.4], [[0.8, 0.2], [0.3, 0.7]], emissions=TRUTH[name])


def choice(name):
    return {0: "gaussian", 1: "poisson"} if name == "product" else name


def posterior_of(name, n=20):
    """The prior and the posterior of one component after n frames."""
    emissions = vhem.H3M([hmm_of(name)]).emissions
    X = emissions.draw(np.zeros(n, np.int64), RNG(1))
    like = emissions.take((0, 0, 0))
    prior = weak_prior(like, typical_of(emissions, np.full((1, 2), 0.5)), diagonal=True)
    anchors = like.map(lambda a: a[None, None, None])
    sums = anchors.frame_sums(X, np.ones((n, 1, 1, 1)), anchors)
    return X, prior, prior.updated(sums, anchors).posterior


@pytest.mark.parametrize("name", NATURAL)
def test_expected_coefficients_are_slopes_of_the_log_normaliser(name):
    _, _, q = posterior_of(name)
    slopes = np.zeros_like(q.sums)
    for index in np.ndindex(q.sums.shape):
        if index[-1] > 5 or q.sums[index] == 0:
            slopes[index] = q.known.eta[index]  # of the negative binomial's hundred statistics, a few will do
            continue
        ends = []
        h = 1e-4 * abs(q.sums[index])
        for sign in (-1, 1):
            moved = q.map(np.copy)
            moved.sums[index] += sign * h
            ends.append(moved.known.log_norm.sum())
        slopes[index] = (ends[1] - ends[0]) / (2 * h)
    assert_allclose(q.known.eta, slopes, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["gamma", "negativebinomial", "vonmises", "beta"])
@pytest.mark.parametrize("n", [1, 3, 100_000])
def test_integrals_do_not_depend_on_the_nodes(name, n, monkeypatch):
    _, _, q = posterior_of(name, n)
    again = q.map(np.copy)
    monkeypatch.setattr("vhem.emissions.quadrature._FINE", {1: 1001, 2: 201})
    assert_allclose(q.known.log_norm, again.known.log_norm, rtol=1e-9, atol=1e-5)
    assert_allclose(q.known.eta, again.known.eta, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", list(TRUTH))
def test_draws_have_the_expected_log_density(name):
    X, _, q = posterior_of(name)
    rng, some = RNG(3), X[:4]
    drawn = np.array([q.drawn(rng).log_density(some)[:, 0, 0] for _ in range(1500)])
    made = q.expected()
    expected = made.components.log_density(some)[:, 0, 0] + made.log_loss[0, 0]
    error = drawn.std(0) / np.sqrt(len(drawn))
    assert (np.abs(drawn.mean(0) - expected) < 5 * error + 1e-3).all()


@pytest.mark.parametrize("name", list(TRUTH))
def test_the_divergence_gives_the_evidence(name):
    """With one state, E log p(X) - KL is log ∫ p(X | θ) p(θ) dθ: here over draws from the prior."""
    X, prior, q = posterior_of(name, n=2)
    made = q.expected()
    bound = made.components.log_density(X).sum() + len(X) * made.log_loss.sum() - q.divergence(prior).sum()
    rng = RNG(0)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        logs = np.array([prior.drawn(rng).log_density(X).sum() for _ in range(3000)])
    evidence = logsumexp(np.nan_to_num(logs, nan=-np.inf)) - np.log(len(logs))
    assert_allclose(bound, evidence, atol=0.35)


@pytest.mark.parametrize("name", list(TRUTH))
def test_point_estimates_and_deviations_come_close_to_the_truth(name):
    _, _, q = posterior_of(name, n=400)
    truth, point, wide = vhem.H3M([hmm_of(name)]).emissions, q.point().arrays(), q.deviations()
    for field, array in truth.arrays().items():
        own = (array[0, 0, 0], point[field][0, 0], wide[field][0, 0])
        known = own[2] > 0
        assert (np.abs(own[0] - own[1])[known] < 5 * own[2][known]).all(), field
        assert (own[2] < 0.5 * np.maximum(np.abs(own[0]), 0.3)).all(), field


@cache
def learned(name):
    """Two groups of sequences, learned by variational Bayes."""
    sequences = [y for k in range(2) for y in hmm_of(name).sample(12, 20, RNG(k))]
    options = {"emissions": choice(name), "method": "vb", "n_init": 2, "random_state": 0}
    return vhem.fit_hmms(sequences, [1, 2] if name == "beta" else [1, 2, 3], groups=np.repeat([0, 1], 12), **options)


@pytest.mark.parametrize("name", list(TRUTH))
def test_hmms_are_learned_and_saved(name, tmp_path):
    hmms = learned(name)
    assert (hmms.n_states == 2).all()
    hmms.save(tmp_path / "hmms.vhem")
    again = vhem.load(tmp_path / "hmms.vhem")
    assert again == hmms
    assert again.posterior == hmms.posterior
    truth = vhem.H3M([hmm_of(name)])
    assert (vhem.divergence(truth, hmms)[0] < 3.0).all()
    for other in (hmms.sample_posterior(1, random_state=0)[0], hmms.predictive()):
        assert (vhem.divergence(truth, other)[0] < 4.0).all()
    assert set(hmms.posterior_deviations()) >= {"startprob", "transmat"}


@pytest.mark.parametrize("name", ["categorical", "poisson", "product", "gamma"])
def test_clusters_of_any_family(name):
    first = learned(name)
    fit = vhem.VBHEM(n_clusters=[1, 2], n_states=[2], random_state=0).fit(first)
    assert fit.n_clusters_ == 1
    assert_allclose(fit.predict_proba(first), fit.responsibilities_, atol=1e-9)
    assert (vhem.divergence(vhem.H3M([hmm_of(name)]), fit.centers_)[0] < 2.0).all()
    assert fit.centers_.posterior.emissions.layout == first.posterior.emissions.layout


@pytest.mark.parametrize("name", ["categorical", "negativebinomial", "product"])
def test_engines_agree(name, monkeypatch):
    ys = hmm_of(name).sample(4, 8, RNG(5))
    bounds = []
    for engine in available_engines():
        use_engine(monkeypatch, engine)
        fit = vhem.fit_hmms(
            ys, 2, groups=[0, 0, 1, 1], emissions=choice(name), init=learned(name)[0], method="vb", max_iter=5, tol=0,
            return_report=True,
        )[1]  # fmt: skip
        bounds.append(fit.lower_bounds)
    for other in bounds[1:]:
        assert_allclose(other, bounds[0], rtol=1e-9)


def test_missing_values_cost_nothing():
    """A column that is never seen changes nothing but its own prior."""
    ys = list(hmm_of("poisson").sample(6, 10, RNG(2)))
    one = vhem.fit_hmms(ys, 2, groups=[0] * 6, emissions="poisson", method="vb", random_state=0)
    some = [np.where(RNG(k).random(y.shape) < 0.3, np.nan, y) for k, y in enumerate(ys)]
    two = vhem.fit_hmms(some, 2, groups=[0] * 6, emissions="poisson", method="vb", random_state=0)
    total = [h.posterior.emissions.sums[..., 0].sum() for h in (one, two)]
    seen = sum(int((~np.isnan(y)).sum()) for y in some)
    assert total[0] - total[1] == pytest.approx(60 - seen, abs=0.2)


def test_what_only_gaussians_have_is_refused():
    given = vhem.bayes.Hyperparameters(alpha0=1, epsilon0=1, beta0=1, v0=3, W0=1.0, m0=[0.0])
    with pytest.raises(ValueError, match="hyperparameters are those of Gaussian states, not poisson"):
        vhem.fit_hmms([[1, 2, 3]], 1, emissions="poisson", method="vb", hyperparameters=given)


def test_gamma_functions_agree_with_scipy():
    x = np.exp(np.linspace(-20, 15, 2001))
    log_gamma, psi = log_gamma_and_digamma(x)
    np.testing.assert_allclose(log_gamma, gammaln(x), rtol=2e-14, atol=2e-14)
    np.testing.assert_allclose(psi, digamma(x), rtol=2e-14, atol=2e-14)
