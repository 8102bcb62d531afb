"""Arrays that grow while a file is read, without being held twice in the end."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

_SMALL = 8  # parts that are kept as they are: most files have no more
# Memory of blocks as large as this goes back to the system as soon as they are released; that of smaller ones may stay
# with the process, between others.
_BLOCK = 40 << 20


class Growing:
    """An array to whose end rows are added.

    Examples
    --------
    >>> column = Growing()
    >>> column.append(np.array([1.0, 2.0]))
    >>> column.append(np.array([3.0]))
    >>> column.whole()
    array([1., 2., 3.])
    """

    def __init__(self) -> None:
        self._blocks: list[npt.NDArray[Any]] = []
        self._n_small = 0
        self._free = 0  # rows of the last block that are not filled

    def append(self, rows: npt.NDArray[Any]) -> None:
        """Add rows; they are copied."""
        if self._n_small < _SMALL:
            self._n_small += 1
            self._blocks.append(rows.copy())
            return
        while len(rows):
            if not self._free:
                self._free = max(_BLOCK // max(rows[:1].nbytes, 1), 1)
                self._blocks.append(np.empty((self._free, *rows.shape[1:]), rows.dtype))
            some, rows = rows[: self._free], rows[self._free :]
            begin = len(self._blocks[-1]) - self._free
            self._blocks[-1][begin : begin + len(some)] = some
            self._free -= len(some)

    def whole(self) -> npt.NDArray[Any]:
        """Return all rows, and release what held them."""
        last = self._blocks.pop()
        self._blocks.append(last[: len(last) - self._free])
        del last
        made = np.empty((sum(map(len, self._blocks)), *self._blocks[0].shape[1:]), self._blocks[0].dtype)
        end = len(made)
        while self._blocks:
            block = self._blocks.pop()
            made[end - len(block) : end] = block
            end -= len(block)
        return made
