"""One HMM as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from vhem._support.arrays import FloatArray
from vhem._support.errors import InputError
from vhem.emissions import Gaussian
from vhem.models import HMM
from vhem.plotting.channels import plot_channels
from vhem.plotting.gaussians import (
    IN_SPREADS,
    channel_scales,
    draw_densities,
    draw_ellipses,
    draw_profiles,
    state_means,
)
from vhem.plotting.style import axes_or_new, equal_scales, picture
from vhem.plotting.transitions import draw_chain, plot_transitions
from vhem.sequences import SequencesLike

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@picture
def plot_hmm(
    hmm: HMM,
    ax: Axes | None = None,
    image: npt.ArrayLike | None = None,
    extent: tuple[float, float, float, float] | None = None,
    names: Sequence[str] | None = None,
    transitions: bool = True,
    threshold: float = 0.05,
    sequences: SequencesLike | None = None,
) -> Axes:
    """Draw an HMM: where its states are, how it moves between them, and where it starts.

    In two dimensions every state is an ellipse, two standard deviations around its mean, over a background image if
    there is one. In one dimension it is a density curve, scaled by the share of time spent there in the long run (all
    count the same if some are only passed through). In more, it is the profile of its means over the dimensions, each
    in units of its own spread, with the chain next to it. States that do not emit Gaussians have a panel per dimension
    instead, with bars of categories or counts, curves, or roses of angles. Arrows are as wide as the probability of
    going there next, loops as that of staying, and the dark part of the ring around a state's number is the probability
    of starting there.

    Parameters
    ----------
    hmm : HMM
        The model.
    <ax>
    image : array of shape (height, width) or (height, width, 3), optional
        The image that was looked at, for HMMs in two dimensions; y then points down, as for pixels.
    extent : (left, right, bottom, top), optional
        The data coordinates of the image's edges, by default its pixels; without an image, of the picture's edges.
        A bottom above the top, as in (0, 640, 480, 0), makes y point down.
    names : list of str, optional
        Names of the dimensions.
    transitions : bool
        Whether to draw the chain.
    threshold : float
        Transitions less probable than this are left out.
    sequences : list of arrays or Sequences, optional
        Observations, whose histograms are drawn behind the states of other families than Gaussians. States are then as
        high as the share of the observations that are theirs, so that together they should fill the histogram.

    <axes>

    Examples
    --------
    >>> from vhem.datasets import simulated_study
    >>> from vhem.plotting import plot_hmm
    >>> study = simulated_study()
    >>> ax = plot_hmm(study.hmms[0], names=["x", "y"])
    >>> ax.get_xlabel(), len(ax.patches) >= 3
    ('x', True)
    """
    check_names(names, hmm.n_dims)
    if not isinstance(hmm.emissions, Gaussian):
        return plot_channels(hmm, ax, names, transitions, threshold, sequences=sequences)
    ax = axes_or_new(ax, *{1: (5.5, 3.5), 2: (5.0, 5.0)}.get(hmm.n_dims, (8.0, 3.5)))
    draw_emissions(ax, hmm, image, extent, names, channel_scales([hmm]))
    if transitions:
        draw_transitions(ax, hmm, threshold)
    return ax


def draw_emissions(
    ax: Axes,
    hmm: HMM,
    image: npt.ArrayLike | None,
    extent: tuple[float, float, float, float] | None,
    names: Sequence[str] | None,
    scales: tuple[FloatArray, FloatArray],
) -> None:
    """Draw where the states of an HMM are; `scales` are the channels' in a profile."""
    if hmm.n_dims == 2:
        draw_background(ax, image, extent)
        draw_ellipses(ax, hmm)
        equal_scales(ax, free=image is None and extent is None)
    elif hmm.n_dims == 1:
        draw_densities(ax, hmm)
        ax.set(ylim=(0, None), yticks=[])
    else:
        draw_profiles(ax, hmm, scales, names)
    label_axes(ax, hmm.n_dims, names)


def draw_transitions(ax: Axes, hmm: HMM, threshold: float = 0.05) -> None:
    """Draw the chain: over the emissions, whose axes have their final limits, or beside profiles."""
    if hmm.n_dims > 2:
        plot_transitions(hmm, ax.inset_axes((1.02, 0.05, 0.42, 0.9)), threshold)
        return
    places = state_means(hmm)
    if hmm.n_dims == 1:
        top = ax.get_ylim()[1]
        places = np.column_stack([places[:, 0], np.full(hmm.n_states, 1.3 * top)])
        ax.set_ylim(0, 1.7 * top)
    draw_chain(ax, hmm, places, threshold)


def check_names(names: Sequence[str] | None, n_dims: int) -> None:
    """Raise if there are too few or too many names of dimensions."""
    if names is not None and len(names) != n_dims:
        raise InputError(
            "{names} has {n} entries, but the HMM has {n_dims} dimensions", "give one for each",
            n=len(names), n_dims=n_dims,
        )  # fmt: skip


def draw_background(ax: Axes, image: Any, extent: tuple[float, float, float, float] | None) -> None:
    """Draw the image that fixations lie on, with pixel (0, 0) in the upper left corner."""
    if image is None and extent is not None:
        ax.set(xlim=extent[:2], ylim=extent[2:])
    if image is None:
        return
    pixels = np.asarray(image)
    if pixels.ndim not in (2, 3):
        raise InputError(
            "{image} must be (height, width) or (height, width, 3 or 4), got the shape {shape}",
            shape=pixels.shape,
        )  # fmt: skip
    height, width = pixels.shape[:2]
    ax.imshow(pixels, cmap="gray", extent=extent or (0, width, height, 0), alpha=0.8, zorder=0)
    ax.margins(0)


def label_axes(ax: Axes, n_dims: int, names: Sequence[str] | None) -> None:
    """Name the axes after the dimensions."""
    if n_dims <= 2 and names is not None:
        ax.set_xlabel(names[0])
        if n_dims == 2:
            ax.set_ylabel(names[1])
    elif n_dims > 2:
        ax.set_xlabel("dimension" if names is None else "")
        ax.set_ylabel(IN_SPREADS)
