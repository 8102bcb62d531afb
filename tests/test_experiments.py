"""The studies, in small: the whole way from data to tables and pictures."""

import json

import numpy as np
import pytest
from helpers import loaded
from typer.testing import CliRunner

from vhem.cli import app
from vhem.datasets import (
    MusicData,
    load_cal500,
    load_character_trajectories,
    load_cmu_motion,
    load_gtzan_features,
)
from vhem.sequences import Sequences
from vhem.studies import handwriting, motion, music
from vhem.studies.results import remembered


@pytest.mark.slow
def test_motion_study_in_small(tmp_path):
    loaded(load_cmu_motion)
    said = []
    paths = motion.run(
        tmp_path, 1, progress=said.append, settings=motion.MotionSettings(n_trees=2, n_init=4, n_starts=1)
    )
    assert {path.name for path in paths} == {"motion.md", "motion.json", "motion_hierarchy.png", "motion_hierarchy.svg"}
    assert all(path.stat().st_size > 500 for path in paths)
    numbers = json.loads((tmp_path / "motion.json").read_text())
    assert set(numbers["results"]) == set(motion.SYSTEMS)
    rand = {name: [level["rand"] for level in rows[0]] for name, rows in numbers["results"].items()}
    assert rand["VHEM"][0] > 0.9
    assert rand["VHEM"][1] > 0.75
    assert rand["VHEM"][0] > rand["k-means"][0]
    assert "paper's VHEM" in (tmp_path / "motion.md").read_text()
    assert len(said) == 1 + len(motion.SYSTEMS)


def test_postures_do_not_depend_on_place_or_direction():
    rng = np.random.default_rng(0)
    names = ["Hips", "LeftUpLeg", "RightUpLeg", "Head", "LThumb"]
    positions = rng.normal(size=(20, 5, 3))
    angle = 1.1
    turn = np.array([[np.cos(angle), 0, np.sin(angle)], [0, 1, 0], [-np.sin(angle), 0, np.cos(angle)]])
    data = motion.MotionData([positions, positions @ turn.T + [3.0, 0.0, -8.0]], ["a", "b"], ["1", "2"], names, 30.0)
    here, there = motion.postures(data, 30.0)
    assert here.shape == (20, 12)
    np.testing.assert_allclose(there, here, atol=1e-12)


def test_principal_components_keep_the_variance_asked_for():
    rng = np.random.default_rng(1)
    sequences = [rng.normal(size=(n, 4)) * [10.0, 3.0, 0.1, 0.1] + 5.0 for n in (50, 80)]
    reduced = motion.principal_components(sequences, 0.99)
    assert reduced[0].shape == (50, 2)
    assert np.mean([r[:, 0].var() for r in reduced]) == pytest.approx(1.0, rel=0.1)


@pytest.mark.slow
def test_handwriting_study_in_small(tmp_path):
    loaded(load_character_trajectories)
    small = handwriting.HandwritingSettings(
        taus=(5,), n_init=2, letters=4, tuned_sizes=((6, 1), (8, 1)), tuned_sizes_with_place=((6, 1),)
    )
    paths = handwriting.run(tmp_path, 1, progress=lambda _: None, settings=small)
    assert [path.name for path in paths] == ["handwriting.md", "handwriting.json"]
    results = json.loads(paths[1].read_text())["results"]
    trimmed, tuned = results["trimmed"][0], results["tuned"][0]
    assert trimmed["VHEM full 5"]["accuracy"] > 0.8
    assert tuned["VHEM, velocities"]["accuracy"] > trimmed["VHEM diag 5"]["accuracy"] - 0.02
    assert tuned["VHEM, velocities and place"]["accuracy"] > 0.95
    assert tuple(tuned["chosen, velocities"]) in small.tuned_sizes
    assert "| diag | 5 | VHEM-H3M |" in paths[0].read_text()
    (tmp_path / "handwriting.json").unlink()
    again = handwriting.run(tmp_path, 1, progress=lambda _: None, settings=small)  # from what was kept, times and all
    assert json.loads(again[1].read_text())["results"] == results


