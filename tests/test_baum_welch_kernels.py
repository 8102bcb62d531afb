"""The E-step and M-step of Baum-Welch on every engine: against enumeration, hmmlearn, the NumPy truth, and by hand."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import available_engines, enumerate_paths, left_right, random_h3m, random_hmm, use_engine
from scipy.special import logsumexp

from vhem import H3M, HMM, Sequences
from vhem.emissions.gaussian import Gaussian, GaussianPrior
from vhem.kernels import compiled
from vhem.kernels import engine as engine_module
from vhem.kernels import kmeans as kmeans_module
from vhem.kernels.counting import Counts, Pairs, expectations, log_likelihoods
from vhem.kernels.filtering import posteriors
from vhem.kernels.maximise import Prior, maximise
from vhem.kernels.moments import group_moments
from vhem.kernels.reference import counting as reference

ENGINES = available_engines()


@pytest.fixture(params=ENGINES)
def engine(request, monkeypatch):
    use_engine(monkeypatch, request.param)
    yield request.param
    engine_module._detect.cache_clear()


def some_missing(rng, ys, share=0.3):
    return [np.where(rng.random(y.shape) < share, np.nan, y) for y in ys]


def flat_prior(parameters):
    (K, S, _), d = parameters.shape, parameters.n_dims
    return Prior(np.zeros((K, S)), np.zeros((K, S, S)), gaussian_prior(0.0, np.full((K, d), 1e-12)))


def gaussian_prior(count, floor):
    return GaussianPrior(count=count, mean=np.zeros(floor.shape), scale=np.ones(floor.shape), floor=floor)


def named(e):
    return {"scores": e.log_likelihoods, "start": e.sums.start, "trans": e.sums.trans, **e.sums.components}


def check_close(found, truth, tolerance=1e-9):
    for (name, x), y in zip(named(found).items(), named(Counts(*truth)).values(), strict=True):
        np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance * max(1.0, np.abs(y).max()), err_msg=name)


@pytest.mark.parametrize("covariance_type", ["diag", "full"])
@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.usefixtures("engine")
def test_against_enumeration_of_all_paths(covariance_type, zeros):
    rng = np.random.default_rng(1)
    hmm = random_hmm(rng, 3, 1, 2, covariance_type, zeros)
    ys = [2 * rng.normal(size=(T, 2)) for T in (1, 2, 5, 5)]
    s = Sequences(ys)
    p = H3M([hmm]).parameters
    pairs = Pairs.grouped(s.lengths, np.zeros(4, dtype=np.int64))
    weights = np.array([1.0, 0.5, 2.0, 1.0])[pairs.sequence]
    e = expectations(p, s.X, s.offsets, pairs, weights)
    start, trans, first = np.zeros(3), np.zeros((3, 3)), np.zeros((3, 2))
    for y, w in zip(ys, [1.0, 0.5, 2.0, 1.0], strict=True):
        paths, joint = enumerate_paths(hmm, y)
        share = w * np.exp(joint - logsumexp(joint))
        for path, q in zip(paths, share, strict=True):
            start[path[0]] += q
            np.add.at(trans, (path[:-1], path[1:]), q)
            np.add.at(first, path, q * (y - hmm.means[path, 0]))
    np.testing.assert_allclose(e.sums.start[0], start, atol=1e-11)
    np.testing.assert_allclose(e.sums.trans[0], trans, atol=1e-11)
    np.testing.assert_allclose(e.sums.components["first"][0, :, 0], first, atol=1e-11)
    assert e.log_likelihoods == pytest.approx([logsumexp(enumerate_paths(hmm, ys[i])[1]) for i in pairs.sequence])


@pytest.mark.parametrize("seed", range(10))
def test_engines_agree_and_threads_leave_every_bit(seed, engine, monkeypatch):
    rng = np.random.default_rng(seed)
    S, M, d = (int(rng.integers(1, n)) for n in (7, 4, 5))
    covariance_type = ["diag", "full"][seed % 2]
    h3m = random_h3m(rng, 4, S, M, d, covariance_type, ragged=seed % 3 == 0, zeros=seed % 4 < 2)
    ys = [2 * rng.normal(size=(int(T), d)) for T in rng.integers(1, 80, size=10)]
    s = Sequences(some_missing(rng, ys, 0.2) if seed % 5 < 2 else ys)
    for pairs in (Pairs.crossed(s.lengths, 4), Pairs.grouped(s.lengths, rng.integers(0, 4, size=10))):
        weights = rng.random(len(pairs.model))
        weights[::7] = 0.0
        anchors = Gaussian(h3m.means + 0.1 * rng.normal(size=h3m.means.shape), h3m.covars)
        found = expectations(h3m.parameters, s.X, s.offsets, pairs, weights, 1, anchors)
        check_close(found, reference.expectations(h3m.parameters, s.X, s.offsets, *pairs, weights, anchors))
        if engine != "reference":
            monkeypatch.setattr(compiled, "_THREAD_WORK", 1.0)
            again = expectations(h3m.parameters, s.X, s.offsets, pairs, weights, 3, anchors)
            assert all((x == y).all() for x, y in zip(named(found).values(), named(again).values(), strict=True))


@pytest.mark.usefixtures("engine")
def test_left_right_models_far_from_the_data_do_not_underflow():
    rng = np.random.default_rng(2)
    hmms = [left_right(12, separation=s, stay=0.5) for s in (40.0, 4.0, 100.0)]
    h3m = H3M(hmms)
    s = Sequences([np.cumsum(rng.normal(size=(T, 1)), axis=0) + 400 for T in (30, 31, 32, 33, 90)])
    pairs = Pairs.crossed(s.lengths, 3)
    weights = np.ones(len(pairs.model))
    found = expectations(h3m.parameters, s.X, s.offsets, pairs, weights)
    check_close(found, reference.expectations(h3m.parameters, s.X, s.offsets, *pairs, weights, h3m.emissions))
    np.testing.assert_allclose(found.sums.components["count"].sum(axis=(1, 2)), len(s.X), rtol=1e-9)


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("smallest", [1e-30, 1e-99, 1e-101])
@pytest.mark.parametrize("T", [1, 2, 7, 8])
def test_frames_that_force_almost_impossible_transitions(smallest, T):
    """Compiled recursions are not scaled at every frame: whatever is lost meanwhile must not matter."""
    S, n = 3, 9
    trans = np.full((S, S), smallest) + (1 - S * smallest) * np.eye(S)
    means = 30.0 * np.arange(S)[:, None]
    h3m = H3M([HMM(np.full(S, 1 / S), trans, means, np.ones((S, 1)))])
    rng = np.random.default_rng(T)
    for lengths in (np.full(n, T), rng.integers(1, T + 1, n)):  # all equal, and not
        s = Sequences([means[rng.integers(S, size=k)] + rng.normal(size=(k, 1)) for k in lengths])
        pairs = Pairs.crossed(s.lengths, 1)
        found = expectations(h3m.parameters, s.X, s.offsets, pairs, np.ones(n))
        truth = reference.expectations(h3m.parameters, s.X, s.offsets, *pairs, np.ones(n), h3m.emissions)
        np.testing.assert_allclose(found.log_likelihoods, truth[0], rtol=1e-12)
        check_close(found, truth)


@pytest.mark.parametrize("covariance_type", ["diag", "full"])
@pytest.mark.parametrize("n_mix", [1, 2])
@pytest.mark.usefixtures("engine")
def test_one_step_against_hmmlearn(covariance_type, n_mix):
    hmmlearn = pytest.importorskip("hmmlearn.hmm")
    rng = np.random.default_rng(3)
    hmm = random_hmm(rng, 3, n_mix, 2, covariance_type)
    ys = [hmm.sample(1, T, random_state=T)[0] for T in (40, 60, 25, 80)]
    if n_mix == 1:
        rival = hmmlearn.GaussianHMM(3, covariance_type, n_iter=1, init_params="", covars_prior=0.0, min_covar=0.0)
        rival.means_, rival.covars_ = hmm.means[:, 0], hmm.covars[:, 0]
    else:
        rival = hmmlearn.GMMHMM(3, 2, covariance_type=covariance_type, n_iter=1, init_params="", min_covar=0.0)
        rival.weights_, rival.means_, rival.covars_ = hmm.mix_weights, hmm.means, hmm.covars
    rival.startprob_, rival.transmat_ = hmm.startprob, hmm.transmat
    rival.n_features = 2
    rival.fit(np.concatenate(ys), [len(y) for y in ys])
    s, p = Sequences(ys), H3M([hmm]).parameters
    pairs = Pairs.grouped(s.lengths, np.zeros(4, dtype=np.int64))
    e = expectations(p, s.X, s.offsets, pairs, np.ones(4))
    after = H3M.of_models(maximise(e.sums, p, flat_prior(p)).models)
    np.testing.assert_allclose(after.startprob[0], rival.startprob_, atol=1e-9)
    np.testing.assert_allclose(after.transmat[0], rival.transmat_, atol=1e-9)
    if n_mix == 1:
        np.testing.assert_allclose(after.means[0, :, 0], rival.means_, rtol=1e-9)
        rows = "kii->ki" if covariance_type == "diag" else "kij->kij"
        np.testing.assert_allclose(after.covars[0, :, 0], np.einsum(rows, rival.covars_), rtol=1e-9)
    else:
        np.testing.assert_allclose(after.mix_weights[0], rival.weights_, rtol=1e-9)
        np.testing.assert_allclose(after.means[0], rival.means_, rtol=1e-9)
        n = e.sums.components["count"][0].reshape(3, 2, *[1] * (after.covars.ndim - 3))
        about_old_means = (
            e.sums.components["second"][0] / n
        )  # hmmlearn's mixtures take covariances about the means before the step
        np.testing.assert_allclose(about_old_means, rival.covars_, rtol=1e-9)
    assert e.log_likelihoods.sum() == pytest.approx(rival.monitor_.history[0], rel=1e-9)


@pytest.mark.usefixtures("engine")
def test_a_missing_dimension_is_integrated_out():
    """One Gaussian, by hand: E and Cov of what is missing given what is seen, and the observed-data likelihood."""
    mean, covar = np.array([1.0, -2.0]), np.array([[2.0, 0.8], [0.8, 1.0]])
    p = H3M.from_arrays(np.ones((1, 1)), np.ones((1, 1, 1)), mean[None, None], covar[None, None]).parameters
    s = Sequences([np.array([[np.nan, 0.5], [2.0, np.nan], [0.0, 1.0], [np.nan, np.nan]])])
    e = expectations(p, s.X, s.offsets, Pairs(np.zeros(1, np.int64), np.zeros(1, np.int64)), np.ones(1))
    filled = np.array([[1 + 0.8 * 2.5, 0.5], [2.0, -2 + 0.4 * 1.0], [0.0, 1.0], [1.0, -2.0]])
    added = np.array([[2 - 0.64, 0.0], [0.0, 0.0]]) + np.array([[0.0, 0.0], [0.0, 1 - 0.32]]) + covar
    offset = filled - mean
    np.testing.assert_allclose(e.sums.components["first"][0, 0, 0], offset.sum(axis=0), atol=1e-12)
    np.testing.assert_allclose(e.sums.components["second"][0, 0, 0], offset.T @ offset + added, atol=1e-12)
    inner = np.array([-1.0, 3.0])
    by_hand = -0.5 * (np.log(2 * np.pi) + 2.5**2) - 0.5 * (np.log(2 * np.pi * 2) + 0.5)
    by_hand -= 0.5 * (2 * np.log(2 * np.pi) + np.log(np.linalg.det(covar)) + inner @ np.linalg.solve(covar, inner))
    assert e.log_likelihoods[0] == pytest.approx(by_hand)


@pytest.mark.usefixtures("engine")
def test_weights_too_small_to_show_add_nothing():
    """Weights below the smallest normal double were added up from memory that nobody had written."""
    rng = np.random.default_rng(0)
    h3m = random_h3m(rng, K=2, S=3, d=2)
    s = Sequences(rng.normal(size=(40, 20, 2)))
    pairs, weights = Pairs.crossed(s.lengths, 2), np.ones(80)
    expectations(h3m.parameters, s.X, s.offsets, pairs, weights)  # leaves numbers in memory that is used again
    weights[1::2] = 1e-310
    found = named(expectations(h3m.parameters, s.X, s.offsets, pairs, weights))
    truth = named(expectations(h3m.parameters, s.X, s.offsets, pairs, np.where(weights < 1, 0.0, weights)))
    for name in found:
        np.testing.assert_allclose(found[name], truth[name], rtol=1e-15, err_msg=name)


@pytest.mark.parametrize("staying", [0.9, 1 - 1e-6])
def test_long_sequences_in_stretches(staying, monkeypatch):
    """Cut where the chain forgets, and done in one piece where it does not: as the posteriors, which are not cut."""
    use_engine(monkeypatch, ENGINES[-1])
    rng = np.random.default_rng(0)
    T, S = 70_001, 2
    leaving = (1 - staying) / (S - 1)
    hmm = HMM([0.3, 0.7], np.full((S, S), leaving) + (staying - leaving) * np.eye(S), [[0.0], [0.4]], [[1.0], [2.0]])
    x = rng.normal(size=(T, 1))
    s, p = Sequences([x]), H3M([hmm]).parameters
    one, two = (expectations(p, s.X, s.offsets, Pairs.crossed(s.lengths, 1), np.full(1, 2.0), n) for n in (1, 2))
    for name, array in named(one).items():
        assert np.array_equal(array, named(two)[name]), name
    scores, gamma = posteriors(p, s.X, s.offsets)
    assert one.log_likelihoods[0] == pytest.approx(scores[0], rel=1e-13)
    assert log_likelihoods(p, s.X, s.offsets, Pairs.crossed(s.lengths, 1))[0] == one.log_likelihoods[0]
    np.testing.assert_allclose(one.sums.start[0], 2 * gamma[0], rtol=1e-12)
    np.testing.assert_allclose(one.sums.trans[0].sum(axis=1), 2 * gamma[:-1].sum(axis=0), rtol=1e-12)
    np.testing.assert_allclose(one.sums.trans[0].sum(axis=0), 2 * gamma[1:].sum(axis=0), rtol=1e-12)
    about = named(one)["first"][0, :, 0] + named(one)["count"][0] * p.components.means[0, :, 0]
    np.testing.assert_allclose(about, 2 * gamma.T @ x, rtol=1e-10, atol=1e-10 * T)
    engine_module._detect.cache_clear()


@pytest.mark.usefixtures("engine")
def test_likelihoods_of_pairs_are_those_of_the_models():
    rng = np.random.default_rng(4)
    h3m = random_h3m(rng, 3, 4, 2, 2)
    s = Sequences([rng.normal(size=(int(T), 2)) for T in rng.integers(1, 100, size=20)])
    pairs = Pairs.crossed(s.lengths, 3)
    found = log_likelihoods(h3m.parameters, s.X, s.offsets, pairs)
    np.testing.assert_allclose(found, h3m.log_likelihoods(s)[pairs.sequence, pairs.model], rtol=1e-11)


@pytest.mark.parametrize("n", [1, 8, 13, 24])
@pytest.mark.usefixtures("engine")
def test_many_models_see_the_same_sequences(n):
    """Whatever is kept from one HMM to the next: lengths differ, some have gaps, one has another neighbour."""
    rng = np.random.default_rng(n)
    h3m = random_h3m(rng, 5, 3, 1, 2)
    ys = [rng.normal(size=(T, 2)) for T in rng.integers(1, 12, n)]
    s = Sequences([*ys[::2], *some_missing(rng, ys[1::2])])
    crossed = Pairs.crossed(s.lengths, 5)
    for pairs in (crossed, crossed.take(np.r_[np.arange(5 * n), 0]), crossed.take(rng.permutation(5 * n))):
        found = log_likelihoods(h3m.parameters, s.X, s.offsets, pairs, 2)
        truth = [h3m[int(k)].score_samples(s[[int(i)]])[0] for i, k in zip(*pairs, strict=True)]
        np.testing.assert_allclose(found, truth, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("covariance_type", ["diag", "full"])
def test_the_m_step_maximises_the_penalised_objective(covariance_type):
    rng = np.random.default_rng(5)
    h3m = random_h3m(rng, 2, 3, 2, 2, covariance_type)
    s = Sequences([rng.normal(size=(60, 2)) for _ in range(6)])
    pairs = Pairs.grouped(s.lengths, np.arange(6) % 2)
    scale = np.ones((2, 2))
    prior = Prior(np.full((2, 3), 0.3), np.full((2, 3, 3), 0.2), gaussian_prior(5.0, 0.2 * scale))
    p, values = h3m.parameters, []
    for _ in range(15):
        e = expectations(p, s.X, s.offsets, pairs, np.ones(6))
        values.append(np.bincount(pairs.model, e.log_likelihoods) + prior.log_density(p))
        p = maximise(e.sums, p, prior).models
        covars = p.components.covars
        variances = covars if covariance_type == "diag" else np.linalg.eigvalsh(covars)
        assert variances.min() >= 0.2 - 1e-12
    assert (np.diff(values[1:], axis=0) > -1e-9).all()


@pytest.mark.usefixtures("engine")
def test_kmeans_finds_the_groups_of_each_group():
    rng = np.random.default_rng(6)
    centers = rng.normal(size=(5, 3, 2)) * 50
    truth = [rng.integers(0, 3, size=40) for _ in range(5)]
    Z = np.concatenate([centers[g, t] + rng.normal(size=(40, 2)) for g, t in enumerate(truth)])
    offsets = np.arange(0, 201, 40)
    labels = kmeans_module.kmeans(Z, offsets, rng.random((5, 3)))
    for g, t in enumerate(truth):
        assert len(set(zip(t, labels[offsets[g] : offsets[g + 1]], strict=True))) == 3


def test_kmeans_is_the_same_on_every_engine(monkeypatch):
    rng = np.random.default_rng(7)
    monkeypatch.setattr(kmeans_module, "_MOST_POINTS", 50)
    Z, offsets, uniforms = rng.normal(size=(500, 3)), np.array([0, 2, 2, 120, 500]), rng.random((4, 4))
    found = []
    for name in ENGINES:
        use_engine(monkeypatch, name)
        found.append(kmeans_module.kmeans(Z, offsets, uniforms))
    engine_module._detect.cache_clear()
    assert all((labels == found[0]).all() for labels in found)


@pytest.mark.parametrize("gaps", [0.0, 0.3, 1.0])
def test_moments_of_groups(engine, gaps):
    rng = np.random.default_rng(5)
    lengths = np.array([1, 7, 3, 40])
    X = 1e6 + rng.normal(size=(lengths.sum(), 4))
    X[rng.random(X.shape) < gaps] = np.nan
    offsets = np.append(0, np.cumsum(lengths))
    found = group_moments(X, offsets)
    for g, part in enumerate(np.split(X, offsets[1:-1])):
        for j, column in enumerate(part.T):
            seen = column[~np.isnan(column)]
            expected = [len(seen), seen.mean(), seen.var() * len(seen), seen.max()] if len(seen) else [0, 0, 0, 0]
            assert [a[g, j] for a in found] == pytest.approx(expected, rel=1e-13, abs=1e-9)
