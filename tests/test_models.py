"""HMM and H3M: construction, refusals, cutting and pooling, chains, samples."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import time
from fractions import Fraction

import numpy as np
import pytest
from helpers import left_right, random_covars, random_h3m, random_hmm, random_rows
from hypothesis import given, settings
from hypothesis import strategies as st

from vhem import H3M, HMM, Sequences
from vhem._support.randomness import generator
from vhem.models.stationary import long_run_occupancy

ARRAYS = ["startprob", "transmat", "mix_weights", "means", "covars"]


def pieces(covariance_type="diag"):
    """Return keyword arguments of a valid two-state HMM in two dimensions."""
    covars = np.ones((2, 2)) if covariance_type == "diag" else np.tile(np.eye(2), (2, 1, 1))
    return {
        "startprob": np.array([0.5, 0.5]),
        "transmat": np.array([[0.9, 0.1], [0.0, 1.0]]),
        "means": np.zeros((2, 2)),
        "covars": covars,
    }


def stacked(covariance_type="diag", K=3):
    return {name: np.stack([array] * K) for name, array in pieces(covariance_type).items()}


def same(a, b):
    return all(np.array_equal(getattr(a, name), getattr(b, name)) for name in ARRAYS)


def test_means_decide_what_covars_mean():
    S = d = 2
    assert HMM([0.5, 0.5], np.eye(2), np.zeros((S, d)), np.ones((S, d))).covariance_type == "diag"
    full = HMM([0.5, 0.5], np.eye(2), np.zeros((S, d)), np.tile(np.eye(d), (S, 1, 1)))
    assert full.covariance_type == "full"
    assert full.covars.shape == (S, 1, d, d)
    diag = HMM([0.5, 0.5], np.eye(2), np.zeros((S, 2, d)), np.ones((S, 2, d)), np.full((S, 2), 0.5))
    assert (diag.covariance_type, diag.n_mix) == ("diag", 2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"startprob": [0.5, 0.6]},
            "the HMM: startprob sums to 1.1 instead of 1; if it holds counts, divide it by its sum",
        ),
        ({"startprob": [1.5, -0.5]}, "the HMM: startprob has -0.5 at 1; probabilities must not be negative"),
        ({"startprob": [1.0]}, r"startprob has shape \(1,\), but the emissions need \(2,\)"),
        ({"transmat": [[0.9, 0.1], [0.5, 0.4]]}, "the HMM, state 1: transmat sums to 0.9"),
        ({"transmat": [[0.9, np.nan], [0.5, 0.5]]}, "the HMM, state 0: transmat has nan"),
        ({"means": [[0.0, 0.0], [np.inf, 0.0]]}, "the HMM, state 1: means has inf"),
        ({"means": [0.0, 0.0]}, r"means has shape \(2,\); it must be \(S, d\) or \(S, M, d\)"),
        ({"covars": [[1.0, 1.0], [1.0, 0.0]]}, "state 1, component 0: the variance of dimension 1 is 0.0"),
        ({"covars": [[1.0, 1.0], [1.0, -2.0]]}, "dimension 1 is -2.0. Variances must be positive"),
        (
            {"covars": np.ones((2, 3))},
            r"covars has shape \(2, 3\), but means needs \(2, 2\) or \(2, 2, 2\)",
        ),
        (
            {"covars": np.ones((2, 2, 2))},
            "state 0, component 0: .*not positive definite .*smallest",
        ),
        ({"covars": [np.eye(2), [[1.0, 0.5], [0.0, 1.0]]]}, "state 1, component 0: .*not symmetric"),
        (
            {"means": np.zeros((2, 3, 2)), "covars": np.ones((2, 3, 2))},
            "3 components.*weights is missing",
        ),
        ({"mix_weights": [[1.0], [0.5]]}, "the HMM, state 1: mix_weights sums to 0.5"),
    ],
)
def test_an_hmm_refuses_by_name(change, message):
    with pytest.raises(ValueError, match=message):
        HMM(**{**pieces(), **change})


def test_text_is_refused():
    with pytest.raises(TypeError, match="startprob cannot be read as an array of numbers"):
        HMM(**{**pieces(), "startprob": ["a", "b"]})
    with pytest.raises(TypeError, match="transmat cannot be read"):
        HMM(**{**pieces(), "transmat": [[1.0], [0.5, 0.5]]})


def test_an_h3m_names_the_hmm_by_index_and_id():
    arrays = stacked()
    arrays["transmat"][2, 0] = [0.5, 0.25]
    with pytest.raises(ValueError, match=r"HMM 2 \(id 'z'\), state 0: transmat sums to 0.75"):
        H3M.from_arrays(**arrays, ids=["x", "y", "z"])
    with pytest.raises(ValueError, match=r"^HMM 2, state 0: transmat"):
        H3M.from_arrays(**arrays)
    arrays = stacked("full")
    arrays["covars"][1, 1, 0, 0] = -3.0
    with pytest.raises(ValueError, match=r"HMM 1, state 1, component 0: .*smallest eigenvalue -3"):
        H3M.from_arrays(**arrays)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"weights": [0.5, 0.5]}, "weights has shape .* for 3 HMMs"),
        ({"weights": [0.5, 0.6, -0.1]}, "weights of HMM 2 is -0.1"),
        ({"weights": [0.5, 0.5, 0.5]}, "weights sum to 1.5 instead of 1"),
        ({"weights": [0.5, 0.5, np.nan]}, "weights of HMM 2 is nan"),
        ({"n_states": [2, 2, 3]}, "n_states of HMM 2 is 3; the arrays have room for 1 to 2"),
        ({"n_states": [2, 2]}, "n_states must be 3 integers"),
        ({"n_states": [2, 1, 2]}, "HMM 1: startprob has 0.5 at 1; padding beyond n_states must be 0"),
        ({"ids": ["a"]}, "ids has 1 entries for 3 HMMs"),
    ],
)
def test_an_h3m_refuses_by_name(change, message):
    with pytest.raises(ValueError, match=message):
        H3M.from_arrays(**stacked(), **change)


def test_refused_lists_of_hmms():
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="hmms is empty"):
        H3M([])
    with pytest.raises(TypeError, match=r"one HMM; write \[hmm\]"):
        H3M(random_hmm(rng))
    with pytest.raises(TypeError, match=r"hmms\[1\] is a int"):
        H3M([random_hmm(rng), 3])
    with pytest.raises(ValueError, match=r"HMM 1 \(id 'b'\) has 3 dimensions, but HMM 0 \(id 'a'\) has 2"):
        H3M([random_hmm(rng, d=2), random_hmm(rng, d=3)], ids=["a", "b"])


def test_a_row_of_zeros_hints_at_padding():
    arrays = stacked()
    arrays["transmat"][1, 1] = 0.0
    with pytest.raises(ValueError, match=r"HMM 1, state 1: .*declare padding with n_states"):
        H3M.from_arrays(**arrays)


def test_sums_are_made_exact_once_and_zeros_stay():
    hmm = HMM(**{**pieces(), "startprob": [0.5 + 3e-9, 0.5]})
    assert hmm.startprob.sum() == pytest.approx(1.0, abs=1e-15)
    assert hmm.transmat[1, 0] == 0.0
    rng = np.random.default_rng(1)
    h3m = random_h3m(rng, 4, 5, 3, 2, zeros=True)
    again = H3M.from_arrays(h3m.startprob, h3m.transmat, h3m.means, h3m.covars, h3m.mix_weights, h3m.weights)
    assert same(h3m, again)
    assert np.array_equal(h3m.weights, again.weights)


@pytest.mark.parametrize("covariance_type", ["diag", "full"])
def test_ragged_round_trip(covariance_type):
    rng = np.random.default_rng(2)
    hmms = [random_hmm(rng, S, M, 2, covariance_type) for S, M in ((2, 1), (4, 3), (1, 2))]
    h3m = H3M(hmms, weights=[0.0, 0.25, 0.75], ids=["a", "b", "c"])
    assert h3m.n_states.tolist() == [2, 4, 1]
    assert h3m.means.shape == (3, 4, 3, 2)
    assert not h3m.startprob[0, 2:].any()
    assert not h3m.transmat[0, 2:].any()
    assert not h3m.mix_weights[0, :, 1:].any()
    assert all(same(a, b) for a, b in zip(h3m, hmms, strict=True))
    assert repr(h3m) == (f"H3M(n_hmms=3, n_states=1 to 4, n_mix=3, n_dims=2, covariance_type={covariance_type!r})")
    np.linalg.cholesky(h3m.covars) if covariance_type == "full" else np.log(h3m.covars)


def test_zero_padding_is_taken_and_made_harmless():
    rng = np.random.default_rng(3)
    hmms = [random_hmm(rng, 2, 1, 2), random_hmm(rng, 3, 2, 2)]
    shape = (2, 3, 2)
    arrays = {
        "startprob": np.zeros((2, 3)),
        "transmat": np.zeros((2, 3, 3)),
        "mix_weights": np.zeros(shape),
        "means": np.zeros((*shape, 2)),
        "covars": np.zeros((*shape, 2)),
    }
    for k, hmm in enumerate(hmms):
        S, M = hmm.mix_weights.shape
        arrays["startprob"][k, :S] = hmm.startprob
        arrays["transmat"][k, :S, :S] = hmm.transmat
        for name in ("mix_weights", "means", "covars"):
            arrays[name][k, :S, :M] = getattr(hmm, name)
    h3m = H3M.from_arrays(**arrays, n_states=[2, 3])
    assert (h3m.covars > 0).all()
    assert all(same(a, b) for a, b in zip(h3m, hmms, strict=True))
    assert same(h3m, H3M(hmms))


def test_padded_states_without_mix_weights():
    arrays = stacked()
    arrays["startprob"][1] = [1.0, 0.0]
    arrays["transmat"][1] = [[1.0, 0.0], [0.0, 0.0]]
    arrays["covars"][1, 1] = 0.0
    h3m = H3M.from_arrays(**arrays, n_states=[2, 1, 2])
    assert h3m[1].n_states == 1
    assert h3m.mix_weights[1].tolist() == [[1.0], [0.0]]
    assert np.isfinite(h3m.log_likelihoods([np.zeros((3, 2))])).all()


def test_diagonal_and_full_become_full():
    rng = np.random.default_rng(4)
    diag, full = random_hmm(rng, 2, 1, 3), random_hmm(rng, 2, 1, 3, "full")
    h3m = H3M([diag, full])
    assert h3m.covariance_type == "full"
    np.testing.assert_array_equal(np.diagonal(h3m.covars[0], axis1=-2, axis2=-1), diag.covars)
    data = [rng.normal(size=(30, 3))]
    np.testing.assert_allclose(h3m[0].score_samples(data), diag.score_samples(data), rtol=1e-13)


def test_subsets():
    rng = np.random.default_rng(5)
    h3m = random_h3m(rng, 5, 3).with_weights([0.1, 0.0, 0.2, 0.0, 0.7])
    part = h3m[[2, 0]]
    assert isinstance(part, H3M)
    assert part.weights.tolist() == pytest.approx([2 / 3, 1 / 3])
    assert part.ids == [2, 0]
    assert same(part[0], h3m[2])
    assert h3m[h3m.weights == 0].weights.tolist() == [0.5, 0.5]
    assert len(h3m[1:]) == 4
    assert same(h3m[-1], h3m[4])
    assert same(h3m[np.int64(1)], list(h3m)[1])
    with pytest.raises(IndexError):
        h3m[5]
    with pytest.raises(ValueError, match="selects no HMM"):
        h3m[h3m.weights > 1]
    with pytest.raises(ValueError, match="selects no HMM"):
        h3m[[]]


def test_pool():
    rng = np.random.default_rng(6)
    a, b = random_h3m(rng, 3, 2), random_h3m(rng, 1, 4, 2)
    pooled = H3M.pool([a, b, a[0]])
    assert len(pooled) == 5
    assert pooled.weights == pytest.approx([*(0.6 * a.weights), 0.2, 0.2])
    assert pooled.ids == [0, 1, 2, 3, 4]
    assert all(same(x, y) for x, y in zip(pooled, [*a, *b, a[0]], strict=True))
    assert H3M.pool([a, b], weights=[0, 2]).weights.tolist() == [0, 0, 0, 1]
    named = H3M.pool([H3M(list(a), ids=["x", "y", "z"]), b])
    assert named.ids == ["x", "y", "z", 0]
    with pytest.raises(ValueError, match=r"parts\[1\] has 3 dimensions"):
        H3M.pool([a, random_h3m(rng, d=3)])
    with pytest.raises(ValueError, match="not all zero"):
        H3M.pool([a, b], weights=[0, 0])
    with pytest.raises(ValueError, match="parts is empty"):
        H3M.pool([])
    with pytest.raises(TypeError, match=r"parts\[0\] is a str"):
        H3M.pool(["a"])


def test_parameters_are_the_same_memory():
    rng = np.random.default_rng(7)
    h3m = random_h3m(rng, 6, 3, 2, 2, "full")
    for model in (h3m, h3m[1:4], h3m[::2], h3m[[3, 1]], h3m[2]):
        arrays = model.parameters.arrays()
        for array in arrays.values():
            assert array.flags.c_contiguous
        for name in ARRAYS:
            assert np.shares_memory(arrays[name], getattr(model, name))


def test_immutable_even_after_pickling():
    rng = np.random.default_rng(8)
    start = np.array([0.25, 0.75])
    hmm = HMM(start, np.eye(2), np.zeros((2, 1)), np.ones((2, 1)))
    start[:] = 0.5
    assert hmm.startprob.tolist() == [0.25, 0.75]
    h3m = random_h3m(rng)
    for model in (hmm, h3m, h3m[0], h3m[1:], pickle.loads(pickle.dumps(h3m)), copy.deepcopy(hmm)):
        with pytest.raises(AttributeError, match="is immutable"):
            model.means = None
        with pytest.raises(ValueError, match="read-only"):
            model.means[...] = 0.0
    assert pickle.loads(pickle.dumps(h3m)) == h3m == copy.copy(h3m)
    assert h3m != h3m.with_weights(None)
    assert h3m[0] != h3m[1]


def test_ids_cannot_be_changed():
    h3m = random_h3m(np.random.default_rng(8)).with_ids("abcd"[: len(random_h3m(np.random.default_rng(8)))])
    ids = list(h3m.ids)
    for other in (h3m, h3m.with_weights(None), pickle.loads(pickle.dumps(h3m)), copy.deepcopy(h3m)):
        with pytest.raises(TypeError, match="belongs to an immutable object"):
            other.ids[0] = "changed"
        with pytest.raises(TypeError, match="belongs to an immutable object"):
            other.ids.append("more")
        assert other.ids == h3m.ids == ids
    with pytest.raises(TypeError, match=r"ids has the list \['b'\]"):
        H3M([h3m[0], h3m[1]], ids=["a", ["b"]])


@settings(max_examples=30)
@given(st.sampled_from(["fortran", "strided", "float32", "list"]), st.integers(0, 2**31))
def test_memory_layout_does_not_matter(layout, seed):
    rng = np.random.default_rng(seed)
    forms = {
        "fortran": np.asfortranarray,
        "strided": lambda x: np.repeat(x, 2, axis=0)[::2],
        "float32": lambda x: x.astype(np.float32),
        "list": lambda x: x.tolist(),
    }
    quarters = np.array([[0.5, 0.25, 0.25], [0.25, 0.5, 0.25], [0.0, 0.0, 1.0]])  # exact in float32
    raw = [quarters[0], quarters, rng.integers(-5, 5, (3, 2)) / 4, rng.integers(1, 5, (3, 2)) / 4]
    plain, other = HMM(*raw), HMM(*(forms[layout](x) for x in raw))
    assert same(plain, other)
    y = rng.integers(-9, 9, (20, 2)) / 4
    assert np.array_equal(plain.score_samples([y]), other.score_samples([forms[layout](y)]))


def test_mixture_scores():
    rng = np.random.default_rng(9)
    h3m = random_h3m(rng, 4, 3, ragged=True).with_weights([0.5, 0.0, 0.3, 0.2])
    data = Sequences([rng.normal(size=(T, 2)) for T in (1, 5, 9)])
    each = np.stack([hmm.score_samples(data) for hmm in h3m], axis=1)
    np.testing.assert_allclose(h3m.log_likelihoods(data), each, rtol=1e-12)
    joint = np.exp(each) * h3m.weights
    np.testing.assert_allclose(h3m.score_samples(data), np.log(joint.sum(axis=1)), rtol=1e-12)
    np.testing.assert_allclose(h3m.predict_proba(data), joint / joint.sum(axis=1, keepdims=True), rtol=1e-10)
    assert h3m.predict(data).tolist() == joint.argmax(axis=1).tolist()
    assert h3m.score(data) == pytest.approx(np.log(joint.sum(axis=1)).mean())
    assert h3m[0].score(data) == pytest.approx(each[:, 0].mean())


def test_sequences_of_another_dimension_are_refused():
    with pytest.raises(ValueError, match="the sequences have 3 dimensions, the model has 2"):
        random_hmm(np.random.default_rng(0)).score_samples([np.zeros((4, 3))])


def average_of_powers(hmm, doublings):
    """(1/T) Σ_{t<T} π Aᵗ for T = 2^doublings, by S_2T = S_T + A^T S_T."""
    power, total = hmm.transmat, np.eye(hmm.n_states)
    for _ in range(doublings):
        total, power = total + power @ total, power @ power
        power /= power.sum(axis=1, keepdims=True)
    return hmm.startprob @ total / 2.0**doublings


def chain(startprob, transmat):
    S = len(startprob)
    return HMM(startprob, transmat, np.zeros((S, 1)), np.ones((S, 1)))


CHAINS = {
    "ergodic": chain([1.0, 0.0], [[0.9, 0.1], [0.3, 0.7]]),
    "periodic": chain([1.0, 0.0, 0.0], [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]),
    "two classes": chain([0.2, 0.8, 0.0, 0.0], [[0.5, 0.5, 0, 0], [0.2, 0.8, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]]),
    "gambler": chain([0, 0.3, 0.7, 0], [[1, 0, 0, 0], [0.4, 0.2, 0.4, 0], [0, 0.6, 0, 0.4], [0, 0, 0, 1]]),
    "transient into a periodic class": chain([1.0, 0, 0], [[0.5, 0.3, 0.2], [0, 0, 1], [0, 1, 0]]),
}


@pytest.mark.parametrize("name", CHAINS)
def test_stationary_is_the_limit_of_averages(name):
    hmm = CHAINS[name]
    np.testing.assert_allclose(hmm.stationary(), average_of_powers(hmm, 13), atol=1e-3)
    assert hmm.stationary().sum() == pytest.approx(1.0, abs=1e-14)


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.integers(1, 6), st.booleans())
def test_stationary_of_random_chains(seed, S, zeros):
    hmm = random_hmm(np.random.default_rng(seed), S, 1, 1, zeros=zeros)
    occupancy = hmm.stationary()
    np.testing.assert_allclose(occupancy @ hmm.transmat, occupancy, atol=1e-12)
    np.testing.assert_allclose(occupancy, average_of_powers(hmm, 30), atol=1e-5)


def test_stationary_is_exact_where_it_is_hard():
    assert left_right(6).stationary().tolist() == [0, 0, 0, 0, 0, 1]
    nearly_absorbing = chain([1.0, 0.0], [[1 - 1e-13, 1e-13], [0.0, 1.0]])
    assert nearly_absorbing.stationary().tolist() == [0.0, 1.0]
    nearly_split = chain([1.0, 0.0], [[1 - 3e-13, 3e-13], [1e-13, 1 - 1e-13]])
    np.testing.assert_allclose(nearly_split.stationary(), [0.25, 0.75], rtol=1e-12)
    hardly_left = chain([0.5, 0.5, 0.0], [[0.3, 0.7, 0.0], [0.6, 0.4 - 1e-300, 1e-300], [0.0, 0.0, 1.0]])
    assert hardly_left.stationary().tolist() == [0.0, 0.0, 1.0]
    denormal = chain([1.0, 0.0, 0.0, 0.0], [[0, 1, 0, 0], [1, 0, 5e-324, 0], [0, 0, 0, 1], [0, 0, 1, 0]])
    assert denormal.stationary().tolist() == [0.0, 0.0, 0.5, 0.5]
    h3m = H3M([left_right(3), left_right(1)])
    assert h3m.stationary().tolist() == [[0, 0, 1], [1, 0, 0]]


def exact_occupancy(transmat):
    """The stationary distribution of an irreducible chain in fractions: the same elimination, but without rounding."""
    A = [[Fraction(p) for p in row] for row in transmat.tolist()]
    for k in range(len(A) - 1, 0, -1):
        leaving = sum(A[k][:k])
        for i in range(k):
            A[i][k] /= leaving
            A[i][:k] = [p + A[i][k] * q for p, q in zip(A[i][:k], A[k][:k], strict=True)]
    occupancy = [Fraction(1)]
    for k in range(1, len(A)):
        occupancy.append(sum(w * A[i][k] for i, w in enumerate(occupancy)))
    return np.array([float(w / sum(occupancy)) for w in occupancy])


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "transmat",
    [
        [[0.9, 0.1, 2e-48], [1.7e-283, 0.9, 0.1], [0.0, 1e-34, 1.0]],
        [[1.0, 5e-324], [5e-324, 1.0]],
        [[0.5, 0.5, 0.0], [1e-200, 1.0, 1e-200], [0.0, 1e-300, 1.0]],
        [[1.0, 1e-300, 0.0], [0.3, 0.4, 0.3], [0.0, 2e-300, 1.0]],
        [[0.2, 0.4, 0.4], [1e-310, 1.0, 0.0], [3e-310, 0.0, 1.0]],
    ],
)
def test_stationary_of_states_that_are_hardly_ever_left(transmat):
    rows = np.array(transmat)
    occupancy = long_run_occupancy(np.eye(len(rows))[0], rows)
    np.testing.assert_allclose(occupancy, exact_occupancy(rows), rtol=1e-12, atol=1e-290)


@pytest.mark.parametrize("covariance_type", ["diag", "full"])
def test_samples_have_the_moments_of_the_model(covariance_type):
    rng = np.random.default_rng(10)
    hmm = random_hmm(rng, 3, 2, 2, covariance_type)
    sequences, states = hmm.sample(2000, 30, random_state=0, return_states=True)
    states = np.stack(states)
    np.testing.assert_allclose(np.bincount(states[:, 0], minlength=3) / 2000, hmm.startprob, atol=0.05)
    counts = np.zeros((3, 3))
    np.add.at(counts, (states[:, :-1].ravel(), states[:, 1:].ravel()), 1)
    np.testing.assert_allclose(counts / counts.sum(axis=1, keepdims=True), hmm.transmat, atol=0.02)
    for s in range(3):
        X = sequences.X[states.ravel() == s]
        mean = hmm.mix_weights[s] @ hmm.means[s]
        matrices = hmm.covars[s] if covariance_type == "full" else [np.diag(v) for v in hmm.covars[s]]
        second = sum(
            c * (S + np.outer(m, m)) for c, m, S in zip(hmm.mix_weights[s], hmm.means[s], matrices, strict=True)
        )
        np.testing.assert_allclose(X.mean(axis=0), mean, atol=0.15)
        np.testing.assert_allclose(np.cov(X.T), second - np.outer(mean, mean), rtol=0.1, atol=0.15)


def test_samples_of_a_mixture():
    rng = np.random.default_rng(11)
    h3m = random_h3m(rng, 3, 4, 2, 2, ragged=True, zeros=True).with_weights([0.7, 0.3, 0.0])
    lengths = rng.integers(1, 20, size=3000)
    sequences, labels = h3m.sample(3000, lengths, random_state=1)
    assert sequences.lengths.tolist() == lengths.tolist()
    np.testing.assert_allclose(np.bincount(labels, minlength=3) / 3000, h3m.weights, atol=0.03)
    assert np.isfinite(h3m.log_likelihoods(sequences)[np.arange(3000), labels]).all()
    repeated, _ = h3m.sample(3000, lengths, random_state=1)
    assert repeated == sequences


def test_structural_zeros_are_never_sampled():
    _, states = left_right(4).sample(200, 60, random_state=0, return_states=True)
    assert all(path[0] == 0 and np.isin(np.diff(path), [0, 1]).all() for path in states)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 5), "n_sequences must be a positive"),
        ((2, 0), "length must be positive"),
        ((2, [1, 2, 3]), "2 integers"),
    ],
)
def test_refused_sizes_of_samples(arguments, message):
    with pytest.raises(ValueError, match=message):
        left_right(2).sample(*arguments)


def test_random_states():
    source = np.random.default_rng(3)
    assert generator(source) is source
    assert generator(5).random() == generator(np.int64(5)).random()
    legacy = np.random.RandomState(0)
    first = generator(legacy).random()
    assert first == generator(np.random.RandomState(0)).random()
    assert first != generator(legacy).random()
    assert generator(None).random() != generator(None).random()
    for wrong in (-1, "seed", True, 1.5):
        with pytest.raises(ValueError, match="random_state must be"):
            generator(wrong)


def test_a_hundred_thousand_hmms_are_checked_as_arrays_not_one_by_one():
    rng = np.random.default_rng(12)
    K, S, d = 100_000, 3, 2
    arrays = (
        random_rows(rng, (K, S)),
        random_rows(rng, (K, S, S)),
        rng.normal(size=(K, S, d)),
        random_covars(rng, (K, S, d), "full"),
    )
    start = time.process_time()
    h3m = H3M.from_arrays(*arrays)
    all_at_once = time.process_time() - start
    start = time.process_time()
    one_by_one = [HMM(*(array[k] for array in arrays)) for k in range(500)]
    assert all_at_once < 20 * (time.process_time() - start)  # 200 times as many
    assert h3m[7] == one_by_one[7]


def test_eight_times_as_many_hmms_are_put_together_in_about_eight_times_as_long():
    hmms = [random_hmm(np.random.default_rng(0))] * 8000
    H3M(hmms[:100])
    times = {}
    for n in (1000, 8000):
        start = time.process_time()
        H3M(hmms[:n])
        times[n] = time.process_time() - start
    assert times[8000] < 24 * times[1000]  # 64 times, if every HMM looked at all others


def test_import_adds_nothing_heavy_to_scikit_learn():
    code = "import sys, sklearn.base; before = set(sys.modules); import vhem; print(*(set(sys.modules) - before))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    added = {name.split(".")[0] for name in out.stdout.split()}
    assert not added & {"pandas", "polars", "pyarrow", "matplotlib", "torch", "dask", "hmmlearn"}
    assert not set(out.stdout.split()) & {"scipy.stats", "scipy.optimize", "scipy.signal", "sklearn.cluster"}
