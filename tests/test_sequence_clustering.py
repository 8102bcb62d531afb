"""SequenceClustering: planted clusters, items with several sequences, and the model of items that vary."""

import numpy as np
import pytest
from helpers import random_hmm
from scipy.special import gammaln, logsumexp
from scipy.stats import gamma, norm
from sklearn.metrics import adjusted_rand_score

import vhem
from vhem import H3M, HMM, SequenceClustering
from vhem.em import random_effects
from vhem.em.grouped import Batch, Scale
from vhem.em.loop import Limits, run
from vhem.em.random_effects import VaryingItems
from vhem.em.random_effects_full import FullVaryingItems
from vhem.em.ward import divergences
from vhem.sequences import as_sequences


def study(seed=0, n=24, trials=3, K=3, wobble=0.4):
    """People of K kinds, a few trials each; people of one kind differ a little."""
    rng = np.random.default_rng(seed)
    kinds = [random_hmm(rng, 3, 1, 2, spread=3.0) for _ in range(K)]
    truth = np.arange(n) % K
    ys, people = [], []
    for i, k in enumerate(truth):
        kind = kinds[k]
        own = HMM(kind.startprob, kind.transmat, kind.means + wobble * rng.normal(size=kind.means.shape), kind.covars)
        for _ in range(trials):
            ys.append(own.sample(1, int(rng.integers(12, 25)), random_state=rng)[0])
            people.append(f"p{i}")
    return ys, people, truth


@pytest.mark.parametrize("covariance_type", ["diag", "full"])
def test_people_who_differ_are_still_of_their_kind(covariance_type):
    ys, people, truth = study()
    fit = SequenceClustering(3, 3, covariance_type=covariance_type, random_state=0).fit(ys, groups=people)
    assert adjusted_rand_score(truth, fit.labels_) == 1.0
    assert fit.ids_ == [f"p{i}" for i in range(24)]
    np.testing.assert_allclose(fit.responsibilities_.sum(axis=1), 1.0)
    np.testing.assert_array_equal(fit.labels_, fit.predict(ys, groups=people))
    assert set(fit.stages_) == {"hmms", "em", "final"}
    assert fit.centers_.weights[0] >= fit.centers_.weights[-1]


def test_one_seed_one_answer_whatever_the_threads(tmp_path):
    ys, people, _ = study(1)
    fits = [SequenceClustering(3, 3, random_state=0, n_jobs=n).fit(ys, groups=people) for n in (1, 2)]
    assert fits[0].centers_ == fits[1].centers_
    fits[0].save(tmp_path / "fit.vhem")
    again = vhem.load(tmp_path / "fit.vhem")
    assert again.centers_ == fits[0].centers_
    np.testing.assert_array_equal(again.predict(ys, people), fits[0].labels_)


def test_left_right_sequences_and_gaps():
    rng = np.random.default_rng(4)
    courses = np.array([[0.0, 4.0, 8.0], [8.0, 4.0, 0.0]])
    ys = [np.repeat(courses[i % 2], rng.integers(5, 9, 3))[:, None] for i in range(20)]
    ys = [y + rng.normal(size=y.shape) for y in ys]
    ys[3][4] = np.nan
    fit = SequenceClustering(2, 3, topology="left-right", random_state=0).fit(ys)
    assert adjusted_rand_score(np.arange(20) % 2, fit.labels_) == 1.0
    assert not np.tril(fit.centers_.transmat, -1).any()


