"""Tables for people: what every result turns into before it is written as csv, xlsx, LaTeX, Word or HTML."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import NamedTuple


class Table(NamedTuple):
    """Rows of text under named columns."""

    name: str  #: of the file, without an extension
    title: str
    columns: list[str]
    rows: list[list[str]]
    note: str = ""  #: what a reader must know, below the table


def with_cluster_names(tables: list[Table], names: Sequence[str]) -> list[Table]:
    """Return tables whose columns about single clusters have the clusters' names, and a note that says all of them.

    Examples
    --------
    >>> table = Table("t", "T", ["n", "cluster 1", "cluster 2"], [])
    >>> with_cluster_names([table], ["holistic", ""])[0].columns
    ['n', 'cluster 1 (holistic)', 'cluster 2']
    """
    called = {f"cluster {k + 1}": f"cluster {k + 1} ({name})" for k, name in enumerate(names) if name}
    note = "; ".join(called.values()).replace("c", "C", 1)
    return [
        table._replace(
            columns=[called.get(column, column) for column in table.columns], note=f"{table.note} {note}.".strip()
        )
        for table in tables
    ] if called else tables  # fmt: skip


def number(value: float | None, digits: int = 3) -> str:
    """Return a number with a fixed number of digits after the point; large and tiny ones in fewer characters.

    Examples
    --------
    >>> [number(x) for x in (0.12345, -3.0, 12345.678, 0.0001, -1e-9, float("nan"), None)]
    ['0.123', '-3.000', '12345.7', '0.0001', '0.000', '–', '–']
    """
    if value is None or math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    if digits > 2 and 0.5e-4 <= abs(value) < 0.5 * 10**-digits:
        return f"{value:.1g}"
    shown = f"{value:.{digits}f}" if abs(value) < 1000 else f"{value:.1f}"
    return shown if float(shown) else shown.removeprefix("-")


def typeset(text: str) -> str:
    """Return a text for print, in which negative numbers have a minus instead of a hyphen.

    Examples
    --------
    >>> typeset("[-0.50, -∞) for 2-3 of person-1")
    '[−0.50, −∞) for 2-3 of person-1'
    """
    return re.sub(r"(?<![\w)])-(?=[\d.∞])", "\N{MINUS SIGN}", text)


def p_value(p: float | None) -> str:
    """Return a p-value as journals write it.

    Examples
    --------
    >>> [p_value(p) for p in (0.0312, 0.0004, 1.0)]
    ['.031', '< .001', '1.000']
    """
    if p is None or math.isnan(p):
        return "–"
    return "< .001" if p < 0.001 else f"{p:.3f}".removeprefix("0")


def p_words(p: float) -> str:
    """Return a p-value as part of a sentence.

    Examples
    --------
    >>> p_words(0.0312), p_words(0.0001)
    ('p = .031', 'p < .001')
    """
    shown = p_value(p)
    return f"p {shown}" if shown.startswith("<") else f"p = {shown}"


def interval(low: float, high: float, digits: int = 3) -> str:
    """Return an interval.

    Examples
    --------
    >>> interval(-0.5, 1.25, 2)
    '[-0.50, 1.25]'
    >>> interval(-0.5, math.inf, 2), interval(math.nan, math.nan)
    ('[-0.50, ∞)', '–')
    """
    if math.isnan(low) and math.isnan(high):
        return "–"
    begin, end = "(" if low == -math.inf else "[", ")" if high == math.inf else "]"
    return f"{begin}{number(low, digits)}, {number(high, digits)}{end}"
