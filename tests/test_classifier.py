"""H3MClassifier: truth on simulated classes, coherence with its parts, growth, scikit-learn's tools, bad input."""

import numpy as np
import pytest
from helpers import random_hmm
from scipy.special import logsumexp
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import vhem
from vhem import VHEM, H3MClassifier, Sequences
from vhem.em.aligned_start import aligned_start
from vhem.supervised.class_polish import with_shared_variances
from vhem.supervised.classifier import class_log_likelihoods


def simulated(n=12, n_classes=3, length=40, seed=0):
    """Return sequences of random HMMs, and the class of each as a letter."""
    rng = np.random.default_rng(seed)
    hmms = [random_hmm(rng, S=2, d=2, spread=1.5) for _ in range(n_classes)]
    sequences = [x for hmm in hmms for x in hmm.sample(n, length, rng)]
    return sequences, np.repeat(list("abcdef")[:n_classes], n)


@pytest.fixture(scope="module")
def data():
    return simulated()


@pytest.mark.parametrize("method", ["vhem", "em"])
@pytest.mark.parametrize("topology", ["ergodic", "left-right"])
def test_learns_classes(method, topology):
    X, y = simulated(24)
    fit = H3MClassifier(method, topology=topology, tau=20, n_init=1, random_state=0).fit(X[::2], y[::2])
    assert fit.classes_.tolist() == ["a", "b", "c"]
    assert [len(model) for model in fit.class_models_] == [2, 2, 2]
    assert fit.score(X[1::2], y[1::2]) > 0.9
    if topology == "left-right":
        assert all((model.transmat[:, 1, 0] == 0).all() for model in fit.class_models_)


def test_one_component_is_the_vhem_centre_of_the_class(data):
    X, y = data
    fit = H3MClassifier(n_components=1, tau=7, n_init=4, polish=0, random_state=3).fit(X, y)
    hmms = vhem.fit_hmms(X, 2, n_init=4, pooling=None, random_state=np.random.default_rng(3))
    for c, model in zip(fit.classes_, fit.class_models_, strict=True):
        centre = VHEM(1, tau=7, n_init=8, tol=1e-4, random_state=0).fit(hmms[y == c]).centers_
        np.testing.assert_allclose(model.score_samples(X), centre.score_samples(X), rtol=5e-3)


def test_probabilities_are_bayes_rule_by_hand(data):
    X, y = data
    fit = H3MClassifier(random_state=0).fit(X[:30], y[:30])  # 12, 12 and 6
    scores = np.column_stack([model.score_samples(X) for model in fit.class_models_])
    joint = scores + np.log([0.4, 0.4, 0.2])
    np.testing.assert_allclose(fit.predict_log_proba(X), joint - logsumexp(joint, axis=1, keepdims=True), atol=1e-9)
    per_frame = fit.set_params(likelihood="frame", priors=[1.0, 1.0, 2.0])
    joint = scores / 40 + np.log([0.25, 0.25, 0.5])
    np.testing.assert_allclose(per_frame.decision_function(X), joint, atol=1e-9)
    np.testing.assert_allclose(per_frame.predict_proba(X).sum(axis=1), 1.0)
    assert (fit.set_params(priors="uniform").predict(X) == fit.classes_[scores.argmax(axis=1)]).all()


def test_likelihoods_of_mixtures_of_different_sizes():
    rng = np.random.default_rng(2)
    models = [vhem.H3M([random_hmm(rng, S) for S in sizes]) for sizes in ([1], [3, 2, 2], [2, 4])]
    X = Sequences([rng.normal(size=(n, 2)) for n in (3, 9, 5)])
    expected = np.column_stack([model.score_samples(X) for model in models])
    np.testing.assert_allclose(class_log_likelihoods(models, X), expected, rtol=1e-12)


def test_more_data_of_old_classes_without_their_sequences(data):
    X, y = data
    old, new = np.arange(len(X)) % 4 == 0, np.arange(len(X)) % 4 > 0
    grown = H3MClassifier(random_state=0).fit([x for x, o in zip(X, old, strict=True) if o], y[old])
    before = grown.class_models_
    grown.partial_fit([x for x, n in zip(X, new, strict=True) if n], y[new])
    assert grown.class_counts_.tolist() == [12, 12, 12]
    assert grown.score(X, y) > 0.9
    assert all(not np.array_equal(a.means, b.means) for a, b in zip(before, grown.class_models_, strict=True))


def test_old_centres_weigh_as_much_as_what_they_stand_for():
    rng = np.random.default_rng(0)
    low, high = [rng.normal(size=(30, 1)) for _ in range(30)], [10 + rng.normal(size=(30, 1)) for _ in range(10)]
    grown = H3MClassifier(n_components=2, n_states=1, random_state=0).fit(low, ["x"] * 30)
    model = grown.partial_fit(high, ["x"] * 10).class_models_[0]
    by_mean = np.argsort(model.means.ravel())
    np.testing.assert_allclose(model.means.ravel()[by_mean], [0, 10], atol=0.3)
    np.testing.assert_allclose(model.weights[by_mean], [0.75, 0.25], atol=1e-6)