def test_large_collections_are_sampled(monkeypatch):
    module = "vhem.estimators.sequence_clustering"
    monkeypatch.setattr(f"{module}.most_comparable", lambda *_: 6)
    monkeypatch.setattr(f"{module}._PER_CLUSTER", 4)
    compared = []
    monkeypatch.setattr(
        f"{module}.divergences", lambda models, *a: compared.append(len(models)) or divergences(models, *a)
    )
    ys, people, truth = study(2)
    fit = SequenceClustering(3, 3, random_state=0).fit(ys, groups=people)
    assert adjusted_rand_score(truth, fit.labels_) == 1.0
    assert set(compared) == {12}  # four for each cluster, where six would have been few enough
    monkeypatch.setattr(f"{module}._MOST_COMPARED", 9)
    SequenceClustering(3, 3, random_state=0).fit(ys, groups=people)
    assert compared[-1] == 9


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_clusters": 0}, "n_clusters must be an integer of at least 1"),
        ({"n_clusters": 5}, "n_clusters asks for 5, but there are only 4 items"),
        ({"topology": "round"}, "topology must be one of"),
    ],
)
def test_bad_parameters(arguments, message):
    with pytest.raises(ValueError, match=message):
        SequenceClustering(**{"n_clusters": 2, **arguments}).fit(np.zeros((4, 5, 1)))


def varying(seed=0, full=False):
    ys, people, truth = study(seed, n=9, trials=2)
    batch = Batch.of(as_sequences(ys), people, None)
    floor = 1e-3 * Scale.of(batch._replace(groups=np.zeros_like(batch.groups), ids=[0])).variance[0]
    problem = (FullVaryingItems if full else VaryingItems)(batch=batch, floor=floor)
    kind = "full" if full else "diag"
    models = vhem.fit_hmms(
        ys, 3, covariance_type=kind, groups=[truth[int(p[1:])] for p in people], random_state=0
    ).parameters
    return problem, problem.begin(models, np.full(3, 1 / 3))


@pytest.mark.parametrize("full", [False, True])
def test_what_varying_items_maximise_hardly_ever_falls(full):
    problem, start = varying(full=full)
    bounds = np.array(run(problem, start, Limits(max_iter=25, tol=0)).bounds)
    assert bounds[-1] > bounds[0]
    assert np.diff(bounds).min() > -1e-3 * np.abs(bounds[0])


def test_the_bound_is_below_the_likelihood():
    """F_ij ≤ log p(sequences of i | cluster j), the latter by importance sampling from the posterior itself."""
    problem, start = varying(3)
    c, q, matches = run(problem, start, Limits(max_iter=6, tol=0)).state
    own = c.of(matches.cluster)
    F = problem._sums(own, q, matches).score - problem.divergence(own, q)
    rng, n = np.random.default_rng(0), 400
    i, j = matches.item[0], matches.cluster[0]
    offsets = problem.batch.offsets
    sequences = [problem.batch.X[offsets[m] : offsets[m + 1]] for m in np.flatnonzero(problem.batch.groups == i)]
    weights = []
    for _ in range(n):
        drawn, log_ratio = _draw(c, q.take([0]), j, rng)
        hmm = H3M.from_arrays(c.startprob[j][None], drawn[2][None], drawn[0][None], 1 / drawn[1][None])
        weights.append(hmm[0].score_samples(sequences).sum() + log_ratio)
    evidence = logsumexp(weights) - np.log(n)
    assert F[0] <= evidence + 0.5
    assert evidence - F[0] < 15.0


def _draw(c, q, j, rng):
    """Draw means, precisions and transitions from q_ij, and return log prior - log q of them."""
    b = rng.normal(q.mean[0], np.sqrt(q.variance[0]))
    shape = np.broadcast_to(q.shape[0], b.shape)
    lam = rng.gamma(shape, 1 / q.rate[0])
    A = np.maximum(np.stack([rng.dirichlet(row) for row in q.alpha[0]]), 1e-200)
    A /= A.sum(axis=1, keepdims=True)
    prior = norm.logpdf(b, 0, np.sqrt(c.spread[j])).sum() + log_dirichlet(A, c.loyalty * c.transmat[j])
    prior += gamma.logpdf(lam, c.alike / 2, scale=2 / (c.alike * c.variances[j])).sum()
    own = norm.logpdf(b, q.mean[0], np.sqrt(q.variance[0])).sum() + log_dirichlet(A, q.alpha[0])
    own += gamma.logpdf(lam, shape, scale=1 / q.rate[0]).sum()
    return (c.means[j] + b, lam, A), prior - own


