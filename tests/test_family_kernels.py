"""The compiled kernels for every family against the NumPy ones, over random problems."""

import itertools

import numpy as np
import pytest
from helpers import available_engines, random_rows, use_engine
from test_emissions import MAKERS

from vhem import H3M, HMM, fit_hmms
from vhem.emissions import Categorical, Product
from vhem.kernels import compiled, parts
from vhem.kernels import counting as on_any_engine
from vhem.kernels import filtering as on_engine
from vhem.kernels.counting import Pairs
from vhem.kernels.models import Models
from vhem.kernels.reference import counting, filtering, reduction

NATIVE = [name for name in available_engines() if name != "reference"]
EXACT = {"rtol": 1e-12, "atol": 1e-12}
CLOSE = {"rtol": 1e-10, "atol": 1e-11}  # sums over many terms of both signs


def product(*names):
    def make(rng, lead, d):
        return Product([MAKERS[name](rng, lead, d) for name in names])

    return make


FAMILIES = {
    **{name: make for name, make in MAKERS.items() if "gaussian" not in name},
    "gaussian and poisson": product("gaussian", "poisson"),
    "full gaussian and categorical": product("full gaussian", "categorical"),
    "two gaussians and counts": product("gaussian", "negativebinomial", "full gaussian"),
}


@pytest.fixture(params=NATIVE)
def engine(request, monkeypatch):
    use_engine(monkeypatch, request.param)
    yield request.param
    monkeypatch.undo()
    use_engine(monkeypatch, "reference")
    monkeypatch.undo()


@pytest.fixture(params=FAMILIES)
def family(request):
    return request.param


def random_models(rng, family, K=5, S=3, M=1, d=2):
    """Return K models; the last ones have fewer states, and all of them a component without weight if there are two."""
    n_states = np.maximum(1, S - np.arange(K) % 2)
    start, trans, mix = random_rows(rng, (K, S)), random_rows(rng, (K, S, S)), random_rows(rng, (K, S, M))
    for k, n in enumerate(n_states):
        start[k, n:] = trans[k, n:] = trans[k, :, n:] = mix[k, n:] = 0.0
    start /= start.sum(axis=-1, keepdims=True)
    total = trans.sum(axis=-1, keepdims=True)
    trans = np.where(total > 0, trans / np.where(total > 0, total, 1.0), 0.0)
    return Models(start, trans, mix, FAMILIES[family](rng, (K, S, M), d), n_states)


def random_frames(rng, models, lengths, missing):
    N = int(np.prod(models.components.lead))
    X = models.components.draw(rng.integers(N, size=int(np.sum(lengths))), rng)
    X[rng.random(X.shape) < missing] = np.nan
    return X, np.concatenate([[0], np.cumsum(lengths)])


def counted(models, X, offsets, pairs, weights, anchors):
    """Return log-likelihoods and sums of both engines."""
    found = compiled.expectations(
        models=models, X=X, offsets=offsets, sequence=pairs[0], model=pairs[1], weights=weights, anchors=anchors,
        n_threads=1,
    )  # fmt: skip
    return found, counting.expectations(models, X, offsets, *pairs, weights, anchors)


def assert_sums_equal(found, wanted):
    np.testing.assert_allclose(found.start, wanted.start, **CLOSE)
    np.testing.assert_allclose(found.trans, wanted.trans, **CLOSE)
    assert set(found.components) == set(wanted.components)
    for name, array in wanted.components.items():
        assert found.components[name].shape == array.shape
        np.testing.assert_allclose(found.components[name], array, err_msg=name, **CLOSE)


@pytest.mark.parametrize("M", [1, 2])
@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_counts_are_those_of_numpy(engine, family, M, missing):
    rng = np.random.default_rng(M)
    models = random_models(rng, family, M=M)
    X, offsets = random_frames(rng, models, [4, 9, 1, 30, 7, 8], missing)
    sequence, model = np.array([0, 1, 2, 3, 4, 5, 0, 3]), np.array([0, 1, 2, 3, 4, 0, 2, 1])
    weights = np.array([1.0, 2.0, 0.5, 1.0, 0.0, 1.0, 1.0, 3.0])
    anchors = random_models(rng, family, M=M).components
    assert compiled.knows(models)
    (scores, sums), (wanted, wanted_sums) = counted(models, X, offsets, (sequence, model), weights, anchors)
    np.testing.assert_allclose(scores, wanted, **EXACT)
    assert_sums_equal(sums, wanted_sums)


