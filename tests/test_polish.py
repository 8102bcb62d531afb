"""VHEM on HMMs that remember their data: sequences like those behind them, and clusters learned from these."""

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

import vhem
from vhem.datasets import simulated_sets, simulated_study
from vhem.em.fitting import FitPlan, fit_batch
from vhem.em.grouped import Scale
from vhem.em.retold import retold
from vhem.models.evidence import Evidence


@pytest.fixture(scope="module")
def study() -> tuple[vhem.H3M, np.ndarray]:
    made = simulated_study(n_viewers=45, n_trials=4, random_state=5)
    hmms = vhem.fit_hmms(made.sequences, 3, groups=made.sequences.groups, random_state=0)
    order = [made.hmms.ids.index(name) for name in hmms.ids]
    return hmms, made.strategies[order]


def chain(stay: float, full: bool = False) -> vhem.HMM:
    covars = np.array([[1.0, 2.0], [0.5, 0.1]])
    if full:
        covars = np.array([[[1.0, 0.3], [0.3, 2.0]], [[0.5, -0.1], [-0.1, 0.1]]])
    return vhem.HMM([0.75, 0.25], [[stay, 1 - stay], [0.5, 0.5]], [[0.0, 1.0], [5.0, -3.0]], covars)


def test_retold_sequences_are_as_many_and_as_long() -> None:
    hmms = vhem.H3M([chain(0.9), chain(0.5)])
    batch = retold(hmms.parameters, Evidence(np.array([4.0, 1.0]), np.array([40.0, 25.0])), np.random.default_rng(0))
    assert batch.lengths.tolist() == [10, 10, 10, 10, 25]
    assert batch.groups.tolist() == [0, 0, 0, 0, 1]


def test_much_evidence_is_cut_at_four_hundred_frames() -> None:
    hmms = vhem.H3M([chain(0.9), chain(0.5)])
    batch = retold(hmms.parameters, Evidence(np.array([1e3, 1.0]), np.array([5e4, 1e4])), np.random.default_rng(0))
    assert np.diff(batch.frame_offsets).tolist() == [400, 400]


@pytest.mark.parametrize("full", [False, True])
def test_learning_from_retold_sequences_returns_the_hmm(full: bool) -> None:
    """Not so for random draws of the same number: their means alone would be off by 0.1 or more."""
    hmm = chain(0.8, full)
    batch = retold(vhem.H3M([hmm]).parameters, Evidence(np.array([10.0]), np.array([200.0])), np.random.default_rng(0))
    plan = FitPlan.checked(
        n_mix=1, covariance_type="full" if full else "diag", topology="ergodic", max_iter=100, tol=1e-6,
        reg_covar=0.0, startprob_prior=0.0, transmat_prior=0.0, covars_prior=0.0, init=hmm,
    )  # fmt: skip
    again = fit_batch(batch, Scale.of(batch), plan.with_states(2), np.random.default_rng(0)).models
    assert np.allclose(again.components.means[0, :, 0], hmm.means[:, 0], atol=0.05)
    assert np.allclose(again.components.variances[0, :, 0], np.array([[1.0, 2.0], [0.5, 0.1]]), rtol=0.1)
    assert np.allclose(again.transmat[0], hmm.transmat, atol=0.02)
    assert np.allclose(again.startprob[0], hmm.startprob, atol=0.06)


def test_left_right_walks_dwell_as_long_as_expected() -> None:
    hmm = vhem.HMM([1, 0, 0], [[0.9, 0.1, 0], [0, 0.8, 0.2], [0, 0, 1]], [[0.0], [10.0], [20.0]], np.ones((3, 1)))
    batch = retold(vhem.H3M([hmm]).parameters, Evidence(np.ones(1), np.array([30.0])), np.random.default_rng(0))
    path = np.round(batch.X[:, 0] / 10).clip(0, 2)
    assert (path == np.repeat([0, 1, 2], [10, 5, 15])).mean() > 0.9


