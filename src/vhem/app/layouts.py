"""Wide tables, which have one row per sequence and one column per moment: recognised by the names of their columns."""

from __future__ import annotations

import re
from itertools import groupby

from vhem.sequences.readers.wide import CHANNEL

_FEWEST = 4  # columns that make a series of moments
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_COUNTED = re.compile(rf"\d+|(?<![a-z])(?:{'|'.join(_MONTHS)})[a-z]*", re.IGNORECASE)

Series = tuple[str, str, str]  #: its name, its first and its last column


def likely_series(columns: list[str]) -> list[Series]:
    """Return the series of columns that differ only in a number or a month: the longest, and those as long as it.

    Examples
    --------
    >>> likely_series(["id", "sex", "a15", "a16", "a17", "a18"])
    [('state', 'a15', 'a18')]
    >>> likely_series(["work.1", "work.2", "work.3", "work.4", "home.1", "home.2", "home.3", "home.4", "q1"])
    [('work', 'work.1', 'work.4'), ('home', 'home.1', 'home.4')]
    >>> likely_series(["id", "x", "y"])
    []
    """
    runs = [(form, list(names)) for form, names in groupby(columns, _form) if form is not None]
    longest = max((len(names) for _, names in runs), default=0)
    if longest < _FEWEST:
        return []
    found = [(form, names) for form, names in runs if len(names) == longest]
    if len(found) == 1:
        return [(CHANNEL, found[0][1][0], found[0][1][-1])]
    titles = [form.replace("#", "").strip(" ._-") for form, _ in found]
    if "" in titles or len(set(titles)) < len(titles):
        titles = [f"{CHANNEL}{k + 1}" for k in range(len(found))]
    return [(title, names[0], names[-1]) for title, (_, names) in zip(titles, found, strict=True)]


def _form(column: str) -> str | None:
    """Return a name with its numbers and months replaced, or None if it has none."""
    form = _COUNTED.sub("#", column)
    return None if form == column else form
