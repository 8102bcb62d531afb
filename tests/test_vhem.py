"""The estimator VHEM: what a user sees, the contract, and the cases that must not break it."""

import itertools
import warnings

import numpy as np
import pytest
from helpers import (
    available_engines,
    left_right,
    random_covars,
    random_h3m,
    random_hmm,
    random_rows,
    spoiled_m_step,
    use_engine,
)
from hmmlearn.hmm import GaussianHMM
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics import adjusted_rand_score

from vhem import H3M, HMM, VHEM, divergence, expected_log_likelihood
from vhem.em import reduction, sharding
from vhem.em.loop import BoundError
from vhem.em.resize import Chain, resize, stack_chains


def clustered(seed=0, K=60, n_clusters=3, S=3, M=1, d=2, spread=4.0, covariance_type="diag"):
    """HMMs scattered around a few prototypes, and which prototype each came from."""
    rng = np.random.default_rng(seed)
    labels = np.arange(K) % n_clusters
    centers = spread * rng.standard_normal((n_clusters, S, M, d))
    h3m = H3M.from_arrays(
        random_rows(rng, (K, S)),
        0.5 * np.eye(S) + 0.5 * random_rows(rng, (K, S, S)),
        centers[labels] + 0.2 * rng.standard_normal((K, S, M, d)),
        random_covars(rng, (K, S, M, d), covariance_type),
        random_rows(rng, (K, S, M)),
    )
    return h3m, labels


def assert_same_models(a, b, rtol=1e-8, atol=1e-10):
    for name in ("weights", "startprob", "transmat", "mix_weights", "means", "covars"):
        np.testing.assert_allclose(getattr(a, name), getattr(b, name), rtol=rtol, atol=atol, err_msg=name)


@pytest.mark.parametrize("init", ["auto", "base", "kmeans++", "emissions", "spectral"])
@pytest.mark.parametrize("covariance_type", ["diag", "full"])
def test_separated_clusters_are_found(init, covariance_type):
    h3m, labels = clustered(covariance_type=covariance_type, M=2, spread=8.0)
    fit = VHEM(3, init=init, n_init=6, random_state=0).fit(h3m)
    assert adjusted_rand_score(labels, fit.labels_) == 1.0
    assert fit.converged_
    assert len(fit.restarts_) == 6
    assert max(r.lower_bounds[-1] for r in fit.restarts_) == pytest.approx(fit.lower_bound_, rel=1e-12)
    np.testing.assert_array_equal(fit.labels_, fit.predict(h3m))
    np.testing.assert_allclose(fit.responsibilities_, fit.predict_proba(h3m), atol=1e-9)
    np.testing.assert_array_equal(fit.transform(h3m), expected_log_likelihood(h3m, fit.centers_, 10))
    assert fit.score(h3m) == pytest.approx(fit.lower_bound_ / (100.0 * len(h3m)), rel=1e-9)


def test_states_of_many_gaussians_start_from_those_of_the_inputs():
    """Inputs that are one HMM but for noise: the start from emissions must find as good a centre as the truth does."""
    rng = np.random.default_rng(0)
    K, S, M, d = 20, 2, 6, 8
    rows, even = np.array([[0.9, 0.1], [0.1, 0.9]]), np.full((K, S, M), 1 / M)
    center, ones = rng.normal(scale=4, size=(1, S, M, d)), np.ones((K, S, M, d))
    start, trans, noisy = np.full((K, S), 0.5), np.tile(rows, (K, 1, 1)), center + 0.3 * rng.standard_normal(ones.shape)
    h3m = H3M.from_arrays(start, trans, noisy, ones, even)
    truth = H3M.from_arrays(start[:1], trans[:1], center, ones[:1], even[:1])
    reached, best = (VHEM(1, init=i, n_init=4, random_state=0).fit(h3m).lower_bound_ for i in ("emissions", truth))
    assert reached == pytest.approx(best, rel=1e-6)  # Gaussians split along one axis: 1 % less


