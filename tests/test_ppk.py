"""The probability product kernel, the other affinities, and spectral clustering with them."""

import itertools

import numpy as np
import pytest
from helpers import available_engines, left_right, random_h3m, random_hmm, use_engine
from scipy.integrate import quad
from scipy.optimize import linear_sum_assignment
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import adjusted_rand_score
from test_vhem import clustered

from vhem import HMM, VHEM, PPKClustering, aggregated_wasserstein, divergence, ppk
from vhem.em import spectral
from vhem.estimators.wasserstein import transport
from vhem.kernels.overlap import log_ppk

ENGINES = available_engines()


def gaussian_product(mean, covar, other_mean, other_covar, rho):
    """∫ N^ρ N'^ρ by completing the square in natural parameters, for full matrices."""
    P, Q = np.linalg.inv(covar), np.linalg.inv(other_covar)
    together, d = rho * (P + Q), len(mean)
    h = rho * (P @ mean + Q @ other_mean)
    exponent = h @ np.linalg.solve(together, h) - rho * (mean @ P @ mean + other_mean @ Q @ other_mean)
    log_dets = np.linalg.slogdet(covar)[1] + np.linalg.slogdet(other_covar)[1]
    constant = (0.5 - rho) * d * np.log(2 * np.pi) - 0.5 * rho * log_dets - 0.5 * np.linalg.slogdet(together)[1]
    return np.exp(constant + 0.5 * exponent)


def enumerated(a, b, length, rho):
    """Σ over all pairs of paths of states and components of ∫ p(x,y)^ρ p'(x',y)^ρ dy."""

    def expanded(hmm):  # one path element is a state and a component
        covars = [np.diag(c) if c.ndim == 1 else c for c in hmm.covars.reshape(-1, *hmm.covars.shape[2:])]
        weights = hmm.mix_weights.ravel()
        state = np.repeat(np.arange(hmm.n_states), hmm.n_mix)
        return (
            hmm.startprob[state] * weights,
            hmm.transmat[np.ix_(state, state)] * weights,
            hmm.means.reshape(-1, hmm.n_dims),
            covars,
        )

    (pi, A, mu, sigma), (pi2, A2, mu2, sigma2) = expanded(a), expanded(b)
    kappa = np.array(
        [[gaussian_product(mu[s], sigma[s], mu2[r], sigma2[r], rho) for r in range(len(pi2))] for s in range(len(pi))]
    )
    total = 0.0
    for x in itertools.product(range(len(pi)), repeat=length):
        p = pi[x[0]] * np.prod(A[x[:-1], x[1:]])
        for x2 in itertools.product(range(len(pi2)), repeat=length):
            q = pi2[x2[0]] * np.prod(A2[x2[:-1], x2[1:]])
            total += (p * q) ** rho * np.prod(kappa[x, x2])
    return total


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("rho", [0.5, 1.0, 0.3])
@pytest.mark.parametrize(("covariance_type", "zeros"), [("diag", False), ("full", True)])
def test_against_all_pairs_of_paths(engine, rho, covariance_type, zeros, monkeypatch):
    use_engine(monkeypatch, engine)
    rng = np.random.default_rng(0)
    a = random_hmm(rng, 3, 1, 2, covariance_type, zeros)
    b = random_hmm(rng, 2, 2, 2, covariance_type, zeros)
    for length in (1, 2, 3):
        truth = enumerated(a, b, length, rho)
        assert ppk(a, b, length, rho)[0, 0] == pytest.approx(truth, rel=1e-10)
        assert ppk(b, a, length, rho, log=True)[0, 0] == pytest.approx(np.log(truth), rel=1e-10)


@pytest.mark.parametrize("rho", [0.5, 1.0, 0.25, 1.7])
def test_gaussians_against_numerical_integration(rho):
    a, b = HMM([1.0], [[1.0]], [[0.3]], [[0.8]]), HMM([1.0], [[1.0]], [[-0.9]], [[2.1]])
    integral = quad(lambda y: np.exp(rho * (a.score_samples([[y]])[0] + b.score_samples([[y]])[0])), -40, 40)[0]
    assert ppk(a, b, 1, rho)[0, 0] == pytest.approx(integral, rel=1e-7)
    assert ppk(a, b, 3, rho)[0, 0] == pytest.approx(integral**3, rel=1e-6)


