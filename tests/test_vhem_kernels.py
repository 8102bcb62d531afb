"""VHEM's kernels, on every engine, against enumeration of all paths and each other, shortcuts on and off."""

import itertools
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from helpers import available_engines, left_right, random_covars, random_h3m, random_rows, use_engine
from hypothesis import given, settings
from hypothesis import strategies as st

from vhem import H3M, HMM
from vhem.em.reduction import Centers, ReductionProblem
from vhem.emissions import Gaussian
from vhem.kernels import reduction as vhem
from vhem.kernels.reduction import BaseModels, Shortcuts, e_step, expected_visits
from vhem.kernels.reference import reduction as reference

NOTHING_SKIPPED = Shortcuts.of(False)
ENGINES = available_engines()
NATIVE = [name for name in ENGINES if name != "reference"]


@pytest.fixture(params=ENGINES)
def engine(request, monkeypatch):
    use_engine(monkeypatch, request.param)
    return request.param


@pytest.fixture(params=NATIVE)
def native(request, monkeypatch):
    use_engine(monkeypatch, request.param)
    return request.param


def base_models(h3m, tau, n_virtual=3.0, scales=None):
    counts = n_virtual * len(h3m) * h3m.weights
    scales = np.ones_like(counts) if scales is None else scales
    return BaseModels.of(h3m.parameters, counts, scales, tau)


def m_step(found, models, weights=None):
    """The M-step of VHEM about the present means."""
    weights = np.ones(len(models)) if weights is None else weights
    return ReductionProblem(base=None).m_step(Centers(models, weights), found, found, None).state


def named(found):
    return {"mass": found.mass, "start": found.sums.start, "trans": found.sums.trans, **found.sums.components}


def statistics(base_h3m, reduced, tau, shortcuts=NOTHING_SKIPPED, n_virtual=3.0, **kwargs):
    base = base_models(base_h3m, tau, n_virtual)
    return e_step(base, reduced.parameters, reduced.weights, shortcuts, want_responsibilities=True, **kwargs)


def assert_same(a, b, rtol=1e-9, atol=1e-11):
    assert a.bound == pytest.approx(b.bound, rel=rtol)
    np.testing.assert_allclose(a.responsibilities, b.responsibilities, rtol=rtol, atol=atol)
    for (name, x), y in zip(named(a).items(), named(b).values(), strict=True):
        np.testing.assert_allclose(x, y, rtol=rtol, atol=atol, err_msg=name)


def enumerated(base, reduced, phi, E, tau):
    """J, ν̂₁, ν̂ and ξ̂ as plain sums over all pairs of paths, p(β) φ(ρ|β), from given φ."""
    S_b, S_r = E.shape
    J, nu_1, nu, xi = 0.0, np.zeros(S_r), np.zeros((S_b, S_r)), np.zeros((S_r, S_r))
    for beta in itertools.product(range(S_b), repeat=tau):
        p = base.startprob[beta[0]] * np.prod([base.transmat[a, b] for a, b in itertools.pairwise(beta)])
        for rho in itertools.product(range(S_r), repeat=tau):
            q = phi[0][beta[0], rho[0]]
            q *= np.prod([phi[t][beta[t], rho[t - 1], rho[t]] for t in range(1, tau)])
            if p * q == 0:
                continue
            log_joint = np.log(reduced.startprob[rho[0]])
            log_joint += sum(np.log(reduced.transmat[a, b]) for a, b in itertools.pairwise(rho))
            J += p * q * (log_joint + sum(E[b, r] for b, r in zip(beta, rho, strict=True)) - np.log(q))
            nu_1[rho[0]] += p * q
            for b, r in zip(beta, rho, strict=True):
                nu[b, r] += p * q
            for r, s in itertools.pairwise(rho):
                xi[r, s] += p * q
    return J, nu_1, nu, xi


