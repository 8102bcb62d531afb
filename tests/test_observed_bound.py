"""The bound that sees the observation: against enumeration and Monte Carlo, and in order with the others."""

import itertools

import numpy as np
import pytest
from helpers import random_h3m
from scipy.special import logsumexp

import vhem
from vhem.em.loop import Limits, run
from vhem.em.observed import _ALPHA, in_pieces, nodes
from vhem.em.reduction import Centers, ReductionProblem
from vhem.em.sharding import Shards
from vhem.kernels.models import Pieces
from vhem.kernels.reduction import BaseModels, Shortcuts, e_step


def random_hmm(
    rng: np.random.Generator, n_states: int = 2, n_dims: int = 2, full: bool = False, n_mix: int = 1
) -> vhem.HMM:
    shape = (n_states, n_mix, n_dims)
    covars = rng.uniform(0.5, 2.0, size=shape)
    if full:
        A = rng.normal(size=(*shape, n_dims)) * 0.4
        covars = covars[..., None] * np.eye(n_dims) + A @ np.swapaxes(A, -1, -2)
    start, trans = rng.dirichlet(np.ones(n_states)), rng.dirichlet(np.ones(n_states), size=n_states)
    mix = rng.dirichlet(np.ones(n_mix), size=n_states)
    return vhem.HMM(start, trans, 1.5 * rng.normal(size=shape), covars, mix)


def enumerated(base: vhem.HMM, reduced: vhem.HMM, u: np.ndarray, tau: int) -> float:
    """J by its definition, over all paths of base states and pieces: Σ π c/Q lse_σ(log π_σ + e(γ,p,σ) + Λ_2(γ,σ))."""
    S, Q = base.n_states, len(u)
    mean = base.means[:, 0, None] + np.sqrt(_ALPHA * base.covars[:, 0, None]) * u  # (S, Q, d)
    rest = (1 - _ALPHA) * base.covars[:, 0, None]
    mu, var = reduced.means[:, 0], reduced.covars[:, 0]
    e = -0.5 * (np.log(2 * np.pi * var) + (rest[:, :, None] + (mean[:, :, None] - mu) ** 2) / var).sum(-1)  # (S, Q, R)

    def ahead(state: int, rho: int, t: int) -> float:
        if t > tau:
            return 0.0
        return sum(
            base.transmat[state, g] / Q * logsumexp(
                [np.log(reduced.transmat[rho, s]) + e[g, p, s] + ahead(g, s, t + 1) for s in range(reduced.n_states)]
            )
            for g, p in itertools.product(range(S), range(Q))
        )  # fmt: skip

    return sum(
        base.startprob[g] / Q * logsumexp(
            [np.log(reduced.startprob[s]) + e[g, p, s] + ahead(g, s, 2) for s in range(reduced.n_states)]
        )
        for g, p in itertools.product(range(S), range(Q))
    )  # fmt: skip


@pytest.mark.parametrize("tau", [1, 2, 3])
def test_it_equals_the_recursion_by_definition(tau: int) -> None:
    rng = np.random.default_rng(tau)
    base, reduced = random_hmm(rng), random_hmm(rng)
    u = nodes(4, 2, np.random.default_rng(7))
    J = vhem.expected_log_likelihood(base, reduced, tau, bound="observed", n_nodes=4, random_state=7)
    assert J[0, 0] == pytest.approx(enumerated(base, reduced, u, tau), rel=1e-10)


@pytest.mark.parametrize("full", [False, True])
def test_bounds_are_in_order(full: bool) -> None:
    rng = np.random.default_rng(3)
    gains = []
    for seed in range(8):
        base, reduced = random_hmm(rng, full=full, n_mix=2), random_hmm(rng, full=full)
        paper = vhem.expected_log_likelihood(base, reduced, 6)[0, 0]
        tight = vhem.expected_log_likelihood(base, reduced, 6, bound="observed", n_nodes=64, random_state=seed)[0, 0]
        X = base.sample(4000, 6, random_state=seed)
        scores = reduced.score_samples(X)
        truth, error = scores.mean(), scores.std() / np.sqrt(len(scores))
        assert paper <= tight + 1e-9
        assert tight <= truth + 4 * error
        gains.append((tight - paper) / max(truth - paper, 1e-3))
    assert np.mean(gains) > 0.3  # a good part of what the paper's bound loses


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("n_nodes", [2, 8])
def test_pieces_keep_the_distribution_of_states(full: bool, n_nodes: int) -> None:
    rng = np.random.default_rng(0)
    hmms = vhem.H3M([random_hmm(rng, n, 3, full, n_mix=2) for n in (2, 3)])
    models = in_pieces(hmms.parameters, nodes(n_nodes, 3, rng, diagonal=not full))
    assert np.allclose(models.startprob.sum(1), 1)
    for k, hmm in enumerate(hmms):
        S = hmm.n_states * 2 * n_nodes
        assert models.n_states[k] == S
        assert np.allclose(models.transmat[k, :S].sum(1), 1)
        for s in range(hmm.n_states):
            rows = slice(s * 2 * n_nodes, s * 2 * n_nodes + n_nodes)  # pieces of the first Gaussian
            means, covars = models.components.means[k, rows, 0], models.components.covars[k, rows, 0]
            spread = np.cov(means.T, bias=True)
            assert np.allclose(means.mean(0), hmm.means[s, 0])
            if full:
                assert np.allclose(covars[0] + spread, hmm.covars[s, 0])
                assert (np.linalg.eigvalsh(covars) > 0).all()
            else:
                assert np.allclose(covars[0] + np.diag(spread), hmm.covars[s, 0])


