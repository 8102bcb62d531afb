"""The one loop of EM: E-step, bound, M-step, until the bound has converged.

Every EM of the package is a `Problem` given to `run`. A problem has one or more members, each with its own bound:
VHEM has one, `fit_hmms` has one for every HMM. Members whose bound has converged drop out. Limits, callbacks,
interruption, the rule that the bound may not fall and recounting about new anchors live here and nowhere else.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, Protocol, Self, TypeVar

import numpy as np

from vhem._support.arrays import BoolArray, FloatArray, IntArray
from vhem._support.checks import check_in_range
from vhem._support.errors import BoundError, InputError
from vhem.em.display import told
from vhem.kernels.filtering import IMPOSSIBLE
from vhem.kernels.stopping import check_stopped

ROUNDING = 1e-9  # a fall of the bound, relative to its size, that arithmetic can explain

State = TypeVar("State")  # the model, and what belongs to it
Expected = TypeVar("Expected", bound="HasBounds")  # what an E-step leaves


class HasBounds(Protocol):
    """What every E-step leaves."""

    @property
    def bounds(self) -> FloatArray:
        """The objective of each member, (n,)."""


class Step(NamedTuple):
    """What an M-step leaves."""

    state: Any
    anchors: Any = None  #: the anchors that sums should have been taken about, if digits were lost
    excused: BoolArray | None = None  #: members whose bound may fall once, because something was re-initialised


class Problem(ABC, Generic[State, Expected]):
    """What EM needs to know."""

    frames: FloatArray  #: (n,) frames of each member; `tol` is in nats per frame
    strict: bool  #: whether nothing but the bound is maximised, so that a fall is an error

    @abstractmethod
    def e_step(self, state: State) -> Expected:
        """Return the bounds, and what is needed for counting."""

    @abstractmethod
    def count(self, state: State, expected: Expected, anchors: Any) -> Any:
        """Return the sums for the M-step, about other anchors than the present means if some are given."""

    @abstractmethod
    def m_step(self, state: State, expected: Expected, sums: Any, anchors: Any) -> Step:
        """Return the next state."""

    def advance(self, state: State, bounds: FloatArray, n_iter: IntArray, limits: Limits) -> None:
        """Iterate in place, without the loop, as long as nothing needs closer attention."""
        del state, bounds, n_iter, limits

    def for_one_run(self) -> Self:
        """Return the problem as one run solves it: with a memory of its own, if it has one."""
        return self

    def take(self, state: State, expected: Expected, rows: IntArray) -> tuple[Self, State, Expected]:
        """Return the problem, state and E-step of some members."""
        raise NotImplementedError(f"{type(self).__name__} has one member")

    def together(self, states: list[State]) -> tuple[Self, State] | None:
        """Return several starts as members of one problem, or None where there is no such form."""
        del states
        return None

    def of_size(self, n: int) -> Self:
        """Return the problem for n members."""
        del n
        return self

    def name(self, row: np.int64) -> str:
        """Return what a message calls a member's bound."""
        del row
        return "the lower bound"


_seconds: ContextVar[Callable[[], float]] = ContextVar("seconds", default=time.perf_counter)


@contextmanager
def time_measured_by(clock: Callable[[], float]) -> Iterator[None]:
    """Let `time_limit` count the seconds of another clock, such as `time.process_time`, in what runs inside."""
    token = _seconds.set(clock)
    try:
        yield
    finally:
        _seconds.reset(token)


