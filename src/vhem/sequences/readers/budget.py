"""Small files must not fill the memory: what a file may unpack to, in proportion to its size."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from vhem._support.errors import InputError

_FREE = 1 << 26  # bytes that every file may unpack to
_RATIO = 300  # and this many more per byte; tables shrink by a factor of 5 to 50 when they are compressed


class Budget:
    """The remaining bytes that a file may unpack to.

    Parameters
    ----------
    path : Path
        The file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._left = _FREE + _RATIO * path.stat().st_size

    def allows(self, n: int) -> bool:
        """Whether n more bytes are left."""
        return n <= self._left

    def spend(self, n: int) -> None:
        """Take n bytes, or refuse the file."""
        self._left -= n
        if not self.allows(0):
            raise InputError(
                "{path} has {size:,} bytes, but unpacks to more than {ratio} times as much",
                "If that is correct, unpack it yourself and read the result",
                path=self._path, size=self._path.stat().st_size, ratio=_RATIO,
            )  # fmt: skip

    def spent_on(self, lines: Iterator[str]) -> Iterator[str]:
        """Yield lines while the budget lasts."""
        for line in lines:
            self.spend(len(line))
            yield line
