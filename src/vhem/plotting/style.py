"""What all pictures share: colours, hatches and dashes for colour-blind readers and grayscale; axes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vhem._support.docstrings import sharing
from vhem._support.optional import how_to_install

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's colours, distinct for colour-blind readers; hatches and dashes make them distinct in grayscale too.
COLORS = ["#E69F00", "#56B4E9", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7", "#999999"]
# Of categories, so that they are not mistaken for states: Tol's light scheme.
CATEGORY_COLORS = ["#77AADD", "#EE8866", "#BBCC33", "#FFAABB", "#44BB99", "#EEDD88", "#99DDFF", "#AAAA00"]
_HATCHES = ["", "///", "...", "\\\\\\", "xxx", "++", "oo", "--"]
_DASHES: list[Any] = ["-", (0, (5, 1.5)), (0, (1.5, 1)), (0, (6, 1.5, 1, 1.5)), (0, (3, 1, 1, 1, 1, 1)), (0, (9, 3))]
#: A sequential map that rises evenly in lightness, so it reads the same in grayscale and for colour-blind readers.
SEQUENTIAL = "cividis"

#: Shared parts of docstrings.
picture = sharing(
    by_cluster="""\
labels : array of shape (n,)
    The cluster of each input.
ax : matplotlib Axes, optional
    Where to draw; made if not given.

Returns
-------
matplotlib Axes
    The axes drawn into.""",
    ax="ax : matplotlib Axes, optional\n    Where to draw; made if not given.",
    group_panels="""\
labels : array of shape (n,), optional
    The cluster of each sequence: each gets a panel.
ax : matplotlib Axes, optional
    Where to draw; made if not given. The panels are its `child_axes`.
channel : str or int
    The channel, by name or position.""",
    columns="columns : int, optional\n    Panels per row; chosen automatically if not given.",
    scene="image, extent, names\n    As for :func:`plot_hmm`.",
    axes="Returns\n-------\nmatplotlib Axes\n    The axes drawn into.",
    panels="Returns\n-------\nmatplotlib Axes\n    The axes that hold the panels.",
)


def color(k: int) -> str:
    """Return the colour of the k-th of several things."""
    return COLORS[k % len(COLORS)]


def hatch(k: int) -> str:
    """Return the hatch of the k-th thing; colour and hatch together repeat only after 64."""
    return _HATCHES[(k // len(COLORS) + k) % len(_HATCHES)]


def dashes(k: int) -> Any:
    """Return the line style of the k-th thing; colour and style together repeat only after 24."""
    return _DASHES[k % len(_DASHES)]


def text_on(k: int) -> str:
    """Return the colour of legible text on the k-th colour."""
    return "white" if color(k) in ("#0072B2", "#D55E00") else "black"


def axes_or_new(ax: Axes | None, width: float = 5.0, height: float = 4.0) -> Axes:
    """Return `ax`, or the axes of a new figure of this size in inches."""
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt  # noqa: PLC0415  (an optional library)
    except ModuleNotFoundError:
        raise ModuleNotFoundError(f"pictures need matplotlib: {how_to_install('plot')}.") from None
    return plt.subplots(figsize=(width, height), constrained_layout=True)[1]


def equal_scales(ax: Axes, free: bool) -> None:
    """Give both axes the same scale, by widening the range of values if it is free and not shared with other axes."""
    shared = any(len(group.get_siblings(ax)) > 1 for group in (ax.get_shared_x_axes(), ax.get_shared_y_axes()))
    ax.set_aspect("equal", adjustable="datalim" if free and not shared else "box")


def text_size(n: int) -> float:
    """Return a font size, in points, at which n labels do not overlap: 9 for a few, 5 for very many."""
    return float(min(9.0, max(5.0, 11.0 - n / 8)))
