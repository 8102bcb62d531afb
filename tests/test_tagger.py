"""H3MTagger and what it is made of: truth on simulated songs, coherence with its parts, shared songs, bad input."""

import numpy as np
import pytest
from helpers import random_hmm
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.model_selection import cross_val_score

import vhem
from vhem import H3M, H3MTagger, Sequences
from vhem._support.saving import kind_named
from vhem.estimators.grouped_mixtures import fit_mixtures
from vhem.metrics import annotation_scores, retrieval_scores
from vhem.supervised import Songs, tag_models
from vhem.supervised.fragments import cut_fragments

TAGS = np.array([[1, 0, 1], [1, 0, 0], [0, 1, 1], [0, 1, 0]])  # two tags that exclude one another, and a third
SMALL = {"n_components": 3, "song_components": 1, "n_states": 2, "fragment_length": 20, "random_state": 0}
# The systems' EM ends in few iterations here, which is enough to tell these songs apart.
SMALL_DTM = {**SMALL, "method": "dtm", "n_init": 1, "tol": 0.05}


def simulated(n=4, length=60, seed=0):
    """Return n songs of each of four kinds, and their tags."""
    rng = np.random.default_rng(seed)
    hmms = [random_hmm(rng, S=2, d=2, spread=3.0) for _ in range(4)]
    songs = [song for hmm in hmms for song in hmm.sample(n, length, rng)]
    return Sequences(songs), np.repeat(TAGS, n, axis=0)


@pytest.fixture(scope="module")
def data():
    return simulated()


@pytest.mark.parametrize("parameters", [SMALL, {**SMALL, "method": "em"}, SMALL_DTM, {**SMALL, "method": "gmm"}])
def test_learns_tags(data, parameters):
    songs, tags = data
    tagger = H3MTagger(**parameters).fit(songs[::2], tags[::2])
    probabilities = tagger.predict_proba(songs[1::2])
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    assert retrieval_scores(tags[1::2], probabilities).auc[:2].min() > 0.9
    assert annotation_scores(tags[1::2], probabilities, 2).means()["f"] > 0.75
    assert tagger.tag_shares_.tolist() == [0.5, 0.5, 0.5]


def test_the_semantic_multinomial_by_hand(data):
    songs, tags = data
    tagger = H3MTagger(**SMALL, hop=13).fit(songs, tags)
    expected = []
    for song in songs[:3]:
        fragments = [song[a : a + 20] for a in (0, 13, 26, 39)]
        scores = np.array([[m.score_samples([f])[0] / 20 for m in tagger.tag_models_] for f in fragments]).mean(axis=0)
        expected.append(np.exp(scores) / np.exp(scores).sum())
    np.testing.assert_allclose(tagger.predict_proba(songs[:3]), expected, rtol=1e-9)


def test_frames_count_one_by_one_for_gaussian_mixtures(data):
    songs, tags = data
    tagger = H3MTagger(**{**SMALL, "method": "gmm"}).fit(songs, tags)
    expected = [[m.score_samples(song).mean() for m in tagger.tag_models_] for song in songs]
    np.testing.assert_allclose(tagger.decision_function(songs), expected, rtol=1e-10)


def test_a_tag_model_is_the_reduction_of_its_songs_models(data):
    songs, tags = data
    tagger = H3MTagger(**{**SMALL, "n_components": 100})
    known = tagger.learn_songs(songs)
    fit = tagger.fit(known, tags)
    assert fit.tag_models_[0] == H3M.pool(known.models[:8], weights=np.ones(8))  # nothing to reduce
    one = (
        H3MTagger(**{**SMALL, "n_components": 1, "tol": 1e-6, "max_iter": 500, "polish": 0})
        .fit(known, tags)
        .tag_models_[0]
    )
    reduced = vhem.VHEM(1, tau=20, tol=1e-6, max_iter=500, random_state=1).fit(fit.tag_models_[0])
    J = vhem.expected_log_likelihood(fit.tag_models_[0], one, 20).mean()
    assert reduced.lower_bound_ / 800 == pytest.approx(J, abs=0.05)


