"""How sure one can be that no better optimum exists, from how often restarts found the best one."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from vhem._support.arrays import FloatArray
from vhem._support.saving import register_record

_ALIKE = 1e-5  # bounds that differ by less, relative to their size, are those of one optimum
ENOUGH, MOST = 3, 200  # times that the best is to be found; restarts, whatever happens
_FEW = 0.05  # share of restarts that may have found something new in the end
BATCH = 8  # restarts between two looks, whatever the number of threads


class HowSure(NamedTuple):
    """What the restarts say about the search.

    Examples
    --------
    >>> import numpy as np
    >>> print(HowSure.of(np.array([-10.0, -12.0, -10.0, -11.0])).sentence)
    2 of 4 restarts found the best bound. 3 optima were found in all, 2 of them only once: there may be better ones.
    """

    n_restarts: int  #: how many there were
    n_best: int  #: how many of them found the highest bound
    n_optima: int  #: how many different bounds were found
    n_once: int  #: how many of these only once: about as often, relative to all, would a further restart find a new one

    @staticmethod
    def of(bounds: FloatArray) -> HowSure:
        """Count the optima among final bounds."""
        ordered = np.sort(bounds)[::-1]
        apart = np.abs(np.diff(ordered)) > _ALIKE * np.abs(ordered[:-1])
        times = np.bincount(np.concatenate([[0], np.cumsum(apart)]))
        return HowSure(len(bounds), int(times[0]), len(times), int((times == 1).sum()))

    @property
    def enough(self) -> bool:
        """Whether the best was found so often that a better one is unlikely."""
        return self.n_best >= ENOUGH

    @property
    def sentence(self) -> str:
        """The same in words."""
        if self.n_restarts == 1:
            return "There was one start only, so its bound was compared with no other: n_init starts more."
        found = f"{self.n_best} of {self.n_restarts} restarts found the best bound."
        if self.n_optima == 1:
            return found
        once = f", {self.n_once} of them only once" if self.n_once else ""
        rare = self.n_best >= ENOUGH and self.n_once <= _FEW * self.n_restarts
        verdict = "a better one is unlikely" if rare else "there may be better ones"
        return f"{found} {self.n_optima} optima were found in all{once}: {verdict}."


def until_sure(batch: Callable[[int, int], list[float]]) -> None:
    """Ask for batches of restarts, from number `begin` to `end`, until the best was found often enough.

    `batch` returns the final bounds of all restarts so far.
    """
    for begin in range(0, MOST, BATCH):
        if HowSure.of(np.array(batch(begin, min(MOST, begin + BATCH)))).enough:
            return


register_record(HowSure)
