"""The tables of a report: what was clustered, how, how well, what was warned of, and how to do it again."""

from __future__ import annotations

import platform
from importlib import metadata
from typing import Any

import numpy as np
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score, rand_score

from vhem.kernels.engine import engine
from vhem.learning.hierarchy import HierarchicalVHEM
from vhem.metrics import best_attainable_rand, purity
from vhem.models import H3M
from vhem.report.clustering import Clustering

_MANY_CLASSES = 12  # up to here the attainable Rand index is found in no time


def summary(content: Clustering) -> list[tuple[str, str]]:
    """Return the figures at the head of the page, as (number, what it counts)."""
    centers = content.levels[0]
    sizes = " → ".join(str(len(level)) for level in content.levels)
    thing = "HMMs" if content.inputs is not None else "sequences"
    rows = [(f"{len(content.names):,}", f"{thing} clustered"), (sizes, "clusters")]
    rows.append((_span(centers.n_states.tolist()), "states a centre"))
    rows.append((str(centers.n_dims), "dimension" if centers.n_dims == 1 else "dimensions"))
    if content.sequences is not None and content.inputs is not None:
        rows.append((f"{len(content.sequences):,}", "sequences"))
    if content.sequences is not None:
        rows.append((f"{len(content.sequences.X):,}", "observations"))
    return rows


def _span(numbers: list[int]) -> str:
    return str(numbers[0]) if min(numbers) == max(numbers) else f"{min(numbers)} to {max(numbers)}"


def settings(fit: Any) -> list[tuple[str, str, bool]]:
    """Return the estimator's parameters: name, value, and whether it was changed from the default."""
    defaults = type(fit)().get_params()
    rows = []
    for name, value in fit.get_params().items():
        shown = repr(value) if not isinstance(value, H3M) else "an H3M to start from"
        rows.append((name, shown, isinstance(value, H3M) or repr(value) != repr(defaults[name])))
    return rows


def figures(content: Clustering) -> list[tuple[str, str, str]]:
    """Return how the fit went: name, value and explanation."""
    fit = content.fit
    fits = fit.fits_ if isinstance(fit, HierarchicalVHEM) else [fit]
    rows = []
    for k, one in enumerate(fits):
        at = f" (level {k + 1})" if len(fits) > 1 else ""
        if hasattr(one, "lower_bound_"):
            rows.append((f"Lower bound{at}", f"{one.lower_bound_:,.2f}", "of the log-likelihood; higher is better"))
        if hasattr(one, "n_iter_"):
            settled = "settled" if getattr(one, "converged_", True) else "stopped before it had settled"
            rows.append((f"Iterations{at}", str(one.n_iter_), settled))
    if content.responsibilities is not None:
        sure = float(np.mean(content.responsibilities.max(axis=1) > 0.9))
        rows.append(("Sure members", f"{sure:.0%}", "belong to their cluster with more than 90 %"))
    return rows


def agreement(content: Clustering) -> list[dict[str, Any]]:
    """Return, for every level, how well clusters agree with the known classes, and the table of both."""
    if content.classes is None:
        return []
    kinds = sorted(set(content.classes))
    codes = np.array([kinds.index(c) for c in content.classes])
    levels = []
    for k, centers in enumerate(content.levels):
        labels = content.labels(k + 1)
        counts = np.zeros((len(kinds), len(centers)), dtype=np.int64)
        np.add.at(counts, (codes, labels), 1)
        rows = [
            ("Rand index", rand_score(codes, labels), "pairs treated alike"),
            ("Adjusted Rand index", adjusted_rand_score(codes, labels), "1 is perfect, 0 is chance"),
            ("Normalised mutual information", normalized_mutual_info_score(codes, labels), "1 is perfect"),
            ("Purity", purity(codes, labels), "share in the commonest class of their cluster"),
        ]
        if len(centers) < len(kinds) <= _MANY_CLASSES:
            best = best_attainable_rand(codes, len(centers))
            meaning = f"{len(centers)} clusters cannot hold {len(kinds)} classes apart"
            rows.append(("Highest possible Rand index", best, meaning))
        scores = [(name, f"{value:.3f}", meaning) for name, value, meaning in rows]
        levels.append({"scores": scores, "classes": kinds, "counts": counts.tolist(), "n": len(centers)})
    return levels


def headline(levels: list[dict[str, Any]]) -> tuple[str, str] | None:
    """Return the adjusted Rand index, for the head of the page, of the level with about as many clusters as classes."""
    if not levels:
        return None
    level = min(levels, key=lambda level: abs(level["n"] - len(level["classes"])))
    at = f", {level['n']} clusters" if len(levels) > 1 else ""
    return f"adjusted Rand index{at}", str(level["scores"][1][1])


def warnings_of(content: Clustering) -> list[str]:
    """Return what the fitted estimator itself says went wrong."""
    fit = content.fit
    found = []
    for one in fit.fits_ if isinstance(fit, HierarchicalVHEM) else [fit]:
        if not getattr(one, "converged_", True):
            found.append(f"The fit stopped after {one.n_iter_} iterations before the bound had settled.")
        empty = getattr(one, "n_empty_clusters_", 0)
        if empty:
            found.append(f"{empty} clusters are empty: their centres say nothing.")
        unvisited = getattr(one, "n_unvisited_states_", 0)
        if unvisited:
            found.append(f"{unvisited} states of the centres are visited by no member.")
    return list(dict.fromkeys(found))


def versions() -> list[tuple[str, str]]:
    """Return what the report was made with."""
    running = engine()
    names = ("vhem", "numpy", "scipy", "scikit-learn")
    rows = [*((name, metadata.version(name)) for name in names), ("python", platform.python_version())]
    return [*rows, ("engine", f"{running.name} ({running.instruction_set})")]


def recipe(content: Clustering) -> str:
    """Return Python that makes the same clustering from the same HMMs or sequences."""
    data = "sequences" if content.inputs is None else "hmms"
    call = repr(content.fit) if _is_plain(content.fit) else f"{type(content.fit).__name__}(…)"
    call = " ".join(call.split())
    return f"import vhem\n\nfit = vhem.{call}.fit({data})"


def _is_plain(fit: Any) -> bool:
    """Return whether every parameter can be written down: no H3M to start from, no generator, no function."""
    return all(isinstance(v, bool | int | float | str | tuple | list | None) for v in fit.get_params().values())