def test_centres_average_their_members():
    h3m, _ = clustered(spread=12.0)
    fit = VHEM(3, random_state=0).fit(h3m)
    for j in range(3):
        members = h3m[np.flatnonzero(fit.labels_ == j)]
        states = np.argsort(fit.centers_[j].means[:, 0, 0])
        theirs = np.sort(members.means[:, :, 0, 0], axis=1).mean(0)
        np.testing.assert_allclose(fit.centers_[j].means[states, 0, 0], theirs, atol=0.15)


@given(
    seed=st.integers(0, 10**6),
    K=st.integers(1, 12),
    n_clusters=st.integers(1, 6),
    n_states=st.none() | st.integers(1, 5),
    n_mix=st.none() | st.integers(1, 3),
    covariance_type=st.sampled_from([None, "diag", "full"]),
    tau=st.sampled_from([1, 2, 10, 60]),
    n_virtual=st.sampled_from([0.01, 1.0, 100.0, 1e6]),
    weight_form=st.sampled_from(["models", "virtual"]),
    ragged=st.booleans(),
    zeros=st.booleans(),
    init=st.sampled_from(["auto", "base", "kmeans++", "emissions", "spectral"]),
)
@settings(max_examples=80)
@example(1, 5, 2, 3, None, None, 1, 0.01, "models", False, True, "auto")  # a component of a centre loses all its weight
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning", "ignore:.*clusters:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:.*states? of the centres:RuntimeWarning")
def test_any_input_gives_finite_models_and_a_bound_that_never_falls(
    seed, K, n_clusters, n_states, n_mix, covariance_type, tau, n_virtual, weight_form, ragged, zeros, init
):
    h3m = random_h3m(np.random.default_rng(seed), K, 4, 2, 2, ["diag", "full"][seed % 2], ragged, zeros)
    n_clusters = min(n_clusters, K)
    fit = VHEM(
        n_clusters, n_states, n_mix, covariance_type, tau, n_virtual, init=init, n_init=2, max_iter=15,
        weight_form=weight_form, random_state=seed,
    ).fit(h3m)  # fmt: skip
    bounds = fit.lower_bounds_
    assert np.all(np.diff(bounds) >= -1e-9 * np.abs(bounds[1:]))
    assert len(fit.centers_) == n_clusters
    assert fit.centers_.covariance_type == (covariance_type or h3m.covariance_type)
    np.testing.assert_allclose(fit.responsibilities_.sum(1), 1.0)
    assert np.isfinite(fit.transform(h3m)).all()
    if n_states is not None:
        assert np.all(fit.centers_.n_states == n_states)
    assert np.all(np.diff(fit.centers_.weights) <= 1e-9)


def test_exactly_as_many_iterations_as_asked_for_and_the_order_kept():
    h3m, _ = clustered()
    start = h3m[[5, 1, 0]].with_weights([0.2, 0.5, 0.3])
    step = start
    for m in range(4):
        fit = VHEM(3, init=start, max_iter=m, tol=0, reg_covar=0).fit(h3m)
        assert fit.n_iter_ == m
        assert len(fit.lower_bounds_) == m + 1
        assert fit.lower_bounds_[-1] == fit.lower_bound_
        assert_same_models(fit.centers_, step)
        step = VHEM(3, init=step, max_iter=1, tol=0).fit(h3m).centers_


def test_order_is_canonical():
    h3m, _ = clustered(K=50, n_clusters=3, spread=12.0)
    fits = [VHEM(3, init=init, random_state=seed, n_init=12).fit(h3m) for seed, init in enumerate(("auto", "base"))]
    for fit in fits:
        assert np.all(np.diff(fit.centers_.weights) <= 0)
        assert np.all(np.diff(fit.centers_.stationary(), axis=1) <= 1e-9)
    assert_same_models(fits[0].centers_, fits[1].centers_, rtol=1e-2, atol=1e-2)


