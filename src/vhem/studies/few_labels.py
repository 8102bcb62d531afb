"""Few labels: how well sequences are classified after 2, 4, 8 and 16 examples per class, and what a new class costs.

`H3MClassifier`, at its defaults and with left-right HMMs, beside one-nearest-neighbour with dynamic time warping and
MiniRocket (both aeon's, at their defaults) and one HMM per class (hmmlearn's, three states). Examples are drawn at
random; at most 200 of the others are classified. A new class: the last one is added to a classifier of the others by
`partial_fit`, which needs none of their sequences, and compared with learning all classes again.
"""

from __future__ import annotations

import importlib
import json
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from vhem._support.arrays import FloatArray, IntArray
from vhem.studies.clustering_data import SETS, Items
from vhem.studies.clustering_methods import stretched
from vhem.studies.results import Meter, markdown_table, provenance, remembered, renew_tables, write
from vhem.supervised import H3MClassifier

DATA = ("BasicMotions", "JapaneseVowels", "letters", "GunPoint", "ItalyPowerDemand")
AMOUNTS = (2, 4, 8, 16)
_MOST_TESTED = 200


class Split(NamedTuple):
    """Examples, and sequences to classify."""

    train: list[FloatArray]
    y: IntArray
    test: list[FloatArray]
    truth: IntArray


def split(items: Items, n_labels: int, seed: int) -> Split | None:
    """Return `n_labels` examples per class, in the units of the examples; None if a class has too few."""
    rng = np.random.default_rng([seed, n_labels])
    if np.bincount(items.truth).min() <= n_labels:
        return None
    chosen = np.concatenate(
        [rng.choice(np.flatnonzero(items.truth == k), n_labels, replace=False) for k in range(items.n_clusters)]
    )
    rest = np.setdiff1d(np.arange(len(items.truth)), chosen)
    if len(rest) > _MOST_TESTED:
        rest = np.sort(rng.choice(rest, _MOST_TESTED, replace=False))
    frames = np.concatenate([items.sequences[i] for i in chosen])
    mean, deviation = frames.mean(axis=0), np.where(frames.std(axis=0) > 0, frames.std(axis=0), 1.0)
    series = [(x - mean) / deviation for x in items.sequences]
    return Split([series[i] for i in chosen], items.truth[chosen], [series[i] for i in rest], items.truth[rest])


def by_h3m(s: Split, seed: int, **options: Any) -> IntArray:
    """One mixture of HMMs per class."""
    fit = H3MClassifier(random_state=seed, n_jobs=1, **options).fit(s.train, s.y)
    return np.asarray(fit.predict(s.test))


def by_left_right(s: Split, seed: int) -> IntArray:
    """One mixture of left-right HMMs per class: for sequences that take the same course every time."""
    return by_h3m(s, seed, n_states=8, topology="left-right")


def by_neighbour(s: Split, seed: int) -> IntArray:
    """Return the class of the nearest example by dynamic time warping."""
    del seed
    module = importlib.import_module("aeon.classification.distance_based")
    fit = module.KNeighborsTimeSeriesClassifier(distance="dtw", n_neighbors=1)
    return np.asarray(fit.fit([x.T for x in s.train], s.y).predict([x.T for x in s.test]))


def by_minirocket(s: Split, seed: int) -> IntArray:
    """Random convolutions and a linear classifier; series of unequal lengths are stretched."""
    module = importlib.import_module("aeon.classification.convolution_based")
    length = max(int(np.median([len(x) for x in s.train])), 9)
    train, test = (stretched(part, length).transpose(0, 2, 1) for part in (s.train, s.test))
    return np.asarray(module.MiniRocketClassifier(random_state=seed).fit(train, s.y).predict(test))


def by_hmmlearn(s: Split, seed: int) -> IntArray:
    """One HMM of three states per class."""
    module = importlib.import_module("hmmlearn.hmm")
    models = []
    for k in np.unique(s.y):
        own = [x for x, y in zip(s.train, s.y, strict=True) if y == k]
        models.append(module.GaussianHMM(3, random_state=seed).fit(np.concatenate(own), [len(x) for x in own]))
    return np.array([int(np.argmax([model.score(x) for model in models])) for x in s.test])


CLASSIFIERS: dict[str, Callable[[Split, int], IntArray]] = {
    "H3MClassifier": by_h3m,
    "H3MClassifier, left-right": by_left_right,
    "1-NN, DTW": by_neighbour,
    "MiniRocket": by_minirocket,
    "one HMM per class (hmmlearn)": by_hmmlearn,
}


def measured(name: str, data: str, n_labels: int, seeds: int) -> list[dict[str, Any]]:
    """Return accuracy and CPU seconds of each seed."""
    rows: list[dict[str, Any]] = []
    for seed in range(seeds):
        s = split(SETS[data](seed), n_labels, seed)
        if s is None:
            return [{"failed": "too few examples"}]
        meter = Meter()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = CLASSIFIERS[name](s, seed)
        except ImportError as fault:
            return [{"failed": f"{fault.name} is not installed"}]
        except Exception as fault:  # whatever a library raises is its answer
            rows.append({"seed": seed, "failed": str(fault)[:200]})
            continue
        rows.append({"seed": seed, "accuracy": float((found == s.truth).mean()), "seconds": meter.seconds})
    return rows