def test_few_of_many_sequences_are_counted(engine, family):
    """Only their frames are brought into the kernels' form."""
    rng = np.random.default_rng(8)
    models = random_models(rng, family)
    X, offsets = random_frames(rng, models, [4, 9, 1, 30, 7, 8, 5], 0.1)
    pairs, weights = Pairs(np.array([3, 1, 3]), np.array([0, 4, 2])), np.array([1.0, 0.5, 2.0])
    assert len(pairs.alone(X, offsets)[0]) == 39
    found = on_any_engine.expectations(models, X, offsets, pairs, weights)
    scores, sums = counting.expectations(models, X, offsets, *pairs, weights, models.components)
    np.testing.assert_allclose(found.log_likelihoods, scores, **EXACT)
    assert_sums_equal(found.sums, sums)


@pytest.mark.parametrize("M", [1, 2])
def test_long_sequences_are_counted_one_at_a_time(engine, family, M):
    rng = np.random.default_rng(7)
    models = random_models(rng, family, K=2, M=M)
    X, offsets = random_frames(rng, models, [150], 0.2)
    one, pair = np.ones(1), np.zeros(1, dtype=np.int64)
    (scores, sums), (wanted, wanted_sums) = counted(models, X, offsets, (pair, pair), one, models.components)
    np.testing.assert_allclose(scores, wanted, **EXACT)
    assert_sums_equal(sums, wanted_sums)


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_scores_posteriors_and_paths_are_those_of_numpy(engine, family, missing):
    rng = np.random.default_rng(2)
    models = random_models(rng, family, M=2)
    X, offsets = random_frames(rng, models, [70, 3, 12], missing)
    found = on_engine.log_likelihoods(models, X, offsets)
    np.testing.assert_allclose(found, filtering.log_likelihoods(models, X, offsets), **EXACT)
    one = models.take(slice(0, 1))
    score, gamma = compiled.posteriors(models=one, X=X, offsets=offsets, n_threads=1)
    wanted_score, wanted_gamma = filtering.posteriors(one, X, offsets)
    np.testing.assert_allclose(score, wanted_score, **EXACT)
    np.testing.assert_allclose(gamma, wanted_gamma, **CLOSE)
    scores, paths = compiled.viterbi(models=one, X=X, offsets=offsets, n_threads=1)
    wanted, wanted_paths = filtering.viterbi(one, X, offsets)
    np.testing.assert_allclose(scores, wanted, **EXACT)
    np.testing.assert_array_equal(paths, wanted_paths)


@pytest.mark.parametrize("M", [1, 2])
def test_reductions_are_those_of_numpy(engine, family, M):
    rng = np.random.default_rng(10 + M)
    base, reduced = random_models(rng, family, K=9, M=3 - M), random_models(rng, family, K=3, S=4, M=M)
    J = compiled.expected_log_likelihood(base=base, reduced=reduced, tau=6, early_stop=True, n_threads=1)
    np.testing.assert_allclose(J, reduction.expected_log_likelihood(base, reduced, 6), **EXACT)
    own = compiled.self_log_likelihood(models=base, tau=6, early_stop=True, n_threads=1)
    np.testing.assert_allclose(own, np.diag(reduction.expected_log_likelihood(base, base, 6)), **EXACT)


@pytest.mark.parametrize("M", [1, 2])
@pytest.mark.parametrize("prune", [False, True])
def test_e_steps_are_those_of_numpy(engine, family, M, prune):
    rng = np.random.default_rng(20 + M)
    base, reduced = random_models(rng, family, K=9, M=M), random_models(rng, family, K=3, S=2, M=M)
    anchors = random_models(rng, family, K=3, S=2, M=M).components
    weights, counts, scales, tau = np.log(np.full(3, 1 / 3)), rng.uniform(0.5, 2.0, 9), np.ones(9), 5
    visits = base.startprob.copy()
    for _ in range(tau - 1):
        visits = base.startprob + np.einsum("ib,ibc->ic", visits, base.transmat)
    (bound,), mass, sums, z, _, _ = compiled.e_step(
        base=base, occupancy=visits, counts=counts, scales=scales, reduced=reduced, log_weights=weights,
        anchors=anchors, tau=tau, prune=prune, early_stop=True, want_responsibilities=True, n_threads=1,
    )  # fmt: skip
    total, wanted_z, wanted = reduction.e_step(base, reduced, weights, counts, scales, anchors, tau)
    assert bound == pytest.approx(total.sum(), rel=1e-12)
    np.testing.assert_allclose(z, wanted_z, **CLOSE)
    np.testing.assert_allclose(mass, wanted_z.sum(axis=0), **CLOSE)
    assert_sums_equal(sums, wanted)


