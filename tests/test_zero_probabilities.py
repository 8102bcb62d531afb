"""Probabilities of zero: what they rule out, what keeps them from arising, and how they stay where they are meant."""

import numpy as np
import pytest
from helpers import use_engine
from scipy.optimize import minimize

import vhem
from vhem import H3M, HMM, VHEM, Categorical, MixtureOfHMMs, SampledHEM, SequenceClustering, fit_hmms
from vhem._support.errors import InputError
from vhem.inference import cross_fitted_test, subject_scores

NO_PRIORS = {"reg_covar": 0.0, "startprob_prior": 0.0, "transmat_prior": 0.0, "covars_prior": 0.0}


@pytest.fixture(params=[True, False], ids=["compiled", "reference"])
def engine(request, monkeypatch):
    if not request.param:
        use_engine(monkeypatch, "reference")


@pytest.fixture
def ending():
    """Category 2 is the end, which only the last state emits and from which nothing returns."""
    return HMM([1.0, 0.0], [[0.8, 0.2], [0.0, 1.0]], emissions=Categorical([[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]))


@pytest.fixture
def endless():
    return HMM([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]], emissions=Categorical([[0.5, 0.5, 0.0], [0.4, 0.6, 0.0]]))


@pytest.mark.usefixtures("engine")
def test_what_cannot_be_has_no_likelihood(ending, endless):
    sequences = [[0, 1, 2], [2, 1], [0, 2, 1], [0, 1]]
    assert np.isneginf(ending.score_samples(sequences)).tolist() == [False, True, True, False]
    assert np.isneginf(ending.decode(sequences)[0]).tolist() == [False, True, True, False]
    both = H3M([ending, endless], weights=[0.25, 0.75])
    assert np.isneginf(both.score_samples(sequences)).tolist() == [False, True, True, False]
    assert both.predict_proba(sequences)[:3].tolist() == [[1.0, 0.0], [0.25, 0.75], [0.25, 0.75]]
    assert np.isneginf(vhem.expected_log_likelihood(both, both, tau=3)).tolist() == [[False, True], [False, False]]
    assert np.isposinf(vhem.divergence(ending, endless)).all()


def test_scores_of_clusters_stay_probabilities_where_nothing_fits(ending, endless):
    fit = VHEM(1, reg_covar=0, tau=3).fit(H3M([endless, endless]))
    assert fit.predict_proba(ending).tolist() == [[1.0]]


def test_fits_say_which_zeros_rule_out_their_data(ending, endless):
    impossible = "impossible under the model to start from.*reg_covar"
    with pytest.raises(InputError, match=f"the likelihood of 'all'.*{impossible}"):
        fit_hmms([[0, 2, 1], [0, 1]], groups=["all"] * 2, init=ending, **NO_PRIORS)
    with pytest.raises(InputError, match=impossible):
        MixtureOfHMMs(2, init=H3M([ending, endless]), **NO_PRIORS).fit([[0, 2, 1], [0, 1]])
    with pytest.raises(InputError, match=impossible):
        VHEM(1, init=H3M([endless]), reg_covar=0).fit(H3M([ending, endless]))


def test_the_same_fits_succeed_by_default(ending, endless):
    assert np.isfinite(fit_hmms([[0, 2, 1], [0, 1]], groups=[0, 0], init=ending).score([[0, 1]]))
    assert np.isfinite(MixtureOfHMMs(2, init=H3M([ending, endless])).fit([[0, 2, 1], [0, 1]]).lower_bound_)
    assert np.isfinite(VHEM(1, init=H3M([endless])).fit(H3M([ending, endless])).lower_bound_)
    assert np.isfinite(SampledHEM(1, random_state=0).fit(H3M([ending, endless])).lower_bound_)


@pytest.mark.parametrize("family", [vhem.Bernoulli, lambda p: vhem.Gamma([[2.0], [9.0]], [[3.0], [3.0]], p)])
def test_events_and_zeros_are_not_ruled_out_either(family):
    one, other = ([[0.0], [0.5]], [[0.5], [0.0]])
    chain = ([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]])
    inputs = H3M([HMM(*chain, emissions=family(p)) for p in (one, one, other, other)])
    assert np.isfinite(VHEM(1, init=inputs[2:3]).fit(inputs).lower_bound_)
    assert np.isfinite(VHEM(1, init=inputs[2:3]).fit(inputs).transform(inputs)).all()


def test_inputs_that_lack_a_rare_category_still_belong_together():
    """Two kinds of HMM; one category is so rare that some of them have never seen it."""
    chain = ([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]])
    rare = [0.0, 0.001, 0.0, 0.002]
    ones = [HMM(*chain, emissions=Categorical([[0.8 - r, 0.2, r], [0.6, 0.4 - r, r]])) for r in rare]
    twos = [HMM(*chain, emissions=Categorical([[0.2, 0.8 - r, r], [0.4 - r, 0.6, r]])) for r in rare]
    labels = VHEM(2, random_state=0).fit(H3M(ones + twos)).labels_
    assert labels[0] != labels[4]
    assert labels.tolist() == [labels[0]] * 4 + [labels[4]] * 4


