"""A sequence coloured by the states that an HMM finds in it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from vhem._support.arrays import FloatArray, IntArray
from vhem.emissions import Gaussian
from vhem.models import HMM
from vhem.plotting.gaussians import IN_SPREADS, channel_scales, draw_ellipses
from vhem.plotting.hmm import check_names, draw_background
from vhem.plotting.style import axes_or_new, color, dashes, equal_scales, hatch, picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FEW_STEPS = 40  # up to this many points are numbered
_FEW_LINES = 8  # dimensions that get an entry in the legend


@picture
def plot_sequence(
    hmm: HMM,
    sequence: npt.ArrayLike,
    ax: Axes | None = None,
    image: npt.ArrayLike | None = None,
    extent: tuple[float, float, float, float] | None = None,
    names: Sequence[str] | None = None,
) -> Axes:
    """Draw a sequence with its likeliest path of states (Viterbi).

    In two dimensions it is a path of numbered points, coloured by state, over the states' ellipses. Otherwise it is
    drawn over time, the states as a hatched and numbered strip below; in more than two dimensions each is drawn in
    units of its own spread.

    Parameters
    ----------
    hmm : HMM
        The model that decodes the sequence.
    sequence : array of shape (T, d), or (T,) if d = 1
        The sequence; NaN leaves a gap.
    <ax>
    <scene>

    <axes>

    Examples
    --------
    >>> from vhem import HMM
    >>> from vhem.plotting import plot_sequence
    >>> hmm = HMM([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]], [[0.0], [5.0]], [[1.0], [1.0]])
    >>> ax = plot_sequence(hmm, [0.1, -0.3, 4.9, 5.2, 5.0])
    >>> [text.get_text() for text in ax.texts]
    ['1', '2']
    """
    check_names(names, hmm.n_dims)
    values = np.asarray(sequence, dtype=np.float64)
    values = values[:, None] if values.ndim == 1 else values
    (path,) = hmm.decode([values])[1]
    if hmm.n_dims == 2:
        ax = axes_or_new(ax, 5.0, 5.0)
        draw_background(ax, image, extent)
        draw_ellipses(ax, hmm, faint=True)
        _draw_path(ax, values, path)
        equal_scales(ax, free=image is None and extent is None)
        if names is not None:
            ax.set(xlabel=names[0], ylabel=names[1])
        return ax
    ax = axes_or_new(ax, 8.0, 3.5)
    unit = names[0] if names and hmm.n_dims == 1 else "value"
    if hmm.n_dims > 2 and isinstance(hmm.emissions, Gaussian):
        centre, spread = channel_scales([hmm])
        values, unit = (values - centre) / spread, IN_SPREADS
    for k in range(hmm.n_dims):
        style = {"color": "0.2"} if hmm.n_dims == 1 else {"color": color(k + 4), "linestyle": dashes(k)}
        label = (names[k] if names else f"dimension {k + 1}") if 1 < hmm.n_dims <= _FEW_LINES else None
        ax.plot(values[:, k], linewidth=1.0, marker="o" if len(values) < 3 else None, label=label, **style)
    _draw_strip(ax, values, path)
    if 1 < hmm.n_dims <= _FEW_LINES:
        ax.legend(frameon=False, fontsize=8, ncols=4, loc="upper right")
    ax.set(xlabel="time", ylabel=unit)
    return ax


def _draw_path(ax: Axes, values: FloatArray, path: IntArray) -> None:
    ax.plot(values[:, 0], values[:, 1], color="0.25", linewidth=1.0, zorder=3)
    short = len(values) <= _FEW_STEPS
    for s in np.unique(path):
        here = values[path == s]
        ax.scatter(here[:, 0], here[:, 1], s=150 if short else 14, color=color(int(s)), edgecolor="0.15",
                   linewidth=0.8, zorder=4, label=f"state {s + 1}")  # fmt: skip
    for t, (x, y) in enumerate(values[:_FEW_STEPS] if short else []):
        if np.isfinite(x) and np.isfinite(y):
            ax.text(x, y, str(t + 1), ha="center", va="center_baseline", fontsize=7, fontweight="bold", zorder=5)
    ax.legend(fontsize=8, loc="best", framealpha=0.85, facecolor="white", labelcolor="black")  # also over dark images


def _draw_strip(ax: Axes, values: FloatArray, path: IntArray) -> None:
    """Draw the states as a strip below the curves, each stay with its state's number if there is room."""
    low, high = np.nanmin(values), np.nanmax(values)
    height = 0.12 * (high - low or 1.0)
    edges = [0, *(np.flatnonzero(np.diff(path)) + 1).tolist(), len(path)]
    for begin, end in pairwise(edges):
        s = int(path[begin])
        ax.axvspan(begin - 0.5, end - 0.5, color=(color(s), 0.18), lw=0, zorder=0)
        strip = ([begin - 0.5, end - 0.5], [low - 2 * height] * 2, [low - height] * 2)
        ax.fill_between(*strip, facecolor=color(s), edgecolor="0.25", hatch=hatch(s), linewidth=0.5)
        if (end - begin) >= 0.02 * len(path):
            ax.text((begin + end - 1) / 2, low - 1.5 * height, str(s + 1), ha="center", va="center", fontsize=8,
                    fontweight="bold", bbox={"boxstyle": "circle,pad=0.15", "facecolor": "white", "lw": 0})  # fmt: skip
    ax.set(xlim=(-0.5, len(path) - 0.5), ylim=(low - 2.2 * height, high + 1.5 * height))
