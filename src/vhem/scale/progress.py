"""The progress of a long run."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

_EVERY = 1.0  # seconds between lines


class PartProgress(NamedTuple):
    """The progress of a run, which a `callback` receives after every part."""

    stage: str  #: "learning", "pass 1" (of EM over all data), "labelling"
    part: str  #: its name
    n_done: int  #: parts so far
    n_parts: int | None  #: parts in all, if known
    n_sequences: int  #: so far
    n_skipped: int  #: parts skipped so far
    seconds: float  #: since the run began


class Watch:
    """Reports progress to a callback and, if wanted, to the terminal."""

    def __init__(self, callback: Callable[[PartProgress], None] | None, verbose: bool, n_parts: int | None) -> None:
        self.callback, self.verbose, self.n_parts = callback, verbose, n_parts
        self.stage, self.begin, self.printed, self.n_done = "learning", time.monotonic(), -_EVERY, 0

    def at(self, stage: str) -> Watch:
        """Begin another stage."""
        self.stage, self.n_done = stage, 0
        return self

    def tell(self, part: str, n_sequences: int, n_skipped: int, n_done: int | None = None) -> None:
        """Report that one more part is done."""
        self.n_done = self.n_done + 1 if n_done is None else n_done
        now = time.monotonic() - self.begin
        progress = PartProgress(self.stage, part, self.n_done, self.n_parts, n_sequences, n_skipped, now)
        if self.callback is not None:
            self.callback(progress)
        if self.verbose and (now - self.printed >= _EVERY or self.n_done == self.n_parts):
            self.printed = now
            print(as_line(progress), flush=True)


def as_line(progress: PartProgress) -> str:
    """Return progress as a line of text.

    Examples
    --------
    >>> as_line(PartProgress("learning", "a.parquet", 5, 20, 100_000, 1, 12.0))
    'learning: part 5 of 20, 100,000 sequences, 1 part skipped, 12 s, about 36 s left'
    """
    of = "" if progress.n_parts is None else f" of {progress.n_parts}"
    words = [f"{progress.stage}: part {progress.n_done}{of}", f"{progress.n_sequences:,} sequences"]
    if progress.n_skipped:
        words.append(f"{progress.n_skipped} part{'s' * (progress.n_skipped > 1)} skipped")
    words.append(f"{progress.seconds:.0f} s")
    if progress.n_parts is not None and progress.n_done < progress.n_parts:
        left = progress.seconds * (progress.n_parts - progress.n_done) / progress.n_done
        words.append(f"about {left:.0f} s left")
    return ", ".join(words)
