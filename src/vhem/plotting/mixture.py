"""Many HMMs at once: a mixture as a grid, or a cluster's members behind their centre."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from vhem._support.errors import InputError
from vhem.emissions import Gaussian
from vhem.models import H3M, HMM
from vhem.plotting.channels import plot_channel_grid, plot_channels
from vhem.plotting.gaussians import channel_scales, draw_densities, draw_ellipses, draw_profiles
from vhem.plotting.hmm import check_names, draw_emissions, draw_transitions
from vhem.plotting.style import axes_or_new, picture, text_size

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@picture
def plot_h3m(
    h3m: H3M,
    ax: Axes | None = None,
    image: npt.ArrayLike | None = None,
    extent: tuple[float, float, float, float] | None = None,
    names: Sequence[str] | None = None,
    columns: int | None = None,
    transitions: bool | None = None,
) -> Axes:
    """Draw every HMM of a mixture in its own panel, all on the same scale.

    Parameters
    ----------
    h3m : H3M
        The mixture, such as the centres of a clustering. A panel's title is its number and its weight.
    ax : matplotlib Axes, optional
        Where to draw; made if not given. The panels are its `child_axes`.
    <scene>
    <columns>
    transitions : bool, optional
        Whether to draw the chains. None: for up to 12 HMMs of one or two dimensions.

    <panels>

    Examples
    --------
    >>> import vhem
    >>> from vhem.datasets import simulated_study
    >>> from vhem.plotting import plot_h3m
    >>> fit = vhem.VHEM(3, random_state=0).fit(simulated_study().hmms)
    >>> ax = plot_h3m(fit.centers_)
    >>> [panel.get_title() for panel in ax.child_axes]
    ['1 (35%)', '2 (32%)', '3 (32%)']
    """
    check_names(names, h3m.n_dims)
    if not isinstance(h3m.emissions, Gaussian):
        return plot_channel_grid(h3m, ax, names, columns)
    n = len(h3m)
    columns = min(n, columns or int(np.ceil(np.sqrt(1.6 * n))))
    rows = -(-n // columns)
    wide = h3m.n_dims > 2
    chain = (n <= 12 and not wide) if transitions is None else transitions
    side = 3.0 if chain else 1.9
    ax = axes_or_new(ax, columns * side * (1.3 if wide else 1.0), rows * side * 1.1)
    ax.set_axis_off()
    panels, scales = [], channel_scales(list(h3m))
    for k, hmm in enumerate(h3m):
        row, column = divmod(k, columns)
        place = ((column + 0.06) / columns, 1 - (row + 0.86) / rows, 0.88 / columns, 0.74 / rows)
        panel = ax.inset_axes(place)
        draw_emissions(panel, hmm, image, extent, names, scales)
        panel.set_title(f"{k + 1} ({h3m.weights[k]:.0%})", fontsize=text_size(n), pad=3)
        panel.set(xlabel="", ylabel="")
        panel.tick_params(labelsize=text_size(2 * n))
        if row < rows - 1 and k + columns < n:
            panel.tick_params(labelbottom=False)
        if column:
            panel.tick_params(labelleft=False)
        panels.append(panel)
    _same_limits(panels)
    for panel, hmm in zip(panels if chain else [], h3m, strict=False):  # when limits are final, discs can be kept apart
        draw_transitions(panel, hmm)
    return ax


@picture
def plot_cluster(
    center: HMM,
    members: H3M | Iterable[HMM],
    ax: Axes | None = None,
    responsibilities: npt.ArrayLike | None = None,
    image: npt.ArrayLike | None = None,
    extent: tuple[float, float, float, float] | None = None,
    names: Sequence[str] | None = None,
) -> Axes:
    """Draw a cluster: its members as thin gray lines, and its centre over them.

    Parameters
    ----------
    center : HMM
        The cluster's centre.
    members : H3M or list of HMM
        The HMMs it represents.
    <ax>
    responsibilities : array of shape (n,), optional
        Probability that each member belongs to the cluster: uncertain ones are drawn fainter.
    <scene>

    <axes>

    Examples
    --------
    >>> import vhem
    >>> from vhem.datasets import simulated_study
    >>> from vhem.plotting import plot_cluster
    >>> hmms = simulated_study().hmms
    >>> fit = vhem.VHEM(3, random_state=0).fit(hmms)
    >>> ax = plot_cluster(fit.centers_[0], hmms[fit.labels_ == 0], responsibilities=fit.responsibilities_[:14, 0])
    >>> ax.get_title()
    '14 members and their centre'
    """
    hmms = list(members)
    shares = np.ones(len(hmms)) if responsibilities is None else np.asarray(responsibilities, dtype=float)
    if shares.shape != (len(hmms),):
        raise InputError(
            "{responsibilities} has the shape {shape} for {n} members", "give one for each",
            shape=shares.shape, n=len(hmms),
        )  # fmt: skip
    if any(hmm.n_dims != center.n_dims for hmm in hmms):
        raise InputError(
            "members and centre must have the same dimensions; the centre has {n_dims}",
            n_dims=center.n_dims,
        )  # fmt: skip
    check_names(names, center.n_dims)
    strengths = (np.clip(8 / max(1, len(hmms)), 0.15, 0.8) * np.clip(shares, 0.1, 1.0)).tolist()
    title = f"{len(hmms)} members and their centre"
    if not isinstance(center.emissions, Gaussian):
        ax = plot_channels(center, ax, names, transitions=True, behind=list(zip(hmms, strengths, strict=True)))
        ax.set_title(title, fontsize=10)
        return ax
    ax = axes_or_new(ax, 8.0 if center.n_dims > 2 else 5.0, 3.5 if center.n_dims != 2 else 5.0)
    scales = channel_scales([center])
    for hmm, strength in zip(hmms, strengths, strict=True):
        if center.n_dims == 2:
            draw_ellipses(ax, hmm, faint=True, strength=strength)
        elif center.n_dims == 1:
            draw_densities(ax, hmm, faint=True, strength=strength)
        else:
            draw_profiles(ax, hmm, scales, names, faint=True, strength=strength)
    draw_emissions(ax, center, image, extent, names, scales)
    draw_transitions(ax, center)
    ax.set_title(title, fontsize=10)
    return ax


def _same_limits(panels: list[Axes]) -> None:
    x, y = np.array([panel.get_xlim() for panel in panels]), np.array([panel.get_ylim() for panel in panels])
    down = y[0, 0] > y[0, 1]  # over an image y points down
    for panel in panels:
        panel.set_xlim(x.min(), x.max())
        panel.set_ylim((y.max(), y.min()) if down else (y.min(), y.max()))
        if panel.get_aspect() != "auto":
            panel.set_aspect("equal", adjustable="box")
