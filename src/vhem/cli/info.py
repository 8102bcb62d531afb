"""vhem info: what a file or folder holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from vhem._support.paths import existing_file
from vhem.cli import in_words as summary
from vhem.cli.inputs import Input, is_model, read_model, read_sequences_only, ungrouped
from vhem.cli.run_folder import SUMMARY_TEXT, RunFolder
from vhem.cli.shared import TableOptions, expanded
from vhem.files import describe
from vhem.models import H3M


@expanded
def info(
    path: Annotated[Path, typer.Argument(help="A model file, the folder of a run, or sequences.", show_default=False)],
    table: TableOptions,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
) -> None:
    """Show what a model file, the folder of a run, or a table holds, and how it was made.

    For example:

        vhem info out/centers.vhem

        vhem info fixations.csv --id subject,trial
    """
    if not path.is_dir():
        existing_file(path)
    if path.is_dir() and is_model(path):
        numbers, text = _of_run(RunFolder(path))
    elif is_model(path):
        numbers, text = _of_model(path)
    else:
        found = read_sequences_only(path, table.reading())
        numbers, text = summary.of_input(found), _of_sequences(found)
    typer.echo(json.dumps(numbers, indent=1, ensure_ascii=False) if as_json else text)


def _of_run(run: RunFolder) -> tuple[dict[str, Any], str]:
    files = sorted(p.name for p in run.path.iterdir() if p.is_file())
    origin = {"command": run.command, "options": run.options, "made_with": run.made_with}
    text = (run.path / SUMMARY_TEXT).read_text(encoding="utf-8").rstrip()
    lines = [f"files: {', '.join(files)}", *_origin(None, origin), "", text]
    return {**origin, "files": files}, "\n".join(lines)


def _of_model(path: Path) -> tuple[dict[str, Any], str]:
    found = read_model(path)
    content = found.content
    numbers: dict[str, Any] = {"model": repr(content), "bytes": path.stat().st_size}
    numbers |= {"kind": type(content).__name__, "feature_names": found.feature_names}
    numbers["vhem"] = None if path.suffix == ".mat" else describe(path).vhem_version
    numbers["about"] = json.loads(json.dumps(found.about, default=str))
    lines = [repr(content)]
    if found.feature_names:
        lines.append(f"dimensions: {', '.join(found.feature_names)}")
    if isinstance(content, H3M):
        numbers["ids"] = content.ids
        lines.append(f"ids: {_first(content.ids)}")
    return numbers, "\n".join([*lines, *_origin(numbers["vhem"], numbers["about"])])


def _origin(version: str | None, about: dict[str, Any]) -> list[str]:
    """Return how a model was made, in lines."""
    rest = dict(about)
    command, options, made_with = (rest.pop(key, None) for key in ("command", "options", "made_with"))
    by = f"`vhem {command}`" if command else "Python" if version else "another program"
    versions = made_with if isinstance(made_with, dict) else {"vhem": version} if version else {}
    lines = [f"made by: {by}{', with ' if versions else ''}{', '.join(f'{k} {v}' for k, v in versions.items())}"]
    if isinstance(options, dict):
        lines.append(f"options: {', '.join(f'{key} = {_shown(value)}' for key, value in options.items())}")
    return lines + [f"{key.replace('_', ' ')}: {_shown(value)}" for key, value in rest.items()]


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _first(names: list[Any]) -> str:
    """Return names as text: only the first of very many."""
    shown = ", ".join(map(str, names[:12]))
    return f"{shown} … ({len(names)})" if len(names) > 12 else shown


def _of_sequences(found: Input) -> str:
    numbers = summary.of_input(found)
    lines = [summary.input_text(found), f"lengths: {numbers['shortest']} to {numbers['longest']}"]
    for role, columns in numbers["columns"].items():
        lines.append(f"{role}: {columns if isinstance(columns, str) else _first(list(columns))}")
    if person := ungrouped(found):
        lines.append(f"group: none; for one HMM per {person}, give --group {person}")
    return "\n".join(lines)
