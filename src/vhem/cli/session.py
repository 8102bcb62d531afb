"""What happens around a command: progress, warnings, Ctrl-C, and what is printed at the end."""

from __future__ import annotations

import json
import sys
import time
import warnings
from types import TracebackType
from typing import Any, Self

import typer

from vhem.cli.naming import Doing, told
from vhem.em.progress import FitProgress, Progress
from vhem.scale.progress import PartProgress

_PLAIN_EVERY = 5.0  # seconds between lines if there is no terminal
_JSON_EVERY = 0.04  # the same if a program reads them

#: What an interrupted command leaves behind; reported when Ctrl-C is caught.
kept = "Nothing was written."
#: What is being done.
doing = Doing.LEARNING


def start_afresh() -> None:
    """Forget the previous command."""
    global kept, doing  # one command runs at a time
    kept, doing = "Nothing was written.", Doing.LEARNING


def remember(message: str) -> None:
    """Set what is reported as kept if the command is interrupted from now on."""
    global kept  # noqa: PLW0603  (one command runs at a time)
    kept = message


class Session:
    """Progress and warnings of one command, as a context manager.

    Parameters
    ----------
    quiet : bool
        Show no progress.
    progress : {"auto", "json"}
        Show progress to people, or write it to stderr for programs, one JSON object per line: ``step`` when something
        begins; ``done`` (a share), ``detail``, and of a clustering ``bound``, ``restart``, ``restarts`` and
        ``iteration``, as it proceeds; ``note`` for a warning.
    """

    def __init__(self, quiet: bool = False, progress: str = "auto") -> None:
        self.quiet = quiet
        self.as_json = progress == "json"
        self.warnings: list[str] = []
        self._bar: Any = None
        self._task: Any = None
        self._what = ""
        self._begin = self._last = time.monotonic()
        self._catcher = warnings.catch_warnings(record=True)

    def __enter__(self) -> Self:
        self._caught = self._catcher.__enter__()
        warnings.simplefilter("always")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end_bar()
        self._catcher.__exit__(kind, value, trace)
        self.gather_warnings()
        for message in self.warnings:
            typer.echo(json.dumps({"note": message}) if self.as_json else f"note: {message}", err=True)

    def gather_warnings(self) -> list[str]:
        """Return the warnings so far, each once, in the command's words."""
        while self._caught:
            message = told(self._caught.pop(0).message, doing)
            if message not in self.warnings:
                self.warnings.append(message)
        return self.warnings

    def begin(self, what: str, task: Doing = Doing.LEARNING) -> None:
        """Start to show the progress of something; `task` is what is being done."""
        global doing  # noqa: PLW0603
        self.gather_warnings()
        doing = task
        self._end_bar()
        self._what, self._begin = what, time.monotonic()
        self._last = self._begin
        if self.as_json:
            typer.echo(json.dumps({"step": what}), err=True)
        if self.quiet or self.as_json or not sys.stderr.isatty():
            return
        from rich.console import Console  # noqa: PLC0415  (only if there is a terminal)
        from rich.progress import BarColumn, TextColumn, TimeRemainingColumn  # noqa: PLC0415
        from rich.progress import Progress as Bar  # noqa: PLC0415

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[detail]}"),
            TimeRemainingColumn(),
        )
        self._bar = Bar(*columns, console=Console(stderr=True), transient=True)
        self._task = self._bar.add_task(what, total=1.0, detail="")
        self._bar.start()

    def update(self, done: float, detail: str, **facts: float) -> None:
        """Show that a share of the work is done; `facts` are for programs."""
        if self.as_json:
            self._write(done, detail, facts)
            return
        if self._bar is not None:
            self._bar.update(self._task, completed=done, detail=detail)
            return
        now = time.monotonic()
        if self.quiet or now - self._last < _PLAIN_EVERY:
            return
        self._last = now
        left = f", about {(now - self._begin) * (1 - done) / done:.0f} s left" if done > 0.01 else ""
        typer.echo(f"{self._what}: {done:.0%}, {detail}{left}", err=True)

    def _write(self, done: float, detail: str, facts: dict[str, float]) -> None:
        """Write where the work stands, but not so often that writing becomes the work."""
        now = time.monotonic()
        if now - self._last >= _JSON_EVERY:
            self._last = now
            typer.echo(json.dumps({"done": round(done, 4), "detail": detail, **facts}), err=True)

    def _end_bar(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def learning(self, part: int, n_parts: int) -> Any:
        """Return a callback for `fit_hmms`, which learns one of several parts."""

        def callback(progress: FitProgress) -> None:
            within = (progress.start + progress.n_settled / progress.n_hmms) / progress.n_starts
            detail = f"{progress.n_settled} of {progress.n_hmms} HMMs converged, start {progress.start + 1}"
            self.update((part + within) / n_parts, f"{detail} of {progress.n_starts}")

        return callback

    def clustering(self, max_iter: int, n_fits: int = 1) -> Any:
        """Return a callback for `VHEM` and similar; for several fits in a row, the share is that of all together."""
        shares: dict[int, float] = {}
        finished = 0

        def callback(progress: Progress) -> None:
            nonlocal finished
            over = progress.converged or progress.iteration == max_iter
            shares[progress.restart] = 1.0 if over else progress.iteration / (max_iter + 1)
            done = sum(shares.values()) / progress.n_restarts
            if done >= 1.0 and len(shares) == progress.n_restarts:
                finished += 1
                shares.clear()
                done = 0.0
            detail = f"restart {progress.restart + 1} of {progress.n_restarts}, bound {progress.lower_bound:.6g}"
            self.update(
                min(1.0, (finished + done) / n_fits), detail, bound=progress.lower_bound,
                restart=progress.restart + 1, restarts=progress.n_restarts, iteration=progress.iteration,
            )  # fmt: skip

        return callback

    def parts(self, progress: PartProgress) -> None:
        """Show how much of the data in parts has been processed: a callback for `PartitionedH3M`."""
        remember("What was learned is kept; the same command resumes from there.")
        done = progress.n_done / progress.n_parts if progress.n_parts else 0.0
        self.update(done, f"{progress.stage}, {progress.n_sequences:,} sequences")


def show(text: str, numbers: dict[str, Any], as_json: bool) -> None:
    """Print the results, for people or for programs."""
    typer.echo(json.dumps(numbers, indent=1, ensure_ascii=False) if as_json else text)
