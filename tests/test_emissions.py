"""Emission families behind their protocol: each against Monte Carlo, quadrature, exact sums or scipy."""

import itertools

import numpy as np
import pytest
from helpers import random_covars
from scipy.integrate import quad
from scipy.stats import beta, expon, gamma, multivariate_normal, nbinom, poisson, vonmises

import vhem
from vhem.em.grouped import Batch, Scale
from vhem.em.loop import Limits, run
from vhem.em.reduction import Centers, ReductionProblem
from vhem.em.sharding import Shards
from vhem.emissions import (
    FAMILIES,
    Bernoulli,
    Beta,
    Categorical,
    Components,
    Exponential,
    Gamma,
    Gaussian,
    NegativeBinomial,
    Poisson,
    Product,
    VonMises,
    VonMisesDegrees,
)
from vhem.emissions.components import pooled
from vhem.kernels.models import Models
from vhem.kernels.moments import group_moments
from vhem.kernels.reduction import BaseModels

LEAD = (2, 3)


def gaussians(rng, full, lead=LEAD, d=2):
    means = rng.normal(size=(*lead, d))
    return Gaussian(means, random_covars(rng, (*lead, d), "full" if full else "diag"))


def _some(rng, low, high, lead, d):
    return rng.uniform(low, high, size=(*lead, d))


MAKERS = {
    "gaussian": lambda rng, lead=LEAD, d=2: gaussians(rng, False, lead, d),
    "full gaussian": lambda rng, lead=LEAD, d=2: gaussians(rng, True, lead, d),
    "categorical": lambda rng, lead=LEAD, d=2: Categorical.of(rng.dirichlet(np.ones(4), size=(*lead, d))),
    "bernoulli": lambda rng, lead=LEAD, d=2: Bernoulli.of(_some(rng, 0.1, 0.9, lead, d)),
    "poisson": lambda rng, lead=LEAD, d=2: Poisson.of(_some(rng, 0.5, 12.0, lead, d)),
    "negativebinomial": lambda rng, lead=LEAD, d=2: NegativeBinomial.of(
        _some(rng, 1.0, 9.0, lead, d), _some(rng, 0.7, 4.0, lead, d)
    ),
    "exponential": lambda rng, lead=LEAD, d=2: Exponential.of(_some(rng, 0.3, 2.0, lead, d)),
    "gamma": lambda rng, lead=LEAD, d=2: Gamma.of(
        _some(rng, 0.5, 4.0, lead, d), _some(rng, 1.1, 5.0, lead, d), np.zeros((*lead, d))
    ),
    "zero-gamma": lambda rng, lead=LEAD, d=2: Gamma.of(
        _some(rng, 0.5, 4.0, lead, d), _some(rng, 1.1, 5.0, lead, d), _some(rng, 0.1, 0.6, lead, d)
    ),
    "beta": lambda rng, lead=LEAD, d=2: Beta.of(_some(rng, 0.2, 0.8, lead, d), _some(rng, 5.0, 12.0, lead, d)),
    "vonmises": lambda rng, lead=LEAD, d=2: VonMises.of(_some(rng, -3.0, 3.0, lead, d), _some(rng, 0.5, 5.0, lead, d)),
    "vonmises:degrees": lambda rng, lead=LEAD, d=2: VonMisesDegrees.of(
        _some(rng, -170.0, 170.0, lead, d), _some(rng, 0.5, 5.0, lead, d)
    ),
    "product": lambda rng, lead=LEAD, _=2: Product(
        [MAKERS[name](rng, lead, 1) for name in ("gaussian", "categorical", "poisson", "vonmises")],
        columns=[[2], [0], [3], [1]],
    ),
}
#: scipy's distribution of one component in one dimension, and its support; counts have none
SCIPY = {
    "poisson": lambda c: poisson(c.rates[0, 0]),
    "negativebinomial": lambda c: nbinom(c.sizes[0, 0], c.sizes[0, 0] / (c.sizes[0, 0] + c.means[0, 0])),
    "exponential": lambda c: expon(scale=c.means[0, 0]),
    "gamma": lambda c: gamma(c.shapes[0, 0], scale=c.means[0, 0] / c.shapes[0, 0]),
    "beta": lambda c: beta(c.means[0, 0] * c.precisions[0, 0], (1 - c.means[0, 0]) * c.precisions[0, 0]),
    "vonmises": lambda c: vonmises(c.concentrations[0, 0], loc=c.directions[0, 0]),
}
SUPPORT = {"exponential": (0, np.inf), "gamma": (0, np.inf), "beta": (0, 1), "vonmises": (-np.pi, np.pi)}
SUPPORT |= {"zero-gamma": SUPPORT["gamma"], "vonmises:degrees": (-180, 180)}


