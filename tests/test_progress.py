"""What callbacks are told, and that raising in one stops the work."""

from __future__ import annotations

import numpy as np
import pytest

import vhem
from vhem import HierarchicalVHEM, MixtureOfHMMs, Sequences, fit_hmms
from vhem.datasets import simulated_study


class EnoughError(Exception):
    pass


def stop_at(n):
    seen = []

    def callback(progress):
        seen.append(progress)
        if len(seen) == n:
            raise EnoughError

    return callback, seen


@pytest.fixture(scope="module")
def study():
    return simulated_study(n_viewers=9, n_trials=4)


def test_fit_hmms_tells_how_many_have_settled(study):
    seen = []
    fit_hmms(study.sequences, [2, 3], n_init=2, random_state=0, callback=seen.append)
    assert [p.start for p in seen] == sorted(p.start for p in seen)
    assert {p.start for p in seen} == set(range(4))
    assert {p.n_starts for p in seen} == {4}
    for start in range(4):
        settled = [p.n_settled for p in seen if p.start == start]
        assert settled == sorted(settled)
        assert (settled[0], settled[-1]) == (0, len(study.sequences))
    callback, seen = stop_at(2)
    with pytest.raises(EnoughError):
        fit_hmms(study.sequences, callback=callback)
    assert len(seen) == 2


def test_fit_hmms_counts_what_is_held_out(study):
    seen = []
    groups = study.sequences.groups
    fit_hmms(study.sequences, [1, 2], criterion="held-out", groups=groups, random_state=0, callback=seen.append)
    assert {(p.start, p.n_starts) for p in seen} == {(k, 4) for k in range(4)}


def test_a_callback_changes_nothing(study):
    assert fit_hmms(study.sequences, random_state=0, callback=lambda _: None) == fit_hmms(
        study.sequences, random_state=0
    )


def test_mixtures_and_hierarchies_tell_the_bound(study):
    seen = []
    fit = MixtureOfHMMs(2, n_states=2, n_init=2, random_state=0, callback=seen.append).fit(study.sequences)
    for restart in range(2):
        told = [p.lower_bound for p in seen if p.restart == restart]
        np.testing.assert_array_equal(told, fit.restarts_[restart].lower_bounds)
    assert {p.n_restarts for p in seen} == {2}
    callback, seen = stop_at(3)
    with pytest.raises(EnoughError):
        HierarchicalVHEM(levels=(4, 2), random_state=0, callback=callback).fit(study.hmms)


def test_callbacks_that_cannot_be_called():
    with pytest.raises(ValueError, match="callback must be a function"):
        fit_hmms([[1.0, 2.0]], callback="print")
    with pytest.raises(ValueError, match="callback must be a function"):
        MixtureOfHMMs(2, callback=3).fit([[1.0, 2.0]])


def test_thin_data_are_named():
    sequences = Sequences([np.arange(20.0), [1.0, 2.0], [np.nan] * 9], ids=["good", "short", "empty"])
    with pytest.warns(RuntimeWarning) as caught:
        fit_hmms(sequences, n_states=3, random_state=0)
    said = " ".join(str(w.message) for w in caught)
    assert "fewer frames than states in 'short'; use fewer states" in said
    assert "nothing but missing values in 'empty'" in said
    assert "'good'" not in said
    many = [[1.0, 2.0]] * 7
    with pytest.warns(RuntimeWarning, match="fewer frames than states in 0, 1, 2, 3, 4 and 2 more"):
        vhem.fit_hmms(many, n_states=3, random_state=0)
