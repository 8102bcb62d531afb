"""Variational Bayes for HMMs: bounds against exact evidence, gradients, starts, sizes, files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.io
from scipy.stats import invwishart, multivariate_normal, multivariate_t, wishart

import vhem
from vhem.bayes import Hyperparameters, Posterior, bound_gradient, fit_hmm, variational
from vhem.bayes.about_centers import dispersion_of_members, with_posterior
from vhem.bayes.empirical import Learner, Ranges
from vhem.bayes.fitting import Chains, VBPlan, fit_sizes
from vhem.datasets import simulated_study
from vhem.em.grouped import Batch
from vhem.em.loop import Limits
from vhem.em.settings import Shape
from vhem.emissions import Gaussian, dirichlet
from vhem.emissions.normal_wishart import NormalWishart

RNG = np.random.default_rng


def normal_wishart(rng, d, diagonal=False, lead=(1, 2)):
    """Random distributions with about fifteen degrees of freedom."""
    A = rng.normal(size=(*lead, d, 2 * d))
    rate = 10 * (A @ np.swapaxes(A, -1, -2)) / d
    rate = np.einsum("...aa->...a", rate).copy() if diagonal else rate
    beta, v = rng.uniform(1, 5, lead), rng.uniform(d + 10, d + 15, lead)
    return NormalWishart(beta, v, rng.normal(size=(*lead, d)), rate)


def log_density(q, means, covars):
    """The log density of (μ, Λ) under one full Normal-Wishart, by SciPy."""
    precision = np.linalg.inv(covars)
    about = multivariate_normal(q.m, np.linalg.inv(q.beta * precision)).logpdf(means)
    return about + wishart(q.v, q.W).logpdf(precision)


# -- distributions


def test_divergence_is_the_mean_difference_of_log_densities():
    rng = RNG(0)
    q, p = normal_wishart(rng, 2, lead=(1, 1)), normal_wishart(rng, 2, lead=(1, 1))
    many = q.map(lambda a: np.repeat(a, 600, axis=0)).drawn(rng)
    one, other = q.take((0, 0)), p.take((0, 0))
    draws = zip(many.means[:, 0], many.covars[:, 0], strict=True)
    gaps = [log_density(one, m, c) - log_density(other, m, c) for m, c in draws]
    assert abs(np.mean(gaps) - q.divergence(p)[0, 0]) < 4 * np.std(gaps) / np.sqrt(len(gaps))


def test_divergence_of_normal_gamma_is_that_of_its_dimensions():
    rng = RNG(1)
    q, p = normal_wishart(rng, 3, diagonal=True), normal_wishart(rng, 3, diagonal=True)
    parts = []
    for j in range(3):
        one, other = (NormalWishart(x.beta, x.v, x.m[..., j : j + 1], x.rate[..., j : j + 1, None]) for x in (q, p))
        parts.append(one.divergence(other))
    np.testing.assert_allclose(q.divergence(p), np.sum(parts, axis=0), rtol=1e-12)
    assert (q.divergence(p) > 0).all()
    np.testing.assert_allclose(q.divergence(q), 0.0, atol=1e-9)


@pytest.mark.parametrize("diagonal", [False, True])
def test_expected_log_density(diagonal):
    rng = RNG(2)
    q = normal_wishart(rng, 2, diagonal, lead=(1, 1))
    drawn = q.map(lambda a: np.repeat(a, 40_000, axis=0)).drawn(rng)
    x = rng.normal(size=(1, 2))
    values = drawn.log_density(x)[0, :, 0]
    made = q.expected()
    found = made.components.log_density(x)[0, 0, 0] + made.log_loss[0, 0]
    assert made.log_loss[0, 0] < 0
    assert abs(found - values.mean()) < 4 * values.std() / np.sqrt(len(values))


def test_draws_have_the_moments_of_the_posterior():
    rng = RNG(3)
    q = normal_wishart(rng, 2, lead=(1, 1))
    drawn = q.map(lambda a: np.repeat(a, 40_000, axis=0)).drawn(rng)
    np.testing.assert_allclose(drawn.means[:, 0].mean(0), q.m[0, 0], atol=0.05)
    np.testing.assert_allclose(drawn.means[:, 0].std(0), q.deviations()["means"][0, 0], rtol=0.03)
    np.testing.assert_allclose(drawn.covars[:, 0].mean(0), q.point().covars[0, 0], rtol=0.05, atol=0.02)
    spread = np.einsum("kaa->ka", drawn.covars[:, 0]).std(0)
    np.testing.assert_allclose(spread, q.deviations()["covars"][0, 0], rtol=0.06)
    exact = invwishart(q.v[0, 0], q.rate[0, 0]).mean()
    np.testing.assert_allclose(q.point().covars[0, 0], exact, rtol=1e-12)


def test_rows():
    alpha, prior = np.array([[2.0, 3.0, 0.0], [0.5, 0.5, 4.0]]), np.array([[1.0, 1.0, 0.0], [0.5, 0.5, 0.5]])
    draws = dirichlet.drawn_rows(np.tile(alpha, (20_000, 1, 1)), RNG(4))
    assert (draws[:, 0, 2] == 0).all()
    np.testing.assert_allclose(draws.mean(0), dirichlet.mean_rows(alpha), atol=0.01)
    np.testing.assert_allclose(draws.std(0), dirichlet.deviation_of_rows(alpha), atol=0.01)
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(np.log(draws[:, 1]).mean(0), dirichlet.expected_logs(alpha)[1], atol=0.06)
    assert dirichlet.divergence(alpha, alpha).tolist() == [0.0, 0.0]
    assert (dirichlet.divergence(alpha, prior) > 0).all()
    tiny = dirichlet.drawn_rows(np.full((1000, 3), 1e-4), RNG(5))
    assert np.isfinite(tiny).all()
    np.testing.assert_allclose(tiny.sum(1), 1.0)


# -- the bound


def evidence(X, h):
    """log p(X) of Gaussian frames: the product of the predictive Student densities, one frame after another."""
    d, total = X.shape[1], 0.0
    beta, v, m, rate = h.beta0, h.v0, np.asarray(h.m0, float), np.eye(d) / h.W0
    for x in X:
        df = v - d + 1
        total += multivariate_t(m, rate * (beta + 1) / (beta * df), df).logpdf(x)
        away = x - m
        rate = rate + beta / (beta + 1) * np.outer(away, away)
        m, beta, v = m + away / (beta + 1), beta + 1, v + 1
    return total


def start_of(S, d, rng, W=1.0):
    return Posterior(
        alpha=np.ones(S), epsilon=np.ones((S, S)), beta=np.full(S, 3.0), v=np.full(S, d + 3.0),
        m=rng.normal(size=(S, d)), W=np.tile(W * np.eye(d), (S, 1, 1)),
    )  # fmt: skip


def test_with_one_state_the_bound_is_the_evidence():
    X = RNG(6).normal([1.0, -2.0], [1.0, 3.0], (12, 2))
    h = Hyperparameters(alpha0=0.3, epsilon0=0.7, beta0=0.5, v0=3.5, W0=0.4, m0=[0.2, 0.1])
    fit = fit_hmm([X[:5], X[5:]], start_of(1, 2, RNG(0)), h, max_iter=20, tol=1e-12)
    np.testing.assert_allclose(fit.lower_bounds[-1], evidence(X, h), rtol=1e-12)
    toolbox = fit_hmm([X[:5], X[5:]], start_of(1, 2, RNG(0)), h, max_iter=20, tol=1e-12, compatible="emhmm")
    assert toolbox.lower_bounds[-1] < fit.lower_bounds[-1]


def test_gradients_are_slopes_of_the_bound():
    rng = RNG(7)
    X = [rng.normal(size=(8, 2)) for _ in range(5)]
    plain = {"alpha0": 0.3, "epsilon0": 0.7, "beta0": 0.5, "v0": 3.5, "W0": np.array([0.4, 0.9]), "m0": np.zeros(2)}
    posterior = fit_hmm(X, start_of(3, 2, rng), Hyperparameters(**plain), 40, 0.0).posterior

    def bound(**changed):
        return fit_hmm(X, posterior, Hyperparameters(**{**plain, **changed}), max_iter=1).lower_bounds[0]

    slopes, step = bound_gradient(posterior, Hyperparameters(**plain)), 1e-5
    for name, value in plain.items():
        for j in range(np.size(value)):
            nudge = step * (np.arange(np.size(value)) == j) if np.ndim(value) else step
            slope = (bound(**{name: value + nudge}) - bound(**{name: value - nudge})) / (2 * step)
            np.testing.assert_allclose(np.atleast_1d(slopes[name])[j], slope, rtol=1e-5, atol=1e-5, err_msg=name)


def random_problems(n_groups, seed, hyperparameters, **shape):
    """Fits of random sequences; the loop raises an error if any bound falls."""
    rng = RNG(seed)
    d = int(rng.integers(1, 4))
    centers = rng.normal(size=(n_groups, 4, d)) * rng.uniform(0, 5, (n_groups, 1, 1))
    lengths = rng.integers(1, 12, 3 * n_groups)
    groups = np.repeat(np.arange(n_groups), 3)
    noise = 10 ** rng.uniform(-2, 2, len(groups))
    frames = [
        centers[g, rng.integers(0, 4, T)] + rng.normal(size=(T, d)) * wide
        for g, T, wide in zip(groups, lengths, noise, strict=True)
    ]
    full = shape.get("covariance_type") == "full"
    batch = Batch.of(vhem.Sequences(frames), groups, None, Gaussian(np.zeros(d), np.eye(d) if full else np.ones(d)))
    plan = VBPlan(
        shape=Shape(n_states=1, **shape), limits=Limits(max_iter=40, tol=1e-6), n_init=2,
        hyperparameters=hyperparameters,
    )  # fmt: skip
    return batch, fit_sizes(batch, Chains.one_each(batch), [1, 2, 4], plan, rng)


@pytest.mark.parametrize("hyperparameters", ["data", "each", "shared"])
@pytest.mark.parametrize("covariance_type", ["diag", "full"])
def test_bounds_never_fall(covariance_type, hyperparameters):
    for seed in range(2):
        _, fits = random_problems(20, seed, hyperparameters, covariance_type=covariance_type)
        assert all(np.isfinite(fit.bounds).all() for fit in fits)


GROUPS = [0, 1, 1, 2, 2, 2, 0, 3, 3, 3, 4, 5, 6, 7, 8, 9, 9, 9, 9, 9, 9]


@pytest.mark.parametrize("topology", ["ergodic", "left-right"])
@pytest.mark.parametrize("groups", [None, GROUPS])
@pytest.mark.parametrize("limits", [{"max_iter": 1, "tol": 0}, {"max_iter": 6, "tol": 0}, {"max_iter": 60}])
def test_iterating_inside_the_engine_changes_nothing(limits, groups, topology, monkeypatch):
    """What the compiled engine does by itself, with one sequence per HMM or several, is what the loop does in steps."""
    rng = np.random.default_rng(20)
    hmm = vhem.HMM([0.6, 0.3, 0.1], 0.1 + 0.7 * np.eye(3), [[0, 0], [3, 3], [-3, 3]], np.ones((3, 2)))
    ys = [hmm.sample(1, int(T), random_state=rng)[0] for T in rng.integers(30, 60, size=21)]
    ys[3] = np.where(np.arange(len(ys[3]))[:, None] % 7 == [8, 2], np.nan, ys[3])
    more = {"groups": groups, "topology": topology, "sample_weight": rng.uniform(0.5, 2.0, size=21)}
    more |= {"method": "vb", "hyperparameters": "data", "random_state": 0, "return_report": True}

    def fit():
        return vhem.fit_hmms(ys, 3, **limits, **more)

    inside, report = fit()
    monkeypatch.setattr(variational, "advance_posteriors", lambda *_: None)
    outside, other = fit()
    close = 1e-6  # where a bound has converged, rounding may decide on a step more or less
    if "tol" in limits:
        close = 1e-9
        np.testing.assert_array_equal(report.n_iter, other.n_iter)
    np.testing.assert_allclose(report.lower_bounds, other.lower_bounds, rtol=1e-12)
    for name in ("alpha", "epsilon", "beta", "v", "m", "W"):
        mine, theirs = (getattr(h3m.posterior, name) for h3m in (inside, outside))
        np.testing.assert_allclose(mine, theirs, rtol=close, atol=close, err_msg=name)


def test_learned_hyperparameters_are_where_the_slopes_vanish_or_at_a_limit():
    rng = RNG(8)
    X = [np.repeat(rng.normal(size=(3, 1)) * 5, 6, axis=0) + rng.normal(size=(18, 1)) for _ in range(4)]
    batch = Batch.of(vhem.Sequences(X), [0] * 4, None)
    plan = VBPlan(
        shape=Shape(n_states=1), limits=Limits(max_iter=600, tol=1e-11), hyperparameters="each", n_init=5,
    )  # fmt: skip
    (fit,) = fit_sizes(batch, Chains.one_each(batch), [3], plan, rng)
    q, prior = fit.state
    own, p = q.emissions, prior.emissions
    posterior = Posterior(alpha=q.start[0], epsilon=q.trans[0], beta=own.beta[0], v=own.v[0], m=own.m[0], W=own.W[0])
    h = Hyperparameters(
        alpha0=prior.start[0, 0], epsilon0=prior.trans[0, 0, 0], beta0=p.beta[0, 0], v0=p.v[0, 0], m0=p.m[0, 0],
        W0=p.W[0, 0],
    )  # fmt: skip
    slopes, ranges = bound_gradient(posterior, h), Ranges()
    limits = {"alpha0": ranges.rows, "epsilon0": ranges.rows, "beta0": ranges.beta0, "v0": ranges.v0}
    for name, slope in slopes.items():
        value = getattr(h, name)
        if name in limits and np.isclose(value, limits[name].low):
            assert slope <= 0, name
        elif name in limits and np.isclose(value, limits[name].high):
            assert slope >= 0, name
        else:
            np.testing.assert_allclose(slope * value, 0.0, atol=1e-2, err_msg=name)
    assert Learner().ranges == ranges


# -- fit_hmms


@pytest.fixture(scope="module")
def study():
    return simulated_study(n_viewers=12, n_trials=20, random_state=3)


@pytest.fixture(scope="module")
def hmms(study):
    return vhem.fit_hmms(
        study.sequences, range(1, 6), covariance_type="full", groups=study.sequences.groups, method="vb",
        random_state=0, return_report=True,
    )  # fmt: skip


def test_number_of_states_is_found(hmms):
    h3m, report = hmms
    assert (h3m.n_states == 3).sum() >= 11
    assert report.scores.shape == report.lower_bounds.shape == (12, 5)
    np.testing.assert_allclose(report.scores - report.lower_bounds, np.log([[1, 2, 6, 24, 120]] * 12), rtol=1e-12)
    assert (report.n_removed == 0).all()
    np.testing.assert_array_equal(h3m.n_states, report.n_states)
    np.testing.assert_array_equal(h3m.startprob > 0, h3m.posterior.alpha > 0)


def test_units_do_not_matter(study):
    some = study.sequences[:60]
    plain, moved = ([scale * (x - shift) for x in some] for scale, shift in ((1.0, 0.0), (1e-3, 1e3)))
    groups = some.groups
    fits = [
        vhem.fit_hmms(x, [2, 3], groups=groups, method="vb", random_state=0, return_report=True) for x in (plain, moved)
    ]
    n = np.array([sum(len(x) for x, g in zip(plain, groups, strict=True) if g == i) for i in fits[0][0].ids])
    shift = 2 * n * np.log(1e3)  # the log of the Jacobian, for two dimensions
    np.testing.assert_allclose(fits[1][1].lower_bounds, fits[0][1].lower_bounds + shift[:, None], rtol=1e-6)


def test_states_that_nothing_visits_are_removed():
    rng = RNG(9)
    X = [rng.normal(size=(40, 1)) + 8 * (np.arange(40) // 20)[:, None] for _ in range(3)]
    priors = Hyperparameters(alpha0=0.01, epsilon0=0.01, beta0=1.0, v0=5.0, W0=0.2, m0=[4.0])
    h3m, report = vhem.fit_hmms(
        X, 6, groups=["a"] * 3, method="vb", hyperparameters=priors, max_iter=2000, tol=1e-9, random_state=0,
        return_report=True,
    )  # fmt: skip
    assert report.n_removed[0] > 0
    assert h3m.n_states[0] + report.n_removed[0] == 6
    np.testing.assert_allclose(h3m.transmat.sum(-1), 1.0)


def test_few_trials_borrow_from_others(study):
    groups, few = np.array(study.sequences.groups), []
    for name in dict.fromkeys(groups.tolist()):
        few += np.flatnonzero(groups == name)[:4].tolist()
    options = {"n_states": range(1, 5), "groups": groups[few], "method": "vb", "random_state": 0}
    test = {name: hmm.sample(50, 5, random_state=1) for name, hmm in zip(study.hmms.ids, study.hmms, strict=True)}
    scores = {}
    for how in ("data", "shared"):
        h3m = vhem.fit_hmms(study.sequences[few], hyperparameters=how, **options)
        scores[how] = np.mean([hmm.score(test[name]) for name, hmm in zip(h3m.ids, h3m, strict=True)])
    assert scores["shared"] > scores["data"] + 0.1


def test_missing_values_are_integrated_out():
    rng = RNG(10)
    X = rng.normal([0.0, 3.0], 1.0, (30, 2))
    with_gaps = X.copy()
    with_gaps[:, 1] = np.nan
    h = Hyperparameters(alpha0=1.0, epsilon0=1.0, beta0=1.0, v0=3.0, W0=1.0, m0=[0.0, 0.0])
    start = start_of(1, 2, rng)
    start = Posterior(**{**vars(start), "W": np.ones((1, 2))})
    both = fit_hmm([with_gaps], start, h, max_iter=2000, tol=1e-13)
    one = Posterior(**{**vars(start), "m": start.m[:, :1], "W": np.ones((1, 1))})
    alone = fit_hmm([X[:, :1]], one, Hyperparameters(**{**vars(h), "m0": [0.0]}), max_iter=2000, tol=1e-13)
    # What was never seen says nothing: neither about the other dimension nor about how likely the data are.
    np.testing.assert_allclose(both.posterior.m[0, 0], alone.posterior.m[0, 0], rtol=1e-9)
    assert both.lower_bounds[-1] <= alone.lower_bounds[-1] + 1e-9


def test_conditions_share_emissions(study):
    groups = study.sequences.groups
    conditions = ["morning" if i % 2 else "evening" for i in range(len(groups))]
    h3m = vhem.fit_hmms(study.sequences, 3, groups=groups, conditions=conditions, method="vb", random_state=0)
    assert len(h3m) == 24
    assert h3m.ids[:2] == [(groups[0], "evening"), (groups[0], "morning")]
    np.testing.assert_array_equal(h3m.means[0::2], h3m.means[1::2])
    assert (np.abs(h3m.transmat[0::2] - h3m.transmat[1::2]).max((1, 2)) > 0).all()
    together = vhem.fit_hmms(study.sequences, 3, groups=groups, method="vb", random_state=0)
    np.testing.assert_allclose(h3m.posterior.n_frames.reshape(-1, 2).sum(1), together.posterior.n_frames)


def test_regions_are_kept_and_only_the_chain_is_learned(study):
    boxes = [[110.0, 160, 70, 50], [210, 160, 70, 50], [160, 220, 70, 50], [160, 285, 70, 50]]
    groups = study.sequences.groups
    h3m = vhem.fit_hmms(study.sequences, groups=groups, regions=boxes, method="vb", hyperparameters="data")
    np.testing.assert_array_equal(h3m.means[:, :, 0], np.tile(np.array(boxes)[:, :2], (12, 1, 1)))
    np.testing.assert_allclose(h3m.covars[0, 0, 0], [(70 / 4) ** 2, (50 / 4) ** 2])
    n = np.array([sum(g == i for g in groups) for i in h3m.ids])
    np.testing.assert_allclose(h3m.posterior.alpha.sum(1), n + 4 * 0.5, rtol=1e-12)
    as_gaussians = (np.array(boxes)[:, :2], (np.array(boxes)[:, 2:] / 4) ** 2)
    same = vhem.fit_hmms(study.sequences, groups=groups, regions=as_gaussians, method="vb", hyperparameters="data")
    assert same == h3m


def test_posterior_travels_with_the_hmms(hmms, tmp_path):
    h3m = hmms[0]
    h3m.save(tmp_path / "hmms.vhem")
    assert vhem.load(tmp_path / "hmms.vhem") == h3m
    part = vhem.load(tmp_path / "hmms.vhem", [3, 1])
    assert part == h3m[[3, 1]]
    assert part.posterior == h3m.posterior.take([3, 1])
    assert h3m.with_ids(None).posterior == h3m.with_weights(None).posterior == h3m.posterior
    assert vhem.H3M.pool([h3m[:5], h3m[5:]]).posterior == h3m.posterior
    assert vhem.H3M.pool([h3m, h3m[0]]).posterior is None


def test_draws_scatter_as_the_posterior_says(hmms):
    h3m = hmms[0][:3]
    draws = h3m.sample_posterior(400, random_state=0)
    deviations = h3m.posterior_deviations()
    S = h3m.n_states[0]
    means = np.stack([draw.means[0, :S, 0] for draw in draws])
    np.testing.assert_allclose(means.std(0), deviations["means"][0, :S], rtol=0.2)
    trans = np.stack([draw.transmat[0, :S, :S] for draw in draws])
    np.testing.assert_allclose(trans.std(0), deviations["transmat"][0, :S, :S], rtol=0.2)
    assert (h3m.predictive().covars[0, 0, 0].diagonal() > h3m.covars[0, 0, 0].diagonal()).all()


def test_one_seed_one_answer_whatever_the_threads(study):
    options = {"n_states": [2, 3], "groups": study.sequences.groups, "method": "vb", "random_state": 1}
    assert vhem.fit_hmms(study.sequences, n_jobs=1, **options) == vhem.fit_hmms(study.sequences, n_jobs=2, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_mix": 2, "method": "vb"}, "n_mix must be 1 for variational Bayes"),
        ({"method": "bayes"}, "method must be one of 'em', 'vb'"),
        ({"hyperparameters": "each"}, "hyperparameters is only for variational Bayes; add method='vb'"),
        ({"method": "vb", "hyperparameters": "best"}, "hyperparameters must be one of"),
        ({"method": "vb", "conditions": ["a", "b"]}, "conditions needs groups"),
        ({"method": "vb", "conditions": ["a"], "groups": [1, 1]}, "conditions has 1 entries for 2 sequences"),
        ({"method": "vb", "regions": [[1.0, 2.0, 3.0]]}, "regions must be rows of 2 numbers"),
        ({"method": "vb", "regions": [[1.0, 0.0]]}, "sizes and variances positive"),
    ],
)
def test_what_cannot_be_done_is_said(options, message):
    with pytest.raises(ValueError, match=message):
        vhem.fit_hmms([[0.0, 1.0, 2.0], [1.0, 0.0]], **{"n_states": 1, **options})


def test_h3m_without_posterior_says_so(study):
    with pytest.raises(ValueError, match="carries no posterior"):
        study.hmms.sample_posterior(3)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"v0": -1.0}, "v0 must be a positive number"),
        ({"W0": [1.0, 2.0, 3.0]}, "W0 must be one positive number, or one for each of 2 dimensions"),
        ({"m0": [np.nan, 0.0]}, "m0 must be one finite number"),
    ],
)
def test_hyperparameters_are_checked(changes, message):
    plain = {"alpha0": 1.0, "epsilon0": 1.0, "beta0": 1.0, "v0": 4.0, "W0": 1.0, "m0": [0.0, 0.0]}
    with pytest.raises(ValueError, match=message):
        Hyperparameters(**{**plain, **changes})


# -- VBHEM


def kinds_of_viewers(n=6):
    rng = RNG(11)
    places = rng.normal(size=(2 * n, 1)) * 0.2 + np.repeat([0.0, 9.0], n)[:, None]
    rows = [[0.2, 0.8], [0.8, 0.2]]
    return vhem.H3M([vhem.HMM([0.9, 0.1], rows, [[x], [x + 4]], [[1.0], [1.0]]) for x in places[:, 0]])


@pytest.fixture(scope="module")
def clusters():
    return vhem.VBHEM(n_clusters=range(1, 5), n_states=range(1, 4), random_state=0).fit(kinds_of_viewers())


def test_numbers_of_clusters_and_states_are_found(clusters):
    assert clusters.n_clusters_ == 2
    assert clusters.centers_.n_states.tolist() == [2, 2]
    np.testing.assert_array_equal(clusters.labels_, np.repeat([clusters.labels_[0], clusters.labels_[-1]], 6))
    assert clusters.cluster_probabilities_[clusters.cluster_counts_ == 2] > 0.9
    np.testing.assert_allclose(clusters.cluster_probabilities_.sum(), 1.0)
    tried = {tuple(size) for size in clusters.sizes_.tolist()}
    assert len(tried) == len(clusters.scores_)
    assert {(K, 2) for K in range(1, 5)} | {(2, S) for S in range(1, 4)} <= tried
    assert (np.diff(clusters.lower_bounds_) > -1e-9 * abs(clusters.lower_bound_)).all()


def test_new_hmms_are_assigned_as_the_old_ones_were(clusters):
    h3m = kinds_of_viewers()
    np.testing.assert_allclose(clusters.predict_proba(h3m), clusters.responsibilities_, atol=1e-9)
    np.testing.assert_array_equal(clusters.predict(h3m), clusters.labels_)
    assert clusters.transform(h3m).shape == (12, 2)
    assert clusters.score(h3m) > clusters.score(kinds_of_viewers()[:1]) - 10


def test_clusters_are_saved(clusters, tmp_path):
    clusters.save(tmp_path / "fit.vhem")
    again = vhem.load(tmp_path / "fit.vhem")
    assert again.centers_ == clusters.centers_
    np.testing.assert_array_equal(again.predict(kinds_of_viewers()), clusters.labels_)


def test_surplus_clusters_are_removed():
    fit = vhem.VBHEM(n_clusters=5, n_states=2, n_virtual=2, tau=5, init="base", max_iter=500, random_state=1)
    fit.fit(kinds_of_viewers())
    assert fit.n_clusters_ + fit.n_removed_clusters_ == 5
    assert len(fit.centers_) == fit.n_clusters_ == fit.responsibilities_.shape[1]
    np.testing.assert_allclose(fit.responsibilities_.sum(1), 1.0)


def test_members_that_differ_count_less():
    h3m = simulated_study(n_viewers=12, n_trials=10, random_state=1).hmms
    alike = vhem.H3M([h3m[0]] * 12)
    sizes = {"n_clusters": [1, 2, 3], "n_states": 3, "random_state": 0}
    assert vhem.VBHEM(**sizes).fit(alike).dispersion_ == 1.0
    assert vhem.VBHEM(**sizes).fit(h3m).dispersion_ > 1.0


def test_the_last_run_keeps_the_states_that_were_chosen():
    rng = RNG(11)
    place, between = (part[:, None] for part in (rng.normal(size=12) + np.repeat([0.0, 30.0], 6), rng.normal(size=12)))
    means = np.hstack([place, place + 6 + between, place + 12])[..., None]
    rows = np.full((3, 3), 0.3) + 0.1 * np.eye(3)
    hmms = [vhem.HMM([0.4, 0.3, 0.3], rows, own, np.ones((3, 1))) for own in means]
    fit = vhem.VBHEM(n_clusters=2, n_states=[2, 3], tau=3, random_state=0).fit(hmms)
    assert fit.sizes_[fit.scores_.argmax()].tolist() == [2, 3]
    assert fit.centers_.n_states.tolist() == [3, 3]
    assert fit.n_removed_states_ == 0


def test_centers_found_without_bayes_get_a_posterior():
    x = RNG(5).normal(3.0, 2.0, (40, 10, 1))
    center = vhem.H3M([vhem.HMM([1.0], [[1.0]], [[0.0]], [[9.0]]), vhem.HMM([1.0], [[1.0]], [[3.0]], [[4.0]])])
    labels = np.repeat([1, 0], [30, 10])
    made = with_posterior(center, vhem.Sequences(list(x)), labels)
    assert made.posterior.m[1, 0, 0] == pytest.approx(x[:30].mean(), abs=1e-3)
    assert made.posterior_deviations()["means"][1, 0, 0] == pytest.approx(x[:30].std() / np.sqrt(300), rel=0.02)
    wide = with_posterior(center, vhem.Sequences(list(x)), labels, dispersion=4.0)
    twice = wide.posterior_deviations()["means"] / made.posterior_deviations()["means"]
    np.testing.assert_allclose(twice, 2.0, rtol=0.05)
    np.testing.assert_array_equal(made.means, center.means)
    assert with_posterior(center, vhem.Sequences(list(x)), 0 * labels).posterior is None


def test_members_that_vary_count_less():
    center = vhem.H3M([vhem.HMM([1.0], [[1.0]], [[0.0]], [[1.0]])])
    near = [vhem.HMM([1.0], [[1.0]], [[x]], [[1.0]]) for x in (-0.2, -0.1, 0.1, 0.2)]
    members = vhem.H3M(near)
    assert dispersion_of_members(members, center) == 1.0  # nothing is known about the data behind them
    few, many = (dispersion_of_members(members.with_evidence(n, 10 * n), center) for n in (10, 1000))
    assert few < many / 50


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_clusters": []}, "n_clusters is empty"),
        ({"n_clusters": 20}, "asks for 20, but there are only 12 HMMs"),
        ({"tau": 0}, "tau must be an integer of at least 1"),
        ({"n_virtual": -1}, "n_virtual must be a finite number greater than 0"),
        ({"hyperparameters": "each"}, "hyperparameters must be one of"),
        ({"init": "smyth"}, "init must be one of"),
    ],
)
def test_wrong_settings_of_clusters_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        vhem.VBHEM(**options).fit(kinds_of_viewers())


def test_several_components_per_state_are_refused():
    two = vhem.HMM([1.0], [[1.0]], [[[0.0], [1.0]]], [[[1.0], [1.0]]], [[0.5, 0.5]])
    with pytest.raises(ValueError, match="one component per state, not 2"):
        vhem.VBHEM(n_clusters=1, n_states=1).fit([two, two])


def test_posteriors_of_the_toolbox_are_kept(tmp_path):
    case = np.load(Path(__file__).parent / "golden" / "bayes" / "vbhmm_a.npz")
    states = np.empty((3, 1), dtype=object)
    for s in range(3):
        states[s, 0] = {"mean": case["pdf_mean"][s : s + 1], "cov": case["pdf_cov"][s]}
    known = {name: case[name][:, None] for name in ("alpha", "beta", "v")}
    known |= {"epsilon": case["epsilon"], "m": case["m"].T, "W": np.moveaxis(case["W"], 0, -1)}
    cell = np.empty((1, 1), dtype=object)
    counts = {"N": case["counts_N"][:, None], "N1": case["counts_N1"][:, None]}
    cell[0, 0] = {"prior": case["prior"], "trans": case["trans"], "pdf": states, "varpar": known, **counts}
    scipy.io.savemat(tmp_path / "hmms.mat", {"hmms": cell})
    h3m = vhem.from_emhmm(tmp_path / "hmms.mat")
    for name in ("alpha", "epsilon", "beta", "v", "m", "W"):
        np.testing.assert_allclose(getattr(h3m.posterior, name)[0], case[name], rtol=1e-12, err_msg=name)
    np.testing.assert_allclose(h3m.posterior.point().components.covars[0, :, 0], h3m.covars[0, :, 0], rtol=1e-9)
    np.testing.assert_allclose(h3m.posterior.n_sequences, [len(case["lengths"])])
    np.testing.assert_allclose(h3m.posterior.n_frames, [len(case["data"])])


def test_the_report_has_likelihoods_beside_bounds():
    rng = np.random.default_rng(0)
    sequences = [rng.normal(size=(20, 2)) + 3 * (i % 2) for i in range(6)]
    hmms, report = vhem.fit_hmms(sequences, [1, 2], method="vb", random_state=0, n_jobs=1, return_report=True)
    assert np.allclose(report.log_likelihoods, np.diag(hmms.log_likelihoods(sequences)), rtol=1e-12)
    assert (report.lower_bounds.max(axis=1) < report.log_likelihoods).all()
    assert (hmms.n_frames == 20).all(), "what they were learned from is remembered"


def test_uncertainty_is_shown(clusters, tmp_path):
    h3m = kinds_of_viewers()
    text = clusters.summary()
    low, high = clusters.centers_.posterior.transition_intervals()
    assert ((low <= clusters.centers_.transmat) & (clusters.centers_.transmat <= high)).all()
    assert f"({low[0, 0, 0]:.2f} to {high[0, 0, 0]:.2f})" in text
    assert f"± {clusters.centers_.posterior_deviations()['means'][0, 0, 0]:.3g}" in text
    page = tmp_path / "report.html"
    vhem.report.write(page, clusters, h3m)
    assert "Numbers of clusters" in page.read_text(encoding="utf-8")
    assert '"unsure":{"low":' in page.read_text(encoding="utf-8")


def test_intervals_of_transitions_hold_their_share_of_draws():
    alpha = np.array([[[3.0, 1.0, 0.0], [20.0, 5.0, 5.0]]])
    low, high = dirichlet.interval_of_rows(alpha, 0.9)
    draws = np.stack([dirichlet.drawn_rows(alpha, rng) for rng in map(RNG, range(2000))])
    inside = ((low <= draws) & (draws <= high)).mean(0)
    np.testing.assert_allclose(inside[alpha > 0], 0.9, atol=0.03)
    assert low[0, 0, 2] == high[0, 0, 2] == 0.0
