"""Models of other programs: hmmlearn, the EMHMM toolbox, plain npz and JSON."""

from __future__ import annotations

import json
import struct

import numpy as np
import pytest
import scipy.io
from helpers import loaded, random_h3m, random_hmm
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import adjusted_rand_score

import vhem
from vhem import H3M, VHEM, Sequences, fit_hmms, from_emhmm, from_hmmlearn
from vhem.datasets import load_eye_movements
from vhem.files import describe, from_json, from_npz, to_json, to_npz

TYPES = ["spherical", "diag", "tied", "full"]


def fitted(kind, covariance_type, seed=0):
    hmm = pytest.importorskip("hmmlearn.hmm")
    X = np.random.default_rng(seed).normal(size=(200, 3)) + np.repeat([0, 4], 100)[:, None]
    shape = {"n_mix": 2} if kind == "GMMHMM" else {}
    return getattr(hmm, kind)(2, covariance_type=covariance_type, random_state=0, n_iter=5, **shape).fit(X), X


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("covariance_type", TYPES)
@pytest.mark.parametrize("kind", ["GaussianHMM", "GMMHMM"])
def test_hmmlearn_agrees_on_the_likelihood_both_ways(kind, covariance_type):
    model, X = fitted(kind, covariance_type)
    hmm = from_hmmlearn(model)
    assert hmm.covariance_type == ("diag" if covariance_type in ("diag", "spherical") else "full")
    np.testing.assert_allclose(hmm.score_samples([X]), model.score(X), rtol=1e-10)
    np.testing.assert_allclose(hmm.to_hmmlearn().score(X), model.score(X), rtol=1e-10)
    assert type(hmm.to_hmmlearn()).__name__ == kind


@settings(max_examples=30)
@given(st.integers(1, 4), st.integers(1, 3), st.integers(1, 3), st.sampled_from(["diag", "full"]), st.integers(0, 999))
def test_through_hmmlearn_and_back_to_the_last_bit(S, M, d, covariance_type, seed):
    pytest.importorskip("hmmlearn")
    hmm = random_hmm(np.random.default_rng(seed), S, M, d, covariance_type, zeros=True)
    assert from_hmmlearn(hmm.to_hmmlearn()) == hmm


@pytest.mark.filterwarnings("ignore")
def test_hmmlearn_goes_on_from_our_parameters():
    pytest.importorskip("hmmlearn")
    X = np.repeat([0.0, 5.0, 0.0, 5.0], 25)[:, None] + np.random.default_rng(0).normal(size=(100, 1))
    ours = fit_hmms([X], n_states=2, random_state=0)[0]
    model = ours.to_hmmlearn()
    assert model.fit(X).score(X) >= ours.score_samples([X])[0] - 0.5  # its priors differ from ours


@pytest.mark.filterwarnings("ignore")
def test_lists_of_hmmlearn_models_are_clustered():
    models = [fitted("GaussianHMM", "diag", seed)[0] for seed in range(3)]
    h3m = from_hmmlearn(models, ids=["a", "b", "c"])
    assert h3m.ids == ["a", "b", "c"]
    VHEM(1).fit(h3m)
    with pytest.raises(TypeError, match=r"convert it with vhem\.from_hmmlearn"):
        VHEM(1).fit(models)


def test_other_things_are_no_models_of_hmmlearn():
    hmm = pytest.importorskip("hmmlearn.hmm")
    with pytest.raises(TypeError, match="it has not been fitted"):
        from_hmmlearn(hmm.GaussianHMM(2))
    with pytest.raises(TypeError, match="it is a CategoricalHMM"):
        from_hmmlearn(hmm.CategoricalHMM(2))


def emhmm_cells(h3m, empty=()):
    cells = np.empty((1, len(h3m)), dtype=object)
    for k, hmm in enumerate(h3m):
        pdf = np.empty((1, hmm.n_states), dtype=object)
        for s in range(hmm.n_states):
            pdf[0, s] = {"mean": hmm.means[s], "cov": hmm.covars[s, 0]}
        cells[0, k] = {"prior": hmm.startprob[:, None], "trans": hmm.transmat, "pdf": pdf}
    for k in empty:
        cells[0, k] = np.zeros((0, 0))
    return cells


