"""compare_groups, group_gain_test, cross_fitted_test and bootstrap_test."""

from __future__ import annotations

import time
from types import SimpleNamespace

import numpy as np
import pytest
from helpers import random_hmm
from scipy import stats

from vhem import H3M, HMM, InputError, ParameterError, SequenceClustering, Sequences
from vhem.datasets import simulated_study
from vhem.emissions import Categorical, Gamma, Poisson, VonMises
from vhem.emissions.conjugates import about
from vhem.inference import bootstrap_test, compare_groups, cross_fitted_test, group_gain_test
from vhem.inference.groups import compare_by_distance, squared_distances
from vhem.inference.null_model import null_model
from vhem.inference.permutations import Design, design_of, holm, share_as_large
from vhem.inference.pipeline import Study, check_pipeline, run_again
from vhem.inference.varying_people import one_component_each
from vhem.kernels.models import Models

#: Distances, groups and pseudo-F of scikit-bio's tests of PERMANOVA, which were verified with R's vegan::adonis.
UNEQUAL = np.array(
    [
        [0.0, 1.0, 0.1, 0.5678, 1.0, 1.0],
        [1.0, 0.0, 0.002, 0.42, 0.998, 0.0],
        [0.1, 0.002, 0.0, 1.0, 0.123, 1.0],
        [0.5678, 0.42, 1.0, 0.0, 0.123, 0.43],
        [1.0, 0.998, 0.123, 0.123, 0.0, 0.5],
        [1.0, 0.0, 1.0, 0.43, 0.5, 0.0],
    ]
)
PUBLISHED = [
    (np.array([[0, 1, 1, 4], [1, 0, 3, 2], [1, 3, 0, 3], [4, 2, 3, 0.0]]), [0, 0, 1, 1], 2.0, 2 / 3),
    (np.array([[0, 1, 5, 4], [1, 0, 3, 2], [5, 3, 0, 3], [4, 2, 3, 0.0]]), [0, 0, 1, 1], 4.4, 1 / 3),
    (UNEQUAL, [0, 1, 2, 1, 0, 0], 0.578848, 0.655),
]


@pytest.mark.parametrize(("distances", "codes", "f", "p"), PUBLISHED, ids=["ties", "no ties", "unequal"])
def test_permanova_gives_the_published_figures(distances, codes, f, p):
    design = Design(np.array(codes), sorted(set(codes)), None, False)
    found = compare_by_distance(distances**2, design, 999, np.random.default_rng(0))
    assert found.f == pytest.approx(f, abs=1e-6)
    assert found.p == pytest.approx(p, abs=0.05)


def test_permanova_of_numbers_is_analysis_of_variance():
    rng = np.random.default_rng(0)
    x, codes = rng.normal(size=30), np.repeat([0, 1, 2], 10)
    design = design_of(codes, 30)
    found = compare_by_distance((x[:, None] - x) ** 2, design, 1999, rng)
    f, p = stats.f_oneway(*(x[codes == k] for k in range(3)))
    assert found.f == pytest.approx(f)
    assert found.p == pytest.approx(p, abs=0.04)
    pair = stats.f_oneway(x[codes == 0], x[codes == 2])
    assert found.pairs[1].f == pytest.approx(pair.statistic)


def test_strata_are_kept_apart():
    rng = np.random.default_rng(1)
    strata = np.repeat(np.arange(10), 2)
    person, effect = rng.normal(size=10)[strata] * 10, np.tile([0.0, 1.0], 10)
    x = person + effect + 0.3 * rng.normal(size=20)
    squares = (x[:, None] - x) ** 2
    free = compare_by_distance(squares, design_of(effect, 20), 999, rng)
    within = compare_by_distance(squares, design_of(effect, 20, strata), 999, rng)
    assert within.p < 0.01
    assert free.p > 0.2
    permuted = design_of(effect, 20, strata).permuted(100, rng)
    assert (np.sort(permuted.reshape(100, 10, 2), axis=2) == [0, 1]).all()
    whole = design_of(np.repeat([0, 1], 10), 20, strata)
    assert whole.whole
    assert (whole.permuted(50, rng).reshape(50, 10, 2).std(axis=2) == 0).all()