def test_order_of_inputs_and_of_states_changes_nothing_but_order():
    h3m, _ = clustered(M=2)
    start = h3m[[0, 1, 2]]
    reference = VHEM(3, init=start, max_iter=5, tol=0, n_virtual=0.05).fit(h3m)
    order = np.random.default_rng(0).permutation(len(h3m))
    shuffled = VHEM(3, init=start, max_iter=5, tol=0, n_virtual=0.05).fit(h3m[order])
    assert_same_models(shuffled.centers_, reference.centers_)
    np.testing.assert_allclose(shuffled.responsibilities_, reference.responsibilities_[order], atol=1e-9)
    turned = H3M([permuted(hmm, [2, 0, 1]) for hmm in h3m])
    assert_same_models(VHEM(3, init=start, max_iter=5, tol=0, n_virtual=0.05).fit(turned).centers_, reference.centers_)


def permuted(hmm, order):
    return HMM(
        hmm.startprob[order], hmm.transmat[order][:, order], hmm.means[order], hmm.covars[order], hmm.mix_weights[order]
    )


def test_every_input_twice_changes_no_centre():
    h3m, _ = clustered()
    start = h3m[[0, 1, 2]]
    for form in ("models", "virtual"):
        once = VHEM(3, init=start, max_iter=5, tol=0, n_virtual=0.05, weight_form=form).fit(h3m)
        twice = VHEM(3, init=start, max_iter=5, tol=0, n_virtual=0.05, weight_form=form).fit(H3M.pool([h3m, h3m]))
        assert_same_models(twice.centers_, once.centers_)


@pytest.mark.parametrize("layout", ["F", "strided", "float32"])
def test_memory_layout_changes_nothing(layout):
    h3m, _ = clustered()
    arrays = [np.array(a) for a in (h3m.startprob, h3m.transmat, h3m.means, h3m.covars, h3m.mix_weights)]
    if layout == "F":
        other = [np.asfortranarray(a) for a in arrays]
    elif layout == "strided":
        other = [np.repeat(a, 2, axis=0)[::2] for a in arrays]
    else:
        other = [a.astype(np.float32).astype(np.float64) for a in arrays]
        for a in (0, 1, 4):
            other[a] /= other[a].sum(-1, keepdims=True)
        arrays, other = other, [a.astype(np.float64) for a in other]
    fits = [VHEM(3, random_state=0).fit(H3M.from_arrays(*a)) for a in (arrays, other)]
    np.testing.assert_array_equal(fits[0].centers_.means, fits[1].centers_.means)


def test_one_seed_gives_one_answer_for_any_number_of_threads():
    h3m, _ = clustered(K=300, n_clusters=6, spread=1.0)
    fits = [VHEM(6, tau=20, random_state=3, n_jobs=n).fit(h3m) for n in (1, 2, 7, None)]
    for fit in fits[1:]:
        assert fit.centers_ == fits[0].centers_
        np.testing.assert_array_equal(fit.responsibilities_, fits[0].responsibilities_)
        np.testing.assert_array_equal(fit.lower_bounds_, fits[0].lower_bounds_)
    other = VHEM(6, tau=20, random_state=4, n_init=1).fit(h3m)
    assert other.lower_bounds_[0] != fits[0].lower_bounds_[0]


def test_engines_give_the_same_labels_and_centres(monkeypatch):
    h3m, _ = clustered(K=40, spread=1.0)
    fits = []
    for name in available_engines():
        use_engine(monkeypatch, name)
        fits.append(VHEM(4, init=h3m[:4], max_iter=20, tol=0).fit(h3m))
    for fit in fits[1:]:
        np.testing.assert_array_equal(fit.labels_, fits[0].labels_)
        assert_same_models(fit.centers_, fits[0].centers_)