@pytest.mark.parametrize("method", ["vhem", "em"])
def test_new_classes_leave_the_old_ones_alone(data, method):
    X, y = data
    is_b = y == "b"
    rest, b = [x for x, here in zip(X, is_b, strict=True) if not here], [X[i] for i in np.flatnonzero(is_b)]
    grown = H3MClassifier(method, random_state=0).partial_fit(rest, y[~is_b])
    a, c = grown.class_models_
    grown.partial_fit(b, y[is_b])
    assert grown.classes_.tolist() == ["a", "b", "c"]
    assert grown.class_models_[0] is a
    assert grown.class_models_[2] is c
    assert grown.score(X, y) > 0.9


def test_scikit_learn_tools(data):
    X, y = data
    pipeline = make_pipeline(FunctionTransformer(lambda S: [x - 1.0 for x in S]), H3MClassifier(random_state=0))
    assert cross_val_score(pipeline, X, y, cv=3).mean() > 0.9
    search = GridSearchCV(H3MClassifier(random_state=0), {"n_components": [1, 2]}, cv=2).fit(Sequences(X), y)
    assert search.best_score_ > 0.9
    assert clone(H3MClassifier("em", tau=3)).get_params()["tau"] == 3


def test_one_seed_one_answer_whatever_the_threads(data):
    X, y = data
    one, two = (H3MClassifier(random_state=5, n_jobs=n).fit(X, y).decision_function(X) for n in (1, 2))
    np.testing.assert_array_equal(one, two)


def test_a_class_with_one_sequence_keeps_its_one_hmm():
    X, y = simulated(4)
    with pytest.warns(RuntimeWarning, match="1 of 2 classes has fewer sequences than n_components=2"):
        fit = H3MClassifier(random_state=0).fit(X[:5], y[:5])
    assert [len(model) for model in fit.class_models_] == [2, 1]
    assert fit.predict([X[4]]).tolist() == ["b"]
    with pytest.warns(RuntimeWarning, match="fewer sequences"):
        assert len(H3MClassifier("em", random_state=0).fit(X[:5], y[:5]).class_models_[1]) == 1


def test_missing_values_are_marginalised():
    X, y = simulated()
    X = [np.array(x) for x in X]
    for x in X:
        x[::7, 0] = np.nan
    assert H3MClassifier(random_state=0).fit(X, y).score(X, y) > 0.9
    X[4][:] = np.nan
    with pytest.raises(ValueError, match="sequence 4 has no values, only NaN"):
        H3MClassifier().fit(X, y)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"method": "svm"}, "method must be one of"),
        ({"n_components": 0}, "n_components must be an integer of at least 1"),
        ({"likelihood": "log"}, "likelihood must be one of"),
        ({"priors": [0.5, 0.5]}, "one probability per class"),
        ({"priors": "flat"}, "priors must be 'empirical', 'uniform' or one probability per class, got 'flat'"),
        ({"tau": 2.5}, "tau must be an integer"),
    ],
)
def test_bad_parameters(data, change, message):
    with pytest.raises(ValueError, match=message):
        H3MClassifier(**change).fit(*data)


def test_bad_labels(data):
    X, y = data
    with pytest.raises(ValueError, match=r"y has shape \(35,\) for 36 sequences"):
        H3MClassifier().fit(X, y[1:])
    with pytest.raises(ValueError, match="y has missing values"):
        H3MClassifier().fit(X[:2], ["a", None])
    with pytest.raises(ValueError, match="y has missing values"):
        H3MClassifier().fit(X[:2], [1.0, np.nan])
    fit = H3MClassifier("em", random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="class 'a' is already known, and method='em' cannot add to it"):
        fit.partial_fit(X[:3], y[:3])
    with pytest.raises(ValueError, match="y holds numbers, but the classes so far are text; give labels"):
        fit.partial_fit(X[:2], [1, 2])
    with pytest.raises(ValueError, match="X has 1 dimension, but earlier sequences had 2"):
        fit.partial_fit([np.zeros(5), np.ones(5)], ["d", "d"])
    with pytest.raises(ValueError, match="priors is an array, which cannot grow"):
        fit.set_params(priors=[1, 1, 1]).partial_fit(X[:2], ["d", "d"])


def test_aligned_start_averages_state_by_state():
    rng = np.random.default_rng(0)
    X = [np.repeat([0.0, m, 2 * m], 10)[:, None] + 0.1 * rng.normal(size=(30, 1)) for m in [5.0] * 4 + [-5.0] * 4]
    hmms = vhem.fit_hmms(X, 3, topology="left-right", covariance_type="full", random_state=0)
    start = aligned_start(hmms, 2, random_state=0)
    members = hmms[:4] if start.means[0, 1, 0, 0] > 0 else hmms[4:]
    np.testing.assert_allclose(start.means[0], members.means.mean(axis=0))
    spread = members.covars.mean(axis=0)[:, 0, 0, 0] + members.means.var(axis=0)[:, 0, 0]
    np.testing.assert_allclose(start.covars[0, :, 0, 0, 0], spread)
    assert ((start.transmat > 0) == (hmms.transmat[0] > 0)).all()
    fit = VHEM(2, tau=30, init=start).fit(hmms)
    assert len(set(fit.labels_[:4])) == len(set(fit.labels_[4:])) == 1
    assert fit.labels_[0] != fit.labels_[4]


