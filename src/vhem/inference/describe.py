"""What an HMM does: where it spends its time, how long it stays, how predictable it is."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.special import xlogy

from vhem._support.arrays import FloatArray
from vhem._support.checks import check_integer
from vhem._support.errors import ParameterError
from vhem._support.randomness import RandomState, generator
from vhem.models import HMM
from vhem.models.stationary import time_shares

_MANY_PATHS = 2_000_000


class Description(NamedTuple):
    """What an HMM does, in the long run and in sequences of a given length."""

    steady_state: FloatArray  #: (S,) share of time in the long run
    time_share: FloatArray  #: (S,) share of time in sequences of the length given
    dwell_time: FloatArray  #: (S,) frames that a visit takes on average, 1 / (1 - a_ss)
    state_entropy: float  #: of the state at a time, in nats
    entropy_rate: float  #: of the next state given the present one
    state_information: float  #: mutual information of successive states: how much the present says about what follows
    entropy: float  #: of the observation at a time, by Monte Carlo
    conditional_entropy: float  #: of an observation given the one before
    information: float  #: mutual information of successive observations


def describe_hmm(hmm: HMM, length: int = 10, n_samples: int = 10_000, random_state: RandomState = 0) -> Description:
    """Return what an HMM does: steady state, dwell times, entropies and mutual information.

    Entropies of states are exact. Those of observations are means over `n_samples` pairs of successive observations of
    the chain in its steady state; their standard error is about 0.01 nats with the default.

    Parameters
    ----------
    hmm : HMM
        The model.
    length : int
        Length of the sequences whose time shares are given.
    n_samples : int
        Pairs of observations drawn.
    random_state : None, int, Generator or RandomState
        Seed.

    Returns
    -------
    Description
        In nats and frames.

    Examples
    --------
    >>> import vhem
    >>> from vhem.inference import describe_hmm
    >>> hmm = vhem.HMM([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]], [[0.0], [9.0]], [[1.0], [1.0]])
    >>> found = describe_hmm(hmm)
    >>> found.dwell_time.round(1), round(found.state_information, 3), round(found.information, 2)
    (array([10., 10.]), 0.368, 0.38)
    """
    steady = hmm.stationary()
    joint = steady[:, None] * hmm.transmat
    after = joint.sum(axis=0)
    state_entropy, pair_entropy = _entropy(after), _entropy(joint)
    rate = pair_entropy - _entropy(steady)
    stay = np.diagonal(hmm.transmat)
    dwell = np.divide(1.0, 1 - stay, out=np.full(len(stay), np.inf), where=stay < 1)
    drawn = _observed(hmm, steady, check_integer("n_samples", n_samples, 2), generator(random_state))
    share = time_shares(hmm.startprob[None], hmm.transmat[None], check_integer("length", length, 1))[0]
    return Description(steady, share, dwell, state_entropy, rate, state_entropy - rate, *drawn)


def _entropy(p: FloatArray) -> float:
    return float(-xlogy(p, p).sum())


def _observed(hmm: HMM, steady: FloatArray, n: int, rng: np.random.Generator) -> tuple[float, float, float]:
    """Return entropy, conditional entropy and mutual information of successive observations."""
    now = _started(hmm, steady)
    pairs = now.sample(n, 2, rng)
    both, one = now.score_samples(pairs), now.score_samples([pair[:1] for pair in pairs])
    two = _started(hmm, steady @ hmm.transmat).score_samples([pair[1:] for pair in pairs])
    return float(-two.mean()), float((one - both).mean()), float((both - one - two).mean())


def _started(hmm: HMM, startprob: FloatArray) -> HMM:
    return HMM._of(replace(hmm.parameters, startprob=startprob[None]))


def likeliest_paths(hmm: HMM, length: int = 3, n: int = 5) -> list[tuple[tuple[int, ...], float]]:
    """Return the most probable sequences of states.

    Parameters
    ----------
    hmm : HMM
        The model.
    length : int
        States per path.
    n : int
        Number of paths.

    Returns
    -------
    list of (path, probability)
        The most probable first; states are counted from 0.

    Examples
    --------
    >>> import vhem
    >>> from vhem.inference import likeliest_paths
    >>> hmm = vhem.HMM([1.0, 0.0], [[0.25, 0.75], [0.5, 0.5]], [[0.0], [9.0]], [[1.0], [1.0]])
    >>> likeliest_paths(hmm, length=3, n=2)
    [((0, 1, 0), 0.375), ((0, 1, 1), 0.375)]
    """
    S, length = hmm.n_states, check_integer("length", length, 1)
    if S**length > _MANY_PATHS:
        raise ParameterError("length", length, "makes {n:,} paths of {states} states", "give a shorter length",
                             n=S**length, states=S)  # fmt: skip
    p = hmm.startprob
    for _ in range(length - 1):
        p = p[..., None] * hmm.transmat[(None,) * (p.ndim - 1)]
    best = np.argsort(-p.ravel(), kind="stable")[: check_integer("n", n, 1)]
    paths = list(itertools.islice(itertools.product(range(S), repeat=length), S**length))
    return [(paths[k], float(p.ravel()[k])) for k in best]
