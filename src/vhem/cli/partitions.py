"""vhem mixture --partitions, and work on a Dask cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from vhem._support.errors import Count, InputError
from vhem._support.optional import how_to_install
from vhem.cli import in_words as summary
from vhem.cli.run_folder import RunWriter
from vhem.cli.session import Session, show
from vhem.cli.shared import LONGEST_TAU, LearningOptions, RunOptions, TableOptions, listed
from vhem.scale import Part, PartitionedH3M, read_parts
from vhem.sequences import as_sequences
from vhem.sequences.readers.read import read_with_roles

PARTS = "Data in parts"
_CHECKPOINT = "parts.checkpoint"
_CONNECT = 10.0  # seconds to wait for a scheduler


class PartOptions(NamedTuple):
    """How data in parts is processed."""

    rows_per_part: int
    skip_broken: bool
    tau: int | None
    dask: str | None


@contextmanager
def executor_at(address: str | None) -> Iterator[Any]:
    """Connect to a Dask cluster for the time being; None without an address."""
    if address is None:
        yield None
        return
    try:
        from distributed import Client  # noqa: PLC0415  (optional)
    except ModuleNotFoundError:
        raise ModuleNotFoundError(f"--dask needs Dask, which is not installed: {how_to_install('dask')}.") from None
    try:
        client = Client(address, timeout=_CONNECT)  # type: ignore[no-untyped-call]
    except OSError:
        raise InputError(
            "there is no Dask scheduler at {address}", "start one with `dask scheduler`",
            address=address,
        ) from None  # fmt: skip
    with client:
        yield client


def mixture_of_parts(
    writer: RunWriter,
    data: Path,
    clusters: int,
    table: TableOptions,
    learning: LearningOptions,
    run: RunOptions,
    options: PartOptions,
) -> None:
    """Learn a mixture from data of any size, and label all sequences in a second pass."""
    with Session(run.quiet, run.progress) as session, executor_at(options.dask) as executor:
        states = learning.n_states()
        if not isinstance(states, int):
            raise InputError("--states must be one number for a mixture, got {states!r}", states=learning.states)
        parts, names = _parts(data, table, options)
        length, out = _typical_length(parts), writer.path
        tau = options.tau or min(length or LONGEST_TAU, LONGEST_TAU)
        out.mkdir(parents=True, exist_ok=True)
        session.begin(f"learning a mixture of {clusters} HMMs from {Count(len(parts)):part}")
        fit = PartitionedH3M(
            clusters, states, learning.mix, learning.covariance, learning.topology, tau=tau,
            max_iter=learning.max_iter, random_state=run.seed, n_jobs=run.jobs, callback=session.parts,
            executor="threads" if executor is None else executor,
            on_error="skip" if options.skip_broken else "raise", checkpoint=out / _CHECKPOINT,
            emissions=learning.emitted(),
        ).fit(parts)  # fmt: skip
        writer.begin(names, length)
        writer.centers(fit.model_)
        session.begin("labelling all sequences")
        sizes = writer.labels_of_parts(fit.label_parts(parts), len(fit.model_))
        numbers = _numbers(fit, sizes, tau, names) | {"notes": session.gather_warnings()}
        text = f"Read {fit.n_sequences_:,} sequences, {fit.n_frames_:,} frames in {Count(fit.n_parts_):part}"
        text += f" ({len(fit.skipped_)} more were broken)" if fit.skipped_ else ""
        text += f"; values: {', '.join(names)}.\n"
        text += f"A mixture of {len(fit.model_)} HMMs (tau {tau}).\n\n"
        text += summary.clusters_text(numbers["clusters"], names, "sequences")
        writer.finish(text, numbers)
        (out / _CHECKPOINT).unlink(missing_ok=True)
    show(f"{text}\n\n{writer.told()}", numbers, run.json)


def _parts(data: Path, table: TableOptions, options: PartOptions) -> tuple[list[Part], list[str]]:
    """Return the parts, and the columns of values, which are the same in all of them."""
    if table.group is not None or table.one_sequence:
        raise InputError(
            "--group and --one-sequence do not work with --partitions, which treats every sequence separately",
        )  # fmt: skip
    if table.decimal != "auto" or table.encoding is not None or table.sheet is not None or table.slopes:
        raise InputError(
            "--decimal, --encoding, --sheet and --slopes do not work with --partitions",
            "run `vhem convert` on the files first",
        )
    parts = read_parts(data, listed(table.id), table.time, listed(table.values), options.rows_per_part)
    names = listed(table.values)
    if names is None:  # tables of text or arrays; Parquet needs them given
        names = _guessed_values([data / part.name if data.is_dir() else data for part in parts], table)
        parts = read_parts(data, listed(table.id), table.time, names, options.rows_per_part)
    return parts, names


def _guessed_values(files: list[Path], table: TableOptions) -> list[str]:
    """Return the columns of values of the first file that can be read."""
    for file in files[:-1]:
        try:
            return read_with_roles(file, table.reading()).roles.values
        except (OSError, TypeError, ValueError):
            continue  # the fit will report it
    return read_with_roles(files[-1], table.reading()).roles.values


def _typical_length(parts: list[Part]) -> int | None:
    """Return the median length of the sequences of the first part that can be read."""
    for part in parts:
        try:
            lengths = as_sequences(part.read()).lengths
        except (OSError, TypeError, ValueError):
            continue  # the fit will report it
        return max(1, round(float(np.median(lengths))))
    return None


def _numbers(fit: PartitionedH3M, sizes: np.ndarray, tau: int, names: list[str]) -> dict[str, Any]:
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
        "input": {"sequences": fit.n_sequences_, "frames": fit.n_frames_, "parts": fit.n_parts_, "values": names},
        "skipped": [{"part": name, "reason": reason} for name, reason in fit.skipped_],
        "tau": tau,
        "clusters": rows,
    }
