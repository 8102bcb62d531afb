"""Channels of the same sequences from several tables: matched by key, and made equally long."""

from __future__ import annotations

from typing import Any

import numpy as np

from vhem._support.arrays import FloatArray, IntArray
from vhem._support.errors import Count, InputError, InputWarning, warn
from vhem.sequences.identity import names_of

_LISTED = 5  # keys in a message


def matching(keys: list[Any], others: list[Any], channel: str) -> IntArray:
    """Return where each of the keys is among the others, or say which are missing."""
    place = {key: i for i, key in enumerate(others)}
    for have, lack, where in ((keys, place, "not in"), (others, set(keys), "only in")):
        absent = [key for key in have if key not in lack]
        if absent:
            shown = ", ".join(map(str, names_of(absent)[:_LISTED])) + (", …" if len(absent) > _LISTED else "")
            raise InputError(
                "{n:sequence} ({shown}) {n:is|are} {where} channel {channel!r}; tables are joined by id",
                "Give tables with the same ids",
                n=Count(len(absent)), shown=shown, where=where, channel=channel,
            )  # fmt: skip
    return np.array([place[key] for key in keys], dtype=np.int64)


def stretched(X: FloatArray, lengths: IntArray, to: IntArray) -> FloatArray:
    """Return the frames of sequences that end in missing values so that they have other lengths."""
    if (lengths == to).all():
        return X
    out = np.full((int(to.sum()), X.shape[1]), np.nan)
    begins = np.cumsum(to) - to
    own = np.cumsum(lengths) - lengths
    out[np.repeat(begins - own, lengths) + np.arange(lengths.sum())] = X
    return out


def warn_of_lengths(lengths: list[IntArray], channels: list[str]) -> None:
    """Warn if sequences are not equally long in all channels."""
    differ = np.any([own != lengths[0] for own in lengths], axis=0)
    if differ.any():
        warn(
            InputWarning(
                "{n:sequence} {n:is|are} not equally long in all of the channels {channels}; where a channel ends "
                "first, it is missing from then on",
                n=Count(int(differ.sum())), channels=", ".join(channels),
            )
        )  # fmt: skip
