"""A hierarchy of clusters as a picture: inputs as bars, clusters as bars of their classes, arrows upwards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from vhem._support.arrays import FloatArray, IntArray
from vhem._support.errors import InputError
from vhem.plotting.style import axes_or_new, color, hatch, picture, text_size

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from vhem.estimators.cluster_tree import Tree

_NAMED, _LONGEST_NAME = 120, 24  # inputs that are named, and the letters of a name
_BAR = 0.55  # height of a bar; levels are one apart


@picture
def plot_hierarchy(tree: Tree, classes: Sequence[Any], ax: Axes | None = None) -> Axes:
    """Draw a hierarchy with the known class of every input.

    At the bottom every input is a bar in the colour of its class, with its name below it unless there are too many.
    Above it every cluster is a bar as wide as its members, divided by their classes, and an arrow leads from each
    cluster to the one that contains it.

    Parameters
    ----------
    tree : Tree
        The hierarchy, such as `HierarchicalVHEM.tree_`.
    classes : sequence
        The class of every input.
    <ax>

    <axes>

    Examples
    --------
    >>> from vhem import HierarchicalVHEM
    >>> from vhem.datasets import simulated_study
    >>> study = simulated_study()
    >>> fit = HierarchicalVHEM(levels=(6, 3), random_state=0).fit(study.hmms)
    >>> ax = plot_hierarchy(fit.tree_, [study.strategy_names[s] for s in study.strategies])
    >>> [text.get_text() for text in ax.get_yticklabels()]
    ['inputs', '6 clusters', '3 clusters']
    """
    kinds = sorted({str(c) for c in classes})
    code = np.array([kinds.index(str(c)) for c in classes])
    n, n_levels = len(code), len(tree.layers)
    if n != len(tree.layers[0]):
        raise InputError("{classes} has {n} entries for {m} inputs", "give one for each", n=n, m=len(tree.layers[0]))
    ax = axes_or_new(ax, float(np.clip(0.16 * n, 7.0, 24.0)), 1.1 + 1.15 * n_levels)
    place = _order(tree, code)
    for level in range(n_levels):
        for index in range(len(tree.layers[level])):
            _draw_node(ax, tree, level, index, code, place)
    ax.set_yticks(range(n_levels), ["inputs", *(f"{len(layer)} clusters" for layer in tree.layers[1:])])
    ax.set(xlim=(-0.5, n - 0.5), ylim=(-0.4, n_levels - 0.3), xticks=[])
    if n <= _NAMED:
        ax.set_xticks(place, [_short(name) for name in tree.layers[0].ids], rotation=90, fontsize=text_size(n // 2))
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    handles = [_box(0, 0, 1, k) for k in range(len(kinds))]
    ax.legend(handles, kinds, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=min(8, len(kinds)), frameon=False)
    return ax


def _short(name: Any) -> str:
    text = str(name)
    return text if len(text) <= _LONGEST_NAME else f"{text[: _LONGEST_NAME - 1]}…"


def _order(tree: Tree, code: IntArray) -> FloatArray:
    """Return the horizontal position of every input: clusters side by side at every level, classes together within."""
    keys = [code, *(tree.labels(level) for level in range(1, len(tree.layers)))]
    place = np.empty(len(code))
    place[np.lexsort(keys)] = np.arange(len(code))
    return place


def _box(x: float, y: float, width: float, kind: int) -> Any:
    from matplotlib.patches import Rectangle  # noqa: PLC0415

    style: dict[str, Any] = {"facecolor": color(kind), "hatch": hatch(kind)}
    return Rectangle((x, y), width, _BAR, edgecolor="0.25", linewidth=0.5, **style)


def _draw_node(ax: Axes, tree: Tree, level: int, index: int, code: IntArray, place: FloatArray) -> None:
    members = tree.members(level, index)
    if not len(members):
        return
    gap = 0.1 if level == 0 else 0.35
    left, width = place[members].mean() - len(members) / 2 + gap / 2, len(members) - gap
    kinds = sorted(set(code[members].tolist()), key=lambda kind: float(place[members[code[members] == kind]].mean()))
    for kind in kinds:
        part = width * float(np.mean(code[members] == kind))
        ax.add_patch(_box(left, level - _BAR / 2, part, kind))
        left += part
    if level + 1 < len(tree.layers):
        _draw_arrow(ax, tree, level, index, members, place)


def _draw_arrow(ax: Axes, tree: Tree, level: int, index: int, members: IntArray, place: FloatArray) -> None:
    parent = int(tree.parents[level][index])
    above = tree.members(level + 1, parent)
    start = (place[members].mean(), level + _BAR / 2)
    end = (place[above].mean(), level + 1 - _BAR / 2)
    style = {"arrowstyle": "-|>" if level else "-", "color": "0.55", "linewidth": 0.9 if level else 0.4}
    ax.annotate("", end, start, arrowprops={**style, "shrinkA": 0, "shrinkB": 0})
