"""Where data sets are looked for, and how they are fetched. The network is never used unless asked for."""

from __future__ import annotations

import os
import shutil
import tempfile
import zipfile
from pathlib import Path

from vhem._support.errors import InputError


def cache_folder() -> Path:
    """Return the folder for downloads."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "vhem"


def candidate_folders() -> list[Path]:
    """Return the folders that are searched for data sets, in this order."""
    chosen = os.environ.get("VHEM_DATA")
    return [*([Path(chosen)] if chosen else []), Path("../shared/data"), cache_folder()]


def find_data(name: str, how_to_get: str) -> Path:
    """Return the path of a file or folder of a data set.

    Parameters
    ----------
    name : str
        Path below a data folder.
    how_to_get : str
        What to do if it is missing; becomes part of the error.
    """
    folders = candidate_folders()
    for folder in folders:
        if (folder / name).exists():
            return folder / name
    places = ", ".join(str(folder) for folder in folders)
    raise FileNotFoundError(
        f"{name} was not found in {places}. {how_to_get} Set VHEM_DATA to the folder that holds it."
    )


def fetch(url: str, member: str, folder: Path) -> Path:
    """Download a zip archive and extract the member of this name, wherever it is, into `folder`."""
    try:
        import pooch  # noqa: PLC0415  (an optional library)
    except ImportError:
        raise ImportError(f"downloading needs pooch: pip install pooch, or get {url} by hand.") from None
    with tempfile.TemporaryDirectory() as temporary:
        archive = pooch.retrieve(url, known_hash=None, path=temporary)
        with zipfile.ZipFile(archive) as contents:
            found = [name for name in contents.namelist() if Path(name).name == member]
            if not found:
                raise InputError(
                    "{url} has no {member}; it holds {names}",
                    url=url, member=member, names=", ".join(contents.namelist()[:5]),
                )  # fmt: skip
            folder.mkdir(parents=True, exist_ok=True)
            with contents.open(found[0]) as source, (folder / member).open("wb") as target:
                shutil.copyfileobj(source, target)
    return folder / member
