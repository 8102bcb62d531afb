"""Simulated items with known clusters, each kind hard in its own way: what quality is measured on."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from vhem._support.arrays import FloatArray, IntArray
from vhem.emissions import Categorical
from vhem.models import HMM


class SimulatedSet(NamedTuple):
    """Sequences, the item that each belongs to, the true cluster of each item, and sizes."""

    sequences: list[FloatArray]
    items: IntArray
    truth: IntArray
    n_clusters: int
    n_states: int
    topology: str = "ergodic"


def sensor(seed: int, apart: float = 1.0, habit: float = 0.08) -> SimulatedSet:
    """Three postures held (deviation 0.1) and three gaits (variances 1 to 10), twelve recordings of sixty frames."""
    rng = np.random.default_rng(3000 + seed)
    postures = np.array([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0]])
    gaits = [_gait(rng, step, size) for step, size in ((0.35, 1.5), (0.35, 3.0), (0.6, 3.0))]
    sequences, truth = [], np.repeat(np.arange(6), 12)
    for k in truth:
        if k < 3:
            sequences.append(apart * postures[k] + habit * rng.normal(size=3) + 0.1 * rng.normal(size=(60, 3)))
        else:
            sequences.append(np.asarray(_someone(rng, *gaits[k - 3], 60, 0.4, (0.7, 1.4)).sample(1, 60, rng)[0]))
    order = rng.permutation(len(truth))
    return SimulatedSet([sequences[i] for i in order], np.arange(len(truth)), truth[order], 6, 4)


def close_postures(seed: int) -> SimulatedSet:
    """Return recordings whose postures are nearer to one another, and held more alike."""
    return sensor(seed + 500, apart=0.4, habit=0.03)


def _gait(rng: np.random.Generator, step: float, size: float) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Four phases in a circle."""
    trans = (1 - step) * np.eye(4) + step * np.roll(np.eye(4), 1, axis=1) * 0.9 + step * 0.1 / 4
    trans /= trans.sum(1, keepdims=True)
    return np.full(4, 0.25), trans, size * rng.normal(size=(4, 3)), rng.uniform(1, 10, size=(4, 3))


def _someone(
    rng: np.random.Generator, start: FloatArray, trans: FloatArray, means: FloatArray, variances: FloatArray,
    loyalty: float, spread: float, factors: tuple[float, float],
) -> HMM:  # fmt: skip
    """Return an HMM near to that of its kind."""
    rows = np.stack([rng.dirichlet(loyalty * row + 0.01) for row in trans])
    own = means + spread * rng.normal(size=means.shape)
    return HMM(start, rows, own, variances * rng.uniform(*factors, size=variances.shape))


def stages(seed: int) -> SimulatedSet:
    """Four stages one after another; five clusters of 30, 20, 15, 10 and 5 items, one or two sequences of 15 to 50."""
    rng = np.random.default_rng(4000 + seed)
    truth, sequences, items = np.repeat(np.arange(5), [30, 20, 15, 10, 5]), [], []
    anchors = 1.5 * rng.normal(size=(6, 3))
    courses = [rng.choice(6, 4, replace=False) for _ in range(5)]
    for i, k in enumerate(truth):
        means = anchors[courses[k]] + 0.45 * rng.normal(size=(4, 3))
        deviations = np.sqrt(rng.uniform(0.4, 1.5, size=(4, 3)))
        for _ in range(rng.integers(1, 3)):
            share = rng.dirichlet(np.full(4, 6.0))
            lengths = np.maximum(1, np.round(share * rng.integers(15, 51))).astype(int)
            state = np.repeat(np.arange(4), lengths)
            sequences.append(means[state] + deviations[state] * rng.normal(size=(len(state), 3)))
            items.append(i)
    return SimulatedSet(sequences, np.array(items), truth, 5, 4, "left-right")


def channels(seed: int) -> SimulatedSet:
    """Eight channels; four clusters of 60, 36, 18 and 6 items, two to four sequences of 10 to 40; items vary."""
    rng = np.random.default_rng(5000 + seed)
    truth, sequences, items = np.repeat(np.arange(4), [60, 36, 18, 6]), [], []
    places = 0.9 * rng.normal(size=(5, 8))
    kinds = []
    for _ in range(4):
        stick = rng.uniform(0.3, 0.8)
        trans = (1 - stick) * rng.dirichlet(np.ones(3), size=3) + stick * np.eye(3)
        means = places[rng.choice(5, 3, replace=False)]
        kinds.append((rng.dirichlet(np.ones(3)), trans, means, rng.uniform(0.5, 1.5, size=(3, 8))))
    for i, k in enumerate(truth):
        start, trans, means, variances = kinds[k]
        own = variances * rng.gamma(4.0, 0.25, size=variances.shape)
        someone = _someone(rng, rng.dirichlet(20 * start + 0.01), trans, means, own, 20, 0.35, (1.0, 1.0))
        lengths = rng.integers(10, 41, size=rng.integers(2, 5))
        sequences += list(someone.sample(len(lengths), lengths, rng))
        items += [i] * len(lengths)
    return SimulatedSet(sequences, np.array(items), truth, 4, 3)


def rhythms(seed: int, n_frames: int = 150) -> SimulatedSet:
    """Three kinds of fifty recordings that share four states: slow ones, quick ones, and ones that go round."""
    rng = np.random.default_rng(7000 + seed)
    means = np.array([[0.0, 0.0, 0.0], [2.0, 1.0, 0.0], [0.0, 2.0, 2.0], [3.0, -1.0, 1.0]])
    others = (1 - np.eye(4)) / 3
    slow, quick = (stay * np.eye(4) + (1 - stay) * others for stay in (0.98, 0.9))
    round_ = 0.95 * np.eye(4) + 0.035 * np.roll(np.eye(4), 1, axis=1) + 0.015 * others
    truth = np.repeat(np.arange(3), 50)
    kinds = [HMM(np.full(4, 0.25), trans, means, np.full((4, 3), 0.49)) for trans in (slow, quick, round_)]
    sequences = [kinds[k].sample(1, n_frames, rng)[0] for k in truth]
    return SimulatedSet(sequences, np.arange(len(truth)), truth, 3, 4)


def clicks(seed: int) -> SimulatedSet:
    """Visits of 120 users to a shop of eight pages, as codes 0 to 7: four kinds of users, two to five visits each."""
    rng = np.random.default_rng(6000 + seed)
    truth, sequences, items = np.repeat(np.arange(4), 30), [], []
    pages = rng.dirichlet(np.full(8, 0.4), size=5)
    kinds: list[Any] = []
    for _ in range(4):
        trans = 0.8 * np.eye(3) + 0.2 * rng.dirichlet(np.ones(3), size=3)
        kinds.append((rng.dirichlet(np.ones(3)), trans, pages[rng.choice(5, 3, replace=False)]))
    for i, k in enumerate(truth):
        start, trans, shares = kinds[k]
        own = np.stack([rng.dirichlet(60 * row + 0.05) for row in shares])
        rows = np.stack([rng.dirichlet(20 * row + 0.01) for row in trans])
        lengths = rng.integers(10, 41, size=rng.integers(2, 6))
        sequences += list(HMM(start, rows, emissions=Categorical(own)).sample(len(lengths), lengths, rng))
        items += [i] * len(lengths)
    return SimulatedSet(sequences, np.array(items), truth, 4, 3)