@pytest.fixture(params=MAKERS)
def name(request):
    return request.param


@pytest.fixture
def components(name):
    return MAKERS[name](np.random.default_rng(3))


def test_every_family_is_tested():
    assert {MAKERS[name](np.random.default_rng(0)).family for name in MAKERS} == set(FAMILIES)
    assert all(issubclass(family, Components) for family in FAMILIES.values())
    assert all(hasattr(vhem, family.__name__) for family in FAMILIES.values())


def test_a_state_is_seeded_from_single_frames(components):
    """What is re-initialised is one state of one HMM, whatever the block that it goes into."""
    frames = components.draw(np.repeat(np.arange(int(np.prod(LEAD))), 3), np.random.default_rng(0))
    batch = Batch.of(vhem.Sequences([frames]), None, None, components.padding())
    made = components.seeded(frames[:3], Scale.of(batch).typical, 0)
    assert made.lead == (3,)
    assert np.isfinite(made.log_density(frames[:3])).all()


def test_expected_log_densities_are_those_of_draws(components):
    rng, n = np.random.default_rng(0), 20_000
    g = components.expected_log_density(components)
    assert g.shape == (*LEAD, *LEAD)
    for index, at in enumerate(np.ndindex(LEAD)):
        found = components.log_density(components.draw(np.full(n, index), rng))
        error = found.std(axis=0) / np.sqrt(n)
        assert (np.abs(found.mean(axis=0) - g[at]) < 5 * error).all()


@pytest.mark.parametrize("name", SCIPY)
def test_densities_are_scipys(name):
    rng = np.random.default_rng(1)
    one = MAKERS[name](rng, (1,), 1)
    x = one.draw(np.zeros(50, dtype=np.int64), rng)
    theirs = SCIPY[name](one)
    log_density = theirs.logpmf if hasattr(theirs.dist, "logpmf") and "pmf" in dir(theirs.dist) else theirs.logpdf
    np.testing.assert_allclose(one.log_density(x)[:, 0], log_density(x[:, 0]), rtol=1e-10, atol=1e-10)
    statistics = one.statistics(x).reshape(len(x), -1) @ one.coefficients().ravel() + one.log_base(x)
    np.testing.assert_allclose(one.log_density(x)[:, 0], statistics, rtol=1e-10, atol=1e-9)


def _integral(name, f):
    """Return the integral, or sum, of f over all values of a family."""
    if name in SUPPORT:
        whole = quad(f, *SUPPORT[name], epsabs=1e-13, epsrel=1e-12, limit=300)[0]
        return whole + f(0.0) if name == "zero-gamma" else whole
    top = {"bernoulli": 2, "categorical": 4}.get(name, 600)
    return sum(f(float(y)) for y in range(top))


@pytest.mark.parametrize("name", [n for n in MAKERS if "gaussian" not in n and n != "product"])
def test_expectations_and_overlaps_are_integrals(name):
    """E_p log q and the overlap of PPK against quadrature or exact sums."""
    both = MAKERS[name](np.random.default_rng(2), (2,), 1)

    def log_f(k, y):
        return both.log_density(np.array([[y]]))[0, k]

    for i, j in itertools.product(range(2), repeat=2):
        expected = _integral(name, lambda y, i=i, j=j: np.exp(log_f(i, y)) * log_f(j, y))
        assert both.expected_log_density(both)[i, j] == pytest.approx(expected, abs=1e-10)
    for power in (0.5, 1.0):
        overlap = _integral(name, lambda y, power=power: np.exp(power * (log_f(0, y) + log_f(1, y))))
        assert both.log_overlap(both, power)[0, 1] == pytest.approx(np.log(overlap), abs=1e-9)


def test_nothing_is_learned_from_missing_values(components):
    X = np.full((3, components.n_dims), np.nan)
    np.testing.assert_array_equal(components.log_density(X), 0.0)


