"""The tables of a report: what was clustered, how, how well, the warnings, and how to reproduce it."""

from __future__ import annotations

import platform
from importlib import metadata
from typing import Any

import numpy as np
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score, rand_score

from vhem.kernels.engine import engine
from vhem.metrics import best_attainable_rand, purity
from vhem.report.clustering import Clustering
from vhem.report.fit_facts import Figure

_MANY_CLASSES = 12  # up to this many, the attainable Rand index is found quickly


def summary(content: Clustering) -> list[tuple[str, str]]:
    """Return the figures at the head of the page, as (number, what it counts)."""
    centers = content.levels[0]
    sizes = " → ".join(str(len(level)) for level in content.levels)
    thing = "HMMs" if content.inputs is not None else "sequences"
    rows = [(f"{len(content.names):,}", f"{thing} clustered"), (sizes, "clusters")]
    rows.append((_span(centers.n_states.tolist()), "states per centre"))
    rows.append((str(centers.n_dims), "dimension" if centers.n_dims == 1 else "dimensions"))
    if content.sequences is not None and content.inputs is not None:
        rows.append((f"{len(content.sequences):,}", "sequences"))
    if content.sequences is not None:
        rows.append((f"{len(content.sequences.X):,}", "observations"))
    return rows


def _span(numbers: list[int]) -> str:
    return str(numbers[0]) if min(numbers) == max(numbers) else f"{min(numbers)} to {max(numbers)}"


def figures(content: Clustering) -> list[Figure]:
    """Return how the fit went, and how certain the assignments are."""
    if content.responsibilities is None:
        return content.run.figures
    sure = float(np.mean(content.responsibilities.max(axis=1) > 0.9))
    return [
        *content.run.figures,
        Figure("Sure members", f"{100 * sure:.0f} %", "belong to their cluster with a probability above 90 %"),
    ]


def agreement(content: Clustering) -> list[dict[str, Any]]:
    """Return, for every level, how well clusters agree with the known classes, and the table of both."""
    if content.classes is None:
        return []
    kinds = sorted(set(content.classes))
    codes = np.array([kinds.index(c) for c in content.classes])
    levels = []
    for k, centers in enumerate(content.levels):
        labels = content.labels[k]
        counts = np.zeros((len(kinds), len(centers)), dtype=np.int64)
        np.add.at(counts, (codes, labels), 1)
        rows = [
            ("Rand index", rand_score(codes, labels), "pairs treated alike"),
            ("Adjusted Rand index", adjusted_rand_score(codes, labels), "1 is perfect, 0 is chance"),
            ("Normalised mutual information", normalized_mutual_info_score(codes, labels), "1 is perfect"),
            ("Purity", purity(codes, labels), "share in the most common class of their cluster"),
        ]
        if len(centers) < len(kinds) <= _MANY_CLASSES:
            best = best_attainable_rand(codes, len(centers))
            meaning = f"{len(centers)} clusters cannot separate {len(kinds)} classes"
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


def versions() -> list[tuple[str, str]]:
    """Return what the report was made with."""
    running = engine()
    names = ("vhem", "numpy", "scipy", "scikit-learn")
    rows = [*((name, metadata.version(name)) for name in names), ("python", platform.python_version())]
    return [*rows, ("engine", f"{running.name} ({running.instruction_set})")]