@pytest.mark.parametrize(
    ("S_b", "S_r", "tau", "zeros"), [(2, 3, 4, False), (3, 2, 3, True), (2, 2, 5, True), (3, 3, 1, False)]
)
def test_recursions_are_sums_over_all_paths(engine, S_b, S_r, tau, zeros):
    rng = np.random.default_rng([S_b, S_r, tau])
    base = random_h3m(rng, 1, S_b, 2, 2, zeros=zeros)
    reduced = random_h3m(rng, 1, S_r, 2, 2, zeros=zeros)
    r = reference.ReducedModel.of(reduced.parameters, 0)
    E, eta = reference.emission_step(base.parameters, r)
    phi = [p[0] for p in reference.backward(base.parameters, r, E, tau)[1]]
    J, nu_1, nu, xi = enumerated(base[0], reduced[0], phi, E[0], tau)

    assert vhem.expected_log_likelihood(base.parameters, reduced.parameters, tau)[0, 0] == pytest.approx(J, rel=1e-12)
    out = statistics(base, reduced, tau, n_virtual=1.0)
    np.testing.assert_allclose(out.sums.start[0], nu_1, atol=1e-13)
    np.testing.assert_allclose(out.sums.trans[0], xi, atol=1e-13)
    u = np.einsum("br,bm,bmrc->rc", nu, base.mix_weights[0], eta[0])
    np.testing.assert_allclose(out.sums.components["count"][0], u, atol=1e-13)


def test_phi_is_the_best_of_all_distributions():
    rng = np.random.default_rng(5)
    base, reduced, tau = random_h3m(rng, 1, 2, 1, 2), random_h3m(rng, 1, 2, 1, 2), 3
    r = reference.ReducedModel.of(reduced.parameters, 0)
    E, _ = reference.emission_step(base.parameters, r)
    phi = [p[0] for p in reference.backward(base.parameters, r, E, tau)[1]]
    best = enumerated(base[0], reduced[0], phi, E[0], tau)[0]
    for _ in range(20):
        other = [p * rng.gamma(5.0, size=p.shape) for p in phi]
        other = [p / p.sum(-1, keepdims=True) for p in other]
        assert enumerated(base[0], reduced[0], other, E[0], tau)[0] < best


def test_one_base_state_makes_the_bound_a_likelihood_of_expected_emissions(engine):
    rng = np.random.default_rng(2)
    base, reduced, tau = random_h3m(rng, 1, 1, 1, 2), random_h3m(rng, 1, 3, 1, 2), 5
    E = reference.emission_step(base.parameters, reference.ReducedModel.of(reduced.parameters, 0))[0][0, 0]
    total = 0.0
    for rho in itertools.product(range(3), repeat=tau):
        p = reduced[0].startprob[rho[0]] * np.prod([reduced[0].transmat[a, b] for a, b in itertools.pairwise(rho)])
        total += p * np.exp(sum(E[r] for r in rho))
    assert vhem.expected_log_likelihood(base.parameters, reduced.parameters, tau)[0, 0] == pytest.approx(np.log(total))


def monte_carlo(base, reduced, n):
    """Return mean and standard error of the log-likelihood of drawn sequences, for every pair: (K_b, K_r) each."""
    scores = np.array([reduced.log_likelihoods(hmm.sample(n, 6, random_state=1)) for hmm in base])
    return scores.mean(axis=1), scores.std(axis=1) / np.sqrt(n)


# Drawn and scored once, by the fastest engine: what differs between engines is the bound.
@pytest.fixture(scope="module", params=["diag", "full"])
def drawn_from_mixtures(request):
    rng = np.random.default_rng(8)
    base, reduced = (random_h3m(rng, 2, S, 2, 2, request.param) for S in (2, 3))
    return base, reduced, *monte_carlo(base, reduced, 4000)


@pytest.fixture(scope="module")
def drawn_for_one_gaussian():
    rng = np.random.default_rng(9)
    base, reduced = random_h3m(rng, 1, 3, 2, 2, "full"), random_h3m(rng, 1, 1, 1, 2, "full")
    return base, reduced, *monte_carlo(base, reduced, 40000)


