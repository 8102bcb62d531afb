"""Models remember the names of categories, sequences are matched by name, and case weights count."""

from __future__ import annotations

import numpy as np
import pytest

import vhem
from vhem import Sequences


def clicks(n=24, seed=0, weights=None):
    """Two kinds of users: half of them mostly search, the others mostly pay."""
    rng = np.random.default_rng(seed)
    pages = np.array(["cart", "paid", "search"])
    shares = [[0.2, 0.1, 0.7], [0.3, 0.6, 0.1]]
    rows = [pages[rng.choice(3, 15, p=shares[i % 2])] for i in range(n)]
    return Sequences(rows, channels=["page"], categories=True, weights=weights)


@pytest.fixture(scope="module")
def hmms():
    return vhem.fit_hmms(clicks(), n_states=1, n_init=1, random_state=0)


def test_categories_are_learned_without_being_told_and_remembered(hmms, tmp_path):
    assert hmms.emissions.family == "categorical"
    assert hmms.categories == {"page": ("cart", "paid", "search")}
    hmms.save(tmp_path / "hmms.vhem")
    hmms[0].save(tmp_path / "hmm.vhem")
    found = vhem.load(tmp_path / "hmms.vhem")
    assert found == hmms
    assert vhem.load(tmp_path / "hmm.vhem") == hmms[0]
    ways = (
        found,
        hmms[2:5],
        hmms[0],
        hmms.with_ids(range(24)),
        hmms.with_weights(None),
        vhem.H3M.pool([hmms, hmms[0]]),
    )
    for model in (*ways, vhem.H3M([hmms[0], hmms[1]])):
        assert model.categories == hmms.categories
        assert model.channels == ["page"]


def test_names_go_through_every_estimator(hmms):
    sequences = clicks()
    fits = [
        vhem.VHEM(2, tau=5, random_state=0).fit(hmms).centers_,
        vhem.HierarchicalVHEM([4, 2], tau=5, random_state=0).fit(hmms).levels_[-1],
        vhem.SampledHEM(2, random_state=0).fit(hmms).centers_,
        vhem.MixtureOfHMMs(2, n_states=1, n_init=1, random_state=0).fit(sequences).model_,
        vhem.SequenceClustering(2, n_states=1, random_state=0).fit(sequences).centers_,
    ]
    for centers in fits:
        assert centers.categories == hmms.categories
    labels = np.argmax(fits[-1].emissions.probabilities[:, 0, 0, 0, 1])  # the cluster of those who pay
    assert (fits[-1].predict(sequences) == labels).tolist() == [i % 2 == 1 for i in range(24)]


def test_samples_have_names(hmms):
    sampled, _ = hmms.sample(2, 4, random_state=0)
    assert sampled.categories == hmms.categories
    assert {name for row in sampled.decoded(0) for name in row} <= {"cart", "paid", "search"}
    assert hmms[0].sample(1, 3).categories == hmms.categories


def test_sequences_are_matched_by_name(hmms):
    other = Sequences([["search", "cart", "cart"]], categories={0: ["search", "cart"]})
    codes = Sequences([[2.0, 0.0, 0.0]])
    assert hmms.log_likelihoods(other) == pytest.approx(hmms.log_likelihoods(codes), abs=0)


def test_unseen_categories_are_an_error_that_names_them(hmms):
    new = Sequences([["search", "help", "login"]], channels=["page"], categories=True)
    message = (
        "the sequences have 'help', 'login' in channel 'page', which the model has not seen: it knows 'cart', 'paid'"
    )
    for use in (hmms.score, hmms.predict, hmms[0].decode):
        with pytest.raises(ValueError, match=message):
            use(new)
    known = new.with_categories(hmms.categories, other="cart")
    assert np.isfinite(hmms.score(known))


def test_a_category_that_is_known_but_never_occurs_is_no_error(hmms):
    few = Sequences([["search", "cart"]], categories={0: ["search", "help", "cart"]})
    assert np.isfinite(hmms.score(few))


def test_hmms_that_know_different_categories_are_not_pooled(hmms):
    other = hmms[0].with_categories({"page": ["a", "b", "c"]})
    with pytest.raises(ValueError, match="know different categories in channel 'page'"):
        vhem.H3M([hmms[0], other])


def test_case_weights_count_as_repeats():
    """A sequence of weight 3 is three sequences, for a mixture and for clusters of sequences alike."""
    weights = np.where(np.arange(24) % 3 == 0, 3.0, 1.0)
    weighted = clicks(weights=weights)
    repeated = clicks()[np.repeat(np.arange(24), weights.astype(int))]
    start = vhem.MixtureOfHMMs(2, n_states=1, n_init=1, random_state=0).fit(clicks()).model_
    options = {
        "n_states": 1,
        "init": start,
        "max_iter": 20,
        "startprob_prior": 0,
        "transmat_prior": 0,
        "covars_prior": 0,
    }
    one, many = (vhem.MixtureOfHMMs(2, **options).fit(data).model_ for data in (weighted, repeated))
    assert one.weights == pytest.approx(many.weights, abs=1e-3)
    assert one.emissions.probabilities == pytest.approx(many.emissions.probabilities, abs=1e-2)


def test_case_weights_become_the_weights_of_hmms_and_clusters():
    weights = np.where(np.arange(24) % 2 == 0, 3.0, 1.0)
    hmms = vhem.fit_hmms(clicks(weights=weights), 1, n_init=1, random_state=0)
    assert hmms.weights == pytest.approx(weights / weights.sum())
    fit = vhem.SequenceClustering(2, n_states=1, random_state=0).fit(clicks(weights=weights))
    assert sorted(fit.centers_.weights) == pytest.approx([0.25, 0.75], abs=0.02)
    assert sorted(
        vhem.SequenceClustering(2, n_states=1, random_state=0).fit(clicks()).centers_.weights
    ) == pytest.approx([0.5, 0.5], abs=0.02)


def test_a_case_without_weight_is_assigned_but_does_not_count():
    weights = np.ones(24)
    weights[:4] = 0
    hmms = vhem.fit_hmms(clicks(weights=weights), 1, n_init=1, random_state=0)
    assert hmms.weights[:4].tolist() == [0] * 4
    fit = vhem.SequenceClustering(2, n_states=1, random_state=0).fit(clicks(weights=weights))
    assert len(fit.labels_) == 24
    assert fit.centers_.weights == pytest.approx([0.5, 0.5], abs=0.02)


def test_mixed_channels_are_products_that_remember_names():
    mixed = Sequences([[["a", 1.0], ["b", 2.0], ["a", 1.5]]] * 2, channels=["key", "force"], categories=["key"])
    hmms = vhem.fit_hmms(mixed, 1, n_init=1, max_iter=3, random_state=0)
    assert hmms.emissions.family == "product"
    assert hmms.categories == {"key": ("a", "b")}
    assert hmms.channels == ["key", "force"]
