"""What the statistics of a run need: its people, sequences and settings, and tables about the people."""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from vhem._support.errors import InputError
from vhem.cli.run_folder import RunFolder
from vhem.cli.shared import families_by_columns
from vhem.estimators.sequence_clustering import SequenceClustering
from vhem.inference import Members
from vhem.inference.covariates import covariates_of, read_table
from vhem.report.clustering import owners_of
from vhem.sequences import Sequences
from vhem.sequences.readers.roles import listed
from vhem.sequences.readers.wide import wide_columns

PeopleTable = Annotated[
    Path | None,
    typer.Option(
        "--table", help="A table about the people; the run's own if not given.", show_default=False
    ),
]  # fmt: skip


class StatisticsRun:
    """A run of `vhem cluster`, as statistics need it.

    Parameters
    ----------
    run : RunFolder
        The folder.
    """

    def __init__(self, run: RunFolder) -> None:
        if run.command != "cluster":
            raise InputError(
                "{path} was made by `vhem {command}`", "give the folder of a run of `vhem cluster`",
                path=run.path, command=run.command,
            )  # fmt: skip
        self.run = run

    @cached_property
    def members(self) -> Members:
        """Who is in which cluster."""
        labels = self.run.labels
        assert labels.responsibilities is not None
        return Members(labels.ids, labels.labels, labels.responsibilities)

    @cached_property
    def sequences(self) -> Sequences:
        """The sequences, read again."""
        return self.run.sequences()

    @cached_property
    def owners(self) -> list[str]:
        """The person of each sequence."""
        place = owners_of(self.sequences, None, self.members.ids)
        return [self.members.ids[k] for k in place]

    def estimator(self, seed: int, jobs: int | None) -> SequenceClustering:
        """Return the clustering with the run's settings."""
        options = self.run.options
        states = options.get("center_states") or int(np.ceil(np.median(self.run.hmms.n_states)))
        return SequenceClustering(
            len(self.run.centers), states, int(options.get("mix", 1)), str(options.get("covariance", "diag")),
            self.run.topology, random_state=seed, n_jobs=jobs,
            emissions=families_by_columns(options.get("emissions")), slopes=False,
        )  # fmt: skip


def classes_of(run: RunFolder, column: str, table: Path | None = None) -> list[str]:
    """Return the class of everybody: a column of a table, by default of the run's own."""
    taken = table or table_of(run)
    found = covariates_of(taken, run.labels.ids, key_column(run, taken), [column], [column], missing="refuse")
    if not found.columns:
        raise InputError("column {column!r} {why}", column=column, why=found.skipped[column])
    values: list[Any] = found.columns[0].values
    lacking = [name for name, value in zip(run.labels.ids, values, strict=True) if value is None]
    if lacking:
        raise InputError(
            "column {column!r} is empty for {n} of {all} people, {first!r} first", "fill it",
            column=column, n=len(lacking), all=len(values), first=lacking[0],
        )  # fmt: skip
    return [str(value) for value in values]


def key_column(run: RunFolder, table: Path) -> str | None:
    """Return the column that named the people in the run's own table, if a table has it."""
    named = [run.options.get(option) for option in ("group", "id")]
    columns = read_table(table)
    return next((str(name) for name in named if isinstance(name, str) and name in columns), None)


def clustered_columns(run: RunFolder, table: Path) -> list[str]:
    """Return the columns of a table that took part in a run: its values, order and weights."""
    options, columns = run.table.reading(), list(read_table(table))
    used = {*listed(options.time or None), *listed(options.weights), *(run.feature_names or ())}
    wide: list[str] = []
    if options.wide is not None:
        with suppress(InputError):  # another table, which has no such columns
            wide = [name for names in wide_columns(options.wide, columns, used).values() for name in names]
    return [name for name in columns if name in used] + [name for name in wide if name not in used]


def table_of(run: RunFolder) -> Path:
    """Return the table that a run was made from."""
    path = Path(str(run.options.get("data", "")))
    if not path.is_file() or path.suffix.lower() in (".vhem", ".npz", ".mat", ".json", ".bvh"):
        raise InputError("{path} is not a table with columns", "give a table with --table", path=path)
    return path
