"""Fragments of songs: stretches of one length, cut at regular steps."""

from __future__ import annotations

import numpy as np

from vhem._support.arrays import IntArray
from vhem.sequences import Sequences


def cut_fragments(songs: Sequences, length: int, hop: int) -> tuple[Sequences, IntArray]:
    """Return the fragments of all songs, and the number of the song that each is from.

    A song shorter than `length` is one fragment. Frames after the last complete fragment are dropped.

    Examples
    --------
    >>> fragments, song = cut_fragments(Sequences([[0.0, 1.0, 2.0, 3.0, 4.0], [9.0]]), length=3, hop=2)
    >>> [f.ravel().tolist() for f in fragments], song
    ([[0.0, 1.0, 2.0], [2.0, 3.0, 4.0], [9.0]], array([0, 0, 1]))
    """
    counts = np.maximum((songs.lengths - length) // hop, 0) + 1
    song = np.repeat(np.arange(len(songs)), counts)
    place = np.arange(len(song)) - np.repeat(np.cumsum(counts) - counts, counts)
    begins = songs.offsets[song] + hop * place
    lengths = np.minimum(songs.lengths[song], length)
    rows = np.repeat(begins - (np.cumsum(lengths) - lengths), lengths) + np.arange(lengths.sum())
    return Sequences.from_concatenated(songs.X[rows], lengths), song