def test_power_one_is_the_expected_likelihood():
    rng = np.random.default_rng(1)
    a, b = random_hmm(rng, 3), random_hmm(rng, 2)
    drawn = np.exp(b.score_samples(a.sample(200_000, 3, random_state=0)))
    assert ppk(a, b, 3, 1.0)[0, 0] == pytest.approx(drawn.mean(), abs=5 * drawn.std() / np.sqrt(len(drawn)))


@pytest.mark.parametrize("engine", [e for e in ENGINES if e != "reference"])
@pytest.mark.parametrize("covariance_type", ["diag", "full"])
@pytest.mark.parametrize("n_threads", [1, 3])
def test_engines_agree(engine, covariance_type, n_threads, monkeypatch):
    rng = np.random.default_rng(2)
    a = random_h3m(rng, 19, 4, 2, 3, covariance_type, ragged=True, zeros=True).parameters
    b = random_h3m(rng, 11, 9, 3, 3, covariance_type, ragged=True, zeros=True).parameters
    for (x, y), rho, length in itertools.product([(a, b), (b, b)], [0.5, 2.0], [1, 2, 25]):
        use_engine(monkeypatch, "reference")
        expected = log_ppk(x, y, length, rho)
        use_engine(monkeypatch, engine)
        found = log_ppk(x, y, length, rho, n_threads)
        np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-11)
        np.testing.assert_array_equal(found, log_ppk(x, y, length, rho, 1))


@pytest.mark.parametrize("engine", ENGINES)
def test_left_right_models_far_apart_lose_nothing(engine, monkeypatch):
    use_engine(monkeypatch, engine)
    # The best match of states is forbidden by the first step: all products of the plain recursion underflow.
    forth, back = left_right(3, 60.0), left_right(3, 60.0)
    back = HMM(back.startprob, back.transmat, back.means[::-1], back.covars)
    expected = log_ppk_of_paths(forth, back, 4)
    assert ppk(forth, back, 4, log=True)[0, 0] == pytest.approx(expected, rel=1e-10)


def log_ppk_of_paths(a, b, length):
    from scipy.special import logsumexp

    kappa = -0.125 * ((a.means[:, None, 0, 0] - b.means[None, :, 0, 0]) ** 2)
    with np.errstate(divide="ignore"):
        logs = [0.5 * np.log(p) for p in (a.startprob, a.transmat, b.startprob, b.transmat)]
    terms = []
    for x in itertools.product(range(a.n_states), repeat=length):
        for y in itertools.product(range(b.n_states), repeat=length):
            weight = logs[0][x[0]] + logs[1][x[:-1], x[1:]].sum() + logs[2][y[0]] + logs[3][y[:-1], y[1:]].sum()
            terms.append(weight + kappa[x, y].sum())
    return logsumexp(terms)


def test_the_logarithm_survives_where_the_kernel_cannot():
    rng = np.random.default_rng(3)
    a, b = random_hmm(rng, d=60), random_hmm(rng, d=60)
    assert ppk(a, b, 100)[0, 0] == 0.0
    assert np.isfinite(ppk(a, b, 100, log=True)).all()
    narrow = HMM([1.0], [[1.0]], np.zeros((1, 60)), np.full((1, 60), 1e-8))
    with pytest.raises(ValueError, match="log=True"):
        ppk(narrow, narrow, 10, rho=1.0)


def test_offsets_and_units_cost_no_digits():
    rng = np.random.default_rng(4)
    a, b = random_hmm(rng), random_hmm(rng)
    far = [HMM(h.startprob, h.transmat, h.means + 1e6, h.covars) for h in (a, b)]
    np.testing.assert_allclose(ppk(*far, 5, log=True), ppk(a, b, 5, log=True), rtol=1e-8)
    small = [HMM(h.startprob, h.transmat, 1e-20 * h.means, 1e-40 * h.covars) for h in (a, b)]
    np.testing.assert_allclose(ppk(*small, 5, log=True), ppk(a, b, 5, log=True), rtol=1e-8)


def test_the_normalised_kernel_is_at_most_one_and_positive_definite():
    h3m = random_h3m(np.random.default_rng(5), 12, 4, 2, 2, ragged=True)
    fit = PPKClustering(3, length=6, random_state=0).fit(h3m)
    assert fit.affinity_.max() == 1.0
    np.testing.assert_array_equal(fit.affinity_, fit.affinity_.T)
    kernel = ppk(h3m, h3m, 6)
    assert np.linalg.eigvalsh(kernel).min() > -1e-12
    own = np.sqrt(np.diagonal(kernel))
    np.testing.assert_allclose(fit.affinity_, (kernel / own / own[:, None]) ** (1 / 6), rtol=1e-9)


