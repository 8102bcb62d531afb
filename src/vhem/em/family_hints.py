"""Hints, where a column is modelled by Gaussians and looks as if another family were meant."""

from __future__ import annotations

import re

import numpy as np

from vhem._support.arrays import FloatArray
from vhem._support.errors import InputWarning, warn
from vhem.sequences import Sequences

_FRAMES = 20_000  # that are looked at
_FEW = 20  # with fewer values, nothing is surprising
_FEW_KINDS = 3  # of integers: levels, rather than counts
_MOST_COUNTS = 100  # larger integers are rounded measurements, as often as counts, unless many are zero
_MANY_ZEROS = 0.05
_MOSTLY_ZERO = 0.2
_WRAPPED = 300.0  # degrees between two frames that follow each other: nothing turns so far, but angles begin again
_ANGLE = re.compile(r"(?<![a-z])(angle|turn|turning|heading|bearing|azimuth|degrees?|deg)s?(?![a-z])")


def hint(sequences: Sequences, columns: list[int]) -> None:
    """Warn, in one line per column, if values of Gaussian columns look like counts, angles, or durations with zeros."""
    for j in columns:
        family = _likelier(sequences, j)
        if family is not None:
            words, name = family
            warn(
                InputWarning(
                    "column {column!r} looks like {words}, and is modelled by Gaussians",
                    "if that is what they are, give {emissions:{name}}, or name a family for each column",
                    column=sequences.channels[j], words=words, name=name,
                )
            )  # fmt: skip


def _likelier(sequences: Sequences, j: int) -> tuple[str, str] | None:
    """Return what a column looks like and the family for that, or None."""
    x = sequences.X[:_FRAMES, j]
    seen = x[~np.isnan(x)]
    if len(seen) < _FEW or seen.min() == seen.max():
        return None
    if _are_angles(seen, x, sequences.channels[j].lower()):
        return "angles in degrees", "'vonmises:degrees'"
    if seen.min() != 0 or (seen == 0).mean() < _MANY_ZEROS:
        return None
    if (np.floor(seen) == seen).all():
        return _of_integers(seen)
    return ("amounts with exact zeros", "'zero-gamma'") if seen.mean() > np.median(seen) else None


def _of_integers(seen: FloatArray) -> tuple[str, str] | None:
    """Return the same for integers from 0 on, of which some are 0."""
    if seen.max() == 1:
        return "yes and no (1 and 0)", "'bernoulli'"
    if len(np.unique(seen)) <= _FEW_KINDS:
        return None
    if seen.max() <= _MOST_COUNTS:
        return "counts", "'poisson'"
    return ("counts", "'negativebinomial'") if (seen == 0).mean() > _MOSTLY_ZERO else None


def _are_angles(seen: FloatArray, x: FloatArray, name: str) -> bool:
    """Whether values span nearly a full turn in degrees, and their name says so or they begin again after it."""
    low, high = seen.min(), seen.max()
    if high - low < _WRAPPED or low < -180 or high > (360 if low >= 0 else 180):
        return False
    return _ANGLE.search(name) is not None or bool((np.abs(np.diff(x)) > _WRAPPED).mean() > 0.005)
