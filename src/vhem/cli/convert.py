"""vhem convert: models from one kind of file to another."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vhem._support.errors import InputError
from vhem.cli.inputs import is_model, read_model, read_sequences_only
from vhem.cli.run_folder import CENTERS, RunFolder, record, recorded
from vhem.cli.shared import TableOptions, expanded
from vhem.files import to_json, to_npz
from vhem.files.labels import write_columns
from vhem.files.spreadsheet import write_sheets
from vhem.models import H3M, HMM
from vhem.models.state_table import state_table
from vhem.sequences import Sequences


@expanded
def convert(
    ctx: typer.Context,
    source: Annotated[
        Path,
        typer.Argument(
            help="A model (.vhem, .mat, .npz, .json, or the folder of a run) or sequences.", show_default=False
        ),
    ],
    target: Annotated[
        Path,
        typer.Argument(
            help=".vhem, .npz, .json, .csv or .xlsx for a model; .vhem or .csv for sequences.", show_default=False
        ),
    ],
    table: TableOptions,
) -> None:
    """Convert models between .vhem, npz and JSON, and from the EMHMM toolbox's .mat; or sequences to .vhem or csv.

    For example:

        vhem convert hmms.mat hmms.vhem

        vhem convert out/centers.vhem centers.json

        vhem convert out centres.xlsx

        vhem convert fixations.xlsx fixations.csv

    As csv or xlsx, a model has one row per state. Of the folder of a run, xlsx gets a sheet for the centres, one for
    the members with their clusters, and one for the members' HMMs; csv gets the centres.

    Every format keeps the record of how a model was made; `vhem info` shows it.
    """
    found = read_model(source) if is_model(source) else read_sequences_only(source, table.reading())
    content, suffix = found.content, target.suffix
    about = {**recorded(ctx), **found.about, "converted_from": str(source)}
    if suffix == ".vhem":
        content.save(target, found.feature_names, about)
    elif suffix in (".npz", ".json") and isinstance(content, (H3M, HMM)):
        (to_npz if suffix == ".npz" else to_json)(content, target, found.feature_names, about)
    elif suffix in (".csv", ".tsv", ".xlsx") and isinstance(content, (H3M, HMM)):
        states = H3M([content]) if isinstance(content, HMM) else content
        content = _write_states(target, source, states, found.feature_names)
        record(ctx, target.with_suffix(".run.toml"))
    elif suffix in (".csv", ".tsv", ".parquet") and isinstance(content, Sequences):
        write_columns(target, long_table(content, found.feature_names))
        record(ctx, target.with_suffix(".run.toml"))
    else:
        what = "sequences" if isinstance(content, Sequences) else "models"
        raise InputError(
            "{what} cannot be written as {extension!r}",
            "models become .vhem, .npz, .json, .csv or .xlsx, sequences .vhem, .csv, .tsv or .parquet",
            what=what, extension=suffix or target.name,
        )  # fmt: skip
    typer.echo(f"{target}: {content!r}")


def _write_states(target: Path, source: Path, content: H3M, names: list[str] | None) -> H3M:
    """Write one row per state; of a run, the centres, which are returned, and as xlsx members and their HMMs too."""
    run = RunFolder(source) if source.is_dir() and (source / CENTERS).is_file() else None
    centers = content if run is None else run.centers
    columns = state_table(centers.parameters, centers.weights, centers.ids, names)
    if target.suffix != ".xlsx":
        write_columns(target, {"id" if name == "hmm" else name: column for name, column in columns.items()})
        return centers
    sheets = {"centres" if run is not None else "hmms": columns}
    if run is not None:
        labels = run.labels
        levels = labels.labels[:, None] if labels.labels.ndim == 1 else labels.labels
        titles = ["cluster"] if levels.shape[1] == 1 else [f"level{k + 1}" for k in range(levels.shape[1])]
        sheets["members"] = {"id": list(labels.ids)} | {
            t: (c + 1).tolist() for t, c in zip(titles, levels.T, strict=True)
        }
        if labels.responsibilities is not None:
            sheets["members"] |= {f"p{k + 1}": share.tolist() for k, share in enumerate(labels.responsibilities.T)}
        if run.command != "mixture":
            sheets["hmms"] = state_table(run.hmms.parameters, run.hmms.weights, run.hmms.ids, names)
    write_sheets(target, sheets)
    return centers


def long_table(sequences: Sequences, names: list[str] | None) -> dict[str, list[object]]:
    """Return a long table: id, group if there is one, frame, values."""
    owner = [i for i, n in enumerate(sequences.lengths.tolist()) for _ in range(n)]
    columns: dict[str, list[object]] = {"id": [sequences.ids[i] for i in owner]}
    if sequences.groups is not None:
        columns["group"] = [sequences.groups[i] for i in owner]
    columns["frame"] = [t for n in sequences.lengths.tolist() for t in range(n)]
    values = names or [f"x{j + 1}" for j in range(sequences.n_dims)]
    return columns | {
        name: ["" if x != x else x for x in column.tolist()]  # noqa: PLR0124  (NaN becomes an empty cell)
        for name, column in zip(values, sequences.X.T, strict=True)
    }