@pytest.mark.parametrize("affinity", ["ppk", "divergence", "wasserstein"])
@pytest.mark.parametrize("covariance_type", ["diag", "full"])
def test_separated_clusters_are_found(affinity, covariance_type):
    h3m, labels = clustered(K=30, M=1 + (affinity != "wasserstein"), spread=6.0, covariance_type=covariance_type)
    fit = PPKClustering(3, length=10, affinity=affinity, random_state=0).fit(h3m)
    assert adjusted_rand_score(labels, fit.labels_) == 1.0
    assert np.all(np.diff(fit.centers_.weights) <= 1e-12)
    for j, i in enumerate(fit.center_indices_):
        assert fit.labels_[i] == j
        assert fit.centers_[j] == h3m[int(i)]
    again = clone(fit).fit(h3m)
    np.testing.assert_array_equal(again.labels_, fit.labels_)


def test_novel_centres_are_vhem_of_the_members():
    h3m, _ = clustered(K=24, spread=6.0)
    fit = PPKClustering(3, length=8, centers="novel", random_state=0).fit(h3m)
    for j in range(3):
        members = h3m[np.flatnonzero(fit.labels_ == j)]
        single = VHEM(1, tau=8, random_state=0).fit(members)
        np.testing.assert_allclose(
            np.sort(fit.centers_[j].means.ravel()), np.sort(single.centers_.means.ravel()), atol=1e-2
        )


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_degenerate_collections():
    same = [random_hmm(np.random.default_rng(6))] * 4
    fit = PPKClustering(2, length=5, random_state=0).fit(same)
    np.testing.assert_allclose(fit.affinity_, 1.0)
    for affinity in ("divergence", "wasserstein"):
        assert PPKClustering(1, affinity=affinity).fit(same).labels_.tolist() == [0] * 4
    far = [HMM([1.0], [[1.0]], [[1e4 * k]], [[1.0]]) for k in range(4)]  # affinities of exactly zero
    fit = PPKClustering(4, length=5, random_state=0).fit(far)
    assert sorted(fit.labels_) == [0, 1, 2, 3]
    assert PPKClustering(1).fit(same[0]).labels_.tolist() == [0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_clusters": 0}, "n_clusters must be an integer of at least 1"),
        ({"n_clusters": 5}, "n_clusters asks for 5, but there are only 4"),
        ({"length": 2.5}, "length must be an integer"),
        ({"rho": 0.0}, "rho must be a finite number greater than 0"),
        ({"temperature": -1.0}, "temperature must be"),
        ({"affinity": "rbf"}, "affinity must be one of 'ppk'"),
        ({"centers": "mean"}, "centers must be one of"),
        ({"random_state": "x"}, "random_state must be"),
    ],
)
def test_bad_parameters(change, message):
    h3m = random_h3m(np.random.default_rng(7), 4)
    with pytest.raises(ValueError, match=message):
        PPKClustering(**{"n_clusters": 2, "length": 5, **change}).fit(h3m)


def test_bad_input():
    hmm = random_hmm(np.random.default_rng(8))
    with pytest.raises(TypeError, match="X must be an H3M"):
        PPKClustering(1).fit(np.zeros((3, 2)))
    with pytest.raises(ValueError, match="must model the same kind of observation"):
        ppk(hmm, random_hmm(np.random.default_rng(8), d=3), 5)
    with pytest.raises(ValueError, match="alpha must be a number from 0 to 1"):
        aggregated_wasserstein(hmm, hmm, alpha=1.5)
    huge = HMM([1.0], [[1.0]], [[1e200]], [[1.0]])
    with pytest.raises(ValueError, match="not finite"):
        ppk(huge, HMM([1.0], [[1.0]], [[0.0]], [[1.0]]), 5)


def test_transport_against_assignment():
    rng = np.random.default_rng(9)
    problems = [(np.full(n, 1 / n), np.full(n, 1 / n), rng.random((n, n))) for n in (1, 2, 5, 6)]
    for plan, (p, q, cost) in zip(transport(problems), problems, strict=True):
        np.testing.assert_allclose(plan.sum(1), p, atol=1e-12)
        np.testing.assert_allclose(plan.sum(0), q, atol=1e-12)
        rows, columns = linear_sum_assignment(cost)
        assert (plan * cost).sum() == pytest.approx(cost[rows, columns].sum() / len(p), rel=1e-9)


