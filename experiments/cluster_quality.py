"""How good the clusters are that one call with default settings finds, and how sure: the tables of docs/quality.md.

    python experiments/cluster_quality.py --draws 800-811            prints the tables
    python experiments/cluster_quality.py --draws 800-811 --write    writes docs/results/cluster_quality.txt too

Nothing is tuned per set: the numbers of clusters and states are given, everything else is a default. Letters are read
from the folder in VHEM_DATA, or from ../shared/data beside the repository; "hard" and "home" are drawn by the script
simulated_sets.py in the folder `bench` beside that folder. Sets that are not there are left out, with a note.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import compare_systems
import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import adjusted_rand_score
from sklearn.metrics.cluster import contingency_matrix

import vhem
from vhem.datasets import simulated_sets

ROOT = Path(__file__).resolve().parents[1]


class Study(NamedTuple):
    """Sequences, the item that each belongs to, the true cluster of each item, and sizes."""

    sequences: list[np.ndarray]
    items: np.ndarray
    truth: np.ndarray
    n_clusters: int
    n_states: int
    covariance_type: str = "diag"
    topology: str = "ergodic"

    @property
    def sizes(self) -> dict[str, str]:
        """Form of the HMMs."""
        return {"covariance_type": self.covariance_type, "topology": self.topology}


def faces(seed: int) -> Study:
    """Viewers of faces who follow one of three strategies, four short trials each."""
    return Study(*compare_systems.faces(seed)[:5])


def letters(seed: int) -> Study:
    """Eight letters, twelve of each."""
    return Study(*compare_systems.handwriting(seed)[:5])


def letters_full(seed: int) -> Study:
    """Return the same letters, for full covariances."""
    return letters(seed)._replace(covariance_type="full")


def _bench() -> Any:
    path = compare_systems.data_folder().parent / "bench" / "simulated_sets.py"
    if not path.exists():
        raise FileNotFoundError(f"{path} was not found")
    spec = importlib.util.spec_from_file_location("simulated_sets", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def hard(seed: int) -> Study:
    """Two hundred items with one to five sequences of 10 to 20 frames, five clusters, items that vary."""
    return Study(*_bench().hard(seed))


def home(seed: int) -> Study:
    """Twenty sequences of fifty frames per item."""
    return Study(*_bench().home(seed))


def _drawn(make: Callable[[int], simulated_sets.SimulatedSet]) -> Callable[[int], Study]:
    """Return a set of the package as a study."""

    def draw(seed: int) -> Study:
        made = make(seed)
        return Study(*made[:5], topology=made.topology)

    return draw


_OF_PACKAGE = ("sensor", "close_postures", "stages", "channels")
SETS: dict[str, Callable[[int], Study]] = {
    **{f.__name__: f for f in (faces, letters, letters_full, hard, home)},
    **{name: _drawn(getattr(simulated_sets, name)) for name in _OF_PACKAGE},
}


class Found(NamedTuple):
    """The cluster of each item, and how sure a method is of it, if it says so."""

    labels: np.ndarray
    sure: np.ndarray | None = None


def sequence_clustering(s: Study) -> Found:
    fit = vhem.SequenceClustering(s.n_clusters, s.n_states, **s.sizes, random_state=0, n_jobs=1)
    fit.fit(s.sequences, groups=s.items)
    return Found(fit.labels_, fit.responsibilities_.max(axis=1))


def vhem_on_hmms(s: Study) -> Found:
    hmms = vhem.fit_hmms(s.sequences, s.n_states, **s.sizes, groups=s.items, random_state=0, n_jobs=1)
    fit = vhem.VHEM(s.n_clusters, random_state=0, n_jobs=1).fit(hmms)
    return Found(fit.labels_, fit.responsibilities_.max(axis=1))


def twelve_restarts(s: Study) -> Found:
    """VHEM as in the paper: separate HMMs, and the best of twelve random starts."""
    options = {"groups": s.items, "pooling": None, "random_state": 0, "n_jobs": 1}
    hmms = vhem.fit_hmms(s.sequences, s.n_states, **s.sizes, **options)
    fit = vhem.VHEM(s.n_clusters, init="kmeans++", n_init=12, tau=10, polish=False, random_state=0, n_jobs=1)
    return Found(fit.fit(hmms).labels_)


def em_h3m(s: Study) -> Found:
    fit = vhem.MixtureOfHMMs(s.n_clusters, s.n_states, **s.sizes, random_state=0, n_jobs=1).fit(s.sequences)
    return Found(compare_systems.by_sequences(fit.model_, s))


METHODS: dict[str, Callable[[Study], Found]] = {
    "SequenceClustering": sequence_clustering,
    "VHEM on HMMs": vhem_on_hmms,
    "paper, 12 restarts": twelve_restarts,
    "EM-H3M": em_h3m,
}


class Reliability:
    """How often methods are right, by how sure they were."""

    edges = (0.5, 0.6, 0.7, 0.8, 0.9, 0.99, 1.0 + 1e-9)

    def __init__(self) -> None:
        self.seen: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {}

    def add(self, method: str, truth: np.ndarray, found: Found) -> None:
        """Note the result of a method on one draw."""
        if found.sure is not None:
            self.seen.setdefault(method, []).append((found.sure, _right(truth, found.labels)))

    def lines(self) -> list[str]:
        """Return a line per method and range of probabilities."""
        out = ["Of items assigned with a probability of …, so many are in their true cluster (all sets)"]
        for method, parts in self.seen.items():
            sure, right = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
            for low, high in itertools.pairwise(self.edges):
                inside = (sure >= low) & (sure < high)
                if inside.any():
                    share = f"{sure[inside].mean():.2f} on average, {right[inside].mean():.2f} right"
                    out.append(f"{method:<20}{low:.2f} to {min(high, 1):.2f}   {inside.sum():>5} items   {share}")
        return out


def _right(truth: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return whether each item is in the cluster that stands for its true one."""
    table = contingency_matrix(truth, labels)
    rows, columns = linear_sum_assignment(-table)
    match = dict(zip(np.unique(labels)[columns], np.unique(truth)[rows], strict=True))
    return np.array([match.get(label) == true for label, true in zip(labels, truth, strict=True)])


