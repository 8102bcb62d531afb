"""Writes the report: jinja2 makes the tables and escapes all text, a script draws the pictures from data."""

from __future__ import annotations

import base64
import hashlib
import os
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import numpy.typing as npt

from vhem._support.checks import check_real
from vhem._support.errors import InputError, ParameterError
from vhem._support.paths import checked_path
from vhem.files.atomic import atomic_write
from vhem.inference.comparison import Comparison
from vhem.inference.pieces import disconnected_centers
from vhem.inference.tables import typeset
from vhem.models import H3M, HMM
from vhem.report import facts
from vhem.report.clustering import Clustering, clustering
from vhem.report.images import embedded
from vhem.report.payload import as_script, payload
from vhem.sequences import Sequences, SequencesLike

_SCRIPTS = (
    "drawing.js",
    "base.js",
    "figures.js",
    "map.js",
    "chain.js",
    "models.js",
    "channels.js",
    "categories.js",
    "sequences.js",
    "clusters.js",
    "tree.js",
    "details.js",
    "members.js",
    "start.js",
)
_TABLES = 60_000  # approximate bytes of the page without data, style and script


class Look(NamedTuple):
    """What the pictures are made to look like."""

    cluster_names: Sequence[str] = ()
    colors: Sequence[str] = ()
    crop: Sequence[float] | None = None

    def checked(self, content: Clustering) -> dict[str, Any]:
        """Return it as the page takes it, or say what is wrong with it."""
        n_clusters, n_dims = len(content.levels[0]), content.levels[0].n_dims
        if len(self.cluster_names) > n_clusters:
            problem = "{cluster_names} has {n} names for {k} clusters"
            raise InputError(problem, n=len(self.cluster_names), k=n_clusters)
        for value in self.colors:
            if not re.fullmatch(r"#[0-9a-fA-F]{6}", value):
                raise ParameterError("colors", value, "must be like '#0072b2'")
        if self.crop is not None and n_dims != 2:
            raise InputError("{crop} is for HMMs in two dimensions; these have {n_dims}", n_dims=n_dims)
        edges = None if self.crop is None else _edges("crop", self.crop)
        return {"clusterNames": [str(name) for name in self.cluster_names], "colors": list(self.colors), "crop": edges}


def write(
    path: str | os.PathLike[str],
    fit: Any,
    hmms: H3M | list[HMM] | None = None,
    *,
    sequences: SequencesLike | None = None,
    groups: Sequence[Any] | None = None,
    classes: Sequence[Any] | None = None,
    image: str | Path | npt.ArrayLike | None = None,
    extent: Sequence[float] | None = None,
    names: Sequence[str] | None = None,
    cluster_names: Sequence[str] = (),
    colors: Sequence[str] = (),
    crop: Sequence[float] | None = None,
    title: str = "Clusters of hidden Markov models",
    command: str | None = None,
    warnings: Iterable[Any] = (),
    statistics: Comparison | None = None,
    max_megabytes: float = 5.0,
) -> Path:
    """Write a report on a clustering: one HTML file that needs no network and no installation.

    Parameters
    ----------
    path : str or Path
        The file to write.
    fit : VHEM, HierarchicalVHEM, SampledHEM, PPKClustering or MixtureOfHMMs
        The fitted estimator.
    hmms : H3M or list of HMM, optional
        What it was fitted to. A hierarchy knows its own, and a mixture of HMMs is fitted to sequences.
    sequences : list of arrays or Sequences, optional
        What the HMMs were learned from, to be shown with the states found in them.
    groups : list, optional
        The id of the HMM that each sequence belongs to; by default the sequences' own groups, or one sequence per HMM.
    classes : list, optional
        The known class of every HMM, to compare the clusters with.
    image : path or array, optional
        The image that was looked at (PNG, JPEG, or an array of pixels), drawn behind HMMs in two dimensions.
    extent : (left, right, bottom, top), optional
        The data coordinates of the image's edges, by default its pixels; without an image, of the pictures' edges.
        A bottom above the top, as in (0, 640, 480, 0), makes y point down.
    names : list of str, optional
        Names of the dimensions.
    cluster_names : list of str
        Names of the clusters, of the lowest level if there are several; those without one are numbered.
    colors : list of str
        Colours of the states, such as "#0072b2"; beyond these, the usual ones.
    crop : (left, right, bottom, top), optional
        The part of the image, or of the plane, that pictures show, in data coordinates.
    title : str
        The report's title.
    command : str, optional
        The command that made the clustering, shown in the section on how to reproduce it.
    warnings : list of str or of warnings, optional
        The warnings of the run, as collected by `warnings.catch_warnings(record=True)`.
    statistics : Comparison, optional
        What :func:`vhem.inference.compare_clusters` found, for the section Statistics.
    max_megabytes : float
        Maximum size of the file. Members' HMMs and sequences that do not fit are left out, and the report says so.

    Returns
    -------
    Path
        The file.

    Examples
    --------
    >>> import tempfile, vhem
    >>> from vhem.datasets import simulated_study
    >>> study = simulated_study()
    >>> fit = vhem.VHEM(3, random_state=0).fit(study.hmms)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = vhem.report.write(f"{folder}/report.html", fit, study.hmms, sequences=study.sequences)
    ...     text = path.read_text(encoding="utf-8")
    >>> "viewer 01" in text
    True
    """
    checked_path(path)
    content = clustering(fit, hmms, sequences, groups, classes, statistics)
    if names is None and isinstance(sequences, Sequences) and sequences._channels is not None:
        names = sequences.channels
    said = [str(getattr(warning, "message", warning)) for warning in warnings]
    return write_clustering(
        path, content, image=image, extent=extent, names=names, title=title, command=command,
        warnings=_with_pieces(said or content.run.warnings, content), max_megabytes=max_megabytes, notes=[],
        look=Look(cluster_names, colors, crop),
    )  # fmt: skip