def new_class(data: str, seeds: int) -> list[dict[str, Any]]:
    """Return the accuracy of a classifier that was given its last class afterwards, and of one learned at once."""
    rows = []
    for seed in range(seeds):
        s = split(SETS[data](seed), 8, seed)
        if s is None:
            return [{"failed": "too few examples"}]
        late = s.y == s.y.max()
        first = [x for x, is_late in zip(s.train, late, strict=True) if not is_late]
        added = [x for x, is_late in zip(s.train, late, strict=True) if is_late]
        whole = H3MClassifier(random_state=seed, n_jobs=1).fit(s.train, s.y)
        grown = H3MClassifier(random_state=seed, n_jobs=1).fit(first, s.y[~late]).partial_fit(added, s.y[late])
        score = {
            name: float((fit.predict(s.test) == s.truth).mean()) for name, fit in (("again", whole), ("added", grown))
        }
        rows.append({"seed": seed, **score})
    return rows


def run(
    out: Path, seeds: int = 10, progress: Callable[[str], None] = lambda _: None, pages: tuple[Path, ...] = ()
) -> list[Path]:
    """Run the study and write its tables, also into `pages`; what is kept in parts or in few_labels.json is not run."""
    known = _known(out / "few_labels.json", seeds)
    found: dict[str, Any] = {}
    for data in DATA:
        found[data] = known["results"].setdefault(data, {})
        for n in AMOUNTS:
            of_amount = found[data].setdefault(str(n), {})
            for name in CLASSIFIERS:
                if name in of_amount:
                    continue
                progress(f"{data}, {n} labels: {name}")
                key = "".join(c if c.isalnum() else "-" for c in f"labels_{data}_{n}_{name}")
                of_amount[name] = remembered(out, key, {"seeds": seeds}, partial(measured, name, data, n, seeds))
        if "new class" not in found[data]:
            found[data]["new class"] = remembered(
                out, f"labels_{data}_new", {"seeds": seeds}, partial(new_class, data, seeds)
            )
    tables = all_tables(found)
    text = "# All tables of the study of few labels\n\n" + "\n".join(f"## {k}\n\n{v}\n" for k, v in tables.items())
    paths = write(out, "few_labels", text, known)
    for page in pages:
        renew_tables(page, tables)
    draw(out / "few_labels.png", found)
    return [*paths, out / "few_labels.png", *pages]


def _known(path: Path, seeds: int) -> dict[str, Any]:
    """Return the runs of a file and what they were made with, if with as many seeds; otherwise none."""
    if path.exists():
        kept: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if kept["settings"] == {"seeds": seeds}:
            return kept
    return {"results": {}, **provenance({"seeds": seeds}, ("aeon", "hmmlearn", "numba"))}


def _cell(rows: list[dict[str, Any]], what: str = "accuracy") -> str:
    values = [row[what] for row in rows if what in row]
    if not values:
        return str(rows[0].get("failed", "–")) if rows else "–"
    error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
    return f"{np.mean(values):.2f} ± {error:.2f}".replace("0.", ".")


def all_tables(found: dict[str, Any]) -> dict[str, str]:
    """Return every table, by its heading."""
    rows, seconds = [], []
    for data, of_set in found.items():
        made = [n for n in AMOUNTS if any("accuracy" in row for row in of_set[str(n)]["H3MClassifier"])]
        rows += [[data, str(n), *(_cell(of_set[str(n)][name]) for name in CLASSIFIERS)] for n in made]
        for n in made[-1:]:
            times = [[row["seconds"] for row in of_set[str(n)][name] if "seconds" in row] for name in CLASSIFIERS]
            seconds.append([data, str(n), *(f"{np.mean(t):.2g}" if t else "–" for t in times)])
    header = ["set", "examples per class", *CLASSIFIERS]
    added = [[data, *(_cell(of_set["new class"], how) for how in ("added", "again"))] for data, of_set in found.items()]
    return {
        "Accuracy after few examples": markdown_table(header, rows),
        "CPU seconds, learning and classifying": markdown_table(header, seconds),
        "A class that comes later": markdown_table(["set", "added by partial_fit", "all learned again"], added),
    }


def draw(path: Path, found: dict[str, Any]) -> None:
    """Draw the learning curves, a panel per set."""
    import matplotlib.pyplot as plt  # noqa: PLC0415  (an optional library)

    figure, panels = plt.subplots(
        1, len(found), figsize=(2.1 * len(found) + 0.6, 2.6), sharey=True, squeeze=False, layout="constrained"
    )
    for axes, (data, of_set) in zip(panels[0], found.items(), strict=True):
        for name, mark in zip(CLASSIFIERS, "os^dv", strict=False):
            scores = [[row["accuracy"] for row in of_set[str(n)][name] if "accuracy" in row] for n in AMOUNTS]
            known = [(n, np.mean(v)) for n, v in zip(AMOUNTS, scores, strict=True) if v]
            axes.plot(*zip(*known, strict=True) if known else ((), ()), marker=mark, ms=4, lw=1.2, label=name)
        axes.set_title(data, fontsize=8)
        axes.set_xscale("log", base=2)
        axes.set_xticks(AMOUNTS, map(str, AMOUNTS))
    panels[0, 0].set_ylabel("accuracy")
    figure.supxlabel("examples per class", fontsize=9)
    figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=5, fontsize=8)
    figure.savefig(path, dpi=130)
    plt.close(figure)
