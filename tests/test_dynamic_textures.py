"""Linear dynamical systems, EM-DTM and HEM-DTM as a user sees them."""

import contextlib
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics import adjusted_rand_score
from test_lds_kernels import joint, random_systems

from vhem import DynamicTextureMixture, HEMDynamicTextures, InputError, LinearDynamicalSystem, MixtureOfLDS, Sequences
from vhem.estimators.dtm import pca_system


def rotation(angle, radius=0.97):
    return radius * np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])


def textures(seed=0, n_clusters=3, per_cluster=5, d=6, wobble=0.02):
    """Systems scattered around a few prototypes that turn at different speeds, and the prototype of each."""
    rng = np.random.default_rng(seed)
    looks = rng.normal(size=(n_clusters, d, 2))
    labels = np.tile(np.arange(n_clusters), per_cluster)
    systems = []
    for k in labels:
        basis = np.linalg.qr(rng.normal(size=(2, 2)))[0]  # every system in coordinates of its own
        A = basis @ rotation(0.2 + 0.5 * k + wobble * rng.normal()) @ basis.T
        C = (looks[k] + wobble * rng.normal(size=(d, 2))) @ basis.T
        systems.append(LinearDynamicalSystem(A, C, 0.05 * np.eye(2), 0.05, covar=np.eye(2)))
    return MixtureOfLDS(systems), labels


def sequences_of(mixture, labels, length=40, seed=0):
    rng = np.random.default_rng(seed)
    return [mixture[int(i)].sample(1, length, rng)[0] for i in range(len(labels))]


def never_falls(bounds):
    return bool(np.all(np.diff(bounds) >= -1e-9 * np.abs(bounds[1:])))


def test_the_model_says_what_it_is():
    system = LinearDynamicalSystem([[0.5, 0.1], [0.0, 1.2]], [[1.0, 0.0]], np.eye(2), 0.3)
    assert system.spectral_radius == pytest.approx(1.2)
    np.testing.assert_array_equal(system.covar, system.Q)
    with pytest.raises(AttributeError, match="immutable"):
        system.A = np.eye(2)
    with pytest.raises(ValueError, match="read-only"):
        system.A[0, 0] = 1.0
    mixture = MixtureOfLDS([system, system], weights=[0.2, 0.8])
    assert mixture[1] == system
    assert mixture[[1]].weights.tolist() == [1.0]
    assert mixture == MixtureOfLDS(list(mixture), weights=[0.2, 0.8])


def test_samples_have_the_moments_of_the_system():
    system = LinearDynamicalSystem(*(array[0] for array in random_systems(3, 1, 2, 2)))
    y = np.array([part.ravel() for part in system.sample(20_000, 4, random_state=0)])
    _, mean, _, _, covar = joint(system.systems, 4)
    np.testing.assert_allclose(y.mean(0), mean, atol=5 * np.sqrt(np.diagonal(covar).max() / len(y)))
    np.testing.assert_allclose(np.cov(y.T), covar, atol=0.06 * np.abs(covar).max())
    ragged = system.sample(3, [1, 5, 2], random_state=0)
    assert ragged.lengths.tolist() == [1, 5, 2]
    np.testing.assert_array_equal(ragged.X, system.sample(3, [1, 5, 2], random_state=0).X)


def test_by_default_both_starts_are_tried():
    """Either way of making starts misses optima that the other one finds."""
    kept = set()
    for seed in range(2020, 2026):
        rng = np.random.default_rng(seed)
        systems = [
            LinearDynamicalSystem(
                rng.uniform(0.7, 0.97) * np.linalg.qr(rng.normal(size=(3, 3)))[0],
                rng.normal(size=(6, 3)),
                0.3 * np.eye(3),
                rng.uniform(0.2, 0.6, 6),
            )
            for _ in range(5)
        ]
        sequences, _ = MixtureOfLDS(systems).sample(40, length=60, random_state=seed)
        both, splitting, pca = (
            DynamicTextureMixture(5, 3, tol=1e-3, random_state=seed, **given).fit(sequences)
            for given in ({}, {"init": "splitting"}, {"init": "pca"})
        )
        assert both.lower_bound_ == max(splitting.lower_bound_, pca.lower_bound_)
        kept.add(splitting.lower_bound_ > pca.lower_bound_)
    assert kept == {True, False}


