"""UCI Character Trajectories: 2858 letters written by one person, as the pen's velocity and force.

UCI Machine Learning Repository, data set 175, doi 10.24432/C58G7V, by B. H. Williams; licence CC BY 4.0. Cite: B. H.
Williams, M. Toussaint, A. J. Storkey, "Extracting motion primitives from natural handwriting data", ICANN 2006.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from vhem._support.arrays import FloatArray
from vhem._support.errors import InputError
from vhem.datasets.folder import cache_folder, fetch, find_data
from vhem.sequences import Sequences

URL = "https://archive.ics.uci.edu/static/public/175/character+trajectories.zip"
#: Of the values and labels of the complete set, whatever their order; see `fingerprint`. The archive's own checksum is
#: unknown.
FINGERPRINT = "44ee6d0d6ba96f8c3c63528deb756c75b9f947a058988cc9e0f1f08d09909205"
CHANNELS = ["x velocity", "y velocity", "force"]

_FOLDER, _PREPARED, _ORIGINAL = "character_trajectories", "character_trajectories.npz", "mixoutALL_shifted.mat"
_HOW_TO_GET = (
    f"Call load_character_trajectories(download=True), or get {URL}, take {_ORIGINAL} out of it and put it into a "
    f"folder {_FOLDER}."
)


class HandwritingData(NamedTuple):
    """Handwritten letters."""

    sequences: Sequences  #: (T, 3): the pen's velocity in x and y, and the change of its force, at 200 Hz
    labels: npt.NDArray[np.str_]  #: the letter of each sequence


def load_character_trajectories(trim: bool = True, download: bool = False) -> HandwritingData:
    """Load the letters of UCI's Character Trajectories.

    Parameters
    ----------
    trim : bool
        Leave out the frames before the first movement and after the last. They are exact zeros that the donor added to
        align letters of one kind, three frames in ten.
    download : bool
        Download the file from UCI into the cache if it is not found (needs the package pooch). Its values are then
        checked against the complete set; without this, the network is never used.

    Returns
    -------
    HandwritingData
        2858 sequences of 20 letters.

    Examples
    --------
    >>> from vhem.datasets import load_character_trajectories
    >>> letters = load_character_trajectories()
    >>> letters.sequences
    Sequences(n=2858, n_dims=3, lengths 60 to 182, ... frames)
    """
    if download:
        _download_if_missing()
    folder = find_data(_FOLDER, _HOW_TO_GET)
    prepared, original = folder / _PREPARED, folder / _ORIGINAL
    if not (prepared.exists() or original.exists()):
        raise FileNotFoundError(f"{folder} has neither {_PREPARED} nor {_ORIGINAL}. {_HOW_TO_GET}")
    arrays, labels = _from_prepared(prepared) if prepared.exists() else _from_original(original)
    return HandwritingData(Sequences([_trimmed(a) for a in arrays] if trim else arrays), labels)


def fingerprint(arrays: list[FloatArray], labels: npt.NDArray[np.str_]) -> str:
    """Return a checksum of labelled sequences that does not depend on their order; values count to six decimals."""
    single = sorted(
        hashlib.sha256(label.encode() + (np.round(array, 6) + 0.0).astype("<f8").tobytes()).hexdigest()
        for array, label in zip(arrays, labels.tolist(), strict=True)
    )
    return hashlib.sha256("".join(single).encode()).hexdigest()


def _trimmed(array: FloatArray) -> FloatArray:
    moving = np.flatnonzero(array.any(axis=1))
    return array[moving[0] : moving[-1] + 1] if len(moving) else array


def _from_prepared(path: Path) -> tuple[list[FloatArray], npt.NDArray[np.str_]]:
    with np.load(path, allow_pickle=False) as arrays:
        return np.split(arrays["X"], np.cumsum(arrays["lengths"])[:-1]), arrays["labels"]


def _from_original(path: Path) -> tuple[list[FloatArray], npt.NDArray[np.str_]]:
    from scipy.io import loadmat  # noqa: PLC0415  (seldom needed)

    contents = loadmat(path, squeeze_me=True)
    letters = np.array([str(letter) for letter in contents["consts"]["key"].item()])
    arrays = [np.array(part.T, dtype=np.float64, order="C") for part in contents["mixout"]]
    return arrays, letters[contents["consts"]["charlabels"].item().astype(int) - 1]


def _download_if_missing() -> None:
    try:
        find_data(_FOLDER, _HOW_TO_GET)
    except FileNotFoundError:
        folder = cache_folder() / _FOLDER
        fetch(URL, _ORIGINAL, folder)
        if fingerprint(*_from_original(folder / _ORIGINAL)) != FINGERPRINT:
            (folder / _ORIGINAL).unlink()
            raise InputError(
                "what {url} holds is not the expected data set, and was deleted",
                "If UCI has changed it, download the file by hand and put it in {folder}",
                url=URL, folder=_FOLDER,
            ) from None  # fmt: skip
