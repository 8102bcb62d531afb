"""MixtureOfHMMs by variational Bayes."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.metrics import adjusted_rand_score

import vhem
from vhem.bayes import Hyperparameters, Posterior, fit_hmm


def viewer(x, stay):
    return vhem.HMM([0.5, 0.5], [[stay, 1 - stay], [1 - stay, stay]], [[x], [x + 4]], [[1.0], [1.0]])


def sequences(n=12, seed=0):
    rng = np.random.default_rng(seed)
    kinds = [viewer(0.0, 0.9), viewer(0.0, 0.1), viewer(8.0, 0.5)]
    return [y for kind in kinds for y in kind.sample(n, 15, rng)], np.repeat([0, 1, 2], n)


@pytest.fixture(scope="module")
def fitted():
    return vhem.MixtureOfHMMs(range(1, 6), [1, 2, 3], method="vb", n_init=3, random_state=0).fit(sequences()[0])


def test_numbers_of_hmms_and_states_are_found(fitted):
    assert fitted.n_components_ == len(fitted.model_) == 3
    assert fitted.model_.n_states.tolist() == [2, 2, 2]
    assert adjusted_rand_score(fitted.labels_, sequences()[1]) == 1.0
    assert fitted.sizes_.shape == (15, 2)
    assert len(fitted.scores_) == 15
    assert (np.diff(fitted.lower_bounds_) > -1e-9 * abs(fitted.lower_bound_)).all()
    assert set(fitted.model_.posterior_deviations()) == {"startprob", "transmat", "means", "covars"}


def test_it_is_saved_with_its_posterior(fitted, tmp_path):
    fitted.save(tmp_path / "fit.vhem")
    again = vhem.load(tmp_path / "fit.vhem")
    assert again.model_ == fitted.model_
    assert again.model_.posterior == fitted.model_.posterior
    np.testing.assert_array_equal(again.predict(sequences()[0]), fitted.labels_)


def test_one_hmm_has_the_bound_of_a_bayesian_hmm():
    ys = sequences(4)[0]
    priors = Hyperparameters(alpha0=0.7, epsilon0=0.3, eta0=0.7, lambda0=0.2, beta0=0.2, v0=3.0, W0=0.1, m0=[1.0])
    start = vhem.fit_hmms(ys, 2, groups=[0] * len(ys), random_state=0)
    fit = vhem.MixtureOfHMMs(
        1, 2, init=start, method="vb", hyperparameters=priors, max_iter=500, tol=1e-9
    ).fit(ys)  # fmt: skip
    q = fit.model_.posterior
    given = Posterior(alpha=q.alpha[0], epsilon=q.epsilon[0], beta=q.beta[0], v=q.v[0], m=q.m[0], W=q.W[0])
    assert_allclose(fit.lower_bound_, fit_hmm(ys, given, priors, tol=0, max_iter=2).lower_bounds[0], rtol=1e-8)


def test_surplus_hmms_are_emptied_and_removed():
    ys = viewer(0.0, 0.9).sample(30, 20, np.random.default_rng(2))
    fit = vhem.MixtureOfHMMs(4, 2, method="vb", init="random", max_iter=500, random_state=0).fit(ys)
    assert fit.n_components_ < 4
    assert fit.responsibilities_.shape == (30, fit.n_components_)
    assert_allclose(fit.responsibilities_.sum(1), 1.0)


def test_categories_too():
    rng = np.random.default_rng(0)
    kinds = [vhem.HMM([1.0], [[1.0]], emissions=vhem.Categorical([p])) for p in ([0.8, 0.1, 0.1], [0.1, 0.1, 0.8])]
    ys = [y for kind in kinds for y in kind.sample(10, 12, rng)]
    fit = vhem.MixtureOfHMMs([1, 2, 3], 1, method="vb", emissions="categorical", n_init=3, random_state=0).fit(ys)
    assert fit.n_components_ == 2
    assert fit.lower_bound_ < fit.model_.score_samples(ys).sum()  # it pays for what is not known
    assert adjusted_rand_score(fit.labels_, np.repeat([0, 1], 10)) == 1.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_components": [1, 2]}, "n_components must be one number"),
        ({"n_states": [1, 2]}, "n_states must be one number"),
        ({"method": "vb", "n_mix": 2}, "n_mix must be 1 for variational Bayes"),
        ({"method": "vb", "search": "genetic"}, "search must be None"),
        ({"method": "vb", "hyperparameters": "each"}, "hyperparameters must be one of"),
        ({"method": "bayes"}, "method must be one of"),
        ({"method": "vb", "n_components": []}, "n_components is empty"),
    ],
)
def test_wrong_settings_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        vhem.MixtureOfHMMs(**{"n_components": 2, "n_states": 1, **options}).fit(sequences(2)[0])