@pytest.mark.filterwarnings("ignore::vhem.FitWarning")
def test_a_start_that_data_are_too_short_for_is_left_out():
    rng = np.random.default_rng(0)
    sequences = [np.cumsum(rng.normal(size=(30, 1)), axis=0) for _ in range(40)] + [np.zeros((1, 1))] * 2

    def seeds_that_work(init):
        found = set()
        for seed in range(6):
            with contextlib.suppress(InputError):
                DynamicTextureMixture(2, 2, init=init, max_iter=3, tol=0, random_state=seed).fit(sequences)
                found.add(seed)
        return found

    splitting, pca, both = map(seeds_that_work, ("splitting", "pca", "auto"))
    assert len(splitting) < 6  # or there would be nothing to leave out
    assert both == splitting | pca
    with pytest.raises(InputError, match="no sequence has the 2 frames"):
        DynamicTextureMixture(2, 2).fit(list(np.arange(5.0)[:, None, None]))


@pytest.mark.parametrize("init", ["splitting", "pca"])
@pytest.mark.parametrize("noise", ["diag", "isotropic"])
def test_em_finds_textures(init, noise):
    mixture, labels = textures()
    sequences = sequences_of(mixture, labels)
    estimator = DynamicTextureMixture(3, 2, noise=noise, init=init, n_init=2, tol=1e-3, random_state=0)
    fit = estimator.fit(sequences)
    assert adjusted_rand_score(labels, fit.labels_) == 1.0
    assert never_falls(fit.lower_bounds_)
    assert fit.lower_bound_ == pytest.approx(fit.model_.score_samples(sequences).sum(), rel=1e-9)
    np.testing.assert_array_equal(fit.predict(sequences), fit.labels_)
    np.testing.assert_allclose(fit.predict_proba(sequences), fit.responsibilities_, atol=1e-9)
    assert fit.score(sequences) == pytest.approx(fit.lower_bound_ / len(sequences))
    assert max(system.spectral_radius for system in fit.model_) < 1
    if noise == "isotropic":
        assert np.ptp(fit.model_.parameters.R, axis=1).max() == 0
    assert clone(estimator).fit(sequences).model_ == fit.model_
    assert len(fit.sample(4, 7, random_state=0)[0]) == 4


def test_one_system_is_recovered():
    truth = LinearDynamicalSystem(
        rotation(0.4, 0.98), [[1.0, 0.0], [0.3, 1.0]], 0.1 * np.eye(2), 0.2, offset=[50.0, -3.0]
    )
    sequences = truth.sample(40, 60, random_state=0)
    fit = DynamicTextureMixture(1, 2, tol=1e-6, max_iter=400).fit(sequences)
    found = fit.model_[0]
    assert fit.lower_bound_ > truth.score_samples(sequences).sum()  # the maximum lies above the truth
    own = np.sort_complex(np.linalg.eigvals(found.A))
    np.testing.assert_allclose(own, np.sort_complex(np.linalg.eigvals(truth.A)), atol=0.02)
    np.testing.assert_allclose(found.offset, truth.offset, atol=0.3)
    np.testing.assert_allclose(found.R, truth.R, atol=0.05)


def test_gaps_cost_little():
    truth = LinearDynamicalSystem(rotation(0.4, 0.98), [[1.0, 0.0], [0.3, 1.0]], 0.1 * np.eye(2), 0.2)
    whole = truth.sample(30, 60, random_state=0)
    X = np.where(np.random.default_rng(0).random(whole.X.shape) < 0.3, np.nan, whole.X)
    X[:60, 0] = np.nan  # a sequence without any value of one dimension
    broken = Sequences.from_concatenated(X, whole.lengths)
    fit = DynamicTextureMixture(1, 2, tol=1e-3).fit(broken)
    assert never_falls(fit.lower_bounds_)
    assert abs(np.angle(np.linalg.eigvals(fit.model_[0].A)))[0] == pytest.approx(0.4, abs=0.02)
    complete = DynamicTextureMixture(1, 2, tol=1e-3).fit(whole)
    assert fit.score(whole) == pytest.approx(complete.score(whole), rel=0.01)
    assert np.isfinite(fit.model_[0].smooth(broken)[0].means).all()


