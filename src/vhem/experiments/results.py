"""Tables of the studies, as Markdown and JSON, with what made them."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from vhem.kernels.engine import engine


def provenance(settings: dict[str, Any]) -> dict[str, Any]:
    """Return settings and versions, to be kept beside the numbers."""
    versions = {name: metadata.version(name) for name in ("vhem", "numpy", "scipy", "scikit-learn")}
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


def remembered(folder: Path, name: str, settings: dict[str, Any], compute: Callable[[], Any]) -> Any:
    """Return a part of a study from `folder`/parts if it is there, made with these settings; else make and keep it.

    So a long study that was interrupted goes on where it stopped.
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
    """Return the mean and standard deviation of some values as text."""
    return f"{np.mean(values):.{digits}f} ± {np.std(values):.{digits}f}"