def test_permutations_within_strata_are_uniform():
    design = design_of([0, 1, 0, 1, 0, 1], 6, [0, 0, 1, 1, 2, 2])
    rows, n = np.unique(design.permuted(8000, np.random.default_rng(0)), axis=0, return_counts=True)
    assert len(rows) == 8
    assert stats.chisquare(n).pvalue > 0.001


def test_permutations_cost_little_beside_the_divergences():
    """The divergences of 200 HMMs are computed once; 2,000 permutations take less time than computing them 20 times."""
    study = simulated_study(n_viewers=200)
    begin = time.process_time()
    squares = squared_distances(study.hmms, 10, 1)
    matrix = time.process_time() - begin
    begin = time.process_time()
    found = compare_groups(study.hmms, study.strategies % 2, n_permutations=2_000, random_state=0, n_jobs=1)
    assert time.process_time() - begin < 20 * matrix + 1
    assert found.p == pytest.approx(1 / 2_001)
    assert len(squares) == 200


def test_holm_by_hand():
    """The example of three p-values in Holm's rule: 3 p₁, 2 p₂, p₃, never falling."""
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert np.isnan(holm([0.02, np.nan])[1])
    assert share_as_large(1.0, [1.0 + 1e-15, 0.5, 2.0]) == 0.75


def test_groups_that_cannot_be_compared_are_named():
    hmms = simulated_study(n_viewers=6).hmms
    with pytest.raises(InputError, match="all 6 HMMs are in one group, 'a'; give at least two groups"):
        compare_groups(hmms, ["a"] * 6)
    with pytest.raises(InputError, match="group 'b' has 2 members; no test of so few"):
        compare_groups(hmms, list("aaaabb"))
    with pytest.raises(InputError, match="groups has 5 entries for 6 HMMs"):
        compare_groups(hmms, list("aaabb"))
    with pytest.raises(InputError, match="groups has missing values"):
        compare_groups(hmms, [*"aaabb", None])
    with pytest.raises(InputError, match="strata has 2 entries"):
        compare_groups(hmms, list("aaabbb"), strata=[1, 2])


def two_kinds(rng, n=12, trials=4, apart=3.0):
    arrays, owner = [], []
    for person in range(n):
        means = np.array([0.0, 3.0]) + 0.3 * rng.standard_normal(2) + apart * (person % 2)
        hmm = HMM([0.5, 0.5], [[0.7, 0.3], [0.3, 0.7]], means[:, None], np.ones((2, 1)))
        arrays += list(hmm.sample(trials, 6, rng))
        owner += [person] * trials
    return Sequences(arrays), owner


def test_gain_of_group_models():
    rng = np.random.default_rng(0)
    sequences, owner = two_kinds(rng)
    found = group_gain_test(sequences, owner, [p % 2 for p in owner], n_states=2, n_permutations=39, random_state=0)
    assert found.p <= 0.05
    assert found.gain >= found.permuted.max() >= found.permuted.min() >= 0  # EM only rises from the common HMM
    random = group_gain_test(sequences, owner, [p < 6 for p in owner], n_states=2, n_permutations=39, random_state=0)
    assert random.p > 0.05
    with pytest.raises(ValueError, match="groups has both 0 and 1 for 0"):
        group_gain_test(sequences, owner, [k % 2 for k in range(len(owner))])


@pytest.mark.slow
def test_cross_fitting_and_bootstrap_find_two_kinds():
    sequences, owner = two_kinds(np.random.default_rng(3), n=16)
    model = SequenceClustering(2, 2, random_state=0, n_jobs=1)
    crossed = cross_fitted_test(model, sequences, owner, random_state=0)
    assert crossed.p < 0.01
    assert crossed.pairs[0].p == crossed.p
    assert crossed.pairs[0].interval[0] > 0
    assert len(set(crossed.labels[::2])) == len(set(crossed.labels[1::2])) == 1
    found = bootstrap_test(model, sequences, owner, n_bootstrap=9, random_state=0)
    assert found.p == pytest.approx(0.1)
    assert found.gain > found.null_gains.max()


