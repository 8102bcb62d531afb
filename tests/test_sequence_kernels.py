"""Likelihood, posteriors and Viterbi on every engine: against enumeration, hmmlearn, and each other."""

from __future__ import annotations

import time

import numpy as np
import pytest
from helpers import (
    available_engines,
    enumerate_paths,
    left_right,
    random_h3m,
    random_hmm,
    use_engine,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

from vhem import H3M, HMM, Sequences
from vhem.kernels import engine as engine_module
from vhem.kernels import filtering as sequences
from vhem.kernels.reference import filtering as reference_sequences

ENGINES = available_engines()
NATIVE = [name for name in ENGINES if name != "reference"]
MODELS = [
    (3, 1, 2, "diag", False),
    (3, 2, 2, "diag", True),
    (3, 1, 3, "full", True),
    (2, 3, 2, "full", False),
]


@pytest.fixture(params=ENGINES)
def engine(request, monkeypatch):
    use_engine(monkeypatch, request.param)
    yield request.param
    engine_module._detect.cache_clear()


@pytest.fixture
def native(monkeypatch):
    if not NATIVE:
        pytest.skip("the compiled kernels are not built here")
    use_engine(monkeypatch, NATIVE[-1])
    yield
    engine_module._detect.cache_clear()


def some_missing(rng, y, share=0.3):
    return np.where(rng.random(y.shape) < share, np.nan, y)


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize(("S", "M", "d", "covariance_type", "zeros"), MODELS)
@pytest.mark.usefixtures("engine")
def test_against_enumeration_of_all_paths(S, M, d, covariance_type, zeros, missing):
    rng = np.random.default_rng(S + 10 * M + 100 * d + missing)
    hmm = random_hmm(rng, S, M, d, covariance_type, zeros)
    ys = [2 * rng.normal(size=(T, d)) for T in (1, 2, 5)]
    ys = [some_missing(rng, y) for y in ys] if missing else ys
    log_probabilities, decoded = hmm.decode(ys)
    for i, y in enumerate(ys):
        paths, joint = enumerate_paths(hmm, y)
        total = logsumexp(joint)
        assert hmm.score_samples([y])[0] == pytest.approx(total, rel=1e-11, abs=1e-11)
        assert log_probabilities[i] == pytest.approx(joint.max(), rel=1e-11, abs=1e-11)
        assert decoded[i].tolist() == paths[joint.argmax()].tolist()
        for s in range(S):
            share = np.exp(joint - total) @ (paths == s)
            np.testing.assert_allclose(hmm.posterior([y])[0][:, s], share, atol=1e-11)


@pytest.mark.parametrize("M", [1, 2])
@pytest.mark.parametrize("covariance_type", ["diag", "full"])
@pytest.mark.usefixtures("engine")
def test_against_hmmlearn(covariance_type, M):
    hmmlearn = pytest.importorskip("hmmlearn.hmm")
    rng = np.random.default_rng(2 + M)
    hmm = random_hmm(rng, 4, M, 3, covariance_type)
    if M == 1:
        rival = hmmlearn.GaussianHMM(4, covariance_type=covariance_type)
        rival.means_, rival.covars_ = hmm.means[:, 0], hmm.covars[:, 0]
    else:
        rival = hmmlearn.GMMHMM(4, M, covariance_type=covariance_type)
        rival.weights_, rival.means_, rival.covars_ = hmm.mix_weights, hmm.means, hmm.covars
        rival.n_features = 3
    rival.startprob_, rival.transmat_ = hmm.startprob, hmm.transmat
    ys = [rng.normal(size=(T, 3)) for T in (1, 40, 130)]
    for y, score, gamma, path in zip(ys, hmm.score_samples(ys), hmm.posterior(ys), hmm.decode(ys)[1], strict=True):
        assert score == pytest.approx(rival.score(y), rel=1e-9)
        np.testing.assert_allclose(gamma, rival.predict_proba(y), atol=1e-9)
        assert path.tolist() == rival.decode(y)[1].tolist()


@pytest.mark.usefixtures("engine")
def test_missing_dimension_equals_a_smaller_model():
    rng = np.random.default_rng(5)
    hmm = random_hmm(rng, 3, 2, 3, "full")
    kept = [0, 2]
    smaller = HMM(
        hmm.startprob,
        hmm.transmat,
        hmm.means[..., kept],
        hmm.covars[..., kept, :][..., kept],
        hmm.mix_weights,
    )
    y = rng.normal(size=(70, 3))
    y[:, 1] = np.nan
    np.testing.assert_allclose(hmm.score_samples([y]), smaller.score_samples([y[:, kept]]), rtol=1e-12)


@pytest.mark.parametrize("covariance_type", ["diag", "full"])
@pytest.mark.usefixtures("engine")
def test_a_frame_without_values_has_density_one(covariance_type):
    hmm = random_hmm(np.random.default_rng(6), 3, 2, 2, covariance_type)
    np.testing.assert_allclose(hmm.score_samples([np.full((80, 2), np.nan)]), 0.0, atol=1e-12)
    unseen = hmm.posterior([np.full((4, 2), np.nan)])[0]
    expected = [hmm.startprob @ np.linalg.matrix_power(hmm.transmat, t) for t in range(4)]
    np.testing.assert_allclose(unseen, expected, atol=1e-12)


@pytest.mark.parametrize("covariance_type", ["diag", "full"])
@pytest.mark.usefixtures("engine")
def test_engines_agree_on_ragged_mixtures(covariance_type):
    rng = np.random.default_rng(7)
    h3m = random_h3m(rng, 5, 4, 3, 3, covariance_type, ragged=True, zeros=True)
    ys = [some_missing(rng, 3 * rng.normal(size=(T, 3)), 0.1) for T in (1, 7, 63, 64, 65, 130)]
    data = Sequences(ys)
    expected = reference_sequences.log_likelihoods(h3m.parameters, data.X, data.offsets)
    np.testing.assert_allclose(h3m.log_likelihoods(data), expected, rtol=1e-11)
    for k, hmm in enumerate(h3m):
        np.testing.assert_allclose(hmm.score_samples(data), expected[:, k], rtol=1e-11)
        gamma = reference_sequences.posteriors(hmm.parameters, data.X, data.offsets)[1]
        np.testing.assert_allclose(np.concatenate(hmm.posterior(data)), gamma, atol=1e-10)


@pytest.mark.usefixtures("native")
def test_the_number_of_threads_changes_nothing():
    rng = np.random.default_rng(8)
    h3m = random_h3m(rng, 3, 4, 2, 2)
    data = Sequences([rng.normal(size=(T, 2)) for T in rng.integers(1, 90, size=40)])
    one = h3m.log_likelihoods(data, n_jobs=1)
    for n_jobs in (2, 5):
        assert np.array_equal(one, h3m.log_likelihoods(data, n_jobs=n_jobs))
    posterior = sequences.posteriors(h3m[0].parameters, data.X, data.offsets, 1)[1]
    assert np.array_equal(posterior, sequences.posteriors(h3m[0].parameters, data.X, data.offsets, 3)[1])


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.integers(1, 5), st.integers(1, 3), st.integers(1, 4), st.booleans())
def test_coherence(seed, S, M, d, zeros):
    rng = np.random.default_rng(seed)
    hmm = random_hmm(rng, S, M, d, "diag", zeros)
    data = Sequences([3 * rng.normal(size=(T, d)) for T in rng.integers(1, 70, size=3)])
    scores, gamma = sequences.posteriors(hmm.parameters, data.X, data.offsets)
    np.testing.assert_allclose(gamma.sum(axis=1), 1.0, atol=1e-10)
    np.testing.assert_allclose(scores, hmm.score_samples(data), rtol=1e-12)
    best, paths = hmm.decode(data)
    assert (best <= scores + 1e-9).all()
    for y, path, top in zip(data, paths, best, strict=True):
        assert top == pytest.approx(joint_log_probability(hmm, y, path), rel=1e-10)
        other = path.copy()
        other[rng.integers(len(other))] = rng.integers(S)
        assert top >= joint_log_probability(hmm, y, other) - 1e-9