def test_polished_clusters_are_better_where_hmms_are_estimates(study: tuple[vhem.H3M, np.ndarray]) -> None:
    hmms, truth = study
    fit = vhem.VHEM(3, random_state=0).fit(hmms)
    plain = vhem.VHEM(3, polish=False, random_state=0).fit(hmms)
    assert fit.polished_
    assert not plain.polished_
    assert adjusted_rand_score(truth, fit.labels_) >= adjusted_rand_score(truth, plain.labels_)
    assert adjusted_rand_score(truth, fit.labels_) > 0.9
    assert np.allclose(fit.responsibilities_.sum(axis=1), 1)
    assert (fit.responsibilities_.argmax(axis=1) == fit.labels_).all()
    assert (np.diff(fit.centers_.weights) <= 1e-9).all()


def test_centres_have_the_highest_bound_for_their_clusters(study: tuple[vhem.H3M, np.ndarray]) -> None:
    hmms, _ = study
    fit = vhem.VHEM(3, random_state=0).fit(hmms)
    for k, center in enumerate(fit.centers_):
        members = hmms[fit.labels_ == k]
        better = vhem.VHEM(1, init=[center], tau=fit.tau_, max_iter=5, tol=0).fit(members)
        assert better.lower_bounds_[-1] - better.lower_bounds_[0] < 1e-3 * abs(better.lower_bounds_[0])


def test_one_seed_one_answer_for_any_threads(study: tuple[vhem.H3M, np.ndarray]) -> None:
    hmms, _ = study
    one, two = (vhem.VHEM(3, random_state=3, n_jobs=n).fit(hmms) for n in (1, 2))
    assert np.array_equal(one.responsibilities_, two.responsibilities_)
    assert one.centers_ == two.centers_


@pytest.mark.parametrize(
    "options",
    [{"n_init": 2}, {"init": "kmeans++"}, {"n_virtual": 10.0}, {"bound": "observed", "max_iter": 2, "tol": 0}],
)
def test_those_who_ask_for_something_else_get_it(study: tuple[vhem.H3M, np.ndarray], options: dict) -> None:
    assert not vhem.VHEM(3, random_state=0, **options).fit(study[0][:12]).polished_


def test_hmms_without_memory_or_of_unequal_weight_are_not_polished(study: tuple[vhem.H3M, np.ndarray]) -> None:
    hmms = study[0][:12]
    assert not vhem.VHEM(2, random_state=0).fit(list(hmms)).polished_
    assert not vhem.VHEM(2, random_state=0).fit(hmms.with_weights(np.arange(1, 13) / 78)).polished_


def pages(seed: int) -> tuple[vhem.H3M, simulated_sets.SimulatedSet]:
    made = simulated_sets.clicks(seed)
    options = {"groups": made.items, "emissions": "categorical:8", "random_state": 0}
    return vhem.fit_hmms(made.sequences, made.n_states, **options), made


def test_centres_of_categories_keep_their_states() -> None:
    """By the bound alone, states that share categories fall together, and the sequences are far less likely."""
    hmms, made = pages(100)
    fit, plain = (vhem.VHEM(4, polish=polish, random_state=0).fit(hmms) for polish in (True, False))
    apart = [np.ptp(center.emissions.probabilities, axis=0).max() for center in fit.centers_]
    assert fit.polished_
    assert min(apart) > 0.25
    assert fit.centers_.score(made.sequences) > plain.centers_.score(made.sequences) + 0.5


def test_categories_of_unequal_weight_are_polished_as_cases() -> None:
    hmms, _ = pages(101)
    weights = np.where(np.arange(len(hmms)) < 60, 3.0, 1.0)
    fit = vhem.VHEM(2, weight_form="virtual", random_state=0).fit(hmms.with_weights(weights / weights.sum()))
    assert fit.polished_
    assert np.isclose(fit.centers_.weights.sum(), 1)


def test_tau_by_itself() -> None:
    rng = np.random.default_rng(0)
    rises = [np.linspace(0, 5, 30)[:, None] + rng.normal(size=(30, 1)) for _ in range(8)]
    ergodic = vhem.fit_hmms(rises, 3, random_state=0)
    left_right = vhem.fit_hmms(rises, 3, topology="left-right", random_state=0)
    assert vhem.VHEM(2, random_state=0, polish=False).fit(ergodic).tau_ == 10
    assert vhem.VHEM(2, random_state=0, polish=False).fit(left_right).tau_ == 30
    assert vhem.VHEM(2, tau=7, random_state=0, polish=False).fit(left_right).tau_ == 7
    fit = vhem.VHEM(2, random_state=0).fit(left_right)
    assert not np.tril(fit.centers_.transmat, -1).any()  # polished centres stay left-right
