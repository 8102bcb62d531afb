"""Checks of estimators' parameters: every message names the parameter, its value and the cure."""

from __future__ import annotations

import numbers
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from vhem._support.arrays import FloatArray
from vhem._support.errors import Count, InputError, ParameterError


def check_integer(name: str, value: Any, minimum: int) -> int:
    """Return `value` as an int of at least `minimum`."""
    if not _is_integer(value, minimum):
        raise ParameterError(name, value, "must be an integer of at least {minimum}", minimum=minimum)
    return int(value)


def check_integers(name: str, values: Iterable[Any], minimum: int) -> list[int]:
    """Return `values` as ints of at least `minimum`."""
    for value in values:
        if not _is_integer(value, minimum):
            raise ParameterError(name, value, "must hold integers of at least {minimum}", minimum=minimum)
    return [int(value) for value in values]


def _is_integer(value: Any, minimum: int) -> bool:
    return not isinstance(value, bool) and isinstance(value, numbers.Integral) and int(value) >= minimum


def check_enough(name: str, wanted: int, found: int, thing: str) -> None:
    """Refuse more clusters than there are items, as scikit-learn does."""
    if wanted > found:
        raise ParameterError(
            name,
            wanted,
            "asks for {value}, but there {found:is|are} only {things}",
            "ask for at most {found}",
            found=Count(found),
            things=format(Count(found), thing),
        )


def check_as_many(n_given: int, thing: str, name: str, n: int) -> None:
    """Refuse an `init` with more or fewer items than the parameter `name` says."""
    if n_given != n:
        raise ParameterError(
            name, n, "is {value}, but {init} has {things}: make them agree", things=format(Count(n_given), thing)
        )


def check_real(name: str, value: Any, minimum: float, open_interval: bool = False) -> float:
    """Return `value` as a finite float of at least, or more than, `minimum`."""
    wrong = isinstance(value, bool) or not isinstance(value, numbers.Real) or not np.isfinite(float(value))
    if wrong or value < minimum or (open_interval and value == minimum):
        relation = "greater than" if open_interval else "of at least"
        wanted = f"{relation} {minimum:g}"
        raise ParameterError(name, value, "must be a finite number {wanted}", wanted=wanted)
    return float(value)


def check_choice(name: str, value: Any, choices: Sequence[str]) -> str:
    """Return `value`, which must be one of `choices`."""
    if not isinstance(value, str) or value not in choices:
        raise ParameterError(name, value, "must be one of {choices}", choices=", ".join(map(repr, choices)))
    return value


def check_flag(name: str, value: Any) -> bool:
    """Return `value`, which must be True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise ParameterError(name, value, "must be True or False")
    return bool(value)


def check_in_range(what: str, value: FloatArray | float) -> None:
    """Refuse values outside the range of double precision."""
    if not np.all(np.isfinite(value)):
        raise InputError(
            "{what} is not finite: means, covariances or {n_virtual} are too extreme for double precision",
            "Rescale the observations to unit variance and learn the HMMs again",
            what=what,
        )
