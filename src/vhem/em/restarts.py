"""Restarts in parallel, and the best of them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, Future, wait
from typing import TypeVar

from vhem.kernels.stopping import stoppable_threads

Result = TypeVar("Result")


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
