"""The tables of the study against the field, by the headings that the page has for them."""

from __future__ import annotations

from typing import Any

import numpy as np

from vhem._support.arrays import FloatArray
from vhem.datasets.labelled_series import LABELLED_SERIES
from vhem.studies.clustering_methods import METHODS
from vhem.studies.ranks import average_ranks
from vhem.studies.results import markdown_table

Rows = list[dict[str, Any]]  #: one per seed
Results = dict[str, dict[str, Rows]]  #: by set, then by method

_LEVEL = 0.02  # adjusted Rand index within which a method is level with the best
#: Adjusted Rand indices that others report for the same sets, by the name that the table shows.
PUBLISHED = {
    # Means of ten runs: README of https://github.com/thedatumorg/kshape-python, read in November 2026.
    "k-Shape, as its authors report": {
        "ACSF1": 0.139, "ArrowHead": 0.176, "BasicMotions": 0.553, "Coffee": 0.454, "GunPoint": -0.005,
        "ItalyPowerDemand": 0.220, "JapaneseVowels": 0.023, "OSULeaf": 0.264, "PLAID": 0.282,
        "PickupGestureWiimoteZ": 0.288, "PigCVP": 0.195, "Trace": 0.456,
    },
    # Training and test parts together, from the results of Holder and Bagnall, "Rock the KASBA" (arXiv 2411.17838), in
    # https://github.com/time-series-machine-learning/tsml-eval, publications/clustering/kasba, read in November 2026:
    # KASBA means of ten runs (section 5.4), the others of section 5.1.
    "KASBA, as its authors report": {
        "ACSF1": 0.220, "ArrowHead": 0.205, "Coffee": 0.405, "GunPoint": -0.005, "ItalyPowerDemand": 0.169,
        "OSULeaf": 0.183, "PigCVP": 0.105, "Trace": 0.390,
    },
    "k-means, MSM, as they report": {
        "ACSF1": 0.171, "ArrowHead": 0.145, "Coffee": 0.610, "GunPoint": -0.005, "ItalyPowerDemand": 0.002,
        "OSULeaf": 0.218, "Trace": 0.326,
    },
    "k-means, DBA, as they report": {
        "ACSF1": 0.099, "ArrowHead": 0.177, "Coffee": 0.793, "GunPoint": -0.005, "ItalyPowerDemand": 0.000,
        "OSULeaf": 0.153, "Trace": 0.664,
    },
    "k-SC, as they report": {
        "ACSF1": 0.141, "ArrowHead": 0.194, "Coffee": 0.730, "GunPoint": 0.009, "ItalyPowerDemand": 0.570,
        "OSULeaf": 0.159, "Trace": 0.671,
    },
}  # fmt: skip


def mean_of(rows: Rows, score: str = "ari") -> float:
    """Return the mean of a score over the seeds that were finished; NaN if there is none."""
    values = [row[score] for row in rows if score in row]
    return float(np.mean(values)) if values else float("nan")


def matrix(results: Results, methods: list[str], score: str = "ari") -> FloatArray:
    """Return mean scores (sets, methods); NaN where a method failed."""
    return np.array([[mean_of(of_set.get(m, []), score) for m in methods] for of_set in results.values()])


def all_tables(plain: Results, troubled: dict[str, Results], apart: Results, methods: list[str]) -> dict[str, str]:
    """Return every table, by its heading."""
    made = {"Average ranks": ranked(plain, methods)} if len(methods) > 2 and len(plain) > 1 else {}
    archives = {s: rows for s, rows in plain.items() if s in LABELLED_SERIES}
    others = {s: rows for s, rows in plain.items() if s not in archives}
    for score, title in (("ari", "Adjusted Rand index"), ("nmi", "Normalised mutual information"),
                         ("accuracy", "Clustering accuracy"), ("seconds", "CPU seconds of one run"),
                         ("megabytes", "Memory beyond the data, MB")):  # fmt: skip
        for kind, results in (("archives", archives), ("recordings and simulations", others)):
            if results:
                made[f"{title}: {kind}"] = _table(results, methods, score)
    made["What each can do at all"] = _abilities(methods)
    if troubled:
        made["The same with worse data"] = _worse(plain, troubled, methods)
    if apart:
        made["New sequences"] = _table(apart, [m for m in methods if METHODS[m].assigns_new], "ari", {})
    return made


