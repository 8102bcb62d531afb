"""vhem report: what a run found, as one HTML file."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from vhem._support.errors import InputError
from vhem.cli.run_clustering import read_clustering
from vhem.cli.run_folder import REPORT, RUN, RunFolder

Folder = Annotated[Path, typer.Argument(help="The folder of a run of cluster, tree or mixture.", show_default=False)]
ImageFile = Annotated[
    Path | None,
    typer.Option(
        "--image", help="Image that was looked at (PNG or JPEG), shown behind two-dimensional HMMs.", show_default=False
    ),
]
Extent = Annotated[
    str | None,
    typer.Option(
        "--extent",
        help="Edges of the image or map: left,right,bottom,top, such as 0,640,480,0 if y points down.",
        show_default=False,
    ),
]
Classes = Annotated[
    str | None,
    typer.Option(
        "--classes",
        help="Known classes to compare the clusters with: a column of the run's table, or a csv with columns id and "
        "class.",
        show_default=False,
    ),
]


def report(
    ctx: typer.Context,
    folder: Folder,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The file; FOLDER/report.html if not given.", show_default=False)
    ] = None,
    title: Annotated[str | None, typer.Option(help="Title of the report.", show_default=False)] = None,
    classes: Classes = None,
    image: ImageFile = None,
    extent: Extent = None,
    cluster_name: Annotated[
        list[str] | None,
        typer.Option(
            help="Name of cluster 1, then of cluster 2, …: repeat the option. Kept in labels.csv, for tables too.",
            show_default=False,
        ),
    ] = None,
    color: Annotated[
        list[str] | None,
        typer.Option(help="Colour of state 1, then of state 2, …, such as #0072b2: repeat it.", show_default=False),
    ] = None,
    crop: Annotated[
        str | None,
        typer.Option(help="Part of the image or map to show: left,right,bottom,top.", show_default=False),
    ] = None,
    sequences: Annotated[bool, typer.Option(help="Show the sequences, which are read again from their file.")] = True,
    max_megabytes: Annotated[float, typer.Option(help="Maximum size of the file.")] = 5.0,
    open_it: Annotated[bool, typer.Option("--open", help="Open the report in the browser.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.")] = False,
) -> None:
    """Write what a run found to one HTML file, to be explored in a browser, without a network.

    For example:

        vhem report out

        vhem report out --image face.png --classes groups.csv --title "How people look at faces" -o report.html
    """
    from vhem.report.page import Look, write_clustering  # noqa: PLC0415  (commands load only what they need)

    run, notes = RunFolder(folder), list[str]()
    content = read_clustering(ctx, run, sequences, classes, notes)
    path = write_clustering(
        out or folder / REPORT,
        content,
        image=image,
        extent=edges(extent),
        names=run.feature_names,
        title=title or f"Clusters of {Path(str(run.options.get('data', folder))).name}",
        command=f"vhem {run.command} --config {Path(folder.resolve().name, RUN)}",
        warnings=content.run.warnings,
        max_megabytes=max_megabytes,
        notes=notes,
        look=Look(run.labels.names if cluster_name is None else cluster_name, color or [], edges(crop, "--crop")),
    )
    if cluster_name is not None:
        run.name_clusters(cluster_name)
    if not quiet:
        for note in notes:
            typer.echo(f"note: {note}", err=True)
        typer.echo(f"Written: {path}")
    if open_it:
        webbrowser.open(Path(path).resolve().as_uri())


def edges(text: str | None, option: str = "--extent") -> tuple[float, float, float, float] | None:
    """Return the four numbers of --extent or --crop."""
    if text is None:
        return None
    try:
        left, right, bottom, top = (float(part) for part in text.split(","))
    except ValueError:
        raise InputError(
            "{option} must be left,right,bottom,top, such as 0,640,480,0, got {text!r}",
            option=option,
            text=text,
        ) from None
    return left, right, bottom, top
