"""fit_hmms: against hmmlearn, monotone, on hard and on bad input, and on real handwriting."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from helpers import available_engines, left_right, loaded, random_h3m, random_hmm, spoiled_m_step, use_engine
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.exceptions import ConvergenceWarning

from vhem import H3M, HMM, Sequences, fit_hmms
from vhem.datasets import handwriting
from vhem.datasets.folder import find_data
from vhem.em import baum_welch
from vhem.em.loop import BoundError

PLAIN = {"reg_covar": 0.0, "startprob_prior": 0.0, "transmat_prior": 0.0, "covars_prior": 0.0}
QUIET = pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::sklearn.exceptions.ConvergenceWarning")


def simulated(rng, n=6, T=40, S=3, d=2):
    hmm = random_hmm(rng, S, 1, d, spread=4.0)
    return [hmm.sample(1, T, random_state=rng)[0] for _ in range(n)]


def assert_usable(h3m):
    for array in h3m.parameters.arrays().values():
        assert np.isfinite(array).all()
    assert np.isfinite(h3m.log_likelihoods([np.zeros((3, h3m.n_dims))])).all()


def test_states_that_become_empty_are_the_same_on_every_engine(monkeypatch):
    """Engines bring HMMs forward in different orders; what an HMM is given at random must not depend on its turn."""
    rng = np.random.default_rng(0)
    plateaus = [np.repeat(5 * rng.normal(size=(3, 1)), 10 + k, axis=0) for k in range(4)]
    sequences = [x + 0.01 * rng.normal(size=x.shape) for x in plateaus]
    found = []
    for engine in available_engines():
        use_engine(monkeypatch, engine)
        with pytest.warns(RuntimeWarning, match="became empty and were re-initialised"):
            found.append(fit_hmms(sequences, 5, max_iter=30, random_state=0, pooling=None))
    for other in found[1:]:
        np.testing.assert_allclose(other.means, found[0].means, atol=1e-8)
        np.testing.assert_allclose(other.transmat, found[0].transmat, atol=1e-8)


@pytest.mark.parametrize("covariance_type", ["diag", "full"])
def test_twenty_iterations_end_where_hmmlearn_ends(covariance_type):
    hmmlearn = pytest.importorskip("hmmlearn.hmm")
    rng = np.random.default_rng(0)
    hmm = random_hmm(rng, 3, 1, 2, covariance_type, spread=4.0)
    ys = [hmm.sample(1, 60, random_state=i)[0] for i in range(6)]
    start = H3M([HMM(np.ones(3) / 3, np.ones((3, 3)) / 3, hmm.means + rng.normal(size=(3, 1, 2)), hmm.covars)] * 6)
    h3m, report = fit_hmms(ys, init=start, max_iter=20, tol=0, return_report=True, **PLAIN)
    for k, y in enumerate(ys):
        rival = hmmlearn.GaussianHMM(
            3, covariance_type, n_iter=20, tol=-np.inf, init_params="", covars_prior=0.0, min_covar=0.0
        )
        rival.startprob_, rival.transmat_ = start.startprob[k], start.transmat[k]
        rival.means_, rival.covars_ = start.means[k, :, 0], start.covars[k, :, 0]
        rival.fit(y)
        np.testing.assert_allclose(h3m.means[k, :, 0], rival.means_, rtol=1e-7, atol=1e-7)
        assert report.log_likelihoods[k] == pytest.approx(rival.score(y), rel=1e-9)
    assert (report.n_iter == 20).all()


@QUIET
@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("topology", ["ergodic", "left-right"])
@pytest.mark.parametrize("groups", [None, [0, 1, 1, 2, 2, 2, 0, 3, 3, 3, 4, 5, 6, 7, 8, 9, 9, 9, 9, 9, 9]])
def test_iterating_inside_the_engine_changes_nothing(groups, topology, plain, monkeypatch):
    """What the compiled engine does by itself, with one sequence per HMM or several, is what the loop does in steps."""
    rng = np.random.default_rng(20)
    hmm = random_hmm(rng, 3, 1, 2, spread=3.0)
    ys = [hmm.sample(1, int(T), random_state=rng)[0] for T in rng.integers(20, 60, size=21)]
    ys[3] = np.where(np.arange(len(ys[3]))[:, None] % 7 == [8, 2], np.nan, ys[3])
    arguments = {"topology": topology, "max_iter": 30, "random_state": 0, "return_report": True, "groups": groups}
    weights = rng.uniform(0.5, 2.0, size=21)
    arguments |= PLAIN if plain else {"sample_weight": weights, "covars_prior": 2.0}
    inside, report = fit_hmms(ys, 3, **arguments)
    monkeypatch.setattr(baum_welch, "advance", lambda *args, **kwargs: None)  # noqa: ARG005
    outside, other = fit_hmms(ys, 3, **arguments)
    np.testing.assert_array_equal(report.n_iter, other.n_iter)
    np.testing.assert_allclose(report.log_likelihoods, other.log_likelihoods, rtol=1e-9)
    np.testing.assert_allclose(inside.means, outside.means, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(inside.transmat, outside.transmat, atol=1e-7)
    np.testing.assert_array_equal(report.n_floored, other.n_floored)


@QUIET
@settings(max_examples=30)
@given(
    st.integers(0, 10**6), st.integers(1, 4), st.integers(1, 2), st.sampled_from(["diag", "full"]), st.booleans(),
    st.sampled_from(["ergodic", "left-right", "left-right-skip"]), st.sampled_from(["kmeans", "random", "segments"]),
)  # fmt: skip
def test_the_objective_never_falls(seed, n_states, n_mix, covariance_type, missing, topology, init):
    rng = np.random.default_rng(seed)
    ys = [3 * rng.normal(size=(int(T), 2)) for T in rng.integers(1, 40, size=5)]
    if missing:
        ys = [np.where(rng.random(y.shape) < 0.2, np.nan, y) for y in ys]
    _, report = fit_hmms(
        ys, n_states, n_mix, covariance_type, topology=topology, init=init, max_iter=15, random_state=seed,
        groups=[0, 0, 1, 2, 2], return_report=True,
    )  # fmt: skip
    assert (report.n_falls == 0).all()


@QUIET
@settings(max_examples=40)
@given(arrays(float, st.tuples(st.integers(1, 12), st.just(2)), elements=st.floats(-1e6, 1e6) | st.just(np.nan)))
def test_any_values_give_a_usable_model(y):
    assert_usable(fit_hmms([y], 3, random_state=0, max_iter=10))


@QUIET
def test_a_falling_likelihood_is_an_error(monkeypatch):
    monkeypatch.setattr(baum_welch, "maximise", spoiled_m_step(1))
    ys = simulated(np.random.default_rng(0))
    with pytest.raises(BoundError, match=r"likelihood of 0 fell from .* bug in vhem"):
        fit_hmms(ys, 3, 1, "full", tol=0, max_iter=5, random_state=0, **PLAIN)
    with pytest.warns(RuntimeWarning, match="lowered the likelihood"):
        fit_hmms(ys, 3, 1, "full", tol=0, max_iter=5, random_state=0)


def test_a_short_sequence_with_many_states_is_usable():
    rng = np.random.default_rng(1)
    hmm = random_hmm(rng, 3, 1, 2)
    ys = [hmm.sample(1, 30, random_state=i)[0] for i in range(20)]
    h3m, report = fit_hmms(ys, 5, random_state=0, max_iter=300, return_report=True)
    assert_usable(h3m)
    fresh = hmm.sample(1, 200, random_state=99)
    per_frame = h3m.log_likelihoods(fresh)[0] / 200
    assert per_frame.min() > hmm.score_samples(fresh)[0] / 200 - 6.0
    assert report.n_reseeded.sum() == 0


def test_one_seed_one_answer_whatever_the_threads():
    ys = simulated(np.random.default_rng(2), n=40)
    one, two = (fit_hmms(ys, 3, n_init=2, random_state=5, n_jobs=jobs) for jobs in (1, 2))
    for a, b in zip(one.parameters.arrays().values(), two.parameters.arrays().values(), strict=True):
        assert (a == b).all()


def test_an_hmm_does_not_depend_on_its_company():
    rng = np.random.default_rng(3)
    hmm = random_hmm(rng, 3, 1, 2, spread=4.0)
    ys = [hmm.sample(1, 80, random_state=i)[0] for i in range(9)]
    start = H3M([hmm] * 9)
    together = fit_hmms(ys, init=start, **PLAIN)
    for k in (0, 4, 8):
        alone = fit_hmms([ys[k]], init=start[k : k + 1], **PLAIN)
        np.testing.assert_allclose(alone.means[0], together.means[k], rtol=1e-9)


def test_groups_share_an_hmm_and_keep_their_names():
    rng = np.random.default_rng(4)
    ys = [rng.normal(size=(30, 1)) + 10 * (i % 2) for i in range(8)]
    h3m = fit_hmms(ys, 1, groups=["b", "a"] * 4)
    assert h3m.ids == ["b", "a"]
    np.testing.assert_allclose(h3m.means[0, 0, 0], np.concatenate(ys[::2]).mean(axis=0))
    named = Sequences(ys, ids=list("abcdefgh"))
    assert fit_hmms(named, 1).ids == named.ids


def test_weights_count_sequences():
    rng = np.random.default_rng(5)
    ys = [rng.normal(size=(30, 1)), rng.normal(size=(30, 1)) + 1]
    one = fit_hmms(ys, 2, groups=[0, 0], sample_weight=[2, 1], random_state=0, **PLAIN, init=left_right(2))
    two = fit_hmms([ys[0], *ys], 2, groups=[0, 0, 0], random_state=0, **PLAIN, init=left_right(2))
    np.testing.assert_allclose(one.means, two.means, rtol=1e-6)


@pytest.mark.parametrize("topology", ["left-right", "left-right-skip"])
@pytest.mark.parametrize("init", ["auto", "kmeans", "random"])
def test_left_right_recovers_the_order(topology, init):
    rng = np.random.default_rng(6)
    ys = [np.repeat([0.0, 6.0, -6.0], rng.integers(8, 15, size=3)) + rng.normal(size=1) * 0.1 for _ in range(10)]
    ys = [y + 0.5 * rng.normal(size=y.shape) for y in ys]
    hmm = fit_hmms(ys, 3, groups=[0] * 10, topology=topology, init=init, n_init=3, random_state=1)[0]
    np.testing.assert_allclose(hmm.means.ravel(), [0, 6, -6], atol=0.5)
    assert hmm.startprob[0] == 1.0
    assert (np.tril(hmm.transmat, -1) == 0).all()
    assert (hmm.transmat[0, 2] == 0) == (topology == "left-right")


@pytest.mark.parametrize("criterion", ["bic", "aic", "held-out"])
def test_the_number_of_states_is_found(criterion):
    rng = np.random.default_rng(7)
    sizes = [1, 2, 3]
    ys, groups = [], []
    for S in sizes:
        trans = np.full((S, S), 0.1 / max(S - 1, 1)) + np.eye(S) * 0.9
        hmm = HMM(np.full(S, 1 / S), trans / trans.sum(1, keepdims=True), 8.0 * np.arange(S)[:, None], np.ones((S, 1)))
        ys += [hmm.sample(1, 120, random_state=rng)[0] for _ in range(5)]
        groups += [S] * 5
    h3m, report = fit_hmms(
        ys, range(1, 5), groups=groups, criterion=criterion, random_state=0, max_iter=500, return_report=True
    )
    assert report.candidates == [1, 2, 3, 4]
    assert report.scores.shape == (3, 4)
    slack = 0 if criterion == "bic" else 1
    assert (np.abs(h3m.n_states - sizes) <= slack).all()
    assert (h3m.n_states >= sizes).all()


def test_held_out_on_single_sequences():
    rng = np.random.default_rng(8)
    y = np.repeat([0.0, 9.0, 0.0, 9.0, 0.0, 9.0, 0.0, 9.0], 15) + rng.normal(size=120)
    h3m, report = fit_hmms([y, y[:1]], [1, 2], criterion="held-out", random_state=0, return_report=True)
    assert h3m.n_states.tolist() == [2, 1]
    assert report.scores[0, 1] > report.scores[0, 0] + 10


@QUIET
def test_more_restarts_are_never_worse():
    ys = simulated(np.random.default_rng(9), n=20, S=4)
    few, many = (
        fit_hmms(ys, 4, n_init=n, init="random", random_state=0, max_iter=500, return_report=True, **PLAIN)[1]
        for n in (1, 5)
    )
    assert (many.log_likelihoods >= few.log_likelihoods - 1e-9).all()
    assert many.log_likelihoods.sum() > few.log_likelihoods.sum()


HARD = {
    "constant": [np.full((20, 2), 3.0)] * 3,
    "constant, far": [np.full((20, 2), 1e8)] * 3,
    "zeros": [np.zeros((20, 2))],
    "length 1": [np.ones((1, 2)), np.zeros((1, 2)), np.ones((1, 2))],
    "fewer frames than states": [np.arange(4.0).reshape(2, 2)],
    "1e8": [1e8 + np.random.default_rng(0).normal(size=(40, 2))],
    "times 1e8": [1e8 * np.random.default_rng(0).normal(size=(40, 2))],
    "1e-9": [1e-9 * np.random.default_rng(0).normal(size=(40, 2))],
    "duplicates": [np.repeat([[0.0, 1.0], [2.0, 3.0]], 20, axis=0)] * 4,
    "one NaN column": [np.column_stack([np.random.default_rng(0).normal(size=30), np.full(30, np.nan)])],
    "all NaN": [np.full((10, 2), np.nan), np.random.default_rng(0).normal(size=(30, 2))],
    "mixed units": [np.random.default_rng(0).normal(size=(40, 2)) * [1e6, 1e-6]],
}


@QUIET
@pytest.mark.parametrize("init", ["kmeans", "segments", "random"])
@pytest.mark.parametrize("covariance_type", ["diag", "full"])
@pytest.mark.parametrize("name", HARD)
def test_hard_input_gives_a_usable_model(name, covariance_type, init):
    for n_mix in (1, 2):
        h3m, report = fit_hmms(HARD[name], 3, n_mix, covariance_type, init=init, random_state=0, return_report=True)
        assert_usable(h3m)
        assert np.isfinite(report.log_likelihoods).all()
        assert (report.n_falls == 0).all()


@QUIET
def test_scale_and_shift_change_nothing_but_units():
    ys = simulated(np.random.default_rng(10), n=3, d=1)
    plain = fit_hmms(ys, 3, random_state=0)
    for factor, shift in ((1e8, 0.0), (1e-9, 0.0), (1.0, 1e6)):
        moved = fit_hmms([factor * y + shift for y in ys], 3, random_state=0)
        np.testing.assert_allclose((moved.means - shift) / factor, plain.means, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(moved.covars / factor**2, plain.covars, rtol=1e-4)


def test_a_start_far_off_loses_no_digits():
    rng = np.random.default_rng(11)
    y = 1e6 + 1e-3 * rng.normal(size=(50, 1))
    far = HMM([1.0], [[1.0]], [[-1e6]], [[1.0]])
    hmm = fit_hmms([y], init=far, **PLAIN)[0]
    assert hmm.covars.item() == pytest.approx(y.var(), rel=1e-6)


def test_dead_states_are_started_again_and_counted():
    rng = np.random.default_rng(12)
    y = np.repeat([0.0, 9.0], 40) + rng.normal(size=80)
    dead = HMM([0.5, 0.5], [[0.5, 0.5], [0.5, 0.5]], [[4.5], [1e5]], [[25.0], [1e-3]])
    with pytest.warns(RuntimeWarning, match="1 state became empty and was re-initialised"):
        h3m, report = fit_hmms([y], init=dead, random_state=0, max_iter=500, return_report=True)
    assert report.n_reseeded.tolist() == [1]
    np.testing.assert_allclose(np.sort(h3m.means.ravel()), [0, 9], atol=0.6)


def test_what_was_repaired_is_told_once():
    with pytest.warns(RuntimeWarning, match=r"3 components have variances, .* at their floor: .* \(3 of 3 HMMs\)"):
        fit_hmms([np.full((500, 1), 2.0)] * 3, 1, covars_prior=0.0)
    with pytest.warns(RuntimeWarning, match=r"dimensions \[1\] are missing everywhere"):
        fit_hmms([np.column_stack([np.arange(9.0), np.full(9, np.nan)])], 1)
    with pytest.warns(ConvergenceWarning, match="after 1 iteration, before .*; raise max_iter, or raise tol"):
        fit_hmms(simulated(np.random.default_rng(0)), 3, max_iter=1, random_state=0)


@pytest.mark.parametrize(
    ("sequences", "error", "message"),
    [
        ([np.array([[0.0], [np.inf]])], ValueError, "sequence 0 has inf at frame 1, dimension 0.*NaN for a missing"),
        ([np.zeros((3, 1)), np.zeros((0, 1))], ValueError, "sequence 1 .*Drop empty"),
        ([np.zeros((3, 1)), np.array([["a"]])], TypeError, "sequence 1 .*numbers are needed"),
        ([np.zeros((3, 1)), np.zeros((3, 2))], ValueError, "sequence 1 has 2 dimensions, but sequence 0 has 1"),
        ([], ValueError, "no sequences.*at least one"),
    ],
)
def test_bad_sequences_are_named(sequences, error, message):
    with pytest.raises(error, match=message):
        fit_hmms(sequences)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_states": 0}, "n_states must be an integer of at least 1, got 0"),
        ({"n_states": []}, "n_states is empty"),
        ({"n_mix": 1.5}, "n_mix must be"),
        ({"covariance_type": "tied"}, "covariance_type must be one of 'diag', 'full', got 'tied'"),
        ({"topology": "ring"}, "topology must be one of 'ergodic'"),
        ({"init": "best"}, "init must be one of 'auto'"),
        ({"init": left_right(2)}, "init has 1 dimension, but the sequences have 2"),
        ({"init": random_h3m(np.random.default_rng(0), 3)}, "init has 3 HMMs for 2 sequences"),
        ({"criterion": "mdl"}, "criterion must be"),
        ({"tol": -1}, "tol must be"),
        ({"reg_covar": np.nan}, "reg_covar must be"),
        ({"covars_prior": -0.1}, "covars_prior must be"),
        ({"groups": [1]}, "groups has 1 entries for 2 sequences"),
        ({"sample_weight": [1.0]}, "sample_weight has shape"),
        ({"sample_weight": [1.0, -1.0]}, r"sample_weight\[1\] is -1.0"),
        ({"sample_weight": [1.0, 0.0]}, "leaves nothing of 1"),
        ({"n_jobs": 0}, "n_jobs must be"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        fit_hmms([np.zeros((4, 2)), np.ones((4, 2))], **arguments)


MEASURE_MEMORY = """
import sys
from pathlib import Path
import numpy as np
from vhem import HMM, Sequences, fit_hmms

