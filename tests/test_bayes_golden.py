"""VB-HMM and VBHEM against numbers of the EMHMM toolbox (tests/golden/bayes; see its README for their origin)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from helpers import available_engines, use_engine

from vhem import H3M
from vhem.bayes import Hyperparameters, Posterior, bound_gradient, fit_hmm, fit_vbhem
from vhem.emissions.normal_wishart import NormalWishart
from vhem.models.posterior import ModelPosterior, joint_posterior

GOLDEN = Path(__file__).parent / "golden" / "bayes"
HMM_CASES = ["vbhmm_a", "vbhmm_b", "vbhmm_d", "vbhmm_e_groups", "vbhmm_g_hyps"]


def hmm_case(name):
    case = np.load(GOLDEN / f"{name}.npz")
    sequences = np.split(case["data"], np.cumsum(case["lengths"])[:-1])
    start = Posterior(**{field: case[f"init_{field}"] for field in ("alpha", "epsilon", "beta", "v", "m", "W")})
    priors = Hyperparameters(
        **{name: float(case[name]) for name in ("alpha0", "epsilon0", "beta0", "v0")}, W0=case["W0"], m0=case["mu0"]
    )
    return case, sequences, start, priors


@pytest.mark.parametrize("name", HMM_CASES)
def test_hmms_agree_at_every_step(name):
    case, sequences, start, priors = hmm_case(name)
    groups = case.get("groups")
    fit = fit_hmm(
        sequences, start, priors, int(case["maxIter"]), float(case["minDiff"]), groups=groups, compatible="emhmm"
    )
    assert len(fit.lower_bounds) == case["iter"]
    np.testing.assert_allclose(fit.lower_bounds, case["LLtrace"], rtol=1e-9)
    for field in ("alpha", "epsilon", "beta", "v", "m", "W"):
        np.testing.assert_allclose(getattr(fit.posterior, field), case[field], rtol=1e-8, atol=1e-9, err_msg=field)


def test_clusters_agree_at_every_step():
    case = np.load(GOLDEN / "vbhem_b.npz")
    base, start, priors = vbhem_case(case)
    fit = fit_vbhem(
        base, start, priors, tau=int(case["tau"]), n_virtual=float(case["Nv"]), max_iter=int(case["max_iter"]),
        tol=float(case["minDiff"]), compatible="emhmm",
    )  # fmt: skip
    assert len(fit.lower_bounds) == len(case["LLtrace"])
    np.testing.assert_allclose(fit.lower_bounds, case["LLtrace"], rtol=1e-9)
    np.testing.assert_allclose(fit.responsibilities, case["Z"], atol=1e-9)
    np.testing.assert_array_equal(fit.labels, case["label"])
    for field in ("alpha", "eta", "epsilon", "lambda_", "v", "m", "W"):
        expected = case[field.rstrip("_")]
        np.testing.assert_allclose(getattr(fit.posterior, field), expected, rtol=1e-8, atol=1e-8, err_msg=field)


def vbhem_case(case):
    base = H3M.of_posterior(joint_posterior([base_posterior(case, f"b{b:02d}_") for b in range(int(case["n_base"]))]))
    start = Posterior(
        **{field: case[f"init_{field}"] for field in ("alpha", "eta", "epsilon", "v", "m", "W")},
        lambda_=case["init_lambda"],
    )
    scalars = ("alpha0", "eta0", "epsilon0", "lambda0", "v0")
    priors = Hyperparameters(**{name: float(case[name]) for name in scalars}, W0=case["W0"], m0=case["m0"])
    return base, start, priors


def base_posterior(case, b):
    """The posterior of one base HMM; any v does, because only the mean covariance is used."""
    d = case[b + "mean"].shape[1]
    v = np.full(len(case[b + "alpha"]), d + 2.0)
    emissions = NormalWishart(*(a[None] for a in (case[b + "beta"], v, case[b + "mean"], case[b + "cov"])))
    n = np.array([case[b + "counts_N"].sum()])
    return ModelPosterior(case[b + "alpha"][None], case[b + "epsilon"][None], emissions, n, np.ones(1))


def test_base_models_are_used_as_the_toolbox_uses_them():
    case = np.load(GOLDEN / "vbhem_b.npz")
    models = vbhem_case(case)[0].posterior.geometric()
    for b in range(int(case["n_base"])):
        S = len(case[f"b{b:02d}_alpha"])
        np.testing.assert_allclose(models.startprob[b, :S], case[f"b{b:02d}_used_prior"], rtol=1e-12)
        np.testing.assert_allclose(models.transmat[b, :S, :S], case[f"b{b:02d}_used_A"], rtol=1e-12)
        np.testing.assert_allclose(models.components.covars[b, :S, 0], case[f"b{b:02d}_used_cov"], rtol=1e-12)


def test_gradients_agree():
    case, sequences, start, priors = hmm_case("vbhmm_d")
    # The toolbox takes them at the last E-step: from the posterior one M-step before the one that it returns.
    before = fit_hmm(sequences, start, priors, int(case["iter"]) - 1, 0.0, compatible="emhmm").posterior
    slopes = bound_gradient(before, priors)
    W0, d = float(case["W0"][0]), case["data"].shape[1]
    for name, chain in {
        "logalpha0": slopes["alpha0"] * priors.alpha0, "logepsilon0": slopes["epsilon0"] * priors.epsilon0,
        "logv0D1": slopes["v0"] * (priors.v0 - d + 1), "logbeta0": slopes["beta0"] * priors.beta0,
        "sqrtW0inv": slopes["W0"] * -2 * W0**1.5, "logW0": slopes["W0"] * W0, "m0": slopes["m0"],
    }.items():  # fmt: skip
        np.testing.assert_allclose(chain, case[f"grad_{name}"].squeeze(), rtol=1e-7, err_msg=name)


def test_engines_agree(monkeypatch):
    _, sequences, start, priors = hmm_case("vbhmm_a")
    clusters = np.load(GOLDEN / "vbhem_b.npz")
    base, first, others = vbhem_case(clusters)
    bounds = []
    for name in available_engines():
        use_engine(monkeypatch, name)
        one = fit_hmm(sequences, start, priors, max_iter=5, tol=0.0).lower_bounds
        bounds.append(np.append(one, fit_vbhem(base, first, others, max_iter=3, tol=0.0).lower_bounds))
    for other in bounds[1:]:
        np.testing.assert_allclose(other, bounds[0], rtol=1e-12)
