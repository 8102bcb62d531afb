"""VHEM against the numbers of the algorithm's authors' own toolbox, five small cases (`golden/README.md`)."""

import json
from pathlib import Path

import numpy as np
import pytest
from helpers import available_engines, use_engine

from vhem import H3M, VHEM, expected_log_likelihood
from vhem.emissions import Gaussian
from vhem.kernels.reduction import BaseModels, Shortcuts, e_step

CASES = ["c01_d1_diag_k1", "c03_d3_full_weighted", "c05_ragged_base", "c07_M2_full_weighted", "c10_left_right_zeros"]


@pytest.fixture(params=CASES)
def case(request):
    path = Path(__file__).parent / "golden" / f"{request.param}.npz"
    with np.load(path, allow_pickle=False) as arrays:
        return json.loads(path.with_suffix(".json").read_text()), dict(arrays)


@pytest.fixture(params=available_engines())
def engine(request, monkeypatch):
    use_engine(monkeypatch, request.param)
    return request.param


def h3m(arrays, prefix, n_states=None):
    fields = [arrays[f"{prefix}_{name}"] for name in ("pi", "A", "mu", "cov", "c", "omega")]
    return H3M.from_arrays(*fields, n_states=n_states)


def problem(case):
    info, arrays = case
    base = h3m(arrays, "base", np.broadcast_to(info["S_base"], len(arrays["base_omega"])))
    return info, arrays, base, h3m(arrays, "init")


def fit(info, base, init, n_steps, shortcuts=True):
    return VHEM(
        len(init), tau=info["tau"], n_virtual=info["Nv"], init=init, max_iter=n_steps, tol=0, shortcuts=shortcuts
    ).fit(base)


def assert_model(fitted, arrays, prefix, rtol, atol):
    for name, key in zip(
        ("weights", "startprob", "transmat", "means", "covars", "mix_weights"),
        ("omega", "pi", "A", "mu", "cov", "c"),
        strict=True,
    ):
        actual = getattr(fitted.centers_, name)
        np.testing.assert_allclose(actual, arrays[f"{prefix}_{key}"], rtol=rtol, atol=atol, err_msg=name)


def test_initial_model(case, engine):
    info, arrays, base, init = problem(case)
    np.testing.assert_allclose(expected_log_likelihood(base, init, info["tau"]), arrays["init_L"], rtol=1e-10)
    start = fit(info, base, init, 0)
    np.testing.assert_allclose(start.responsibilities_, arrays["init_Z"], rtol=1e-9, atol=1e-14)
    assert start.lower_bound_ == pytest.approx(info["init_obj"], rel=1e-10)


def test_statistics_of_one_pair_at_a_time(case, engine):
    info, arrays, base, init = problem(case)
    for i, j in [(0, 0), (len(base) - 1, len(init) - 1)]:
        pair = BaseModels.of(base[i : i + 1].parameters, np.ones(1), np.ones(1), info["tau"])
        one = init[j : j + 1]
        out = e_step(
            pair, one.parameters, np.ones(1), Shortcuts(), anchors=Gaussian(np.zeros_like(one.means), one.covars)
        )
        for actual, key in [
            (out.sums.start, "nu1"),
            (out.sums.trans, "xi"),
            (out.sums.components["count"], "w"),
            (out.sums.components["first"], "mu"),
            (out.sums.components["second"], "M2"),
        ]:
            expected = arrays[f"init_stat_{key}"][i, j]
            np.testing.assert_allclose(actual[0], expected.reshape(actual[0].shape), rtol=1e-10, atol=1e-12)


def test_one_iteration(case, engine):
    info, arrays, base, init = problem(case)
    once = fit(info, base, init, 1)
    assert once.n_iter_ == 1
    assert_model(once, arrays, "it1", rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(once.responsibilities_, arrays["it1_Z"], rtol=1e-9, atol=1e-13)
    assert once.lower_bound_ == pytest.approx(info["it1_obj"], rel=1e-9)


@pytest.mark.filterwarnings("ignore:1 of 3 clusters is empty:RuntimeWarning")  # in one case a cluster nearly dies
def test_the_whole_way(case, engine):
    info, arrays, base, init = problem(case)
    end = fit(info, base, init, info["n_mstep_conv"])
    np.testing.assert_allclose(end.lower_bounds_, arrays["obj_trace"], rtol=1e-9)
    assert_model(end, arrays, "conv", rtol=0, atol=1e-6)
    np.testing.assert_allclose(end.responsibilities_, arrays["conv_Z"], atol=1e-6)