def test_bound_lies_below_the_monte_carlo_likelihood(drawn_from_mixtures, engine):
    base, reduced, mean, error = drawn_from_mixtures
    J = vhem.expected_log_likelihood(base.parameters, reduced.parameters, 6)
    assert np.all(mean + 4 * error > J)


def test_bound_is_exact_for_reduced_models_of_one_gaussian(drawn_for_one_gaussian, engine):
    base, reduced, mean, error = drawn_for_one_gaussian
    J = vhem.expected_log_likelihood(base.parameters, reduced.parameters, 6)
    assert np.all(abs(J - mean) < 4 * error)


SHAPES = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 10**6),
        "K_b": st.integers(1, 19),
        "K_r": st.integers(1, 5),
        "S_b": st.integers(1, 4),
        "S_r": st.integers(1, 10),
        "M_b": st.integers(1, 3),
        "M_r": st.integers(1, 3),
        "d": st.integers(1, 11),
        "tau": st.integers(1, 12),
        "covariance_type": st.sampled_from(["diag", "full"]),
        "ragged": st.booleans(),
        "zeros": st.booleans(),
    }
)


def problem(seed, K_b, K_r, S_b, S_r, M_b, M_r, d, tau, covariance_type, ragged, zeros):
    rng = np.random.default_rng(seed)
    base = random_h3m(rng, K_b, S_b, M_b, d, covariance_type, ragged, zeros)
    reduced = random_h3m(rng, K_r, S_r, M_r, d, covariance_type, ragged, zeros)
    return base, reduced, tau


@pytest.mark.parametrize("name", NATIVE)
@given(shape=SHAPES)
@settings(max_examples=60)
def test_compiled_kernels_equal_the_reference(name, shape):
    base, reduced, tau = problem(**shape)
    with pytest.MonkeyPatch.context() as patch:
        use_engine(patch, "reference")
        expected = statistics(base, reduced, tau)
        J = vhem.expected_log_likelihood(base.parameters, reduced.parameters, tau)
        to_self = vhem.self_log_likelihood(base.parameters, tau)
        use_engine(patch, name)
        assert_same(statistics(base, reduced, tau), expected)
        assert_same(statistics(base, reduced, tau, Shortcuts()), expected)
        np.testing.assert_allclose(
            vhem.expected_log_likelihood(base.parameters, reduced.parameters, tau), J, rtol=1e-10, atol=1e-12
        )
        np.testing.assert_allclose(vhem.self_log_likelihood(base.parameters, tau), to_self, rtol=1e-10, atol=1e-12)


@given(shape=SHAPES)
@settings(max_examples=40)
def test_invariants_and_monotone_bound(shape):
    base, reduced, tau = problem(**shape)
    models = base_models(base, tau)
    out = statistics(base, reduced, tau, Shortcuts())
    virtual = models.counts.sum()
    assert out.sums.start.sum() == pytest.approx(virtual)
    assert out.sums.components["count"].sum() == pytest.approx(virtual * tau)
    assert out.sums.trans.sum() == pytest.approx(virtual * (tau - 1))
    np.testing.assert_allclose(out.responsibilities.sum(1), 1.0)
    bound, parameters, weights = out.bound, reduced.parameters, reduced.weights
    for _ in range(4):
        update = m_step(e_step(models, parameters, weights, Shortcuts()), parameters)
        parameters, weights = update.models, update.weights
        after = e_step(models, parameters, weights, Shortcuts()).bound
        assert after >= bound - 1e-9 * abs(bound)
        bound = after


def separated(rng, K_b, K_r, S=3, d=4, spread=1.5, covariance_type="diag", M=1, stick=0.5):
    """Clustered base models around the reduced ones, as real problems have them."""

    def models(K, centers):
        transmat = stick * np.eye(S) + (1 - stick) * random_rows(rng, (K, S, S))
        means = centers + 0.3 * rng.standard_normal((K, S, M, d))
        return H3M.from_arrays(
            random_rows(rng, (K, S)), transmat, means, random_covars(rng, (K, S, M, d), covariance_type),
            random_rows(rng, (K, S, M)),
        )  # fmt: skip

    centers = spread * rng.standard_normal((K_r, S, M, d))
    labels = rng.integers(K_r, size=K_b)
    return models(K_b, centers[labels]), models(K_r, centers)