@pytest.mark.parametrize("name", [n for n in MAKERS if n != "product"])  # its parts are tested
def test_missing_values_are_integrated_out(name):
    """A frame with one column missing has the density of the others: summed or integrated over what may be there."""
    rng = np.random.default_rng(8)
    one = MAKERS[name](rng, (1,), 2)
    x = one.draw(np.zeros(1, dtype=np.int64), rng)
    seen = one.log_density(np.array([[x[0, 0], np.nan]]))[0, 0]
    if "gaussian" in name:
        total = quad(lambda y: np.exp(one.log_density(np.array([[x[0, 0], y]]))[0, 0]), -30, 30, limit=300)[0]
    else:
        total = _integral(name, lambda y: np.exp(one.log_density(np.array([[x[0, 0], y]]))[0, 0]))
    assert seen == pytest.approx(np.log(total), abs=1e-7)


def test_draws_make_their_own_components_likeliest(components):
    """Sums over draws, maximised, give back the parameters, and a likelihood at least as high."""
    rng, n = np.random.default_rng(1), 40_000
    one = components.take((slice(1), slice(1)))
    X = one.draw(np.zeros(n, dtype=np.int64), rng)
    u = np.ones((n, 1, 1))
    made = one.maximised(one.frame_sums(X, u, one), one, None)
    assert not made.far
    for name, array in made.components.arrays().items():
        np.testing.assert_allclose(array, one.arrays()[name], atol=0.05, rtol=0.06, err_msg=name)
    assert made.components.log_density(X).sum() >= one.log_density(X).sum()
    for _ in range(5):  # and no other parameters near it are better
        other = made.components.nudged(0.05, rng)
        assert other.log_density(X).sum() <= made.components.log_density(X).sum() + 1e-7


def test_one_m_step_serves_frames_and_distributions(components):
    """Expected sums are what sums over very many draws come to."""
    rng, n = np.random.default_rng(2), 40_000
    base = components.reshaped(-1)
    share = np.array([0.1, 0.3, 0.05, 0.25, 0.2, 0.1])
    X = base.draw(rng.choice(6, size=n, p=share), rng)
    anchors = base.take(slice(1))
    expected = base.expected_sums(share[:, None], anchors)
    counted = anchors.frame_sums(X, np.full((n, 1), 1 / n), anchors)
    for name in expected:
        error = 0.03 * max(1.0, np.abs(expected[name]).max())
        np.testing.assert_allclose(counted[name], expected[name], atol=error, err_msg=name)


def test_a_pool_of_one_is_itself_and_loses_nothing(components):
    flat = components.reshaped(-1)
    same = pooled(flat, np.ones(6), np.arange(6), 6)
    for name, array in same.arrays().items():
        np.testing.assert_allclose(array, flat.arrays()[name], rtol=1e-8, atol=1e-12)
    two = pooled(flat, np.ones(6), np.array([0, 0, 0, 1, 1, 1]), 2)
    own = np.diagonal(flat.expected_log_density(flat))
    assert (own[:3] >= flat.expected_log_density(two)[:3, 0] - 1e-12).mean() > 0.5
    assert (own.sum() > np.r_[flat.expected_log_density(two)[:3, 0], flat.expected_log_density(two)[3:, 1]].sum()).all()


def test_shapes_survive_taking_joining_and_freezing(components):
    assert components.take((slice(None), slice(1))).lead == (2, 1)
    assert components.joined([components, components]).lead == (4, 3)
    assert components.padding().lead == ()
    assert components == components.map(np.array)
    assert not any(array.flags.writeable for array in components.frozen().arrays().values())
    low, high = components.apart(0.1, components)
    middle = 0.5 * (low.centre() + high.centre())
    far = np.abs(high.centre() - low.centre()).max()
    np.testing.assert_allclose(middle, components.centre(), atol=0.15 * far)


@pytest.mark.parametrize("full", [False, True])
def test_gaussian_overlap_is_the_integral(full):
    rng = np.random.default_rng(5)
    a, b = gaussians(rng, full, (1,)), gaussians(rng, full, (1,))
    side = np.linspace(-14, 14, 700)
    points = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    as_matrix = a.full().covars[0], b.full().covars[0]
    p, q = (multivariate_normal(m.means[0], c).pdf(points) for m, c in zip((a, b), as_matrix, strict=True))
    for power in (0.5, 1.0):
        by_sum = np.log(((p * q) ** power).sum() * (side[1] - side[0]) ** 2)
        assert a.log_overlap(b, power)[0, 0] == pytest.approx(by_sum, abs=1e-6)


