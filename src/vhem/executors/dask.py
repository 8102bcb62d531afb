"""Work on a Dask cluster, through a client the user connects."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import itertools
import os
import sys
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import Any

from vhem._support.errors import Explained, ParameterError

_AHEAD = 4  # tasks under way for every thread of the cluster
_LEAST_AHEAD = 16
_POLL = 5.0  # seconds between checks that the cluster is still there

_NANNYS_CHOICE = "65536"  # bytes: the default of distributed.nanny.pre-spawn-environ
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # of <malloc.h>
_KEPT = 64 * 2**20  # bytes, which the C library keeps by itself where nothing is set


class ClusterLostError(Explained, RuntimeError):
    """The Dask cluster went away, or has no workers left."""


class DaskExecutor:
    """Tasks on the workers of a `dask.distributed.Client`.

    What is kept stays on the workers, in their memory. It can be restored: when a worker is lost, the scheduler sends
    its share to another one, and the result is the same as if nothing had happened. Tasks are named (``vhem-part``,
    ``vhem-reduce``, ``vhem-e-step``, …), so that the dashboard shows what is going on.

    Parameters
    ----------
    client : dask.distributed.Client
        A connected client. vhem must be installed on the workers and the scheduler, in the same version as here.
    timeout : float
        Seconds without an answer from the scheduler, or without any worker, after which the cluster counts as lost and
        `ClusterLostError` is raised.

    Examples
    --------
    >>> import vhem
    >>> from dask.distributed import Client  # in practice: Client("tcp://scheduler:8786")
    >>> from vhem.datasets import simulated_study
    >>> hmms = simulated_study(n_viewers=12).hmms
    >>> with Client(n_workers=1, processes=False, dashboard_address=None) as client:
    ...     there = vhem.VHEM(2, executor=client, n_init=1, random_state=0).fit(hmms)
    >>> here = vhem.VHEM(2, n_init=1, random_state=0).fit(hmms)
    >>> bool((there.labels_ == here.labels_).all())
    True
    """

    inner_jobs: int | None = 1

    def __init__(self, client: Any, timeout: float = 60.0) -> None:
        if not timeout > 0:
            raise ParameterError("timeout", timeout, "must be a positive number of seconds")
        self.client = client
        self.timeout = timeout

    def __deepcopy__(self, memo: dict[int, Any]) -> DaskExecutor:
        """Return itself: a clone of an estimator works on the same cluster."""
        return self

    def keep(self, items: Sequence[Any], name: str) -> list[Any]:
        """Send the items to the workers, and return futures.

        They are results of tasks whose arguments the scheduler keeps, rather than scattered, because scattered data is
        lost with its worker.
        """
        return list(self._guarded(lambda: [self._hold(item, name) for item in items]))

    def map(self, function: Callable[..., Any], items: Iterable[Any], *arguments: Any, name: str) -> Iterator[Any]:
        """Yield the results in order, with a few tasks for every thread of the cluster begun ahead."""
        shared = self._guarded(lambda: self._hold(arguments, f"{name}-arguments"))
        token = _token()

        def submit(numbered: tuple[int, Any]) -> Any:
            i, item = numbered
            return self.client.submit(_apply, function, item, shared, key=f"{name}-{token}-{i}", pure=False)

        window = max(_LEAST_AHEAD, _AHEAD * self._n_threads())
        todo, running = enumerate(items), list[Any]()
        while True:
            fresh = list(itertools.islice(todo, window - len(running)))
            running += [self._guarded(functools.partial(submit, numbered)) for numbered in fresh]
            if not running:
                return
            n = max(1, len(running) // 2)
            yield from self._results(running[:n])
            running = running[n:]

    def _hold(self, item: Any, name: str) -> Any:
        return self.client.submit(_opened, _Parcel(item), key=f"{name}-{_token()}", pure=False)

    def _results(self, futures: list[Any]) -> list[Any]:
        """Wait for results, but not forever for a cluster that is gone."""
        from distributed import wait  # noqa: PLC0415  (optional)

        last_seen = time.monotonic()
        while True:
            try:
                self._guarded(lambda: wait(futures, timeout=min(_POLL, self.timeout)))  # type: ignore[no-untyped-call]
                return list(self._guarded(lambda: self._gathered(futures), of_tasks=True))
            except TimeoutError:
                if any(future.status == "error" for future in futures):
                    raise
                if self._n_threads():
                    last_seen = time.monotonic()
                elif time.monotonic() - last_seen > self.timeout:
                    raise ClusterLostError(
                        "the Dask cluster at {address} has had no worker for {seconds:g} s",
                        "Start workers and run again; with a checkpoint, work resumes where it stopped",
                        address=self._address, seconds=self.timeout,
                    ) from None  # fmt: skip

    def _gathered(self, futures: list[Any]) -> Any:
        return self.client.sync(lambda: self.client.gather(futures, asynchronous=True), callback_timeout=self.timeout)

    def _n_threads(self) -> int:
        """Return the number of threads of all workers, or say that the scheduler does not answer."""

        def ask() -> Any:
            try:
                return self.client.sync(self.client.scheduler.ncores, callback_timeout=self.timeout)
            except TimeoutError as error:
                raise ConnectionError(f"no answer within {self.timeout:g} s") from error

        return sum(self._guarded(ask).values())

    def _guarded(self, work: Callable[[], Any], of_tasks: bool = False) -> Any:
        """Do something that needs the cluster, with a clear error if it is gone; errors of tasks are passed on."""
        from distributed.comm.core import CommClosedError  # noqa: PLC0415  (optional)

        gone = (CancelledError, CommClosedError) if of_tasks else (CancelledError, OSError)
        try:
            if self.client.status != "running":
                raise CommClosedError(f"the client is {self.client.status}")
            return work()
        except gone as error:
            if isinstance(error, TimeoutError):
                raise
            raise ClusterLostError(
                "the Dask scheduler at {address} went away ({error})",
                "Connect to a running cluster and run again; with a checkpoint, work resumes where it stopped",
                address=self._address, error=error,
            ) from error  # fmt: skip

    @property
    def _address(self) -> str:
        scheduler = getattr(self.client, "scheduler", None)
        return str(getattr(scheduler, "address", "an unknown address"))


@dataclass(frozen=True)
class _Parcel:
    """An item that Dask sends as it is, without looking into it for futures."""

    item: Any


def _opened(parcel: _Parcel) -> Any:
    return parcel.item


def _apply(function: Callable[..., Any], item: Any, arguments: tuple[Any, ...]) -> Any:
    _keep_memory()
    return function(item, *arguments)


@functools.cache
def _keep_memory() -> None:
    """Let this worker keep some of what its arrays free, as other processes do.

    Dask's nannies make workers return it to the system, array by array, and the system then clears every page before
    the next array can use it: a sixth of the time for parts of 10,000 sequences. Another setting is its user's wish.
    """
    if sys.platform == "linux" and os.environ.get("MALLOC_TRIM_THRESHOLD_") == _NANNYS_CHOICE:
        with contextlib.suppress(AttributeError):  # a C library without mallopt
            libc = ctypes.CDLL(None)
            libc.mallopt(_M_TRIM_THRESHOLD, _KEPT)
            libc.mallopt(_M_MMAP_THRESHOLD, _KEPT // 2)


def _token() -> str:
    """Return a name used only once; the digit in front ends the part of the key that the dashboard groups by."""
    return f"0{uuid.uuid4().hex}"
