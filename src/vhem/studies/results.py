"""Tables of the studies, as Markdown and JSON, with settings and versions."""

from __future__ import annotations

import contextlib
import json
import platform
import re
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from vhem._support.version import VERSION
from vhem.kernels.engine import engine


def provenance(settings: dict[str, Any], packages: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return settings and versions, to be stored with the numbers; of `packages`, those that are installed."""
    versions = {"vhem": VERSION} | {name: metadata.version(name) for name in ("numpy", "scipy", "scikit-learn")}
    for name in packages:
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    running = engine()
    return {
        "settings": settings,
        "versions": {**versions, "python": platform.python_version()},
        "engine": f"{running.name} ({running.instruction_set})",
    }


def markdown_table(header: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def write(folder: Path, name: str, text: str, numbers: dict[str, Any]) -> list[Path]:
    """Write `name`.md and `name`.json into `folder` and return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{name}.md", folder / f"{name}.json"]
    paths[0].write_text(text, encoding="utf-8")
    paths[1].write_text(json.dumps(numbers, indent=1), encoding="utf-8")
    return paths


def renew_tables(page: Path, tables: dict[str, str]) -> None:
    """Put tables into a page: each replaces the first table below the heading of its name, and the text stays."""
    text = page.read_text(encoding="utf-8")
    for title, table in tables.items():
        below = re.compile(rf"(^#+ {re.escape(title)}\n(?:(?!#|\|).*\n)*)(?:\|.*\n)+", re.MULTILINE)
        text = below.sub(lambda found, new=table: f"{found[1]}{new}\n", text)  # type: ignore[misc]
    page.write_text(text, encoding="utf-8")


def remembered(folder: Path, name: str, settings: dict[str, Any], compute: Callable[[], Any]) -> Any:
    """Return a part of a study from `folder`/parts if it was made with these settings; otherwise make and keep it.

    So an interrupted study resumes where it stopped.
    """
    path = folder / "parts" / f"{name}.json"
    asked = json.loads(json.dumps(settings))
    if path.exists():
        kept = json.loads(path.read_text(encoding="utf-8"))
        if kept["settings"] == asked:
            return kept["result"]
    result = compute()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"settings": asked, "result": result}), encoding="utf-8")
    return json.loads(json.dumps(result))


def mean_and_spread(values: list[float], digits: int = 3) -> str:
    """Return the mean and standard deviation of some values as text without line breaks; of one value, only that."""
    spread = f"\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}{np.std(values):.{digits}f}" if len(values) > 1 else ""
    return f"{np.mean(values):.{digits}f}{spread}"


class Meter:
    """CPU time and memory that the process uses from here on."""

    def __init__(self) -> None:
        self._begin, self._before = time.process_time(), _kilobytes("VmRSS")
        with contextlib.suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")  # Linux: resets the peak

    @property
    def seconds(self) -> float:
        """CPU seconds, of all threads together: other work on the machine does not affect them."""
        return time.process_time() - self._begin

    @property
    def megabytes(self) -> float:
        """The peak growth of the process; 0 if the system does not report it."""
        return (_kilobytes("VmHWM") - self._before) / 1024


def _kilobytes(name: str) -> int:
    try:
        found = re.search(name + r":\s+(\d+)", Path("/proc/self/status").read_text())
    except OSError:
        return 0
    return int(found[1]) if found else 0