def test_more_states_than_dimensions():
    wave = LinearDynamicalSystem(rotation(0.5, 0.99), [[1.0, 0.0]], 0.01 * np.eye(2), 0.01, covar=np.eye(2))
    sequences = wave.sample(20, 50, random_state=0)
    fit = DynamicTextureMixture(1, 2, max_iter=300).fit(sequences)
    assert abs(np.angle(np.linalg.eigvals(fit.model_[0].A)))[0] == pytest.approx(0.5, abs=0.02)
    with pytest.raises(ValueError, match="no sequence has the 3 frames that n_states=3 in 1 dimension needs"):
        DynamicTextureMixture(1, 3).fit([[1.0, 2.0], [3.0, 1.0]])


def test_units_and_offsets_do_not_matter():
    mixture, labels = textures(per_cluster=3)
    sequences = sequences_of(mixture, labels)
    settings = {"n_components": 3, "n_states": 2, "random_state": 0, "tol": 1e-3}
    plain = DynamicTextureMixture(**settings).fit(sequences)
    moved = DynamicTextureMixture(**settings).fit([1e3 * (y + 1e4) for y in sequences])
    np.testing.assert_array_equal(plain.labels_, moved.labels_)
    frames = sum(y.size for y in sequences)
    assert moved.lower_bound_ == pytest.approx(plain.lower_bound_ - frames * np.log(1e3), rel=1e-5)


def test_growing_data_is_held_stable_or_reported():
    rng = np.random.default_rng(0)
    growing = [
        np.cumprod(np.full((25, 2), 1.2), axis=0) * rng.normal(size=2) + 0.1 * rng.normal(size=(25, 2))
        for _ in range(8)
    ]
    with pytest.warns(RuntimeWarning, match="kept stable although the data ask for growth"):
        held = DynamicTextureMixture(1, 1, max_iter=30, tol=1e-2).fit(growing)
    assert held.n_held_back_ == 1
    assert held.model_[0].spectral_radius < 1
    free = DynamicTextureMixture(1, 1, stable=False, max_iter=50, tol=1e-2).fit(growing)
    assert free.model_[0].spectral_radius > 1.1
    assert free.lower_bound_ > held.lower_bound_
    assert never_falls(held.lower_bounds_)
    assert never_falls(free.lower_bounds_)


def test_noise_floor_is_counted():
    rng = np.random.default_rng(1)
    exact = [np.outer(np.cumsum(rng.normal(size=30)), [1.0, 2.0]) for _ in range(4)]  # one state explains all
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit = DynamicTextureMixture(1, 1, max_iter=150).fit(exact)
    assert fit.n_floored_ == 2
    assert any("at their floor" in str(w.message) for w in caught)
    assert never_falls(fit.lower_bounds_)


@pytest.mark.filterwarnings("ignore:.*kept stable:RuntimeWarning")
def test_wide_observations():
    rng = np.random.default_rng(2)
    systems = [
        LinearDynamicalSystem(rotation(0.3 + k), rng.normal(size=(500, 2)), 0.1 * np.eye(2), 1.0, covar=np.eye(2))
        for k in range(2)
    ]
    labels = np.arange(8) % 2
    sequences = [systems[k].sample(1, 30, rng)[0] for k in labels]
    fit = DynamicTextureMixture(2, 2, tol=1e-2, random_state=0).fit(sequences)
    assert adjusted_rand_score(labels, fit.labels_) == 1.0
    each = [DynamicTextureMixture(1, 2, tol=1e-2).fit([y]).model_[0] for y in sequences]
    assert adjusted_rand_score(labels, HEMDynamicTextures(2, random_state=0).fit(each).labels_) == 1.0


