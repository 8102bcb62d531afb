"""The clustering that a folder of a run holds, in the form that reports and pictures take."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import typer

from vhem._support.errors import InputError
from vhem._support.paths import existing_file
from vhem.cli.run_folder import ASSOCIATE, COMPARE, RunFolder
from vhem.cli.statistics import classes_of
from vhem.files.labels import as_written
from vhem.inference.comparison import Comparison, key_of
from vhem.report.clustering import Clustering, owners_of, typical_length
from vhem.report.fit_facts import (
    FitFacts,
    Setting,
    bound_figure,
    facts_of,
    iterations_figure,
    probabilities_figure,
)
from vhem.sequences import Sequences

_METHODS = {"cluster": "VHEM", "tree": "HierarchicalVHEM", "mixture": "MixtureOfHMMs"}


def read_clustering(
    ctx: typer.Context, run: RunFolder, with_sequences: bool, classes: str | None, notes: list[str]
) -> Clustering:
    """Return what a run found; if its sequences cannot be read again, that is added to `notes`."""
    if run.command not in _METHODS:
        raise InputError(
            "{path} was made by `vhem {command}`, which does not cluster",
            "run `vhem cluster {path} --clusters 3 -o clusters` first",
            path=run.path, command=run.command,
        )  # fmt: skip
    ids = run.labels.ids
    inputs = None if run.command == "mixture" else run.hmms
    data = _sequences(run, notes) if with_sequences else None
    levels, parents, labels = [run.centers], [run.labels.labels], [run.labels.labels]
    if run.command == "tree":
        levels, parents, labels = run.tree.levels_, run.tree.parents_, run.tree.labels_
    return Clustering(
        run=_run(ctx, run),
        names=ids,
        inputs=inputs,
        levels=levels,
        parents=parents,
        labels=labels,
        responsibilities=run.labels.responsibilities,
        sequences=data,
        owners=None if data is None else owners_of(data, None, ids),
        classes=None if classes is None else known_classes(classes, run),
        tau=int(run.summary.get("tau") or typical_length(data)),
        statistics=_statistics(run, notes),
    )


def known_classes(given: str, run: RunFolder) -> list[str]:
    """Return the class of everybody: from a csv with the columns id and class, or a column of the run's own table."""
    path = Path(given)
    is_file = path.is_file() or len(path.parts) > 1 or path.suffix.lower() in (".csv", ".tsv", ".txt")
    return read_classes(path, run.labels.ids) if is_file else classes_of(run, given)


def _statistics(run: RunFolder, notes: list[str]) -> Comparison | None:
    """Return what `vhem compare` and `vhem associate` found about this run, if they were run."""
    parts = [part for command in (COMPARE, ASSOCIATE) if (part := _found_by(command, run, notes)) is not None]
    if len(parts) < 2:
        return parts[0] if parts else None
    one, other = parts
    return one._replace(
        tables=one.tables + other.tables, sentences=one.sentences + other.sentences,
        warnings=one.warnings + other.warnings, methods=f"{one.methods} {other.methods}".strip(),
    )  # fmt: skip


def _found_by(command: str, run: RunFolder, notes: list[str]) -> Comparison | None:
    path = run.path / command / "statistics.json"
    if not path.is_file():
        return None
    found = Comparison.from_json(path.read_text(encoding="utf-8"))
    if found.key != key_of(run.labels.ids, run.labels.labels):
        notes.append(f"Statistics in {path.parent} are about other clusters; run `vhem {command} {run.path}` again.")
        return None
    return found


def _sequences(run: RunFolder, notes: list[str]) -> Sequences | None:
    try:
        return run.sequences()
    except (OSError, ValueError) as fault:
        notes.append(f"Sequences are not shown: {fault}")
        return None


def _shown(name: str, value: Any) -> str:
    """Return an option as it is typed; of files, a report that is passed on needs only the names."""
    if name in ("data", "out"):
        return Path(str(value)).name
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _run(ctx: typer.Context, run: RunFolder) -> FitFacts:
    group: Any = ctx.parent.command if ctx.parent else None
    defaults = {p.name: p.default for p in group.commands[run.command].params} if group else {}
    settings = [Setting(name, _shown(name, value), defaults.get(name) != value) for name, value in run.options.items()]
    settings.sort(key=lambda row: not row.changed)
    numbers = run.summary
    figures = []
    if "lower_bound" in numbers:
        figures.append(bound_figure(numbers["lower_bound"]))
    if "iterations" in numbers:
        figures.append(iterations_figure(numbers["iterations"], numbers.get("converged", True)))
    if numbers.get("probabilities"):
        figures.append(probabilities_figure(numbers["probabilities"]))
    restarts = run.restarts
    if run.command == "tree":
        own = facts_of(run.tree, "hmms")
        figures, restarts = own.figures, own.restarts
    return FitFacts(_METHODS[run.command], settings, figures, restarts, list(numbers.get("notes", [])), "")


def read_classes(path: Path, ids: list[str]) -> list[str]:
    """Return the class of every id, from a table with the columns `id` and `class` (or with just these two).

    Cells are separated by commas, semicolons or tabs, as the header shows.
    """
    with open(existing_file(path), newline="", encoding="utf-8-sig") as file:
        text = file.read()
    delimiter = max(",;\t", key=text.partition("\n")[0].count)
    header, *rows = [row for row in csv.reader(text.splitlines(), delimiter=delimiter) if row] or [[]]
    if len(header) != 2 and not {"id", "class"} <= set(header):
        raise InputError(
            "{path} must have two columns, id and class, with a header; it has {header}",
            path=path, header=header,
        )  # fmt: skip
    key, value = (header.index(name) if name in header else k for k, name in enumerate(("id", "class")))
    known: dict[str, str] = {}
    for row in ([as_written(cell) for cell in row] for row in rows):
        if len(row) > max(key, value) and known.setdefault(row[key], row[value]) != row[value]:
            raise InputError(
                "{path} has two classes for {id!r}: {known!r} and {other!r}",
                path=path, id=row[key], known=known[row[key]], other=row[value],
            )  # fmt: skip
    missing = [name for name in ids if name not in known]
    if missing:
        raise InputError(
            "{path} has no class for {missing!r} ({n} of {m} ids are missing)",
            path=path, missing=missing[0], n=len(missing), m=len(ids),
        )  # fmt: skip
    return [known[name] for name in ids]
