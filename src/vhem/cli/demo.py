"""vhem demo: the main job on a simulated study, or that study as a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vhem.cli.convert import long_table
from vhem.files.labels import write_columns


def demo(
    table: Annotated[
        Path | None,
        typer.Option(
            help="Write the study as a table (csv) here instead, to try the other commands on.", show_default=False
        ),
    ] = None,
) -> None:
    """Do the main job end to end on a small simulated study.

    For example:

        vhem demo

        vhem demo --table fixations.csv
    """
    from vhem.datasets import simulated_study  # noqa: PLC0415  (commands load only what they need)
    from vhem.demo import main as run  # noqa: PLC0415

    if table is None:
        run()
        return
    sequences = simulated_study().sequences
    columns = long_table(sequences, ["x", "y"])
    write_columns(
        table,
        {
            "viewer": columns["group"],
            "trial": [str(name).rpartition(" ")[2] for name in columns["id"]],
            "time": columns["frame"],
            "x": [round(float(x), 2) for x in sequences.X[:, 0]],
            "y": [round(float(y), 2) for y in sequences.X[:, 1]],
        },
    )
    typer.echo(f"{table}: {len(sequences)} trials of {len(set(columns['group']))} simulated viewers.")
