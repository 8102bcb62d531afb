"""New people under a saved run: which cluster suits each, by `vhem score`."""

from __future__ import annotations

import asyncio
import csv
import sys
from pathlib import Path
from typing import Any

from vhem.app.settings import ChoiceError, table_arguments

SCORES = "scores.csv"
_SHOWN = 500  # rows that the page shows


async def score(run: Path, table: Path, roles: dict[str, Any], out: Path) -> dict[str, Any]:
    """Score a table under the centres of a run; return the rows, people before sequences if there are people."""
    out.mkdir(parents=True, exist_ok=True)
    words = ["score", str(run), str(table), *table_arguments(roles), "-o", str(out / SCORES)]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-m", "vhem.cli", *words, stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE, cwd=out,
    )  # fmt: skip
    _, said = await process.communicate()
    if process.returncode:
        lines = said.decode("utf-8", "replace").strip().splitlines() or ["vhem: the command ended without a word."]
        raise ChoiceError(lines[-1].removeprefix("vhem: ").replace(f"{table.parent}/", ""))
    return scores(out)


def scores(out: Path) -> dict[str, Any]:
    """Return the rows of scores that were written."""
    files = {"people": out / "scores.groups.csv", "sequences": out / SCORES}
    return {name: _rows(path) for name, path in files.items() if path.is_file()}


def _rows(path: Path) -> dict[str, Any]:
    with open(path, newline="", encoding="utf-8") as file:
        header, *rows = list(csv.reader(file))
    return {"columns": header, "rows": rows[:_SHOWN], "n": len(rows)}