def test_impossible_categories_rule_out_states_and_clusters(engine):
    """Zeros of probabilities are zeros on both engines, and nothing becomes NaN."""
    rng = np.random.default_rng(0)
    models = random_models(rng, "categorical", d=1)
    p = models.components.probabilities
    p[:, 0, :, :, 0] = 0.0
    p /= p.sum(axis=-1, keepdims=True)
    X, offsets = random_frames(rng, models, [12, 12], 0.1)
    found = on_engine.log_likelihoods(models, X, offsets)
    np.testing.assert_allclose(found, filtering.log_likelihoods(models, X, offsets), **EXACT)
    J = compiled.expected_log_likelihood(base=models, reduced=models, tau=4, early_stop=True, n_threads=1)
    assert np.isfinite(J).all()
    np.testing.assert_allclose(J, reduction.expected_log_likelihood(models, models, 4), **EXACT)


@pytest.mark.parametrize("name", ["categorical", "gaussian and categorical", "large"])
def test_categories_that_are_next_to_impossible(engine, name):
    """Where no state that an HMM has makes a category likely, everything is done in logs, in HMMs of any size."""
    rng = np.random.default_rng(6)
    lead, V = (8, 3, 1), 100 if name == "large" else 4
    p = random_rows(rng, (*lead, 1, V))
    p[:4, :2, ..., 1], p[4:, :2, ..., 2], p[4::2, 2, ..., 2] = 1e-40, 0.0, 0.0  # every other HMM has two states
    categories = Categorical.of(p / p.sum(axis=-1, keepdims=True))
    emissions = Product([MAKERS["gaussian"](rng, lead, 1), categories]) if name.startswith("gauss") else categories
    models = random_models(rng, "categorical", K=8).with_components(emissions)
    X = rng.integers(4, size=(8 * 30, emissions.n_dims)).astype(np.float64)
    pairs, weights = (np.arange(8), np.arange(8)), rng.uniform(0.5, 2.0, size=8)
    (scores, sums), (wanted, others) = counted(models, X, 30 * np.arange(9), pairs, weights, emissions)
    np.testing.assert_allclose(scores, wanted, **CLOSE)
    assert (scores[4:] < -1e200).all()  # impossible: nothing is known about their states
    assert_sums_equal(sums.take(slice(4)), others.take(slice(4)))


def test_codes_beyond_their_table_are_refused(engine):
    rng = np.random.default_rng(0)
    models = random_models(rng, "categorical", d=1)
    X = np.full((3, 1), 9.0)
    with pytest.raises(ValueError, match="codes must lie between 0 and 4"):
        on_engine.log_likelihoods(models, X, np.array([0, 3]))


def test_large_tables_become_products(engine, monkeypatch):
    """Counts with more distinct values than a table should hold are computed from statistics, with the same result."""
    rng = np.random.default_rng(4)
    models = random_models(rng, "negativebinomial")
    X, offsets = random_frames(rng, models, [20, 30], 0.1)
    by_table = on_engine.log_likelihoods(models, X, offsets)
    monkeypatch.setattr(parts, "_TABLE_NUMBERS", 0)
    np.testing.assert_allclose(on_engine.log_likelihoods(models, X, offsets), by_table, rtol=1e-10)


@pytest.mark.parametrize("name", ["categorical", "poisson", "both"])
@pytest.mark.parametrize("prior", [0.0, 0.2])
def test_learning_inside_the_engine_is_that_of_numpy(engine, monkeypatch, name, prior):
    """Many HMMs of one sequence each iterate without Python, from a given start, with gaps and another length each."""
    rng = np.random.default_rng(5)
    lead, K = (7, 3, 1), 7
    makers = {"both": lambda: Product([MAKERS[n](rng, lead, 1) for n in ("categorical", "poisson")])}
    emissions = makers[name]() if name in makers else MAKERS[name](rng, lead, 2)
    models = Models(random_rows(rng, (K, 3)), random_rows(rng, (K, 3, 3)), np.ones(lead), emissions, np.full(K, 3))
    start = H3M([HMM(models.startprob[k], models.transmat[k], emissions=emissions.take(k)) for k in range(K)])
    X, offsets = random_frames(rng, models, rng.integers(20, 40, size=K), 0.1)
    sequences = [X[a:b] for a, b in itertools.pairwise(offsets)]
    priors = {"startprob_prior": prior, "transmat_prior": prior, "covars_prior": prior}

    def fit():
        return fit_hmms(sequences, init=start, max_iter=12, tol=0, reg_covar=0.01, return_report=True, **priors)

    calls = []
    learn = compiled._learn_parts
    monkeypatch.setattr(compiled, "_learn_parts", lambda *given: (calls.append(1), learn(*given)))
    found, report = fit()
    assert calls
    monkeypatch.undo()
    use_engine(monkeypatch, "reference")
    wanted, theirs = fit()
    np.testing.assert_allclose(report.log_likelihoods, theirs.log_likelihoods, rtol=1e-9)
    for mine, other in zip(found.parameters.arrays().values(), wanted.parameters.arrays().values(), strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-6, atol=1e-8)
