"""The motion study: 56 motions, one HMM each, into 8, 4 and 2 clusters, by VHEM and its competitors.

Our decisions, none of them made by looking at the labels:

- Channels: positions of the joints that carry captured motion, relative to the hips, turned so that the hips face one
  way, and the height of the hips. What remains is posture; position and direction in space are left out.
- 30 frames per second (every fourth frame), principal components that hold 90 % of the variance, every motion counting
  the same however long it is, scaled by one number.
- HMMs of 6 states with diagonal covariances, best of five starts.
- Thirty trees are built and the one whose top represents the inputs best is kept (`HierarchicalVHEM.n_trees`): how well
  a level represents the one below says little about how well it represents the motions.
- τ is the median length of the motions (90 frames, three seconds). One virtual sequence per HMM: with such long
  sequences assignments are hard all the same.
"""

from __future__ import annotations

import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score, rand_score

import vhem
from vhem._support.arrays import FloatArray, IntArray
from vhem.datasets.motion import MotionData, load_cmu_motion
from vhem.metrics import best_attainable_rand, purity
from vhem.studies.results import markdown_table, mean_and_spread, provenance, write

LEVELS = (8, 4, 2)
PAPER = {"VHEM": (0.940, 0.775, 0.591), "SC-PPK": (0.973, 0.737, 0.568)}  # Rand index, on other trials of the database
_NO_MOTION = ("Finger", "Index", "Thumb", "HipJoint")  # not captured, or not moving relative to the hips
_QUALITIES = ("rand", "ari", "nmi", "purity")


class MotionSettings(NamedTuple):
    """The choices of the study."""

    frame_rate: float = 30.0
    variance_kept: float = 0.9
    n_states: int = 6
    n_starts: int = 5
    n_virtual: float = 1.0
    n_init: int = 12
    n_trees: int = 30
    max_iter: int = 60
    tol: float = 1e-4


class Level(NamedTuple):
    """What one system found at one level."""

    labels: IntArray
    model: vhem.H3M | None  #: the level's HMMs, if the system has any
    seconds: float


class Problem(NamedTuple):
    """The motions as every system gets them."""

    sequences: list[FloatArray]
    hmms: vhem.H3M
    classes: list[str]
    tau: int
    settings: MotionSettings


def postures(data: MotionData, frame_rate: float) -> list[FloatArray]:
    """Return every motion as (T, 3 · joints) postures: hips at the origin and facing one way, plus their height."""
    names = data.joint_names
    kept = [k for k, name in enumerate(names) if not any(word in name for word in _NO_MOTION)]
    step = max(1, round(data.fps / frame_rate))
    left, right = names.index("LeftUpLeg"), names.index("RightUpLeg")
    return [_posture(p[::step], kept, left, right) for p in data.positions]


def _posture(positions: FloatArray, kept: list[int], left: int, right: int) -> FloatArray:
    across = positions[:, left] - positions[:, right]
    angle = np.arctan2(across[:, 2], across[:, 0])[:, None]
    x, y, z = np.moveaxis(positions - positions[:, :1], -1, 0)
    turned = np.stack([x * np.cos(angle) + z * np.sin(angle), y, z * np.cos(angle) - x * np.sin(angle)], axis=-1)
    turned[:, 0, 1] = positions[:, 0, 1]
    return np.asarray(turned[:, kept].reshape(len(positions), -1))


def principal_components(sequences: list[FloatArray], variance_kept: float) -> list[FloatArray]:
    """Return the leading components, scaled so that the first has unit variance; every sequence counts the same."""
    mean = np.mean([s.mean(0) for s in sequences], axis=0)
    covariance = np.mean([(s - mean).T @ (s - mean) / len(s) for s in sequences], axis=0)
    values, vectors = np.linalg.eigh(covariance)
    values, vectors = values[::-1], vectors[:, ::-1]
    n = int(np.searchsorted(np.cumsum(values) / values.sum(), variance_kept)) + 1
    return [(s - mean) @ vectors[:, :n] / np.sqrt(values[0]) for s in sequences]


