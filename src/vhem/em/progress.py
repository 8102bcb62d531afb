"""What a `callback` receives during learning, and what is kept of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from vhem._support.arrays import BoolArray, FloatArray, IntArray
from vhem._support.errors import ParameterError
from vhem._support.saving import register_record


class Progress(NamedTuple):
    """Where a fit of clusters stands, after an E-step."""

    restart: int  #: which of the restarts, from 0
    init: str  #: how it was started
    iteration: int  #: M-steps made so far
    lower_bound: float  #: the objective
    converged: bool  #: whether this restart has converged
    n_restarts: int = 1  #: how many there are in all


class Restart(NamedTuple):
    """How one of the restarts of a fit went.

    Examples
    --------
    >>> import numpy as np
    >>> Restart("kmeans++", np.array([-1200.0, -800.25]), True)
    Restart('kmeans++', lower bound -800.25 after 1 iteration, converged)
    """

    init: str  #: how it was started
    lower_bounds: FloatArray  #: one per E-step, the initial model's first
    converged: bool  #: whether the bound converged

    def __repr__(self) -> str:
        n, state = len(self.lower_bounds) - 1, "converged" if self.converged else "not converged"
        steps = "1 iteration" if n == 1 else f"{n} iterations"
        return f"Restart({self.init!r}, lower bound {self.lower_bounds[-1]:.7g} after {steps}, {state})"


class FitProgress(NamedTuple):
    """Where `fit_hmms` stands, after an iteration."""

    start: int  #: how many fits of all HMMs are done: sizes, restarts
    n_starts: int  #: how many there are in all
    n_settled: int  #: HMMs that have converged in this one
    n_hmms: int  #: how many there are


class FitReporter:
    """Counts what `fit_hmms` has done, and calls the callback."""

    def __init__(self, callback: Callable[[FitProgress], None] | None = None, n_starts: int = 1) -> None:
        self._callback = callback
        self._n_starts = n_starts
        self._start = -1
        self._n_hmms = self._n_settled = 0

    def begin(self, n_hmms: int) -> None:
        """Note that another fit of all HMMs begins."""
        self._start += 1
        self._n_hmms, self._n_settled = n_hmms, 0
        self._tell(0)

    def watch(self, n_iter: IntArray, bounds: FloatArray, converged: BoolArray) -> None:
        """Note the progress of the HMMs still iterating; those that are trained further still count as converged."""
        del n_iter, bounds
        self._tell(self._n_hmms - int((~converged).sum()))

    def _tell(self, n_converged: int) -> None:
        self._n_settled = max(self._n_settled, n_converged)
        if self._callback is not None:
            self._callback(FitProgress(self._start, self._n_starts, self._n_settled, self._n_hmms))


def check_callback(callback: Any) -> None:
    """Refuse what is not callable."""
    if callback is not None and not callable(callback):
        raise ParameterError("callback", callback, "must be a function of one argument, or None")


register_record(Restart, "MixtureOfHMMs.Restart")  # as in older files
register_record(Restart, "VHEM.Restart")