@pytest.mark.parametrize("compressed", [False, True])
def test_files_like_those_of_emhmm(tmp_path, compressed):
    h3m = random_h3m(np.random.default_rng(0), K=6, S=3, d=2, covariance_type="full", ragged=True)
    assert 1 in h3m.n_states
    path = tmp_path / "m.mat"
    cells = emhmm_cells(h3m)
    for content in ({"hmms": cells}, {"group_hmms": {"hmms": cells, "label": [1, 2]}, "opt": {"K": 2}}):
        scipy.io.savemat(path, content, do_compression=compressed)
        found = from_emhmm(path)
        np.testing.assert_allclose(found.means, h3m.means)
        np.testing.assert_allclose(found.covars, h3m.covars)
        np.testing.assert_allclose(found.transmat, h3m.transmat)
        assert found.n_states.tolist() == h3m.n_states.tolist()
    scipy.io.savemat(path, {"hmms": cells[0, 0]})
    assert len(from_emhmm(path)) == 1
    names = np.array([[f"S{k}"] for k in range(6)], dtype=object)
    scipy.io.savemat(path, {"hmms": emhmm_cells(h3m, empty=[2]), "SubjNames": names})
    with pytest.warns(RuntimeWarning, match=r"cells \[3\] of hmms are empty"):
        found = from_emhmm(path)
    assert found.ids == ["S0", "S1", "S3", "S4", "S5"]


def test_mat_files_that_are_refused(tmp_path):
    path = tmp_path / "m.mat"
    cells = emhmm_cells(random_h3m(np.random.default_rng(0), K=2, covariance_type="full"))
    scipy.io.savemat(path, {"a": cells, "b": cells})
    with pytest.raises(ValueError, match=r"HMMs are in 'a' \(2\), 'b' \(2\); give variable"):
        from_emhmm(path)
    assert len(from_emhmm(path, "b")) == 2
    with pytest.raises(ValueError, match="no HMMs in 'c'"):
        from_emhmm(path, "c")
    scipy.io.savemat(path, {"x": np.eye(3)})
    with pytest.raises(ValueError, match="no variable holds HMMs"):
        from_emhmm(path)
    cells[0, 1]["trans"] = np.eye(5)
    scipy.io.savemat(path, {"hmms": cells})
    with pytest.raises(ValueError, match=r"hmms\{2\} is not an HMM with Gaussian states"):
        from_emhmm(path)
    path.write_bytes(b"MATLAB 7.3 MAT-file".ljust(124) + struct.pack("<H", 0x0200) + b"IM" + bytes(400))
    with pytest.raises(ValueError, match=r"version 7\.3 \(HDF5\).*'-v7'"):
        from_emhmm(path)
    path.write_bytes(b"something else")
    with pytest.raises(ValueError, match="cannot be read as a MATLAB file"):
        from_emhmm(path)
    with pytest.raises(FileNotFoundError, match="there is no file"):
        from_emhmm(tmp_path / "none.mat")


@settings(max_examples=30)
@given(
    st.fixed_dictionaries(
        {
            "K": st.integers(1, 5),
            "S": st.integers(1, 3),
            "M": st.integers(1, 2),
            "covariance_type": st.sampled_from(["diag", "full"]),
            "ragged": st.booleans(),
        }
    ),
    st.integers(0, 999),
)
def test_plain_files_come_back_to_the_last_bit(tmp_path_factory, shape, seed):
    folder = tmp_path_factory.getbasetemp()
    h3m = random_h3m(np.random.default_rng(seed), **shape)
    h3m = H3M(list(h3m), h3m.weights, [f"é{k}" for k in range(len(h3m))])
    for write, read, name in ((to_npz, from_npz, "m.npz"), (to_json, from_json, "m.json")):
        write(h3m, folder / name, feature_names=["x", "y"])
        assert read(folder / name) == h3m
        write(h3m[0], folder / name)
        assert read(folder / name)[0] == h3m[0]


