"""vhem score: how likely sequences are under a model, and which of its HMMs fits each best."""

from __future__ import annotations

import csv
import dataclasses
import json
import sys
from pathlib import Path
from typing import Annotated, Any, cast

import numpy as np
import typer

from vhem._support.arrays import FloatArray, IntArray
from vhem._support.errors import InputError, InputTypeError
from vhem.cli.inputs import read_model, read_sequences_only
from vhem.cli.run_folder import CENTERS, RUN, RunFolder, record
from vhem.cli.shared import Data, RunOptions, TableOptions, expanded
from vhem.files.labels import write_columns
from vhem.inference import ab_scale, log_odds, subject_scores
from vhem.models import H3M, HMM
from vhem.sequences import Sequences
from vhem.sequences.readers.read import has_columns
from vhem.sequences.slopes import PREFIX

Columns = dict[str, list[Any]]


@expanded
def score(
    ctx: typer.Context,
    model: Annotated[
        Path, typer.Argument(help="A model file, or the folder of a run (its centres).", show_default=False)
    ],
    data: Data,
    table: TableOptions,
    run: RunOptions,
    per: Annotated[
        str, typer.Option(help="One row per sequence or per group; auto: files for both if there are groups.")
    ] = "auto",
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help="A csv, tsv or parquet file; if not given, scores are printed.", show_default=False
        ),
    ] = None,
) -> None:
    """Score sequences under a model: log-likelihoods, and the HMM that fits each best.

    Columns: id, group, log_likelihood, per_frame, and for a mixture cluster (1, 2, …), probability, p1, p2, … If
    sequences have groups (people, say), scores.groups.csv, next to scores.csv, has one row per group, whose sequences
    are taken together: the HMM that fits them all best, and between two HMMs the A–B scale and the log-odds per
    observation. scores.run.toml records the command, so that it can be repeated.

    For example:

        vhem score out new.csv --id subject,trial --values x,y -o scores.csv

        vhem score out new.csv --id subject,trial --group subject --per group

        vhem score --config scores.run.toml
    """
    if per not in ("auto", "sequence", "group"):
        raise InputError("--per must be auto, sequence or group, got {per!r}", per=per)
    h3m, names = _model(model)
    sequences = _sequences_for(h3m, names, data, _with_memory(table, model, data))
    if per == "group" and sequences.groups is None:
        raise InputError("--per group needs groups", "name their column, such as the person, with --group")
    likelihoods = h3m.log_likelihoods(sequences, run.jobs)
    rows = _scores(h3m, _named(sequences), likelihoods, sequences.lengths)
    of_groups = None if sequences.groups is None or per == "sequence" else _group_scores(h3m, sequences, likelihoods)
    if per == "group" and of_groups is not None:
        rows, of_groups = of_groups, None
    if out is None:
        _show(rows, run.json)
        return
    write_columns(out, rows)
    written = [out]
    if of_groups is not None:
        written.append(out.with_suffix(f".groups{out.suffix}"))
        write_columns(written[1], of_groups)
    record(ctx, out.with_suffix(".run.toml"))
    typer.echo(f"Written: {', '.join(map(str, written))}")


def _model(path: Path) -> tuple[H3M, list[str] | None]:
    """Return the mixture in a file or folder, and the names of its dimensions."""
    has_centers = not path.is_dir() or (path / CENTERS).is_file()
    read = read_model(path, centers=has_centers)
    found = getattr(read.content, "centers_", getattr(read.content, "model_", read.content))  # of a fitted estimator
    h3m = H3M([found]) if isinstance(found, HMM) else found
    if not isinstance(h3m, H3M):
        raise InputTypeError(
            "{path} holds a {kind}", "an HMM, or a mixture of HMMs, is needed",
            path=path, kind=type(h3m).__name__,
        )  # fmt: skip
    return h3m, read.feature_names


def _named(sequences: Sequences) -> Columns:
    columns: Columns = {"id": list(sequences.ids)}
    return columns if sequences.groups is None else {**columns, "group": list(sequences.groups)}


