"""Sequences of categories as sequence analysts draw them: one coloured line each, and the shares at every moment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from vhem._support.arrays import FloatArray, IntArray
from vhem._support.errors import InputError
from vhem.plotting.style import CATEGORY_COLORS, axes_or_new, picture, text_size
from vhem.sequences import Sequences

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_ROWS = 2000  # lines drawn per panel; of more, every second, third, …
_MISSING = "#ffffff"


@picture
def plot_index(
    sequences: Sequences,
    labels: npt.ArrayLike | None = None,
    ax: Axes | None = None,
    channel: str | int = 0,
    order: str = "start",
    columns: int | None = None,
) -> Axes:
    """Draw a sequence index plot: every sequence is a line, coloured by its categories over time.

    Parameters
    ----------
    sequences : Sequences
        With categories.
    <group_panels>
    order : {"start", "end", "given"}
        Lines are sorted by their categories from the start, or from the end backwards, or stay as they are.
    <columns>

    <panels>

    Examples
    --------
    >>> from vhem import Sequences
    >>> from vhem.plotting import plot_index
    >>> days = Sequences([["sun", "rain", "rain"], ["fog", "sun"]], categories=True)
    >>> ax = plot_index(days, labels=[0, 1])
    >>> [panel.get_title() for panel in ax.child_axes]
    ['1 (n = 1)', '2 (n = 1)']
    """
    if order not in ("start", "end", "given"):
        raise InputError("{order} must be 'start', 'end' or 'given', got {value!r}", value=order)
    found = codes_over_time(sequences, channel)
    groups = _groups(labels, len(sequences))
    ax, panels = _panels(ax, len(groups), columns, len(found.names), height=2.6)
    for panel, (name, members) in zip(panels, groups, strict=True):
        rows = found.codes[members]
        rows = rows[sorted_rows(rows, order)][:: -(-len(rows) // _MOST_ROWS)]
        _draw_lines(panel, rows, found.names)
        _finish(panel, name, len(members), "sequences", column=panel is panels[0])
    _legend(ax, found.names, bool((found.codes < 0).any()))
    return ax


@picture
def plot_distribution(
    sequences: Sequences,
    labels: npt.ArrayLike | None = None,
    ax: Axes | None = None,
    channel: str | int = 0,
    columns: int | None = None,
) -> Axes:
    """Draw a state distribution plot: the share of each category at every moment, stacked.

    Parameters
    ----------
    sequences : Sequences
        With categories; case weights are used.
    <group_panels>
    <columns>

    <panels>

    Examples
    --------
    >>> from vhem import Sequences
    >>> from vhem.plotting import plot_distribution
    >>> days = Sequences([["sun", "rain", "rain"], ["fog", "sun"]], categories=True)
    >>> ax = plot_distribution(days)
    >>> [float(edge) for edge in ax.child_axes[0].get_ylim()]
    [0.0, 1.0]
    """
    found = codes_over_time(sequences, channel)
    groups = _groups(labels, len(sequences))
    weights = np.ones(len(sequences)) if sequences.weights is None else sequences.weights
    ax, panels = _panels(ax, len(groups), columns, len(found.names), height=2.3)
    for panel, (name, members) in zip(panels, groups, strict=True):
        shares = shares_over_time(found.codes[members], weights[members], len(found.names))
        _draw_shares(panel, shares)
        _finish(panel, name, len(members), "share", column=panel is panels[0])
    _legend(ax, found.names, missing=False)
    return ax


class CodesOverTime:
    """The codes of a channel, (n, T), -1 where there is none, and their names."""

    def __init__(self, codes: IntArray, names: tuple[str, ...]) -> None:
        self.codes, self.names = codes, names


def codes_over_time(sequences: Sequences, channel: str | int) -> CodesOverTime:
    """Return one row per sequence, or say that the channel has no categories."""
    k = sequences.channels.index(channel) if isinstance(channel, str) and channel in sequences.channels else channel
    if not isinstance(k, int) or not -sequences.n_dims <= k < sequences.n_dims:
        known = ", ".join(map(repr, sequences.channels))
        raise InputError("there is no channel {channel!r}; there are {known}", channel=channel, known=known)
    name = sequences.channels[k]
    if name not in sequences.categories:
        raise InputError(
            "channel {name!r} holds numbers, and this picture is for categories",
            "give {categories} when you read or make the sequences", name=name,
        )  # fmt: skip
    cube = sequences.to_padded()[:, :, k]
    return CodesOverTime(np.where(np.isnan(cube), -1, cube).astype(np.int64), sequences.categories[name])


def sorted_rows(codes: IntArray, order: str) -> IntArray:
    """Return the order of rows sorted by their codes from the start on, or from the end backwards."""
    if order == "given":
        return np.arange(len(codes))
    keys = codes if order == "start" else codes[:, ::-1]
    return np.lexsort(keys.T[::-1])


def shares_over_time(codes: IntArray, weights: FloatArray, n: int) -> FloatArray:
    """Return the share of every category at every moment, (T, n), of those that are there; zero if none is."""
    counts = np.stack([((codes == c) * weights[:, None]).sum(axis=0) for c in range(n)], axis=1)
    return np.asarray(counts / np.maximum(counts.sum(axis=1, keepdims=True), 1e-300))


def category_color(k: int) -> str:
    """Return the colour of the k-th category: eight distinct ones, then lighter, then darker ones."""
    base = np.array([int(CATEGORY_COLORS[k % 8][i : i + 2], 16) for i in (1, 3, 5)], dtype=float)
    lighter = {0: 0.0, 1: 0.5, 2: -0.4}.get(k // 8 % 3, 0.0)
    mixed = base + (255 - base) * lighter if lighter >= 0 else base * (1 + lighter)
    return "#" + "".join(f"{round(v):02x}" for v in mixed)


def _groups(labels: npt.ArrayLike | None, n: int) -> list[tuple[str, IntArray]]:
    if labels is None:
        return [("", np.arange(n))]
    found = np.asarray(labels)
    if found.shape != (n,):
        raise InputError(
            "{labels} has the shape {shape} for {n} sequences", "give one for each", shape=found.shape, n=n
        )
    numbered = found.dtype.kind in "iu"
    kinds = np.unique(found)
    return [(str(kind + 1) if numbered else str(kind), np.flatnonzero(found == kind)) for kind in kinds]


def _panels(ax: Axes | None, n: int, columns: int | None, n_names: int, height: float) -> tuple[Axes, list[Axes]]:
    columns = min(n, columns or int(np.ceil(np.sqrt(1.6 * n))))
    rows = -(-n // columns)
    ax = axes_or_new(ax, max(columns * 2.9, 4.5), rows * height + 0.35 * -(-n_names // 4))
    ax.set_axis_off()
    made = []
    for k in range(n):
        row, column = divmod(k, columns)
        place = ((column + 0.1) / columns, 1 - (row + 0.84) / rows, 0.86 / columns, 0.72 / rows)
        made.append(ax.inset_axes(place))
    return ax, made


def _draw_lines(panel: Axes, codes: IntArray, names: tuple[str, ...]) -> None:
    from matplotlib.colors import to_rgb  # noqa: PLC0415
    from matplotlib.ticker import MaxNLocator  # noqa: PLC0415

    palette = np.array([*(to_rgb(category_color(k)) for k in range(len(names))), to_rgb(_MISSING)])
    edges = (0.5, codes.shape[1] + 0.5, len(codes), 0)
    panel.imshow(palette[codes], aspect="auto", interpolation="nearest", extent=edges)
    panel.yaxis.set_major_locator(MaxNLocator(5, integer=True))


def _draw_shares(panel: Axes, shares: FloatArray) -> None:
    edges = np.concatenate([np.zeros((len(shares), 1)), np.cumsum(shares, axis=1)], axis=1)
    time = np.arange(1, len(shares) + 1)
    for k in range(shares.shape[1]):
        panel.bar(time, edges[:, k + 1] - edges[:, k], bottom=edges[:, k], width=1.0, color=category_color(k), lw=0)
    panel.set(xlim=(0.5, len(shares) + 0.5), ylim=(0, 1))


def _finish(panel: Axes, name: str, n: int, what: str, column: bool) -> None:
    if name:
        panel.set_title(f"{name} (n = {n:,})", fontsize=text_size(4), pad=3)
    panel.tick_params(labelsize=7)
    if column:
        panel.set_ylabel(what, fontsize=8)


def _legend(ax: Axes, names: tuple[str, ...], missing: bool) -> None:
    from matplotlib.patches import Patch  # noqa: PLC0415

    handles: list[Any] = [Patch(facecolor=category_color(k), label=name) for k, name in enumerate(names)]
    if missing:
        handles.append(Patch(facecolor=_MISSING, edgecolor="0.6", label="missing"))
    rows = -(-len(handles) // 4)
    place: dict[str, Any] = {"loc": "lower center", "bbox_to_anchor": (0.5, -0.02 - 0.06 * rows)}
    ax.legend(handles=handles, **place, ncols=min(len(handles), 4), frameon=False, fontsize=8)