def ranked(plain: Results, methods: list[str]) -> str:
    """Return average ranks, also over archives alone, and on how many sets a method is best and finishes."""
    scores = matrix(plain, methods)
    foreign = scores[[name in LABELLED_SERIES for name in plain]]
    ranks = average_ranks(scores).average
    alone = average_ranks(foreign).average if len(foreign) > 1 else np.full(len(methods), np.nan)
    best = np.nanmax(scores, axis=1, keepdims=True)
    level, finished = (scores >= best - _LEVEL).sum(axis=0), (~np.isnan(scores)).sum(axis=0)
    times = np.nanmedian(matrix(plain, methods, "seconds"), axis=0)
    rows = [[methods[i], f"{ranks[i]:.1f}", f"{alone[i]:.1f}", str(level[i]), f"{finished[i]} of {len(plain)}",
             f"{times[i]:.2g}"] for i in np.argsort(ranks, kind="stable")]  # fmt: skip
    header = ["method", "average rank", "on archives alone", "best, or level", "finished", "CPU s, median"]
    return markdown_table(header, rows)


def _table(results: Results, methods: list[str], score: str, published: dict[str, dict[str, float]] = PUBLISHED) -> str:
    """Return a table with a method per row and a set per column; in that of the ARI, also what others published."""
    cell = _cell if score in ("ari", "nmi", "accuracy") else _amount
    rows = [[m, *(cell([of_set.get(m, [])], score) for of_set in results.values())] for m in methods]
    for name, figures in published.items() if score == "ari" else ():
        if set(figures) & set(results):
            rows.append([f"*{name}*", *(_short(f"{figures[s]:.2f}") if s in figures else "" for s in results)])
    return markdown_table(["method", *results], rows)


def _worse(plain: Results, troubled: dict[str, Results], methods: list[str]) -> str:
    sets = list(next(iter(troubled.values())))
    columns = {"as they are": {s: plain[s] for s in sets if s in plain}, **troubled}
    used = [m for m in methods if any(m in of_set for of_set in next(iter(troubled.values())).values())]
    rows = [[m, *(_cell([of_set.get(m, []) for of_set in results.values()]) for results in columns.values())]
            for m in used]  # fmt: skip
    return markdown_table(["method", *columns], rows)


def _cell(sets: list[Rows], score: str = "ari") -> str:
    """Return the mean over seeds, then over sets, with its standard error; how many seeds, if fewer than ten."""
    values = [[row[score] for row in rows if score in row] for rows in sets]
    if not values or not all(values):
        reasons = [row["failed"] for rows in sets for row in rows if "failed" in row]
        return _brief(reasons[0]) if reasons else "–"
    errors = [np.std(v, ddof=1) / np.sqrt(len(v)) for v in values if len(v) > 1]
    spread = f" ± {np.sqrt(np.square(errors).sum()) / len(values):.2f}" if len(errors) == len(values) else ""
    mark = "†" if any(row.get("note") == "stretched" for rows in sets for row in rows) else ""
    fewest = min(map(len, values))
    few = f" ({fewest})" if fewest < 10 else ""
    return _short(f"{round(np.mean([np.mean(v) for v in values]), 2) + 0.0:.2f}{spread}") + mark + few


def _amount(sets: list[Rows], what: str) -> str:
    value = mean_of(sets[0], what)
    return "–" if np.isnan(value) else f"{value:.2g}" if value < 10 else f"{value:.0f}"


def _short(number: str) -> str:
    return number.replace("0.", ".")


def _brief(reason: str) -> str:
    if reason.startswith("more than"):
        return "too slow"
    return reason if reason.startswith("not installed") else "refused"


def _abilities(methods: list[str]) -> str:
    columns = ["takes_gaps", "takes_lengths", "takes_groups", "assigns_new", "has_centers"]
    titles = ["missing values", "unequal lengths", "several sequences per item", "new sequences", "centres to look at"]
    rows = [[m, *("yes" if getattr(METHODS[m], c) else "no" for c in columns)] for m in methods]
    return markdown_table(["method", *titles], rows)
