"""Which labels may be exchanged under the null hypothesis: freely, within strata, or stratum by stratum."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from vhem._support.arrays import IntArray
from vhem._support.errors import Count, InputError

SMALLEST = 3  # subjects per group: with fewer, hardly any permutation differs from what was seen


class Design(NamedTuple):
    """The group of every item, and what may be exchanged."""

    codes: IntArray  #: (n,) groups as numbers
    names: list[Any]  #: of the groups
    strata: IntArray | None  #: (n,) strata as numbers
    whole: bool  #: whether strata are exchanged as wholes, because no stratum has several groups

    @property
    def sizes(self) -> IntArray:
        """Items of each group."""
        return np.bincount(self.codes, minlength=len(self.names))

    def permuted(self, n: int, rng: np.random.Generator) -> IntArray:
        """Return the codes in n random orders that are as probable as the one seen, (n, items)."""
        if self.strata is None:
            return rng.permuted(np.broadcast_to(self.codes, (n, len(self.codes))), axis=1)
        if self.whole:
            owner = self.codes[np.unique(self.strata, return_index=True)[1]]
            return np.asarray(rng.permuted(np.broadcast_to(owner, (n, len(owner))), axis=1)[:, self.strata])
        order = np.argsort(self.strata, kind="stable")
        # Random keys sorted within strata: each stratum's labels are shuffled among its own places.
        keys = rng.random((n, len(order))) + self.strata[order]
        shuffled = np.argsort(keys, axis=1)
        made = np.empty((n, len(order)), dtype=np.int64)
        made[:, order] = self.codes[order][shuffled]
        return made

    def only(self, a: int, b: int) -> tuple[Design, IntArray]:
        """Return the design of two groups, and their items."""
        items = np.flatnonzero((self.codes == a) | (self.codes == b))
        strata = None if self.strata is None else np.unique(self.strata[items], return_inverse=True)[1]
        return Design((self.codes[items] == b).astype(np.int64), [self.names[a], self.names[b]], strata,
                      self.whole), items  # fmt: skip


def design_of(groups: Iterable[Any], n: int, strata: Iterable[Any] | None = None, thing: str = "HMM") -> Design:
    """Check the groups of n things, and return what may be exchanged."""
    names, codes = _numbered("groups", groups, n, thing)
    if len(names) < 2:
        raise InputError(
            "all {n} {things}s are in one group, {name!r}", "give at least two groups to compare",
            n=n, things=thing, name=names[0],
        )  # fmt: skip
    blocks = None if strata is None else _numbered("strata", strata, n, thing)[1]
    whole = blocks is not None and _constant_within(codes, blocks)
    counted = codes if blocks is None or not whole else codes[np.unique(blocks, return_index=True)[1]]
    for name, size in zip(names, np.bincount(counted), strict=True):
        if size < SMALLEST:
            raise InputError(
                "group {name!r} has {n:member}; no test of so few means anything",
                "give every group at least {least}", "leave the group out",
                name=name, n=Count(size), least=SMALLEST,
            )  # fmt: skip
    if blocks is not None and not whole and not _varies_within(codes, blocks):
        raise InputError("within {strata} there is nothing to exchange", "give strata that have several members each")
    return Design(codes, names, blocks, whole)


def _numbered(what: str, values: Iterable[Any], n: int, thing: str) -> tuple[list[Any], IntArray]:
    given = values.tolist() if isinstance(values, np.ndarray) else list(values)
    if isinstance(values, str) or len(given) != n:
        raise InputError(
            "{what} has {k} entries for {n:thing}", "give one for each", what=what, k=len(given), n=_Things(n, thing)
        )
    if any(value is None or value != value for value in given):  # noqa: PLR0124  (NaN)
        raise InputError("{what} has missing values", "leave out what has no group", what=what)
    names = sorted(set(given), key=lambda value: (str(type(value)), value))
    place = {name: k for k, name in enumerate(names)}
    return names, np.array([place[value] for value in given], dtype=np.int64)


class _Things(Count):
    """A count of things whose name is known only at run time."""

    _thing: str

    def __new__(cls, n: int, thing: str) -> _Things:
        made = super().__new__(cls, n)
        made._thing = thing
        return made

    def __format__(self, words: str) -> str:
        del words
        return super().__format__(self._thing)


def _constant_within(codes: IntArray, blocks: IntArray) -> bool:
    return all(len(set(codes[blocks == b])) == 1 for b in range(blocks.max() + 1))


def _varies_within(codes: IntArray, blocks: IntArray) -> bool:
    return any(len(set(codes[blocks == b])) > 1 for b in range(blocks.max() + 1))


def share_as_large(seen: float, permuted: Any) -> float:
    """Return the p-value of a permutation test: what was seen counts as one of the permutations.

    Values that differ by rounding alone are ties.
    """
    values = np.asarray(permuted, dtype=np.float64)
    slack = 1e-12 * max(abs(seen), 1e-300)
    return float((1 + (values >= seen - slack).sum()) / (1 + len(values)))


def holm(p_values: Iterable[float]) -> list[float]:
    """Return p-values corrected by Holm's method, in the same order; NaN stays NaN and does not count.

    Examples
    --------
    >>> [round(p, 3) for p in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    p = np.asarray(list(p_values), dtype=np.float64)
    made, largest = p.copy(), 0.0
    order = [int(i) for i in np.argsort(p, kind="stable") if not np.isnan(p[i])]
    for rank, i in enumerate(order):
        largest = max(largest, min(1.0, (len(order) - rank) * float(p[i])))
        made[i] = largest
    return [float(x) for x in made]
