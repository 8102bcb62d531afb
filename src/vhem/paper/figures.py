"""Figures for a paper: vector graphics that can be read in grey."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from vhem._support.arrays import FloatArray, IntArray
from vhem._support.optional import how_to_install
from vhem.models import H3M

_MARKS = ["o", "s", "^", "D", "v", "P", "X", "*"]
_GREYS = ["#000000", "#7f7f7f", "#b5b5b5", "#4d4d4d"]
_MOST_PANELS = 8
_FIXED, _ROW = 1.0, 0.25  # inches: of a figure of states, and of every state in it
_LIFT = 0.14  # of marks above each other
_DRAWS = 4000
_KEEP_TEXT: Any = {"svg.fonttype": "none", "pdf.fonttype": 42}  # text stays text, so that journals can change the font


def draw_states(path: str | os.PathLike[str], centers: H3M, names: Sequence[str], shares: FloatArray) -> list[Path]:
    """Draw what the states of every centre emit, one panel per channel or category: durations have their own.

    Marks are means or probabilities, lines reach one standard deviation to each side, and the size of a mark is the
    state's share of time. Returns the files, .svg and .pdf; none if there are more than eight panels to draw.
    """
    categories = [centers.categories.get(channel) for channel in centers.channels]
    numbers = centers.emissions.numbers(centers.mix_weights, names, categories)
    if len(numbers) > _MOST_PANELS:
        return []
    figure, axes = _panels(len(numbers), height=_FIXED + _ROW * sum(centers.n_states + 1))
    spread = _spreads(centers, names)
    places = {(k, s): -(k * (centers.n_states.max() + 1) + s) for k, S in enumerate(centers.n_states) for s in range(S)}
    for ax, number in zip(axes, numbers, strict=True):
        for (k, s), y in places.items():
            reach = spread[number.name][k, s] if number.name in spread else None
            ax.errorbar(number.values[k, s], y, xerr=reach, color=_GREYS[k % len(_GREYS)], capsize=2,
                        marker=_MARKS[k % len(_MARKS)], markersize=4 + 8 * shares[k, s])  # fmt: skip
        ax.set_xlabel(number.name)
        ax.set_yticks([])
    axes[0].set_yticks(list(places.values()), [f"cluster {k + 1}, state {s + 1}" for k, s in places])
    lines = "Lines: ± 1 standard deviation. " if any(number.name in spread for number in numbers) else ""
    figure.supxlabel(f"{lines}Larger marks: more time in the state.", fontsize=7)
    return _saved(figure, path)


def _spreads(centers: H3M, names: Sequence[str]) -> dict[str, FloatArray]:
    """Return the standard deviation of every channel in every state, (K, S), from random observations."""
    K, S, M = centers.mix_weights.shape
    drawn = centers.emissions.draw(np.repeat(np.arange(K * S * M), _DRAWS), np.random.default_rng(0))
    each = drawn.reshape(K, S, M, _DRAWS, -1)
    first, second = (np.einsum("ksm,ksmd->dks", centers.mix_weights, (each**power).mean(axis=3)) for power in (1, 2))
    return dict(zip(names, np.sqrt(np.maximum(second - first**2, 0.0)), strict=True))


def draw_scale(path: str | os.PathLike[str], log_odds: FloatArray, labels: IntArray) -> list[Path]:
    """Draw everybody between two clusters, by the log-odds per observation; marks differ in form and in grey."""
    figure, axes = _panels(1, height=2.1)
    ax, clusters = axes[0], np.unique(labels)
    for k in clusters:
        x = np.sort(log_odds[labels == k])
        lift = _LIFT * (np.arange(len(x)) % 3 - 1)  # neighbours do not hide each other
        ax.plot(x, lift - k, _MARKS[k % len(_MARKS)], color=_GREYS[k % len(_GREYS)], clip_on=False)
    ax.axvline(0.0, color="black", linewidth=0.8, linestyle=":")
    ax.set_xlabel("log-odds of cluster 1 against cluster 2\nper observation (nats)")
    ax.set_yticks([-int(k) for k in clusters], [f"cluster {k + 1}" for k in clusters])
    ax.set_ylim(-clusters.max() - 0.5, 0.5)
    ax.spines["left"].set_visible(False)
    ax.tick_params(axis="y", length=0)
    return _saved(figure, path)


def _panels(n: int, height: float) -> tuple[Any, list[Any]]:
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415  (an extra)
    except ModuleNotFoundError:
        raise ModuleNotFoundError(f"figures need matplotlib: {how_to_install('paper')}.") from None
    figure = Figure(figsize=(1.6 + 2.6 * n, height), layout="constrained")
    axes = figure.subplots(1, n, squeeze=False)[0]
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
    return figure, list(axes)


def _saved(figure: Any, path: str | os.PathLike[str]) -> list[Path]:
    import matplotlib as mpl  # noqa: PLC0415

    files = [Path(path).with_suffix(suffix) for suffix in (".svg", ".pdf")]
    with mpl.rc_context(_KEEP_TEXT):
        for file in files:
            figure.savefig(file)
    return files
