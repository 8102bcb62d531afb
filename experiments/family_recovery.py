"""Planted clusters of every emission family, and of a product of four: how often they are found.

Each of ten seeds draws three HMMs of two states at random, far enough apart to be told, and ten sequences of 60 frames
from each. Agreement is the adjusted Rand index between the planted clusters and those of SequenceClustering, and of
VHEM on one HMM per sequence.

    python experiments/family_recovery.py
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
from sklearn.metrics import adjusted_rand_score

import vhem

SEEDS, CLUSTERS, EACH, LENGTH = range(10), 3, 10, 60
MOVES = ([0.5, 0.5], [[0.85, 0.15], [0.15, 0.85]])


FAMILIES: dict[str, Callable[[np.random.Generator], vhem.Components]] = {
    "categorical": lambda rng: vhem.Categorical(rng.dirichlet(np.ones(5), 2)),
    "bernoulli": lambda rng: vhem.Bernoulli(rng.uniform(0.05, 0.95, (2, 3))),
    "poisson": lambda rng: vhem.Poisson(rng.uniform(0.5, 12.0, 2)),
    "negativebinomial": lambda rng: vhem.NegativeBinomial(rng.uniform(1.0, 20.0, 2), rng.uniform(2.0, 8.0, 2)),
    "exponential": lambda rng: vhem.Exponential(10 ** rng.uniform(-1.0, 1.0, 2)),
    "gamma": lambda rng: vhem.Gamma(rng.uniform(0.5, 8.0, 2), rng.uniform(2.0, 10.0, 2)),
    "zero-gamma": lambda rng: vhem.Gamma(
        *(rng.uniform(low, high, 2) for low, high in ((0.5, 8), (2, 10), (0.05, 0.6)))
    ),
    "beta": lambda rng: vhem.Beta(rng.uniform(0.1, 0.9, 2), rng.uniform(5.0, 20.0, 2)),
    "vonmises": lambda rng: vhem.VonMises(rng.uniform(-np.pi, np.pi, 2), rng.uniform(1.0, 6.0, 2)),
}
FOUR = ("gamma", "vonmises", "poisson", "categorical")


def agreement(family: str, seed: int) -> tuple[float, float]:
    """Return the agreement of both estimators with what was planted."""
    rng = np.random.default_rng(seed)
    made = [
        vhem.Product([FAMILIES[one](rng) for one in FOUR]) if family == "product of four" else FAMILIES[family](rng)
        for _ in range(CLUSTERS)
    ]
    planted = np.repeat(np.arange(CLUSTERS), EACH)
    hmms = [vhem.HMM(*MOVES, emissions=emissions) for emissions in made]
    sequences = [hmms[k].sample(1, LENGTH, rng)[0] for k in planted]
    spec = dict(enumerate(FOUR)) if family == "product of four" else family
    clusters = vhem.SequenceClustering(CLUSTERS, 2, emissions=spec, random_state=seed).fit(sequences).labels_
    reduced = vhem.VHEM(CLUSTERS, random_state=seed).fit(vhem.fit_hmms(sequences, 2, emissions=spec, random_state=seed))
    return adjusted_rand_score(planted, clusters), adjusted_rand_score(planted, reduced.labels_)


def main() -> None:
    """Print a table."""
    warnings.simplefilter("ignore")
    print("| family | SequenceClustering | VHEM |\n| --- | --- | --- |")
    for family in (*FAMILIES, "product of four"):
        found = np.array([agreement(family, seed) for seed in SEEDS])
        mean, error = found.mean(axis=0), found.std(axis=0, ddof=1) / np.sqrt(len(found))
        cells = " | ".join(f"{m:.2f} ± {e:.2f}" for m, e in zip(mean, error, strict=True))
        print(f"| {family} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
