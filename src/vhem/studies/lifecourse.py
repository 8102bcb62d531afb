"""Life courses: clusters by mixtures of HMMs and by VHEM, beside optimal matching with PAM.

Two data sets, mvad (from school to work) and biofam (family lives), with case weights. Every system gets the same
number of clusters and of states, chosen beforehand, and no other setting. Stability: the adjusted Rand index between
the clusters of all people and those of a bootstrap sample, on the people in it. Held-out likelihood, per frame:
clusters are learned from four fifths of the people and score the others; optimal matching makes clusters only, so an
HMM is learned from each. Covariates: Cramér's V between clusters and what else is known about people.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.metrics import adjusted_rand_score

from vhem._support.arrays import FloatArray, IntArray
from vhem.datasets import LifeCourses, load_biofam, load_mvad
from vhem.estimators.fit_hmms import fit_hmms
from vhem.estimators.mixture import MixtureOfHMMs
from vhem.estimators.sequence_clustering import SequenceClustering
from vhem.estimators.vhem import VHEM
from vhem.models import H3M
from vhem.sequences import Sequences
from vhem.studies.optimal_matching import optimal_matching, pam
from vhem.studies.results import markdown_table, provenance, remembered, renew_tables, write

CLUSTERS, STATES, FOLDS = 4, 3, 5
COVARIATES = {"mvad": ("male", "catholic", "funemp", "gcse5eq", "livboth"), "biofam": ("sex", "plingu02", "p02r01")}
TITLES = {"mvad": "From school to work: mvad", "biofam": "Family lives: biofam"}
LOADERS: dict[str, Callable[[], LifeCourses]] = {"mvad": load_mvad, "biofam": load_biofam}

Clusters = tuple[IntArray, H3M]


def run(
    out: Path, samples: int = 10, progress: Callable[[str], None] = lambda _: None, pages: tuple[Path, ...] = ()
) -> list[Path]:
    """Run the study and write its tables, also into `pages` below their headings; finished parts are kept."""
    settings = {"clusters": CLUSTERS, "states": STATES, "samples": samples, "folds": FOLDS}
    found: dict[str, Any] = {}
    for name, load in LOADERS.items():
        people = load()
        far = optimal_matching(people.sequences)
        found[name] = {}
        for system in SYSTEMS:
            progress(f"{name}: {system}")

            def compute(
                name: str = name, system: str = system, people: LifeCourses = people, far: FloatArray = far
            ) -> Any:
                return _measured(name, system, people, far, samples)

            found[name][system] = remembered(out, f"lifecourse_{name}_{system}", settings, compute)
    tables = {TITLES[name]: _table(systems) for name, systems in found.items()}
    for page in pages:
        renew_tables(page, tables)
    text = "\n".join(f"## {title}\n\n{table}\n" for title, table in tables.items())
    return write(out, "lifecourse", text, {"results": found, **provenance(settings)})


def by_matching(sequences: Sequences, far: FloatArray, seed: int) -> Clusters:
    """Cluster by optimal matching and PAM, and learn an HMM from each cluster."""
    weights = np.ones(len(sequences)) if sequences.weights is None else sequences.weights
    labels = pam(far, CLUSTERS, weights)
    names = [int(k) for k in labels]
    hmms = fit_hmms(sequences, STATES, groups=names, random_state=seed, sample_weight=weights / weights.mean())
    shares = np.array([weights[labels == k].sum() for k in hmms.ids])
    return labels, hmms.with_weights(shares / shares.sum())


def by_mixture(sequences: Sequences, far: FloatArray, seed: int) -> Clusters:
    """Cluster by a mixture of HMMs."""
    del far
    fit = MixtureOfHMMs(CLUSTERS, STATES, random_state=seed).fit(sequences)
    return fit.labels_, fit.model_


def by_sequence_clustering(sequences: Sequences, far: FloatArray, seed: int) -> Clusters:
    """Cluster by `SequenceClustering`."""
    del far
    fit = SequenceClustering(CLUSTERS, STATES, random_state=seed).fit(sequences)
    return fit.labels_, fit.centers_


def by_vhem(sequences: Sequences, far: FloatArray, seed: int) -> Clusters:
    """Learn an HMM from each sequence, and cluster these by VHEM."""
    del far
    hmms = fit_hmms(sequences, STATES, random_state=seed)
    tau = int(np.median(sequences.lengths))
    fit = VHEM(CLUSTERS, tau=tau, weight_form="virtual", random_state=seed).fit(hmms)
    return fit.labels_, fit.centers_


SYSTEMS: dict[str, Callable[[Sequences, FloatArray, int], Clusters]] = {
    "OM + PAM": by_matching,
    "MixtureOfHMMs": by_mixture,
    "SequenceClustering": by_sequence_clustering,
    "VHEM": by_vhem,
}


def _measured(name: str, system: str, people: LifeCourses, far: FloatArray, samples: int) -> dict[str, Any]:
    cluster = SYSTEMS[system]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of short sequences, of runs that stop early: thousands, and all alike
        labels, centers = cluster(people.sequences, far, 0)
        return {
            "sizes": np.bincount(labels, minlength=CLUSTERS).tolist(),
            "stability": [_stability(cluster, people.sequences, far, labels, seed) for seed in range(1, samples + 1)],
            "held_out": _held_out(cluster, people.sequences, far),
            "covariates": {c: cramers_v(labels, people.covariates[c]) for c in COVARIATES[name]},
            "states": _most_common(centers),
        }


def _stability(
    cluster: Callable[[Sequences, FloatArray, int], Clusters],
    sequences: Sequences,
    far: FloatArray,
    labels: IntArray,
    seed: int,
) -> float:
    """Return the agreement of the clusters of a bootstrap sample with those of all people."""
    chosen = np.random.default_rng(seed).integers(len(sequences), size=len(sequences))
    drawn = Sequences(sequences[chosen], ids=range(len(chosen)))
    again, _ = cluster(drawn, far[np.ix_(chosen, chosen)], seed)
    _, first = np.unique(chosen, return_index=True)  # everybody once
    return float(adjusted_rand_score(labels[chosen[first]], again[first]))


def _held_out(
    cluster: Callable[[Sequences, FloatArray, int], Clusters], sequences: Sequences, far: FloatArray
) -> list[float]:
    """Return the log-likelihood per frame of every fold, by what was learned from the others."""
    fold = np.random.default_rng(0).permutation(len(sequences)) % FOLDS
    scores = []
    for k in range(FOLDS):
        train, test = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
        _, centers = cluster(sequences[train], far[np.ix_(train, train)], k)
        scores.append(float(centers.score_samples(sequences[test]).sum() / sequences.lengths[test].sum()))
    return scores


def cramers_v(labels: IntArray, values: npt.NDArray[Any]) -> float:
    """Return Cramér's V between clusters and a covariate, 0 to 1; empty cells are left out.

    Examples
    --------
    >>> cramers_v(np.array([0, 0, 1, 1]), np.array(["a", "a", "b", "b"]))
    1.0
    """
    known = values != ""
    rows, row = np.unique(labels[known], return_inverse=True)
    columns, column = np.unique(values[known], return_inverse=True)
    counts = np.zeros((len(rows), len(columns)))
    np.add.at(counts, (row, column), 1)
    expected = counts.sum(axis=1, keepdims=True) * counts.sum(axis=0) / counts.sum()
    chi2 = ((counts - expected) ** 2 / expected).sum()
    return float(np.sqrt(chi2 / counts.sum() / max(min(len(rows), len(columns)) - 1, 1)))


def _most_common(centers: H3M) -> list[list[str]]:
    """Return the most probable category of each state of each centre."""
    (names,) = centers.categories.values()
    best = [hmm.emissions.arrays()["probabilities"][:, 0, 0].argmax(axis=1) for hmm in centers]
    return [[names[k] for k in row] for row in best]


def _table(systems: dict[str, Any]) -> str:
    """Return the figures of all systems on one data set as Markdown."""
    rows = []
    for system, numbers in systems.items():
        covariates = ", ".join(f"{c} {v:.2f}" for c, v in numbers["covariates"].items())
        sizes = ", ".join(map(str, sorted(numbers["sizes"], reverse=True)))
        rows.append(
            [system, _with_error(numbers["stability"], 3), _with_error(numbers["held_out"], 4), sizes, covariates]
        )
    header = ["system", "stability (bootstrap ARI)", "held-out log-likelihood per frame", "sizes", "Cramér's V"]
    return markdown_table(header, rows)


def _with_error(values: list[float], digits: int) -> str:
    error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
    return f"{np.mean(values):.{digits}f} ± {error:.{digits}f}"
