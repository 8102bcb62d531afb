"""Folders and patterns: each file a sequence, or all files one long table."""

from __future__ import annotations

import glob
from collections.abc import Callable
from pathlib import Path
from typing import Any

from vhem._support.errors import InputError
from vhem._support.paths import existing_file
from vhem.sequences.container import Sequences
from vhem.sequences.identity import alike, alike_keys
from vhem.sequences.readers.options import KNOWN, Reading, extension, without_extension

Read = Callable[[Path], Reading]


def found_files(path: Path) -> tuple[list[Path], Path]:
    """Return the files of a folder or pattern, and the folder that contains them all."""
    if path.is_dir():
        files = sorted(p for p in path.rglob("*") if p.is_file() and is_data(p.relative_to(path)))
        if not files:
            raise FileNotFoundError(f"{path} has no file that could be read; known extensions: {known()}.")
        return files, path
    files = sorted(Path(name) for name in glob.glob(str(path), recursive=True) if Path(name).is_file())
    if not files and glob.has_magic(str(path)):
        raise FileNotFoundError(f"no file matches the pattern {path}. Check it; the search was in {Path().resolve()}.")
    if not files:
        existing_file(path)
    return files, _common_folder(files)


def is_data(path: Path) -> bool:
    """Whether a file below a folder is meant to be read: not hidden, nor in a hidden folder, nor a lock of Excel."""
    hidden = any(part.startswith((".", "~$")) for part in path.parts)
    return extension(path) in KNOWN and not hidden


def known() -> str:
    """Return the extensions that are known, as messages list them."""
    return ", ".join(sorted(KNOWN))


def _common_folder(files: list[Path]) -> Path:
    folder = files[0].parent
    while not all(file.is_relative_to(folder) for file in files):
        folder = folder.parent
    return folder


def read_each(files: list[Path], root: Path, read: Read) -> Reading:
    """Return one sequence per file, or as many as it has; paths are keys, folders are groups."""
    readings = [read(path) for path in files]
    _check_same(files, [reading.roles.values for reading in readings])
    places, names = [path.relative_to(root) for path in files], file_names(files, root)
    keys: list[Any] = []
    for name, reading in zip(names, readings, strict=True):
        own = reading.sequences.keys
        keys += [name] if len(own) == 1 else [(name, *(k if isinstance(k, tuple) else (k,))) for k in own]
    nested = all(len(place.parts) > 1 for place in places)
    groups = [place.parts[0] for place, reading in zip(places, readings, strict=True) for _ in reading.sequences]
    return Reading(
        Sequences._joined([r.sequences for r in readings], keys, groups if nested else None), readings[0].roles
    )


def file_names(files: list[Path], root: Path) -> list[str]:
    """Return what files are called as sequences: their paths, without extensions unless these tell them apart."""
    places = [path.relative_to(root) for path in files]
    names = [place.with_name(without_extension(place)).as_posix() for place in places]
    return names if len(set(names)) == len(names) else [place.as_posix() for place in places]


def read_as_one(files: list[Path], read: Read) -> Reading:
    """Return the sequences of a long table in several files; each sequence must be in one of them."""
    readings = [read(path) for path in files]
    roles = readings[0].roles
    _check_same(files, [reading.roles for reading in readings])
    keys = alike_keys([key for reading in readings for key in reading.sequences.keys])
    files_of = [path for path, reading in zip(files, readings, strict=True) for _ in reading.sequences]
    owner: dict[Any, Path] = {}
    for key, path in zip(keys, files_of, strict=True):
        if owner.setdefault(key, path) != path:
            problem = "sequence {key!r} is in {one} and in {other}"
            raise InputError(problem, "a sequence must be in one file", key=key, one=owner[key], other=path)
    groups = None if roles.group is None else alike(g for reading in readings for g in reading.sequences.groups or [])
    return Reading(Sequences._joined([reading.sequences for reading in readings], keys, groups), roles)


def _check_same(files: list[Path], found: list[Any]) -> None:
    for path, own in zip(files, found, strict=True):
        if own != found[0]:
            problem = "{path} has the columns {own}, but {other} has {theirs}"
            cure = "all files need the same columns"
            raise InputError(problem, cure, path=path, own=own, other=files[0], theirs=found[0])
