"""Loaders of data sets: where they look, what they say, and what they give."""

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score
from test_bvh import FILE

from vhem import VHEM
from vhem.datasets import load_cmu_motion, simulated_study
from vhem.datasets.motion import ALL_TRIALS, PAPER_TRIALS


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
    try:
        data, everything = load_cmu_motion(), load_cmu_motion(all_trials=True)
    except FileNotFoundError as missing:
        pytest.skip(str(missing))
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
