"""vhem score: how likely sequences are under a model, and which of its HMMs suits each best."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import Annotated, Any, cast

import numpy as np
import typer

from vhem.cli.inputs import read_model, read_sequences_only
from vhem.cli.run_folder import CENTERS, record
from vhem.cli.shared import Data, RunOptions, TableOptions, expanded
from vhem.files.labels import write_columns
from vhem.models import H3M, HMM
from vhem.sequences import Sequences


@expanded
def score(
    ctx: typer.Context,
    model: Annotated[
        Path, typer.Argument(help="A model file, or the folder of a run (its centres).", show_default=False)
    ],
    data: Data,
    table: TableOptions,
    run: RunOptions,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="A csv, tsv or parquet; else it is printed.", show_default=False)
    ] = None,
) -> None:
    """Score sequences by a model: log-likelihoods, and the HMM that suits each best.

    Columns: id, log_likelihood, per_frame, and for a mixture cluster (1, 2, …), probability, p1, p2, … Beside
    scores.csv, scores.run.toml tells what made it, and does it again: vhem score --config scores.run.toml

    For example:

        vhem score out new.csv --id subject,trial --values x,y -o scores.csv
    """
    has_centers = not model.is_dir() or (model / CENTERS).is_file()
    read = read_model(model, centers=has_centers)
    found = read.content
    found = getattr(found, "centers_", getattr(found, "model_", found))  # of a fitted estimator
    h3m = H3M([found]) if isinstance(found, HMM) else found
    if not isinstance(h3m, H3M):
        raise TypeError(f"{model} holds a {type(h3m).__name__}; an HMM, or a mixture of HMMs, is needed.")
    sequences = _sequences_for(read.feature_names, data, table)
    scores = h3m.score_samples(sequences, run.jobs)
    columns: dict[str, list[Any]] = {"id": list(sequences.ids), "log_likelihood": scores.tolist()}
    columns["per_frame"] = (scores / sequences.lengths).tolist()
    if len(h3m) > 1:
        shares = h3m.predict_proba(sequences, run.jobs)
        best = shares.argmax(axis=1)
        columns |= {"cluster": (best + 1).tolist(), "probability": shares[np.arange(len(best)), best].tolist()}
        columns |= {f"p{k + 1}": share.tolist() for k, share in enumerate(shares.T)}
    if out is not None:
        write_columns(out, columns)
        record(ctx, out.with_suffix(".run.toml"))
        typer.echo(f"Written: {out}")
    elif run.json:
        typer.echo(json.dumps([dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]))
    else:
        csv.writer(sys.stdout, lineterminator="\n").writerows([list(columns), *zip(*columns.values(), strict=True)])


def _sequences_for(names: list[str] | None, data: Path, table: TableOptions) -> Sequences:
    """Read sequences with the columns that a model was learned from, in its order."""
    found = read_sequences_only(data, table.reading())
    same = names is None or found.feature_names is None or found.feature_names == names
    if same or table.values is not None:
        return cast("Sequences", found.content)
    if not set(names or ()) <= set(found.feature_names or ()):
        raise ValueError(
            f"the model was learned from {', '.join(names or ())}, but the values of {data} are "
            f"{', '.join(found.feature_names or ())}; name the columns that correspond by --values."
        )
    return cast("Sequences", read_sequences_only(data, table.reading()._replace(values=names)).content)
