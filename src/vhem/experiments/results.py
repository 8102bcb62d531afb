"""Tables of the studies, as Markdown and JSON, with what made them."""

from __future__ import annotations

import json
import platform
from importlib import metadata
from pathlib import Path
from typing import Any

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
