"""Where data sets are looked for. The network is never touched unasked."""

from __future__ import annotations

import os
from pathlib import Path


def candidate_folders() -> list[Path]:
    """Return the folders that data sets are looked for in, in this order."""
    chosen = os.environ.get("VHEM_DATA")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "vhem"
    return [*([Path(chosen)] if chosen else []), Path("../shared/data"), cache]


def find_data(name: str, how_to_get: str) -> Path:
    """Return the path of a file or folder of a data set.

    Parameters
    ----------
    name : str
        Path below a data folder.
    how_to_get : str
        What to do where it is missing; becomes part of the error.
    """
    folders = candidate_folders()
    for folder in folders:
        if (folder / name).exists():
            return folder / name
    places = ", ".join(str(folder) for folder in folders)
    raise FileNotFoundError(
        f"{name} was not found in {places}. {how_to_get} Set VHEM_DATA to the folder that holds it."
    )
