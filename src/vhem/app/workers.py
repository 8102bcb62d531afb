"""Processes that look at tables, so that a large one does not keep the pages waiting; they are started beforehand."""

from __future__ import annotations

import asyncio
import multiprocessing
import signal
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any

_N = 2  # at most: one may be busy with a large table


class Workers:
    """A few processes; if one of them is killed, they are replaced."""

    def __init__(self) -> None:
        self._pool: ProcessPoolExecutor | None = None

    def start(self) -> ProcessPoolExecutor:
        """Start the processes, unless they run: whoever opens the first page will soon show a table."""
        if self._pool is None:
            self._pool = ProcessPoolExecutor(_N, mp_context=multiprocessing.get_context("spawn"), initializer=_warm)
            self._pool.submit(_warm)  # a second one starts when this one is busy
        return self._pool

    async def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return the result of a function of a module; a process that dies is replaced, and the call repeated once."""
        for _ in range(2):
            pool = self.start()
            try:
                return await asyncio.wrap_future(pool.submit(function, *arguments))
            except BrokenProcessPool:
                if self._pool is pool:
                    self._pool = None
        raise MemoryError("The process that read the table died twice, perhaps because memory ran out.")

    def close(self) -> None:
        """End the processes."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)


def _warm() -> None:
    """Import what looking at tables needs."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, which then ends its workers
    import vhem.app.preview  # noqa: F401, PLC0415
