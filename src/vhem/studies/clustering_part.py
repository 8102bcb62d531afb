"""One method on one set, as a process of its own: prints a line of JSON per seed, until a run takes too long.

    python -m vhem.studies.clustering_part '{"method": "KASBA", "data": "letters", "seeds": 10, "run_budget": 60}'

A process of its own, so that time and memory belong to the method, and a method that never ends harms no other.
"""

from __future__ import annotations

import json
import math
import resource
import sys
import traceback
import warnings
from typing import Any

import numpy as np
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

from vhem._support.arrays import IntArray
from vhem.metrics import clustering_accuracy
from vhem.studies.clustering_data import SETS, TROUBLES, Items
from vhem.studies.clustering_methods import METHODS, Method
from vhem.studies.results import Meter


def scores(truth: IntArray, labels: IntArray) -> dict[str, float]:
    """Return how well clusters agree with the truth."""
    return {
        "ari": float(adjusted_rand_score(truth, labels)),
        "nmi": float(normalized_mutual_info_score(truth, labels)),
        "accuracy": clustering_accuracy(truth, labels),
    }


def measured(method: Method, items: Items, seed: int, apart: bool) -> dict[str, Any]:
    """Return scores, CPU seconds and memory of one run; `apart`: learn from the training part, score the other."""
    train = items
    if apart and items.is_training is not None:
        train = items.take(items.is_training)
    meter = Meter()
    found = method.fit(train, items.n_clusters, seed)
    row: dict[str, Any] = {"seed": seed, "seconds": meter.seconds, "megabytes": meter.megabytes, "note": found.note}
    if train is items:
        return row | scores(items.truth, found.labels)
    assert items.is_training is not None
    if found.predict is None:
        return row | {"failed": "assigns no new sequences"}
    test = items.take(~items.is_training)
    return row | scores(test.truth, found.predict(test))


def _warm_up(method: Method) -> None:
    """Let a method compile what it compiles when it is first used; that is nobody's waiting time twice."""
    rng = np.random.default_rng(0)
    made = [rng.normal(size=(12, 2)) + 3 * (i % 2) for i in range(8)]
    method.fit(Items(made, np.arange(8), np.arange(8) % 2), 2, 0)


def _limit(budget: int) -> None:
    """Let the system end this process after so many further seconds of CPU time."""
    spent = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
    resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(spent) + budget, resource.RLIM_INFINITY))


def main(given: str) -> None:
    """Run what is asked for."""
    task = json.loads(given)
    warnings.simplefilter("ignore")
    method, trouble = METHODS[task["method"]], TROUBLES.get(task.get("trouble", ""))
    try:
        _warm_up(method)
        SETS[task["data"]](0)
    except ImportError as fault:
        print(json.dumps({"failed": f"not installed: {fault.name}"}), flush=True)
        return
    except FileNotFoundError as fault:  # which says where the data come from
        print(json.dumps({"failed": f"not installed: {fault}"}), flush=True)
        return
    for seed in range(task.get("first", 0), task.get("first", 0) + task["seeds"]):
        items = SETS[task["data"]](seed)
        if trouble is not None:
            items = trouble(items, np.random.default_rng(seed))
        _limit(task["run_budget"])
        try:
            row = measured(method, items, seed, task.get("apart", False))
        except Exception as fault:
            row = {"seed": seed, "failed": traceback.format_exception_only(fault)[-1].strip()[:200]}
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
