"""HMMs remember how much data they were learned from."""

from pathlib import Path

import numpy as np
import pytest

import vhem


@pytest.fixture
def hmms() -> vhem.H3M:
    rng = np.random.default_rng(0)
    sequences = [rng.normal(size=(n, 1)) for n in (5, 7, 4, 9)]
    return vhem.fit_hmms(sequences, 1, groups=["a", "a", "b", "c"], random_state=0)


def test_fit_hmms_counts_sequences_and_frames(hmms: vhem.H3M) -> None:
    assert hmms.n_sequences.tolist() == [2, 1, 1]
    assert hmms.n_frames.tolist() == [12, 4, 9]
    assert hmms.evidence.typical_length == 6


def test_sample_weights_count_as_evidence() -> None:
    hmms = vhem.fit_hmms([np.zeros(4), np.ones(6)], 1, groups=[0, 0], sample_weight=[1.0, 0.5], random_state=0)
    assert (hmms.n_sequences[0], hmms.n_frames[0]) == (1.5, 7.0)


def test_it_survives_slicing_pooling_renaming_and_files(hmms: vhem.H3M, tmp_path: Path) -> None:
    assert hmms[[2, 0]].n_frames.tolist() == [9, 12]
    assert hmms.with_weights([0.2, 0.3, 0.5]).with_ids(["x", "y", "z"]).n_frames.tolist() == [12, 4, 9]
    bare = vhem.H3M([hmms[0]])
    assert vhem.H3M.pool([hmms, bare]).n_frames.tolist() == [12, 4, 9, 0]
    hmms.save(tmp_path / "hmms.vhem")
    assert vhem.load(tmp_path / "hmms.vhem") == hmms
    assert vhem.load(tmp_path / "hmms.vhem", [1, 2]).n_frames.tolist() == [4, 9]


def test_unknown_is_zero_and_is_not_written(hmms: vhem.H3M, tmp_path: Path) -> None:
    bare = vhem.H3M(list(hmms))
    assert bare.n_frames.tolist() == [0, 0, 0]
    assert bare.evidence.typical_length is None
    bare.save(tmp_path / "bare.vhem")
    assert vhem.load(tmp_path / "bare.vhem") == bare


@pytest.mark.parametrize(
    ("n_sequences", "n_frames", "message"),
    [(2, 1, "at least one frame"), (0, 5, "at least one frame"), ([1, 2], 9, "one number or 3"), (-1, 5, "negative")],
)
def test_impossible_evidence_is_refused(hmms: vhem.H3M, n_sequences: object, n_frames: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        hmms.with_evidence(n_sequences, n_frames)
