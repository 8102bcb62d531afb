"""The one loop of EM, with the smallest problem there is; and faults that it ends for every estimator."""

from dataclasses import dataclass

import numpy as np
import pytest
from helpers import left_right, random_h3m

import vhem
from vhem import H3M, HMM, VHEM, fit_hmms
from vhem._support.errors import BoundError, ParameterError
from vhem.em import cluster_starts
from vhem.em.loop import Clock, Limits, Problem, Step, run
from vhem.em.parameters import CHECKS
from vhem.em.restarts import in_parallel
from vhem.estimators.grouped_mixtures import fit_mixtures
from vhem.kernels import reduction
from vhem.kernels.stopping import check_stopped


@dataclass
class Bounds:
    bounds: np.ndarray


@dataclass
class Steps(Problem):
    """Bounds that are told beforehand, one row per E-step: all that the loop knows of a problem."""

    table: np.ndarray
    strict: bool = True
    wants_anchors: bool = False
    n_counted: int = 0
    n_e_steps: int = 0

    @property
    def frames(self):
        return np.ones(self.table.shape[1])

    def e_step(self, state):
        self.n_e_steps += 1
        return Bounds(self.table[state])

    def count(self, state, expected, anchors):
        self.n_counted += 1
        return anchors

    def m_step(self, state, expected, sums, anchors):
        assert sums is anchors
        return Step(state, "here") if self.wants_anchors and anchors is None else Step(state + 1)

    def take(self, state, expected, rows):
        part = Steps(self.table[:, rows], self.strict, self.wants_anchors)
        return part, state, Bounds(expected.bounds[rows])


def test_members_drop_out_one_by_one():
    table = np.array([[0.0, 0.0, 0.0], [1.0, 5.0, 9.0], [1.0, 6.0, 19.0], [1.0, 6.0, 29.0], [1.0, 6.0, 39.0]])
    result = run(Steps(table), 0, Limits(max_iter=4, tol=0.5))
    assert result.n_iter.tolist() == [2, 3, 4]
    assert result.converged.tolist() == [True, True, False]
    assert [part.rows.tolist() for part in result.ended] == [[0], [1], [2]]


def test_a_bound_that_falls_is_an_error_or_counted():
    falling = np.array([[0.0], [5.0], [4.0], [6.0]])
    with pytest.raises(BoundError, match=r"the lower bound fell from 5\.0 to 4\.0"):
        run(Steps(falling), 0, Limits(max_iter=3, tol=0))
    assert run(Steps(falling, strict=False), 0, Limits(max_iter=3, tol=0)).n_falls.tolist() == [1]
    with pytest.raises(ValueError, match="the lower bound is not finite"):
        run(Steps(np.array([[0.0], [np.nan]])), 0, Limits(max_iter=3))


def test_lost_digits_are_counted_again_once():
    problem = Steps(np.arange(4.0)[:, None], wants_anchors=True)
    run(problem, 0, Limits(max_iter=3, tol=0))
    assert problem.n_counted == 2 * 3
    assert problem.n_e_steps == 4


def test_time_ends_a_run():
    result = run(Steps(np.arange(9.0)[:, None]), 0, Limits(max_iter=8, tol=0, clock=Clock.start(0.0)))
    assert result.timed_out
    assert result.n_iter.tolist() == [0]


def test_one_error_ends_all_restarts():
    ended = []

    def restart(r):
        if r == 0:
            raise KeyError("zero")
        try:
            for _ in range(10**9):
                check_stopped()
        except KeyboardInterrupt:
            ended.append(r)
            raise

    with pytest.raises(KeyError, match="zero"):
        in_parallel(restart, 2, 2)
    assert ended in ([], [1])  # it had begun, or it had not


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_every_group_costs_one_e_step_per_iteration(monkeypatch):
    """Groups that have converged drop out with the sums of the others at hand: nothing is computed again."""
    rng = np.random.default_rng(0)
    ys = [rng.normal(size=(20, 1)) + 5 * (i % 3) for i in range(24)]
    calls = []
    from vhem.em import mixtures

    plain = mixtures.log_likelihoods
    monkeypatch.setattr(mixtures, "log_likelihoods", lambda *a: calls.append(1) or plain(*a))
    fit_mixtures(ys, np.repeat(np.arange(4), 6), n_states=2, max_iter=12, random_state=0)
    assert 2 <= len(calls) <= 13


@pytest.mark.filterwarnings("ignore:.* visited by no input:RuntimeWarning")
def test_a_far_start_loses_no_digits():
    """Where cancellation leaves a variance of zero or less, sums are made again about the new means."""

    def viewer(x):
        return HMM([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]], [[x], [x + 4.0]], [[1.0], [1.0]])

    hmms = H3M([viewer(x) for x in np.linspace(-1, 1, 6)])
    near = VHEM(2, init=H3M([viewer(1e4), viewer(-1e4)]), n_virtual=1).fit(hmms)
    far = VHEM(2, init=H3M([viewer(1e12), viewer(-1e12)]), n_virtual=1).fit(hmms)
    assert far.lower_bound_ == pytest.approx(near.lower_bound_, rel=1e-9)
    assert far.centers_.covars.min() >= 1.0


def test_what_is_zero_by_structure_is_no_parameter():
    """The information criterion of an HMM with a given start counts what can change, and nothing else."""
    hmm = left_right(3, separation=3.0, stay=0.7)
    y = hmm.sample(1, 80, random_state=0)
    _, report = fit_hmms(y, init=hmm, max_iter=5, tol=0, return_report=True)
    n_free = 0 + 2 + 3 * 2  # transitions of two states that may be left, means and variances
    assert report.scores[0, 0] == pytest.approx(report.log_likelihoods[0] - 0.5 * n_free * np.log(80))
    assert H3M([hmm]).n_parameters() == n_free


def test_distances_of_the_inputs_to_themselves_are_computed_once(monkeypatch):
    calls = []
    plain = reduction.self_log_likelihood
    monkeypatch.setattr(reduction, "self_log_likelihood", lambda *a, **k: calls.append(1) or plain(*a, **k))
    assert not hasattr(cluster_starts, "self_log_likelihood")
    VHEM(3, init="kmeans++", n_init=6, max_iter=3, tol=1.0, random_state=0, n_jobs=1).fit(
        random_h3m(np.random.default_rng(0), 20)
    )
    assert len(calls) == 1


@pytest.mark.parametrize("name", sorted(CHECKS))
def test_shared_parameters_are_refused_in_the_same_words(name):
    wrong = object()
    with pytest.raises(ParameterError, match=f"^{name} must be"):
        CHECKS[name](name, wrong)


def test_documentation_has_no_gaps():
    for name in vhem.__all__:
        text = getattr(vhem, name).__doc__ or ""
        assert "    <" not in text, name