class Clock(NamedTuple):
    """How much time is left."""

    end: float = np.inf

    @staticmethod
    def start(limit: float | None) -> Clock:
        """Begin now; without a limit there is always time."""
        return Clock(np.inf if limit is None else _seconds.get()() + limit)

    @property
    def is_over(self) -> bool:
        """Whether the time is up."""
        return self.end < np.inf and _seconds.get()() >= self.end


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How long to iterate."""

    max_iter: int = 100
    tol: float = 1e-5  #: a bound that gains less than this many nats per frame has converged
    relative: bool = False  #: whether `tol` is a share of the bound instead
    clock: Clock = field(default_factory=Clock)

    def unit(self, frames: FloatArray, bounds: FloatArray, before: FloatArray) -> FloatArray:
        """Return what `tol` is a multiple of."""
        return np.where(np.isfinite(before), np.abs(before), np.abs(bounds)) if self.relative else frames


class Ended(NamedTuple):
    """Members that ended in the same iteration."""

    rows: IntArray
    state: Any
    expected: Any


class Run(NamedTuple):
    """One run of EM from one start; arrays have one entry per member."""

    ended: list[Ended]
    bounds: list[float]  #: of a problem with one member: one per E-step, the initial model's first
    n_iter: IntArray
    converged: BoolArray
    n_falls: IntArray
    timed_out: bool

    @property
    def state(self) -> Any:
        """The last state of a problem with one member."""
        return self.ended[-1].state

    @property
    def expected(self) -> Any:
        """The last E-step of a problem with one member."""
        return self.ended[-1].expected


Watch = Callable[[IntArray, FloatArray, BoolArray], None]  # iterations, bounds and convergence of the active members


def run(problem: Problem[Any, Any], state: Any, limits: Limits, watch: Watch = lambda *_: None) -> Run:
    """Iterate from `state`; `watch` is called after every E-step."""
    problem = problem.for_one_run()
    n = len(problem.frames)
    result = Run([], [], np.zeros(n, np.int64), np.zeros(n, bool), np.zeros(n, np.int64), False)
    active, before, n_iter = np.arange(n), np.full(n, -np.inf), np.zeros(n, np.int64)
    while True:
        check_stopped()
        problem.advance(state, before, n_iter, limits)
        expected = problem.e_step(state)
        bounds = expected.bounds
        _check(problem, before, bounds, result.n_falls, active)
        result.bounds.append(float(bounds[0]))
        converged = np.abs(bounds - before) < limits.tol * limits.unit(problem.frames, bounds, before)
        late = limits.clock.is_over
        over = converged | (n_iter >= limits.max_iter) | late
        watch(n_iter, bounds, converged)
        told(float(bounds.sum()))
        if over.any():
            rows = active[over]
            result.n_iter[rows], result.converged[rows] = n_iter[over], converged[over]
            if over.all():
                result.ended.append(Ended(rows, state, expected))
                return result._replace(timed_out=late and not converged.all())
            done, left = np.flatnonzero(over), np.flatnonzero(~over)
            result.ended.append(Ended(rows, *problem.take(state, expected, done)[1:]))
            problem, state, expected = problem.take(state, expected, left)
            active, bounds, n_iter = active[left], bounds[left], n_iter[left]
        step = improved(problem, state, expected)
        state, n_iter = step.state, n_iter + 1
        before = bounds.copy() if step.excused is None else np.where(step.excused, -np.inf, bounds)


def improved(problem: Problem[Any, Any], state: Any, expected: Any) -> Step:
    """Count and make the M-step; if digits were lost, do so once more about the new anchors."""
    step = problem.m_step(state, expected, problem.count(state, expected, None), None)
    if step.anchors is None:
        return step
    again = problem.count(state, expected, step.anchors)
    return problem.m_step(state, expected, again, step.anchors)


def _check(
    problem: Problem[Any, Any], before: FloatArray, after: FloatArray, n_falls: IntArray, active: IntArray
) -> None:
    if not np.isfinite(after).all():
        check_in_range(problem.name(active[np.argmin(np.isfinite(after))]), np.nan)
    if (after < IMPOSSIBLE).any():
        raise InputError(
            "{what} is minus infinity: some of the data are impossible under the model to start from, whose "
            "probabilities of zero rule them out",
            "start from a model without these zeros",
            "raise {reg_covar} or {covars_prior} above 0, so that no category is ruled out",
            what=problem.name(active[np.argmax(after < IMPOSSIBLE)]),
        )  # fmt: skip
    fell = after < before - ROUNDING * np.maximum(1.0, np.abs(before))
    n_falls[active] += fell
    if fell.any() and problem.strict:
        k = int(np.argmax(fell))
        raise BoundError(problem.name(active[k]), float(before[k]), float(after[k]))