@pytest.mark.parametrize("covariance_type", ["diag", "full"])
def test_wasserstein_is_symmetric_and_blind_to_the_order_of_states(covariance_type):
    rng = np.random.default_rng(10)
    h3m = random_h3m(rng, 4, 3, 2, 2, covariance_type, ragged=True)
    distance = aggregated_wasserstein(h3m, h3m)
    np.testing.assert_allclose(distance, aggregated_wasserstein(h3m, list(h3m)), atol=1e-6)
    np.testing.assert_allclose(distance, distance.T)
    assert distance[np.triu_indices(4, 1)].min() > 0.01
    hmm = random_hmm(rng, 3)
    order = [2, 0, 1]
    turned = HMM(hmm.startprob[order], hmm.transmat[np.ix_(order, order)], hmm.means[order], hmm.covars[order])
    assert aggregated_wasserstein(hmm, turned)[0, 0] == pytest.approx(0.0, abs=1e-6)


def test_wasserstein_of_gaussians_in_closed_form():
    rng = np.random.default_rng(11)
    a, b = (random_hmm(rng, 1, 1, 3, "full") for _ in range(2))
    from scipy.linalg import sqrtm

    root = sqrtm(a.covars[0, 0])
    trace = np.trace(a.covars[0, 0] + b.covars[0, 0] - 2 * np.real(sqrtm(root @ b.covars[0, 0] @ root)))
    expected = np.sqrt(((a.means - b.means) ** 2).sum() + trace)
    assert aggregated_wasserstein(a, b, alpha=0.0)[0, 0] == pytest.approx(expected, rel=1e-9)


def test_wasserstein_sees_transitions():
    sticky = HMM([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]], [[0.0], [4.0]], [[1.0], [1.0]])
    restless = HMM([0.5, 0.5], [[0.1, 0.9], [0.9, 0.1]], [[0.0], [4.0]], [[1.0], [1.0]])
    # The states match; rows differ by 0.8 of mass moved over a squared distance of 16, in both models.
    assert aggregated_wasserstein(sticky, restless, alpha=0.0)[0, 0] == pytest.approx(0.0, abs=1e-6)
    assert aggregated_wasserstein(sticky, restless, alpha=1.0)[0, 0] == pytest.approx(np.sqrt(2 * 0.8 * 16))
    assert divergence(sticky, restless)[0, 0] > 0.1


def test_wasserstein_of_left_right_models_by_length():
    a, b = left_right(3, 2.0), left_right(3, 2.0)
    b = HMM(b.startprob, b.transmat, [[5.0], [2.0], [4.0]], np.ones((3, 1)))
    assert aggregated_wasserstein(a, b)[0, 0] == pytest.approx(0.0, abs=1e-6)  # in the long run, only the last state
    assert aggregated_wasserstein(a, b, length=10)[0, 0] > 1.0


def test_new_hmms_go_to_the_likeliest_centre():
    places = [0.0, 0.3, 20.0, 20.4, 20.2]
    hmms = [HMM([1.0], [[1.0]], [[x]], [[1.0]]) for x in places]
    fit = PPKClustering(2, length=5, random_state=0).fit(hmms)
    np.testing.assert_array_equal(fit.predict(hmms), fit.labels_)
    assert fit.predict(HMM([1.0], [[1.0]], [[18.0]], [[1.0]]))[0] == fit.labels_[2]
    with pytest.raises(NotFittedError):
        PPKClustering(2).predict(hmms)


@pytest.mark.parametrize("apart", [1.0, 1e9], ids=["overlapping", "exactly equal eigenvalues"])
def test_many_inputs_have_the_embedding_of_a_dense_solver(apart, monkeypatch):
    rng = np.random.default_rng(0)
    points = rng.normal(size=(120, 2)) + apart * np.repeat(np.eye(2), 60, axis=0)
    affinity = np.exp(-((points[:, None] - points) ** 2).sum(-1))
    dense = spectral.spectral_embedding(affinity, 2)
    monkeypatch.setattr(spectral, "_DENSE", 100)
    found = spectral.spectral_embedding(affinity, 2)
    np.testing.assert_allclose(np.abs(found @ found.T), np.abs(dense @ dense.T), atol=1e-9)
