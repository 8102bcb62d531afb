"""A simulated study of how people look at faces: the truth is known, so results can be checked."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vhem._support.arrays import FloatArray, IntArray
from vhem._support.randomness import RandomState, generator
from vhem.models import H3M, HMM
from vhem.sequences import Sequences

#: Where things are on the picture, in pixels from the upper left corner of 320 × 400.
PLACES = {"left eye": (110.0, 160.0), "right eye": (210.0, 160.0), "nose": (160.0, 220.0), "mouth": (160.0, 285.0)}

#: A strategy: the places looked at, where looking starts, and where the next fixation goes from each.
STRATEGIES: dict[str, tuple[list[str], list[float], list[list[float]]]] = {
    "eyes": (["left eye", "right eye", "nose"], [0.5, 0.4, 0.1], [[0.3, 0.6, 0.1], [0.6, 0.3, 0.1], [0.4, 0.4, 0.2]]),
    "centre": (["nose", "left eye", "mouth"], [0.8, 0.1, 0.1], [[0.8, 0.1, 0.1], [0.6, 0.3, 0.1], [0.6, 0.1, 0.3]]),
    "scan": (["left eye", "nose", "mouth"], [0.7, 0.2, 0.1], [[0.2, 0.7, 0.1], [0.1, 0.2, 0.7], [0.7, 0.1, 0.2]]),
}

_SPREAD = (17.0, 13.0)  # standard deviation of fixations around a place, in pixels
_HABIT = 9.0  # how far a viewer's places are from the strategy's, in pixels
_LOYALTY = 60.0  # how closely a viewer's probabilities follow the strategy's


class SimulatedStudy(NamedTuple):
    """Viewers, what they did, and the strategy each followed."""

    sequences: Sequences  #: fixations (x, y), one sequence per trial, grouped by viewer
    hmms: H3M  #: the HMM that made each viewer's sequences
    strategies: IntArray  #: strategy of each viewer
    strategy_names: list[str]


def simulated_study(n_viewers: int = 40, n_trials: int = 15, random_state: RandomState = 0) -> SimulatedStudy:
    """Make a study in which viewers look at faces with one of three strategies.

    Every viewer has their own HMM, a variation of the strategy's, which generates about `n_trials` short sequences of
    fixations.

    Parameters
    ----------
    n_viewers : int
        Number of viewers; the strategies take turns.
    n_trials : int
        Sequences per viewer, on average.
    random_state : None, int, Generator or RandomState
        Seed.

    Returns
    -------
    SimulatedStudy
        Sequences, the viewers' own HMMs, and the truth.

    Examples
    --------
    >>> from vhem.datasets import simulated_study
    >>> study = simulated_study()
    >>> study.hmms
    H3M(n_hmms=40, n_states=3, n_mix=1, n_dims=2, covariance_type='diag')
    >>> sorted(set(study.sequences.groups))[:2]
    ['viewer 01', 'viewer 02']
    """
    rng = generator(random_state)
    names = list(STRATEGIES)
    strategies = np.arange(n_viewers) % len(names)
    viewers = [f"viewer {k + 1:02d}" for k in range(n_viewers)]
    hmms = [_viewer(names[s], rng) for s in strategies]
    columns: dict[str, list[FloatArray]] = {"viewer": [], "trial": [], "x": [], "y": []}
    for viewer, hmm in zip(viewers, hmms, strict=True):
        n = max(1, rng.poisson(n_trials))
        trials = hmm.sample(n, rng.integers(5, 13, size=n), rng)
        columns["viewer"].append(np.repeat(viewer, len(trials.X)))
        columns["trial"].append(np.repeat([f"{viewer}, trial {t + 1:02d}" for t in range(n)], trials.lengths))
        columns["x"].append(trials.X[:, 0])
        columns["y"].append(trials.X[:, 1])
    table = {name: np.concatenate(parts) for name, parts in columns.items()}
    sequences = Sequences.from_table(table, id="trial", values=["x", "y"], group="viewer")
    return SimulatedStudy(sequences, H3M(hmms, ids=viewers), strategies, names)


def _viewer(strategy: str, rng: np.random.Generator) -> HMM:
    places, start, transmat = STRATEGIES[strategy]
    means = np.array([PLACES[place] for place in places])
    return HMM(
        rng.dirichlet(_LOYALTY * np.array(start)),
        np.stack([rng.dirichlet(_LOYALTY * np.array(row)) for row in transmat]),
        means + _HABIT * rng.standard_normal(means.shape),
        np.array(_SPREAD) ** 2 * rng.uniform(0.7, 1.4, size=means.shape),
    )
