"""Checks on the parameters of HMMs, over all of them at once; messages name the faulty one and the cure."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from vhem._support.arrays import BoolArray, FloatArray, IntArray, floats, row_sums
from vhem._support.errors import InputError
from vhem._support.places import Names, check_finite
from vhem.emissions.components import Components
from vhem.kernels.models import Models

SUM_TOLERANCE = 1e-8  # how far from one the sum of probabilities may be
ROUNDING = 1e-14  # sums this close to one are left alone, so that checking twice changes nothing


def checked_models(
    startprob: npt.ArrayLike,
    transmat: npt.ArrayLike,
    components: Components,
    mix_weights: npt.ArrayLike | None,
    n_states: npt.ArrayLike | None,
    names: Names,
) -> Models:
    """Return a checked copy of stacked arrays, padding filled so that kernels stay finite.

    Raises
    ------
    ValueError
        If shapes disagree, a value is not finite, probabilities are negative or do not sum to one within
        1e-8, or the emissions are not distributions.
    """
    K, S, M = components.lead
    mix = np.ones((K, S, 1)) if mix_weights is None and M == 1 else mix_weights
    if mix is None:
        raise InputError("there are {M} components per state, but {mix_weights} is missing", "give their weights", M=M)
    rows = [
        _shaped(array, name, shape, names)
        for name, array, shape in (
            ("startprob", startprob, (K, S)),
            ("transmat", transmat, (K, S, S)),
            ("mix_weights", mix, (K, S, M)),
        )
    ]
    sizes = _checked_sizes(n_states, K, S)
    used = np.arange(S) < sizes[:, None]  # (K, S): a state, not padding
    start = _probabilities(rows[0][:, None], used[:, :1], used, "startprob", names)[:, 0]
    trans = _probabilities(rows[1], used, used, "transmat", names)
    rows[2][~used] = 0.0
    weights = _probabilities(rows[2], used, np.ones((K, M), dtype=bool), "mix_weights", names)
    return Models(start, trans, weights, components.checked(used, weights, names), sizes)


def _shaped(array: npt.ArrayLike, name: str, shape: tuple[int, ...], names: Names) -> FloatArray:
    found = floats(array, name)
    if found.shape != shape:
        raise InputError(
            "{name} has shape {shape}, but the emissions need {needed}",
            name=name, shape=names.shape(found.shape), needed=names.shape(shape),
        )  # fmt: skip
    check_finite(found, name, names)
    return found


def checked_weights(weights: npt.ArrayLike | None, n: int, thing: str = "HMM") -> FloatArray:
    """Return mixture weights that sum to one; uniform if None."""
    if weights is None:
        return np.full(n, 1.0 / n)
    array = floats(weights, "weights")
    if array.shape != (n,):
        problem = "{weights} has shape {shape} for {n} {thing}s"
        raise InputError(problem, "give one weight per {thing}", shape=array.shape, n=n, thing=thing)
    if not (array >= 0).all() or not np.isfinite(array).all():
        k = int(np.argmin(np.where(np.isfinite(array), array, -np.inf)))
        problem = "{weights} of {thing} {k} is {value}; weights must be finite and not negative"
        raise InputError(problem, thing=thing, k=k, value=array[k])
    total = array.sum()
    if abs(total - 1) > SUM_TOLERANCE:
        raise InputError("{weights} sum to {total:.12g} instead of 1", "divide them by their sum", total=total)
    return array if abs(total - 1) <= ROUNDING else array / total


def _checked_sizes(n_states: npt.ArrayLike | None, K: int, S: int) -> IntArray:
    if n_states is None:
        return np.full(K, S, dtype=np.int64)
    sizes = np.asarray(n_states)
    if sizes.shape != (K,) or not np.issubdtype(sizes.dtype, np.integer):
        raise InputError(
            "{name} must be {K} integers, one per HMM, got {given!r}", name="n_states", K=K, given=n_states
        )
    wrong = (sizes < 1) | (sizes > S)
    if wrong.any():
        k = int(np.argmax(wrong))
        raise InputError(
            "{name} of HMM {k} is {size}; the arrays have room for 1 to {S} states",
            name="n_states", k=k, size=sizes[k], S=S,
        )  # fmt: skip
    return sizes.astype(np.int64)


def _probabilities(rows: FloatArray, used: BoolArray, columns: BoolArray, name: str, names: Names) -> FloatArray:
    """Return rows (K, R, L) normalised; rows not `used` and entries outside `columns` must be zero."""
    allowed = used[:, :, None] & columns[:, None, :]
    wrong = rows < 0 if allowed.all() else np.where(allowed, rows < 0, rows != 0)
    if wrong.any():
        k, r, column = (int(i) for i in np.argwhere(wrong)[0])
        cure = "probabilities must not be negative" if allowed[k, r, column] else "padding beyond n_states must be 0"
        raise InputError(
            "{place}: {name} has {value} at {column}", "{cure}",
            place=_row(names, name, k, r), name=name, value=rows[k, r, column], column=column, cure=cure,
        )  # fmt: skip
    sums = row_sums(rows)
    off = np.where(used, np.abs(sums - 1), 0.0)
    if off.max() > SUM_TOLERANCE:
        k, r = (int(i) for i in np.unravel_index(np.argmax(off > SUM_TOLERANCE), off.shape))
        cure = _cure_of_sum(name, float(sums[k, r]))
        raise InputError(
            "{place}: {name} sums to {total:.12g} instead of 1", "{cure}",
            place=_row(names, name, k, r), name=name, total=sums[k, r], cure=cure,
        )  # fmt: skip
    return rows / np.where(off > ROUNDING, sums, 1.0)[..., None] if off.max() > ROUNDING else rows


def _cure_of_sum(name: str, total: float) -> str:
    if total == 0:
        return "a state that was never left may stay where it is (1 on the diagonal); declare padding with n_states"
    if abs(total - 1) < 1e-3:
        return "divide it by its sum"
    rows = "row r holds the probabilities of moving from state r to each state; " if name == "transmat" else ""
    return f"{rows}if it holds counts, divide it by its sum"


def _row(names: Names, argument: str, k: int, row: int) -> str:
    return names.place(k) if argument == "startprob" else names.place(k, row)