@pytest.mark.filterwarnings("ignore")  # five iterations need not converge
def test_polish_is_em_on_the_songs_from_vhems_centres(data):
    songs, tags = data
    plain, polished = (H3MTagger(**SMALL, polish=n).fit(songs, tags) for n in (0, 5))
    for tag in range(3):
        mine = songs[np.flatnonzero(tags[:, tag])]
        fragments, _ = cut_fragments(mine, 20, 20)
        before, after = (fit.tag_models_[tag].score_samples(fragments).sum() for fit in (plain, polished))
        assert after > before
        start = plain.tag_models_[tag]
        em = vhem.MixtureOfHMMs(3, init=start, max_iter=5, tol=1e-4, reg_covar=1e-3, random_state=0)
        assert em.fit(fragments).model_.score_samples(fragments).sum() == pytest.approx(after)


def test_tags_may_have_larger_models_than_songs(data):
    songs, tags = data
    tagger = H3MTagger(**{**SMALL, "n_states": 3, "n_mix": 2, "song_states": 2, "song_mix": 1})
    known = tagger.learn_songs(songs)
    assert {model.means.shape[1:3] for model in known.models} == {(2, 1)}
    fit = tagger.fit(known, tags)
    assert {model.means.shape[1:3] for model in fit.tag_models_} == {(3, 2)}
    assert retrieval_scores(tags, fit.predict_proba(known)).auc[:2].min() > 0.9
    other = H3MTagger(**SMALL).fit(known, tags)  # the same songs, for tags of another size
    assert {model.means.shape[1:3] for model in other.tag_models_} == {(2, 1)}


def test_files_from_before_songs_had_sizes_of_their_own(data, tmp_path):
    songs, tags = data
    tagger = H3MTagger(**SMALL)
    known = tagger.learn_songs(songs)
    names = ("method", "song_components", "n_states", "n_mix", "covariance_type", "fragment_length", "hop")
    Songs(known.sequences, known.models, {name: getattr(tagger, name) for name in names}).save(tmp_path / "old.vhem")
    old = vhem.load(tmp_path / "old.vhem")
    expected = tagger.fit(known, tags).predict_proba(songs)
    np.testing.assert_array_equal(H3MTagger(**SMALL).fit(old, tags).predict_proba(songs), expected)
    with pytest.raises(ValueError, match="learned with song_states=2, but this tagger has song_states=5"):
        H3MTagger(**SMALL, song_states=5).fit(old, tags)
    kind = kind_named("H3MTagger")
    state = kind.pack(tagger)
    for name in ("song_states", "song_mix"):
        del state["params"][name]
    np.testing.assert_array_equal(kind.unpack(state).predict_proba(songs), expected)


def test_songs_learned_once_serve_every_fit_and_fold(data):
    songs, tags = data
    tagger = H3MTagger(**SMALL)
    known = tagger.learn_songs(songs)
    assert known.shape == (16,)
    assert repr(known[:3]) == "Songs(n=3, method='vhem')"
    np.testing.assert_array_equal(
        tagger.fit(known, tags).predict_proba(known), tagger.fit(songs, tags).predict_proba(songs)
    )
    rng = np.random.default_rng(0).permutation(16)
    assert cross_val_score(tagger, known[rng], tags[rng], cv=4).mean() > 0.8


def test_soft_tags_weigh_songs():
    rng = np.random.default_rng(0)
    songs = [m + rng.normal(size=(40, 1)) for m in (0.0, 0.0, 8.0, 8.0)]
    parameters = {**SMALL, "n_components": 2, "n_states": 1}
    for method in ("vhem", "em", "gmm"):
        model = H3MTagger(**parameters, method=method).fit(songs, [[0.9], [0.9], [0.1], [0.1]]).tag_models_[0]
        by_mean = np.argsort(model.means.ravel())
        np.testing.assert_allclose(model.weights[by_mean], [0.9, 0.1], atol=1e-3)
        np.testing.assert_allclose(model.means.ravel()[by_mean], [0, 8], atol=0.5)


