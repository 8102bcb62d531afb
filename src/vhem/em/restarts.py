"""Restarts in parallel: in threads, and those of small problems as members of one loop."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, Future, wait
from typing import Any, TypeVar

import numpy as np

from vhem._support.arrays import BoolArray, FloatArray, IntArray
from vhem.em.loop import Ended, Limits, Problem, Run, Watch, run
from vhem.kernels.stopping import stoppable_threads

Result = TypeVar("Result")
WatchRestart = Callable[[int, int, float, bool], None]  # which restart; its iterations, bound and convergence

_PAIRS_TOGETHER = 5_000  # of an input and a cluster, over all restarts: beyond that, Python hardly shows


def in_parallel(restart: Callable[[int], Result], n: int, n_side_by_side: int) -> list[Result]:
    """Return the results of n restarts, run in threads; one error or interrupt ends them all at once."""
    if n_side_by_side == 1:
        return [restart(r) for r in range(n)]
    with stoppable_threads(n_side_by_side) as pool:
        futures = [pool.submit(restart, r) for r in range(n)]
        wait(futures, return_when=FIRST_EXCEPTION)
        for future in filter(Future.done, futures):
            future.result()  # raises what a restart has raised, while others may still run
        return [future.result() for future in futures]


def in_stacks(n: int, n_pairs: int, n_threads: int) -> list[range]:
    """Return which of n restarts, each of `n_pairs` pairs of an input and a cluster, are run as one."""
    size = max(1, min(_PAIRS_TOGETHER // n_pairs, -(-n // n_threads)))
    return [range(begin, min(n, begin + size)) for begin in range(0, n, size)]


def run_together(
    problem: Problem[Any, Any], states: list[Any], limits: Limits, watch: WatchRestart = lambda *_: None
) -> list[Run]:
    """Return the runs of EM from several starts, as if made one at a time; small ones share their E-steps."""
    joined = problem.together(states) if len(states) > 1 else None
    if joined is None:
        return [run(problem, state, limits, _alone(watch, r)) for r, state in enumerate(states)]
    traces: list[list[float]] = [[] for _ in states]
    active = np.arange(len(states))

    def note(n_iter: IntArray, bounds: FloatArray, converged: BoolArray) -> None:
        nonlocal active
        for r, n, bound, done in zip(
            active.tolist(), n_iter.tolist(), bounds.tolist(), converged.tolist(), strict=True
        ):
            traces[r].append(bound)
            watch(r, n, bound, done)
        active = active[~(converged | (n_iter >= limits.max_iter))]

    return _parted(joined[0], run(*joined, limits, note), traces)


def _alone(watch: WatchRestart, r: int) -> Watch:
    return lambda n_iter, bounds, converged: watch(r, int(n_iter[0]), float(bounds[0]), bool(converged[0]))


def _parted(problem: Problem[Any, Any], made: Run, traces: list[list[float]]) -> list[Run]:
    """Return the runs of the members."""
    runs: list[Any] = [None] * len(traces)
    for ended in made.ended:
        those = problem.of_size(len(ended.rows))
        for at, r in enumerate(ended.rows):
            own = Ended(np.zeros(1, np.int64), *those.take(ended.state, ended.expected, np.array([at]))[1:])
            one = slice(r, r + 1)
            late = made.timed_out and not made.converged[r]
            runs[r] = Run([own], traces[r], made.n_iter[one], made.converged[one], made.n_falls[one], late)
    return runs
