"""What a file says about the model in it, whatever its format."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from vhem._support.errors import InputError


class FileDescription(NamedTuple):
    """What a model file says about itself."""

    kind: str  #: name of the class
    feature_names: list[str] | None  #: names of the dimensions
    about: dict[str, Any]  #: how it was made, as given to `save`
    vhem_version: str | None  #: of vhem, if it wrote the file; otherwise None
    format_version: int
    n_bytes: int
    n_members: int | None  #: HMMs or systems, if it is a collection of them


def checked_names(model: Any, names: Iterable[str] | None) -> list[str] | None:
    """Return names of the model's dimensions as text, one for each."""
    if names is None:
        return None
    found, dims = [str(name) for name in names], getattr(model, "n_dims", None)
    if dims is not None and len(found) != dims:
        raise InputError(
            "{feature_names} has {n} names for {dims} dimensions", "give one for each",
            n=len(found), dims=dims,
        )  # fmt: skip
    return found