def test_plain_files_say_what_made_them(tmp_path):
    hmms = random_h3m(np.random.default_rng(0), K=2)
    about = {"command": "cluster", "options": {"seed": 3, "id": ["a", "b"]}, "note": "é", "share": np.float64(0.5)}
    for write, name in ((to_npz, "m.npz"), (to_json, "m.json")):
        write(hmms, tmp_path / name, ["x", "y"], about)
        said = describe(tmp_path / name)
        assert said.about == about
        assert said.feature_names == ["x", "y"]
        assert (said.kind, said.n_members, said.vhem_version) == ("H3M", 2, vhem.__version__)
        assert said.n_bytes == (tmp_path / name).stat().st_size
        with pytest.raises(ValueError, match="feature_names has 1 names for 2 dimensions"):
            write(hmms, tmp_path / name, ["x"])


def test_plain_files_of_other_programs_say_less(tmp_path):
    path = tmp_path / "m.npz"
    arrays = {"startprob": [[1.0]], "transmat": [[[1.0]]], "means": [[[1.0]]], "covars": [[[1.0]]]}
    np.savez(path, **arrays)
    assert describe(path)[:4] == ("H3M", None, {}, None)
    np.savez(path, **arrays, about=np.array("no JSON"))
    with pytest.raises(ValueError, match="its array 'about' is not JSON: 'no JSON'"):
        describe(path)
    path = tmp_path / "m.json"
    path.write_text('{"hmms": []}')
    assert describe(path)[:4] == ("H3M", None, {}, None)
    for content, why in (
        ('"about": []', "'about' must hold named"),
        ('"feature_names": "xy"', "must be a list of text"),
    ):
        path.write_text(f'{{"hmms": [], {content}}}')
        with pytest.raises(ValueError, match=why):
            describe(path)
    path.write_text("[]")
    with pytest.raises(ValueError, match="is not an H3M in JSON: 'hmms' is missing"):
        describe(path)


@pytest.mark.parametrize("read", [vhem.load, describe, from_npz, from_json, vhem.from_emhmm, vhem.read_sequences])
def test_a_file_that_is_not_there_is_named_with_a_cure(tmp_path, monkeypatch, read):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"^there is no file nosuch\.vhem\. Check the name; it is looked for"):
        read("nosuch.vhem")
    (tmp_path / "nosuch2.vhem").write_text("")
    with pytest.raises(FileNotFoundError, match=r"did you mean nosuch2\.vhem\?"):
        read("nosuch.vhem")
    with pytest.raises(FileNotFoundError, match="there is no folder nowhere"):
        read("nowhere/nosuch.vhem")
    with pytest.raises(TypeError, match="path must be the name of a file, as text or a Path, got None"):
        read(None)


def test_plain_files_that_are_refused(tmp_path):
    path = tmp_path / "m.json"
    for content, why in (("{", "Expecting"), ("[]", "list"), ('{"hmms": [{}]}', "missing"), ('{"a": 1}', "'hmms'")):
        path.write_text(content)
        with pytest.raises(ValueError, match=f"is not an H3M in JSON: .*{why}"):
            from_json(path)
    to_json(random_hmm(np.random.default_rng(0)), path)
    content = json.loads(path.read_text())
    content["hmms"][0]["startprob"] = [1, 1, 1]
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=r"m\.json is not an H3M in JSON: .*startprob sums to 3"):
        from_json(path)
    np.savez(tmp_path / "m.npz", startprob=np.ones((1, 1)))
    with pytest.raises(ValueError, match="lacks the arrays covars, means, transmat"):
        from_npz(tmp_path / "m.npz")
    np.savez(tmp_path / "m.npz", startprob=[[2.0]], transmat=[[[1.0]]], means=[[[1.0]]], covars=[[[1.0]]])
    with pytest.raises(ValueError, match="startprob sums to 2"):
        from_npz(tmp_path / "m.npz")
    (tmp_path / "m.npz").write_bytes(b"no zip")
    with pytest.raises(ValueError, match="cannot be read as npz"):
        from_npz(tmp_path / "m.npz")


@pytest.fixture(scope="module")
def faces():
    pytest.importorskip("python_calamine")
    return loaded(load_eye_movements), loaded(load_eye_movements, durations=True)