def prepare(data: MotionData, settings: MotionSettings) -> Problem:
    """Turn motions into sequences, and each sequence into an HMM."""
    sequences = principal_components(postures(data, settings.frame_rate), settings.variance_kept)
    hmms = vhem.fit_hmms(sequences, settings.n_states, n_init=settings.n_starts, random_state=0)
    tau = int(np.median([len(s) for s in sequences]))
    return Problem(sequences, hmms, data.labels, tau, settings)


def hierarchy(problem: Problem, seed: int, variant: str = "centres") -> vhem.HierarchicalVHEM:
    """Return VHEM's hierarchy of the motions."""
    s = problem.settings
    return vhem.HierarchicalVHEM(
        LEVELS, variant, s.n_trees, tau=problem.tau, n_virtual=s.n_virtual, n_init=s.n_init, max_iter=s.max_iter,
        tol=s.tol, random_state=seed,
    ).fit(problem.hmms)  # fmt: skip


def by_vhem(problem: Problem, seed: int, variant: str = "centres") -> list[Level]:
    """Cluster by VHEM, level upon level."""
    begin = time.perf_counter()
    fit = hierarchy(problem, seed, variant)
    seconds = (time.perf_counter() - begin) / len(LEVELS)
    return [Level(labels, model, seconds) for labels, model in zip(fit.labels_, fit.levels_, strict=True)]


def by_vhem_on_inputs(problem: Problem, seed: int) -> list[Level]:
    """Cluster by VHEM with every level fitted to all inputs."""
    return by_vhem(problem, seed, "inputs")


def by_ppk(problem: Problem, seed: int) -> list[Level]:
    """Cluster by SC-PPK; the inputs nearest to the centres make the next level."""
    levels: list[Level] = []
    hmms, labels = problem.hmms, np.arange(len(problem.hmms))
    for size in LEVELS:
        begin = time.perf_counter()
        fit = vhem.PPKClustering(size, length=problem.tau, random_state=seed).fit(hmms)
        labels, hmms = fit.labels_[labels], fit.centers_
        levels.append(Level(labels, hmms, time.perf_counter() - begin))
    return levels


def by_em(problem: Problem, seed: int) -> list[Level]:
    """Fit a mixture of HMMs to the sequences themselves, separately for each number of clusters."""
    levels = []
    for size in LEVELS:
        begin = time.perf_counter()
        fit = vhem.MixtureOfHMMs(size, problem.settings.n_states, n_init=2, random_state=seed).fit(problem.sequences)
        levels.append(Level(fit.labels_, fit.model_, time.perf_counter() - begin))
    return levels


def by_kmeans(problem: Problem, seed: int) -> list[Level]:
    """Stretch every sequence to 50 frames and run k-means on them: no HMM at all."""
    from sklearn.cluster import KMeans  # noqa: PLC0415  (slow to import)

    grid = np.linspace(0, 1, 50)
    stretched = [
        np.stack([np.interp(grid, np.linspace(0, 1, len(s)), s[:, k]) for k in range(s.shape[1])]).ravel()
        for s in problem.sequences
    ]
    levels = []
    for size in LEVELS:
        begin = time.perf_counter()
        labels = KMeans(size, n_init=10, random_state=seed).fit_predict(np.stack(stretched))
        levels.append(Level(labels, None, time.perf_counter() - begin))
    return levels


SYSTEMS: dict[str, Callable[[Problem, int], list[Level]]] = {
    "VHEM": by_vhem,
    "VHEM, inputs": by_vhem_on_inputs,
    "SC-PPK": by_ppk,
    "EM-H3M": by_em,
    "k-means": by_kmeans,
}


def measure(problem: Problem, level: Level) -> dict[str, float]:
    """Return how good a level is: agreement with the classes, and how well its HMMs represent the inputs."""
    classes, labels = problem.classes, level.labels
    out = {
        "rand": float(rand_score(classes, labels)),
        "ari": float(adjusted_rand_score(classes, labels)),
        "nmi": float(normalized_mutual_info_score(classes, labels)),
        "purity": purity(classes, labels),
        "seconds": level.seconds,
    }
    if level.model is not None:
        J = vhem.expected_log_likelihood(problem.hmms, level.model, problem.tau)
        with np.errstate(divide="ignore"):
            log_weights = np.log(level.model.weights)
        out["log_likelihood"] = float(np.mean(logsumexp(log_weights + J, axis=1)) / problem.tau)
    return out


