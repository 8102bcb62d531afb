"""Restarts until sure, and the genetic search for the highest bound."""

import numpy as np
import pytest

import vhem
from vhem.datasets import simulated_study
from vhem.em import restarts
from vhem.em.how_sure import MOST, HowSure, until_sure
from vhem.em.loop import Limits, run
from vhem.em.progress import Progress
from vhem.em.reduction import Centers, ReductionProblem
from vhem.em.restarts import run_together
from vhem.em.sharding import Shards
from vhem.emissions import Gaussian
from vhem.kernels.reduction import BaseModels


@pytest.fixture(scope="module")
def hmms() -> vhem.H3M:
    made = simulated_study(n_viewers=12, n_trials=4, random_state=5)
    return vhem.fit_hmms(made.sequences, 3, groups=made.sequences.groups, random_state=0)


def test_optima_are_counted() -> None:
    sure = HowSure.of(np.array([-100.0, -100.0000001, -101.0, -100.0, -103.0, -103.0]))
    assert sure == HowSure(n_restarts=6, n_best=3, n_optima=3, n_once=1)
    assert sure.enough
    assert "3 of 6 restarts" in sure.sentence
    assert HowSure.of(np.array([-1.0])).sentence.startswith("There was one start only")
    assert HowSure.of(np.array([-1.0, -1.0])).sentence == "2 of 2 restarts found the best bound."


@pytest.mark.parametrize(("bounds", "n_made"), [([-1.0] * 500, 8), (list(-np.arange(500.0)[::-1]), MOST)])
def test_restarts_go_on_until_sure_or_the_budget_is_spent(bounds: list[float], n_made: int) -> None:
    made: list[float] = []

    def batch(begin: int, end: int) -> list[float]:
        made.extend(bounds[begin:end])
        return made

    until_sure(batch)
    assert len(made) == n_made


def test_vhem_restarts_until_the_best_was_found_three_times(hmms: vhem.H3M) -> None:
    one, two = (vhem.VHEM(2, n_init="auto", random_state=0, n_jobs=n).fit(hmms) for n in (1, 2))
    assert one.how_sure_.n_best >= 3
    assert len(one.restarts_) == one.how_sure_.n_restarts
    assert one.lower_bound_ == two.lower_bound_
    assert one.how_sure_ == two.how_sure_


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vhem.em.genetic._PATIENCE", 15)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("covariance_type", ["diag", "full"])
def test_restarts_side_by_side_are_those_made_one_at_a_time(
    hmms: vhem.H3M, covariance_type: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"n_init": 8, "covariance_type": covariance_type, "random_state": 1, "max_iter": 30}
    told: list[Progress] = []
    together = vhem.VHEM(3, **options, callback=told.append).fit(hmms)
    monkeypatch.setattr(restarts, "_PAIRS_TOGETHER", 0)
    alone = vhem.VHEM(3, **options).fit(hmms)
    for r, (one, other) in enumerate(zip(together.restarts_, alone.restarts_, strict=True)):
        assert (one.init, one.converged) == (other.init, other.converged)
        np.testing.assert_allclose(one.lower_bounds, other.lower_bounds, rtol=1e-12)
        assert [step.lower_bound for step in told if step.restart == r] == list(one.lower_bounds)
    assert (together.labels_ == alone.labels_).all()
    assert together.n_unvisited_states_ == alone.n_unvisited_states_


def test_starts_far_off_are_counted_again_each_on_its_own(hmms: vhem.H3M) -> None:
    """Only the second start needs its sums about other anchors."""
    near = Centers(hmms.parameters.take([0, 1]), np.full(2, 0.5))
    gaussian = near.models.components
    far = near._replace(models=near.models.with_components(Gaussian(gaussian.means + 1e7, gaussian.covars)))
    weights = (np.full(len(hmms), 10.0), np.ones(len(hmms)), 5)
    problem = ReductionProblem(base=Shards.of(BaseModels.of(hmms.parameters, *weights)))
    limits = Limits(max_iter=4)
    for one, start in zip(run_together(problem, [near, far], limits), [near, far], strict=True):
        assert one.bounds == run(problem, start, limits).bounds


def test_genetic_search_is_never_below_its_starts(hmms: vhem.H3M) -> None:
    for seed in range(3):
        fit = vhem.VHEM(3, search="genetic", n_init=3, random_state=seed, n_jobs=1 + seed % 2).fit(hmms)
        bounds = [restart.lower_bounds[-1] for restart in fit.restarts_]
        assert [restart.init for restart in fit.restarts_] == ["ward", "kmeans++", "emissions", "genetic"]
        assert max(bounds[:-1]) <= bounds[-1]
        assert fit.lower_bound_ == pytest.approx(bounds[-1], rel=1e-6)


@pytest.mark.usefixtures("impatient")
def test_one_seed_one_search_for_any_threads(hmms: vhem.H3M) -> None:
    one, two = (vhem.VHEM(3, search="genetic", n_init=2, random_state=1, n_jobs=n).fit(hmms) for n in (1, 2))
    assert one.centers_ == two.centers_


def test_a_genetic_search_has_a_number_of_starts(hmms: vhem.H3M) -> None:
    with pytest.raises(ValueError, match="n_init"):
        vhem.VHEM(2, search="genetic", n_init="auto").fit(hmms)


@pytest.mark.usefixtures("impatient")
def test_mixtures_of_sequences_search_too() -> None:
    sequences = simulated_study(n_viewers=8, n_trials=3, random_state=5).sequences
    fit = vhem.MixtureOfHMMs(3, 2, search="genetic", n_init=3, random_state=0).fit(sequences)
    bounds = [restart.lower_bounds[-1] for restart in fit.restarts_]
    assert [restart.init for restart in fit.restarts_] == ["smyth", "kmeans", "ward", "genetic"]
    assert max(bounds[:-1]) <= bounds[-1] == pytest.approx(fit.lower_bound_)