def joint_log_probability(hmm, y, path):
    log_density = reference_sequences.emission_log_density(hmm.parameters, y)[:, 0]
    with np.errstate(divide="ignore"):
        steps = np.log(hmm.transmat)[path[:-1], path[1:]].sum() + np.log(hmm.startprob)[path[0]]
    return steps + log_density[np.arange(len(path)), path].sum()


def exact_left_right_log_likelihood(hmm, y):
    """Sum over all change points of a two-state left-right model, in logs."""
    log_density = reference_sequences.emission_log_density(hmm.parameters, y)[:, 0]
    stay, leave = np.log(hmm.transmat[0])
    T = len(y)
    terms = []
    for change in range(1, T + 1):
        moves = (change - 1) * stay + (leave if change < T else 0.0)
        terms.append(moves + log_density[:change, 0].sum() + log_density[change:, 1].sum())
    return logsumexp(terms)


@pytest.mark.parametrize("separation", [1.0, 50.0, 1e4])
@pytest.mark.usefixtures("engine")
def test_left_right_where_the_best_state_cannot_be_reached(separation):
    hmm = left_right(2, separation)
    rng = np.random.default_rng(9)
    y = rng.normal(size=(150, 1))
    y[:20] += separation  # fits the second state, but the first frames must belong to the first
    y[60:] += separation
    expected = exact_left_right_log_likelihood(hmm, y)
    assert hmm.score_samples([y])[0] == pytest.approx(expected, rel=1e-12)
    gamma = hmm.posterior([y])[0]
    np.testing.assert_allclose(gamma.sum(axis=1), 1.0, atol=1e-10)
    assert (np.diff(gamma[:, 0]) <= 1e-12).all()  # there is no way back to the first state


