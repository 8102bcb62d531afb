"""The emissions of an HMM: density curves in one dimension, ellipses in two, profiles of the means in many."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from vhem._support.arrays import FloatArray
from vhem.models import HMM
from vhem.plotting.style import color, dashes, hatch, text_size

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FEW_STATES = 4  # up to this many, the spread around a profile is drawn; more bands would hide one another
ELLIPSE = 2.0  # standard deviations from the mean to the edge


def state_means(hmm: HMM) -> FloatArray:
    """Return the mean of each state's emissions, (S, d)."""
    return np.asarray(np.einsum("sm,smd->sd", hmm.mix_weights, hmm.means))


def state_deviations(hmm: HMM) -> FloatArray:
    """Return the standard deviation of each state's emissions in every dimension, (S, d)."""
    variances = hmm.covars if hmm.covariance_type == "diag" else np.diagonal(hmm.covars, axis1=-2, axis2=-1)
    apart = (hmm.means - state_means(hmm)[:, None]) ** 2
    return np.asarray(np.sqrt(np.einsum("sm,smd->sd", hmm.mix_weights, variances + apart)))


#: The label of an axis that all channels share.
IN_SPREADS = "standard deviations\nfrom the channel's mean"


def channel_scales(hmms: Sequence[HMM]) -> tuple[FloatArray, FloatArray]:
    """Return the centre and the spread of each channel over all states of some HMMs: its zero and unit in a profile."""
    mean = np.concatenate([state_means(hmm) for hmm in hmms])
    deviation = np.concatenate([state_deviations(hmm) for hmm in hmms])
    centre = mean.mean(axis=0)
    return centre, np.sqrt(np.mean(deviation**2 + (mean - centre) ** 2, axis=0))


def covariance(hmm: HMM, state: int, component: int) -> FloatArray:
    """Return one Gaussian's covariance as a matrix."""
    covars = hmm.covars[state, component]
    return np.diag(covars) if covars.ndim == 1 else np.asarray(covars)


def ellipse(matrix: FloatArray) -> tuple[float, float, float]:
    """Return width, height and angle in degrees of the ellipse two standard deviations around a Gaussian's mean.

    Examples
    --------
    >>> ellipse(np.diag([1.0, 9.0]))
    (4.0, 12.0, 0.0)
    """
    values, vectors = np.linalg.eigh(matrix)
    first = int(np.argmax(np.abs(vectors[0])))  # the axis nearest to the horizontal, so that angles are small
    direction = vectors[:, first] * np.sign(vectors[0, first] or 1.0)
    width, height = 2 * ELLIPSE * np.sqrt(np.maximum(values[[first, 1 - first]], 0.0))
    return float(width), float(height), float(np.degrees(np.arctan2(direction[1], direction[0])))


def draw_ellipses(ax: Axes, hmm: HMM, faint: bool = False, strength: float = 1.0) -> None:
    """Draw every Gaussian of a 2-D HMM as an ellipse; faint ones are thin gray outlines."""
    from matplotlib.patches import Ellipse  # noqa: PLC0415

    for s in range(hmm.n_states):
        for m in range(hmm.n_mix):
            share = float(hmm.mix_weights[s, m])
            if share == 0:
                continue
            style: dict[str, Any] = {"facecolor": "none", "edgecolor": "0.45", "linewidth": 0.6, "alpha": strength}
            if not faint:
                style = {"facecolor": (color(s), 0.35 * share**0.5), "edgecolor": color(s), "linewidth": 1.8}
                style |= {"linestyle": dashes(s), "zorder": 2}
            width, height, angle = ellipse(covariance(hmm, s, m))
            ax.add_patch(Ellipse(tuple(hmm.means[s, m]), width, height, angle=angle, **style))
    ax.autoscale_view()


def draw_densities(ax: Axes, hmm: HMM, faint: bool = False, strength: float = 1.0) -> FloatArray:
    """Draw the density of each state of a 1-D HMM times the share of time spent in it; return the peaks' heights.

    If states are only passed through, as in left-right HMMs, which end in their last state, all count the same.
    """
    mean, deviation, share = state_means(hmm)[:, 0], state_deviations(hmm)[:, 0], hmm.stationary()
    share = share if share.min() > 1e-6 else np.full(hmm.n_states, 1 / hmm.n_states)
    x = np.linspace((mean - 4 * deviation).min(), (mean + 4 * deviation).max(), 400)
    spread = np.sqrt(hmm.covars.reshape(hmm.n_states, hmm.n_mix))
    z = (x[:, None, None] - hmm.means[:, :, 0]) / spread
    density = share * (hmm.mix_weights * np.exp(-0.5 * z**2) / (spread * np.sqrt(2 * np.pi))).sum(axis=2)
    for s in range(hmm.n_states):
        if faint:
            ax.plot(x, density[:, s], color="0.45", linewidth=0.6, alpha=strength)
            continue
        ax.plot(x, density[:, s], color=color(s), linestyle=dashes(s), linewidth=1.8, zorder=3)
        ax.fill_between(x, density[:, s], facecolor=(color(s), 0.3), edgecolor=(color(s), 0.8), hatch=hatch(s), lw=0)
    return np.asarray(density.max(axis=0))


def draw_profiles(
    ax: Axes,
    hmm: HMM,
    scales: tuple[FloatArray, FloatArray],
    names: Sequence[str] | None = None,
    faint: bool = False,
    strength: float = 1.0,
) -> None:
    """Draw each state's mean over the dimensions as a line, with a band one standard deviation wide for few states.

    Channels have units of their own (pressures, angles), so each is drawn by its `scales`: zero and unit.
    """
    x, (zero, unit) = np.arange(hmm.n_dims), scales
    mean, deviation = (state_means(hmm) - zero) / unit, state_deviations(hmm) / unit
    for s in range(hmm.n_states):
        if faint:
            ax.plot(x, mean[s], color="0.45", linewidth=0.6, alpha=strength)
            continue
        ax.plot(x, mean[s], color=color(s), linestyle=dashes(s), linewidth=1.8, zorder=3, label=f"state {s + 1}")
        if hmm.n_states <= _FEW_STATES:
            ax.fill_between(x, mean[s] - deviation[s], mean[s] + deviation[s], color=(color(s), 0.15), lw=0)
    if not faint:
        _number_profiles(ax, x[-1] + 0.02 * max(1, hmm.n_dims - 1), mean[:, -1])
    step = max(1, -(-hmm.n_dims // 12))
    ax.set_xticks(x[::step], [names[k] if names else str(k + 1) for k in x[::step]])
    ax.tick_params(labelsize=text_size(hmm.n_dims))
    ax.set_xlim(-0.3, hmm.n_dims - 1 + 0.12 * max(2, hmm.n_dims - 1))


def _number_profiles(ax: Axes, x: float, ends: FloatArray) -> None:
    """Write the number of each state beside the end of its line, numbers of close lines one above the other."""
    box = ax.get_window_extent().transformed(ax.get_figure(root=True).dpi_scale_trans.inverted())  # type: ignore[union-attr]
    order, gap = np.argsort(ends), 9.0 / 72 / box.height * np.ptp(ax.get_ylim())  # a line of text
    at = ends[order].copy()
    for _ in range(60):
        overlap = np.maximum(gap - np.diff(at), 0.0) / 2
        at[1:] += overlap
        at[:-1] -= overlap
    for s, y in zip(order, at, strict=True):
        ax.text(x, y, str(s + 1), va="center", color="0.15", fontsize=8, fontweight="bold")
