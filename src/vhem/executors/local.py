"""The interface of executors, and those that stay in this process."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from typing import Any, Protocol, runtime_checkable

from vhem._support.errors import ParameterError
from vhem.kernels.engine import n_threads
from vhem.kernels.stopping import stoppable_threads

_AHEAD = 2  # tasks waiting per running one: enough to keep all busy, few enough to keep memory flat


@runtime_checkable
class Executor(Protocol):
    """Somewhere to apply functions to many items, with the results in the order of the items.

    Examples
    --------
    >>> from vhem.executors import Executor, SerialExecutor
    >>> anywhere: Executor = SerialExecutor()
    >>> list(anywhere.map(abs, anywhere.keep([-1, 2], "numbers"), name="size"))
    [1, 2]
    """

    @property
    def inner_jobs(self) -> int | None:
        """`n_jobs` of a task's own loops: 1 if tasks run in parallel, None if one runs at a time."""
        ...

    def keep(self, items: Sequence[Any], name: str) -> list[Any]:
        """Bring items to where the work is done, once, and return what `map` takes in their place."""
        ...

    def map(self, function: Callable[..., Any], items: Iterable[Any], *arguments: Any, name: str) -> Iterator[Any]:
        """Yield ``function(item, *arguments)`` of every item, in order; items are taken only as work proceeds."""
        ...


class SerialExecutor:
    """One task after another, each with as many threads as it likes.

    Examples
    --------
    >>> list(SerialExecutor().map(pow, [1, 2, 3], 2, name="square"))
    [1, 4, 9]
    """

    inner_jobs: int | None = None

    def keep(self, items: Sequence[Any], name: str) -> list[Any]:
        """Return the items."""
        del name
        return list(items)

    def map(self, function: Callable[..., Any], items: Iterable[Any], *arguments: Any, name: str) -> Iterator[Any]:
        """Yield the results, one at a time."""
        del name
        return (function(item, *arguments) for item in items)


class ThreadsExecutor:
    """Tasks in parallel threads of this process, each on one core; the compiled kernels release the GIL.

    Parameters
    ----------
    n_jobs : int, optional
        Threads; None or -1 uses every core.

    Examples
    --------
    >>> list(ThreadsExecutor(2).map(pow, [1, 2, 3], 2, name="square"))
    [1, 4, 9]
    """

    inner_jobs: int | None = 1

    def __init__(self, n_jobs: int | None = None) -> None:
        self.n_jobs = n_jobs

    def keep(self, items: Sequence[Any], name: str) -> list[Any]:
        """Return the items."""
        del name
        return list(items)

    def map(self, function: Callable[..., Any], items: Iterable[Any], *arguments: Any, name: str) -> Iterator[Any]:
        """Yield the results in order, with a few tasks begun ahead."""
        del name
        threads = n_threads(self.n_jobs)
        with stoppable_threads(threads) as pool:
            yield from in_order(lambda item: pool.submit(function, item, *arguments), items, _AHEAD * threads)


def in_order(submit: Callable[[Any], Future[Any]], items: Iterable[Any], window: int) -> Iterator[Any]:
    """Yield the results of submitted items in order, with at most `window` of them under way."""
    running: deque[Future[Any]] = deque()
    for item in items:
        running.append(submit(item))
        if len(running) >= window:
            yield running.popleft().result()
    while running:
        yield running.popleft().result()


def as_executor(value: Any, n_jobs: int | None = None) -> Executor:
    """Return the executor that a parameter `executor` asks for.

    Parameters
    ----------
    value : None, "serial", "threads", dask.distributed.Client or Executor
        None is the same as "serial".
    n_jobs : int, optional
        Threads of "threads".

    Returns
    -------
    Executor
        The executor.

    Examples
    --------
    >>> from vhem.executors import as_executor
    >>> list(as_executor("threads", 2).map(pow, [1, 2, 3], 2, name="square"))
    [1, 4, 9]
    """
    if value is None or value == "serial":
        return SerialExecutor()
    if isinstance(value, str) and value == "threads":
        return ThreadsExecutor(n_jobs)
    if type(value).__module__.startswith("distributed") and hasattr(value, "submit"):
        from vhem.executors.dask import DaskExecutor  # noqa: PLC0415

        return DaskExecutor(value)
    if not isinstance(value, str) and isinstance(value, Executor):
        return value
    choices = "must be 'serial', 'threads', a dask.distributed.Client or an Executor of vhem.executors"
    raise ParameterError("executor", value, choices)
