"""Which sequence is which: keys identify sequences, names are shown for them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from vhem._support.errors import InputError

_SEPARATOR = " / "


def names_of(keys: list[Any]) -> list[Any]:
    """Return the name that is shown for each key: several parts are joined, a single value stays unchanged.

    Different keys have different names: parts that would make the name ambiguous are quoted.

    Examples
    --------
    >>> names_of([("ann", 1), ("a / b", "c"), ("a", "b / c")])
    ['ann / 1', "'a / b' / c", "a / 'b / c'"]
    """
    names = [_SEPARATOR.join(map(_shown, key)) if isinstance(key, tuple) else key for key in keys]
    if len(set(names)) == len(names):
        return names
    return [_SEPARATOR.join(map(repr, key)) if isinstance(key, tuple) else key for key in keys]


def _shown(part: Any) -> str:
    text = str(part)
    blurs = " /" in text or "/ " in text or text[:1] in ("'", '"')
    return repr(text) if blurs else text


def check_unique(ids: list[Any]) -> None:
    """Refuse ids that name two sequences."""
    if len(set(ids)) == len(ids):
        return
    place: dict[Any, int] = {}
    for i, name in enumerate(ids):
        first = place.setdefault(name, i)
        if first != i:
            problem = "{ids} gives sequences {i} and {j} the same id, {key!r}; ids must be unique"
            cure = "Give what several sequences share, such as a person, as {groups}"
            raise InputError(problem, cure, i=first, j=i, key=name)


def alike(names: Iterable[Any]) -> list[Any]:
    """Return names as text if some of them are: 1 in one file and "1" in another are the same name.

    Examples
    --------
    >>> alike([1, 2, "bob"]), alike([1, 2])
    (['1', '2', 'bob'], [1, 2])
    """
    found = list(names)
    return list(map(str, found)) if any(isinstance(name, str) for name in found) else found


def alike_keys(keys: list[Any]) -> list[Any]:
    """Return keys whose parts, place by place, are alike."""
    if keys and all(isinstance(key, tuple) for key in keys) and len({len(key) for key in keys}) == 1:
        return list(zip(*map(alike, zip(*keys, strict=True)), strict=True))
    return alike(keys)