@pytest.mark.parametrize(("covariance_type", "M", "S"), [("diag", 1, 3), ("full", 1, 4), ("diag", 2, 9)])
def test_pruning_changes_nothing_and_prunes(native, covariance_type, M, S):
    base, reduced = separated(np.random.default_rng(3), 150, 12, S=S, covariance_type=covariance_type, M=M)
    dense = statistics(base, reduced, 15, n_virtual=50.0)
    pruned = statistics(base, reduced, 15, Shortcuts(prune=True, early_stop=False), n_virtual=50.0)
    assert_same(pruned, dense)
    assert dense.n_evaluated == dense.n_forward == 150 * 12
    assert pruned.n_evaluated < dense.n_evaluated / 2
    assert pruned.n_forward < dense.n_forward / 4


def test_a_starving_cluster_is_updated_as_if_nothing_were_skipped(native):
    base, reduced = separated(np.random.default_rng(4), 60, 4)
    away = np.where(np.arange(4) == 2, 4.0, 0.0)[:, None, None, None]
    far = reduced.parameters.with_components(Gaussian(reduced.means + away, reduced.covars))
    out = {}
    for prune in (False, True):
        model = base_models(base, 8, n_virtual=2.0)
        out[prune] = e_step(model, far, reduced.weights, Shortcuts(prune, False), want_responsibilities=True)
    assert 0 < out[False].mass[2] < 1e-30
    for name, dense in named(out[False]).items():
        np.testing.assert_allclose(named(out[True])[name][2], dense[2], rtol=1e-9, atol=0, err_msg=name)


@pytest.mark.parametrize("tau", [40, 300, 3000])
@pytest.mark.parametrize("stick", [0.0, 0.6, 0.97])
def test_early_stop_changes_nothing(native, tau, stick):
    base, reduced = separated(np.random.default_rng(6), 20, 3, stick=stick, spread=0.5)
    full = statistics(base, reduced, tau, n_virtual=0.01)
    short = statistics(base, reduced, tau, Shortcuts(prune=False, early_stop=True), n_virtual=0.01)
    assert_same(short, full)
    J = [
        vhem.expected_log_likelihood(base.parameters, reduced.parameters, tau, early_stop=stop)
        for stop in (False, True)
    ]
    np.testing.assert_allclose(J[1], J[0], rtol=1e-11)


def test_early_stop_with_base_models_that_never_settle(native):
    rng = np.random.default_rng(7)
    cycle = np.roll(np.eye(3), 1, axis=1)
    means = 2.0 * rng.standard_normal((4, 3, 1, 2))
    ones = np.ones((4, 3, 1, 2))
    base = H3M.from_arrays(np.tile(np.eye(3)[0], (4, 1)), np.tile(cycle, (4, 1, 1)), means, ones)
    reduced = random_h3m(rng, 2, 3, 1, 2)
    full = statistics(base, reduced, 200, n_virtual=0.01)
    assert_same(statistics(base, reduced, 200, Shortcuts(False, True), n_virtual=0.01), full)


def random_left_right(rng, K, S=4, d=2):
    """HMMs whose states pass in order and whose last is never left; nothing says that two of them match."""
    transmat = np.eye(S) * np.concatenate([rng.uniform(0.3, 0.9, (K, S - 1)), np.ones((K, 1))], axis=1)[:, None, :]
    transmat[:, np.arange(S - 1), np.arange(1, S)] = 1 - np.diagonal(transmat, axis1=1, axis2=2)[:, :-1]
    start = np.tile(np.eye(S)[0], (K, 1))
    return H3M.from_arrays(start, transmat, 3 * rng.standard_normal((K, S, d)), rng.uniform(0.5, 2, (K, S, d)))


