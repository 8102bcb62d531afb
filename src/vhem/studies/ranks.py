"""Which methods are better over many sets: average ranks, and how far two must be apart to differ (Demšar 2006)."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.stats import friedmanchisquare, rankdata, studentized_range

from vhem._support.arrays import FloatArray


class Ranks(NamedTuple):
    """Average ranks of methods, 1 is best."""

    average: FloatArray  #: (methods,)
    critical: float  #: difference from which on two methods differ at 5 % (Nemenyi)
    p_value: float  #: of Friedman's test that all are alike


def average_ranks(scores: FloatArray) -> Ranks:
    """Rank methods by scores (sets, methods), higher is better; what failed (NaN) shares the last ranks.

    Examples
    --------
    >>> scores = np.array([[0.9, 0.5, np.nan], [0.8, 0.6, 0.1], [0.7, 0.7, 0.2], [0.9, 0.3, 0.4]])
    >>> found = average_ranks(scores)
    >>> found.average.round(2).tolist(), round(found.critical, 2)
    ([1.12, 2.12, 2.75], 1.66)
    """
    n, k = scores.shape
    ranks = np.stack([rankdata(-np.nan_to_num(row, nan=-np.inf)) for row in scores])
    critical = float(studentized_range.ppf(0.95, k, np.inf) / np.sqrt(2) * np.sqrt(k * (k + 1) / (6 * n)))
    return Ranks(ranks.mean(axis=0), critical, float(friedmanchisquare(*ranks.T).pvalue))


def draw_ranks(path: Path, names: list[str], ranks: Ranks) -> None:
    """Draw a critical-difference diagram: bars join methods that cannot be told apart."""
    import matplotlib.pyplot as plt  # noqa: PLC0415  (an optional library)

    order = np.argsort(ranks.average)
    average = ranks.average[order]
    half = (len(names) + 1) // 2
    figure, axes = plt.subplots(figsize=(9, 1.2 + 0.28 * half), layout="constrained")
    low, high = 1, len(names)
    axes.set(xlim=(low - 0.32 * high, high + 0.32 * high), ylim=(-half - 0.5, 2.4))
    axes.axis("off")
    axes.plot([low, high], [0, 0], color="black", lw=1)
    for at in range(low, high + 1):
        axes.plot([at, at], [0, 0.15], color="black", lw=1)
        axes.text(at, 0.3, str(at), ha="center", fontsize=8)
    for place, k in enumerate(order):
        left = place < half
        y = -1 - place if left else -1 - (len(names) - 1 - place)
        end, side = (low - 0.3, "right") if left else (high + 0.3, "left")
        axes.plot([average[place], average[place], end], [0, y, y], color="0.4", lw=0.8)
        label = f"{names[k]}  {average[place]:.1f}" if left else f"{average[place]:.1f}  {names[k]}"
        axes.text(end - 0.1 if left else end + 0.1, y, label, ha=side, va="center", fontsize=9)
    for step, (a, b) in enumerate(cliques(average, ranks.critical)):
        axes.plot([average[a] - 0.06, average[b] + 0.06], [-0.25 - 0.18 * step] * 2, color="#b2182b", lw=2.5)
    axes.plot([low, low + ranks.critical], [1.4, 1.4], color="#b2182b", lw=2.5)
    axes.text(low, 1.7, f"critical difference {ranks.critical:.2f}", fontsize=8)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def cliques(sorted_ranks: FloatArray, critical: float) -> list[tuple[int, int]]:
    """Return the longest runs of methods, first and last place, that do not differ.

    Examples
    --------
    >>> cliques(np.array([1.0, 1.5, 3.0, 3.2]), 0.6)
    [(0, 1), (2, 3)]
    """
    found: list[tuple[int, int]] = []
    for a, rank in enumerate(sorted_ranks):
        b = int(np.searchsorted(sorted_ranks, rank + critical, side="right")) - 1
        if b > a and (not found or b > found[-1][1]):
            found.append((a, b))
    return found