SMALL_MUSIC = music.MusicSettings(
    songs=90, least_songs=4, n_folds=2, n_components=2, song_components=1, n_states=2, n_mix=1, hop=125, n_init=1,
    song_states=2, song_mix=1, gaussians=4, song_gaussians=2,
)  # fmt: skip


@pytest.mark.parametrize(("source", "load"), [("gtzan", load_gtzan_features), ("cal500_intro", load_cal500)])
@pytest.mark.slow
def test_music_study_in_small(source, load, tmp_path):
    loaded(load)
    least = 4 if source == "gtzan" else 40
    systems = ("VHEM-H3M", "EM-H3M", "HEM-GMM", music.LOGISTIC, music.CHANCE)
    paths = music.run(
        tmp_path, source, 1, systems, progress=lambda _: None, own_process=False,
        settings=SMALL_MUSIC._replace(least_songs=least),
    )  # fmt: skip
    results = json.loads(paths[1].read_text())["results"]
    n_folds = 1 if source == "gtzan" else 2
    auc = {name: np.mean([fold["auc"] for fold in runs[0]["scores"]]) for name, runs in results.items()}
    assert all(len(runs[0]["scores"]) == n_folds for runs in results.values())
    assert auc["chance"] == pytest.approx(0.5, abs=0.12)
    if source == "gtzan":
        assert min(auc["VHEM-H3M"], auc["EM-H3M"], auc["HEM-GMM"]) > auc["chance"]
    assert results["VHEM-H3M"][0]["tags"] > 0
    assert "*paper's HEM-DTM*" in paths[0].read_text()


def test_parts_of_the_music_study_side_by_side(tmp_path):
    loaded(load_cal500)
    options = {"source": "cal500_intro", "seeds": 2, "systems": (music.CHANCE,), "progress": lambda _: None}
    small = SMALL_MUSIC._replace(least_songs=40)
    alone = music.run(tmp_path / "alone", settings=small, own_process=False, **options)
    both = music.run(tmp_path / "both", settings=small, jobs=2, **options)
    found = [json.loads(paths[1].read_text())["results"][music.CHANCE] for paths in (alone, both)]
    assert [run["scores"] for run in found[0]] == [run["scores"] for run in found[1]]
    assert found[0][0]["scores"] != found[0][1]["scores"]  # another seed


def test_folds_keep_what_they_must_apart():
    rng = np.random.default_rng(0)
    songs = Sequences([rng.normal(size=(5, 2)) for _ in range(23)])
    data = MusicData(songs, rng.random((23, 3)) < 0.5, ["a", "b", "c"])
    parts = music.folds(data, 5)
    assert sorted(np.concatenate([fold.test for fold in parts])) == list(range(23))
    assert all(not set(fold.train) & set(fold.test) for fold in parts)
    split = np.array(["train", "valid", "test", "none"] * 5 + ["test"] * 3)
    (only,) = music.folds(data._replace(split=split), 5)
    assert set(split[only.train]) == {"train", "valid"}
    assert set(split[only.test]) == {"test"}


def test_parts_of_a_study_are_kept_with_their_settings(tmp_path):
    made = []

    def part():
        made.append(1)
        return {"n": (len(made), 2.5)}

    for settings, expected in (({"k": (1, 2)}, 1), ({"k": (1, 2)}, 1), ({"k": (1, 3)}, 2)):
        assert remembered(tmp_path, "part", settings, part) == {"n": [expected, 2.5]}


@pytest.mark.parametrize("name", ["handwriting", "music"])
def test_the_other_studies_say_what_is_missing_too(name, tmp_path, monkeypatch):
    monkeypatch.setenv("VHEM_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["experiment", name, "-o", str(tmp_path / "out")])
    assert done.exit_code == 1
    assert "was not found in" in done.output
    assert "Traceback" not in done.output


def test_the_command_says_what_is_missing(tmp_path, monkeypatch):
    monkeypatch.setenv("VHEM_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["experiment", "motion", "-o", str(tmp_path / "out")])
    assert done.exit_code == 1
    assert "cmu_mocap was not found" in done.output
    assert "Traceback" not in done.output
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("arguments", [["--help"], ["experiment", "--help"], ["demo", "--help"], ["--version"]])
def test_the_command_explains_itself(arguments):
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0
    assert len(done.output) > 50