def write_clustering(
    path: str | os.PathLike[str], content: Clustering, *, image: str | Path | npt.ArrayLike | None,
    extent: Sequence[float] | None, names: Sequence[str] | None, title: str, command: str | None,
    warnings: list[str], max_megabytes: float, notes: list[str], look: Look | None = None,
) -> Path:  # fmt: skip
    """Write the report on a clustering that is already in the form of a report; see :func:`write`.

    Anything worth knowing is added to `notes` and to the report.
    """
    check_real("max_megabytes", max_megabytes, 0.0, open_interval=True)
    _check_names(names, content)
    background = _background(image, extent, content)
    parts = {name: part(name) for name in ("page.css", *_SCRIPTS)}
    used = sum(map(len, parts.values())) + len(str(background)) + _TABLES
    data = payload(content, max_megabytes * 1e6 - used, notes, names)
    data |= {"dimensionNames": [str(name) for name in names] if names else None, **background}
    data |= (look or Look()).checked(content)
    page = _render(content, data, parts, title, command, warnings, notes)
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(target, "w") as file:
        file.write(page)
    return target


def _with_pieces(warnings: list[str], content: Clustering) -> list[str]:
    """Add warnings about centres that join unlike members, unless the run gave them."""
    found = [
        pieces.sentence()
        for pieces in disconnected_centers(content.levels[0], content.tau, content.inputs, content.labels[0])
    ]
    return [*warnings, *(sentence for sentence in found if sentence not in warnings)]


def _render(
    content: Clustering, data: dict[str, Any], parts: dict[str, str], title: str, command: str | None,
    warnings: list[str], notes: list[str],
) -> str:  # fmt: skip
    from markupsafe import Markup  # noqa: PLC0415  (only a report needs it)

    script, digest = enclosed(_SCRIPTS)
    agreement = facts.agreement(content)
    template = environment().get_template("page.html")
    return str(
        template.render(
            title=title,
            made=datetime.now(UTC).strftime("%d %B %Y, %H:%M UTC").lstrip("0"),
            run=content.run,
            summary=facts.summary(content),
            figures=facts.figures(content),
            agreement=agreement,
            statistics=content.statistics,
            headline=facts.headline(agreement),
            warnings=warnings,
            notes=notes,
            versions=facts.versions(),
            command=command,
            style=Markup(parts["page.css"]),
            data=Markup(as_script(data)),
            script=Markup(script),
            digest=digest,
        )
    )


def environment() -> Any:
    """Return what fills templates: all text is escaped, and nothing may be missing."""
    import jinja2  # noqa: PLC0415  (only a report needs it)

    made = jinja2.Environment(
        loader=jinja2.FunctionLoader(part), autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True
    )
    made.filters["typeset"] = typeset
    return made


def enclosed(scripts: Sequence[str]) -> tuple[str, str]:
    """Return the parts of a page's script as one, and the digest by which its policy knows it."""
    script = '"use strict";\n(() => {\n' + "\n".join(map(part, scripts)) + "\n})();"
    return script, base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def part(name: str) -> str:
    """Return a template, style or script of the report."""
    return resources.files("vhem.report").joinpath("parts", name).read_text(encoding="utf-8")


def _check_names(names: Sequence[str] | None, content: Clustering) -> None:
    n_dims = content.levels[0].n_dims
    if names is not None and len(names) != n_dims:
        raise InputError(
            "{names} has {n} entries, but the HMMs have {n_dims} dimensions", "give one for each",
            n=len(names), n_dims=n_dims,
        )  # fmt: skip


def _background(
    image: str | Path | npt.ArrayLike | None, extent: Sequence[float] | None, content: Clustering
) -> dict[str, Any]:
    """Return the image as a data URL, and the edges of maps in data coordinates."""
    n_dims = content.levels[0].n_dims
    if image is None and extent is None:
        return {"image": None, "extent": None}
    if n_dims != 2:
        raise InputError("{image} and {extent} are for HMMs in two dimensions; these have {n_dims}", n_dims=n_dims)
    edges = None if extent is None else _edges("extent", extent)
    if image is None:
        return {"image": None, "extent": edges}
    picture = embedded(image)
    return {"image": picture.href, "extent": edges or [0, picture.width, picture.height, 0]}


def _edges(name: str, given: Sequence[float]) -> list[float]:
    edges = [float(edge) for edge in given]
    if len(edges) != 4 or edges[0] == edges[1] or edges[2] == edges[3]:
        raise ParameterError(name, given, "must be (left, right, bottom, top), such as (0, 640, 480, 0)")
    return edges
