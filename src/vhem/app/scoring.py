"""Tables about people and a saved run: which cluster suits new ones, and what goes with the clusters."""

from __future__ import annotations

import asyncio
import csv
import json
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
    await _command(words, table)
    return scores(out)


async def associated(run: Path, table: Path) -> dict[str, Any]:
    """Return which columns of a table about the people go with the clusters of a run: a table, and a sentence."""
    words = ["associate", str(run), f"--table={table}", "--bootstrap", "0", "--json"]
    found: dict[str, Any] = json.loads(await _command(words, table))
    return {"sentence": found["sentence"], "table": found["table"]}


async def _command(words: list[str], table: Path) -> str:
    """Run a command about a table, and return what it prints; what it complains about becomes an error."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-m", "vhem.cli", *words, stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, cwd=table.parent,
    )  # fmt: skip
    printed, said = await process.communicate()
    if process.returncode:
        lines = said.decode("utf-8", "replace").strip().splitlines() or ["vhem: the command ended without a word."]
        text = lines[-1].removeprefix("vhem: ").replace(f"{table.parent}/", "")
        raise ChoiceError(text[:1].upper() + text[1:])
    return printed.decode("utf-8")


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
            return [*notes, *_misfits(_per_frame(out / file), min(_per_frame(own_out / file).values()))]
    return notes


def _misfits(new: dict[str, float], lowest: float) -> list[str]:
    """Return a note on those who fit worse than everybody the clusters were made of."""
    worse = [name for name, value in new.items() if value < lowest]
    if not worse:
        return []
    named = ", ".join(worse[:_NAMED]) + (f" and {len(worse) - _NAMED} more" if len(worse) > _NAMED else "")
    who = "All of them fit" if 1 < len(worse) == len(new) else f"{named} {'fits' if len(worse) == 1 else 'fit'}"
    return [_MISFIT.format(who=who, best=max(new[name] for name in worse), lowest=lowest)]


_NAMED = 12  # people
_MISFIT = (
    "{who} worse than everybody the clusters were made of (log-likelihood per observation {best:.2f} or less; the "
    "lowest there is {lowest:.2f}). The values may have another unit or meaning, or the behaviour is a new one: do not "
    "rely on the cluster, however probable it is among the others."
)


def _per_frame(path: Path) -> dict[str, float]:
    with open(path, newline="", encoding="utf-8") as file:
        return {row["id"]: float(row["per_frame"]) for row in csv.DictReader(file)}


def scores(out: Path) -> dict[str, Any]:
    """Return the rows of scores that were written."""
    files = {"people": out / PEOPLE, "sequences": out / SCORES}
    return {name: _rows(path) for name, path in files.items() if path.is_file()}


def _rows(path: Path) -> dict[str, Any]:
    with open(path, newline="", encoding="utf-8") as file:
        header, *rows = list(csv.reader(file))
    return {"columns": header, "rows": rows[:_SHOWN], "n": len(rows)}
