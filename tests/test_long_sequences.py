"""Long sequences, and many: clusters searched in a part of the frames, with results that belong to the whole."""

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

import vhem
from vhem import HMM, VHEM, SequenceClustering, fit_hmms
from vhem.em import choose_states, neighbours, polished_models, shortened
from vhem.em.fitting import FitPlan
from vhem.em.grouped import Batch
from vhem.em.quickened import pace, quickened
from vhem.em.shortened import Shortened, stretches, thinned
from vhem.em.ward import divergences, ward_partitions
from vhem.kernels.reduction import expected_log_likelihood
from vhem.sequences import as_sequences

COURSES = ([0.0, 3.0, 1.0, 4.0], [0.0, 3.0, 4.0, 1.0])


def courses(n=24, dwell=80, seed=0):
    """Return series that take one of two courses, each state for about so many frames, and which."""
    rng = np.random.default_rng(seed)
    ys = [np.repeat(COURSES[i % 2], rng.integers(dwell // 2, 3 * dwell // 2, 4))[:, None] for i in range(n)]
    return [y + 0.5 * rng.normal(size=y.shape) for y in ys], np.arange(n) % 2


def alternating(n=24, T=600, seed=0):
    """Return series that alternate quickly or slowly between two values, and which: only the dynamics differ."""
    rng = np.random.default_rng(seed)
    kinds = [HMM([0.5, 0.5], [[1 - p, p], [p, 1 - p]], [[0.0], [3.0]], [[1.0], [1.0]]) for p in (0.9, 0.1)]
    return [np.asarray(kinds[i % 2].sample(1, T, random_state=rng)[0]) for i in range(n)], np.arange(n) % 2


def batch_of(ys, groups=None):
    return Batch.of(as_sequences(ys), groups, None)


def plan_for(topology, n_states):
    options = {"reg_covar": 1e-3, "startprob_prior": 0.1, "transmat_prior": 0.1, "covars_prior": 0.1}
    plan = FitPlan.checked(n_mix=1, covariance_type="diag", topology=topology, max_iter=100, tol=1e-4, **options)
    return plan.with_states(n_states)


def test_thinned_sequences_begin_with_their_first_frame():
    made = thinned(batch_of([np.arange(7.0), np.arange(10.0, 12.0), np.arange(20.0, 23.0)], ["a", "a", "b"]), 3)
    np.testing.assert_array_equal(made.X[:, 0], [0, 3, 6, 10, 20])
    np.testing.assert_array_equal(made.lengths, [3, 1, 1])
    np.testing.assert_array_equal(made.groups, [0, 0, 1])


def test_stretches_are_sequences_of_the_same_item():
    made = stretches(batch_of([np.arange(150.0), np.arange(1000.0, 1020.0)], ["a", "b"]), 2)
    np.testing.assert_array_equal(made.lengths, [32, 32, 22, 20])
    np.testing.assert_array_equal(made.X[[0, 32, 64, 86], 0], [0, 64, 128, 1000])
    np.testing.assert_array_equal(made.groups, [0, 0, 0, 1])
    np.testing.assert_array_equal(made.weights, np.ones(4))


def test_short_sequences_are_left_as_they_are():
    batch = batch_of([np.zeros((100, 1)) + i for i in range(5)])
    assert Shortened.of(batch, plan_for("ergodic", 4), 2).batch is batch


def test_enough_is_left_of_long_sequences(monkeypatch):
    monkeypatch.setattr(shortened, "_MUCH_WORK", 1)
    batch = batch_of([np.random.default_rng(i).normal(size=(1000, 1)) for i in range(4)])
    for topology in ("ergodic", "left-right"):
        short = Shortened.of(batch, plan_for(topology, 4), 2)
        assert short.step == 1000 // 64
        assert 64 <= short.batch.n_frames.min() <= 100


def test_hmms_played_faster_have_the_same_course():
    slow = vhem.H3M([HMM([1, 0, 0], [[0.95, 0.05, 0], [0, 0.99, 0.01], [0, 0, 1]], [[0], [1], [2]], [[1], [1], [1]])])
    fast = quickened(slow.parameters, 10)
    np.testing.assert_allclose(fast.transmat[0], [[0.5, 0.5, 0], [0, 0.9, 0.1], [0, 0, 1]])
    np.testing.assert_allclose(quickened(fast, 1 / 10).transmat, slow.transmat)
    np.testing.assert_allclose(quickened(slow.parameters, 50).transmat[0, 0], [0, 1, 0])
    np.testing.assert_array_equal(fast.startprob, slow.startprob)


def test_rows_that_only_pad_stay_empty():
    h3m = vhem.H3M([HMM([1, 0], [[0.9, 0.1], [0, 1]], [[0], [1]], [[1], [1]]), HMM([1], [[1]], [[0]], [[1]])])
    assert not quickened(h3m.parameters, 4).transmat[1, 1:].any()


def test_divergences_of_long_courses_are_nearly_those_of_all_frames():
    ys, truth = courses(16, 150)
    models, tau = fit_hmms(ys, 4, topology="left-right", random_state=0).parameters, 600
    assert pace("left-right", tau) == 9
    J = expected_log_likelihood(models, models, tau)
    loss = np.maximum(np.diagonal(J)[:, None] - J, 0)
    full = (loss + loss.T)[np.triu_indices(16, 1)]
    quick = divergences(models, tau)
    assert np.corrcoef(full, quick)[0, 1] > 0.95
    assert 0.5 < np.median(quick / full) < 2
    assert adjusted_rand_score(truth, ward_partitions({"all": quick}, 2)["all"]) == 1.0


def test_behaviours_that_come_back_are_never_played_faster():
    assert pace("ergodic", 5000) == 1
    assert pace("left-right", 127) == 1


def test_a_long_course_is_found_in_a_part_and_learned_from_the_whole(monkeypatch):
    monkeypatch.setattr(shortened, "_MUCH_WORK", 10_000)
    ys, truth = courses()
    fits = [SequenceClustering(2, 4, topology="left-right", random_state=0).fit(ys) for _ in range(2)]
    np.testing.assert_array_equal(fits[0].responsibilities_, fits[1].responsibilities_)
    assert adjusted_rand_score(truth, fits[0].labels_) == 1.0
    stays = np.concatenate(
        [np.diagonal(h.transmat, axis1=1, axis2=2)[:, :3] for h in (fits[0].centers_, fits[0].hmms_)]
    )
    np.testing.assert_allclose(np.median(1 / (1 - stays)), 80, rtol=0.2)  # in frames of the data
    for k in range(2):
        course = COURSES[truth[fits[0].labels_ == k][0]]
        np.testing.assert_allclose(fits[0].centers_[k].means[:, 0, 0], course, atol=0.1)
    np.testing.assert_array_equal(fits[0].hmms_.evidence.n_frames, [len(y) for y in ys])


def test_dynamics_survive_in_stretches(monkeypatch):
    monkeypatch.setattr(shortened, "_MUCH_WORK", 5_000)
    monkeypatch.setattr(choose_states, "_MOST_FRAMES", 3_000)
    ys, truth = alternating()
    fit = SequenceClustering(2, "auto", random_state=0).fit(ys)
    assert fit.topology_ == "ergodic"
    assert adjusted_rand_score(truth, fit.labels_) == 1.0
    stays = np.sort(np.diagonal(fit.centers_.transmat, axis1=1, axis2=2).mean(axis=1))
    np.testing.assert_allclose(stays, [0.1, 0.9], atol=0.05)


def test_given_hmms_are_kept_as_they_are(monkeypatch):
    monkeypatch.setattr(shortened, "_MUCH_WORK", 10_000)
    ys, truth = courses()
    hmms = fit_hmms(ys, 4, topology="left-right", random_state=0)
    fit = SequenceClustering(2, 4, random_state=0).fit(ys, hmms=hmms)
    np.testing.assert_array_equal(fit.hmms_.transmat, hmms.transmat)
    assert adjusted_rand_score(truth, fit.labels_) == 1.0


@pytest.mark.parametrize("kind", [courses, alternating])
def test_the_shape_is_chosen_from_a_part_of_the_frames(monkeypatch, kind):
    ys, _ = kind()
    whole = SequenceClustering(2, "auto", random_state=0).choose_shape(ys)
    monkeypatch.setattr(choose_states, "_MOST_FRAMES", 3_000)
    part = SequenceClustering(2, "auto", random_state=0).choose_shape(ys)
    assert part.topology == whole.topology == ("left-right" if kind is courses else "ergodic")
    assert part.n_states in (whole.n_states - 1, whole.n_states)
    assert part.scores != whole.scores


def test_of_many_inputs_vhem_compares_a_sample(monkeypatch):
    ys, truth = courses(60, 12)
    hmms = fit_hmms(ys, 4, topology="left-right", random_state=0)
    compared = []
    monkeypatch.setattr(polished_models, "most_comparable", lambda *_: 5)
    monkeypatch.setattr(
        polished_models, "divergences", lambda models, *rest: compared.append(len(models)) or divergences(models, *rest)
    )
    fit = VHEM(2, random_state=0).fit(hmms)
    assert set(compared) == {20}  # ten per cluster at least
    assert adjusted_rand_score(truth, fit.labels_) == 1.0


def test_neighbours_are_looked_for_among_fewer_if_that_took_long(monkeypatch):
    ys, _ = courses(60, 12)
    models = fit_hmms(ys, 4, topology="left-right", random_state=0).parameters
    monkeypatch.setattr(neighbours, "_MUCH_WORK", 1)
    nearest = neighbours.neighbours(batch_of(ys), models, np.random.default_rng(0))
    assert len(np.unique(nearest)) <= 20
    assert (nearest % 2 == np.arange(60) % 2).mean() > 0.9
