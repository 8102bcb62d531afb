"""How far a run is, from the JSON lines that its commands write."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

PROGRESS = "progress.jsonl"
_KEPT = 1500  # points of the curve of bounds


class Progress:
    """Follows the file of one run; each question reads only what is new."""

    def __init__(self, path: Path) -> None:
        self._path, self._at = path, 0
        self.command = ""  #: which of the run's commands is running
        self.step = ""  #: what it is doing
        self.steps: list[str] = []  #: what it has begun, in order
        self.steps_now: list[str] = []  #: the same, of the command that is running
        self.done: float | None = None  #: share of the step, if known
        self.detail = ""
        self.bounds: list[list[float]] = []  #: rows of restart, iteration and bound, of the step
        self.notes: list[str] = []
        self.said: list[str] = []  #: lines that are not JSON: the command's last words

    def refresh(self) -> None:
        """Read what was written since."""
        try:
            with open(self._path, "rb") as file:
                file.seek(self._at)
                new = file.read()
        except OSError:
            return
        whole = new.rfind(b"\n") + 1
        self._at += whole
        for line in new[:whole].decode("utf-8", "replace").splitlines():
            self._take(line)

    def _take(self, line: str) -> None:
        try:
            told: Any = json.loads(line)
        except ValueError:
            told = None
        if not isinstance(told, dict):
            self.said.append(line)
        elif "command" in told:
            self.command, self.said, self.steps_now = told["command"], [], []
            self._begin(told["command"])
        elif "step" in told:
            self._begin(told["step"])
        elif "note" in told:
            self.notes.append(told["note"])
        else:
            self._advance(told)

    def _begin(self, step: str) -> None:
        self.step, self.done, self.detail, self.bounds = step, None, "", []
        self.steps.append(step)
        self.steps_now.append(step)

    def _advance(self, told: dict[str, Any]) -> None:
        self.done, self.detail = told.get("done"), told.get("detail", "")
        if "bound" in told:
            point = [told.get("restart", 1), told.get("iteration", 0), told["bound"]]
            if any(restart == point[0] and iteration > point[1] for restart, iteration, _ in self.bounds[-50:]):
                self.bounds = []  # another fit has begun
            self.bounds.append(point)
            if len(self.bounds) > _KEPT:  # every second point draws the same curve
                self.bounds = self.bounds[::2]

    def last_words(self) -> str:
        """Return what the command said when it failed."""
        lines = [line for line in self.said if line.strip()]
        return lines[-1].removeprefix("vhem: ") if lines else ""


def begin_command(path: Path, name: str, at: float) -> None:
    """Note in a run's file that one of its commands begins."""
    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps({"command": name, "at": at}) + "\n")
