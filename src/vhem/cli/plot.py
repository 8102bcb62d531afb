"""vhem plot: what a run found, as pictures for a paper."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from vhem._support.errors import InputError
from vhem._support.optional import how_to_install
from vhem._support.paths import existing_file
from vhem.cli.report import Classes, Extent, Folder, ImageFile, edges
from vhem.cli.run_clustering import read_clustering
from vhem.cli.run_folder import PICTURES, RunFolder
from vhem.estimators.cluster_tree import Tree
from vhem.report.clustering import Clustering

_MANY = 60  # clusters drawn one by one


def plot(
    ctx: typer.Context,
    folder: Folder,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="A folder; FOLDER/pictures if not given.", show_default=False)
    ] = None,
    classes: Classes = None,
    image: ImageFile = None,
    extent: Extent = None,
    kind: Annotated[str, typer.Option("--format", help="png, svg or pdf.")] = "png",
    dpi: Annotated[int, typer.Option(min=20, help="Resolution of png, in dots per inch.")] = 150,
) -> None:
    r"""Draw what a run found: centres, clusters with their members, the tree, responsibilities.

    Needs matplotlib: in the folder of vhem, pip install ".\[plot]".

    For example:

        vhem plot out --image face.png

        vhem plot tree --classes groups.csv --format pdf -o figures
    """
    if kind not in ("png", "svg", "pdf"):
        raise InputError("--format must be png, svg or pdf, got {kind!r}", kind=kind)
    run = RunFolder(folder)
    content = read_clustering(ctx, run, False, classes, [])
    target = out or folder / PICTURES
    written = draw_all(content, target, kind, dpi, image=image, extent=edges(extent), names=run.feature_names)
    typer.echo(f"Written to {target}: {', '.join(path.name for path in written)}.")


def draw_all(
    content: Clustering, target: Path, kind: str, dpi: int, *, image: Path | None, extent: Any, names: list[str] | None
) -> list[Path]:  # fmt: skip
    """Draw every picture that the clustering has data for, and return the files."""
    from vhem import plotting  # noqa: PLC0415

    plt = _pyplot()
    target.mkdir(parents=True, exist_ok=True)
    two = content.levels[0].n_dims == 2
    where: dict[str, Any] = {
        "image": plt.imread(existing_file(image)) if image and two else None,
        "extent": extent if two else None,
        "names": names,
    }
    written: list[Path] = []

    def keep(name: str, ax: Any) -> None:
        written.append(target / f"{name}.{kind}")
        ax.get_figure(root=True).savefig(written[-1], dpi=dpi)
        plt.close(ax.get_figure(root=True))

    for k, level in enumerate(content.levels):
        name = "centers" if len(content.levels) == 1 else f"centers_level{k + 1}"
        keep(name, plotting.plot_h3m(level, **where))
    if content.inputs is not None and len(content.levels[0]) <= _MANY:
        for k, center in enumerate(content.levels[0]):
            members = np.flatnonzero(content.labels[0] == k)
            if len(members):
                keep(f"cluster{k + 1}", plotting.plot_cluster(center, content.inputs[members], **where))
    if content.responsibilities is not None:
        keep("responsibilities", plotting.plot_responsibilities(content.responsibilities, content.labels[0]))
    if len(content.levels) > 1 and content.inputs is not None:
        tree = Tree(content.inputs, content.levels, content.parents)
        keep("hierarchy", plotting.plot_hierarchy(tree, content.classes or (content.labels[-1] + 1).tolist()))
    return written


def _pyplot() -> Any:
    """Return matplotlib's pyplot, drawing into files only: the command opens no window."""
    try:
        import matplotlib as mpl  # noqa: PLC0415  (an optional library)
    except ModuleNotFoundError:
        raise ModuleNotFoundError(f"pictures need matplotlib: {how_to_install('plot')}.") from None
    mpl.use("Agg")
    import matplotlib.pyplot as plt  # noqa: PLC0415

    return plt