def test_eye_movements_as_described(faces):
    places, durations = faces
    assert len(places.sequences) == 399
    assert len(set(places.sequences.groups)) == len(places.hmms) == 10
    assert places.hmms.n_states.tolist() == [3, 3, 3, 3, 3, 3, 1, 3, 3, 2]
    assert len(durations.sequences) == 1267
    assert len(set(durations.sequences.groups)) == 32
    assert durations.sequences.n_dims == 3
    assert durations.hmms is None


@pytest.mark.filterwarnings("ignore")
def test_the_demonstration_from_spreadsheet_to_clusters(faces):
    """One HMM per person and two clusters; the toolbox's own HMMs of the same people, clustered too."""
    study = faces[0]
    people = list(dict.fromkeys(study.sequences.groups))
    hmms = fit_hmms(
        study.sequences, range(1, 4), groups=study.sequences.groups, covariance_type="full", n_init=10, random_state=0
    )
    assert hmms.ids == people
    ours = VHEM(2, n_states=3, tau=3, random_state=0).fit(hmms)
    theirs = VHEM(2, n_states=3, tau=3, random_state=0).fit(study.hmms)
    for fit in (ours, theirs):
        assert sorted(np.bincount(fit.labels_)) not in ([0, 10], [10])
        assert fit.converged_
    # The two ways of learning agree on what people did: the toolbox's HMM of a person suits that person's trials about
    # as well as ours does.
    for k, person in enumerate(people):
        own = Sequences([s for s, g in zip(study.sequences, study.sequences.groups, strict=True) if g == person])
        per_frame = [model[k].score_samples(own).sum() / len(own.X) for model in (hmms, study.hmms)]
        assert abs(per_frame[0] - per_frame[1]) < 0.5
    assert adjusted_rand_score(ours.labels_, theirs.labels_) > 0.5


def test_models_of_the_toolbox_are_saved_and_loaded(faces, tmp_path):
    hmms = faces[0].hmms
    hmms.save(tmp_path / "faces.vhem", feature_names=["x", "y"])
    assert vhem.load(tmp_path / "faces.vhem") == hmms


def test_an_archive_that_unfolds_to_very_much_is_refused(tmp_path):
    path = tmp_path / "m.npz"
    np.savez_compressed(path, startprob=np.zeros(10**6))
    with pytest.raises(ValueError, match=r"it unpacks to 8,000,\d+ bytes, more than 200 times its"):
        from_npz(path)


def test_categorical_and_poisson_models_of_hmmlearn_both_ways():
    hmm = pytest.importorskip("hmmlearn.hmm")
    rng = np.random.default_rng(0)
    codes, counts = rng.integers(0, 4, (60, 1)), rng.poisson(5, (60, 2))
    for model, X in ((hmm.CategoricalHMM(2, random_state=0), codes), (hmm.PoissonHMM(2, random_state=0), counts)):
        model.fit(X)
        made = from_hmmlearn(model)
        assert made.score_samples([X])[0] == pytest.approx(model.score(X), rel=1e-10)
        assert made.to_hmmlearn().score(X) == pytest.approx(model.score(X), rel=1e-10)
        assert from_hmmlearn(made.to_hmmlearn()) == made
        assert type(made.to_hmmlearn()) is type(model)


def test_multinomial_models_of_hmmlearn_are_categorical_with_one_trial_only():
    hmm = pytest.importorskip("hmmlearn.hmm")
    codes = np.random.default_rng(0).integers(0, 3, 50)
    model = hmm.MultinomialHMM(2, n_trials=1, random_state=0).fit(np.eye(3, dtype=int)[codes])
    rows = np.eye(3, dtype=int)[codes]
    assert from_hmmlearn(model).score_samples([codes])[0] == pytest.approx(model.score(rows), rel=1e-9)
    model.n_trials = 5
    with pytest.raises(TypeError, match="5 trials per frame; only with one"):
        from_hmmlearn(model)


def test_what_hmmlearn_has_no_model_for():
    pytest.importorskip("hmmlearn")
    two = vhem.HMM([1.0], [[1.0]], emissions=vhem.Categorical([[[0.5, 0.5], [0.2, 0.8]]]))
    with pytest.raises(ValueError, match="hmmlearn has no model for these emissions"):
        two.to_hmmlearn()
