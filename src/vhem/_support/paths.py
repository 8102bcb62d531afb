"""Paths from users: errors say in a sentence what is wrong, and what to do."""

from __future__ import annotations

import difflib
import os
from pathlib import Path
from typing import Any

from vhem._support.errors import InputError, InputTypeError


def checked_path(path: Any) -> Path:
    """Return a path, or refuse what cannot be one."""
    if not isinstance(path, (str, os.PathLike)) or not str(path):
        raise InputTypeError("{path} must be the name of a file, as text or a Path, got {given!r}", given=path)
    return Path(path)


def existing_file(path: Any) -> Path:
    """Return the path of an existing file.

    Examples
    --------
    >>> existing_file("nosuch/model.vhem")
    Traceback (most recent call last):
    FileNotFoundError: there is no file nosuch/model.vhem: there is no folder nosuch. Check the name.
    """
    place = checked_path(path)
    if place.is_dir():
        raise IsADirectoryError(f"{path} is a folder; give the name of a file in it.")
    if not place.exists():
        raise FileNotFoundError(f"there is no file {path}{_hint(place)}")
    if not place.is_file():  # it may have no end, or can be read only once
        raise InputError("{place} is a device or a pipe, not a file", "save what it holds to a file first", place=place)
    return place


def _hint(place: Path) -> str:
    """Return why a file may not be there: its folder is missing, or its name is spelled differently."""
    folder = place.parent
    if not folder.is_dir():
        return f": there is no folder {folder}. Check the name."
    alike = difflib.get_close_matches(place.name, os.listdir(folder), n=1, cutoff=0.8)
    if alike:
        return f"; did you mean {folder / alike[0]}?"
    return f". Check the name{'' if place.is_absolute() else f'; it is looked for in {folder.resolve()}'}."
