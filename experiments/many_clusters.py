"""What does VHEM lose if Ward's tree grows in rounds instead of from all pairs? The table of docs/performance.md.

    python experiments/many_clusters.py --draws 1500-1509            prints the table
    python experiments/many_clusters.py --draws 1500-1509 --write    writes docs/results/many_clusters.txt too

Each draw has 1,000 clusters of twelve sequences on average. An HMM is learned from every sequence, and VHEM clusters
the HMMs. Only the numbers of clusters and states are given.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.metrics import adjusted_rand_score

import vhem
from vhem.em import cluster_starts, ward_in_rounds

N, K, S, D = 12_000, 1000, 3, 4
WHOLE = 10**9  # HMMs of which all pairs are compared


def drawn(kind: str, seed: int) -> tuple[list[np.ndarray], np.ndarray]:
    """Sequences of clusters that lie anywhere or in forty groups, and the cluster of each."""
    rng = np.random.default_rng(seed)
    means = 2 * rng.normal(size=(K, S, D))
    if kind == "in groups":
        means = 4 * rng.normal(size=(40, S, D))[rng.integers(40, size=K)] + means / 2
    label = rng.integers(K, size=N)
    states = np.repeat([rng.permutation(S) for _ in range(N)], 12, axis=1)
    return list(means[label[:, None], states] + rng.normal(size=(N, S * 12, D))), label


def compared(kind: str, seed: int) -> list[tuple[float, float, float]]:
    """CPU seconds, agreement with the truth and bound, from all pairs and in rounds."""
    sequences, label = drawn(kind, seed)
    hmms = vhem.fit_hmms(sequences, n_states=S, random_state=seed)
    rows = []
    for at_once in (WHOLE, ward_in_rounds.AT_ONCE):
        cluster_starts.AT_ONCE = at_once
        begin = time.process_time()
        fit = vhem.VHEM(K, random_state=seed).fit(hmms)
        rows.append((time.process_time() - begin, adjusted_rand_score(label, fit.labels_), fit.lower_bounds_[-1]))
    return rows


def table(draws: range) -> list[str]:
    lines = [f"{'':12}{'ARI, all pairs':>18}{'in rounds':>18}{'bound / all pairs':>26}{'CPU time / all':>18}"]
    for kind in ("anywhere", "in groups"):
        found = np.array([compared(kind, seed) for seed in draws])
        whole, rounds = found[:, 0], found[:, 1]
        cells = [mean_and_error(part[:, 1], 3) for part in (whole, rounds)]
        lost = mean_and_error(rounds[:, 2] / whole[:, 2], 5)  # bounds are negative: above 1 is lower
        lines.append(f"{kind:12}{cells[0]:>18}{cells[1]:>18}{lost:>26}{rounds[:, 0].sum() / whole[:, 0].sum():18.2f}")
    return [*lines, "", f"{N} HMMs into {K} clusters, {len(draws)} draws: means ± standard errors."]


def mean_and_error(values: np.ndarray, digits: int) -> str:
    return f"{values.mean():.{digits}f} ± {values.std(ddof=1) / np.sqrt(len(values)):.{digits}f}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", default="1500-1509", help="first and last seed")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    first, last = map(int, given.draws.split("-"))
    warnings.simplefilter("ignore", vhem.FitWarning)
    warnings.simplefilter("ignore", vhem.NotConvergedWarning)
    text = "\n".join(table(range(first, last + 1)))
    print(text)
    if given.write:
        (Path(__file__).parents[1] / "docs" / "results" / "many_clusters.txt").write_text(text + "\n", encoding="utf-8")