def test_shortcuts_change_nothing():
    h3m, _ = clustered(K=200, n_clusters=8, spread=1.0)
    fits = [VHEM(8, tau=80, random_state=2, shortcuts=s, n_init=2, max_iter=30, tol=0).fit(h3m) for s in (True, False)]
    assert_same_models(fits[0].centers_, fits[1].centers_)
    np.testing.assert_allclose(fits[0].responsibilities_, fits[1].responsibilities_, atol=1e-9)


def test_one_cluster_of_one_gaussian_is_the_average():
    rng = np.random.default_rng(3)
    h3m = H3M([random_hmm(rng, 1, 1, 2) for _ in range(5)], weights=random_rows(rng, (5,)))
    center = VHEM(1, weight_form="virtual").fit(h3m).centers_[0]
    mean = h3m.weights @ h3m.means[:, 0, 0]
    np.testing.assert_allclose(center.means[0, 0], mean)
    spread = h3m.weights @ (h3m.covars[:, 0, 0] + (h3m.means[:, 0, 0] - mean) ** 2)
    np.testing.assert_allclose(center.covars[0, 0], spread)


def test_equal_inputs_stay_themselves():
    hmm = random_hmm(np.random.default_rng(4), 3, 1, 2)
    fit = VHEM(1, init=H3M([hmm]), max_iter=3, tol=0).fit([hmm] * 6)
    np.testing.assert_allclose(fit.centers_[0].means, hmm.means, atol=1.5)
    fit = VHEM(3, random_state=0, max_iter=50, tol=1e-3).fit([hmm] * 6)
    assert np.isfinite(fit.lower_bound_)


def test_as_many_clusters_as_inputs_but_no_more():
    h3m, _ = clustered(K=4, n_clusters=4)
    fit = VHEM(4, random_state=0, n_init=8).fit(h3m)
    assert sorted(fit.labels_) == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="n_clusters asks for 9, but there are only 4 HMMs; ask for at most 4"):
        VHEM(9, random_state=0).fit(h3m)
    some = h3m.with_weights([0.5, 0.5, 0.0, 0.0])
    with pytest.warns(RuntimeWarning, match=r"there are more clusters \(3\) than inputs with weight \(2\)"):
        VHEM(3, random_state=0).fit(some)


def test_empty_clusters_are_counted_and_warned_of_once():
    h3m, _ = clustered()
    far = H3M([*h3m[:2], HMM([1.0], [[1.0]], [[1e3, 1e3]], [[1.0, 1.0]])])
    with pytest.warns(RuntimeWarning, match="1 of 3 clusters is empty") as caught:
        fit = VHEM(3, init=far).fit(h3m)
    assert len(caught) == 1
    assert fit.n_empty_clusters_ == 1
    assert fit.centers_.weights[2] == 0
    np.testing.assert_array_equal(fit.centers_[2].means, far[2].means)
    assert set(fit.labels_) == {0, 1}


def test_inputs_of_weight_zero_take_no_part_but_are_labelled():
    h3m, labels = clustered(K=12)
    heavy = h3m[:9]
    weights = np.r_[np.full(9, 1 / 9), np.zeros(3)]
    start = h3m[[0, 1, 2]]
    alone = VHEM(3, init=start, n_virtual=1.0, max_iter=6, tol=0).fit(heavy)
    beside = VHEM(3, init=start, n_virtual=9 / 12, max_iter=6, tol=0).fit(h3m.with_weights(weights))
    assert_same_models(beside.centers_, alone.centers_)
    assert beside.lower_bound_ == pytest.approx(alone.lower_bound_)
    assert adjusted_rand_score(labels, beside.labels_) == 1.0
    np.testing.assert_allclose(beside.responsibilities_.sum(1), 1.0)


