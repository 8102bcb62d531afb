"""save and load: objects of registered kinds to files and back."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from vhem._support.indexing import positions, shares
from vhem._support.paths import checked_path
from vhem._support.saving import Ids, Kind, State, install_writer, kind_named, kind_of
from vhem._support.version import VERSION
from vhem.files import container
from vhem.files.container import Container, ModelFileError
from vhem.files.description import FileDescription, checked_names
from vhem.files.plain import describe_json, describe_npz

_FLOATS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def save(
    model: Any, path: str | Path, feature_names: Iterable[str] | None = None, about: dict[str, Any] | None = None
) -> None:
    """Write a model to a file, whole or not at all; see `Saveable.save`."""
    kind = kind_of(model)
    if kind is None:
        raise TypeError(f"{type(model).__name__} objects cannot be saved; models, mixtures and fitted estimators can.")
    names = checked_names(model, feature_names)
    packer = _Packer()
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
        Of the class that was saved, with the same values to the last bit.

    Raises
    ------
    ModelFileError
        If the file is cut short, corrupted, no model, or made by a newer vhem. Its `reason` tells which.

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
        reader = _Reader(file)
        node = file.header.get("content")
        kind, state = reader.kind_and_content(node)
        if index is None:
            return reader.unpacked(node)
        if not kind.rows:
            raise TypeError(f"{path} holds a {kind.name}, of which no part can be loaded; leave out index.")
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
        reader = _Reader(file)
        node = file.header.get("content")
        about = reader.unpacked(file.header.get("about"))
        names, version = file.header.get("feature_names"), str(file.header.get("vhem"))
        name = node.get("kind") if isinstance(node, dict) else None
        kind = kind_named(name)
        n_members = None
        if kind is not None and kind.rows:
            n_members = reader.n_rows(kind, reader.kind_and_content(node)[1])
        return FileDescription(str(name), names, about, version, container.VERSION, file.n_bytes, n_members)


class _Packer:
    """Turns nested values into JSON, and sets arrays aside; an array that is met twice is kept once."""

    def __init__(self) -> None:
        self.arrays: list[npt.NDArray[Any]] = []
        self._places: dict[int, int] = {}

    def packed(self, value: Any, where: str) -> Any:
        """Return `value` as JSON, every value but plain ones as {tag: …}; `where` names it in errors."""
        kind = kind_of(value)
        if kind is not None:
            state = kind.pack(value)
            return {"kind": kind.name, "content": {k: self.packed(v, f"{where}.{k}") for k, v in state.items()}}
        if isinstance(value, Ids):
            return self._packed_ids(value, where)
        if isinstance(value, np.ndarray):
            return {"array": self._place(value, where)}
        if isinstance(value, dict):
            if not all(isinstance(key, str) for key in value):
                raise TypeError(f"{where} has keys that are not text, which model files cannot keep.")
            return {"map": {k: self.packed(v, f"{where}[{k!r}]") for k, v in value.items()}}
        if isinstance(value, (list, tuple, range)):
            tag = "tuple" if isinstance(value, tuple) else "list"
            return {tag: [self.packed(item, f"{where}[{i}]") for i, item in enumerate(value)]}
        return _plain(value, where)

    def _place(self, array: npt.NDArray[Any], where: str) -> int:
        if id(array) not in self._places:
            if array.dtype.kind not in "fiub":
                raise TypeError(f"{where} is an array of {array.dtype}, which model files cannot keep.")
            self._places[id(array)] = len(self.arrays)
            self.arrays.append(array)
        return self._places[id(array)]

    def _packed_ids(self, ids: Ids, where: str) -> Any:
        if ids == list(range(len(ids))) and all(type(name) is int for name in ids):
            return {"range": len(ids)}
        texts = [json.dumps(_id_as_json(name, f"{where}[{k}]")).encode() for k, name in enumerate(ids)]
        ends = np.cumsum([0, *(len(text) for text in texts)]).astype(np.int64)
        spans = np.column_stack([ends[:-1], ends[1:]])
        return {"ids": [self._place(spans, where), self._place(np.frombuffer(b"".join(texts), np.uint8), where)]}


def _id_as_json(name: Any, where: str) -> Any:
    if isinstance(name, tuple):
        return [_id_as_json(part, where) for part in name]
    plain = _plain(name, where)
    return plain if not isinstance(plain, dict) else _FLOATS[plain["float"]]


def _plain(value: Any, where: str) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(value)}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(
        f"{where} is a {type(value).__name__}, which model files cannot keep; they hold numbers, text, None, truth "
        "values, lists of these, arrays and models."
    )


class _Reader:
    """Turns the JSON of a file back into objects."""

    def __init__(self, file: Container) -> None:
        self._file = file

    def unpacked(self, node: Any) -> Any:
        """Return what a node of the header stands for."""
        if isinstance(node, list):
            raise self._corrupted("a list without a tag")
        if not isinstance(node, dict):
            return node
        tag = next(iter(node), None)
        inside = node.get(str(tag))
        if tag == "kind":
            kind, state = self.kind_and_content(node)
            return self.made(kind, {key: self.unpacked(value) for key, value in state.items()})
        if len(node) > 1:
            raise self._corrupted(f"{str(node)[:80]!r} has several tags")
        if tag == "map" and isinstance(inside, dict):
            return {key: self.unpacked(value) for key, value in inside.items()}
        if tag in ("list", "tuple") and isinstance(inside, list):
            items = [self.unpacked(item) for item in inside]
            return items if tag == "list" else tuple(items)
        if tag == "float" and inside in _FLOATS:
            return _FLOATS[inside]
        return self._leaf(node, None)

    def kind_and_content(self, node: Any) -> tuple[Kind, State]:
        """Return the kind that a node names, and what it has for it."""
        if not isinstance(node, dict) or not isinstance(node.get("content"), dict):
            raise self._corrupted("there is no model where one should be")
        kind = kind_named(node.get("kind"))
        if kind is None:
            raise self._file.error(
                "newer",
                f"holds a {node.get('kind')!r}, which vhem {VERSION} does not know; it was written by vhem "
                f"{self._file.header.get('vhem')}. Update vhem.",
            )
        return kind, node["content"]

    def made(self, kind: Kind, state: State) -> Any:
        """Return the object; whatever its class has against the values is an error of the file."""
        try:
            return kind.unpack(state)
        except ModelFileError:
            raise
        except Exception as fault:
            message = f"is corrupted: its {kind.name} is none ({type(fault).__name__}: {fault})"
            raise self._file.error("corrupted", message) from fault

    def n_rows(self, kind: Kind, content: State) -> int:
        """Return the number of members of a collection."""
        try:
            return int(self._file.entries[content[kind.rows[0]]["array"]].shape[0])
        except (KeyError, TypeError, IndexError):
            raise self._corrupted(f"its {kind.name} lacks {kind.rows[0]}") from None

    def rows(self, kind: Kind, content: State, chosen: npt.NDArray[np.intp]) -> State:
        """Return the state of a collection of some members; their weights are made to sum to one."""
        cut = {key: self._leaf(content.get(key), chosen) for key in kind.rows}
        if "weights" in cut:
            cut["weights"] = shares(cut["weights"])
        rest = {key: self.unpacked(value) for key, value in content.items() if key not in kind.rows}
        return {**cut, **rest}

    def _leaf(self, node: Any, rows: npt.NDArray[np.intp] | None) -> Any:
        """Return an array or ids, or some rows of them."""
        if isinstance(node, dict) and len(node) == 1:
            tag, inside = next(iter(node.items()))
            if tag == "array":
                return self._array(inside, rows)
            if tag == "range" and type(inside) is int and 0 <= inside <= self._file.n_bytes:
                return list(range(inside)) if rows is None else rows.tolist()
            if tag == "ids" and isinstance(inside, list) and len(inside) == 2:
                return self._ids(inside[0], inside[1], rows)
        raise self._corrupted(f"{str(node)[:80]!r} stands for nothing")

    def _array(self, k: Any, rows: npt.NDArray[np.intp] | None) -> npt.NDArray[Any]:
        if type(k) is not int or not 0 <= k < len(self._file.entries):
            raise self._corrupted(f"there is no array {k!r}")
        shape = self._file.entries[k].shape
        if rows is not None and (not shape or rows.max() >= shape[0]):
            raise self._corrupted(f"array {k} has fewer rows than the others")
        return self._file.read(k, rows)

    def _ids(self, spans_at: Any, text_at: Any, rows: npt.NDArray[np.intp] | None) -> list[Any]:
        spans = self._array(spans_at, rows)
        n_text = math.prod(self._file.entries[text_at].shape) if type(text_at) is int else 0
        right = spans.dtype == np.int64 and spans.ndim == 2 and spans.shape[1:] == (2,)
        if not right or (spans < 0).any() or (spans[:, 1] < spans[:, 0]).any() or spans.max(initial=0) > n_text:
            raise self._corrupted("its ids are out of place")
        if rows is None:
            text = self._array(text_at, None).tobytes()
        else:  # only the letters of these names, one after the other
            text = self._array(text_at, np.concatenate([np.arange(a, b) for a, b in spans])).tobytes()
            ends = np.cumsum(spans[:, 1] - spans[:, 0])
            spans = np.column_stack([ends - (spans[:, 1] - spans[:, 0]), ends])
        try:
            return [_tuples(json.loads(text[a:b])) for a, b in spans.tolist()]
        except (ValueError, RecursionError):
            raise self._corrupted("its ids cannot be read") from None

    def _corrupted(self, what: str) -> ModelFileError:
        return self._file.error("corrupted", f"is corrupted: {what}.")


def _tuples(name: Any) -> Any:
    return tuple(_tuples(part) for part in name) if isinstance(name, list) else name


install_writer(save)
