"""Sequences from NumPy's npz files."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from vhem._support.errors import InputError
from vhem.sequences.container import Sequences
from vhem.sequences.readers.budget import Budget
from vhem.sequences.readers.options import Reading, errors_of
from vhem.sequences.readers.roles import Roles


def read_npz(path: Path) -> Reading:
    """Return the sequences of a file: X and lengths, one 3-D array, or an array for each sequence."""
    arrays = _arrays(path)
    if not arrays:
        raise InputError("{path} holds no arrays", path=path)
    with errors_of(path):
        made = _from_arrays(arrays)
    return Reading(made, Roles([], None, [f"x{k + 1}" for k in range(made.n_dims)], None))


def _arrays(path: Path) -> dict[str, npt.NDArray[Any]]:
    if not zipfile.is_zipfile(path):  # NumPy would take it as a pickle
        raise InputError("{path} is not an npz file, or is damaged", "Write it again with numpy.savez", path=path)
    try:
        with zipfile.ZipFile(path) as parts:
            Budget(path).spend(sum(part.file_size for part in parts.infolist()))
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:  # NumPy leaves broken ones open
            return {name: file[name] for name in file.files}
    except InputError:
        raise
    except ValueError as fault:
        cure = "Save plain arrays of numbers or text in it"
        raise InputError("{path} cannot be read: {fault}", cure, path=path, fault=fault) from None
    except Exception as fault:  # zipfile and zlib have their own errors
        raise InputError("{path} is not an npz file, or is damaged: {fault}", path=path, fault=fault) from None


def _from_arrays(arrays: dict[str, npt.NDArray[Any]]) -> Sequences:
    ids, groups = arrays.get("ids"), arrays.get("groups")
    if "X" in arrays and "lengths" in arrays:
        made = Sequences.from_concatenated(arrays["X"], arrays["lengths"], ids)
        return made if groups is None else Sequences(made, groups=groups)
    rest = {name: array for name, array in arrays.items() if name not in ("ids", "groups")}
    if len(rest) == 1:
        (only,) = rest.values()
        if only.ndim == 3:
            return Sequences(only, ids, groups)
    return Sequences(list(rest.values()), list(rest))
