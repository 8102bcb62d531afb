"""How a clustering was made and how that went, as far as a fitted estimator knows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from vhem.estimators.hierarchy import HierarchicalVHEM
from vhem.models import H3M

_SHOWN_PROBABILITY = 0.005


class Setting(NamedTuple):
    """One choice that was made."""

    name: str
    value: str
    changed: bool  #: whether it differs from the default


class Figure(NamedTuple):
    """One number, and what it means."""

    name: str
    value: str
    meaning: str


class History(NamedTuple):
    """The bounds of one restart."""

    init: str
    bounds: list[float]
    converged: bool


class FitFacts(NamedTuple):
    """What a report says about the run."""

    method: str
    settings: list[Setting]
    figures: list[Figure]
    restarts: list[History]
    warnings: list[str]
    recipe: str  #: Python code that reproduces the run; may be empty


def facts_of(fit: Any, data: str) -> FitFacts:
    """Return what a fitted estimator says about its run; `data` is the name of what it was fitted to."""
    fits = fit.fits_ if isinstance(fit, HierarchicalVHEM) else [fit]
    return FitFacts(
        type(fit).__name__, _settings(fit), _figures(fits), histories(fits[0]), _warnings(fits), _recipe(fit, data)
    )


def _settings(fit: Any) -> list[Setting]:
    defaults = type(fit)().get_params()
    rows = []
    for name, value in fit.get_params().items():
        shown = "an H3M to start from" if isinstance(value, H3M) else repr(value)
        rows.append(Setting(name, shown, isinstance(value, H3M) or repr(value) != repr(defaults[name])))
    return sorted(rows, key=lambda row: not row.changed)


def _figures(fits: list[Any]) -> list[Figure]:
    rows = []
    for k, one in enumerate(fits):
        at = f" (level {k + 1})" if len(fits) > 1 else ""
        if hasattr(one, "lower_bound_"):
            rows.append(bound_figure(one.lower_bound_, at))
        if hasattr(one, "n_iter_"):
            rows.append(iterations_figure(one.n_iter_, getattr(one, "converged_", True), at))
        if hasattr(one, "cluster_probabilities_"):
            pairs = zip(one.cluster_counts_, one.cluster_probabilities_, strict=True)
            rows.append(probabilities_figure(dict(pairs), at))
    return rows


def bound_figure(bound: float, at: str = "") -> Figure:
    """Return the bound; `at` says of which level."""
    return Figure(f"Lower bound{at}", f"{bound:,.2f}", "of the log-likelihood; higher is better")


def iterations_figure(n: int, converged: bool, at: str = "") -> Figure:
    """Return how long it took, and how it ended."""
    return Figure(f"Iterations{at}", str(n), "converged" if converged else "stopped before it had converged")


def probabilities_figure(probabilities: Mapping[Any, float], at: str = "") -> Figure:
    """Return how probable each number of clusters is."""
    shown = ", ".join(f"{number}: {100 * p:.0f} %" for number, p in probabilities.items() if p >= _SHOWN_PROBABILITY)
    return Figure(f"Numbers of clusters{at}", shown, "the probability of each, from their scores")


def histories(fit: Any) -> list[History]:
    """Return the bounds of every restart of a fitted estimator, as far as it knows them."""
    return [
        History(r.init, [round(float(b), 4) for b in r.lower_bounds if np.isfinite(b)], bool(r.converged))
        for r in getattr(fit, "restarts_", [])
    ]


def _warnings(fits: list[Any]) -> list[str]:
    found = []
    for one in fits:
        if not getattr(one, "converged_", True):
            n = one.n_iter_
            found.append(f"The fit stopped after {n} iteration{'s' * (n != 1)} before the bound had converged.")
        if getattr(one, "n_empty_clusters_", 0):
            found.append(f"{one.n_empty_clusters_} clusters are empty: their centres say nothing.")
        if getattr(one, "n_unvisited_states_", 0):
            found.append(f"{one.n_unvisited_states_} states of the centres are visited by no member.")
    return list(dict.fromkeys(found))


def _recipe(fit: Any, data: str) -> str:
    """Return the call with the parameters that were chosen; those that cannot be written down become an ellipsis."""
    plain = all(isinstance(v, bool | int | float | str | tuple | list | None) for v in fit.get_params().values())
    call = " ".join(repr(fit).split()) if plain else f"{type(fit).__name__}(…)"
    return f"import vhem\n\nfit = vhem.{call}.fit({data})"
