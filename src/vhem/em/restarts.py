"""Restarts in parallel, and the best of them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import TypeVar

Result = TypeVar("Result")

_running = threading.local()


class Cancelled(BaseException):
    """Raised in a restart that is no longer wanted, because another has failed or the user has interrupted."""


def check_cancelled() -> None:
    """End this restart if its result is no longer wanted."""
    stop = getattr(_running, "stop", None)
    if stop is not None and stop.is_set():
        raise Cancelled


def in_parallel(restart: Callable[[int], Result], n: int, n_side_by_side: int) -> list[Result]:
    """Return the results of n restarts, run in threads; one error or interrupt ends them all at once."""
    if n_side_by_side == 1:
        return [restart(r) for r in range(n)]
    stop = threading.Event()

    def one(r: int) -> Result:
        _running.stop = stop
        check_cancelled()
        return restart(r)

    with ThreadPoolExecutor(n_side_by_side) as pool:
        futures = [pool.submit(one, r) for r in range(n)]
        try:
            wait(futures, return_when=FIRST_EXCEPTION)
            failed = next((f for f in futures if f.done() and f.exception() is not None), None)
            if failed is not None:
                raise failed.exception()  # type: ignore[misc]
        except BaseException:
            stop.set()
            for future in futures:
                future.cancel()
            raise
        return [future.result() for future in futures]
