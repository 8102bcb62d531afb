"""Against the field: vhem and other ways of clustering sequences, on sets that anyone can load.

Every method runs at its defaults or as its authors recommend, is told the true number of clusters and nothing else, and
has ten seeds and a limit of CPU time per set. A seed is another order of the items and another seed of the method; for
simulated sets and letters it is another draw. Every method and set is a process of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from vhem._support.arrays import FloatArray
from vhem.kernels.stopping import stoppable_threads
from vhem.studies.clustering_data import SETS, TROUBLES
from vhem.studies.clustering_methods import METHODS
from vhem.studies.ranks import average_ranks, draw_ranks
from vhem.studies.results import markdown_table, provenance, remembered, write

#: Sets for the second and third table: small, of several kinds, some with a part for testing.
ROBUST = ("BasicMotions", "letters", "sensor")
APART = ("BasicMotions", "JapaneseVowels", "GunPoint", "ItalyPowerDemand", "Trace")
TROUBLED_METHODS = ("SequenceClustering", "VHEM on HMMs", "k-means, mean and sd", "k-means, resampled", "R-Clustering",
                    "KASBA", "k-means, DBA (tslearn)")  # fmt: skip
#: Adjusted Rand indices that others report for the same sets, by the name that the table shows.
PUBLISHED = {
    # Means of ten runs: README of https://github.com/thedatumorg/kshape-python, read in November 2026.
    "k-Shape, as its authors report": {
        "ACSF1": 0.139, "ArrowHead": 0.176, "BasicMotions": 0.553, "Coffee": 0.454, "GunPoint": -0.005,
        "ItalyPowerDemand": 0.220, "JapaneseVowels": 0.023, "OSULeaf": 0.264, "PLAID": 0.282,
        "PickupGestureWiimoteZ": 0.288, "PigCVP": 0.195, "Trace": 0.456,
    },
}  # fmt: skip
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")

Rows = list[dict[str, Any]]
Results = dict[str, dict[str, Rows]]  #: by set, then by method


def run(
    out: Path,
    seeds: int = 10,
    budget: int = 60,
    only: tuple[str, ...] = (),
    methods: tuple[str, ...] = (),
    jobs: int = 1,
    progress: Callable[[str], None] = lambda _: None,
) -> list[Path]:
    """Run the study, `jobs` processes at a time, and write its tables; finished parts are kept."""
    chosen = [name for name in SETS if not only or name in only]
    compared = [name for name in METHODS if not methods or name in methods]
    tasks = [{"method": m, "data": s, "seeds": seeds, "budget": budget} for s in chosen for m in compared]
    for s in (s for s in ROBUST if s in chosen):
        for m in (m for m in TROUBLED_METHODS if m in compared):
            tasks += [{"method": m, "data": s, "seeds": seeds, "budget": budget, "trouble": t} for t in TROUBLES]
    for s in (s for s in APART if s in chosen):
        tasks += [
            {"method": m, "data": s, "seeds": seeds, "budget": budget, "apart": True}
            for m in compared
            if METHODS[m].assigns_new
        ]

    def compute(task: dict[str, Any]) -> Rows:
        progress(", ".join(str(task[key]) for key in ("data", "method", "trouble", "apart") if key in task))
        name = "_".join("".join(c if c.isalnum() else "-" for c in str(task[k])) for k in task if k != "budget")
        return list(remembered(out, f"clustering_{name}", task, lambda: in_a_process(task)))

    with stoppable_threads(jobs) as pool:
        found = list(pool.map(compute, tasks))
    return _written(out, tasks, found, compared, {"seeds": seeds, "budget": budget})


def in_a_process(task: dict[str, Any]) -> Rows:
    """Return what a method says about a set, one row per seed that it finished."""
    command = [sys.executable, "-m", "vhem.studies.clustering_part", json.dumps(task)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **_ONE_THREAD})
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if rows or done.returncode == 0:
        return rows
    last = (done.stderr.strip().splitlines() or ["no output"])[-1]
    too_slow = done.returncode < 0
    return [{"failed": f"more than {task['budget']} s of CPU time" if too_slow else last[:200]}]


# -- tables


def _written(
    out: Path, tasks: list[dict[str, Any]], found: list[Rows], methods: list[str], settings: dict[str, Any]
) -> list[Path]:
    plain: Results = {}
    troubled: dict[str, Results] = {}
    apart: Results = {}
    for task, rows in zip(tasks, found, strict=True):
        into = apart if "apart" in task else troubled.setdefault(task["trouble"], {}) if "trouble" in task else plain
        into.setdefault(task["data"], {})[task["method"]] = rows
    text = _text(plain, troubled, apart, methods)
    numbers = {"plain": plain, "troubled": troubled, "apart": apart, **provenance(settings)}
    paths = write(out, "clustering", text, numbers)
    if len(methods) > 2 and len(plain) > 2:
        picture = out / "clustering_ranks.png"
        draw_ranks(picture, methods, average_ranks(matrix(plain, methods)))
        paths.append(picture)
    return paths


def mean_of(rows: Rows, score: str = "ari") -> float:
    """Return the mean of a score over the seeds that were finished; NaN if there is none."""
    values = [row[score] for row in rows if score in row]
    return float(np.mean(values)) if values else float("nan")


def matrix(results: Results, methods: list[str], score: str = "ari") -> FloatArray:
    """Return mean scores (sets, methods); NaN where a method failed."""
    return np.array([[mean_of(of_set.get(m, []), score) for m in methods] for of_set in results.values()])


def _cell(rows: Rows, score: str = "ari") -> str:
    values = [row[score] for row in rows if score in row]
    if not values:
        return next((_brief(row["failed"]) for row in rows if "failed" in row), "–")
    error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else float("nan")
    mark = "†" if any(row.get("note") == "stretched" for row in rows) else ""
    few = f" ({len(values)})" if len(values) < 10 else ""
    spread = f" ± {error:.2f}" if len(values) > 1 else ""
    return f"{round(np.mean(values), 2) + 0.0:.2f}{spread}{mark}{few}".replace("0.", ".")


def _brief(reason: str) -> str:
    if reason.startswith("more than"):
        return "too slow"
    refused = any(word in reason.lower() for word in ("nan", "missing", "inf"))
    return "refused" if refused else reason.split(":", maxsplit=1)[0]


def _table(results: Results, methods: list[str], score: str = "ari") -> str:
    """Return a table with a method per row and a set per column; in that of the ARI, also what others published."""
    scores = matrix(results, methods, score)
    header = ["method", *results]
    rows = [[m, *(_cell(of_set.get(m, []), score) for of_set in results.values())] for m in methods]
    if len(methods) > 2 and len(results) > 1:
        header.append("average rank")
        rows = [[*row, f"{rank:.1f}"] for row, rank in zip(rows, average_ranks(scores).average, strict=True)]
    for name, figures in PUBLISHED.items() if score == "ari" else ():
        if set(figures) & set(results):
            shown = [f"{figures[s]:.2f}".replace("0.", ".") if s in figures else "" for s in results]
            rows.append([f"*{name}*", *shown, *[""] * (len(header) - 1 - len(results))])
    return markdown_table(header, rows)


def _text(plain: Results, troubled: dict[str, Results], apart: Results, methods: list[str]) -> str:
    """Return all tables as Markdown."""
    parts = []
    for score, title in (("ari", "Adjusted Rand index"), ("nmi", "Normalised mutual information"),
                         ("accuracy", "Clustering accuracy")):  # fmt: skip
        parts.append(f"## {title}\n\n{_table(plain, methods, score)}\n")
    for what, title in (("seconds", "CPU seconds per run"), ("megabytes", "Memory beyond the data, MB")):
        rows = [[m, *(_plain_cell(of_set.get(m, []), what) for of_set in plain.values())] for m in methods]
        parts.append(f"## {title}\n\n{markdown_table(['method', *plain], rows)}\n")
    parts.append(f"## What each can do\n\n{_abilities(methods)}\n")
    if troubled:
        used = [m for m in TROUBLED_METHODS if m in methods]
        columns = {"as they are": {s: plain[s] for s in ROBUST if s in plain}, **troubled}
        rows = [[m, *(_cell([row for s in sets.values() for row in s.get(m, [])]) for sets in columns.values())]
                for m in used]  # fmt: skip
        parts.append(f"## The same with worse data\n\n{markdown_table(['method', *columns], rows)}\n")
    if apart:
        used = [m for m in methods if METHODS[m].assigns_new]
        parts.append(
            f"## New sequences: learned from the training part, scored on the other\n\n{_table(apart, used)}\n"
        )
    return "\n".join(parts)


def _plain_cell(rows: Rows, what: str) -> str:
    value = mean_of(rows, what)
    return "–" if np.isnan(value) else f"{value:.2g}" if value < 10 else f"{value:.0f}"


def _abilities(methods: list[str]) -> str:
    columns = ["takes_gaps", "takes_lengths", "takes_groups", "assigns_new", "has_centers"]
    titles = ["missing values", "unequal lengths", "several sequences per item", "new sequences", "centres to look at"]
    rows = [[m, *("yes" if getattr(METHODS[m], c) else "no" for c in columns)] for m in methods]
    return markdown_table(["method", *titles], rows)
