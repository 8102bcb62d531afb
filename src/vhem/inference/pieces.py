"""Centres whose states hardly communicate: they join members that have nothing in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse.csgraph import connected_components

from vhem._support.arrays import FloatArray, IntArray
from vhem._support.checks import check_integer
from vhem._support.errors import FitWarning
from vhem.models import H3M, HMM
from vhem.models.checks import check_h3m
from vhem.models.stationary import time_shares

_RARE = 0.1  # moves between two states per sequence, on average: fewer, and they are not connected
_PART = 0.1  # share of time of a piece that counts
_LOYAL = 0.8  # mean share of time that members spend in their own piece, if they keep to one
_DRAWS = 20  # sequences per member


class Pieces(NamedTuple):
    """A centre that falls into pieces."""

    center: Any  #: its id
    number: int  #: its place, from 0
    pieces: list[list[int]]  #: states that communicate, from 0
    shares: list[float]  #: of time

    def warning(self) -> FitWarning:
        """Return what it means, as a warning."""
        parts = "; ".join(
            f"{', '.join(str(s + 1) for s in states)} ({100 * share:.0f} % of the time)"
            for states, share in zip(self.pieces, self.shares, strict=True)
        )
        return FitWarning(
            "cluster {cluster} joins unlike members: its centre falls into {n} pieces that hardly communicate, states "
            "{parts}, and sequences keep to one of them",
            "ask for more clusters",
            cluster=self.number + 1, n=len(self.pieces), parts=parts,
        )  # fmt: skip

    def sentence(self) -> str:
        """Return what it means."""
        return str(self.warning())


def disconnected_centers(
    centers: H3M | HMM, length: int = 10, hmms: H3M | None = None, labels: Sequence[int] | IntArray | None = None
) -> list[Pieces]:
    """Find centres whose states hardly communicate: sequences stay in one piece, so the centre joins unlike members.

    Parameters
    ----------
    centers : H3M or HMM
        The centres of a clustering.
    length : int
        Length of a typical sequence. Two states communicate if sequences of this length move between them at least once
        in ten.
    hmms, labels : H3M and array of shape (n,), optional
        The HMMs that were clustered, and their clusters. A centre is then reported only if different members occupy its
        pieces; where everybody has sequences of each kind, members are alike.

    Returns
    -------
    list of Pieces
        One entry for each centre with at least two pieces that take a tenth of the time or more.

    Examples
    --------
    >>> import vhem
    >>> from vhem.inference import disconnected_centers
    >>> two_in_one = vhem.HMM([0.5, 0.5], [[1.0, 0.0], [0.0, 1.0]], [[0.0], [9.0]], [[1.0], [1.0]])
    >>> disconnected_centers(two_in_one)[0].pieces
    [[0], [1]]
    """
    h3m, T = check_h3m("centers", centers), check_integer("length", length, 1)
    share = time_shares(h3m.startprob, h3m.transmat, T)
    found = []
    for k, S in enumerate(h3m.n_states):
        pieces = _pieces(share[k, :S], h3m.transmat[k, :S, :S], T)
        if len(pieces) > 1 and T > 1 and (hmms is None or labels is None or _joins(h3m[k], pieces, hmms, labels, k, T)):
            found.append(Pieces(h3m.ids[k], k, pieces, [float(share[k, states].sum()) for states in pieces]))
    return found


def _joins(
    center: HMM, pieces: list[list[int]], hmms: H3M, labels: Sequence[int] | IntArray, k: int, length: int
) -> bool:
    """Whether the members of cluster k, if it has any, keep to different pieces."""
    own = np.flatnonzero(np.asarray(labels) == k)
    return bool(len(own)) and _kept_apart(center, pieces, hmms[own], length)


def _kept_apart(center: HMM, pieces: list[list[int]], members: H3M, length: int) -> bool:
    """Whether members keep to different pieces, by where the centre's states put sequences drawn from their HMMs."""
    rng = np.random.default_rng(0)
    drawn = [sequence for hmm in members for sequence in hmm.sample(_DRAWS, length, rng)]
    states = np.concatenate(center.decode(drawn)[1]).reshape(len(members), -1)
    share = np.stack([np.isin(states, piece).mean(axis=1) for piece in pieces], axis=1)
    home = share.argmax(axis=1)
    return len(set(home)) > 1 and float(share.max(axis=1).mean()) >= _LOYAL


def _pieces(share: FloatArray, transmat: FloatArray, length: int) -> list[list[int]]:
    """Return the sets of states between which sequences move, of those that take some time."""
    moves = (length - 1) * share[:, None] * transmat
    n, piece = connected_components((moves + moves.T) >= _RARE, directed=False)
    sets = [[int(s) for s in np.flatnonzero(piece == k)] for k in range(n)]
    return sorted(
        (states for states in sets if share[states].sum() >= _PART), key=lambda s: -round(float(share[s].sum()), 9)
    )
