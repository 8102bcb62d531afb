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
_KEEP_TEXT: Any = {"svg.fonttype": "none", "pdf.fonttype": 42}  # text stays text, so that journals can change the font


def draw_states(path: str | os.PathLike[str], centers: H3M, names: Sequence[str], shares: FloatArray) -> list[Path]:
    """Draw where the states of every centre are, one panel per dimension: durations have their own.

    Marks are means, lines reach one standard deviation to each side, and the size of a mark is the state's share of
    time. Returns the files, .svg and .pdf.
    """
    figure, axes = _panels(len(names))
    means = np.einsum("ksm,ksmd->ksd", centers.mix_weights, centers.means)
    variances = np.diagonal(centers.covars, axis1=-2, axis2=-1) if centers.covariance_type == "full" else centers.covars
    spread = np.sqrt(
        np.einsum("ksm,ksmd->ksd", centers.mix_weights, variances + (centers.means - means[:, :, None]) ** 2)
    )
    for j, ax in enumerate(axes):
        for k in range(len(centers)):
            for s in range(int(centers.n_states[k])):
                y = -(k * (centers.n_states.max() + 1) + s)
                ax.errorbar(means[k, s, j], y, xerr=spread[k, s, j], color=_GREYS[k % len(_GREYS)], capsize=2,
                            marker=_MARKS[k % len(_MARKS)], markersize=4 + 8 * shares[k, s])  # fmt: skip
        ax.set_xlabel(names[j])
        ax.set_yticks([])
    labels = [(k, s) for k in range(len(centers)) for s in range(int(centers.n_states[k]))]
    axes[0].set_yticks([-(k * (centers.n_states.max() + 1) + s) for k, s in labels],
                       [f"cluster {k + 1}, state {s + 1}" for k, s in labels])  # fmt: skip
    return _saved(figure, path)


def draw_scale(path: str | os.PathLike[str], log_odds: FloatArray, labels: IntArray) -> list[Path]:
    """Draw everybody between two clusters, by the log-odds per observation; marks differ in form and in grey."""
    figure, axes = _panels(1, height=2.0)
    for k in np.unique(labels):
        x = np.sort(log_odds[labels == k])
        lift = np.arange(len(x)) % 5 / 5
        axes[0].plot(x, k + lift, _MARKS[k % len(_MARKS)], color=_GREYS[k % len(_GREYS)], label=f"cluster {k + 1}")
    axes[0].axvline(0.0, color="black", linewidth=0.8, linestyle=":")
    axes[0].set_xlabel("log-odds of cluster 1 against 2 per observation (nats)")
    axes[0].set_yticks([])
    axes[0].legend(frameon=False, loc="best")
    return _saved(figure, path)


def _panels(n: int, height: float = 3.2) -> tuple[Any, list[Any]]:
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415  (an extra)
    except ModuleNotFoundError:
        raise ModuleNotFoundError(f"figures need matplotlib: {how_to_install('paper')}.") from None
    figure = Figure(figsize=(1.2 + 2.6 * n, height), layout="constrained")
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
