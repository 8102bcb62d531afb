"""Scores, the scale between two models and t-tests: the toolbox's figures (golden case stats_a), and bad input."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from vhem import H3M, HMM, InputError, ParameterError, Sequences
from vhem.em.grouped import Batch
from vhem.inference import (
    ab_scale,
    describe_hmm,
    independent_t_test,
    likeliest_paths,
    log_odds,
    paired_t_test,
    scale_between,
    stimulus_anova,
    subject_scores,
    symmetric_kl_test,
)
from vhem.inference.scores import scores_of
from vhem.inference.stimuli import analysed

CLOSE = {"rtol": 1e-9, "atol": 1e-9}


@pytest.fixture(scope="module")
def golden():
    with np.load(Path(__file__).parent / "golden" / "bayes" / "stats_a.npz") as arrays:
        return dict(arrays)


def models(golden, stimulus):
    names = ("prior", "A", "mean", "cov")
    return H3M([HMM(*(golden[f"hmm_s{stimulus}_c{c}_{name}"] for name in names)) for c in (0, 1)])


def trials(golden, stimulus, subjects=range(8)):
    arrays, owner = [], []
    for i in subjects:
        parts = np.split(golden[f"data_s{stimulus}_i{i}"], np.cumsum(golden[f"lengths_s{stimulus}_i{i}"])[:-1])
        arrays, owner = arrays + parts, owner + [i] * len(parts)
    return Sequences(arrays), owner


@pytest.fixture(scope="module")
def scores(golden):
    return subject_scores(models(golden, 0), *trials(golden, 0))


def as_row(test):
    return [test.mean, test.sd, test.t, test.df, test.p, test.d]


def test_scores_are_the_toolboxes(golden, scores):
    np.testing.assert_allclose(scores.per_frame, np.column_stack([golden["ll1"], golden["ll2"]]), **CLOSE)
    unnormalised = np.column_stack([golden["ll1_unnorm"], golden["ll2_unnorm"]])
    np.testing.assert_allclose(scores.per_sequence, unnormalised, **CLOSE)
    first, _ = trials(golden, 0, [0])
    each = models(golden, 0).log_likelihoods(first) / first.lengths[:, None]
    expected = np.column_stack([golden["trial_ll1_subject0"], golden["trial_ll2_subject0"]])
    np.testing.assert_allclose(each, expected, **CLOSE)


def test_the_scale_is_the_toolboxes(golden, scores):
    np.testing.assert_allclose(ab_scale(scores), golden["ab"], **CLOSE)
    total = golden["co_LL"].sum(axis=1)
    np.testing.assert_allclose(scale_between(total[:, 0], total[:, 1]), golden["co_ab"], **CLOSE)


def test_log_odds_do_not_depend_on_units(golden):
    sequences, owner = trials(golden, 0)
    in_pixels = models(golden, 0)
    in_degrees = [HMM(h.startprob, h.transmat, h.means[:, 0] / 35, h.covars[:, 0] / 35**2) for h in in_pixels]
    small = Sequences([array / 35 for array in sequences])
    one, other = subject_scores(in_pixels, sequences, owner), subject_scores(in_degrees, small, owner)
    np.testing.assert_allclose(log_odds(one), log_odds(other), rtol=1e-9)
    assert np.abs(ab_scale(one) - ab_scale(other)).max() > 0.01


def test_paired_tests_are_the_toolboxes(golden, scores):
    groups = [(scores.per_frame[:4, 0], scores.per_frame[:4, 1]), (scores.per_frame[4:, 1], scores.per_frame[4:, 0])]
    for name, (own, other) in zip(("tt1", "tt2"), groups, strict=True):
        found = paired_t_test(own, other)
        wanted = [golden[f"{name}_lld"].mean(), *(float(golden[f"{name}_{x}"]) for x in ("sd", "t", "df", "p", "d"))]
        np.testing.assert_allclose(as_row(found), wanted, **CLOSE)
        np.testing.assert_allclose(found.interval, golden[f"{name}_ci"], **CLOSE)


def test_the_symmetric_test_is_the_toolboxes(golden, scores):
    own = np.concatenate([scores.per_frame[:4, 0], scores.per_frame[4:, 1]])
    other = np.concatenate([scores.per_frame[:4, 1], scores.per_frame[4:, 0]])
    found = symmetric_kl_test(own, other, [1] * 4 + [2] * 4)
    wanted = [golden[f"skl_{name}"] for name in ("t", "df", "p", "d")]
    np.testing.assert_allclose([found.test.t, found.test.df, found.test.p, found.test.d], wanted, **CLOSE)
    np.testing.assert_allclose(found.test.interval, golden["skl_ci"], **CLOSE)
    np.testing.assert_allclose([found.mean, found.group_mean], [golden["skl"], golden["skl_avg"]], **CLOSE)


def test_independent_groups_are_compared_as_the_toolbox_does(golden, scores):
    found = independent_t_test(scores.per_frame[:4, 0], scores.per_frame[4:, 0])
    np.testing.assert_allclose(found.d, golden["d_indep"], **CLOSE)


def test_several_stimuli_are_compared_as_the_toolbox_does(golden):
    each = [subject_scores(models(golden, s), *trials(golden, s)).per_frame for s in range(3)]
    LL = np.stack(each, axis=1)
    np.testing.assert_allclose(LL, golden["co_LL"], **CLOSE)
    means = LL.mean(axis=1)
    for name, own, other in (("co_tt1", means[:4, 0], means[:4, 1]), ("co_tt2", means[4:, 1], means[4:, 0])):
        found = paired_t_test(own, other, "two-sided")
        np.testing.assert_allclose(np.abs([found.p, found.t, found.df, found.d]), np.abs(golden[name]), **CLOSE)
    skl = [(LL[:4, s, 0] - LL[:4, s, 1]).mean() + (LL[4:, s, 1] - LL[4:, s, 0]).mean() for s in range(3)]
    np.testing.assert_allclose(np.array(skl) / 2, golden["co_skl"], **CLOSE)


def test_the_analysis_of_variance_is_the_toolboxes(golden):
    pytest.importorskip("statsmodels")
    effects = analysed(golden["co_LL"][:4], repeated=False)
    np.testing.assert_allclose([e.f for e in effects], golden["anova_F"], rtol=1e-8)
    np.testing.assert_allclose([e.p for e in effects], golden["anova_p"], rtol=1e-8)


def test_subjects_as_a_repeated_factor_give_the_paired_t_test():
    """With two models and the mean over stimuli, F of the model is the square of the paired t."""
    pytest.importorskip("statsmodels")
    values = np.random.default_rng(0).normal(size=(9, 3, 2)) + np.random.default_rng(1).normal(size=(9, 1, 1))
    effects = {e.name: e for e in analysed(values, repeated=True)}
    t = paired_t_test(*values.mean(axis=1).T, "two-sided")
    np.testing.assert_allclose([effects["model"].f, effects["model"].p], [t.t**2, t.p], rtol=1e-8)
    assert len(stimulus_anova(values).rows) == 3


def test_steady_states_paths_and_entropy_are_the_toolboxes(golden):
    first, second = models(golden, 0)
    np.testing.assert_allclose(describe_hmm(first).steady_state, golden["ss1"], **CLOSE)
    np.testing.assert_allclose(describe_hmm(second).steady_state, golden["ss2"], **CLOSE)
    found = likeliest_paths(first, 3, 27)
    np.testing.assert_allclose([p for _, p in found], golden["seq_p"], **CLOSE)
    rank = {tuple(path): p for path, p in zip(golden["seq"].tolist(), golden["seq_p"], strict=True)}
    assert all(abs(rank[path] - p) < 1e-12 for path, p in found)


def test_viterbi_paths_are_the_toolboxes(golden):
    sequences, _ = trials(golden, 0, [0])
    first = models(golden, 0)[0]
    np.testing.assert_array_equal(np.concatenate(first.decode(sequences)[1]), golden["viterbi_subject0"])
    ll = first.score_samples(sequences) / sequences.lengths
    np.testing.assert_allclose(-ll.mean(), golden["entropy1"], **CLOSE)


def test_bad_input_is_named():
    with pytest.raises(InputError, match="2 subjects says nothing"):
        paired_t_test([1.0, 2.0], [0.0, 0.5])
    with pytest.raises(InputError, match="all 3 values are equal"):
        paired_t_test([1.0, 2.0, 3.0], [0.0, 1.0, 2.0])
    with pytest.raises(InputError, match="two groups; groups has 3"):
        symmetric_kl_test([1.0, 2.0, 3.0], [0.0, 1.0, 2.5], [1, 2, 3])
    near = HMM([1.0], [[1.0]], [[0.0]], [[1.0]])
    with pytest.raises(ParameterError, match="b must be a different model"):
        ab_scale(subject_scores([near, near], [[0.0], [1.0]]), 1, 1)
    with pytest.raises(InputError, match="is impossible under model 0"):
        scores_of(H3M([near]), np.array([[-np.inf]]), Batch.of(Sequences([[0.0]]), None, None))
    with pytest.raises(InputError, match="subjects, stimuli, models"):
        stimulus_anova(np.zeros((3, 2)))