@pytest.mark.parametrize("init", ["kmeans++", "base"])
def test_hem_finds_textures(init):
    mixture, labels = textures()
    estimator = HEMDynamicTextures(3, tau=15, init=init, n_init=6, random_state=0)
    fit = estimator.fit(mixture)
    assert adjusted_rand_score(labels, fit.labels_) == 1.0
    assert never_falls(fit.lower_bounds_)
    np.testing.assert_array_equal(fit.predict(mixture), fit.labels_)
    np.testing.assert_allclose(fit.predict_proba(mixture), fit.responsibilities_, atol=1e-9)
    assert fit.score(mixture) == pytest.approx(fit.lower_bound_ / (100.0 * len(mixture)), rel=1e-9)
    assert fit.transform(mixture[0]).shape == (1, 3)
    # A centre turns as fast as its members, in whatever coordinates.
    for j in range(3):
        speeds = [abs(np.angle(np.linalg.eigvals(mixture[int(i)].A)))[0] for i in np.flatnonzero(fit.labels_ == j)]
        found = abs(np.angle(np.linalg.eigvals(fit.centers_[j].A)))[0]
        assert found == pytest.approx(np.mean(speeds), abs=0.05)
    assert clone(estimator).fit(mixture).centers_ == fit.centers_


def test_hem_of_one_system_is_that_system():
    mixture, _ = textures(n_clusters=1, per_cluster=1)
    fit = HEMDynamicTextures(1, tau=20).fit(mixture)
    assert fit.transform(mixture)[0, 0] == pytest.approx(fit.lower_bound_ / 100.0)
    assert fit.lower_bounds_[-1] == pytest.approx(fit.lower_bounds_[0], rel=1e-9)  # already the best there is


def test_hem_with_fewer_states_and_without_weight():
    mixture, labels = textures()
    weights = np.where(np.arange(len(mixture)) == 0, 0.0, 1.0 / (len(mixture) - 1))
    weighted = MixtureOfLDS(list(mixture), weights)
    fit = HEMDynamicTextures(3, tau=15, n_init=6, random_state=0).fit(weighted)
    assert adjusted_rand_score(labels, fit.labels_) == 1.0  # the one without weight is labelled all the same
    small = MixtureOfLDS([LinearDynamicalSystem([[0.9]], s.C[:, :1], [[0.5]], s.R) for s in fit.centers_])
    fewer = HEMDynamicTextures(3, tau=15, init=small).fit(mixture)
    assert fewer.centers_.n_states == 1
    assert never_falls(fewer.lower_bounds_)
    three = HEMDynamicTextures(3, init=small, max_iter=3, tol=0).fit(mixture)
    assert three.n_iter_ == 3


def test_tau_of_one_keeps_the_dynamics():
    mixture, _ = textures()
    start = mixture[[0, 1, 2]]
    fit = HEMDynamicTextures(3, tau=1, init=start, max_iter=5, tol=0).fit(mixture)
    np.testing.assert_array_equal(fit.centers_.parameters.A, start.parameters.A)
    assert never_falls(fit.lower_bounds_)


def test_pca_start_is_stable_and_exact_for_noiseless_data():
    A = rotation(0.3, 0.99)
    states = [np.array([1.0, 0.0])]
    for _ in range(40):
        states.append(A @ states[-1])
    C = np.random.default_rng(0).normal(size=(5, 2))
    found = pca_system([np.array(states) @ C.T], 2)
    eigenvalues = np.linalg.eigvals(found.A[0])
    np.testing.assert_allclose(np.abs(np.angle(eigenvalues)), 0.3, atol=0.05)
    assert np.abs(eigenvalues).max() < 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([[0.5, 0.1]], [[1.0]], [[1.0]], 1.0), r"A has shape \(1, 2\); it must be square"),
        (([[0.5]], [[1.0, 2.0]], [[1.0]], 1.0), r"C has shape \(1, 2\), but A needs \(d, 1\)"),
        (([[0.5]], [[1.0]], [[-1.0]], 1.0), "Q has the eigenvalue -1; a covariance has no negative eigenvalues"),
        (([[0.5]], [[1.0]], [[1.0]], 0.0), r"R of dimension 0 is 0\.0; variances must be positive"),
        (([[0.5]], [[np.nan]], [[1.0]], 1.0), "C holds nan; parameters must be finite"),
        ((np.eye(2), [[1.0, 0.0]], [[1.0, 0.5], [0.0, 1.0]], 1.0), "Q is not symmetric"),
        (([[0.5]], [[1.0]], [[1.0]], 1.0, [0.0, 1.0]), r"mean has shape \(2,\), but A and C need \(1,\)"),
    ],
)
def test_bad_systems(arguments, message):
    with pytest.raises(ValueError, match=message):
        LinearDynamicalSystem(*arguments)


