"""Types of arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from vhem._support.errors import InputTypeError

FloatArray = npt.NDArray[np.float64]
Float32Array = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.int64]
AnyIntArray = npt.NDArray[np.signedinteger[Any]]  #: of any size
BoolArray = npt.NDArray[np.bool_]


def row_sums(array: FloatArray) -> FloatArray:
    """Return the sums over the last axis, several times faster than `sum` if that is short."""
    n = array.shape[-1]
    return np.asarray((array.reshape(-1, n) @ np.ones(n)).reshape(array.shape[:-1]))


def log_sum_and_softmax(logits: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return log Σ exp of each row, (n,), and the share of each entry in it, (n, K), with one exponential per entry."""
    best = np.ascontiguousarray(logits.T).max(axis=0)  # over the rows themselves it takes several times as long
    best = np.where(best == -np.inf, 0.0, best)
    shares = np.exp(logits - best[:, None])
    total = row_sums(shares)
    with np.errstate(divide="ignore", invalid="ignore"):
        return best + np.log(total), shares / total[:, None]


def floats(array: npt.ArrayLike, name: str) -> FloatArray:
    """Return a float64 copy of an argument."""
    try:
        return np.array(array, dtype=np.float64, order="C")
    except (TypeError, ValueError) as error:
        raise InputTypeError("{name} cannot be read as an array of numbers: {error}", name=name, error=error) from None
