"""What the channels of sequences are called, and the names of the categories in those that hold categories."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from vhem._support.arrays import FloatArray, IntArray
from vhem._support.errors import InputError, ParameterError
from vhem._support.phrases import Count
from vhem.sequences.readers import cells

_NUMERAL = re.compile(r"-?[0-9]{1,15}")
_LISTED = 8  # names in a message


class KnowsChannels:
    """What remembers its channels, if they have names or categories; it has a number of dimensions `n_dims`."""

    _channels: Channels | None = None

    @property
    def channels(self) -> list[str]:
        """Names of the dimensions: x1, x2, … if none are known."""
        return list(self._named.names)

    @property
    def categories(self) -> dict[str, tuple[str, ...]]:
        """The names of the categories, by channel; empty if none are known."""
        return self._named.as_dict()

    @property
    def _named(self) -> Channels:
        n_dims: int = self.n_dims  # type: ignore[attr-defined]
        return Channels.unnamed(n_dims) if self._channels is None else self._channels


class Channels(NamedTuple):
    """The channels (columns) of sequences or of models."""

    names: tuple[str, ...]
    categories: tuple[tuple[str, ...] | None, ...]  #: per channel, the names of the codes 0, 1, …; None: numbers

    @staticmethod
    def unnamed(n: int) -> Channels:
        """Return n channels of numbers, called x1, x2, ….

        Examples
        --------
        >>> Channels.unnamed(2).names
        ('x1', 'x2')
        """
        return Channels(tuple(f"x{k + 1}" for k in range(n)), (None,) * n)

    def place(self, channel: str | int) -> int:
        """Return the position of a channel given by its name or position."""
        if isinstance(channel, str) and channel in self.names:
            return self.names.index(channel)
        if isinstance(channel, (int, np.integer)) and -len(self.names) <= channel < len(self.names):
            return int(channel) % len(self.names)
        raise InputError(
            "there is no channel {channel!r}; there are {names}", channel=channel, names=quoted(self.names)
        )

    def with_categories(self, names: Mapping[int, tuple[str, ...] | None]) -> Channels:
        """Return the same channels, some of them with other categories."""
        return self._replace(categories=tuple(names.get(k, own) for k, own in enumerate(self.categories)))

    def as_dict(self) -> dict[str, tuple[str, ...]]:
        """Return the names of the categories by channel."""
        return {name: own for name, own in zip(self.names, self.categories, strict=True) if own is not None}

    def as_state(self) -> dict[str, Any]:
        """Return what files keep."""
        return {"names": list(self.names), "categories": [None if c is None else list(c) for c in self.categories]}

    @staticmethod
    def of_state(state: Any, n: int) -> Channels | None:
        """Return the channels of a file, checked."""
        if state is None:
            return None
        names, categories = state["names"], state["categories"]
        if len(categories) != len(names):
            raise InputError("channels and their categories differ in number")
        found = named(names, n)
        return found.with_categories({k: None if c is None else checked_names(c) for k, c in enumerate(categories)})


def named(names: Iterable[str] | None, n: int) -> Channels:
    """Return n channels of numbers with these names, checked."""
    if names is None:
        return Channels.unnamed(n)
    found = tuple(names)
    if isinstance(names, str) or len(found) != n or not all(isinstance(name, str) and name for name in found):
        raise ParameterError("channels", names, "must be a list of {n:name}, one per dimension", n=Count(n))
    if len(set(found)) < n:
        raise ParameterError("channels", names, "has the same name twice; names of channels must be unique")
    return Channels(found, (None,) * n)


def checked_names(names: Iterable[Any]) -> tuple[str, ...]:
    """Return names of categories as text, checked."""
    found = tuple(cells.name(name) for name in names)
    if isinstance(names, str) or not found or "" in found:
        raise ParameterError("categories", names, "must list at least one name per channel, none of them empty")
    if len(set(found)) < len(found):
        twice = next(name for k, name in enumerate(found) if name in found[:k])
        raise InputError("{categories} lists {twice!r} twice", "name every category once", twice=twice)
    return found


def in_order(names: Iterable[str]) -> tuple[str, ...]:
    """Return names sorted: as numbers if all are integers, otherwise as text.

    Examples
    --------
    >>> in_order(["10", "9"]), in_order(["b", "10", "9"])
    (('9', '10'), ('10', '9', 'b'))
    """
    found = list(names)
    return tuple(sorted(found, key=int) if are_numerals(found) else sorted(found))


def are_numerals(names: Iterable[str]) -> bool:
    """Whether all names are written as integers."""
    return all(map(_NUMERAL.fullmatch, names))


def quoted(names: Sequence[str]) -> str:
    """Return names as messages list them.

    Examples
    --------
    >>> quoted(["cart", "search"])
    "'cart', 'search'"
    """
    more = f", … ({len(names)} in all)" if len(names) > _LISTED else ""
    return ", ".join(map(repr, names[:_LISTED])) + more


def joined(parts: Sequence[Channels]) -> Channels:
    """Return the channels of sequences from several sources: the first names, and the categories of all."""
    first = parts[0]
    categories = []
    for k, name in enumerate(first.names):
        own = [part.categories[k] for part in parts]
        if len(set(own)) == 1:
            categories.append(own[0])
            continue
        if None in own:
            problem = "channel {name!r} holds categories in some sequences and numbers in others"
            raise InputError(problem, "read it in the same way everywhere, with {categories}", name=name)
        categories.append(in_order({c for names in own for c in names or ()}))
    return first._replace(categories=tuple(categories))


def recoded(
    X: FloatArray, own: Channels, wanted: Channels, other: str | None = None, where: str = "the sequences have"
) -> FloatArray:
    """Return frames whose categories have the codes of other channels, matched by name.

    Channels in which either side has no names of categories stay as they are.

    Parameters
    ----------
    X : array of shape (N, d)
        Frames.
    own, wanted : Channels
        The present names, and those wanted.
    other : str, optional
        One of the names wanted, which categories that are not among them become; without it they are an error.
    where : str
        How the error begins.

    Returns
    -------
    array of shape (N, d)
        `X` itself if nothing changes.
    """
    pairs = list(zip(own.categories, wanted.categories, strict=True))
    changed = [k for k, (mine, theirs) in enumerate(pairs) if mine and theirs and mine != theirs]
    if not changed:
        return X
    out = np.array(X)
    for k in changed:
        mine, theirs = pairs[k]
        assert mine is not None
        assert theirs is not None
        table = _table(mine, theirs, other)
        present = ~np.isnan(X[:, k])
        codes = table[X[present, k].astype(np.int64)]
        if (codes < 0).any():
            found = np.unique(X[present, k][codes < 0]).astype(int)
            raise unseen([mine[c] for c in found], theirs, wanted.names[k], where)
        out[present, k] = codes
    return out


def unseen(names: list[str], known: tuple[str, ...], channel: str, where: str) -> InputError:
    """Return the error about categories that are not among those known."""
    return InputError(
        "{where} {names} in channel {channel!r}, which the model has not seen: it knows {known}",
        "Correct the spelling, drop these sequences",
        "say with {other} what unknown categories count as",
        where=where, names=quoted(names), channel=channel, known=quoted(known),
    )  # fmt: skip


def _table(mine: tuple[str, ...], theirs: tuple[str, ...], other: str | None) -> IntArray:
    """Return the new code of each of my codes, -1 if there is none."""
    if other is not None and other not in theirs:
        problem = "must be one of the categories, {known}"
        raise ParameterError("other", other, problem, known=quoted(theirs))
    place = {name: code for code, name in enumerate(theirs)}
    fallback = -1 if other is None else place[other]
    return np.array([place.get(name, fallback) for name in mine], dtype=np.int64)
