"""Metrics against examples worked by hand, and against definitions written out."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.metrics import precision_recall_fscore_support

from vhem.metrics import (
    annotation_scores,
    best_attainable_rand,
    best_tags,
    precision_at_k,
    purity,
    retrieval_scores,
)

TRUTH = np.array([[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 0, 0], [0, 1, 1, 0]])
SCORES = np.array([[0.5, 0.3, 0.1, 0.1], [0.1, 0.6, 0.2, 0.1], [0.6, 0.2, 0.1, 0.1], [0.1, 0.2, 0.1, 0.6]])
# One tag each: tag 0 goes to songs 0 and 2, tag 1 to song 1, tag 3 to song 3, tag 2 to none.


def test_annotation_by_hand():
    found = annotation_scores(TRUTH, SCORES, 1, training_share=[0.4, 0.3, 0.2, 0.1])
    np.testing.assert_allclose(found.precision, [1 / 2, 1, 0.2, np.nan])  # the third is never given: its share
    np.testing.assert_allclose(found.recall, [1 / 2, 1 / 3, 0, np.nan])  # no song has the fourth
    np.testing.assert_allclose(found.f, [1 / 2, 1 / 2, 0, np.nan])
    means = found.means()
    assert means["precision"] == pytest.approx(1.7 / 3)
    assert means["f"] == pytest.approx(1 / 3)  # the mean of the tags' F, not 2PR / (P + R) of the means
    assert annotation_scores(TRUTH, SCORES, 1).precision[2] == 0


def test_a_tag_never_right_has_f_zero():
    found = annotation_scores([[1, 0], [1, 0], [0, 1]], [[0.1, 0.9]] * 2 + [[0.9, 0.1]], 1, [0.6, 0.4])
    assert found.precision.tolist() == found.recall.tolist() == found.f.tolist() == [0, 0]


def test_retrieval_by_hand():
    # Ranking of the songs by column 0: 2, 0, then 1 and 3 as equals. Relevant are 0 (second) and 1 (in the tie).
    found = retrieval_scores(TRUTH, SCORES, k=2)
    assert found.average_precision[0] == pytest.approx(0.5 * 1 / 2 + 0.5 * 2 / 4)
    assert found.auc[0] == pytest.approx((1 + 0.5) / 4 + 0.0)
    assert found.precision_at_k[:3].tolist() == [0.5, 0.5, 0.0]
    assert np.isnan([found.average_precision[3], found.auc[3], found.precision_at_k[3]]).all()
    assert set(found.means()) == {"average_precision", "auc", "precision_at_k"}


def test_precision_at_k_looks_at_all_where_there_are_fewer():
    assert precision_at_k([True, False, True], [0.3, 0.2, 0.1], k=10) == pytest.approx(2 / 3)
    assert precision_at_k([False, True], [0.5, 0.5], k=1) == 0.0


def test_no_tag_with_songs_has_no_mean():
    assert np.isnan(retrieval_scores([[0], [0]], [[0.1], [0.2]]).means()["auc"])


@settings(max_examples=50)
@given(arrays(bool, (7, 4)), arrays(float, (7, 4), elements=st.integers(0, 9).map(float)), st.integers(1, 4))
def test_annotation_agrees_with_scikit_learn_where_both_are_defined(truth, scores, n_tags):
    found = annotation_scores(truth, scores, n_tags, np.full(4, 0.5))
    given_tags = np.zeros_like(truth)
    np.put_along_axis(given_tags, best_tags(scores, n_tags), True, axis=1)
    assert (given_tags.sum(axis=1) == n_tags).all()
    precision, recall, f, _ = precision_recall_fscore_support(truth, given_tags, zero_division=0)
    some, given_at_all = truth.any(axis=0), given_tags.any(axis=0)
    np.testing.assert_allclose(found.recall[some], recall[some])
    np.testing.assert_allclose(found.precision[some & given_at_all], precision[some & given_at_all])
    np.testing.assert_allclose(found.precision[some & ~given_at_all], 0.5)
    np.testing.assert_allclose(found.f[some & given_at_all], f[some & given_at_all])
    assert np.isnan(found.f[~some]).all()


@settings(max_examples=50)
@given(arrays(bool, (8, 3)), arrays(float, (8, 3), elements=st.integers(0, 99).map(float), unique=True))
def test_retrieval_agrees_with_the_definitions(truth, scores):
    found = retrieval_scores(truth, scores, k=3)
    for tag in range(3):
        ranked = truth[np.argsort(-scores[:, tag]), tag]
        n = ranked.sum()
        if n in (0, len(ranked)):
            assert np.isnan(found.auc[tag])
            continue
        at_hits = [ranked[: i + 1].mean() for i in np.flatnonzero(ranked)]
        pairs_right = sum((~ranked[i + 1 :]).sum() for i in np.flatnonzero(ranked))
        assert found.average_precision[tag] == pytest.approx(np.mean(at_hits))
        assert found.auc[tag] == pytest.approx(pairs_right / (n * (len(ranked) - n)))
        assert found.precision_at_k[tag] == pytest.approx(ranked[:3].mean())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: annotation_scores(TRUTH, SCORES[:3], 1), "truth has shape .* but scores"),
        (lambda: annotation_scores(TRUTH, SCORES, 5), "n_tags must be between 1 and 4"),
        (lambda: annotation_scores(TRUTH, SCORES, 1, [0.1]), "training_share has shape"),
        (lambda: annotation_scores(TRUTH * 0.5, SCORES, 1), "truth must be 0 or 1"),
        (lambda: retrieval_scores(TRUTH, np.where(SCORES > 0.5, np.nan, SCORES)), "scores is NaN for song 1, tag 1"),
        (lambda: retrieval_scores(TRUTH[0], SCORES[0]), r"must be \(songs, tags\)"),
        (lambda: precision_at_k([True], [0.1], 0), "k must be at least 1"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_purity_by_hand():
    assert purity(["a", "a", "b", "c"], [0, 0, 1, 1]) == 0.75
    assert purity([0, 0, 1], [5, 5, 7]) == 1.0


def test_attainable_rand_by_hand():
    balanced = np.repeat(np.arange(8), 7)
    assert best_attainable_rand(balanced, 8) == 1.0
    assert best_attainable_rand(balanced, 4) == pytest.approx(0.873, abs=5e-4)
    assert best_attainable_rand(balanced, 2) == pytest.approx(0.618, abs=5e-4)
