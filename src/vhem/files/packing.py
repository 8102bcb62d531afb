"""Objects to the header and the arrays of a model file.

In the header, numbers, text, None and booleans are themselves. Everything else is an object with one tag: {"map":
{…}}, {"numbered": {…}} with keys that are integers, {"list": […]}, {"tuple": […]}, {"float": "nan"}, {"array": k},
{"ids": [k of spans, k of text]}, {"range": n}, and {"kind": name, "content": {…}} for objects of registered kinds.
"""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import numpy.typing as npt

from vhem._support.errors import InputTypeError
from vhem._support.saving import Ids, kind_of

FLOATS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}  # which JSON does not have
MOST_USES = 16  # of one stored array, so that no small file unpacks to very much


class Packer:
    """Turns nested values into JSON, and sets arrays aside; an array that occurs again is not stored again."""

    def __init__(self) -> None:
        self.arrays: list[npt.NDArray[Any]] = []
        self._places: dict[int, list[int]] = {}

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
            kinds = {type(key) for key in value}
            if not kinds <= {str} and kinds != {int}:
                raise InputTypeError(
                    "{where} has keys that are neither text nor all integers, which model files cannot store",
                    where=where,
                )
            tag = "numbered" if kinds == {int} else "map"
            return {tag: {str(k): self.packed(v, f"{where}[{k!r}]") for k, v in value.items()}}
        if isinstance(value, (list, tuple, range)):
            tag = "tuple" if isinstance(value, tuple) else "list"
            return {tag: [self.packed(item, f"{where}[{i}]") for i, item in enumerate(value)]}
        return _plain(value, where)

    def _place(self, array: npt.NDArray[Any], where: str) -> int:
        uses = self._places.setdefault(id(array), [])
        if len(uses) % MOST_USES == 0:
            if array.dtype.kind not in "fiub":
                raise InputTypeError(
                    "{where} is an array of {dtype}, which model files cannot store",
                    where=where, dtype=array.dtype,
                )  # fmt: skip
            self.arrays.append(array)
            uses.append(len(self.arrays) - 1)
        else:
            uses.append(uses[-1])
        return uses[-1]

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
    return plain if not isinstance(plain, dict) else FLOATS[plain["float"]]


def _plain(value: Any, where: str) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(value)}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise InputTypeError(
        "{where} is a {kind}, which model files cannot store; they hold numbers, text, None, booleans, lists of "
        "these, arrays and models",
        where=where, kind=type(value).__name__,
    )  # fmt: skip
