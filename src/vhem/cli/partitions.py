"""vhem mixture --partitions, and work on a Dask cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import typer

from vhem.cli import summary
from vhem.cli.run_folder import CENTERS, RunWriter
from vhem.cli.session import Session, show
from vhem.cli.shared import LearningOptions, RunOptions, TableOptions, listed
from vhem.scale import Part, PartitionedH3M, read_parts
from vhem.sequences import as_sequences

PARTS = "Data in parts"
_CHECKPOINT = "parts.checkpoint"
_LONGEST_TAU = 50
_CONNECT = 10.0  # seconds to wait for a scheduler


class PartOptions(NamedTuple):
    """How data in parts is worked through."""

    rows_per_part: int
    skip_broken: bool
    tau: int | None
    dask: str | None


@contextmanager
def executor_at(address: str | None) -> Iterator[Any]:
    """Connect to a Dask cluster for a while; without an address, None."""
    if address is None:
        yield None
        return
    try:
        from distributed import Client  # noqa: PLC0415  (optional)
    except ModuleNotFoundError:
        raise ModuleNotFoundError("--dask needs Dask, which is not installed: pip install 'vhem[dask]'.") from None
    try:
        client = Client(address, timeout=_CONNECT)  # type: ignore[no-untyped-call]
    except OSError:
        raise ValueError(f"there is no Dask scheduler at {address}; start one by `dask scheduler`.") from None
    with client:
        yield client


def mixture_of_parts(
    ctx: typer.Context,
    data: Path,
    clusters: int,
    out: Path,
    table: TableOptions,
    learning: LearningOptions,
    run: RunOptions,
    options: PartOptions,
) -> None:
    """Learn a mixture from data of any size, and label all sequences in a second pass."""
    with Session(run.quiet) as session, executor_at(options.dask) as executor:
        states = learning.n_states()
        if not isinstance(states, int):
            raise ValueError(f"--states must be one number for a mixture, got {learning.states!r}.")
        parts, names = _parts(data, table, options), listed(table.values)
        tau = options.tau or _usual_length(parts)
        out.mkdir(parents=True, exist_ok=True)
        session.begin(f"learning a mixture of {clusters} HMMs from {len(parts)} parts")
        fit = PartitionedH3M(
            clusters, states, learning.mix, learning.covariance, learning.topology, tau=tau, random_state=run.seed,
            n_jobs=run.jobs, executor="threads" if executor is None else executor, callback=session.parts,
            on_error="skip" if options.skip_broken else "raise", checkpoint=out / _CHECKPOINT,
        ).fit(parts)  # fmt: skip
        writer = RunWriter(ctx, out, names)
        writer.model(CENTERS, fit.model_)
        session.begin("labelling all sequences")
        sizes = writer.labels_of_parts(fit.label_parts(parts), len(fit.model_))
        numbers = _numbers(fit, sizes, tau) | {"notes": session.gather_warnings()}
        text = f"Read {fit.n_sequences_:,} sequences, {fit.n_frames_:,} frames in {fit.n_parts_:,} parts"
        text += f" ({len(fit.skipped_)} more were broken).\n" if fit.skipped_ else ".\n"
        text += f"A mixture of {len(fit.model_)} HMMs (tau {tau}).\n\n"
        text += summary.clusters_text(numbers["clusters"], names, "sequences")
        writer.finish(text, numbers)
        (out / _CHECKPOINT).unlink(missing_ok=True)
    show(f"{text}\n\nWritten to {out}: labels.csv, {CENTERS}, summary.txt, summary.json, run.toml.", numbers, run.json)


def _parts(data: Path, table: TableOptions, options: PartOptions) -> list[Part]:
    if table.group is not None or table.one_sequence:
        raise ValueError("--group and --one-sequence have no meaning with --partitions: every sequence is on its own.")
    names = listed(table.id)
    id_column = names[0] if names is not None and len(names) == 1 else names
    return read_parts(data, id_column, table.time, listed(table.values), options.rows_per_part)


def _usual_length(parts: list[Part]) -> int:
    """Return about the length of the sequences of the first part that can be read."""
    for part in parts:
        try:
            lengths = as_sequences(part.read()).lengths
        except (OSError, TypeError, ValueError):
            continue  # the fit will tell
        return int(np.clip(round(float(np.median(lengths))), 1, _LONGEST_TAU))
    return _LONGEST_TAU


def _numbers(fit: PartitionedH3M, sizes: np.ndarray, tau: int) -> dict[str, Any]:
    rows = [
        {
            "cluster": k + 1,
            "n_members": int(sizes[k]),
            "weight": float(fit.model_.weights[k]),
            "states": summary.of_hmm(center, tau),
        }
        for k, center in enumerate(fit.model_)
    ]
    return {
        "input": {"sequences": fit.n_sequences_, "frames": fit.n_frames_, "parts": fit.n_parts_},
        "skipped": [{"part": name, "reason": reason} for name, reason in fit.skipped_],
        "tau": tau,
        "clusters": rows,
    }