def test_cross_fitting_never_lets_people_judge_their_own_centres(monkeypatch):
    """Everybody is scored by centres learned without them, on sequences that did not assign them."""
    from vhem.inference import cross_fit

    sequences, owner = two_kinds(np.random.default_rng(3), n=10)
    learned, used = [], []

    def watched(model, study, n_clusters, seed):
        learned.append(study.batch.X)
        return run_again(model, study, n_clusters, seed)

    real = cross_fit._scored
    monkeypatch.setattr(cross_fit, "run_again", watched)
    monkeypatch.setattr(cross_fit, "_scored", lambda c, study: used.append(study.batch.X) or real(c, study))
    cross_fitted_test(SequenceClustering(2, 2, n_jobs=1), sequences, owner, random_state=0, n_permutations=9)
    assert len(learned) == 4  # with everybody, and without each of three folds: 10 people are too few for five
    for fold, (first, second) in enumerate(zip(used[::2], used[1::2], strict=True)):
        assert not np.isin(np.concatenate([first, second]), learned[fold + 1]).any()
        assert not np.isin(first, second).any()


def test_single_sequences_are_cut_in_the_middle():
    study = Study.of([np.arange(5.0), np.arange(10.0, 14.0)], None)
    first, second = study.halves()
    np.testing.assert_array_equal(first.batch.X.ravel(), [0, 1, 10, 11])
    np.testing.assert_array_equal(second.batch.X.ravel(), [2, 3, 4, 12, 13])
    with pytest.raises(InputError, match="1 has a single observation"):
        Study.of([np.arange(5.0), np.arange(1.0)], None).halves()


@pytest.mark.parametrize("covariance_type", ["diag", pytest.param("full", marks=pytest.mark.slow)])
def test_drawn_people_vary_as_those_of_the_study(covariance_type):
    """People drawn from the null model of a study have means that vary as much as those who made the study."""
    rng, spread = np.random.default_rng(5), 1.0
    arrays, owner = [], []
    for person in range(30):
        means = np.array([[0.0, 0.0], [6.0, 6.0]]) + spread * rng.standard_normal((2, 2))
        hmm = HMM([0.5, 0.5], [[0.7, 0.3], [0.3, 0.7]], means, np.ones((2, 2)))
        arrays += list(hmm.sample(5, 8, rng))
        owner += [person] * 5
    study = Study.of(arrays, owner)
    fitted = run_again(SequenceClustering(1, 2, covariance_type=covariance_type, n_jobs=1), study, 1, 0)
    null = null_model(study, fitted)
    drawn = null.draw(rng)
    assert drawn.batch.X.shape == study.batch.X.shape
    again = null_model(drawn, fitted)
    for model in (null, again):
        own = model.centers.spread[0, 0]
        sd = np.sqrt(own if covariance_type == "diag" else np.diagonal(own))
        np.testing.assert_allclose(sd, spread, rtol=0.3)
    np.testing.assert_allclose(drawn.batch.X.var(axis=0), study.batch.X.var(axis=0), rtol=0.25)


def varied_study(emissions, n_frames, loyalty, n=60):
    """Return sequences of people whose emissions and transitions vary as if they were known by so many frames."""
    rng = np.random.default_rng(6)
    rows = np.array([[0.8, 0.2], [0.2, 0.8]])
    arrays, owner = [], []
    for person in range(n):
        trans = np.stack([rng.dirichlet(loyalty * row) for row in rows])
        hmm = HMM([0.5, 0.5], trans, emissions=about(emissions, n_frames).drawn(rng))
        arrays += list(hmm.sample(6, 12, rng))
        owner += [person] * 6
    return Study.of(arrays, owner)


