"""How much time a Markov chain spends in its states, in the long run and in sequences of a given length."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from vhem._support.arrays import FloatArray
from vhem.kernels.models import Models

_SMALLEST, _LARGEST = 5e-324, 1e300  # of doubles, with room for sums


def long_run_occupancy(startprob: FloatArray, transmat: FloatArray) -> FloatArray:
    """Return lim (1/T) Σ_{t<T} π Aᵗ, the share of time a chain started at π spends in each state.

    For an irreducible chain this is the stationary distribution, whatever π. Otherwise the chain ends in one of its
    closed classes: each has its own stationary distribution, weighted by the probability of ending there. The limit of
    averages exists for periodic chains too.

    Parameters
    ----------
    startprob : array of shape (S,)
        Initial probabilities π.
    transmat : array of shape (S, S)
        Transition probabilities A.

    Returns
    -------
    array of shape (S,)
        The occupancies; they sum to one.

    Examples
    --------
    >>> long_run_occupancy(np.array([1.0, 0.0]), np.array([[0.0, 1.0], [1.0, 0.0]]))
    array([0.5, 0.5])
    """
    reaches = _reachability(transmat)
    returns = np.all(~reaches | reaches.T, axis=1)  # every state reachable from this one leads back to it
    entry = _entry_probabilities(startprob, transmat, returns)
    occupancy = np.zeros(len(startprob))
    for members in np.unique(reaches[returns], axis=0):  # a closed class reaches only itself
        occupancy[members] = entry[members].sum() * _irreducible(transmat[np.ix_(members, members)])
    return np.asarray(occupancy / occupancy.sum())


def _reachability(transmat: FloatArray) -> npt.NDArray[np.bool_]:
    """Return whether state s can be reached from state r in any number of steps, none included."""
    reaches = (transmat > 0) | np.eye(len(transmat), dtype=bool)
    for _ in range(len(transmat).bit_length()):
        reaches = reaches @ reaches
    return reaches


def _entry_probabilities(startprob: FloatArray, transmat: FloatArray, recurrent: npt.NDArray[np.bool_]) -> FloatArray:
    """Return the probability that each recurrent state is the first one entered.

    Transient states are eliminated one by one and their visits passed on to where they lead. Nothing is subtracted,
    so chains that leave a set of states once in 1e300 steps come out right too.
    """
    A, entry, left = transmat.copy(), startprob.copy(), np.ones(len(startprob), dtype=bool)
    for k in np.flatnonzero(~recurrent):
        left[k] = False
        onward = np.where(left, A[k], 0.0)
        total = onward.max()
        onward = onward / total if total > 0 else recurrent.astype(np.float64)  # an exit too small for a double
        onward /= onward.sum()
        entry += entry[k] * onward
        A += np.outer(A[:, k], onward)
        entry[k] = 0.0
    return entry


def _irreducible(transmat: FloatArray) -> FloatArray:
    """Return the stationary distribution of an irreducible chain.

    By the elimination of Grassmann, Taksar and Heyman (1985), which never subtracts. One state may be visited more
    often than another by a factor beyond double precision, so occupancies are kept at 1 or below, by powers of two.
    """
    A, leaving = transmat.copy(), np.ones(len(transmat))
    for k in range(len(A) - 1, 0, -1):
        rate = max(A[k, :k].sum(), _SMALLEST)
        if A[:k, k].max() < _LARGEST * rate:
            A[:k, k] /= rate
            A[:k, :k] += np.outer(A[:k, k], A[k, :k])
        else:  # the quotient is beyond double precision
            A[:k, :k] += np.outer(A[:k, k], A[k, :k] / rate)
            leaving[k] = rate
    occupancy = np.ones(len(A))
    for k in range(1, len(A)):
        (coming, power), (going, other) = np.frexp(occupancy[:k] @ A[:k, k]), np.frexp(leaving[k])
        occupancy[:k] = np.ldexp(occupancy[:k], min(0, other - power))
        occupancy[k] = np.ldexp(coming / going, min(0, power - other))
    return np.asarray(occupancy / occupancy.sum())


def time_shares(startprob: FloatArray, transmat: FloatArray, length: int) -> FloatArray:
    """Return the share of time that each of K chains spends in its states in sequences of a given length, (K, S).

    Not the long run: short trials may never get there.

    Examples
    --------
    >>> start, trans = np.array([[1.0, 0.0]]), np.array([[[0.0, 1.0], [0.0, 1.0]]])  # the second state keeps it
    >>> time_shares(start, trans, length=4)
    array([[0.25, 0.75]])
    """
    here, total = startprob, np.zeros_like(startprob)
    for _ in range(length):
        total, here = total + here, np.einsum("ks,kst->kt", here, transmat)
    return np.asarray(total / length)


def long_run_occupancies(models: Models) -> FloatArray:
    """Return the long-run share of time in each state of every HMM, (K, S); zero in padding."""
    occupancy = np.zeros_like(models.startprob)
    for k, S in enumerate(models.n_states):
        occupancy[k, :S] = long_run_occupancy(models.startprob[k, :S], models.transmat[k, :S, :S])
    return occupancy
