"""save and load: objects of registered kinds to files and back."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from vhem._support.errors import InputTypeError
from vhem._support.indexing import positions
from vhem._support.paths import checked_path
from vhem._support.saving import install_writer, kind_named, kind_of
from vhem._support.version import VERSION
from vhem.files import container
from vhem.files.container import Container
from vhem.files.description import FileDescription, checked_names
from vhem.files.packing import Packer
from vhem.files.plain import describe_json, describe_npz
from vhem.files.unpacking import Reader


def save(
    model: Any, path: str | Path, feature_names: Iterable[str] | None = None, about: dict[str, Any] | None = None
) -> None:
    """Write a model to a file, whole or not at all; see `Saveable.save`.

    Examples
    --------
    >>> import tempfile, vhem
    >>> from pathlib import Path
    >>> from vhem.datasets import simulated_study
    >>> path = Path(tempfile.mkdtemp()) / "viewers.vhem"
    >>> vhem.save(simulated_study().hmms, path, feature_names=["x", "y"])
    >>> vhem.load(path)
    H3M(n_hmms=40, n_states=3, n_mix=1, n_dims=2, covariance_type='diag')
    """
    kind = kind_of(model)
    if kind is None:
        raise InputTypeError(
            "{kind} objects cannot be saved", "models, mixtures and fitted estimators can",
            kind=type(model).__name__,
        )  # fmt: skip
    names = checked_names(model, feature_names)
    packer = Packer()
    header = {
        "vhem": VERSION,
        "content": packer.packed(model, kind.name),
        "feature_names": names,
        "about": packer.packed(about or {}, "about"),
    }
    container.write(path, header, packer.arrays)


def load(path: str | Path, index: Any = None) -> Any:
    """Read a model that was saved.

    Parameters
    ----------
    path : str or Path
        A file that a `save` method wrote.
    index : int, slice or array, optional
        Which HMMs of an H3M (or systems of a MixtureOfLDS) to read: ``load(path, index)`` equals ``load(path)[index]``,
        but reads from the file only what it needs.

    Returns
    -------
    object
        An object of the saved class, with exactly the same values.

    Raises
    ------
    ModelFileError
        If the file is truncated, corrupted, not a model, or made by a newer vhem. Its `reason` says which.

    Examples
    --------
    >>> import tempfile, vhem
    >>> from pathlib import Path
    >>> from vhem.datasets import simulated_study
    >>> path = Path(tempfile.mkdtemp()) / "viewers.vhem"
    >>> viewers = simulated_study().hmms
    >>> viewers.save(path, feature_names=["x", "y"])
    >>> vhem.load(path) == viewers
    True
    >>> vhem.load(path, slice(10, 12)).ids
    ['viewer 11', 'viewer 12']
    """
    with Container(path) as file:
        reader = Reader(file)
        node = file.header.get("content")
        kind, state = reader.kind_and_content(node)
        if index is None:
            return reader.unpacked(node)
        if not kind.rows:
            raise InputTypeError(
                "{path} holds a {name}, which cannot be loaded in part", "leave out {index}",
                path=path, name=kind.name,
            )  # fmt: skip
        chosen = positions(index, reader.n_rows(kind, state), "member")
        part = reader.made(kind, reader.rows(kind, state, np.atleast_1d(chosen)))
    return part if chosen.ndim else part[0]


def describe(path: str | Path) -> FileDescription:
    """Return what a model file says about itself: one of `save`, or an npz or JSON file of `to_npz` and `to_json`.

    Examples
    --------
    >>> import tempfile
    >>> from vhem import HMM
    >>> path = Path(tempfile.mkdtemp()) / "one.vhem"
    >>> HMM([1.0], [[1.0]], [[0.0]], [[1.0]]).save(path, about={"data": "none"})
    >>> describe(path).kind, describe(path).about
    ('HMM', {'data': 'none'})
    """
    plain = {".npz": describe_npz, ".json": describe_json}.get(checked_path(path).suffix)
    if plain is not None:
        return plain(path)
    with Container(path) as file:
        reader = Reader(file)
        node, names = file.header.get("content"), file.header.get("feature_names")
        about = reader.unpacked(file.header.get("about"))
        textual = isinstance(names, list) and all(isinstance(name, str) for name in names)
        if not isinstance(about, dict) or not (names is None or textual):
            raise file.error("corrupted", "is corrupted: its description cannot be read.")
        name = node.get("kind") if isinstance(node, dict) else None
        kind, version = kind_named(name), str(file.header.get("vhem"))
        n_members = None
        if kind is not None and kind.rows:
            n_members = reader.n_rows(kind, reader.kind_and_content(node)[1])
        return FileDescription(str(name), names, about, version, container.VERSION, file.n_bytes, n_members)


install_writer(save)
