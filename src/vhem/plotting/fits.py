"""How a fit went: the bounds of all restarts, and the criteria for the number of clusters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vhem._support.errors import InputError
from vhem.estimators.selection import ClusterNumbers
from vhem.plotting.style import axes_or_new, color, dashes, picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@picture
def plot_bounds(fit: Any, ax: Axes | None = None) -> Axes:
    """Draw the bound of every restart over its iterations; the one that was kept is bold.

    Parameters
    ----------
    fit : VHEM or MixtureOfHMMs
        A fitted estimator with `restarts_`; for a hierarchy, one of its `fits_`.
    <ax>

    Returns
    -------
    matplotlib Axes
        The axes drawn into. The first steps of poor starts may be below the visible range.

    Examples
    --------
    >>> import vhem
    >>> from vhem.datasets import simulated_study
    >>> from vhem.plotting import plot_bounds
    >>> ax = plot_bounds(vhem.VHEM(3, n_init=5, random_state=0).fit(simulated_study().hmms))
    >>> len(ax.lines)
    5
    """
    from matplotlib.ticker import MaxNLocator  # noqa: PLC0415  (an optional library)

    restarts = getattr(fit, "restarts_", None)
    if not restarts:
        raise InputError(
            "{kind} has no restarts_ to draw", "give a fitted VHEM or MixtureOfHMMs",
            kind=type(fit).__name__,
        )  # fmt: skip
    ax = axes_or_new(ax, 5.5, 3.5)
    finals = [restart.lower_bounds[-1] for restart in restarts]
    best, kinds = int(np.argmax(finals)), list(dict.fromkeys(restart.init for restart in restarts))
    for k, restart in enumerate(restarts):
        kind = kinds.index(restart.init)
        style: dict[str, Any] = {"color": color(kind + 4), "linestyle": dashes(kind), "linewidth": 1.0}
        if k == best:
            style |= {"linewidth": 2.6, "marker": "o", "markevery": [-1], "zorder": 3}
        new = restart.init not in {r.init for r in restarts[:k]}
        ax.plot(restart.lower_bounds, label=f"start: {restart.init}" if new else None, **style)
    bounds = np.concatenate([r.lower_bounds[1:] if len(r.lower_bounds) > 2 else r.lower_bounds for r in restarts])
    low, high = float(np.quantile(bounds, 0.1)), float(max(finals))
    room = max(high - low, 1e-9 * max(1.0, abs(high)))
    ax.set(xlabel="iteration", ylabel="lower bound", ylim=(low - 0.1 * room, high + 0.1 * room))
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.legend(frameon=False, loc="lower right", fontsize=8)
    return ax


@picture
def plot_n_clusters(numbers: ClusterNumbers, ax: Axes | None = None) -> Axes:
    """Draw the criteria for the number of clusters: three curves, and the number each prefers.

    Parameters
    ----------
    numbers : ClusterNumbers
        The result of `choose_n_clusters`.
    ax : matplotlib Axes, optional
        Where to draw; made if not given. The three panels are its `child_axes`.

    <panels>

    Examples
    --------
    >>> import vhem
    >>> from vhem.datasets import simulated_study
    >>> from vhem.plotting import plot_n_clusters
    >>> hmms = simulated_study().hmms
    >>> numbers = vhem.choose_n_clusters(hmms, [2, 3, 4], vhem.VHEM(n_init=2), n_resamples=2, random_state=0)
    >>> ax = plot_n_clusters(numbers)
    >>> [panel.get_title() for panel in ax.child_axes]
    ['held-out objective (higher is better)', 'BIC (lower is better)', 'stability (higher is better)']
    """
    ax = axes_or_new(ax, 11.0, 3.0)
    ax.set_axis_off()
    panels = [ax.inset_axes(((k + 0.16) / 3, 0.16, 0.8 / 3, 0.72)) for k in range(3)]
    panels[0].errorbar(numbers.n_clusters, numbers.held_out, numbers.held_out_spread, marker="o", capsize=3)
    panels[1].plot(numbers.n_clusters, numbers.bic, marker="o")
    panels[2].plot(numbers.n_clusters, numbers.stability, marker="o")
    titles = ("held-out objective (higher is better)", "BIC (lower is better)", "stability (higher is better)")
    step = max(1, -(-len(numbers.n_clusters) // 10))
    for panel, title, best in zip(panels, titles, numbers.best.values(), strict=True):
        panel.axvline(best, color="0.6", linestyle="--", zorder=0)
        panel.annotate(str(best), (best, 1), xycoords=("data", "axes fraction"), xytext=(3, -10), fontsize=9,
                       textcoords="offset points", color="0.3")  # fmt: skip
        panel.set_title(title, fontsize=10)
        panel.set(xlabel="clusters", xticks=numbers.n_clusters[::step])
        panel.tick_params(labelsize=8)
    return ax