def test_bad_mixtures_and_sequences():
    one = LinearDynamicalSystem([[0.5]], [[1.0]], [[1.0]], 1.0)
    two = LinearDynamicalSystem(0.5 * np.eye(2), [[1.0, 0.0]], np.eye(2), 1.0)
    with pytest.raises(ValueError, match=r"systems\[1\] has 2 states and 1 dimension, but systems\[0\] has 1 and 1"):
        MixtureOfLDS([one, two])
    with pytest.raises(ValueError, match=r"weights of system 1 is -0\.5"):
        MixtureOfLDS([one, one], weights=[1.5, -0.5])
    with pytest.raises(TypeError, match=r"systems\[0\] is a str"):
        MixtureOfLDS(["x"])
    with pytest.raises(ValueError, match=r"dimension 1 has no value at all \(NaN everywhere\)"):
        DynamicTextureMixture(1, 1).fit([[[0.0, np.nan], [1.0, np.nan]]])
    with pytest.raises(ValueError, match="sequences have 2 dimensions, the model has 1"):
        one.smooth([np.zeros((3, 2))])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_components": 9}, "n_components asks for 9, but there are only 4 sequences"),
        ({"n_states": 0}, "n_states must be an integer of at least 1"),
        ({"noise": "full"}, "noise must be one of 'diag', 'isotropic'"),
        ({"init": "random"}, "init must be one of 'auto', 'splitting', 'pca'"),
        ({"noise_floor": 0.0}, "noise_floor must be a finite number greater than 0"),
    ],
)
def test_bad_parameters_of_em(change, message):
    sequences = np.random.default_rng(0).normal(size=(4, 10, 2))
    with pytest.raises(ValueError, match=message):
        DynamicTextureMixture(**{"n_components": 1, **change}).fit(sequences)


def test_bad_use():
    mixture, _ = textures()
    with pytest.raises(ValueError, match="the sequences are constant"):
        DynamicTextureMixture(1).fit(np.ones((3, 5, 2)))
    with pytest.raises(NotFittedError):
        DynamicTextureMixture(1).predict(np.ones((3, 5, 2)))
    with pytest.raises(NotFittedError):
        HEMDynamicTextures(1).predict(mixture)
    with pytest.raises(TypeError, match="X must be a MixtureOfLDS"):
        HEMDynamicTextures(1).fit(np.ones((3, 5, 2)))
    with pytest.raises(ValueError, match="n_clusters asks for 99, but there are only 15"):
        HEMDynamicTextures(99).fit(mixture)
    with pytest.raises(ValueError, match="n_clusters is 3, but init has 2 systems"):
        HEMDynamicTextures(3, init=mixture[:2]).fit(mixture)
    with pytest.raises(ValueError, match="init has 6 dimensions, but the input has 1"):
        HEMDynamicTextures(1, init=mixture[:1]).fit([LinearDynamicalSystem([[0.5]], [[1.0]], [[1.0]], 1.0)])
    with pytest.raises(ValueError, match="init has 6 dimensions, but the input has 2"):
        DynamicTextureMixture(1, init=mixture[:1]).fit(np.random.default_rng(0).normal(size=(3, 5, 2)))
    unstable = MixtureOfLDS([LinearDynamicalSystem([[1.5]], np.ones((6, 1)), [[1.0]], 1.0)])
    with pytest.raises(ValueError, match=r"spectral radius 1\.5 and is not stable"):
        HEMDynamicTextures(1, init=unstable).fit(mixture)
    with pytest.warns(ConvergenceWarning, match="HEMDynamicTextures stopped after 1 iteration, before"):
        HEMDynamicTextures(3, max_iter=1, random_state=0).fit(mixture)
    other = LinearDynamicalSystem([[0.5]], [[1.0]], [[1.0]], 1.0)
    with pytest.raises(ValueError, match="the systems differ in dimension: 1 and 6"):
        HEMDynamicTextures(2, random_state=0).fit(mixture).transform(other)