@pytest.mark.parametrize("tau", [2, 10, 60, 300])
def test_left_right_models_that_drift_apart(native, tau):
    """In the end some states fall behind evenly for ever, which is where the recursion in logs stops early."""
    rng = np.random.default_rng(tau)
    base, reduced = random_left_right(rng, 9), random_left_right(rng, 3)
    expected = reference.expected_log_likelihood(base.parameters, reduced.parameters, tau)
    for stop in (True, False):
        J = vhem.expected_log_likelihood(base.parameters, reduced.parameters, tau, early_stop=stop)
        np.testing.assert_allclose(J, expected, rtol=1e-11)
    short = statistics(base, reduced, tau, Shortcuts(prune=False, early_stop=True), n_virtual=0.01)
    assert_same(short, statistics(base, reduced, tau, n_virtual=0.01))


def test_steps_that_do_not_fit_into_memory_are_made_again(native):
    """Of 17 states, less than 500 steps are kept."""
    rng = np.random.default_rng(0)
    base, reduced = random_h3m(rng, 1, 17, 1, 2), random_h3m(rng, 1, 17, 1, 2)
    found = statistics(base, reduced, 1000, n_virtual=1.0)
    both = (base.parameters, reduced.parameters)
    *_, sums = reference.e_step(*both, np.zeros(1), np.ones(1), np.ones(1), reduced.parameters.components, 1000)
    np.testing.assert_allclose(found.sums.trans, sums.trans, rtol=1e-9)


@pytest.mark.parametrize("separation", [1.0, 30.0, 1000.0])
def test_left_right_models_far_apart(engine, separation, monkeypatch):
    base = H3M([left_right(4, separation), left_right(3, separation, stay=0.5)])
    reduced = H3M([left_right(3, separation), left_right(4, separation, stay=0.6)])
    out = statistics(base, reduced, 30, Shortcuts(), n_virtual=1e-4)
    assert np.isfinite(out.bound)
    assert np.all(out.sums.trans[:, ~np.triu(np.ones((4, 4), bool))] == 0)
    use_engine(monkeypatch, "reference")
    assert_same(out, statistics(base, reduced, 30, n_virtual=1e-4), atol=1e-9)


@pytest.mark.parametrize("covariance_type", ["diag", "full"])
def test_offsets_change_nothing(engine, covariance_type):
    base, reduced = separated(np.random.default_rng(10), 10, 3, covariance_type=covariance_type)
    moved = [h3m.parameters.with_components(Gaussian(h3m.means + 1e6, h3m.covars)) for h3m in (base, reduced)]
    J = vhem.expected_log_likelihood(base.parameters, reduced.parameters, 10)
    np.testing.assert_allclose(vhem.expected_log_likelihood(*moved, 10), J, rtol=1e-7)
    models = base_models(base, 10)
    here = m_step(e_step(models, reduced.parameters, reduced.weights, Shortcuts()), reduced.parameters)
    there = m_step(e_step(replace(models, models=moved[0]), moved[1], reduced.weights, Shortcuts()), moved[1])
    np.testing.assert_allclose(there.models.components.covars, here.models.components.covars, rtol=1e-7, atol=1e-9)


def test_any_number_of_threads_gives_the_same_bits(native):
    base, reduced = separated(np.random.default_rng(11), 700, 10, d=5)
    for shortcuts in (Shortcuts(), NOTHING_SKIPPED):
        one = statistics(base, reduced, 20, shortcuts, n_threads=1)
        for n in (2, 5):
            many = statistics(base, reduced, 20, shortcuts, n_threads=n)
            assert one.bound == many.bound
            assert all(np.array_equal(a, b) for a, b in zip(named(one).values(), named(many).values(), strict=True))
            assert np.array_equal(one.responsibilities, many.responsibilities)