def test_more_nodes_come_closer_to_the_truth_for_mixtures_too() -> None:
    rng = np.random.default_rng(5)
    base, reduced = random_hmm(rng, n_mix=2), random_hmm(rng, n_mix=2)
    truth = reduced.score_samples(base.sample(20_000, 5, random_state=1)).mean()
    paper = vhem.expected_log_likelihood(base, reduced, 5)[0, 0]
    tight = vhem.expected_log_likelihood(base, reduced, 5, bound="observed", n_nodes=64)[0, 0]
    assert truth - tight < 0.6 * (truth - paper)


def test_divergence_of_a_model_from_itself_is_zero() -> None:
    rng = np.random.default_rng(1)
    hmms = vhem.H3M([random_hmm(rng) for _ in range(3)])
    D = vhem.divergence(hmms, hmms, 5, bound="observed", n_nodes=8)
    assert np.allclose(np.diag(D), 0)
    assert (D > -0.5).all()


def test_vhem_by_the_observed_bound_never_falls_and_reports_fresh_nodes() -> None:
    rng = np.random.default_rng(2)
    hmms = vhem.H3M([random_hmm(rng) for _ in range(12)])
    fit = vhem.VHEM(2, bound="observed", n_nodes=4, tau=4, tol=1e-3, random_state=0).fit(hmms)
    assert (np.diff(fit.lower_bounds_) > -1e-7 * abs(fit.lower_bounds_[-1])).all()
    assert not fit.polished_
    assert fit.lower_bound_ != fit.lower_bounds_[-1]
    assert (fit.predict(hmms) == fit.labels_).all()


@pytest.mark.parametrize("tau", [1, 2, 9, 200])
@pytest.mark.parametrize(("n_mix", "n_nodes"), [(1, 2), (1, 8), (2, 4), (1, 18)])
def test_pieces_of_states_are_counted_as_states_would_be(tau: int, n_mix: int, n_nodes: int) -> None:
    """The compiled engine takes the exponentials of pieces apart; as states of their own they give the same sums."""
    rng = np.random.default_rng(n_nodes)
    whole = random_h3m(rng, 9, 3, n_mix, 2, ragged=True).parameters
    centers = random_h3m(rng, 3, 4, 1, 2, ragged=True)
    cut = in_pieces(whole, nodes(n_nodes, 2, rng))
    weights = (np.full(9, 0.1), np.ones(9), tau)
    for pieces in (Pieces(whole, n_nodes), None):
        base = BaseModels.of(cut, *weights, pieces)
        found = e_step(base, centers.parameters, centers.weights, Shortcuts(), want_responsibilities=True)
        if pieces is not None:
            fast = found
    assert fast.bound == pytest.approx(found.bound, rel=1e-12)
    np.testing.assert_allclose(fast.responsibilities, found.responsibilities, rtol=1e-10)
    np.testing.assert_allclose(fast.sums.trans, found.sums.trans, rtol=1e-9, atol=1e-12)
    for name, sums in found.sums.components.items():
        np.testing.assert_allclose(fast.sums.components[name], sums, rtol=1e-9, atol=1e-10)


def test_both_engines_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    from vhem.kernels import compiled

    rng = np.random.default_rng(4)
    hmms, centers = vhem.H3M([random_hmm(rng) for _ in range(5)]), vhem.H3M([random_hmm(rng) for _ in range(2)])
    cut, whole = in_pieces(hmms.parameters, nodes(4, 2, rng)), Pieces(hmms.parameters, 4)
    base = BaseModels.of(cut, np.full(5, 10.0), np.ones(5), 6, whole)
    problem = ReductionProblem(base=Shards.of(base))
    ours = run(problem, Centers(centers.parameters, centers.weights), Limits(max_iter=5))
    monkeypatch.setattr(compiled, "knows", lambda *_: False)
    theirs = run(problem, Centers(centers.parameters, centers.weights), Limits(max_iter=5))
    assert np.allclose(ours.bounds, theirs.bounds, rtol=1e-10)
    assert np.allclose(ours.state.models.components.means, theirs.state.models.components.means)


@pytest.mark.parametrize(("options", "message"), [({"n_nodes": 5}, "even"), ({"bound": "exact"}, "bound")])
def test_wrong_options(options: dict, message: str) -> None:
    hmm = random_hmm(np.random.default_rng(0))
    with pytest.raises(ValueError, match=message):
        vhem.VHEM(1, **{"bound": "observed", **options}).fit([hmm, hmm])
