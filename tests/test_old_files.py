"""Files that older versions wrote are read, and the models in them say what they said then."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from old_files.make import NUMBERS, SEQUENCES

import vhem
from vhem.files import describe

FILES = Path(__file__).parent / "old_files"


@pytest.mark.parametrize("kind", NUMBERS)
def test_every_kind_is_read(kind, tmp_path):
    path = FILES / f"{kind}.vhem"
    said = describe(path)
    assert (said.kind, said.vhem_version) == (kind, "0.1.0")
    model = vhem.load(path)
    np.testing.assert_allclose(NUMBERS[kind](model), said.about["numbers"], rtol=1e-9, atol=1e-9)
    model.save(tmp_path / "again.vhem")
    again = vhem.load(tmp_path / "again.vhem")
    np.testing.assert_array_equal(NUMBERS[kind](again), NUMBERS[kind](model))


def test_an_old_checkpoint_is_resumed(tmp_path):
    checkpoint = shutil.copy(FILES / "checkpoint.vhem", tmp_path)
    finished = vhem.load(FILES / "PartitionedH3M.vhem")
    resumed = vhem.PartitionedH3M(2, 2, n_sample=4, random_state=0, checkpoint=checkpoint)
    resumed.fit([SEQUENCES[:3], SEQUENCES[3:]])
    np.testing.assert_allclose(resumed.model_.means, finished.model_.means, rtol=1e-6)