def row(name: str, draws: range, reliability: Reliability) -> str:
    cells = []
    for title, method in METHODS.items():
        scores, seconds = [], []
        for seed in draws:
            study = SETS[name](seed)
            begin = time.process_time()
            found = method(study)
            seconds.append(time.process_time() - begin)
            scores.append(adjusted_rand_score(study.truth, found.labels))
            reliability.add(title, np.asarray(study.truth), found)
        error = np.std(scores, ddof=1) / np.sqrt(len(scores))
        cells.append(f"{np.mean(scores):.3f} ± {error:.3f} ({np.mean(seconds):.2f})")
    return f"{name:<16}" + "".join(f"{cell:>24}" for cell in cells)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", default="800-811", help="first and last seed of the data")
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    first, last = map(int, options.draws.split("-"))
    warnings.simplefilter("ignore")
    lines = [
        f"Adjusted Rand index, mean ± standard error over draws {first} to {last} (CPU seconds of one thread)",
        " " * 16 + "".join(f"{name:>24}" for name in METHODS),
    ]
    reliability = Reliability()
    print("\n".join(lines))
    for name in options.sets.split(","):
        try:
            lines.append(row(name, range(first, last + 1), reliability))
        except FileNotFoundError as missing:
            print(f"{name} is left out: {missing}", file=sys.stderr)
            continue
        print(lines[-1], flush=True)
    lines += ["", *reliability.lines()]
    print("\n".join(lines[-20:]))
    if options.write:
        (ROOT / "docs" / "results" / "cluster_quality.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
