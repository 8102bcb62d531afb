"""Emission families behind their protocol: each against Monte Carlo, quadrature or scipy, whatever the family."""

import numpy as np
import pytest
from helpers import random_covars
from scipy.stats import multivariate_normal

from vhem.emissions import FAMILIES, Categorical, Components, Gaussian, Poisson
from vhem.emissions.components import pooled

LEAD = (2, 3)


def gaussians(rng, full, lead=LEAD, d=2):
    means = rng.normal(size=(*lead, d))
    return Gaussian(means, random_covars(rng, (*lead, d), "full" if full else "diag"))


MAKERS = {
    "gaussian": lambda rng: gaussians(rng, False),
    "full gaussian": lambda rng: gaussians(rng, True),
    "categorical": lambda rng: Categorical.of(rng.dirichlet(np.ones(4), size=(*LEAD, 2))),
    "poisson": lambda rng: Poisson.of(rng.gamma(2.0, 3.0, size=(*LEAD, 2))),
}


@pytest.fixture(params=MAKERS)
def components(request):
    return MAKERS[request.param](np.random.default_rng(3))


def test_every_family_is_tested():
    assert {MAKERS[name](np.random.default_rng(0)).family for name in MAKERS} == set(FAMILIES)
    assert all(issubclass(family, Components) for family in FAMILIES.values())


def test_expected_log_densities_are_those_of_draws(components):
    rng, n = np.random.default_rng(0), 40_000
    g = components.expected_log_density(components)
    assert g.shape == (*LEAD, *LEAD)
    for index, at in enumerate(np.ndindex(LEAD)):
        found = components.log_density(components.draw(np.full(n, index), rng))
        error = found.std(axis=0) / np.sqrt(n)
        assert (np.abs(found.mean(axis=0) - g[at]) < 5 * error).all()


def test_nothing_is_learned_from_missing_values(components):
    X = np.full((3, components.n_dims), np.nan)
    np.testing.assert_array_equal(components.log_density(X), 0.0)


def test_draws_make_their_own_components_likeliest(components):
    """Sums over draws, maximised, give back the parameters, and a likelihood at least as high."""
    rng, n = np.random.default_rng(1), 60_000
    one = components.take((slice(1), slice(1)))
    X = one.draw(np.zeros(n, dtype=np.int64), rng)
    u = np.ones((n, 1, 1))
    made = one.maximised(one.frame_sums(X, u, one), one, None)
    assert not made.far
    for name, array in made.components.arrays().items():
        np.testing.assert_allclose(array, one.arrays()[name], atol=0.05, err_msg=name)
    assert made.components.log_density(X).sum() >= one.log_density(X).sum()


def test_one_m_step_serves_frames_and_distributions(components):
    """Expected sums are what sums over very many draws come to."""
    rng, n = np.random.default_rng(2), 60_000
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
        np.testing.assert_allclose(array, flat.arrays()[name], rtol=1e-12)
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
    np.testing.assert_allclose(middle, components.centre(), atol=0.1 * far)


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
