"""A line that shows how a long fit goes: on a terminal or in a notebook, after two seconds, and gone at the end."""

from __future__ import annotations

import functools
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, cast

AFTER = 2.0  # seconds: what is shorter shows nothing
_EVERY = 0.1  # seconds between two updates

Function = TypeVar("Function", bound=Callable[..., Any])

_current: Display | None = None  # of the outermost fit; those inside it report to it
_silent = False


class Display:
    """The line of one fit, with what it does and for how long it has."""

    def __init__(self, what: str) -> None:
        self._what, self._begin, self._last, self._n_steps = what, time.monotonic(), 0.0, 0
        self._bar: Any = None
        self._task: Any = None
        self._lock = threading.Lock()
        self._timer = threading.Timer(AFTER, self._show)  # the first step may take long
        self._timer.daemon = True
        self._timer.start()

    def _show(self) -> None:
        with self._lock:
            if not self._timer.finished.is_set():  # the fit has not ended meanwhile
                self._bar, self._task = _new_bar(self._what, self._begin)

    def step(self, bound: float) -> None:
        """Note another E-step, in any thread, after which the objective was `bound`."""
        with self._lock:
            self._n_steps += 1
            if self._bar is not None and time.monotonic() - self._last >= _EVERY:
                self._last = time.monotonic()
                self._bar.update(self._task, steps=f"{self._n_steps} iterations, objective {bound:.7g}")

    def close(self) -> None:
        """Take the line away."""
        self._timer.cancel()
        with self._lock:
            if self._bar is not None:
                self._bar.stop()


def _new_bar(what: str, begin: float) -> tuple[Any, Any]:
    from rich.console import Console  # noqa: PLC0415  (only if something is shown)
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[steps]}"), TimeElapsedColumn())
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    bar.start()
    task = bar.add_task(what, total=None, steps="")
    bar.tasks[0].start_time = bar.get_time() - (time.monotonic() - begin)
    return bar, task


def told(bound: float) -> None:
    """Report an E-step to the fit that is shown, if one is."""
    if _current is not None:
        _current.step(bound)


def has_reader() -> bool:
    """Whether there is a terminal or a notebook in which somebody may wait."""
    notebook = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return sys.stderr.isatty() or type(notebook).__name__ == "ZMQInteractiveShell"


@contextmanager
def silenced() -> Iterator[None]:
    """Show nothing inside: the command has progress bars of its own."""
    global _silent  # noqa: PLW0603
    before, _silent = _silent, True
    try:
        yield
    finally:
        _silent = before


@contextmanager
def shown(what: str, wanted: bool) -> Iterator[None]:
    """Show what is inside, unless it is part of something that is shown already."""
    global _current  # noqa: PLW0603  (one fit is shown at a time)
    if not wanted or _silent or _current is not None or not has_reader():
        yield
        return
    _current = Display(what)
    try:
        yield
    finally:
        display, _current = _current, None
        display.close()


def showing(fit: Function) -> Function:
    """Let a method `fit` show its progress, unless `verbose` says otherwise or a callback watches already."""

    @functools.wraps(fit)
    def wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
        wanted = getattr(self, "verbose", None) is None and getattr(self, "callback", None) is None
        with shown(type(self).__name__, wanted):
            return fit(self, *args, **kwargs)

    return cast(Function, wrapped)


def showing_call(function: Function) -> Function:
    """Let a function show its progress, unless its `verbose` says otherwise or a callback watches already."""

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        with shown(function.__name__, kwargs.get("verbose") is None and kwargs.get("callback") is None):
            return function(*args, **kwargs)

    return cast(Function, wrapped)
