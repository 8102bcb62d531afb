"""Matrices of a clustering as heat maps, rows ordered by cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from vhem._support.arrays import FloatArray, IntArray
from vhem._support.errors import InputError
from vhem.plotting.style import SEQUENTIAL, axes_or_new, picture, text_size

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@picture
def plot_j_matrix(J: npt.ArrayLike, labels: npt.ArrayLike, ax: Axes | None = None) -> Axes:
    """Draw expected log-likelihoods (or any other similarity matrix) with the inputs ordered by cluster.

    Parameters
    ----------
    J : array of shape (n, K) or (n, n)
        One row per input, and one column per centre, as from `VHEM.transform`, or per input, as from
        `expected_log_likelihood(hmms, hmms, tau)`. The lowest twentieth shares one colour, to leave contrast for the
        rest.
    <by_cluster>

    Examples
    --------
    >>> import vhem
    >>> from vhem.datasets import simulated_study
    >>> from vhem.plotting import plot_j_matrix
    >>> hmms = simulated_study().hmms
    >>> fit = vhem.VHEM(3, random_state=0).fit(hmms)
    >>> ax = plot_j_matrix(fit.transform(hmms), fit.labels_)
    >>> [text.get_text() for text in ax.get_yticklabels()]
    ['1 (14)', '2 (13)', '3 (13)']
    """
    values, clusters = _checked(J, labels, "J")
    order = np.lexsort([-values.max(axis=1), clusters])
    square = values.shape[1] == len(clusters)
    shown = values[order][:, order] if square else values[order]
    finite = shown[np.isfinite(shown)]
    low = float(np.quantile(finite, 0.05)) if finite.size else 0.0
    ax = axes_or_new(ax, 5.0, 4.6)
    _draw(ax, shown, clusters[order], square, low, "expected log-likelihood J", extend="min")
    return ax


@picture
def plot_responsibilities(responsibilities: npt.ArrayLike, labels: npt.ArrayLike, ax: Axes | None = None) -> Axes:
    """Draw the probability of each cluster for each input, ordered by cluster, most certain first.

    Parameters
    ----------
    responsibilities : array of shape (n, K)
        Such as `VHEM.responsibilities_`.
    <by_cluster>

    Examples
    --------
    >>> import vhem
    >>> from vhem.datasets import simulated_study
    >>> from vhem.plotting import plot_responsibilities
    >>> fit = vhem.VHEM(3, n_virtual=0.1, random_state=0).fit(simulated_study().hmms)
    >>> ax = plot_responsibilities(fit.responsibilities_, fit.labels_)
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('cluster', 'inputs by cluster (and their number)')
    """
    values, clusters = _checked(responsibilities, labels, "responsibilities")
    order = np.lexsort([-values.max(axis=1), clusters])
    ax = axes_or_new(ax, 4.5, 4.6)
    _draw(ax, values[order], clusters[order], False, 0.0, "responsibility", high=1.0)
    return ax


def _checked(matrix: npt.ArrayLike, labels: npt.ArrayLike, name: str) -> tuple[FloatArray, IntArray]:
    values, clusters = np.asarray(matrix, dtype=np.float64), np.asarray(labels)
    if values.ndim != 2 or clusters.shape != (len(values),):
        raise InputError(
            "{name} must have one row for each of the labels, got {name} of shape {shape} and labels of shape {needed}",
            name=name, shape=values.shape, needed=clusters.shape,
        )  # fmt: skip
    return values, clusters


def _draw(
    ax: Axes, shown: FloatArray, clusters: IntArray, square: bool, low: float, title: str, high: float | None = None,
    extend: str = "neither",
) -> None:  # fmt: skip
    picture = ax.imshow(shown, aspect="auto", cmap=SEQUENTIAL, vmin=low, vmax=high, interpolation="nearest")
    figure = ax.get_figure(root=True)
    assert figure is not None
    figure.colorbar(picture, ax=ax, label=title, extend=extend)
    kinds, first, counts = np.unique(clusters, return_index=True, return_counts=True)
    names, size = [f"{k + 1} ({n})" for k, n in zip(kinds, counts, strict=True)], text_size(len(kinds))
    middles = first + (counts - 1) / 2
    named = _apart(middles, 0.03 * len(clusters))
    ax.set_yticks(middles[named], [names[k] for k in named], fontsize=size)
    ax.set(ylabel="inputs by cluster (and their number)", xlabel="inputs by cluster" if square else "cluster")
    for edge in first[1:] - 0.5:
        ax.axhline(edge, color="white", linewidth=8 / max(8, len(kinds)))
        if square:
            ax.axvline(edge, color="white", linewidth=8 / max(8, len(kinds)))
    if square:
        named = _apart(middles, 0.035 * len(clusters))
        ax.set_xticks(middles[named], [str(kinds[k] + 1) for k in named], fontsize=size)
    else:
        step = max(1, -(-shown.shape[1] // 20))
        columns = np.arange(0, shown.shape[1], step)
        ax.set_xticks(columns, [str(k + 1) for k in columns], fontsize=size)
    ax.tick_params(length=0)


def _apart(places: FloatArray, gap: float) -> list[int]:
    """Return which of the ascending positions can be labelled without overlap."""
    chosen: list[int] = []
    for k, place in enumerate(places):
        if not chosen or place - places[chosen[-1]] >= gap:
            chosen.append(k)
    return chosen