def test_expected_visits_are_the_marginals_summed():
    h3m = random_h3m(np.random.default_rng(12), 4, 3)
    for tau in (1, 2, 7, 33):
        now, total = h3m.startprob[:, None], 0.0
        for _ in range(tau):
            total, now = total + now, now @ h3m.transmat
        np.testing.assert_allclose(expected_visits(h3m.parameters, tau), total[:, 0], rtol=1e-13)


def test_what_nothing_visits_stays_as_it_was(engine):
    rng = np.random.default_rng(13)
    base = random_h3m(rng, 5, 2)
    dead = HMM([1.0, 0.0], [[1.0, 0.0], [0.5, 0.5]], 2.0 * rng.normal(size=(2, 2)), np.ones((2, 2)))
    reduced = H3M([dead, base[0]], weights=[1.0, 0.0])
    update = m_step(statistics(base, reduced, 6, Shortcuts()), reduced.parameters)
    assert update.n_unvisited_states == 1
    np.testing.assert_array_equal(update.weights, [1.0, 0.0])
    np.testing.assert_array_equal(update.models.components.means[0, 1], reduced.means[0, 1])
    np.testing.assert_array_equal(update.models.transmat[0, 1], [0.5, 0.5])
    np.testing.assert_array_equal(update.models.components.means[1], reduced.means[1])


def test_sequences_of_one_frame_leave_the_transitions(engine):
    rng = np.random.default_rng(14)
    base, reduced = random_h3m(rng, 6, 3), random_h3m(rng, 2, 3)
    update = m_step(statistics(base, reduced, 1, Shortcuts()), reduced.parameters)
    np.testing.assert_array_equal(update.models.transmat, reduced.transmat)
    assert np.all(np.isfinite(update.models.components.covars))


def test_zero_mixture_weights_stay_zero(engine):
    rng = np.random.default_rng(15)
    base = random_h3m(rng, 4, 2, 2)
    first = random_h3m(rng, 2, 2, 2)
    mix = np.array([[[1.0, 0.0], [0.3, 0.7]], [[0.0, 1.0], [1.0, 0.0]]])
    reduced = H3M.from_arrays(first.startprob, first.transmat, first.means, first.covars, mix)
    update = m_step(statistics(base, reduced, 5, Shortcuts()), reduced.parameters)
    np.testing.assert_array_equal(update.models.mix_weights == 0, mix == 0)


def exact_quadratic_forms(covar, base_covar, difference):
    """tr(Σ⁻¹ Σ_b) + Δᵀ Σ⁻¹ Δ in rational numbers, by elimination of [Σ | Σ_b Δ]."""
    d = len(difference)
    rows = [[Fraction(x) for x in (*covar[i], *base_covar[i], difference[i])] for i in range(d)]
    for k in range(d):
        rows[k] = [x / rows[k][k] for x in rows[k]]
        for i in range(d):
            if i != k:
                rows[i] = [x - rows[i][k] * y for x, y in zip(rows[i], rows[k], strict=True)]
    trace = sum(rows[i][d + i] for i in range(d))
    return float(trace + sum(rows[i][-1] * Fraction(difference[i]) for i in range(d)))


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("seed", range(5))
def test_full_covariances_that_span_means_far_apart_lose_no_digits(seed):
    """A centre between means 1,000 standard deviations apart is long and thin: its inverse has six digits fewer."""
    rng = np.random.default_rng(seed)
    d = 8
    factor = rng.normal(size=(d, d))
    base_covar = factor @ factor.T / d + 0.1 * np.eye(d)
    gap = 1000 * rng.normal(size=d)
    covar = base_covar + np.outer(gap, gap)
    expected = d * np.log(2 * np.pi) + np.linalg.slogdet(covar)[1] + exact_quadratic_forms(covar, base_covar, gap)
    base, reduced = (HMM([1.0], [[1.0]], [m], [c]) for m, c in ((gap, base_covar), (np.zeros(d), covar)))
    J = vhem.expected_log_likelihood(H3M([base]).parameters, H3M([reduced]).parameters, 1)
    assert J[0, 0] == pytest.approx(-0.5 * expected, rel=1e-9)