def peak():
    return 1024 * int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])

rng = np.random.default_rng(13)
s = Sequences([rng.normal(size=(300_000, 2))])
start = HMM(np.full(8, 1 / 8), np.full((8, 8), 1 / 8), rng.normal(size=(8, 2)), np.ones((8, 2)))
fit_hmms(s[0][:100][None], init=start, max_iter=1, tol=0, n_jobs=1)
before = peak()
fit_hmms(s, init=start, max_iter=1, tol=0, n_jobs=1)
print((peak() - before) / 300_000)
"""


def test_long_sequences_take_little_memory():
    """In a process of its own, whose memory nothing else has used before or wants meanwhile."""
    if not Path("/proc/self/status").exists():
        pytest.skip("peaks of memory are read from Linux's /proc")
    found = subprocess.run([sys.executable, "-c", MEASURE_MEMORY], capture_output=True, text=True, check=True)
    assert 8 < float(found.stdout) < 4 * 8 * 8


def test_many_hmms_at_once_beat_hmmlearn_by_far():
    """A ratio with much slack; benchmarks/sequence_speed.py has the figures."""
    hmmlearn = pytest.importorskip("hmmlearn.hmm")
    rng = np.random.default_rng(14)
    X = rng.normal(size=(200, 50, 3))
    start = H3M.from_arrays(np.full((200, 3), 1 / 3), np.full((200, 3, 3), 1 / 3), X[:, :3], np.ones((200, 3, 3)))
    sequences = Sequences(X)
    fit_hmms(sequences, init=start, max_iter=10, tol=0, n_jobs=1)
    ours = process_time(lambda: fit_hmms(sequences, init=start, max_iter=10, tol=0, n_jobs=1))
    rival = hmmlearn.GaussianHMM(3, n_iter=10, tol=-np.inf, implementation="scaling", init_params="")

    def theirs():
        for k in range(20):
            rival.startprob_, rival.transmat_ = start.startprob[k], start.transmat[k]
            rival.means_, rival.covars_ = start.means[k, :, 0], start.covars[k, :, 0]
            rival.fit(X[k])

    assert process_time(theirs) * 10 > 20 * ours


def process_time(work):
    begin = time.process_time()
    work()
    return time.process_time() - begin


@QUIET
def test_handwritten_letters_are_told_apart():
    """One 16-state left-right HMM per letter; hmmlearn reaches 0.945 by the same protocol."""
    path = loaded(find_data, "character_trajectories/character_trajectories.npz", handwriting._HOW_TO_GET)
    with np.load(path, allow_pickle=False) as file:
        data = {name: file[name] for name in file.files}
    offsets = np.concatenate([[0], np.cumsum(data["lengths"])])
    ys = [
        data["X"][o + a : o + b]
        for o, a, b in zip(offsets[:-1], data["support_start"], data["support_stop"], strict=True)
    ]
    train = data["source_half"] == "train"
    letters = data["labels"]
    half = [y for y, t in zip(ys, train, strict=True) if t]
    h3m = fit_hmms(half, 16, groups=letters[train], topology="left-right", random_state=0, max_iter=200)
    found = np.array(h3m.ids)[h3m.predict([y for y, t in zip(ys, train, strict=True) if not t])]
    assert (found == letters[~train]).mean() >= 0.94