def evaluate(problem: Problem, seeds: int, progress: Callable[[str], None]) -> dict[str, list[list[dict[str, float]]]]:
    """Return the measures of every system, for every seed and level."""
    results = {}
    for name, system in SYSTEMS.items():
        results[name] = [[measure(problem, level) for level in system(problem, seed)] for seed in range(seeds)]
        progress(f"{name}: Rand " + " ".join(f"{r:.3f}" for r in _mean(results[name], "rand")))
    return results


def _mean(rows: list[list[dict[str, float]]], quality: str) -> FloatArray:
    return np.asarray(np.mean([[level[quality] for level in row] for row in rows], axis=0))


def _cell(rows: list[list[dict[str, float]]], level: int, quality: str, digits: int = 3) -> str:
    values = [row[level][quality] for row in rows if row[level].get(quality) is not None]
    return mean_and_spread(values, digits) if len(values) == len(rows) else "–"


def report(problem: Problem, results: dict[str, list[list[dict[str, float]]]], seeds: int, is_paper: bool) -> str:
    """Return the tables of the study as Markdown."""
    parts = [f"# Motion study: {len(problem.classes)} motions, {len(set(problem.classes))} classes, {seeds} seeds\n"]
    header = ["system", "Rand", "adjusted Rand", "NMI", "purity", "log-likelihood", "seconds"]
    for k, size in enumerate(LEVELS):
        attainable = best_attainable_rand(problem.classes, size)
        parts.append(f"## {size} clusters (Rand index of at most {attainable:.3f} attainable)\n")
        rows = []
        for name, found in results.items():
            cells = [_cell(found, k, quality) for quality in _QUALITIES]
            rows.append([name, *cells, _cell(found, k, "log_likelihood"), _cell(found, k, "seconds", 2)])
        if is_paper:
            rows += [[f"paper's {name}", f"{rand[k]:.3f}", *["–"] * 5] for name, rand in PAPER.items()]
        parts.append(markdown_table(header, rows) + "\n")
    parts.append(
        "Mean and standard deviation over seeds. Log-likelihood: mean over inputs of log Σ_j ω_j exp J_ij, per frame. "
        f"τ = {problem.tau}; settings: {problem.settings._asdict()}. The paper's trials, markers and settings are not "
        "known in detail, so its figures are only for orientation.\n"
    )
    return "\n".join(parts)


def draw(problem: Problem, out: Path, seed: int = 0) -> list[Path]:
    """Draw the hierarchy found by VHEM as the paper's figure does, as PNG and SVG."""
    from matplotlib import pyplot as plt  # noqa: PLC0415  (an optional library)

    from vhem.plotting import plot_hierarchy  # noqa: PLC0415

    fit = hierarchy(problem, seed)
    figure = plot_hierarchy(fit.tree_, problem.classes).get_figure(root=True)
    assert figure is not None
    out.mkdir(parents=True, exist_ok=True)
    paths = [out / f"motion_hierarchy.{kind}" for kind in ("png", "svg")]
    for path in paths:
        figure.savefig(path, dpi=150)
    plt.close(figure)
    return paths


def run(
    out: Path, seeds: int = 10, all_trials: bool = False, progress: Callable[[str], Any] = print,
    settings: MotionSettings = MotionSettings(),  # noqa: B008  (immutable)
) -> list[Path]:  # fmt: skip
    """Run the study, write its tables and picture into `out`, and return their paths."""
    begin = time.perf_counter()
    data = load_cmu_motion(all_trials)
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        problem = prepare(data, settings)
        progress(f"{len(problem.hmms)} HMMs learned in {time.perf_counter() - begin:.1f} s")
        results = evaluate(problem, seeds, progress)
        picture = [] if all_trials else draw(problem, out)
    text = report(problem, results, seeds, is_paper=not all_trials)
    made_by = provenance({**settings._asdict(), "tau": problem.tau, "seeds": seeds, "levels": LEVELS})
    notes = Counter(str(warning.message) for warning in raised)
    name = "motion_all" if all_trials else "motion"
    return [*write(out, name, text, {**made_by, "warnings": notes, "results": results}), *picture]
