"""The studies, in small: the whole way from data to tables and pictures."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from vhem.cli import app
from vhem.datasets import load_cmu_motion
from vhem.experiments import motion


def test_motion_study_in_small(tmp_path):
    try:
        load_cmu_motion()
    except FileNotFoundError as missing:
        pytest.skip(str(missing))
    said = []
    paths = motion.run(tmp_path, 1, progress=said.append, settings=motion.Settings(n_trees=2, n_init=4, n_starts=1))
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