def _scores(h3m: H3M, named: Columns, likelihoods: FloatArray, n_frames: IntArray) -> Columns:
    """Return a row for each of some things, of which log p(thing | HMM k) is known, (n, K)."""
    with np.errstate(divide="ignore"):
        joint = likelihoods + np.log(h3m.weights)
    scores = np.logaddexp.reduce(joint, axis=1)
    columns = {**named, "log_likelihood": scores.tolist(), "per_frame": (scores / n_frames).tolist()}
    if len(h3m) > 1:
        shares = h3m.probabilities(likelihoods)
        best = shares.argmax(axis=1)
        columns |= {"cluster": (best + 1).tolist(), "probability": shares[np.arange(len(best)), best].tolist()}
        columns |= {f"p{k + 1}": share.tolist() for k, share in enumerate(shares.T)}
    return columns


def _group_scores(h3m: H3M, sequences: Sequences, likelihoods: FloatArray) -> Columns:
    """Return one row per group: all its sequences come from one HMM, log p(group | k) = Σ_i log p(y_i | k)."""
    places: dict[Any, int] = {}
    owner = np.array([places.setdefault(group, len(places)) for group in sequences.groups or ()])
    together = np.zeros((len(places), len(h3m)))
    np.add.at(together, owner, likelihoods)
    frames = np.bincount(owner, sequences.lengths).astype(np.int64)
    named: Columns = {"id": list(places), "sequences": np.bincount(owner).tolist(), "frames": frames.tolist()}
    scales = _scales(h3m, sequences) if len(h3m) == 2 else {}
    return {**_scores(h3m, named, together, frames), **scales}


def _scales(h3m: H3M, sequences: Sequences) -> Columns:
    """Return where every group is between two HMMs: on the A–B scale, and by log-odds per observation."""
    scores = subject_scores(h3m, sequences)
    return {"ab_scale": ab_scale(scores).tolist(), "log_odds": log_odds(scores).tolist()}


def _show(rows: Columns, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps([dict(zip(rows, row, strict=True)) for row in zip(*rows.values(), strict=True)]))
    else:
        csv.writer(sys.stdout, lineterminator="\n").writerows([list(rows), *zip(*rows.values(), strict=True)])


def _with_memory(table: TableOptions, model: Path, data: Path) -> TableOptions:
    """Return how a table is read: if nothing is said about its columns, as that of the run, if it has them."""
    said = (table.id, table.time, table.values, table.group, table.categories, table.wide)
    if any(said) or table.one_sequence or not (model / RUN).is_file():
        return table
    before = RunFolder(model).table
    mine = dataclasses.replace(table, id=before.id, time=before.time, group=before.group, wide=before.wide)
    return mine if has_columns(data, mine.reading()) else table


def _sequences_for(h3m: H3M, names: list[str] | None, data: Path, table: TableOptions) -> Sequences:
    """Read sequences with the columns that a model was learned from, in the same order."""
    options = table.reading()
    if h3m.categories and names is not None and not (options.values or options.categories or options.wide):
        options = options._replace(values=names, categories=[name for name in names if name in h3m.categories])
    if options.other is not None and not isinstance(options.categories, dict):
        options = options._replace(categories={name: list(known) for name, known in h3m.categories.items()})
    found = read_sequences_only(data, options)
    missing = [name for name in names or () if found.feature_names and name not in found.feature_names]
    slopes = [name.removeprefix(PREFIX) for name in missing if name.startswith(PREFIX)]
    if set(slopes) & set(found.feature_names or ()):
        options = options._replace(slopes=slopes)
        found = read_sequences_only(data, options)
    same = names is None or found.feature_names is None or found.feature_names == names
    if same or table.values is not None:
        return cast("Sequences", found.content)
    if not set(names or ()) <= set(found.feature_names or ()):
        raise InputError(
            "the model was learned from {names}, but the values of {data} are {known}",
            "name the corresponding columns with --values",
            names=", ".join(names or ()), data=data, known=", ".join(found.feature_names or ()),
        )  # fmt: skip
    values = [name for name in names or () if name not in missing]
    return cast("Sequences", read_sequences_only(data, options._replace(values=values)).content)