@pytest.mark.filterwarnings("ignore:.*clusters:RuntimeWarning")
def test_inputs_of_next_to_no_weight_do_no_harm():
    h3m, labels = clustered(K=12)
    weights = np.r_[np.full(9, 1 / 9), [1e-318, 1e-200, 1e-30]]
    for form in ("models", "virtual"):
        far = H3M([*h3m[:3], HMM([1.0], [[1.0]], [[90.0, 90.0]], [[1.0, 1.0]])])
        fit = VHEM(4, init=far, weight_form=form, max_iter=30, tol=1e-9).fit(h3m.with_weights(weights / weights.sum()))
        assert adjusted_rand_score(labels[:9], fit.labels_[:9]) == 1.0
        assert np.isfinite(fit.responsibilities_).all()


def test_weights_of_the_second_form_follow_the_inputs_weights():
    h3m, labels = clustered(K=12, n_clusters=2)
    weights = np.where(labels == 0, 3.0, 1.0)
    h3m = h3m.with_weights(weights / weights.sum())
    for form, expected in (("models", [0.5, 0.5]), ("virtual", [0.75, 0.25])):
        fit = VHEM(2, weight_form=form, random_state=0).fit(h3m)
        np.testing.assert_allclose(fit.centers_.weights, expected, atol=1e-9)


def test_one_frame_keeps_the_transitions_of_the_start():
    h3m, _ = clustered()
    start = h3m[[0, 1, 2]]
    fit = VHEM(3, init=start, tau=1, max_iter=10, tol=0).fit(h3m)
    np.testing.assert_allclose(fit.centers_.transmat, start.transmat, rtol=1e-15)


def test_left_right_inputs_keep_their_zeros_from_a_left_right_start():
    rng = np.random.default_rng(6)
    hmms = [left_right(5, 3.0 + 0.1 * rng.random(), stay=s) for s in rng.uniform(0.5, 0.95, 20)]
    fit = VHEM(2, init="base", tau=40, random_state=0).fit(hmms)
    for hmm in VHEM(2, init=H3M(hmms[:2]), tau=40).fit(hmms).centers_:
        assert np.all(hmm.transmat[np.tril_indices(5, -1)] == 0)
        assert hmm.startprob[0] == 1.0
    assert np.isfinite(fit.lower_bound_)


def test_a_start_a_million_deviations_off_does_not_lose_the_covariances():
    rng = np.random.default_rng(0)
    h3m = H3M([random_hmm(rng, 1, 1, 2) for _ in range(10)])
    far = H3M([HMM([1.0], [[1.0]], [[1e7, -1e7]], [[1.0, 1.0]])])
    fit = VHEM(1, init=far, max_iter=3, tol=0, n_virtual=1e-3).fit(h3m)
    near = VHEM(1, init=h3m[:1], max_iter=3, tol=0, n_virtual=1e-3).fit(h3m)
    assert_same_models(fit.centers_, near.centers_, rtol=1e-7)


def test_grown_and_shrunk_models_stay_close():
    hmm = random_hmm(np.random.default_rng(2), 4, 2, 2)
    for n_states, n_mix in itertools.product((1, 2, 4, 7), (1, 2, 5)):
        chain = resize(Chain.of(hmm.parameters, 0, 10), n_states, n_mix)
        model = H3M.of_models(stack_chains([chain]))[0]
        assert model.means.shape == (n_states, n_mix, 2)
        np.testing.assert_allclose(overall_mean(model), overall_mean(hmm), atol=0.35)
    same = resize(Chain.of(hmm.parameters, 0, 10), 4, 2)
    np.testing.assert_array_equal(same.transmat, hmm.transmat)


def overall_mean(hmm):
    chain = Chain.of(hmm.parameters, 0, 10)
    return chain.visits @ np.stack([e.whole().means[0] for e in chain.emissions]) / chain.visits.sum()


def test_divergence():
    h3m, _ = clustered(K=40)
    D = divergence(h3m, h3m, tau=5)
    np.testing.assert_allclose(np.diagonal(D), 0.0, atol=1e-9)
    J = expected_log_likelihood(h3m, h3m, tau=5)
    np.testing.assert_allclose(D, np.diagonal(J)[:, None] - J, atol=1e-9)
    assert expected_log_likelihood(h3m[0], h3m[1]).shape == (1, 1)
    full = random_hmm(np.random.default_rng(0), 2, 1, 2, "full")
    assert np.isfinite(expected_log_likelihood(h3m, full)).all()
    assert np.isfinite(expected_log_likelihood(full, h3m)).all()


