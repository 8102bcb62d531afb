"""How long a run may take: a count of its work, times how long such work has taken on this machine so far."""

from __future__ import annotations

import os
from statistics import median
from typing import Any

from vhem.app.settings import DRAWS, Model, states_range
from vhem.app.store import Store
from vhem.cli.shared import LONGEST_TAU

_START = 3.0  # seconds until a command does anything
_LEARNING, _REFINING, _PAIR, _FIT = 6e-9, 6e-9, 1.6e-8, 0.03  # seconds per unit of work, before any was measured
_ITERATIONS, _ROUNDS = 30, 250  # of learning, and of refining
_FOLDS = 8  # clusterings of the statistics beside those of draws: five folds, and three of all people
_FITS = 26  # clusterings per number of clusters that is compared
_LATEST = 5  # runs from which the machine's speed is known


def seconds(facts: dict[str, Any], n_values: int, given: dict[str, Any], numbers: list[int], compare: bool) -> float:
    """Return the time that a run should take on the machine on which the constants were measured.

    Parameters
    ----------
    facts : dict
        What is known about the table.
    n_values : int
        Values per row.
    given : dict
        The settings, as the page sends them.
    numbers : list of int
        Numbers of clusters.
    compare : bool
        Whether these are compared first, and one of them is then used.
    """
    model = Model.of(given, max(numbers))
    low, high = states_range(given.get("states", 3))
    hmms = facts["people"] if facts["people"] and model.choices.get("per") != "sequence" else facts["sequences"]
    width = n_values if model.choices.get("covariance") != "full" else n_values * (n_values + 1) / 2
    mix = model.numbers.get("mix", 1)
    per_frame = [s * (s + 6 * width * mix) for s in range(low, high + 1)]
    starts = model.numbers.get("starts", 5)
    learning = _LEARNING * facts["rows"] * starts * _ITERATIONS * sum(per_frame)
    pairs = _PAIR * hmms * high**2 * model.numbers.get("tau", min(facts["median"], LONGEST_TAU))

    def clustering(k: int) -> float:
        refining = _REFINING * facts["rows"] * k * per_frame[-1] * _ROUNDS if model.polish else 0.0
        return float(2 * _START + learning + _FIT + pairs * k + refining)

    if not compare:
        return sum(map(clustering, numbers))
    comparing = _START + learning + sum(_FITS * (_FIT + pairs * k) for k in numbers)
    return float(comparing) + clustering(numbers[len(numbers) // 2])


def statistics_seconds(job: dict[str, Any]) -> float | None:
    """Return how long the statistics of a run take at most: each fold and each draw clusters again."""
    once = job.get("clustering")
    return None if once is None else float((2 * DRAWS + _FOLDS) * max(once - _START, once / 4))


def machine_factor(store: Store) -> float:
    """Return how much longer the latest runs took than was estimated."""
    ratios = []
    for record in store.all_runs():
        job = record.read()
        if job["state"] == "done" and job.get("estimate") and job.get("started") and job.get("ended"):
            ratios.append((job["ended"] - job["started"]) / job["estimate"])
        if len(ratios) == _LATEST:
            break
    return min(50.0, max(0.1, median(ratios))) if ratios else _business()


def _business() -> float:
    """Return how many processes share a core now: what is known about a machine on which nothing has been run."""
    if not hasattr(os, "getloadavg"):
        return 1.0
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
