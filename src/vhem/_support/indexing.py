"""What containers of named things share: ids, and NumPy's ways of indexing."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from vhem._support.errors import InputError, InputTypeError


def checked_ids(ids: Iterable[Any] | None, n: int, things: str) -> list[Any]:
    """Return one id for each of n items: 0, 1, … if none are given."""
    if ids is None:
        return list(range(n))
    names = ids.tolist() if isinstance(ids, np.ndarray) else list(ids)
    if len(names) != n:
        raise InputError(
            "{ids} has {n} entries for {m} {things}", "give one for each",
            n=len(names), m=n, things=things,
        )  # fmt: skip
    for kind in set(map(type, names)):
        if not issubclass(kind, Hashable):
            raise InputTypeError(
                "{ids} has the {kind} {name!r}", "use text, numbers or tuples of them",
                kind=kind.__name__, name=next(name for name in names if type(name) is kind),
            )  # fmt: skip
    return names


def positions(index: Any, n: int, thing: str) -> npt.NDArray[np.intp]:
    """Return the positions that an integer (0-d), slice, index array or mask selects among n items.

    Examples
    --------
    >>> positions([True, False, True], 3, "HMM")
    array([0, 2])
    """
    if not isinstance(index, slice):
        index = np.asarray(index)
        index = index if index.size else index.astype(np.intp)  # NumPy takes an empty list as floats
    chosen = np.asarray(np.arange(n)[index])
    if not chosen.size:
        raise InputError("the index selects no {thing}", "at least one is needed", thing=thing)
    return chosen


def shares(weights: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the weights of a subset, divided by their sum; uniform if that is zero.

    Examples
    --------
    >>> shares(np.array([0.1, 0.3])).round(2)
    array([0.25, 0.75])
    """
    total = weights.sum()
    return np.asarray(weights / total if total > 0 else np.full(len(weights), 1 / len(weights)))
