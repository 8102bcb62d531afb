"""What the study of clustering is made on: labelled series that packages bring, recordings at hand, simulated items."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import numpy.typing as npt

from vhem._support.arrays import BoolArray, FloatArray, IntArray
from vhem.datasets import load_character_trajectories, load_cmu_motion, load_labelled_series, simulated_study
from vhem.datasets import simulated_sets as sets
from vhem.datasets.labelled_series import LABELLED_SERIES
from vhem.studies.motion import MotionSettings, postures, principal_components

_LETTERS, _PER_LETTER = "abcdegmw", 12


@dataclass(frozen=True)
class Items:
    """Items with known clusters; an item has one sequence or several."""

    sequences: list[FloatArray]
    owner: IntArray  #: the item of each sequence
    truth: IntArray  #: the cluster of each item
    is_training: BoolArray | None = None  #: of items, if the set comes in two parts
    n_categories: int = 0  #: if frames are codes of categories

    @property
    def n_clusters(self) -> int:
        """How many true clusters there are."""
        return len(np.unique(self.truth))

    @property
    def are_single(self) -> bool:
        """Whether each item has one sequence."""
        return len(self.owner) == len(self.truth)

    def take(self, chosen: BoolArray) -> Items:
        """Return some of the items."""
        index = np.flatnonzero(chosen[self.owner])
        number = np.cumsum(chosen) - 1
        return Items([self.sequences[i] for i in index], number[self.owner[index]], self.truth[chosen], None,
                     self.n_categories)  # fmt: skip

    def as_series(self) -> list[FloatArray]:
        """Return one series per item, for methods that know no groups and no categories: joined, as indicators."""
        series = [np.concatenate([self.sequences[i] for i in np.flatnonzero(self.owner == k)])
                  for k in range(len(self.truth))]  # fmt: skip
        return [np.eye(self.n_categories)[x[:, 0].astype(int)] for x in series] if self.n_categories else series


def _singles(series: list[FloatArray], labels: npt.ArrayLike, is_training: BoolArray | None = None) -> Items:
    return Items(series, np.arange(len(series)), np.unique(labels, return_inverse=True)[1], is_training)


def of_archive(name: str, seed: int) -> Items:
    """Return a set of an archive, in a random order; the seed changes nothing else."""
    found = load_labelled_series(name)
    order = np.random.default_rng(seed).permutation(len(found.series))
    return _singles([found.series[i] for i in order], found.labels[order], found.is_training[order])


def letters(seed: int) -> Items:
    """Twelve of each of eight letters, every third frame of the pen's velocity."""
    data = load_character_trajectories()
    rng = np.random.default_rng(seed)
    chosen = np.concatenate(
        [rng.choice(np.flatnonzero(data.labels == x), _PER_LETTER, replace=False) for x in _LETTERS]
    )
    return _singles([np.asarray(data.sequences[int(i)])[::3] for i in chosen], data.labels[chosen])


def motions(seed: int) -> Items:
    """Return the 56 motions of eight kinds, as features of the body."""
    del seed
    data = load_cmu_motion()
    as_posture = postures(data, MotionSettings().frame_rate)
    return _singles(principal_components(as_posture, MotionSettings().variance_kept), data.labels)


def faces(seed: int) -> Items:
    """Sixty viewers with one of three strategies, about four short trials each."""
    study = simulated_study(n_viewers=60, n_trials=4, random_state=seed)
    viewers = list(study.hmms.ids)
    owner = np.array([viewers.index(group) for group in study.sequences.groups or ()])
    return Items([np.asarray(x) for x in study.sequences], owner, study.strategies)


def simulated(make: Callable[[int], sets.SimulatedSet], n_categories: int, seed: int) -> Items:
    """Return a simulated set."""
    made = make(seed)
    return Items(list(made.sequences), made.items, made.truth, None, n_categories)


#: From the name of each set to what draws it with a seed.
SETS: dict[str, Callable[[int], Items]] = {
    **{name: partial(of_archive, name) for name in LABELLED_SERIES},
    "letters": letters,
    "motions": motions,
    "faces": faces,
    "sensor": partial(simulated, sets.sensor, 0),
    "stages": partial(simulated, sets.stages, 0),
    "channels": partial(simulated, sets.channels, 0),
    "clicks": partial(simulated, sets.clicks, 8),
}

# -- the same data, made worse


def with_gaps(items: Items, rng: np.random.Generator) -> Items:
    """Return the items with a tenth of the values missing."""
    made = [np.where(rng.random(x.shape) < 0.1, np.nan, x) for x in items.sequences]
    return replace(items, sequences=made)


def rescaled(items: Items, rng: np.random.Generator) -> Items:
    """Return the items in other units: each channel times a factor of 0.01 to 100."""
    factors = 10 ** rng.uniform(-2, 2, size=items.sequences[0].shape[1])
    return replace(items, sequences=[x * factors for x in items.sequences])


def halved(items: Items, rng: np.random.Generator) -> Items:
    """Return half of each sequence, from a random place."""
    made = []
    for x in items.sequences:
        begin = rng.integers(len(x) - len(x) // 2 + 1) if len(x) > 1 else 0
        made.append(x[begin : begin + max(len(x) // 2, 1)])
    return replace(items, sequences=made)


def with_outliers(items: Items, rng: np.random.Generator) -> Items:
    """Return the items with one frame in fifty ten standard deviations away."""
    spread = np.concatenate(items.sequences).std(axis=0)
    made = []
    for x in items.sequences:
        hit = rng.random(len(x)) < 0.02
        made.append(x + 10 * spread * rng.choice([-1, 1], size=x.shape) * hit[:, None])
    return replace(items, sequences=made)


#: What is done to the data, by name.
TROUBLES: dict[str, Callable[[Items, np.random.Generator], Items]] = {
    "10 % missing": with_gaps,
    "rescaled": rescaled,
    "halved": halved,
    "outliers": with_outliers,
}
