"""What classifiers and taggers require of their sequences."""

from __future__ import annotations

import numpy as np

from vhem._support.errors import InputError
from vhem.sequences import Sequences


def check_observed(sequences: Sequences) -> None:
    """Refuse a sequence without any observed value: nothing can be learned from it or said about it."""
    if not np.isnan(sequences.X[sequences.offsets[:-1]]).all(axis=1).any():
        return
    seen = np.add.reduceat(~np.isnan(sequences.X).all(axis=1), sequences.offsets[:-1], dtype=np.int64)
    if not seen.all():
        i = int(np.argmin(seen))
        raise InputError("sequence {id!r} has no values, only NaN", "Leave it out", id=sequences.ids[i])
