"""vhem demo: a complete example on a simulated study, or that study as a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vhem.cli.convert import long_table
from vhem.files.atomic import atomic_write
from vhem.files.labels import write_columns
from vhem.sequences import Sequences

_FACE = "face.png"


def demo(
    table: Annotated[
        Path | None,
        typer.Option(
            help="Instead, write the study to this csv table, and the face image next to it, to try "
            "the other commands on.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Run a complete example on a small simulated study.

    For example:

        vhem demo

        vhem demo --table fixations.csv
    """
    from vhem.demo import main as run  # noqa: PLC0415  (commands load only what they need)

    if table is None:
        run()
        return
    sequences, face = write_study(table)
    typer.echo(f"{table}: {len(sequences)} trials of {len(set(sequences.groups or ()))} simulated viewers.")
    typer.echo(f"{face}: the face they looked at, for vhem report --image and vhem plot --image.")


def write_study(table: Path) -> tuple[Sequences, Path]:
    """Write the simulated study to a table, and the face next to it; return the study and the face's path."""
    from vhem.datasets import simulated_study  # noqa: PLC0415

    sequences = simulated_study().sequences
    _write_table(table, sequences)
    return sequences, _write_face(table.parent / _FACE)


def _write_table(path: Path, sequences: Sequences) -> None:
    columns = long_table(sequences, ["x", "y"])
    write_columns(
        path,
        {
            "viewer": columns["group"],
            "trial": [str(name).rpartition(" ")[2] for name in columns["id"]],
            "time": columns["frame"],
            "x": [round(float(x), 2) for x in sequences.X[:, 0]],
            "y": [round(float(y), 2) for y in sequences.X[:, 1]],
        },
    )


def _write_face(path: Path) -> Path:
    """Write the picture, but never over a different file of that name, which the user did not mention."""
    from vhem.datasets import simulated_face  # noqa: PLC0415
    from vhem.report.images import png  # noqa: PLC0415

    picture = png(simulated_face())
    if path.exists() and path.read_bytes() != picture:
        raise FileExistsError(f"{path} already exists and is a different picture; put the table into another folder.")
    with atomic_write(path) as file:
        file.write(picture)
    return path
