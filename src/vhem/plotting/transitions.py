"""The Markov chain of an HMM as a graph: numbered states, arrows as wide as their probability, rings for the start."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vhem._support.arrays import FloatArray
from vhem.models import HMM
from vhem.plotting.style import axes_or_new, color, picture, text_on

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.path import Path

_NODE = 16.0  # diameter of a state's disc, in points, if there is room
_WIDEST = 5.0  # of an arrow, in points, for probability one


@picture
def plot_transitions(hmm: HMM, ax: Axes | None = None, threshold: float = 0.05) -> Axes:
    """Draw the chain of an HMM as a graph.

    States are arranged in a circle. An arrow is as wide as the probability of going there next, a loop as wide as that
    of staying; the dark part of the ring around a state is the probability of starting in it.

    Parameters
    ----------
    hmm : HMM
        The model.
    <ax>
    threshold : float
        Transitions less probable than this are left out.

    <axes>

    Examples
    --------
    >>> import vhem
    >>> from vhem.plotting import plot_transitions
    >>> hmm = vhem.HMM([1.0, 0.0], [[0.9, 0.1], [0.0, 1.0]], [[0.0], [5.0]], [[1.0], [1.0]])
    >>> ax = plot_transitions(hmm)
    >>> [text.get_text() for text in ax.texts]
    ['1', '2']
    """
    ax = axes_or_new(ax, 3.5, 3.5)
    angle = np.pi / 2 - 2 * np.pi * np.arange(hmm.n_states) / hmm.n_states
    places = np.column_stack([np.cos(angle), np.sin(angle)]) * (hmm.n_states > 1)
    draw_chain(ax, hmm, places, threshold, outwards=places)
    ax.set(xlim=(-1.7, 1.7), ylim=(-1.7, 1.7), xticks=[], yticks=[], aspect="equal")
    ax.spines[:].set_visible(False)
    return ax


def draw_chain(
    ax: Axes, hmm: HMM, places: FloatArray, threshold: float = 0.05, outwards: FloatArray | None = None
) -> None:
    """Draw the states at `places` (S, 2) with their arrows, loops and rings, in sizes that suit the axes.

    `outwards` are the directions of loops from their states; upwards by default.
    """
    box = ax.get_window_extent().transformed(ax.get_figure(root=True).dpi_scale_trans.inverted())  # type: ignore[union-attr]
    diameter = float(np.clip(0.06 * 72 * min(box.width, box.height), 6.0, _NODE))
    size, scale = diameter**2, diameter / _NODE
    turn = -1 if ax.yaxis_inverted() else 1
    points_a_unit = 72 * np.array([box.width / np.ptp(ax.get_xlim()), box.height / np.ptp(ax.get_ylim())])
    places = apart(places * points_a_unit, 1.4 * diameter) / points_a_unit
    for a in range(hmm.n_states):
        direction = np.array([0.0, 1.0]) if outwards is None or not outwards[a].any() else outwards[a]
        for b in range(hmm.n_states):
            p = float(hmm.transmat[a, b])
            if p >= threshold and a != b:
                _arrow(ax, places[a], places[b], p, scale, turn)
            elif p >= threshold:
                style: dict[str, Any] = {"facecolor": "none", "edgecolor": "0.2", "linewidth": _WIDEST * scale * p}
                style["path_effects"] = _halo(_WIDEST * scale * p)
                ax.scatter(places[a, 0], places[a, 1], s=4 * size, marker=_loop(direction), zorder=4, **style)
    for s, place in enumerate(places):
        _state(ax, place, s, float(hmm.startprob[s]), size)


def apart(places: FloatArray, gap: float) -> FloatArray:
    """Return the positions, moved as far as needed to be at least `gap` apart.

    Examples
    --------
    >>> apart(np.array([[0.0, 0.0], [1.0, 0.0], [9.0, 0.0]]), gap=2.0)
    array([[-0.5, 0. ], [ 1.5, 0. ], [ 9. , 0. ]])
    """
    out = np.array(places, dtype=np.float64)
    for _ in range(60):
        for a in range(len(out)):
            for b in range(a):
                way = out[a] - out[b]
                far = float(np.hypot(*way))
                if far < 1e-9:  # in the same place: any direction will do
                    way, far = np.array([np.cos(a), np.sin(a)]) * 1e-9, 1e-9
                if far < gap:
                    out[a] += way / far * (gap - far) / 2
                    out[b] -= way / far * (gap - far) / 2
    return out


def _arrow(ax: Axes, start: FloatArray, end: FloatArray, p: float, scale: float, turn: int) -> None:
    from matplotlib.patches import FancyArrowPatch  # noqa: PLC0415

    head = f"-|>,head_length={(3 + 4 * p) * scale:.2f},head_width={(1.6 + 2.6 * p) * scale:.2f}"
    arrow = FancyArrowPatch(
        tuple(start), tuple(end), arrowstyle=head, connectionstyle=f"arc3,rad={0.22 * turn}", color="0.2",
        linewidth=_WIDEST * scale * p, shrinkA=scale * _NODE * 0.6, shrinkB=scale * _NODE * 0.68, zorder=4,
        path_effects=_halo(_WIDEST * scale * p),
    )  # fmt: skip
    ax.add_patch(arrow)


def _halo(width: float) -> list[Any]:
    """Return a light outline, by which dark lines show on dark pictures."""
    from matplotlib.patheffects import withStroke  # noqa: PLC0415

    return [withStroke(linewidth=width + 1.6, foreground="white", alpha=0.8)]


def _state(ax: Axes, place: FloatArray, s: int, start: float, size: float) -> None:
    x, y = place
    ax.scatter(x, y, s=size * 1.5, color="white", edgecolor="0.2", linewidth=0.8, zorder=5)
    if start > 0:
        ax.scatter(x, y, s=size * 1.5, marker=_wedge(start), color="0.1", linewidth=0, zorder=6)
    ax.scatter(x, y, s=size, color=color(s), edgecolor="0.2", linewidth=0.8, zorder=7)
    style: dict[str, Any] = {"fontsize": max(4.0, 0.55 * size**0.5), "fontweight": "bold", "color": text_on(s)}
    ax.text(x, y, str(s + 1), ha="center", va="center_baseline", zorder=8, **style)


def _wedge(share: float) -> Path:
    """Return a sector of the unit disc, clockwise from the top."""
    from matplotlib.path import Path  # noqa: PLC0415

    angle = np.pi / 2 - 2 * np.pi * np.linspace(0, min(share, 1.0), 60)
    arc = np.column_stack([np.cos(angle), np.sin(angle)])
    whole = np.vstack([[0.0, 0.0], arc, [0.0, 0.0]])
    # Markers are scaled by their largest coordinate: tiny moves to the corners keep every sector on one scale.
    return Path(np.vstack([whole, [[-1, 0], [1, 0]]]), [1] + [2] * 61 + [1, 1])


def _loop(direction: FloatArray) -> Path:
    """Return a circle offset from the origin in a direction."""
    from matplotlib.path import Path  # noqa: PLC0415

    angle = np.linspace(0, 2 * np.pi, 60)
    unit = direction / np.hypot(*direction)
    circle = 0.38 * np.column_stack([np.cos(angle), np.sin(angle)]) + 0.62 * unit
    return Path(np.vstack([circle, [[-1, 0], [1, 0]]]), [1] + [2] * 59 + [1, 1])