@pytest.mark.usefixtures("engine")
def test_a_state_that_seemed_lost_wins_in_the_end():
    # Two chains that never meet. The first frame favours the one by e^1250, the next hundred the other by
    # e^25 each: in plain products the other is zero after a frame and never comes back.
    hmm = HMM([0.5, 0.5], np.eye(2), [[0.0], [50.0]], [[1.0], [1.0]])
    y = np.concatenate([[0.0], np.full(100, 25.5)])[:, None]
    log_density = -0.5 * np.log(2 * np.pi) - 0.5 * (y - [0.0, 50.0]) ** 2
    each = np.log(0.5) + log_density.sum(axis=0)
    assert each[1] > each[0] + 1000
    assert hmm.score_samples([y])[0] == pytest.approx(logsumexp(each), rel=1e-12)
    np.testing.assert_allclose(hmm.posterior([y])[0][:, 1], 1.0, atol=1e-12)


@pytest.mark.usefixtures("engine")
def test_first_frame_far_from_every_start_state():
    hmm = HMM([1.0, 0.0], [[0.5, 0.5], [0.5, 0.5]], [[0.0], [100.0]], [[1.0], [1.0]])
    y = np.array([[100.0], [100.0]])
    log_two_pi = np.log(2 * np.pi)
    expected = -log_two_pi - 5000.0 + np.log(0.5)
    assert hmm.score_samples([y])[0] == pytest.approx(expected, rel=1e-13)
    np.testing.assert_allclose(hmm.posterior([y])[0], [[1, 0], [0, 1]], atol=1e-12)


