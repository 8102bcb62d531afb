"""MixtureOfHMMs and HMMTransformer: recovery, monotone likelihood, starts, time limits, and life in scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import random_h3m, spoiled_m_step
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics import adjusted_rand_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

import vhem
from vhem import H3M, HMM, VHEM, HMMTransformer, MixtureOfHMMs, Sequences, fit_hmms
from vhem.em import mixtures
from vhem.em.loop import BoundError

QUIET = pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::sklearn.exceptions.ConvergenceWarning")


def separated(seed, K=3, n=45, T=60):
    """Return sequences of K HMMs that share emissions or transitions with one another, but not both, and labels."""
    rng = np.random.default_rng(seed)
    means = rng.permutation([[0.0], [4.0], [8.0]])[:, None] * np.ones(2)
    hmms = []
    for k in range(K):
        stay = [0.9, 0.3, 0.9][k % 3]
        trans = np.full((3, 3), (1 - stay) / 2) + (stay - (1 - stay) / 2) * np.eye(3)
        hmms.append(HMM(np.ones(3) / 3, trans, means[:, 0] + (3.0 if k == 2 else 0.0), np.ones((3, 2))))
    labels = np.arange(n) % K
    lengths = rng.integers(T, 2 * T, size=n)
    return [hmms[k].sample(1, int(t), random_state=rng)[0] for k, t in zip(labels, lengths, strict=True)], labels


@pytest.mark.parametrize("seed", range(20))
def test_known_mixtures_are_recovered(seed):
    ys, labels = separated(seed)
    fit = MixtureOfHMMs(3, 3, random_state=seed).fit(ys)
    assert adjusted_rand_score(labels, fit.labels_) >= 0.95
    assert fit.converged_


@pytest.mark.parametrize("init", ["smyth", "kmeans", "ward", "random"])
def test_every_start_ends_above_where_it_began(init):
    ys, _ = separated(0)
    fit = MixtureOfHMMs(3, 3, init=init, n_init=2, random_state=0, max_iter=300).fit(ys)
    assert [r.init for r in fit.restarts_] == [init] * 2
    assert fit.lower_bounds_[-1] > fit.lower_bounds_[0]
    assert fit.lower_bound_ == max(r.lower_bounds[-1] for r in fit.restarts_)


@QUIET
@settings(max_examples=20)
@given(st.integers(0, 10**6), st.integers(1, 4), st.sampled_from(["diag", "full"]), st.booleans(), st.booleans())
def test_the_objective_never_falls(seed, K, covariance_type, missing, priors):
    rng = np.random.default_rng(seed)
    ys = [3 * rng.normal(size=(int(T), 2)) for T in rng.integers(1, 25, size=8)]
    if missing:
        ys = [np.where(rng.random(y.shape) < 0.2, np.nan, y) for y in ys]
    prior = {"covars_prior": 0.5, "transmat_prior": 0.5, "startprob_prior": 0.5} if priors else {}
    fit = MixtureOfHMMs(K, 2, 1, covariance_type, n_init=3, max_iter=20, random_state=seed, **prior).fit(ys)
    assert fit.n_falls_ == 0
    for restart in fit.restarts_:
        assert (np.diff(restart.lower_bounds) > -1e-9 * np.abs(restart.lower_bounds[1:]) - 1e-9).all()


@QUIET
def test_one_iteration_is_that_of_the_equations():
    rng = np.random.default_rng(1)
    start = random_h3m(rng, 3, 2, 1, 2)
    ys = [rng.normal(size=(12, 2)) for _ in range(9)]
    with pytest.warns(ConvergenceWarning, match="stopped after 1 iteration, before"):
        fit = MixtureOfHMMs(3, 2, init=start, max_iter=1, reg_covar=0).fit(ys)
    joint = start.log_likelihoods(ys) + np.log(start.weights)
    z = np.exp(joint - logsumexp(joint, axis=1, keepdims=True))
    assert fit.lower_bounds_[0] == pytest.approx(logsumexp(joint, axis=1).sum())
    np.testing.assert_allclose(fit.model_.weights, z.mean(axis=0))
    for k in range(3):
        gamma = start[k].posterior(ys)
        u = [z[n, k] * gamma[n] for n in range(9)]
        mean = sum(g.T @ y for g, y in zip(u, ys, strict=True)) / sum(g.sum(axis=0) for g in u)[:, None]
        np.testing.assert_allclose(fit.model_.means[k, :, 0], mean, rtol=1e-9)


def test_one_component_is_baum_welch():
    ys, _ = separated(2, K=1, n=8)
    start = fit_hmms(ys[:1], 3, random_state=0)
    options = {"max_iter": 5, "tol": 0, "reg_covar": 0}
    mixture = MixtureOfHMMs(1, 3, init=start, **options).fit(ys).model_
    plain = fit_hmms(ys, init=start, groups=[0] * 8, startprob_prior=0, transmat_prior=0, covars_prior=0, **options)
    np.testing.assert_allclose(mixture.means, plain.means, rtol=1e-9)
    np.testing.assert_allclose(mixture.transmat, plain.transmat, rtol=1e-9)


def test_results_of_vhem_can_be_polished():
    ys, labels = separated(3)
    hmms = fit_hmms(ys, 3, random_state=0, max_iter=300)
    centers = VHEM(3, random_state=0).fit(hmms).centers_
    fit = MixtureOfHMMs(3, 3, init=centers, max_iter=300).fit(ys)
    assert fit.lower_bound_ > fit.lower_bounds_[0]
    assert adjusted_rand_score(labels, fit.labels_) >= 0.95


def test_one_seed_one_answer_whatever_the_threads():
    ys, _ = separated(4)
    one, two = (MixtureOfHMMs(3, 3, n_init=3, random_state=7, n_jobs=jobs).fit(ys) for jobs in (1, 2))
    assert (one.responsibilities_ == two.responsibilities_).all()
    assert one.lower_bounds_.tolist() == two.lower_bounds_.tolist()


def test_time_limit_stops_and_says_so():
    ys, _ = separated(5)
    fit = MixtureOfHMMs(3, 3, n_init=50, time_limit=0.0, random_state=0).fit(ys)
    assert fit.timed_out_
    assert not fit.converged_
    assert len(fit.restarts_) == 1
    assert fit.n_iter_ == 0
    patient = MixtureOfHMMs(3, 3, time_limit=60.0, random_state=0).fit(ys)
    assert patient.converged_
    assert not patient.timed_out_


def test_weights_of_sequences_count_copies():
    ys, _ = separated(6, n=12)
    start = H3M([fit_hmms(ys[:1], 2, random_state=0)[0], fit_hmms(ys[1:2], 2, random_state=0)[0]])
    options = {"init": start, "max_iter": 3, "tol": 0}
    weighted = MixtureOfHMMs(2, 2, **options).fit(ys, sample_weight=[2.0] + [1.0] * 11).model_
    copied = MixtureOfHMMs(2, 2, **options).fit([ys[0], *ys]).model_
    np.testing.assert_allclose(weighted.transmat, copied.transmat, rtol=1e-6)


def test_scores_and_criteria_belong_together():
    ys, _ = separated(7)
    fits = [MixtureOfHMMs(k, 3, random_state=0, max_iter=500).fit(ys) for k in (1, 3)]
    assert fits[1].bic(ys) < fits[0].bic(ys)
    assert fits[1].aic(ys) < fits[0].aic(ys)
    fit = fits[1]
    assert fit.score(ys) == pytest.approx(fit.score_samples(ys).mean())
    assert (fit.predict(ys) == fit.labels_).all()
    np.testing.assert_allclose(fit.predict_proba(ys), fit.responsibilities_, atol=1e-9)
    n_parameters = 3 * (2 + 6 + 3 * 4) + 2
    assert fit.aic(ys) == pytest.approx(-2 * fit.score_samples(ys).sum() + 2 * n_parameters)
    sequences, labels = fit.sample(5, length=7, random_state=0)
    assert len(sequences) == len(labels) == 5


@QUIET
@pytest.mark.parametrize(
    "ys",
    [
        [np.full((9, 2), 3.0)] * 4,
        [np.ones((1, 2)), np.zeros((1, 2))],
        [1e8 + np.random.default_rng(0).normal(size=(20, 2)) for _ in range(4)],
        [1e-9 * np.random.default_rng(0).normal(size=(20, 2))] * 4,
        [np.full((5, 2), np.nan), np.random.default_rng(0).normal(size=(20, 2)), np.zeros((3, 2))],
    ],
)
@pytest.mark.parametrize("init", ["smyth", "kmeans", "ward", "random"])
def test_hard_input_gives_a_usable_mixture(ys, init):
    fit = MixtureOfHMMs(min(3, len(ys)), 2, init=init, n_init=1, random_state=0, max_iter=20).fit(ys)
    assert np.isfinite(fit.lower_bounds_).all()
    assert all(np.isfinite(a).all() for a in fit.model_.parameters.arrays().values())
    np.testing.assert_allclose(fit.responsibilities_.sum(axis=1), 1)


def test_more_hmms_than_sequences_are_refused():
    with pytest.raises(ValueError, match="n_components asks for 3, but there are only 2 sequences; ask for at most 2"):
        MixtureOfHMMs(3).fit(np.zeros((2, 5, 1)))


def test_large_collections_are_sampled_for_smyths_start(monkeypatch):
    monkeypatch.setattr("vhem.em.mixture_starts._SAMPLE", 20)
    ys, labels = separated(8, n=90)
    fit = MixtureOfHMMs(3, 3, init="smyth", n_init=1, random_state=0).fit(ys)
    assert adjusted_rand_score(labels, fit.labels_) >= 0.95


def test_a_falling_likelihood_is_an_error(monkeypatch):
    monkeypatch.setattr(mixtures, "maximise", spoiled_m_step(50))
    ys, _ = separated(0)
    with pytest.raises(BoundError, match="fell from"):
        MixtureOfHMMs(2, 2, reg_covar=0, random_state=0).fit(ys)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_components": 0}, "n_components must be"),
        ({"n_states": 1.5}, "n_states must be"),
        ({"init": "best"}, "init must be one of 'auto', 'smyth'"),
        ({"init": random_h3m(np.random.default_rng(0), 3)}, "n_components is 2, but init has 3 HMMs"),
        ({"time_limit": -1}, "time_limit must be"),
        ({"topology": "ring"}, "topology must be"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        MixtureOfHMMs(**{"n_components": 2, **arguments}).fit([np.zeros((4, 2)), np.ones((4, 2))])


def test_what_is_not_fitted_says_so():
    with pytest.raises(NotFittedError):
        MixtureOfHMMs().predict([[0.0]])


@pytest.mark.parametrize("form", [list, Sequences])
def test_pipeline_from_sequences_to_clusters(form):
    ys, labels = separated(9)
    pipeline = make_pipeline(HMMTransformer(n_states=3, random_state=0, max_iter=300), VHEM(3, random_state=0))
    assert adjusted_rand_score(labels, pipeline.fit_predict(form(ys))) >= 0.95
    assert (clone(pipeline).fit(form(ys)).predict(form(ys)) == pipeline.predict(form(ys))).all()
    assert len(pipeline[0].report_.n_iter) == len(ys)


@QUIET
@pytest.mark.parametrize("form", [list, Sequences])
def test_grid_search_splits_sequences(form):
    ys, _ = separated(10)
    grid = GridSearchCV(MixtureOfHMMs(n_states=3, random_state=0), {"n_components": [1, 3]}, cv=3)
    grid.fit(form(ys))
    assert grid.best_params_ == {"n_components": 3}
    pipeline = make_pipeline(HMMTransformer(max_iter=300, random_state=0), VHEM(3, n_init=1, random_state=0))
    search = GridSearchCV(pipeline, {"hmmtransformer__n_states": [1, 2]}, cv=3).fit(form(ys))
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_estimators_fit_like_their_clones_and_leave_the_data_alone():
    ys, _ = separated(11, n=15)
    before = [y.copy() for y in ys]
    first = MixtureOfHMMs(2, 2, random_state=0, max_iter=300)
    again = clone(first)
    assert (first.fit_predict(ys) == again.fit(ys).predict(ys)).all()
    assert (first.fit(ys).responsibilities_ == again.responsibilities_).all()
    assert first.n_features_in_ == HMMTransformer().fit(ys).n_features_in_ == 2
    assert all((x == y).all() for x, y in zip(ys, before, strict=True))


@pytest.mark.filterwarnings("ignore")
def test_floors_name_the_channel_that_does_not_vary():
    rng = np.random.default_rng(0)
    arrays = [np.column_stack([rng.normal(size=40), np.ones(40)]) for _ in range(4)]
    sequences = vhem.Sequences(arrays)
    for fit in (
        lambda: vhem.fit_hmms(sequences, 1, covars_prior=0, random_state=0),
        lambda: vhem.MixtureOfHMMs(2, 1, random_state=0).fit(sequences),
    ):
        with pytest.warns(RuntimeWarning, match=r"at their floor.*leave out 'x2', constant in some"):
            fit()


def test_an_hmm_without_items_stays_where_it_is():
    ys = [np.random.default_rng(seed).normal(size=(20, 1)) for seed in range(6)]
    near, far = (HMM([1.0], [[1.0]], [[mean]], [[1.0]]) for mean in (0.0, 2.0))
    start = H3M([near, far], weights=[1 - 1e-150, 1e-150])
    with pytest.warns(RuntimeWarning, match="1 HMM has no sequence"):
        fit = MixtureOfHMMs(2, init=start, max_iter=3, tol=0).fit(ys)
    assert fit.model_.means[1] == 2.0
    assert np.isfinite(fit.model_.covars).all()