def log_dirichlet(rows, alpha):
    return (gammaln(alpha.sum(1)) - gammaln(alpha).sum(1) + ((alpha - 1) * np.log(rows)).sum(1)).sum()


def test_without_data_nothing_is_known_beyond_the_prior():
    for full in (False, True):
        problem, start = varying(full=full)
        q = problem.of_prior(start.centers)
        np.testing.assert_allclose(problem.divergence(start.centers, q), 0.0, atol=1e-8)


@pytest.mark.parametrize("full", [False, True])
def test_clusters_that_are_forgotten_do_not_matter(full, monkeypatch):
    problem, start = varying(full=full)
    few = run(problem, start, Limits(max_iter=8, tol=0))
    monkeypatch.setattr(random_effects, "_HOPELESS", np.inf)
    everything = run(problem, start, Limits(max_iter=8, tol=0))
    n, K = everything.expected.responsibilities.shape
    assert 2 * n <= len(few.state.matches.item) < len(everything.state.matches.item) == n * K
    np.testing.assert_allclose(few.bounds, everything.bounds, rtol=1e-9)
    np.testing.assert_allclose(few.expected.responsibilities, everything.expected.responsibilities, atol=1e-9)


@pytest.mark.parametrize("full", [False, True])
def test_a_cluster_that_no_item_may_belong_to(full):
    problem, start = varying(full=full)
    far = start.centers.means.copy()
    far[2] += 1e4
    done = run(problem, start._replace(centers=start.centers._replace(means=far)), Limits(max_iter=4, tol=0))
    assert np.isfinite(done.bounds).all()
    assert 2 not in done.state.matches.cluster
    assert all(np.isfinite(array).all() for array in done.state.centers[:6])


def test_full_covariances_without_correlations_say_nearly_the_same():
    """The two forms of the model differ in their priors of the precisions, not in what they are about."""
    labels = []
    for full in (False, True):
        problem, start = varying(5, full)
        labels.append(run(problem, start, Limits(max_iter=10)).expected.responsibilities.argmax(axis=1))
    assert adjusted_rand_score(*labels) == 1.0


def test_a_report_needs_nothing_but_the_fit(tmp_path):
    ys, people, _ = study(1)
    fit = SequenceClustering(3, 3, random_state=0).fit(ys, groups=people)
    vhem.report.write(tmp_path / "report.html", fit, sequences=ys, groups=people)
    assert "SequenceClustering" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_sequences_of_categories_start_where_likelihoods_say_so_too():
    """Short life courses: HMMs of one sequence each are too little for Ward's tree, as a likelihood far below shows."""
    rng = np.random.default_rng(0)
    stable = HMM([1, 0, 0], [[0.8, 0.2, 0], [0, 0.97, 0.03], [0, 0.4, 0.6]], emissions=vhem.Categorical(np.eye(3)))
    unsure = HMM([1, 0, 0], [[0.8, 0.1, 0.1], [0, 0.8, 0.2], [0, 0.1, 0.9]], emissions=vhem.Categorical(np.eye(3)))
    courses = [kind.sample(1, 36, random_state=rng)[0] for kind in (stable, unsure) for _ in range(30)]
    fit = SequenceClustering(2, 3, emissions="categorical", random_state=0).fit(courses)
    assert set(fit.candidates_) == {"plain", "damped", "smyth", "kmeans"}
    assert fit.lower_bound_ >= max(fit.candidates_.values())
    assert adjusted_rand_score(np.repeat([0, 1], 30), fit.labels_) > 0.5