@pytest.mark.usefixtures("engine")
def test_tiny_transitions_are_not_zeros():
    transmat = np.array([[1.0, 1e-60, 0.0], [0.0, 1.0, 1e-60], [0.0, 0.0, 1.0]])
    hmm = HMM([1.0, 0.0, 0.0], transmat, [[0.0], [60.0], [120.0]], np.ones((3, 1)))
    y = np.concatenate([np.zeros(5), np.full(5, 60.0), np.full(5, 120.0)])[:, None]
    best, paths = hmm.decode([y])
    assert paths[0].tolist() == [0] * 5 + [1] * 5 + [2] * 5
    assert hmm.score_samples([y])[0] == pytest.approx(best[0], rel=1e-12)
    assert best[0] == pytest.approx(-7.5 * np.log(2 * np.pi) + 2 * np.log(1e-60), rel=1e-13)


@pytest.mark.usefixtures("engine")
def test_values_too_far_for_their_square_stay_finite():
    hmm = random_hmm(np.random.default_rng(10), 3, 2, 2)
    y = np.array([[1e150, 0.0], [0.0, 1.0]])
    assert hmm.score_samples([y])[0] < -1e280
    assert np.isfinite(hmm.score_samples([y])).all()
    assert np.isfinite(hmm.posterior([y])[0]).all()


@pytest.mark.usefixtures("engine")
def test_large_offsets_lose_no_digits():
    rng = np.random.default_rng(11)
    hmm = random_hmm(rng, 3, 1, 2)
    y = np.round(rng.normal(size=(50, 2)), 3)
    shifted = HMM(hmm.startprob, hmm.transmat, hmm.means + 2.0**20, hmm.covars)
    np.testing.assert_allclose(shifted.score_samples([y + 2.0**20]), hmm.score_samples([y]), rtol=1e-8)


@pytest.mark.usefixtures("native")
def test_a_million_frames_in_linear_time():
    rng = np.random.default_rng(12)
    hmm = random_hmm(rng, 8, 1, 10)
    y = rng.normal(size=(10**6, 10))
    fifth, whole = Sequences([y[: 2 * 10**5]]), Sequences([y])
    hmm.score_samples(fifth)
    seconds = []
    for data in (fifth, whole):
        start = time.process_time()
        score = hmm.score_samples(data)
        seconds.append(time.process_time() - start)  # not the clock: others may be at work
    assert seconds[1] < 5 * 4 * seconds[0]
    parts = sum(hmm.score_samples([part])[0] for part in np.array_split(y, 100))
    assert score[0] == pytest.approx(parts, rel=1e-3)  # the starts of the parts aside, the same sum


@pytest.mark.usefixtures("native")
def test_long_left_right_sequences_match_the_reference():
    rng = np.random.default_rng(13)
    hmm = left_right(5, separation=8.0, stay=0.995)
    y = hmm.sample(1, 3000, rng)
    expected, gamma = reference_sequences.posteriors(hmm.parameters, y.X, y.offsets)
    np.testing.assert_allclose(hmm.score_samples(y), expected, rtol=1e-11)
    np.testing.assert_allclose(hmm.posterior(y)[0], gamma, atol=1e-9)


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.sampled_from([1.0, 10.0, 100.0]), st.booleans())
def test_structural_zeros_with_any_separation(seed, spread, missing):
    rng = np.random.default_rng(seed)
    hmm = random_hmm(rng, 4, 2, 2, "diag", zeros=True, spread=spread)
    y = spread * rng.normal(size=(90, 2))
    data = Sequences([some_missing(rng, y) if missing else y])
    expected, gamma = reference_sequences.posteriors(hmm.parameters, data.X, data.offsets)
    np.testing.assert_allclose(hmm.score_samples(data), expected, rtol=1e-10)
    np.testing.assert_allclose(hmm.posterior(data)[0], gamma, atol=1e-9)


@pytest.mark.usefixtures("engine")
def test_one_hmm_scores_as_in_a_mixture():
    rng = np.random.default_rng(14)
    hmms = [random_hmm(rng, S, 1, 2, covariance_type) for S, covariance_type in ((2, "diag"), (4, "full"))]
    data = [rng.normal(size=(20, 2))]
    together = H3M(hmms).log_likelihoods(data)[0]
    assert together == pytest.approx([hmm.score_samples(data)[0] for hmm in hmms], rel=1e-12)