@pytest.mark.parametrize(
    "emissions",
    [
        Categorical([[0.6, 0.3, 0.1], [0.1, 0.2, 0.7]]),
        Poisson([[1.0], [6.0]]),
        pytest.param(VonMises([[0.0], [2.5]], [[4.0], [4.0]]), marks=pytest.mark.slow),
        pytest.param(Gamma([[1.0], [8.0]], [[3.0], [3.0]], [[0.0], [0.0]]), marks=pytest.mark.slow),
    ],
)
def test_how_much_people_vary_is_found_for_any_family(emissions):
    """People drawn with so many frames are found to be worth about as many; those who do not vary, very many."""
    rows = np.array([[[0.8, 0.2], [0.2, 0.8]]])
    lead = emissions.reshaped(1, 2, 1)
    centers = Models(np.full((1, 2), 0.5), rows, np.ones((1, 2, 1)), lead, np.array([2]))
    study = varied_study(emissions, 20.0, 15.0)
    found = null_model(study, SimpleNamespace(centers=H3M.of_models(centers))).centers
    assert 8 < found.alike[0] < 50
    assert 6 < found.loyalty < 40
    alike = varied_study(emissions, 1e6, 1e6)
    found = null_model(alike, SimpleNamespace(centers=H3M.of_models(centers))).centers
    assert found.alike[0] > 80
    assert found.loyalty > 50


def test_mixtures_are_hmms_with_more_states():
    rng = np.random.default_rng(7)
    hmm = random_hmm(rng, 2, 3, 2)
    wide = H3M.of_models(one_component_each(H3M([hmm]).parameters))[0]
    y = hmm.sample(1, 30, rng)[0]
    assert wide.n_states == 6
    assert wide.score([y]) == pytest.approx(hmm.score([y]), rel=1e-12)


def test_bad_input_of_the_tests_of_clusters():
    sequences, owner = two_kinds(np.random.default_rng(0), n=6)
    with pytest.raises(TypeError, match="must be a SequenceClustering or a number of clusters, got str"):
        cross_fitted_test("two", sequences, owner)
    with pytest.raises(InputError, match="5 subjects cannot be divided into folds of at least 3"):
        cross_fitted_test(2, sequences[:20], owner[:20])
    with pytest.raises(ParameterError, match="null_clusters must be less than the number of clusters, 2"):
        bootstrap_test(2, sequences, owner, null_clusters=2)
    with pytest.raises(ParameterError, match="n_clusters must be at least 2, or there is nothing to compare"):
        cross_fitted_test(1, sequences, owner)
    with pytest.raises(ParameterError, match="3 per cluster are needed"):
        bootstrap_test(3, sequences, owner)


def test_categories_stay_categories_when_the_clustering_is_run_again():
    """Codes are not numbers, and parts of a study that lack the last category know of it all the same."""
    rng = np.random.default_rng(0)
    codes = [rng.integers(0, 2 + (person == 7), size=(8, 1)).astype(float) for person in range(8) for _ in range(2)]
    codes[-1][0] = 2
    owner = [person for person in range(8) for _ in range(2)]
    names = Sequences([[["sun", "rain", "hail"][int(x)] for x in seq.ravel()] for seq in codes], categories=True)
    for sequences, emissions in ((codes, "categorical"), (names, "gaussian")):
        study = Study.of(sequences, owner)
        model, study = check_pipeline(SequenceClustering(2, 2, emissions=emissions, n_jobs=1), study)
        part = run_again(model, study.take(np.arange(6)), 2, 0).centers
        assert part.emissions.kind == "categorical with 3 categories"
        assert np.isfinite(part.log_likelihoods(study.sequences())).all()


def test_case_weights_are_said_to_take_no_part():
    sequences, owner = two_kinds(np.random.default_rng(0), n=6)
    weighted = Sequences(list(sequences), weights=np.arange(1.0, len(sequences) + 1))
    with pytest.warns(UserWarning, match="case weights take no part in tests"):
        assert (Study.of(weighted, owner).batch.weights == 1).all()
