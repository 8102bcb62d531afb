"""What states emit if it is not Gaussian: bars of categories and counts, density curves, roses of angles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from vhem._support.arrays import FloatArray
from vhem.models import H3M, HMM
from vhem.models.marginals import BARS, COUNTS, CURVE, ROSE, Histogram, Marginal, channels_of, histogram, marginals
from vhem.plotting.style import axes_or_new, color, dashes, hatch, text_size
from vhem.plotting.transitions import plot_transitions
from vhem.sequences import Sequences, SequencesLike

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_BARS = 40  # counts that are drawn as bars; more are a line
_MANY_NAMES = 8  # of categories, which are written upright
_MOST_CHANNELS = 12
_PER_ROW = 4
_RIM = 0.15  # the radius of a rose that stands for zero

Drawer = Callable[["Axes", Marginal, bool, float], None]


def plot_channels(
    hmm: HMM,
    ax: Axes | None,
    names: Sequence[str] | None,
    transitions: bool,
    threshold: float = 0.05,
    behind: Sequence[tuple[HMM, float]] = (),
    sequences: SequencesLike | None = None,
) -> Axes:
    """Draw an HMM whose states do not emit Gaussians: a panel per channel, and the chain next to them.

    `behind` are other HMMs, drawn faintly, each with its strength. Histograms of `sequences` are drawn behind the
    states, which are then scaled by the share of frames that are theirs.
    """
    if names is None and hmm._channels is None and isinstance(sequences, Sequences):
        names = sequences.channels
    channels = channels_of([hmm], names)[:_MOST_CHANNELS]
    rows = -(-len(channels) // _PER_ROW)
    ax = axes_or_new(ax, 3.0 * min(len(channels), _PER_ROW) + 3.2 * transitions, 3.0 * rows)
    ax.set_axis_off()
    panels = _panels(ax, len(channels), 0.6 if transitions and rows == 1 else 1.0)
    for other, strength in behind:
        _draw(panels, marginals(other, channels), strength)
    found = marginals(hmm, channels)
    _draw(panels, found if sequences is None else _over_histograms(found, hmm, sequences), None)
    if transitions:
        plot_transitions(hmm, ax.inset_axes((0.64, 0, 0.36, 1) if rows == 1 else (1.02, 0.2, 0.4, 0.6)), threshold)
    return ax


def plot_channel_grid(h3m: H3M, ax: Axes | None, names: Sequence[str] | None, columns: int | None) -> Axes:
    """Draw the HMMs of a mixture whose states do not emit Gaussians, one row of panels for each."""
    n, channels = len(h3m), channels_of(list(h3m), names)[:_PER_ROW]
    columns = min(n, columns or (1 if len(channels) > 1 else int(np.ceil(np.sqrt(1.6 * n)))))
    rows = -(-n // columns)
    upright = any(len(channel.categories or ()) > _MANY_NAMES for channel in channels)  # names need room
    ax = axes_or_new(ax, 3.0 * columns * len(channels), (3.3 if upright else 2.5) * rows)
    ax.set_axis_off()
    for k, hmm in enumerate(h3m):
        row, column = divmod(k, columns)
        inner = ax.inset_axes((column / columns, 1 - (row + 1) / rows, 1 / columns, 1 / rows))
        inner.set_axis_off()
        panels = _panels(inner, len(channels), 1.0)
        _draw(panels, marginals(hmm, channels), None)
        panels[0].set_title(f"{k + 1} ({h3m.weights[k]:.0%}): {channels[0].name}", fontsize=9, pad=3)
    return ax


def _panels(ax: Axes, n: int, width: float) -> list[Axes]:
    """Return n panels within the axes, in rows of four."""
    columns = min(n, _PER_ROW)
    rows = -(-n // columns)
    made = []
    for k in range(n):
        row, column = divmod(k, columns)
        made.append(
            ax.inset_axes(
                ((column + 0.1) * width / columns, 1 - (row + 0.74) / rows, 0.84 * width / columns, 0.62 / rows)
            )
        )
    return made


def _over_histograms(found: list[Marginal], hmm: HMM, sequences: SequencesLike) -> list[Marginal]:
    """Return marginals with histograms of the frames; states are scaled by the share of them that they have emitted."""
    known = hmm.coded(sequences)
    shares = np.concatenate(hmm.posterior(known)).mean(axis=0)[:, None]
    pairs = zip(found, known.X.T, strict=False)
    return [m._replace(density=m.density * shares, observed=histogram(m.channel, x)) for m, x in pairs]


def _draw(panels: list[Axes], found: list[Marginal], strength: float | None) -> None:
    """Draw every channel in its panel: in colour, or faintly if there is a strength."""
    for panel, marginal in zip(panels, found, strict=True):
        if marginal.observed is not None:
            _draw_histogram(panel, marginal, marginal.observed)
        DRAWERS[marginal.channel.kind](panel, marginal, strength is not None, strength or 1.0)
        panel.set_title(marginal.channel.name, fontsize=9, pad=11 if marginal.channel.kind == ROSE else 3)
        panel.tick_params(labelsize=7)


def _draw_histogram(panel: Axes, marginal: Marginal, observed: Histogram) -> None:
    """Draw how often values were observed."""
    grey: dict[str, Any] = {"facecolor": "0.88", "edgecolor": "0.65", "linewidth": 0.5, "zorder": 0}
    channel, (edges, density) = marginal.channel, observed
    if channel.kind == ROSE:
        for share, low, high in zip(density, edges, edges[1:], strict=False):
            x, y = _around(np.linspace(low, high, 9), np.full(9, _RIM + (1 - _RIM) * share / _highest(marginal)))
            panel.fill(np.append(x, 0.0), np.append(y, 0.0), **grey)
    elif channel.kind == BARS or (channel.kind == COUNTS and len(channel.values) <= _MOST_BARS):
        panel.bar(np.arange(len(density)), density, 0.95, **grey)
    else:
        panel.bar(edges[:-1], density, np.diff(edges), align="edge", **grey)


def _highest(marginal: Marginal) -> float:
    """Return what reaches the rim of a rose."""
    observed = 0.0 if marginal.observed is None else float(marginal.observed.density.max())
    return max(float(marginal.density.max()), observed) or 1.0


def _draw_bars(panel: Axes, marginal: Marginal, faint: bool, strength: float) -> None:
    """Draw grouped bars: for every value one bar per state."""
    values, density = marginal.channel.values, marginal.density
    S = len(density)
    width = 0.8 / S
    for s, shares in enumerate(density):
        place = np.arange(len(values)) + (s - (S - 1) / 2) * width
        if faint:
            panel.plot(place, shares, "_", color="0.4", markersize=60 * width / max(1, len(values) / 4), alpha=strength)
            continue
        panel.bar(place, shares, width, facecolor=(color(s), 0.75), edgecolor="0.25", hatch=hatch(s), lw=0.4)
    names = marginal.channel.categories or tuple(f"{v:g}" for v in values)
    step = 1 if marginal.channel.categories else max(1, len(values) // 8)
    panel.set_xticks(np.arange(len(values))[::step], names[::step])
    if marginal.channel.categories and (len(names) > 4 or max(map(len, names)) > 6):
        many = len(names) > _MANY_NAMES
        panel.tick_params(axis="x", labelrotation=90 if many else 40)
        for label in panel.get_xticklabels():
            label.set_horizontalalignment("right")
            if many:
                label.set_verticalalignment("center")
            label.set_rotation_mode("anchor")
            label.set_fontsize(text_size(len(names)) - 1)
    panel.set_ylim(0, max(panel.get_ylim()[1], 1.05 * float(density.max())))


def _draw_curves(panel: Axes, marginal: Marginal, faint: bool, strength: float) -> None:
    values = marginal.channel.values
    for s, density in enumerate(marginal.density):
        if faint:
            panel.plot(values, density, color="0.45", linewidth=0.6, alpha=strength)
            continue
        panel.plot(values, density, color=color(s), linestyle=dashes(s), linewidth=1.6)
        panel.fill_between(values, density, facecolor=(color(s), 0.25), edgecolor=(color(s), 0.7), hatch=hatch(s), lw=0)
    if marginal.at_zero is not None and not faint:
        shares = ", ".join(f"{share:.0%}" for share in marginal.at_zero)
        panel.text(0.98, 0.96, f"zero: {shares}", transform=panel.transAxes, ha="right", va="top", fontsize=7)
    panel.set_ylim(0, None)
    panel.set_yticks([])


def _draw_counts(panel: Axes, marginal: Marginal, faint: bool, strength: float) -> None:
    if len(marginal.channel.values) <= _MOST_BARS:
        _draw_bars(panel, marginal, faint, strength)
        return
    _draw_curves(panel, marginal, faint, strength)
    root = (lambda x: np.sqrt(np.maximum(x, 0.0)), np.square)  # most of the mass is near zero, and the tail is long
    panel.set_xscale("function", functions=root)
    panel.set_yscale("function", functions=root)
    panel.set_xlim(0, marginal.channel.values[-1])
    panel.set_xticks(np.rint(np.square(np.linspace(0, 1, 4)) * marginal.channel.values[-1]))
    panel.set_yticks([])
    panel.set_xlabel("square-root scales", fontsize=7)


def _draw_rose(panel: Axes, marginal: Marginal, faint: bool, strength: float) -> None:
    """Draw densities of angles around a circle: 0 is to the right, angles grow against the clock."""
    highest = _highest(marginal)
    circle = np.linspace(0, 2 * np.pi, 100)
    panel.plot(np.cos(circle), np.sin(circle), color="0.7", linewidth=0.6)
    for s, density in enumerate(marginal.density):
        x, y = _around(marginal.channel.values, _RIM + (1 - _RIM) * density / highest)
        if faint:
            panel.plot(x, y, color="0.45", linewidth=0.6, alpha=strength)
            continue
        panel.plot(x, y, color=color(s), linestyle=dashes(s), linewidth=1.6)
        panel.fill(x, y, facecolor=(color(s), 0.2), edgecolor=(color(s), 0.6), hatch=hatch(s), lw=0)
    for angle, name in ((0, "0°"), (90, "90°"), (180, "180°"), (270, "−90°")):
        x, y = 1.18 * np.cos(np.radians(angle)), 1.18 * np.sin(np.radians(angle))
        panel.text(x, y, name, ha="center", va="center", fontsize=6)
    panel.set_aspect("equal")
    panel.set_axis_off()


def _around(angles: FloatArray, radius: FloatArray) -> tuple[FloatArray, FloatArray]:
    return radius * np.cos(angles), radius * np.sin(angles)


#: How each kind of channel is drawn.
DRAWERS: dict[str, Drawer] = {BARS: _draw_bars, COUNTS: _draw_counts, CURVE: _draw_curves, ROSE: _draw_rose}
