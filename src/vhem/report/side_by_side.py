"""Two clusterings of the same members side by side, as a page: who is where, and the centres that correspond."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from vhem.models import H3M
from vhem.report.images import embedded
from vhem.report.page import enclosed, environment, part
from vhem.report.payload import as_script, channels_data, drawn_channels, drawn_models, likeness, n_decimals

_SCRIPTS = ("drawing.js", "base.js", "figures.js", "map.js", "chain.js", "models.js", "channels.js", "side_by_side.js")


class Side(NamedTuple):
    """One of the two clusterings."""

    title: str
    centers: H3M
    names: list[str]  #: of the clusters
    sizes: list[int]  #: members of each cluster


def comparison_page(
    one: Side,
    other: Side,
    found: dict[str, Any],
    tau: int,
    names: Sequence[str] | None = None,
    image: str | os.PathLike[str] | None = None,
) -> str:
    """Return a page on two clusterings.

    Parameters
    ----------
    one, other : Side
        The clusterings; their centres must have the same dimensions.
    found : dict
        ``table`` (members of both, by cluster), ``pairs`` (clusters that correspond, with the divergence of their
        centres), ``moved`` (members whose clusters do not correspond), ``agreement`` and ``common``.
    tau : int
        Length of the sequences for which shares of time are shown.
    names : list of str, optional
        Names of the dimensions.
    image : path, optional
        The image that was looked at.
    """
    decimals = n_decimals(one.centers)
    channels = drawn_channels([one.centers, other.centers], names)
    models = [m for side in (one, other) for m in drawn_models(side.centers, decimals, tau, channels)]
    for i, j, _ in found["pairs"]:  # states that correspond have the same colour
        models[len(one.centers) + j]["like"] = likeness(other.centers[j], one.centers[i]).tolist()
    picture = embedded(Path(image)) if image is not None and one.centers.n_dims == 2 else None
    data: dict[str, Any] = {
        "dims": one.centers.n_dims,
        "channels": channels_data(channels),
        "layers": [[], models],
        "parents": [[]],
        "members": {"names": [], "shares": [], "classes": []},
        "dimensionNames": list(names) if names else None,
        "image": picture and picture.href,
        "extent": picture and [0, picture.width, picture.height, 0],
        "crop": None,
        "colors": [],
        "clusterNames": [],
        "sides": [{"title": s.title, "names": s.names, "sizes": s.sizes} for s in (one, other)],
        "found": found,
    }
    script, digest = enclosed(_SCRIPTS)
    template = environment().get_template("side_by_side.html")
    title, style = f"{one.title} and {other.title}", part("page.css")
    return str(template.render(title=title, digest=digest, style=style, data=as_script(data), script=script))
