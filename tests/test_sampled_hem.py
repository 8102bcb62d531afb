"""SampledHEM: clustering HMMs by sequences drawn from them."""

import numpy as np
import pytest
from helpers import available_engines, random_h3m, use_engine
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics import adjusted_rand_score
from test_vhem import assert_same_models, clustered

from vhem import H3M, HMM, VHEM, SampledHEM


@pytest.mark.parametrize("engine", available_engines())
def test_separated_clusters_are_found(engine, monkeypatch):
    use_engine(monkeypatch, engine)
    h3m, labels = clustered(K=12, M=2, spread=6.0)
    fit = SampledHEM(3, n_samples=6, max_iter=30, tol=1e-3, random_state=0).fit(h3m)
    assert adjusted_rand_score(labels, fit.labels_) == 1.0
    assert np.all(np.diff(fit.lower_bounds_) >= -1e-9 * np.abs(fit.lower_bounds_[1:]))
    assert adjusted_rand_score(fit.labels_, fit.predict(h3m)) == 1.0
    assert fit.transform(h3m).shape == (12, 3)


def test_engines_agree(monkeypatch):
    h3m, _ = clustered(K=10, covariance_type="full", spread=2.0)
    fits = []
    for engine in available_engines():
        use_engine(monkeypatch, engine)
        fits.append(SampledHEM(3, n_samples=5, n_init=1, max_iter=5, tol=0, random_state=0).fit(h3m))
    for fit in fits[1:]:
        np.testing.assert_array_equal(fit.labels_, fits[0].labels_)
        assert_same_models(fit.centers_, fits[0].centers_, rtol=1e-6, atol=1e-8)


def test_labels_approach_vhems_as_samples_grow():
    """Two ways of looking, little apart: one sequence of each HMM misleads, many lead where VHEM goes."""
    rng = np.random.default_rng(0)
    shift = 0.4 * (np.arange(30) % 2) + 0.1 * rng.normal(size=30)
    hmms = [HMM([0.5, 0.5], [[0.7, 0.3], [0.3, 0.7]], [[x], [8 + x]], np.ones((2, 1))) for x in shift]
    h3m = H3M(hmms)
    target = VHEM(2, n_virtual=1000, random_state=0).fit(h3m).labels_
    agreement = []
    for n in (1, 10, 1000):
        fits = [SampledHEM(2, n_samples=n, random_state=seed, tol=1e-4).fit(h3m) for seed in range(4)]
        agreement.append(np.mean([adjusted_rand_score(target, fit.labels_) for fit in fits]))
    assert agreement[0] < 0.5
    assert agreement[0] < agreement[1] < agreement[2]
    assert agreement[2] > 0.85


def test_scores_approach_the_true_expectation_above_vhems_bound():
    h3m = random_h3m(np.random.default_rng(1), 3)
    fit = SampledHEM(3, init=h3m, n_samples=4000, max_iter=0, tol=0, tau=5, random_state=0).fit(h3m)
    drawn, bound = fit.transform(h3m), VHEM(3, init=h3m, max_iter=0, tau=5, tol=0).fit(h3m).transform(h3m)
    assert np.all(drawn > bound - 0.1)


def test_one_seed_one_answer_for_any_number_of_threads():
    h3m, _ = clustered(K=10)
    fits = [SampledHEM(2, n_samples=20, random_state=3, n_jobs=n, tol=1e-3).fit(h3m) for n in (1, 2)]
    assert fits[0].centers_ == fits[1].centers_
    assert clone(fits[0]).fit(h3m).centers_ == fits[0].centers_


def test_weights_and_inputs_without_weight():
    h3m, labels = clustered(K=9, spread=6.0)
    weights = np.array([0.0, 1, 1, 1, 1, 1, 1, 1, 1]) / 8
    fit = SampledHEM(3, n_samples=30, random_state=0).fit(h3m.with_weights(weights))
    assert adjusted_rand_score(labels, fit.labels_) == 1.0
    assert fit.centers_.weights.sum() == pytest.approx(1.0)
    assert fit.centers_.weights.min() == pytest.approx(2 / 8)


def test_frames_far_from_the_origin_and_single_frames():
    h3m, labels = clustered(K=9, spread=6.0)
    far = H3M([HMM(h.startprob, h.transmat, h.means + 1e6, h.covars) for h in h3m])
    fit = SampledHEM(3, n_samples=30, random_state=0).fit(far)
    assert adjusted_rand_score(labels, fit.labels_) == 1.0
    start = h3m[[0, 1, 2]]
    single = SampledHEM(3, tau=1, init=start, n_samples=30, max_iter=5, tol=0, random_state=0).fit(h3m)
    np.testing.assert_array_equal(single.centers_.transmat, start.transmat)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_clusters": 0}, "n_clusters must be an integer of at least 1"),
        ({"n_samples": 0}, "n_samples must be an integer of at least 1"),
        ({"tau": 1.5}, "tau must be an integer"),
        ({"init": "x"}, "init must be one of"),
        ({"init": random_h3m(np.random.default_rng(0), 3)}, "n_clusters is 2, but init has 3 HMMs"),
    ],
)
def test_bad_parameters(change, message):
    with pytest.raises(ValueError, match=message):
        SampledHEM(**{"n_clusters": 2, **change}).fit(random_h3m(np.random.default_rng(0), 4))


def test_bad_use():
    h3m = random_h3m(np.random.default_rng(0), 4)
    with pytest.raises(TypeError, match="X must be an H3M"):
        SampledHEM(1).fit(np.zeros((3, 2)))
    with pytest.raises(NotFittedError):
        SampledHEM(1).predict(h3m)
    with pytest.warns(ConvergenceWarning, match="SampledHEM stopped after 1 iteration, before"):
        fit = SampledHEM(2, max_iter=1, tol=1e-12, random_state=0).fit(h3m)
    with pytest.raises(ValueError, match="must model the same kind of observation"):
        fit.predict(random_h3m(np.random.default_rng(0), 2, d=5))