# -- HMMs of every family


def random_hmm(name, rng, S=2, M=1):
    emissions = MAKERS[name](rng, (S, M))
    weights = rng.dirichlet(np.ones(M), size=S)
    return vhem.HMM(
        rng.dirichlet(np.ones(S)), rng.dirichlet(np.ones(S), size=S), mix_weights=weights, emissions=emissions
    )


def test_likelihood_and_decoding_enumerate_all_paths(name):
    rng = np.random.default_rng(4)
    hmm = random_hmm(name, rng, S=2, M=2)
    y = hmm.sample(1, 5, random_state=0)[0].copy()
    y[1, 0] = np.nan
    weights = np.log(hmm.mix_weights)
    b = np.logaddexp.reduce(hmm.emissions.log_density(y) + weights, axis=-1)
    joint = {}
    for path in itertools.product(range(2), repeat=5):
        steps = itertools.pairwise(path)
        chain = np.log(hmm.startprob[path[0]]) + sum(np.log(hmm.transmat[r, s]) for r, s in steps)
        joint[path] = chain + sum(b[t, s] for t, s in enumerate(path))
    assert hmm.score([y]) == pytest.approx(np.logaddexp.reduce(list(joint.values())), abs=1e-9)
    score, paths = hmm.decode([y])
    assert tuple(paths[0]) == max(joint, key=joint.get)
    assert score[0] == pytest.approx(max(joint.values()), abs=1e-9)


def test_samples_have_the_moments_of_the_model(name):
    hmm = random_hmm(name, np.random.default_rng(6))
    sequences, states = hmm.sample(300, 30, random_state=1, return_states=True)
    flat = hmm.emissions.reshaped(-1)
    drawn = flat.draw(np.concatenate(states), np.random.default_rng(2))
    for j in range(hmm.n_dims):
        spread = sequences.X[:, j].std() / np.sqrt(len(drawn))
        assert sequences.X[:, j].mean() == pytest.approx(drawn[:, j].mean(), abs=6 * spread)


def test_files_keep_every_bit(name, tmp_path):
    rng = np.random.default_rng(7)
    hmms = [random_hmm(name, rng, S, 2) for S in (2, 3)]
    h3m = vhem.H3M(hmms, weights=[0.3, 0.7], ids=["a", "b"])
    for thing in (hmms[0], h3m):
        thing.save(tmp_path / "model.vhem")
        found = vhem.load(tmp_path / "model.vhem")
        assert found == thing
        assert all(
            a.tobytes() == b.tobytes()
            for a, b in zip(found.emissions.arrays().values(), thing.emissions.arrays().values(), strict=True)
        )
    assert vhem.load(tmp_path / "model.vhem", 1) == h3m[1]


