"""vhem info: what a file or folder holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from vhem.cli import summary
from vhem.cli.inputs import Input, is_model, read_model, read_sequences_only
from vhem.cli.run_folder import RunFolder
from vhem.cli.shared import TableOptions, expanded
from vhem.files import describe
from vhem.models import H3M


@expanded
def info(
    path: Annotated[Path, typer.Argument(help="A model file, the folder of a run, or sequences.", show_default=False)],
    table: TableOptions,
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
) -> None:
    """Tell what a model file, the folder of a run, or a table holds, and what made it.

    For example:

        vhem info out/centers.vhem

        vhem info fixations.csv --id subject,trial
    """
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}.")
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
    numbers = {"command": run.command, "options": run.options, "made_with": run.made_with, "files": files}
    text = (run.path / "summary.txt").read_text(encoding="utf-8").rstrip()
    return numbers, f"vhem {run.command}, with vhem {run.made_with['vhem']}: {', '.join(files)}\n\n{text}"


def _of_model(path: Path) -> tuple[dict[str, Any], str]:
    content = read_model(path).content
    numbers: dict[str, Any] = {"model": repr(content), "bytes": path.stat().st_size}
    if path.suffix == ".vhem":
        about = describe(path)
        numbers |= {"kind": about.kind, "feature_names": about.feature_names, "vhem": about.vhem_version}
        numbers["about"] = json.loads(json.dumps(about.about, default=str))
    lines = [repr(content)]
    if numbers.get("feature_names"):
        lines.append(f"dimensions: {', '.join(numbers['feature_names'])}")
    if isinstance(content, H3M):
        shown = ", ".join(map(str, content.ids[:12]))
        lines.append(f"ids: {shown}{f' … ({len(content)})' if len(content) > 12 else ''}")
    if numbers.get("about"):
        lines.append(f"made by vhem {numbers['vhem']}: {json.dumps(numbers['about'], ensure_ascii=False)}")
    return numbers, "\n".join(lines)


def _of_sequences(found: Input) -> str:
    numbers = summary.of_input(found)
    lines = [summary.input_text(found), f"lengths: {numbers['shortest']} to {numbers['longest']}"]
    for role, columns in numbers["columns"].items():
        lines.append(f"{role}: {columns if isinstance(columns, str) else ', '.join(columns)}")
    return "\n".join(lines)
