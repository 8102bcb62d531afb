"""Checks of estimators' parameters: every message names the parameter, its value and the cure."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np

from vhem._support.arrays import FloatArray


def check_integer(name: str, value: Any, minimum: int) -> int:
    """Return `value` as an int of at least `minimum`."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < minimum:
        raise ValueError(f"{name} must be an integer of at least {minimum}, got {value!r}.")
    return int(value)


def check_enough(name: str, wanted: int, found: int, things: str) -> None:
    """Refuse more clusters than there are things to put into them, as scikit-learn does."""
    if wanted > found:
        raise ValueError(f"{name} is {wanted}, but there are only {found} {things}; ask for at most {found}.")


def check_real(name: str, value: Any, minimum: float, open_interval: bool = False) -> float:
    """Return `value` as a finite float of at least, or more than, `minimum`."""
    wrong = isinstance(value, bool) or not isinstance(value, numbers.Real) or not np.isfinite(float(value))
    if wrong or value < minimum or (open_interval and value == minimum):
        relation = "greater than" if open_interval else "of at least"
        raise ValueError(f"{name} must be a finite number {relation} {minimum:g}, got {value!r}.")
    return float(value)


def check_choice(name: str, value: Any, choices: Sequence[str]) -> str:
    """Return `value`, which must be one of `choices`."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}.")
    return value


def check_flag(name: str, value: Any) -> bool:
    """Return `value`, which must be True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{name} must be True or False, got {value!r}.")
    return bool(value)


def check_in_range(name: str, value: FloatArray | float) -> None:
    """Refuse what has left the range of double precision."""
    if not np.all(np.isfinite(value)):
        raise ValueError(
            f"{name} is not finite: means, covariances or n_virtual are too extreme for double precision. "
            "Rescale the observations to unit variance and learn the HMMs again."
        )
