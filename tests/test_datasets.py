"""Loaders of data sets: where they look, what they say, and what they give."""

import importlib.util
import threading
import zipfile
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from helpers import loaded
from scipy.io import savemat
from sklearn.metrics import adjusted_rand_score
from test_bvh import FILE

from vhem import VHEM
from vhem.datasets import (
    handwriting,
    load_biofam,
    load_cal500,
    load_character_trajectories,
    load_clicks,
    load_cmu_motion,
    load_gtzan_features,
    load_measles,
    load_mvad,
    simulated_study,
)
from vhem.datasets.handwriting import FINGERPRINT, fingerprint
from vhem.datasets.motion import ALL_TRIALS, PAPER_TRIALS
from vhem.datasets.packaged import packaged


@pytest.fixture
def nowhere(tmp_path, monkeypatch):
    """An empty data folder, and no other to find."""
    monkeypatch.setenv("VHEM_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def trials(table):
    return [f"{s}_{n:02d}" for by in table.values() for s, numbers in by.items() for n in numbers]


def test_a_missing_data_set_says_where_to_get_it(nowhere):
    with pytest.raises(FileNotFoundError, match=r"not found in .*mocap\.cs\.cmu\.edu.*Set VHEM_DATA"):
        load_cmu_motion()


def test_motion_from_bvh_files(nowhere):
    folder = nowhere / "cmu_mocap" / "bvh"
    folder.mkdir(parents=True)
    for trial in trials(PAPER_TRIALS):
        (folder / f"{trial}.bvh").write_text(FILE)
    data = load_cmu_motion()
    assert len(data.positions) == len(data.labels) == 56
    assert data.positions[0].shape == (2, 4, 3)  # the first frame is a pose put in front
    assert data.fps == pytest.approx(120, rel=1e-4)
    (folder / "09_01.bvh").unlink()
    with pytest.raises(FileNotFoundError, match=r"lacks 1 of 56 trials, 09_01\.bvh"):
        load_cmu_motion()


def test_motion_as_prepared():
    data, everything = loaded(load_cmu_motion), loaded(load_cmu_motion, all_trials=True)
    assert len(set(data.labels)) == 8
    assert (len(data.positions), len(everything.positions)) == (56, 136)
    assert all(np.isfinite(p).all() and p.shape[1:] == (31, 3) for p in data.positions)


def test_the_trials_of_the_paper_are_among_all():
    assert set(trials(PAPER_TRIALS)) <= set(trials(ALL_TRIALS))
    assert len(trials(ALL_TRIALS)) == len(set(trials(ALL_TRIALS))) == 136


def test_simulated_study():
    study, again = simulated_study(), simulated_study()
    assert study.sequences == again.sequences
    assert len(study.hmms) == len(set(study.sequences.groups)) == 40
    assert 12 < len(study.sequences) / 40 < 18
    assert simulated_study(random_state=1).hmms != study.hmms
    labels = VHEM(3, random_state=0).fit_predict(study.hmms)
    assert adjusted_rand_score(study.strategies, labels) == 1.0
    best = study.hmms.predict(study.sequences)
    owner = np.array([study.hmms.ids[k] for k in best])
    assert np.mean(owner == np.array(study.sequences.groups)) > 5 / 40


@pytest.mark.parametrize(
    ("load", "words"),
    [
        (load_character_trajectories, r"character_trajectories was not found in .*archive\.ics\.uci\.edu.*VHEM_DATA"),
        (load_gtzan_features, r"gtzan_mfcc\.npz was not found in .*recordings are not free.*VHEM_DATA"),
        (load_cal500, r"cal500_intro\.npz was not found in .*Computer Audition Laboratory.*VHEM_DATA"),
    ],
)
def test_every_missing_set_says_what_to_do(nowhere, load, words):
    with pytest.raises(FileNotFoundError, match=words):
        load()


def letters_as_uci_has_them(path, arrays, labels):
    """Write sequences the way UCI's file holds them: cells of (3, T) matrices, labels numbered from 1."""
    key = sorted(set(labels))
    cells = np.empty(len(arrays), dtype=object)
    cells[:] = [np.array(a).T for a in arrays]
    numbers = np.array([key.index(label) + 1 for label in labels], dtype=float)
    names = np.empty(len(key), dtype=object)
    names[:] = key
    savemat(path, {"mixout": cells, "consts": {"key": names, "charlabels": numbers}})


def test_letters_from_the_original_file(nowhere):
    rng = np.random.default_rng(0)
    arrays = [np.vstack([np.zeros((2, 3)), rng.normal(size=(n, 3)), np.zeros((1, 3))]) for n in (5, 6, 7)]
    folder = nowhere / "character_trajectories"
    folder.mkdir()
    with pytest.raises(FileNotFoundError, match=r"neither .*npz nor mixoutALL_shifted\.mat"):
        load_character_trajectories()
    letters_as_uci_has_them(folder / "mixoutALL_shifted.mat", arrays, ["b", "a", "b"])
    data = load_character_trajectories()
    assert data.labels.tolist() == ["b", "a", "b"]
    assert data.sequences.lengths.tolist() == [5, 6, 7]
    np.testing.assert_array_equal(data.sequences[1], arrays[1][2:-1])
    assert load_character_trajectories(trim=False).sequences.lengths.tolist() == [8, 9, 10]
    again = [arrays[2], arrays[0], arrays[1] + 1e-12]
    assert fingerprint(arrays, data.labels) == fingerprint(again, np.array(["b", "b", "a"]))
    assert fingerprint(arrays, data.labels) != fingerprint(arrays, np.array(["b", "b", "a"]))


def test_downloads_are_checked_against_the_complete_set(nowhere, monkeypatch):
    pytest.importorskip("pooch", reason="downloads need pooch")
    arrays = [np.random.default_rng(0).normal(size=(5, 3)) for _ in range(3)]
    letters_as_uci_has_them(nowhere / "mixoutALL_shifted.mat", arrays, ["b", "a", "b"])
    with zipfile.ZipFile(nowhere / "archive.zip", "w") as archive:
        archive.write(nowhere / "mixoutALL_shifted.mat", "inside/mixoutALL_shifted.mat")
    quiet = type("Quiet", (SimpleHTTPRequestHandler,), {"log_message": lambda *_: None})
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(quiet, directory=str(nowhere)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        monkeypatch.setattr(handwriting, "URL", f"http://127.0.0.1:{server.server_port}/archive.zip")
        with pytest.raises(ValueError, match="is not the expected data set, and was deleted"):
            load_character_trajectories(download=True)
        cached = nowhere / "cache" / "vhem" / "character_trajectories" / "mixoutALL_shifted.mat"
        assert not cached.exists()
        cached.parent.rmdir()
        monkeypatch.setattr(handwriting, "FINGERPRINT", fingerprint(arrays, np.array(["b", "a", "b"])))
        assert len(load_character_trajectories(download=True).sequences) == 3
        assert cached.exists()
    finally:
        server.shutdown()
        server.server_close()


def test_letters_as_prepared():
    data = loaded(load_character_trajectories)
    assert len(data.sequences) == 2858
    assert len(set(data.labels.tolist())) == 20
    assert (data.sequences.lengths.min(), data.sequences.lengths.max()) == (60, 182)
    whole = load_character_trajectories(trim=False)
    assert fingerprint(list(whole.sequences), whole.labels) == FINGERPRINT


def test_music_as_prepared():
    gtzan, cal500 = loaded(load_gtzan_features), loaded(load_cal500)
    assert (len(gtzan.songs), gtzan.tags.shape, gtzan.songs.n_dims) == (1000, (1000, 17), 39)
    assert (gtzan.split == "test").sum() == 290
    assert (len(cal500.songs), cal500.tags.shape) == (499, (499, 149))
    assert cal500.often_used(30).tags.sum(axis=0).min() >= 30
    assert cal500.soft_tags.min() >= 0


def test_data_of_other_packages():
    for package in ("sequenzo", "retentioneering", "pypomp"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed: pip install --no-deps {package}")
    people = load_mvad()
    assert len(people.sequences) == 712
    assert set(people.sequences.lengths) == {72}
    assert people.sequences.decoded(0)[:3] == [["training"], ["training"], ["employment"]]
    assert people.sequences.weights[:2].tolist() == [0.33, 0.57]
    assert set(people.covariates["male"]) == {"no", "yes"}
    families, channels = load_biofam(), load_biofam(channels=True)
    assert families.sequences.decoded(0)[8:11] == [["parents"], ["left+married"], ["left+married+child"]]
    assert channels.sequences.channels == ["married", "child", "left"]
    assert channels.sequences.decoded(0)[9] == ["yes", "no", "yes"]
    assert len(families.covariates["sex"]) == len(families.sequences) == len(channels.sequences) == 2000
    clicks = load_clicks()
    first = clicks.sequences.ids.index("sess_000001")
    assert clicks.sequences.decoded(first)[:3] == [["home"], ["promo_page"], ["product_view"]]
    assert len(clicks.sequences.X) == 31106
    assert len(clicks.covariates["platform"]) == len(clicks.sequences)
    towns = load_measles()
    assert len(towns.sequences) == 1422
    london = towns.sequences.ids.index("London")
    assert 3e6 < towns.covariates["population"][london] < 9e6
    assert towns.covariates["latitude"][london] == pytest.approx(51.5, abs=0.2)
    assert not towns.covariates["rural"][london]


def test_data_of_a_package_that_is_not_there():
    with pytest.raises(FileNotFoundError, match="pip install --no-deps no_such_package"):
        packaged("no_such_package", "x.csv")
