"""How work in threads is ended early.

An error in one of them ends them all, and so does Ctrl-C, which only Python's main thread hears.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from vhem.kernels.engine import engine

_this_thread = threading.local()


class Stop:
    """Lets one thread of Python end the work of others.

    Threads first say that they watch it. Once it is set, their compiled kernels raise KeyboardInterrupt, those that run
    and those they would call next, and so does `check_stopped` in loops of Python.
    """

    def __init__(self) -> None:
        module = engine().module
        self.flag = None if module is None else module.StopFlag()
        self.is_set = False

    def set(self) -> None:
        """End the work of the threads that watch."""
        self.is_set = True
        if self.flag is not None:
            self.flag.raise_()

    def watch(self) -> None:
        """Say that the work of this thread is to end when this is set."""
        _this_thread.stop = self


def check_stopped() -> None:
    """Raise KeyboardInterrupt where the work of this thread is no longer wanted."""
    stop: Stop | None = getattr(_this_thread, "stop", None)
    if stop is not None and stop.is_set:
        raise KeyboardInterrupt("the computation was stopped by another thread.")


def stop_flag() -> Any:
    """Return what the compiled kernels of this thread look at, or None."""
    stop: Stop | None = getattr(_this_thread, "stop", None)
    return stop and stop.flag


@contextmanager
def stoppable_threads(n: int) -> Iterator[ThreadPoolExecutor]:
    """Give a pool of threads; whatever raises inside, be it Ctrl-C, ends the work of all and drops what waits."""
    stop = Stop()
    with ThreadPoolExecutor(n, initializer=stop.watch) as pool:
        try:
            yield pool
        except BaseException:
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