def test_the_number_of_states_is_chosen():
    ys, people, truth = study()
    fit = SequenceClustering(3, "auto", random_state=0).fit(ys, groups=people)
    assert adjusted_rand_score(truth, fit.labels_) == 1.0
    assert fit.n_states_ == max(fit.states_scores_, key=fit.states_scores_.get) == fit.centers_.n_states.max()
    assert fit.n_states_ == SequenceClustering(3, "auto", random_state=0).choose_states(ys, people)
    assert fit.states_scores_[fit.n_states_] > fit.states_scores_[1]


def test_sequences_that_take_one_course_get_left_right_hmms():
    rng = np.random.default_rng(0)
    courses = ([0, 3, 1, 4], [0, 3, 4, 1])
    ys = [np.repeat(courses[i % 2], rng.geometric(0.2, 4))[:, None] for i in range(40)]
    ys = [y + 0.5 * rng.normal(size=y.shape) for y in ys]
    fit = SequenceClustering(2, "auto", random_state=0).fit(ys)
    assert fit.topology_ == "left-right"
    assert not np.tril(fit.centers_.transmat, -1).any()
    assert adjusted_rand_score(np.arange(40) % 2, fit.labels_) > 0.8
    asked = SequenceClustering(2, fit.n_states_, topology="left-right", random_state=0).fit(ys)
    np.testing.assert_array_equal(asked.responsibilities_, fit.responsibilities_)
    assert SequenceClustering(2, 4, random_state=0).fit(ys).topology_ == "ergodic"
    assert SequenceClustering(2, "auto", topology="ergodic", random_state=0).choose_shape(ys).topology == "ergodic"


def test_short_sequences_rule_out_many_states():
    ys = [np.random.default_rng(i).normal(size=(3, 1)) + 5 * (i % 2) for i in range(12)]
    fit = SequenceClustering(2, "auto", random_state=0).fit(ys)
    assert max(fit.states_scores_) <= 3


def test_given_hmms_say_how_many_states():
    ys, people, _ = study()
    hmms = vhem.fit_hmms(ys, 2, groups=people, random_state=0)
    fit = SequenceClustering(3, "auto", random_state=0).fit(ys, groups=people, hmms=hmms)
    assert fit.n_states_ == 2
    assert fit.states_scores_ == {}


def test_other_words_for_states_are_refused():
    with pytest.raises(ValueError, match="n_states"):
        SequenceClustering(2, "many").fit([np.zeros((5, 1)) + i for i in range(4)])


def test_channels_that_say_nothing_are_named():
    rng = np.random.default_rng(0)
    ys = [np.c_[rng.normal(size=20) + 3 * (i % 2), np.full(20, np.nan), np.ones(20)] for i in range(12)]
    with pytest.warns(vhem.FitWarning) as said:
        fit = SequenceClustering(2, 2, random_state=0).fit(ys)
    assert ["dimensions [1] are missing everywhere" in str(w.message) for w in said].count(True) == 1
    assert ["values of 'x3' never change" in str(w.message) for w in said].count(True) == 1
    with pytest.warns(vhem.FitWarning, match="missing everywhere"):
        vhem.MixtureOfHMMs(2, 2, tol=1e-2, random_state=0).fit([y[:, :2] for y in ys])
    with pytest.raises(ValueError, match="the sequences have 2 channels, but those that were clustered had 3"):
        fit.predict([y[:, :2] for y in ys])


def test_clusters_that_the_likelihood_would_empty_are_kept():
    """Half of the people change early, half late: one HMM explains both, but two clusters were asked for."""
    rows = [np.array(["school"] * (2 + 4 * (k % 2)) + ["work"] * (6 - 4 * (k % 2))) for k in range(16)]
    lives = vhem.Sequences(rows, channels=["life"], categories=True)
    with pytest.warns(vhem.FitWarning, match="1 cluster would have no items, so the clusters of the HMMs are kept"):
        fit = SequenceClustering(2, 2, random_state=0).fit(lives)
    assert adjusted_rand_score(np.arange(16) % 2, fit.labels_) == 1.0
    np.testing.assert_array_equal(fit.stages_["em"], fit.stages_["hmms"])