def test_mixed_covariance_types_are_exact():
    h3m, _ = clustered(K=6)
    as_full = H3M([HMM(h.startprob, h.transmat, h.means, h.covars[..., None] * np.eye(2), h.mix_weights) for h in h3m])
    J = expected_log_likelihood(h3m, h3m)
    for a, b in ((h3m, as_full), (as_full, h3m), (as_full, as_full)):
        np.testing.assert_allclose(expected_log_likelihood(a, b), J, rtol=1e-12)


def test_progress_is_told(capsys):
    h3m, _ = clustered()
    seen = []
    fit = VHEM(3, n_init=3, random_state=0, callback=seen.append, verbose=True).fit(h3m)
    for r, restart in enumerate(fit.restarts_):
        told = [p for p in seen if p.restart == r]
        np.testing.assert_array_equal([p.lower_bound for p in told], restart.lower_bounds)
        assert [p.iteration for p in told] == list(range(len(told)))
        assert {p.init for p in told} == {restart.init}
        assert told[-1].converged == restart.converged
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == len(seen) + 1
    assert printed[-1].startswith("VHEM keeps restart")


def test_scikit_learn_manners():
    h3m, labels = clustered()
    model = VHEM(3, tau=5, random_state=0)
    assert clone(model).get_params() == model.get_params()
    assert adjusted_rand_score(labels, model.fit_predict(h3m)) == 1.0
    assert model.set_params(n_clusters=2).fit(h3m).centers_.weights.shape == (2,)
    assert model.fit_transform(h3m).shape == (60, 2)
    with pytest.raises(NotFittedError):
        VHEM(2).predict(h3m)


def test_stopping_early_is_warned_of():
    h3m, _ = clustered(spread=0.5)
    with pytest.warns(ConvergenceWarning, match="raise max_iter"):
        fit = VHEM(3, max_iter=1, random_state=0).fit(h3m)
    assert not fit.converged_


def test_regularisation_that_lowers_the_bound_is_counted_not_raised():
    h3m, _ = clustered()
    with pytest.warns(RuntimeWarning, match="bound fell in") as caught:
        VHEM(3, reg_covar=5.0, random_state=0, max_iter=20, tol=1e-3).fit(h3m)
    assert sum("bound fell" in str(w.message) for w in caught) == 1


def test_a_fault_that_lowers_the_bound_is_raised(monkeypatch):
    h3m, _ = clustered()
    monkeypatch.setattr(reduction, "maximise", spoiled_m_step(1))
    with pytest.raises(BoundError, match="fell from"):
        VHEM(3, init=h3m[:3], max_iter=5).fit(h3m)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_clusters": 0}, "n_clusters must be an integer of at least 1, got 0"),
        ({"n_clusters": 2.5}, "n_clusters must be an integer"),
        ({"n_states": 0}, "n_states must be"),
        ({"n_mix": "two"}, "n_mix must be"),
        ({"covariance_type": "tied"}, "covariance_type must be one of 'diag', 'full', got 'tied'"),
        ({"tau": 0}, "tau must be"),
        ({"n_virtual": 0.0}, "n_virtual must be a finite number greater than 0, got 0.0"),
        ({"n_virtual": np.inf}, "n_virtual must be"),
        ({"init": "random"}, "init must be one of"),
        ({"n_init": 0}, "n_init must be"),
        ({"max_iter": -1}, "max_iter must be"),
        ({"tol": np.nan}, "tol must be"),
        ({"reg_covar": -1.0}, "reg_covar must be"),
        ({"weight_form": "paper"}, "weight_form must be"),
        ({"n_jobs": 0}, "n_jobs must be"),
        ({"shortcuts": "no"}, "shortcuts must be True or False, got 'no'"),
        ({"verbose": 2}, "verbose must be True or False"),
        ({"callback": 3}, "callback must be a function"),
        ({"random_state": "x"}, "random_state must be"),
        ({"init": H3M([left_right(2)])}, "n_clusters is 2, but init has 1 HMM: make"),
    ],
)
def test_bad_parameters_are_named(change, message):
    h3m, _ = clustered(K=6, d=1)
    with pytest.raises(ValueError, match=message):
        VHEM(**{"n_clusters": 2, **change}).fit(h3m)