def test_annotations_and_retrieval(data):
    songs, tags = data
    tagger = H3MTagger(**SMALL).fit(songs, tags, tag_names=["calm", "wild", "loud"])
    probabilities = tagger.predict_proba(songs)
    first = tagger.annotate(songs, n_tags=2)[0]
    assert [a.tag for a in first] == [["calm", "wild", "loud"][k] for k in np.argsort(-probabilities[0])[:2]]
    assert first[0].probability == probabilities[0].max()
    found = tagger.retrieve(songs, "wild", n_songs=5)
    assert len(found) == 5
    assert (np.diff(probabilities[found, 1]) <= 0).all()
    with pytest.raises(ValueError, match=r"tag must be one of the tags 'calm'.*got 'jazz'"):
        tagger.retrieve(songs, "jazz")
    with pytest.raises(ValueError, match="n_tags must be between 1 and 3"):
        tagger.annotate(songs)


def test_large_collections_are_gone_through_in_parts(data, monkeypatch):
    songs, tags = data
    whole = H3MTagger(**SMALL).fit(songs, tags)
    expected = whole.predict_proba(songs)
    monkeypatch.setattr(tag_models, "_CHUNK", 300)
    np.testing.assert_allclose(whole.predict_proba(songs), expected, rtol=1e-12)
    assert len(H3MTagger(**SMALL).learn_songs(songs).models) == 16


def test_short_songs_are_one_fragment(data):
    songs, tags = data
    short = Sequences([*(x for x in songs[:15]), songs[15][:7]])
    assert H3MTagger(**SMALL).fit(short, tags).predict_proba(short).shape == (16, 3)


@settings(max_examples=40)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=6), st.integers(1, 15), st.integers(1, 20))
def test_fragments_are_what_slicing_gives(lengths, length, hop):
    songs = Sequences.from_concatenated(np.arange(float(sum(lengths))), lengths)
    fragments, owner = cut_fragments(songs, length, hop)
    expected = [
        (i, song[a : a + length]) for i, song in enumerate(songs) for a in range(0, max(len(song) - length, 0) + 1, hop)
    ]
    assert owner.tolist() == [i for i, _ in expected]
    assert all(np.array_equal(f, e) for f, (_, e) in zip(fragments, expected, strict=True))


def test_mixtures_of_groups_are_those_of_em():
    """Each group by itself must come out as well as EM-H3M by itself makes it, and no group must touch another."""
    rng = np.random.default_rng(3)
    hmms = [random_hmm(rng, S=2, d=2, spread=3.0) for _ in range(4)]
    ys = [y for hmm in hmms for y in hmm.sample(8, 30, rng)]
    groups = np.repeat([0, 1], 16)
    shuffled = rng.permutation(32)
    options = {"n_components": 2, "n_states": 2, "max_iter": 200, "tol": 1e-7, "random_state": 0}
    together = fit_mixtures([ys[i] for i in shuffled], groups[shuffled], **options)
    if groups[shuffled][0]:
        together.reverse()
    priors = {"startprob_prior": 0.1, "transmat_prior": 0.1, "covars_prior": 0.1}
    for g, mixture in enumerate(together):
        mine = [ys[i] for i in np.flatnonzero(groups == g)]
        alone = vhem.MixtureOfHMMs(2, 2, tol=1e-7, max_iter=200, random_state=0, init=mixture, **priors).fit(mine)
        assert mixture.score(mine) == pytest.approx(alone.score(mine), abs=0.05)  # nothing left to gain
        assert mixture.weights.tolist() == pytest.approx([0.5, 0.5], abs=1e-3)


