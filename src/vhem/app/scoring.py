"""New people under a saved run: which cluster suits each, by `vhem score`."""

from __future__ import annotations

import asyncio
import csv
import sys
from pathlib import Path
from typing import Any

from vhem.app.settings import ChoiceError, table_arguments
from vhem.cli.run_folder import RunFolder

SCORES, PEOPLE = "scores.csv", "scores.groups.csv"
_SHOWN = 500  # rows that the page shows


async def score(run: Path, table: Path, roles: dict[str, Any], out: Path) -> dict[str, Any]:
    """Score a table under the centres of a run; return the rows, people before sequences if there are people."""
    out.mkdir(parents=True, exist_ok=True)
    words = ["score", str(run), str(table), *table_arguments(roles, table.parent), "-o", str(out / SCORES)]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-m", "vhem.cli", *words, stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE, cwd=out,
    )  # fmt: skip
    _, said = await process.communicate()
    if process.returncode:
        lines = said.decode("utf-8", "replace").strip().splitlines() or ["vhem: the command ended without a word."]
        raise ChoiceError(lines[-1].removeprefix("vhem: ").replace(f"{table.parent}/", ""))
    return scores(out)


async def notes_on(
    run: Path, own: tuple[Path, dict[str, Any]], names: list[str], out: Path, own_out: Path
) -> list[str]:
    """Return what is odd about people who were scored.

    Parameters
    ----------
    run : Path
        The folder of the run.
    own : tuple
        The run's own table, and the roles of its columns.
    names : list of str
        The new table's columns of values.
    out, own_out : Path
        Where the scores of the new table are, and where those of the run's own go.
    """
    notes, known = list[str](), RunFolder(run).feature_names
    if known and known != names:
        notes.append(
            f"The run is about {', '.join(known)}; this table has {', '.join(names)}. "
            "They were taken to be the same, in this order."
        )
    if not (own_out / SCORES).is_file():
        await score(run, *own, own_out)
    for file in (PEOPLE, SCORES):
        if (out / file).is_file() and (own_out / file).is_file():
            best, lowest = max(_per_frame(out / file)), min(_per_frame(own_out / file))
            return [*notes, _MISFIT.format(best=best, lowest=lowest)] if best < lowest else notes
    return notes


_MISFIT = (
    "All of them fit worse than everybody the clusters were made of (log-likelihood per observation at most "
    "{best:.2f}; the lowest there is {lowest:.2f}). Their values may have another unit or meaning: do "
    "not rely on these clusters."
)


def _per_frame(path: Path) -> list[float]:
    with open(path, newline="", encoding="utf-8") as file:
        return [float(row["per_frame"]) for row in csv.DictReader(file)]


def scores(out: Path) -> dict[str, Any]:
    """Return the rows of scores that were written."""
    files = {"people": out / PEOPLE, "sequences": out / SCORES}
    return {name: _rows(path) for name, path in files.items() if path.is_file()}


def _rows(path: Path) -> dict[str, Any]:
    with open(path, newline="", encoding="utf-8") as file:
        header, *rows = list(csv.reader(file))
    return {"columns": header, "rows": rows[:_SHOWN], "n": len(rows)}
