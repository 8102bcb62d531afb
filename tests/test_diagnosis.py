"""diagnose: what was missed, and what is preferred."""

import numpy as np
import pytest
from helpers import random_hmm

import vhem


def two_kinds(seed=0, n=10, gap=4.0):
    rng = np.random.default_rng(seed)
    kinds = [random_hmm(rng, 2, 1, 1, spread=gap) for _ in range(2)]
    truth = np.arange(2 * n) % 2
    return [kinds[k].sample(1, 30, random_state=rng)[0] for k in truth], truth


@pytest.mark.parametrize("estimator", ["SequenceClustering", "MixtureOfHMMs", "VHEM"])
def test_what_is_right_needs_no_cause(estimator):
    ys, truth = two_kinds()
    X = vhem.fit_hmms(ys, 2, random_state=0) if estimator == "VHEM" else ys
    sizes = (2,) if estimator == "VHEM" else (2, 2)
    fit = getattr(vhem, estimator)(*sizes, random_state=0).fit(X)
    found = vhem.diagnose(fit, truth, list(X) if estimator == "VHEM" else X)
    assert found.cause == "none"
    assert found.kept == found.agreement == 1.0
    assert "nothing to explain" in found.sentence


def test_a_local_optimum_is_the_fault_of_the_search():
    """Three groups, two of them near each other; a start that splits the far one stays where it is."""

    def looks(x):
        return vhem.HMM([1.0], [[1.0]], [[x]], [[0.01]])

    places = np.repeat([0.0, 1.0, 10.0], 6) + np.random.default_rng(0).normal(0, 0.05, 18)
    hmms = vhem.H3M([looks(x) for x in places])
    start = vhem.H3M([looks(0.5), looks(9.96), looks(10.04)])
    fit = vhem.VHEM(3, init=start, n_virtual=1000.0, tau=1).fit(hmms)
    found = vhem.diagnose(fit, np.repeat([0, 1, 2], 6), hmms)
    assert found.cause == "search"
    assert found.truth_objective > found.found_objective
    assert "a better solution was missed" in found.sentence


def test_classes_that_the_data_do_not_show_are_not_preferred():
    ys, _ = two_kinds()
    fit = vhem.SequenceClustering(2, 2, random_state=0).fit(ys)
    found = vhem.diagnose(fit, np.repeat([0, 1], 10), ys)
    assert found.cause == "objective"
    assert found.agreement < 0.2
    assert "more restarts will not" in found.sentence


def test_hmms_of_few_frames_have_lost_what_their_sequences_know():
    """Two kinds that stay or alternate; an HMM of its own for three short trials is mostly noise."""
    rng, truth = np.random.default_rng(2), np.arange(24) % 2
    kinds = [vhem.HMM([0.5, 0.5], [[p, 1 - p], [1 - p, p]], [[0.0], [2.0]], [[1.0], [1.0]]) for p in (0.9, 0.1)]
    ys = [y for k in truth for y in kinds[k].sample(3, 8, random_state=rng)]
    people = np.repeat(np.arange(24), 3)
    hmms = vhem.fit_hmms(ys, 2, groups=people, pooling=None, random_state=0)
    fit = vhem.VHEM(2, polish=False, random_state=0).fit(hmms)
    assert vhem.diagnose(fit, truth, hmms).cause == "objective"
    found = vhem.diagnose(fit, truth, hmms, people, ys)
    assert found.cause == "estimation"
    assert "The HMMs have lost" in found.sentence


def test_wrong_questions_are_answered():
    ys, truth = two_kinds()
    fit = vhem.SequenceClustering(2, 2, random_state=0).fit(ys)
    with pytest.raises(ValueError, match="truth has 3 classes for 20 items"):
        vhem.diagnose(fit, truth[:3], ys)
    with pytest.raises(ValueError, match="single class"):
        vhem.diagnose(fit, np.zeros(20), ys)
    with pytest.raises(ValueError, match="truth has 3 classes, but 2 clusters were asked for"):
        vhem.diagnose(fit, np.arange(20) % 3, ys)
    with pytest.raises(ValueError, match="truth must have names or numbers"):
        vhem.diagnose(fit, [None, "a"] * 10, ys)
    with pytest.raises(ValueError, match="X has 19 items, but 20 were fitted"):
        vhem.diagnose(fit, truth, ys[1:])
    with pytest.raises(ValueError, match="X has 3 channels, but"):
        vhem.diagnose(fit, truth, [np.zeros((5, 3))] * 20)
    hmms = vhem.fit_hmms(ys, 2, random_state=0)
    other = vhem.PPKClustering(2, length=5).fit(hmms)
    with pytest.raises(ValueError, match="PPKClustering cannot be diagnosed"):
        vhem.diagnose(other, truth, hmms)
    with pytest.raises(ValueError, match="partition must be 20 cluster numbers from 0 to 1"):
        vhem.SequenceClustering(2, 2).fit(ys, partition=truth + 1)
