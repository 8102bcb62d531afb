"""The header and the arrays of a model file to objects; nothing in it is trusted before it is checked.

The result may be a few times larger than the file, but no more: spans of ids follow one another, no array
is used more often than `packing` allows, and what takes no space in the file (a range of numbers) is
counted.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt

from vhem._support.errors import InputTypeError
from vhem._support.indexing import shares
from vhem._support.saving import Kind, State, kind_named
from vhem._support.version import VERSION
from vhem.files.container import Container, ModelFileError
from vhem.files.packing import FLOATS, MOST_USES
from vhem.sequences.channels import are_numerals

Rows = npt.NDArray[np.intp]
_BYTES_PER_ID = 8  # whatever has a name has at least one number in the file


class Reader:
    """Turns the JSON of a file back into objects."""

    def __init__(self, file: Container) -> None:
        self._file = file
        self._uses: Counter[int] = Counter()
        self._ids_left = file.n_bytes // _BYTES_PER_ID

    def unpacked(self, node: Any) -> Any:
        """Return the value that a node of the header represents."""
        try:
            return self._value(node)
        except RecursionError:
            raise self._corrupted("its header is nested too deeply") from None

    def _value(self, node: Any) -> Any:
        if isinstance(node, list):
            raise self._corrupted("a list has no tag")
        if not isinstance(node, dict):
            return node
        tag = next(iter(node), None)
        inside = node.get(str(tag))
        if tag == "kind":
            kind, state = self.kind_and_content(node)
            return self.made(kind, {key: self._value(value) for key, value in state.items()})
        if len(node) > 1:
            raise self._corrupted(f"{str(node)[:80]!r} has several tags")
        if isinstance(inside, dict) and (tag == "map" or (tag == "numbered" and are_numerals(inside))):
            keys = map(int, inside) if tag == "numbered" else inside
            return dict(zip(keys, map(self._value, inside.values()), strict=True))
        if tag in ("list", "tuple") and isinstance(inside, list):
            items = [self._value(item) for item in inside]
            return items if tag == "list" else tuple(items)
        if tag == "float" and isinstance(inside, str) and inside in FLOATS:
            return FLOATS[inside]
        return self._leaf(node, None)

    def kind_and_content(self, node: Any) -> tuple[Kind, State]:
        """Return the kind that a node names, and its content."""
        if not isinstance(node, dict) or not isinstance(node.get("content"), dict):
            raise self._corrupted("there is no model where one should be")
        kind = kind_named(node.get("kind"))
        if kind is None:
            raise self._file.error(
                "newer",
                f"holds a {str(node.get('kind'))[:80]!r}, which vhem {VERSION} does not know; it was written by vhem "
                f"{str(self._file.header.get('vhem'))[:80]}. Update vhem.",
            )
        return kind, node["content"]

    def made(self, kind: Kind, state: State) -> Any:
        """Return the object; if its class rejects the values, the file is at fault."""
        try:
            return kind.unpack(state)
        except (ModelFileError, RecursionError, MemoryError):
            raise
        except Exception as fault:
            message = f"is corrupted: what it holds is not a valid {kind.name} ({type(fault).__name__}: {fault})"
            raise self._file.error("corrupted", message) from fault

    def n_rows(self, kind: Kind, content: State) -> int:
        """Return the number of members of a collection."""
        node = content.get(kind.rows[0])
        k: Any = node.get("array") if isinstance(node, dict) else None
        shape = self._file.entries[k].shape if self._is_array(k) else ()
        if not shape:
            raise self._corrupted(f"its {kind.name} lacks {kind.rows[0]}")
        return int(shape[0])

    def rows(self, kind: Kind, content: State, chosen: Rows) -> State:
        """Return the state of a collection of some members; their weights are rescaled to sum to one."""
        cut = {key: self._leaf(value, chosen) for key, value in content.items() if kind.has_rows(key)}
        if "weights" in cut:
            cut["weights"] = shares(cut["weights"])
        rest = {key: self.unpacked(value) for key, value in content.items() if not kind.has_rows(key)}
        # What belongs to members, but is an object of its own, knows how to return some of them.
        parts = {key: value.take(chosen) if hasattr(value, "take") else value for key, value in rest.items()}
        return {**cut, **parts}

    def _leaf(self, node: Any, rows: Rows | None) -> Any:
        """Return an array or ids, or some rows of them."""
        if isinstance(node, dict) and len(node) == 1:
            tag, inside = next(iter(node.items()))
            if tag == "array":
                return self._array(inside, rows)
            if tag == "range" and type(inside) is int and inside >= 0:
                self._count_ids(inside)
                return list(range(inside)) if rows is None else rows.tolist()
            if tag == "ids" and isinstance(inside, list) and len(inside) == 2:
                return self._ids(inside[0], inside[1], rows)
        raise self._corrupted(f"{str(node)[:80]!r} is not an array or ids")

    def _is_array(self, k: Any) -> bool:
        return type(k) is int and 0 <= k < len(self._file.entries)

    def _array(self, k: Any, rows: Rows | None) -> npt.NDArray[Any]:
        if not self._is_array(k):
            raise self._corrupted(f"there is no array {str(k)[:80]}")
        self._uses[k] += 1
        if self._uses[k] > MOST_USES:
            raise self._corrupted(f"array {k} is used more than {MOST_USES} times")
        shape = self._file.entries[k].shape
        if rows is not None and (not shape or rows.max(initial=-1) >= shape[0]):
            raise self._corrupted(f"array {k} has fewer rows than the others")
        return self._file.read(k, rows)

    def _ids(self, spans_at: Any, text_at: Any, rows: Rows | None) -> list[Any]:
        chosen, place = (None, None) if rows is None else np.unique(rows, return_inverse=True)
        spans = self._array(spans_at, chosen)
        if spans.dtype != np.int64 or spans.ndim != 2 or spans.shape[1:] != (2,) or not self._is_array(text_at):
            raise self._corrupted("its ids are out of place")
        ends = spans.ravel()  # of one after those of the one before
        n_text = math.prod(self._file.entries[text_at].shape)
        if (np.diff(ends) < 0).any() or ends.min(initial=0) < 0 or ends.max(initial=0) > n_text:
            raise self._corrupted("its ids are out of place")
        self._count_ids(len(spans))
        names = [self._id(text) for text in self._texts(spans, text_at, whole=rows is None)]
        return names if place is None else [names[k] for k in place]

    def _texts(self, spans: npt.NDArray[np.int64], text_at: int, whole: bool) -> list[bytes]:
        if whole:
            text = self._array(text_at, None).tobytes()
            return [text[a:b] for a, b in spans.tolist()]
        # Only the letters of these names, one after another.
        letters = self._array(text_at, np.concatenate([np.arange(a, b) for a, b in spans])).tobytes()
        ends = np.cumsum(spans[:, 1] - spans[:, 0]).tolist()
        return [letters[a:b] for a, b in zip([0, *ends[:-1]], ends, strict=True)]

    def _id(self, text: bytes) -> Any:
        try:
            return _as_id(json.loads(text))
        except (ValueError, TypeError, RecursionError):
            raise self._corrupted(f"{text[:80]!r} is not an id") from None

    def _count_ids(self, n: int) -> None:
        self._ids_left -= n
        if self._ids_left < 0:
            raise self._corrupted("it names more things than it can hold")

    def _corrupted(self, what: str) -> ModelFileError:
        return self._file.error("corrupted", f"is corrupted: {what}.")


def _as_id(name: Any) -> Any:
    if isinstance(name, dict):
        raise InputTypeError("an id is text, a number, None, a boolean or a tuple of these")
    return tuple(_as_id(part) for part in name) if isinstance(name, list) else name