def test_bad_input_is_named():
    h3m, _ = clustered(K=6)
    with pytest.raises(TypeError, match="X must be an H3M, an HMM or a list of HMMs, got a ndarray in a list"):
        VHEM(2).fit([h3m[0], np.zeros((10, 2))])
    with pytest.raises(TypeError, match="got an empty list"):
        VHEM(2).fit([])
    with pytest.raises(TypeError, match=r"got GaussianHMM: convert it with vhem\.from_hmmlearn"):
        VHEM(2).fit(GaussianHMM(2).fit(np.random.default_rng(0).normal(size=(50, 1))))
    with pytest.raises(TypeError, match="these are HMMs, not sequences"):
        h3m.predict([h3m[0]])
    with pytest.raises(ValueError, match="X has HMMs of 2 dimensions, init of 1"):
        VHEM(2, init=[left_right(2), left_right(3)]).fit(h3m)
    with pytest.raises(ValueError, match="base has HMMs of 2 dimensions, reduced of 1"):
        expected_log_likelihood(h3m, left_right(2))
    huge = H3M([HMM([1.0], [[1.0]], [[m]], [[1e-300]]) for m in (1e160, -1e160, 0.0)])
    for init in ("base", "kmeans++", "emissions", "spectral", huge[:2]):
        with pytest.raises(ValueError, match="too extreme for double precision"):
            VHEM(2, init=init, random_state=0).fit(huge)
    with pytest.raises(ValueError, match="too extreme for double precision"):
        expected_log_likelihood(huge, huge)


def test_only_the_restart_that_is_kept_warns():
    """Restarts that were stopped early say so in `restarts_`; the fit as a whole warns only if the best one was."""
    h3m, _ = clustered(K=30, n_clusters=3)
    settings = {"n_clusters": 3, "n_init": 6, "random_state": 1}
    steps = [len(restart.lower_bounds) - 1 for restart in VHEM(**settings).fit(h3m).restarts_]
    seen = set()
    for max_iter in (min(steps) - 1, min(steps), max(steps) - 1):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            fit = VHEM(**settings, max_iter=max_iter).fit(h3m)
        best = max(fit.restarts_, key=lambda restart: restart.lower_bounds[-1])
        assert fit.converged_ == best.converged
        assert any(issubclass(w.category, ConvergenceWarning) for w in caught) == (not best.converged)
        seen.add((best.converged, all(restart.converged for restart in fit.restarts_)))
    assert {(False, False), (True, False)} <= seen, "both cases were met"
    assert "array" not in repr(fit.restarts_)


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_the_executors_threads_are_used_for_few_inputs(n_jobs, monkeypatch):
    """Up to 8,192 inputs are one shard, whose E-step gets all the threads there are."""
    threads, plain = [], sharding.e_step

    def watched(base, reduced, weights, shortcuts, n_threads, *rest):
        threads.append(n_threads)
        return plain(base, reduced, weights, shortcuts, n_threads, *rest)

    hmms = clustered()[0]
    fit = VHEM(3, init="base", n_init=1, executor="threads", n_jobs=n_jobs, random_state=0)
    expected = fit.fit(hmms).lower_bounds_
    monkeypatch.setattr(sharding, "e_step", watched)
    np.testing.assert_array_equal(fit.fit(hmms).lower_bounds_, expected)
    assert set(threads) == {n_jobs}