@pytest.mark.filterwarnings("ignore")  # they need not converge
def test_bounds_never_fall(name):
    """Baum-Welch raises an error if its objective falls, and so does VHEM: random problems of every family."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        hmms = [random_hmm(name, rng, 2, 1 + seed % 2) for _ in range(6)]
        ys = [hmm.sample(1, 25, random_state=seed)[0].copy() for hmm in hmms]
        ys[0][3] = np.nan
        ys[1][4:6, 0] = np.nan
        settings = {"reg_covar": 0.0, "startprob_prior": 0.0, "transmat_prior": 0.0} if seed == 2 else {}
        emissions = hmms[0].emissions.padding()
        _, report = vhem.fit_hmms(
            ys, 2, n_mix=1 + seed % 2, emissions=_spec(name, emissions), random_state=seed, max_iter=10,
            return_report=True, **settings,
        )  # fmt: skip
        assert (report.n_falls == 0).all()
        base = vhem.H3M(hmms).parameters
        ones = np.ones(len(hmms))
        problem = ReductionProblem(base=Shards.of(BaseModels.of(base, 50 * ones, ones, 6)))
        bounds = run(problem, Centers(base.take(slice(0, 2)), np.full(2, 0.5)), Limits(max_iter=10, tol=0.0)).bounds
        assert (np.diff(bounds) > -1e-8 * np.abs(bounds[1:])).all()


def _spec(name, like):
    if name == "product":
        return {2: "gaussian", 0: f"categorical:{like.parts[1].n_categories}", 3: "poisson", 1: "vonmises"}
    if name == "categorical":
        return "categorical:4"
    return {"full gaussian": "gaussian"}.get(name, name)


#: two kinds of HMMs of every family, in one column
PLANTED = {
    "gaussian": (Gaussian([[0.0], [4.0]], [[1.0], [1.0]]), Gaussian([[2.0], [9.0]], [[1.0], [1.0]])),
    "categorical": (
        Categorical([[0.8, 0.1, 0.05, 0.05], [0.05, 0.05, 0.1, 0.8]]),
        Categorical([[0.05, 0.8, 0.1, 0.05], [0.05, 0.1, 0.8, 0.05]]),
    ),
    "bernoulli": (Bernoulli([[0.9, 0.1], [0.1, 0.9]]), Bernoulli([[0.9, 0.9], [0.1, 0.2]])),
    "poisson": (Poisson([1.0, 12.0]), Poisson([4.0, 30.0])),
    "negativebinomial": (NegativeBinomial([1.0, 12.0], [3.0, 3.0]), NegativeBinomial([5.0, 80.0], [3.0, 3.0])),
    "exponential": (Exponential([0.1, 3.0]), Exponential([0.5, 20.0])),
    "gamma": (Gamma([1.0, 5.0], [4.0, 9.0]), Gamma([2.0, 12.0], [4.0, 9.0])),
    "zero-gamma": (
        Gamma([1.0, 5.0], [4.0, 9.0], [0.5, 0.1]),
        Gamma([1.5, 9.0], [4.0, 9.0], [0.1, 0.1]),
    ),
    "beta": (Beta([0.1, 0.6], [20.0, 20.0]), Beta([0.3, 0.9], [20.0, 20.0])),
    "vonmises": (VonMises([0.0, 3.0], [5.0, 5.0]), VonMises([1.5, -1.5], [5.0, 5.0])),
    "vonmises:degrees": (VonMisesDegrees([0.0, 170.0], [5.0, 5.0]), VonMisesDegrees([90.0, -90.0], [5.0, 5.0])),
}


def _planted(emissions, n=8, length=60, seed=0):
    ys = []
    for k, own in enumerate(emissions):
        hmm = vhem.HMM([0.5, 0.5], [[0.8, 0.2], [0.2, 0.8]], emissions=own)
        ys += list(hmm.sample(n, length, random_state=seed + k))
    return ys, np.repeat([0, 1], n)


def _agree(labels, truth):
    return max((labels == truth).mean(), (labels != truth).mean()) == 1.0


@pytest.mark.parametrize("name", PLANTED)
def test_planted_clusters_are_found(name):
    ys, truth = _planted(PLANTED[name])
    hmms = vhem.fit_hmms(ys, 2, emissions=name, random_state=0)
    assert hmms.emissions.kind == PLANTED[name][0].kind
    fit = vhem.VHEM(2, random_state=0).fit(hmms)
    assert _agree(fit.labels_, truth)
    assert fit.centers_.score(ys) > vhem.H3M.pool([hmms[:1]]).score(ys)


def test_planted_clusters_of_a_product_of_four_are_found():
    families = ("gaussian", "categorical", "poisson", "vonmises")
    both = [Product([PLANTED[f][k] for f in families]) for k in range(2)]
    ys, truth = _planted(both, length=30)
    ys[0] = np.where([[False, True, False, False]], np.nan, ys[0])
    named = vhem.Sequences(ys, channels=["x", "key", "clicks", "turn"])
    spec = {"x": "gaussian", "key": "categorical", "clicks": "poisson", "turn": "vonmises"}
    hmms = vhem.fit_hmms(named, 2, emissions=spec, random_state=0)
    assert _agree(vhem.VHEM(2, random_state=0).fit_predict(hmms), truth)


# -- every estimator


def _planted_of(name, **size):
    """Return sequences of two kinds, their kinds, and what states emit: of one family, or of a product."""
    if name != "product":
        return *_planted(PLANTED[name], **size), name
    pair = [Product([PLANTED[f][k] for f in ("categorical", "poisson")]) for k in (0, 1)]
    return *_planted(pair, **size), {0: "categorical", 1: "poisson"}


@pytest.mark.filterwarnings("ignore")  # some are stopped early
@pytest.mark.parametrize("name", [*PLANTED, "product"])
def test_estimators_of_hmms_take_every_family(name):
    ys, truth, spec = _planted_of(name, n=5, length=50)
    hmms = vhem.fit_hmms(ys, 2, emissions=spec, n_init=2, max_iter=20, random_state=0)
    sampled = vhem.SampledHEM(2, tau=10, n_samples=5, n_init=1, max_iter=5, random_state=0)
    assert _agree(sampled.fit_predict(hmms), truth)
    hierarchy = vhem.HierarchicalVHEM([4, 2], n_init=1, max_iter=3, random_state=0).fit(hmms)
    assert _agree(hierarchy.labels_[-1], truth)
    brief = vhem.VHEM(2, n_init=1, max_iter=3, polish=False)
    numbers = vhem.choose_n_clusters(hmms, (2, 3), brief, n_folds=2, n_resamples=2, random_state=0)
    assert set(numbers.best.values()) <= {2, 3}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [*PLANTED, "product"])
def test_estimators_of_sequences_take_every_family(name):
    ys, truth, spec = _planted_of(name, n=5, length=50)
    mixture = vhem.MixtureOfHMMs(2, 2, init="kmeans", n_init=1, max_iter=10, emissions=spec, random_state=0)
    assert _agree(mixture.fit_predict(ys), truth)
    quick = {"n_init": 1, "max_iter": 10, "emissions": spec, "random_state": 0}
    classifier = vhem.H3MClassifier(n_components=1, n_states=2, **quick).fit(ys, truth)
    assert (classifier.predict(ys) == truth).all()
    parts = vhem.split_sequences(vhem.Sequences(ys), 5)
    whole = vhem.PartitionedH3M(2, 2, n_sample=10, **quick).fit(parts)
    assert _agree(whole.predict(ys), truth)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["categorical", "product"])
def test_rivals_take_other_families(name):
    ys, truth, spec = _planted_of(name, n=5, length=30)
    hmms = vhem.fit_hmms(ys, 2, emissions=spec, random_state=0)
    assert _agree(vhem.SequenceClustering(2, 2, emissions=spec, random_state=0).fit_predict(ys), truth)
    assert _agree(vhem.PPKClustering(2, length=5, random_state=0).fit_predict(hmms), truth)


@pytest.mark.parametrize("topology", ["left-right", "left-right-skip"])
def test_left_right_chains_keep_their_zeros(topology):
    stages = [np.repeat([0.0, 1.0, 2.0], [4 + i, 5, 6]) for i in range(5)]
    hmms = vhem.fit_hmms(stages, 3, topology=topology, emissions="categorical", random_state=0)
    assert not np.tril(hmms.transmat, -1).any()
    centre = vhem.VHEM(1, random_state=0, tau=15).fit(hmms).centers_
    order = np.argsort(centre.emissions.probabilities[0, :, 0, 0].argmax(-1))  # VHEM puts frequent states first
    assert not np.tril(centre.transmat[0][np.ix_(order, order)], -1).any()


def test_the_end_of_a_sequence_may_be_a_state_of_its_own():
    """An extra category that only the last state emits, which is never left: an absorbing chain."""
    rng = np.random.default_rng(0)
    ys = [np.append(rng.integers(0, 2, size=n), 2.0) for n in rng.geometric(0.2, size=200)]
    end = np.array([[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]])
    start = vhem.HMM([1.0, 0.0], [[0.5, 0.5], [0.0, 1.0]], emissions=Categorical(end))
    hmm = vhem.fit_hmms(ys, groups=[0] * 200, init=start)[0]
    assert hmm.transmat[1].tolist() == [0.0, 1.0]
    assert hmm.transmat[0, 1] == pytest.approx(1 / np.mean([len(y) - 1 for y in ys]), rel=1e-2)
    assert hmm.emissions.probabilities[1, 0, 0, 2] > 0.999


# -- other libraries


def test_categorical_likelihoods_are_hmmlearns():
    hmmlearn = pytest.importorskip("hmmlearn.hmm")
    hmm = random_hmm("categorical", np.random.default_rng(11), S=3)
    hmm = vhem.HMM(hmm.startprob, hmm.transmat, emissions=Categorical(hmm.emissions.probabilities[:, 0, :1]))
    theirs = hmmlearn.CategoricalHMM(3)
    theirs.startprob_, theirs.transmat_ = hmm.startprob, hmm.transmat
    theirs.emissionprob_, theirs.n_features = hmm.emissions.probabilities[:, 0, 0], 4
    y = hmm.sample(1, 200, random_state=0)[0]
    assert hmm.score([y]) == pytest.approx(theirs.score(y.astype(int)), abs=1e-9)


def test_poisson_likelihoods_are_hmmlearns():
    hmmlearn = pytest.importorskip("hmmlearn.hmm")
    hmm = random_hmm("poisson", np.random.default_rng(12), S=3)
    theirs = hmmlearn.PoissonHMM(3)
    theirs.startprob_, theirs.transmat_ = hmm.startprob, hmm.transmat
    theirs.lambdas_, theirs.n_features = hmm.emissions.rates[:, 0], 2
    y = hmm.sample(1, 200, random_state=0)[0]
    assert hmm.score([y]) == pytest.approx(theirs.score(y.astype(int)), abs=1e-9)


# -- what is refused, and how


@pytest.mark.parametrize(
    ("family", "value", "words"),
    [
        ("poisson", -3.0, "which is negative: counts are 0, 1, 2"),
        ("poisson", 2.5, "which is not an integer"),
        ("negativebinomial", 0.5, "which is not an integer"),
        ("categorical", -1.0, "not one of the codes"),
        ("categorical", 0.5, "not one of the codes"),
        ("bernoulli", 2.0, "neither 0 nor 1"),
        ("exponential", -0.1, "negative"),
        ("gamma", 0.0, "allow zeros: 'zero-gamma'"),
        ("gamma", -1.0, "negative"),
        ("zero-gamma", -1.0, "negative"),
        ("beta", 1.0, "not between 0 and 1"),
        ("beta", 40.0, "divide percentages by 100"),
        ("vonmises", 90.0, "if these are degrees, give 'vonmises:degrees'"),
        ("vonmises:degrees", 400.0, "take it modulo 360"),
    ],
)
def test_values_that_cannot_be_are_refused_by_name(family, value, words):
    good = 0.5 if family == "beta" else 1.0
    ys = vhem.Sequences([[good] * 5, [good, good, value, good]], ids=["ann", "bob"])
    with pytest.raises(vhem.InputError, match=rf"sequence 1 \(id 'bob'\) has .* at frame 2, dimension 0, .*{words}"):
        vhem.fit_hmms(ys, 1, emissions=family)


def test_values_that_cannot_be_are_refused_by_the_name_of_their_column():
    ys = vhem.Sequences([[[1.0, 2.0], [1.0, -1.0]]], channels=["step", "calls"])
    with pytest.raises(vhem.InputError, match="sequence 0 has -1 at frame 1, column 'calls', which is negative"):
        vhem.fit_hmms(ys, 1, emissions={"step": "gamma", "calls": "poisson"})


def test_values_that_cannot_be_are_refused_at_score_too():
    hmm = vhem.HMM([1.0], [[1.0]], emissions=vhem.Poisson([1.0]))
    with pytest.raises(vhem.InputError, match="sequence 0 has -1 at frame 1"):
        hmm.score([[0.0, -1.0]])


def test_emissions_are_named_once_and_rightly():
    ys = vhem.Sequences([np.zeros((4, 2))], channels=["x", "key"])
    with pytest.raises(vhem.ParameterError, match=r"emissions must be one of .*'categorical'"):
        vhem.fit_hmms(ys, 1, emissions="normal")
    with pytest.raises(vhem.InputError, match="names the column 'z', but the sequences have x, key"):
        vhem.fit_hmms(ys, 1, emissions={"x": "gaussian", "z": "poisson"})
    with pytest.raises(vhem.InputError, match="gives column 'key' no family"):
        vhem.fit_hmms(ys, 1, emissions={"x": "gaussian"})
    with pytest.raises(vhem.InputError, match="gives column 'x' more than one family"):
        vhem.fit_hmms(ys, 1, emissions={"x": "gaussian", "x,key": "poisson"})
    text = vhem.Sequences([["a", "b"], ["b"]], channels=["page"], categories=True)
    with pytest.raises(vhem.InputError, match=r"has 'a' at frame 0, column 'page', a category, but .* says 'poisson'"):
        vhem.fit_hmms(text, 1, emissions="poisson")


def test_models_of_different_families_do_not_mix():
    one = vhem.HMM([1.0], [[1.0]], emissions=vhem.Poisson([1.0]))
    other = vhem.HMM([1.0], [[1.0]], [[0.0]], [[1.0]])
    with pytest.raises(vhem.InputError, match="emissions of HMM 1 are gaussian, but those of HMM 0 are poisson"):
        vhem.H3M([one, other])
    with pytest.raises(vhem.InputError, match="same kind of observation"):
        vhem.expected_log_likelihood(one, other)
    with pytest.raises(AttributeError, match=r"emit poisson distributions, not Gaussians.*rates"):
        _ = one.means
    with pytest.raises(TypeError, match="takes the place of means and covars"):
        vhem.HMM([1.0], [[1.0]], [[0.0]], [[1.0]], emissions=vhem.Poisson([1.0]))
    with pytest.raises(TypeError, match="needs means and covars of Gaussians, or emissions"):
        vhem.HMM([1.0], [[1.0]])


@pytest.mark.parametrize(
    ("emissions", "words"),
    [
        (lambda: vhem.Poisson([-1.0]), "the rate of dimension 0 is -1; it must be above 0"),
        (lambda: vhem.Categorical([[0.5, 0.6]]), "sum to 1.1"),
        (lambda: vhem.Categorical([[1.5, -0.5]]), "not all positive"),
        (lambda: vhem.Beta([1.5], [2.0]), "must lie between 0 and 1"),
        (lambda: vhem.Gamma([1.0], [2.0, 3.0]), "shapes has shape"),
        (lambda: vhem.Gamma([np.nan], [2.0]), "means has nan"),
        (lambda: vhem.Poisson([1.0, 2.0]), "startprob has shape"),
        (lambda: vhem.Product([vhem.Poisson([1.0]), vhem.Poisson([1.0, 2.0])]), "the same states"),
        (lambda: vhem.Product([vhem.Poisson([1.0])], columns=[[1]]), "every column must belong to one part"),
    ],
)
def test_parameters_that_cannot_be_are_refused(emissions, words):
    with pytest.raises(ValueError, match=words):
        vhem.HMM([1.0], [[1.0]], emissions=emissions())


def test_a_start_of_the_compiled_engine_is_not_needed():
    """Families that the compiled kernels do not know run on the NumPy ones, whatever the engine."""
    hmm = random_hmm("beta", np.random.default_rng(0))
    assert isinstance(hmm.parameters, Models)
    assert np.isfinite(hmm.score(hmm.sample(2, 10, random_state=0)))


def test_states_of_categories_start_from_their_surroundings():
    """Two habits over the same four pages: one click says little, a few in a row show which habit it is."""
    rng = np.random.default_rng(0)
    habits = vhem.Categorical([[0.45, 0.45, 0.05, 0.05], [0.3, 0.05, 0.35, 0.3]])
    true = vhem.HMM([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]], emissions=habits)
    visits = true.sample(40, 50, rng)
    learned = vhem.fit_hmms(visits, 2, groups=["all"] * 40, emissions="categorical:4", random_state=0)[0]
    assert learned.score_samples(visits).sum() >= true.score_samples(visits).sum()


@pytest.mark.parametrize("name", sorted(set(MAKERS) - {"full gaussian"}))
def test_even_frames_have_the_expected_statistics(name):
    """Of 400 random frames, means are off by a twentieth of a deviation on average; of even ones by far less."""
    rng = np.random.default_rng(0)
    components = MAKERS[name](rng, (3,), 1)
    index = np.repeat(np.arange(3), 400)
    features = components.features(components.drawn_evenly(index, rng))
    many = components.features(components.draw(np.repeat(np.arange(3), 200_000), rng))
    for k in range(3):
        random, even = many[200_000 * k : 200_000 * (k + 1)], features[index == k]
        off = np.abs(np.nanmean(even, axis=0) - np.nanmean(random, axis=0))
        assert (off < 0.02 * np.nanstd(random, axis=0) + 0.004).all()


def test_moments_of_indicators_follow_from_counts():
    rng = np.random.default_rng(0)
    X, offsets = rng.integers(0, 5, (200, 2)).astype(float), np.array([0, 10, 20, 90, 200])
    X[3, 0] = X[10:20, 1] = np.nan
    categories = Categorical.of(np.full((2, 5), 0.2))
    for mine, through_features in zip(
        categories.feature_moments(X, offsets), group_moments(categories.features(X), offsets), strict=True
    ):
        assert np.allclose(mine, through_features, rtol=0, atol=1e-13)
