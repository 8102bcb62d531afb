"""How separate clusters are for every number of them: silhouette, consensus, gap, and a test against one less."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from vhem.estimators.sequence_clustering import SequenceClustering
from vhem.estimators.vhem import VHEM
from vhem.inference import bootstrap_test, consensus, gap_statistic
from vhem.inference.groups import squared_distances
from vhem.inference.quality import silhouettes
from vhem.inference.tables import number, p_value
from vhem.models import H3M

_RESAMPLES = 10
_WEAK = 0.25  # a mean silhouette below this is that of data without structure (Kaufman and Rousseeuw 1990)


class Separation(NamedTuple):
    """One entry per number of clusters."""

    n_clusters: list[int]
    silhouette: list[float]
    ambiguous: list[float]  #: share of pairs of HMMs that are sometimes together and sometimes not
    gap: list[float]
    gap_error: list[float]
    p: list[float]  #: of the bootstrap against one cluster less; NaN if it was not made
    gap_best: int

    @property
    def nothing(self) -> bool:
        """Whether nothing suggests clusters."""
        tested = [p for p in self.p if not np.isnan(p)]
        if tested:
            return min(tested) > 0.05
        return self.gap_best == 1 and not any(s >= _WEAK for s in self.silhouette)

    def text(self) -> str:
        """Return a table, what it means, and whether there is anything."""
        lines = [f"{'clusters':>8} {'silhouette':>10} {'ambiguous':>10} {'gap':>8} {'± s.e.':>8} {'p, one less':>12}"]
        columns = (self.n_clusters, self.silhouette, self.ambiguous, self.gap, self.gap_error, self.p)
        for k, s, a, g, e, p in zip(*columns, strict=True):
            lines.append(f"{k:8d} {number(s):>10} {a:>10.0%} {number(g):>8} {number(e):>8} {p_value(p):>12}")
        lines.append(
            f"\nsilhouette: 1 is separate, below {_WEAK} is weak. ambiguous: pairs that resamples put together now and "
            f"then, 0 is clear. gap: tighter than data without clusters; it prefers {self.gap_best}."
        )
        if self.nothing:
            lines.append("Nothing here suggests that there are clusters: people may differ gradually, or not at all.")
        if all(np.isnan(p) for p in self.p):
            lines.append("For a test of each number against one less, add --bootstrap 69.")
        return "\n".join(lines)


def separation(
    settings: VHEM, hmms: H3M, candidates: list[int], test: Callable[[int], float] | None, seed: int,
    watch: Callable[[float, str], None] | None = None,
) -> Separation:  # fmt: skip
    """Measure how separate clusters are for every number of them, and show how far that is."""
    numbers, tau = sorted(set(candidates)), int(settings.tau)
    squares = squared_distances(hmms, tau, settings.n_jobs)
    gap = gap_statistic(hmms, range(1, max(numbers) + 1), tau, random_state=seed, n_jobs=settings.n_jobs)
    rows: list[list[Any]] = []
    for i, k in enumerate(numbers):
        if watch is not None:
            watch(i / len(numbers), f"{k} clusters")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            labels = clone(settings).set_params(n_clusters=k).fit(hmms).labels_
            shared = consensus(hmms, k, settings, _RESAMPLES, seed).ambiguous if k <= 0.8 * len(hmms) else np.nan
        at = np.flatnonzero(gap.n_clusters == k)
        found = (float(gap.gap[at[0]]), float(gap.error[at[0]])) if len(at) else (np.nan, np.nan)
        p = test(k) if test is not None and k > 1 else np.nan
        rows.append([k, float(silhouettes(squares, labels).mean()), shared, *found, p])
    numbers, *columns = (list(column) for column in zip(*rows, strict=True))
    return Separation(numbers, columns[0], columns[1], columns[2], columns[3], columns[4], gap.best)


def tested_against_one_less(
    model: SequenceClustering, sequences: Any, owners: Any, n_bootstrap: int, seed: int
) -> Callable[[int], float]:
    """Return the bootstrap likelihood-ratio test of a number of clusters against one less."""

    def test(k: int) -> float:
        bigger = clone(model).set_params(n_clusters=k)
        found = bootstrap_test(bigger, sequences, owners, k - 1, n_bootstrap, random_state=seed)
        return found.p

    return test