def test_groups_of_fewer_sequences_than_components():
    rng = np.random.default_rng(0)
    found = fit_mixtures([rng.normal(size=(30, 2)) for _ in range(4)], [0, 1, 1, 1], 3, 2, random_state=0)
    assert all(np.isfinite(mixture.means).all() for mixture in found)
    assert all(mixture.weights.sum() == pytest.approx(1) for mixture in found)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"method": "svm"}, "method must be one of"),
        ({"song_components": 0}, "song_components must be an integer"),
        ({"song_states": 0}, "song_states must be an integer of at least 1"),
        ({"song_mix": 1.5}, "song_mix must be an integer of at least 1"),
        ({"hop": 0}, "hop must be an integer of at least 1"),
        ({"tau": -1}, "tau must be an integer of at least 1"),
        ({"polish": -1}, "polish must be an integer of at least 0"),
        ({"n_virtual": 0}, "n_virtual must be a finite number greater than 0"),
    ],
)
def test_bad_parameters(data, change, message):
    with pytest.raises(ValueError, match=message):
        H3MTagger(**{**SMALL, **change}).fit(*data)


def test_bad_input(data):
    songs, tags = data
    tagger = H3MTagger(**SMALL)
    with pytest.raises(ValueError, match=r"y has shape \(15, 3\) for 16 songs"):
        tagger.fit(songs, tags[1:])
    with pytest.raises(ValueError, match=r"1 tag has no song, 'loud' first"):
        tagger.fit(songs, tags * [1, 1, 0], tag_names=["calm", "wild", "loud"])
    with pytest.raises(ValueError, match="y is nan for song 0, tag 0"):
        tagger.fit(songs, np.where(tags > 0, np.nan, 0.0))
    with pytest.raises(ValueError, match="tag_names must have a different name"):
        tagger.fit(songs, tags, tag_names=["calm", "wild"])
    with pytest.raises(ValueError, match="sequence 2 has no values"):
        tagger.fit([songs[0], songs[1], np.full((30, 2), np.nan)], np.ones((3, 1)))
    with pytest.raises(ValueError, match="learned with song_states=2, but this tagger has song_states=3"):
        H3MTagger(**{**SMALL, "n_states": 3}).fit(tagger.learn_songs(songs), tags)
    with pytest.raises(ValueError, match="X has 1 dimension, but the training songs had 2"):
        tagger.fit(songs, tags).predict_proba([np.zeros(30)])


def test_missing_values_in_songs(data):
    songs, tags = data
    X = np.array(songs.X)
    X[::9, 0] = np.nan
    gaps = Sequences.from_concatenated(X, songs.lengths)
    assert retrieval_scores(tags, H3MTagger(**SMALL).fit(gaps, tags).predict_proba(gaps)).auc[:2].min() > 0.9
    found = H3MTagger(**SMALL_DTM).fit(gaps, tags).predict_proba(gaps)
    assert retrieval_scores(tags, found).auc[:2].min() > 0.9


def test_one_seed_one_answer_whatever_the_threads(data):
    songs, tags = data
    one, two = (H3MTagger(**SMALL, n_jobs=n).fit(songs, tags).predict_proba(songs) for n in (1, 2))
    np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("parameters", [SMALL, SMALL_DTM, {**SMALL, "method": "gmm"}])
def test_saved_taggers_and_songs_say_the_same(data, parameters, tmp_path):
    songs, tags = data
    tagger = H3MTagger(**parameters)
    known = tagger.learn_songs(songs)
    known.save(tmp_path / "songs.vhem")
    tagger.fit(vhem.load(tmp_path / "songs.vhem"), tags, tag_names=["calm", "wild", "loud"])
    tagger.save(tmp_path / "tagger.vhem")
    again = vhem.load(tmp_path / "tagger.vhem")
    np.testing.assert_array_equal(again.predict_proba(songs), tagger.predict_proba(songs))
    assert again.tag_names_ == ["calm", "wild", "loud"]
    np.testing.assert_array_equal(
        H3MTagger(**parameters).fit(known, tags).predict_proba(songs), again.predict_proba(songs)
    )
