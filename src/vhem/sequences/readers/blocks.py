"""Some rows of a table at a time, as they come from a file."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

_ROWS = 10_000  # at a time

Columns = list[Sequence[Any]]


class Block(NamedTuple):
    """Some rows of a file: as columns if all is in order, else row by row."""

    n_rows: int
    columns: Columns | None
    rows: list[list[Any]]


def row_blocks(rows: Iterator[list[Any]]) -> Iterator[Block]:
    """Yield rows in blocks."""
    while some := list(itertools.islice(rows, _ROWS)):
        yield Block(len(some), None, some)