def test_zeros_stay_where_they_are_meant(ending, endless):
    """The paper's algorithm, nothing added: exact zeros of all members are exact zeros of their centre."""
    inputs = H3M([ending, ending, endless, endless])
    fit = VHEM(2, init=inputs[[0, 2]], max_iter=3, tol=0, reg_covar=0).fit(inputs)
    assert fit.centers_.emissions.probabilities[0, 0, 0, 0, 2] < 1e-280  # log 0 times nearly nothing
    assert fit.n_iter_ == 3
    raised = VHEM(2, init=inputs[[0, 2]], max_iter=3, tol=0).fit(inputs)
    assert 0 < raised.centers_.emissions.probabilities[0, 0, 0, 0, 2] < 1e-3
    assert raised.centers_.transmat[0, 1, 0] == 0


@pytest.mark.filterwarnings("ignore:Values in x were outside bounds:RuntimeWarning")  # SciPy 1.11's minimiser, by 1e-18
def test_a_floor_leaves_the_likeliest_probabilities_that_keep_it():
    rng = np.random.default_rng(0)
    counts = rng.gamma(0.3, 5.0, size=(6, 1, 1, 1, 5))
    like = Categorical(rng.dirichlet(np.ones(5), size=(6, 1, 1, 1)))
    prior = like.within_reach(6, 1.0)
    made = like.maximised({"count": counts.sum((3, 4)), "statistics": counts}, like, prior).components
    for k in range(6):
        low, c = prior.low["probabilities"][k, 0], counts[k, 0, 0, 0]
        one = {"type": "eq", "fun": lambda q: q.sum() - 1}
        best = minimize(lambda q, c=c: -c @ np.log(q), np.full(5, 0.2), bounds=[(x, 1) for x in low], constraints=one)
        assert made.probabilities[k, 0, 0, 0] == pytest.approx(best.x, abs=1e-3)
        assert c @ np.log(made.probabilities[k, 0, 0, 0]) >= -best.fun - 1e-9
        assert (made.probabilities[k, 0, 0, 0] >= low).all()


@pytest.fixture(scope="module")
def pages():
    """Two kinds of visitors over three pages, with names."""
    rng = np.random.default_rng(1)
    kinds = [
        HMM([0.5, 0.5], [[0.9, 0.1], [0.2, 0.8]], emissions=Categorical([[0.9, 0.1, 0.0], [0.2, 0.8, 0.0]])),
        HMM([0.5, 0.5], [[0.9, 0.1], [0.2, 0.8]], emissions=Categorical([[0.0, 0.1, 0.9], [0.0, 0.8, 0.2]])),
    ]
    rows = [kinds[i % 2].sample(1, 25, rng)[0][:, 0].astype(int) for i in range(30)]
    return vhem.Sequences([np.array(["cart", "item", "search"])[row] for row in rows], categories=True)


@pytest.mark.parametrize("estimator", [MixtureOfHMMs(2, 2, random_state=0), SequenceClustering(2, 2, random_state=0)])
def test_clusters_do_not_rule_out_what_they_have_not_seen(estimator, pages):
    fit = estimator.fit(pages)
    centers = getattr(fit, "model_", None) or fit.centers_
    assert min(centers.emissions.probabilities.min(), centers.transmat.min(), centers.startprob.min()) > 1e-6
    assert centers.score([["search", "cart", "search", "cart"]]) > -60


def test_gaussian_mixtures_add_nothing():
    rng = np.random.default_rng(0)
    ys = [rng.normal(np.repeat([5.0 * (i % 2), -9.0], 15), 1.0) for i in range(10)]
    plain = MixtureOfHMMs(2, 2, random_state=0).fit(ys)
    zero = {"startprob_prior": 0.0, "transmat_prior": 0.0, "covars_prior": 0.0}
    assert plain.lower_bound_ == MixtureOfHMMs(2, 2, random_state=0, **zero).fit(ys).lower_bound_


def test_people_who_took_no_part_are_scored_by_categories(pages):
    """Their codes must not be taken for numbers: log-probabilities are never positive, and nothing is absurd."""
    found = cross_fitted_test(SequenceClustering(2, 2, random_state=0), pages, n_folds=3, n_permutations=19)
    assert found.scores.max() < 0
    assert found.scores.min() > -15
    assert found.p <= 0.05


def test_scores_of_people_go_by_the_names_of_categories(pages):
    hmms = fit_hmms(pages, 2, groups=["all"] * len(pages), random_state=0)
    other = pages.with_categories({"x1": ["search", "item", "cart"]})
    assert subject_scores(hmms, other).per_frame == pytest.approx(subject_scores(hmms, pages).per_frame)
