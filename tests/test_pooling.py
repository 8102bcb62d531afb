"""HMMs that borrow strength: the common prior against simulated variances, and what it does to HMMs of few frames."""

import numpy as np
import pytest
from helpers import random_hmm
from scipy.special import polygamma

import vhem
from vhem.em.pooling import LEAST_ITEMS, _inverse_trigamma, pooled_variances


@pytest.mark.parametrize("y", [1e-8, 1e-3, 0.3, 2.0, 50.0, 1e9])
def test_the_inverse_of_the_trigamma_function(y):
    assert polygamma(1, _inverse_trigamma(y)) == pytest.approx(y, rel=1e-5)


@pytest.mark.parametrize("kappa", [1.0, 4.0, 15.0])
@pytest.mark.parametrize("logarithmic", [True, False])
def test_the_common_prior_is_recovered(kappa, logarithmic):
    """Variances drawn from a scaled inverse chi-squared distribution, seen through samples of a few frames."""
    rng, scale, k = np.random.default_rng(3), np.array([0.5, 20.0]), 6000
    true = kappa * scale / rng.chisquare(kappa, size=(k, 2))
    n = rng.integers(4, 30, size=k).astype(float)
    seen = true * rng.chisquare(n[:, None] - 1, size=(k, 2)) / n[:, None]
    found = pooled_variances(n, seen, logarithmic)
    assert found.n_frames == pytest.approx(kappa, rel=0.12)
    if logarithmic:  # the average has no expectation for small κ
        np.testing.assert_allclose(found.scale, scale, rtol=0.12)


def test_equal_variances_are_pooled_as_far_as_it_goes():
    rng = np.random.default_rng(1)
    n = np.full(500, 10.0)
    found = pooled_variances(n, 3.0 * rng.chisquare(9, size=(500, 1)) / n[:, None], False)
    assert found.n_frames == 50.0
    np.testing.assert_allclose(found.scale, 3.0, rtol=0.05)


def test_few_frames_each_make_better_hmms_together():
    """Held-out likelihood of HMMs learned from thirty frames: pooled ones are better, by far."""
    rng = np.random.default_rng(0)
    hmm = random_hmm(rng, 3, 1, 4, spread=3.0)
    ys = [hmm.sample(1, 30, random_state=i)[0] for i in range(40)]
    fresh = [hmm.sample(1, 30, random_state=1000 + i)[0] for i in range(40)]
    alone, together = (vhem.fit_hmms(ys, 3, pooling=how, random_state=0) for how in (None, "auto"))
    score = [np.mean([h3m[i].score([fresh[i]]) for i in range(40)]) for h3m in (alone, together)]
    assert score[1] > score[0] + 5.0


def test_nothing_is_pooled_without_evidence():
    rng = np.random.default_rng(2)
    ys = [rng.normal(size=(20, 2)) for _ in range(LEAST_ITEMS + 2)]
    for arguments, part in (({}, ys[: LEAST_ITEMS - 1]), ({"n_mix": 2}, ys), ({"covars_prior": 0.0}, ys)):
        both = [vhem.fit_hmms(part, 2, pooling=how, random_state=0, **arguments) for how in (None, "auto")]
        assert both[0] == both[1]
    assert vhem.fit_hmms(ys, 2, pooling=None, random_state=0) != vhem.fit_hmms(ys, 2, random_state=0)
    with pytest.raises(vhem.ParameterError, match="pooling must be one of 'auto'"):
        vhem.fit_hmms(ys, 2, pooling="all")