@pytest.mark.parametrize("kinds", [str, int])
def test_saved_classifiers_say_the_same_and_grow_on(data, kinds, tmp_path):
    X, y = data
    labels = y if kinds is str else np.unique(y, return_inverse=True)[1] * 10
    fit = H3MClassifier(random_state=0, priors="uniform").fit(X, labels)
    fit.save(tmp_path / "letters.vhem")
    again = vhem.load(tmp_path / "letters.vhem")
    np.testing.assert_array_equal(again.decision_function(X), fit.decision_function(X))
    assert again.predict(X).tolist() == fit.predict(X).tolist()
    assert again.get_params() == fit.get_params()
    again.partial_fit(X[:3], labels[:3])
    assert again.class_counts_.sum() == 39


def test_polished_classes_know_their_sequences_better(data):
    X, y = data
    raw, polished = (H3MClassifier(polish=n, random_state=0).fit(X, y) for n in (0, 5))
    for c, before, after in zip(raw.classes_, raw.class_models_, polished.class_models_, strict=True):
        own = [X[i] for i in np.flatnonzero(y == c)]
        assert after.score_samples(own).mean() > before.score_samples(own).mean()
    again = H3MClassifier(random_state=0).fit(X, y)
    np.testing.assert_array_equal(again.decision_function(X), polished.decision_function(X))


def _states(variances, mean=0.0):
    """Return a mixture of one HMM whose states have these variances."""
    n = len(variances)
    uniform = np.full(n, 1 / n)
    return vhem.H3M([vhem.HMM(uniform, np.tile(uniform, (n, 1)), np.full((n, 1), mean), np.reshape(variances, (n, 1)))])


def test_classes_share_what_is_common_to_their_variances():
    rng = np.random.default_rng(0)
    noisy = [2.0 * rng.chisquare(9, 50) / 9 for _ in range(4)]  # one true variance, seen in ten sequences
    shared = with_shared_variances([_states(v) for v in noisy], np.full(4, 10.0))
    before, after = np.concatenate(noisy), np.concatenate([m.covars.ravel() for m in shared])
    assert after.std() < 0.3 * before.std()
    np.testing.assert_allclose(after.mean(), before.mean(), rtol=0.05)
    different = [np.exp(rng.normal(0, 3, 50)) for _ in range(4)]
    kept = with_shared_variances([_states(v) for v in different], np.full(4, 10.0))
    large = different[0] > 1
    assert (np.abs(np.log(kept[0].covars.ravel() / different[0]))[large] < 1).mean() > 0.9


def test_variances_that_tell_classes_apart_are_not_shared():
    rng = np.random.default_rng(2)
    spreads = np.repeat([0.1, 0.3, 1.0, 3.0], 6)
    X, y = [spread * rng.normal(size=(30, 1)) for spread in spreads], np.repeat(list("abcd"), 6)
    fit = H3MClassifier(random_state=0).fit(X, y)
    found = [np.sqrt(np.average(m.covars.mean(axis=(1, 2, 3)), weights=m.weights)) for m in fit.class_models_]
    np.testing.assert_allclose(found, [0.1, 0.3, 1.0, 3.0], rtol=0.4)


def test_few_states_share_nothing():
    two = [_states([1.0, 2.0]), _states([3.0, 4.0])]
    assert all(a is b for a, b in zip(two, with_shared_variances(two, np.array([9.0, 9.0])), strict=True))


def test_a_class_added_later_shares_with_those_there(data):
    X, y = data
    some = y != "c"
    fit = H3MClassifier(n_states=3, random_state=0).fit([X[i] for i in np.flatnonzero(some)], y[some])
    before = [model.covars.copy() for model in fit.class_models_]
    fit.partial_fit([X[i] for i in np.flatnonzero(~some)], y[~some])
    for old, now in zip(before, fit.class_models_, strict=False):
        np.testing.assert_array_equal(old, now.covars)


def test_classes_of_categories():
    rng = np.random.default_rng(1)
    calm, wild = (np.array(row) for row in ([0.8, 0.1, 0.1], [0.2, 0.2, 0.6]))
    X = [rng.choice(3, size=(30, 1), p=p).astype(float) for p in [calm] * 8 + [wild] * 8]
    fit = H3MClassifier(emissions="categorical", n_states=2, random_state=0).fit(X, ["calm"] * 8 + ["wild"] * 8)
    assert fit.score(X, ["calm"] * 8 + ["wild"] * 8) == 1.0
