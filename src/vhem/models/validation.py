"""Checks on the parameters of HMMs, over all of them at once; messages name the one at fault and the cure."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from vhem._support.arrays import FloatArray, IntArray
from vhem.kernels.parameters import Parameters

BoolArray = npt.NDArray[np.bool_]

SUM_TOLERANCE = 1e-8  # how far from one the sum of probabilities may be
ROUNDING = 1e-14  # sums this near to one are left as they are, so that checking twice changes nothing
SYMMETRY_TOLERANCE = 1e-8  # relative to the largest entry of the matrix


class Names(NamedTuple):
    """How messages speak of a model: by index and id, or without either where there is only one."""

    ids: list[Any] | None = None
    single: bool = False

    def place(self, k: int, state: int | None = None, component: int | None = None) -> str:
        """Return for example "HMM 3 (id 'a'), state 1, component 0"."""
        words = ["the HMM" if self.single else f"HMM {k}"]
        if not self.single and self.ids is not None and self.ids[k] != k:
            words[0] += f" (id {self.ids[k]!r})"
        words += [] if state is None else [f"state {state}"]
        words += [] if component is None else [f"component {component}"]
        return ", ".join(words)

    def shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return a shape as the user gave it."""
        return shape[1:] if self.single else shape


def checked_parameters(
    startprob: npt.ArrayLike,
    transmat: npt.ArrayLike,
    means: npt.ArrayLike,
    covars: npt.ArrayLike,
    mix_weights: npt.ArrayLike | None,
    n_states: npt.ArrayLike | None,
    names: Names,
) -> Parameters:
    """Return a checked copy of stacked arrays, padding filled so that kernels stay finite.

    Raises
    ------
    ValueError
        If shapes disagree, a value is not finite, probabilities are negative or do not sum to one within
        1e-8, or a covariance is not positive definite.
    """
    raw = _shaped(startprob, transmat, means, covars, mix_weights, names)
    sizes = _checked_sizes(n_states, *raw.startprob.shape)
    for name, array in zip(Parameters._fields[:5], raw[:5], strict=True):
        _check_finite(array, name, names)
    used = np.arange(raw.startprob.shape[1]) < sizes[:, None]  # (K, S): a state, not padding
    start = _probabilities(raw.startprob[:, None], used[:, :1], used, "startprob", names)[:, 0]
    trans = _probabilities(raw.transmat, used, used, "transmat", names)
    raw.mix_weights[~used] = 0.0
    every_component = np.ones((len(sizes), raw.mix_weights.shape[2]), dtype=bool)
    mix = _probabilities(raw.mix_weights, used, every_component, "mix_weights", names)
    filled = _fill_padding(Parameters(start, trans, mix, raw.means, raw.covars, sizes), used)
    check = _checked_variances if filled.is_diagonal else _checked_matrices
    return filled._replace(covars=check(filled.covars, names))


def checked_weights(weights: npt.ArrayLike | None, n: int, thing: str = "HMM") -> FloatArray:
    """Return mixture weights that sum to one; uniform if None."""
    if weights is None:
        return np.full(n, 1.0 / n)
    array = floats(weights, "weights")
    if array.shape != (n,):
        raise ValueError(f"weights has shape {array.shape} for {n} {thing}s; give one weight per {thing}.")
    if not (array >= 0).all() or not np.isfinite(array).all():
        k = int(np.argmin(np.where(np.isfinite(array), array, -np.inf)))
        raise ValueError(f"weights of {thing} {k} is {array[k]}; weights are finite and not negative.")
    total = array.sum()
    if abs(total - 1) > SUM_TOLERANCE:
        raise ValueError(f"weights sums to {total:.12g} instead of 1; divide it by its sum.")
    return array if abs(total - 1) <= ROUNDING else array / total


def as_full(parameters: Parameters) -> Parameters:
    """Return the same HMMs with full covariance matrices."""
    if not parameters.is_diagonal:
        return parameters
    d = parameters.means.shape[-1]
    return parameters._replace(covars=parameters.covars[..., None] * np.eye(d))


def floats(array: npt.ArrayLike, name: str) -> FloatArray:
    """Return a float64 copy of an argument."""
    try:
        return np.array(array, dtype=np.float64, order="C")
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} cannot be read as an array of numbers: {error}.") from None


def _shaped(
    startprob: npt.ArrayLike,
    transmat: npt.ArrayLike,
    means: npt.ArrayLike,
    covars: npt.ArrayLike,
    mix_weights: npt.ArrayLike | None,
    names: Names,
) -> Parameters:
    """Return the arrays with a component axis, all of the shapes that `means` asks for."""
    mu, sigma = floats(means, "means"), floats(covars, "covars")
    _check_dimensions_of_means(mu, names)
    _check_shape("covars", sigma, [mu.shape, (*mu.shape, mu.shape[-1])], names)
    if mu.ndim == 3:  # one Gaussian a state, without the component axis
        mu, sigma = mu[:, :, None], sigma[:, :, None]
    K, S, M, _ = mu.shape
    mix = np.ones((K, S, 1)) if mix_weights is None and M == 1 else mix_weights
    if mix is None:
        raise ValueError(f"means has {M} components a state, but mix_weights is missing; give their weights.")
    start, trans = floats(startprob, "startprob"), floats(transmat, "transmat")
    weights = floats(mix, "mix_weights")
    _check_shape("startprob", start, [(K, S)], names)
    _check_shape("transmat", trans, [(K, S, S)], names)
    _check_shape("mix_weights", weights, [(K, S, M)], names)
    return Parameters(start, trans, weights, mu, sigma, np.zeros(K, dtype=np.int64))


def _check_dimensions_of_means(means: FloatArray, names: Names) -> None:
    if means.ndim not in (3, 4) or 0 in means.shape:
        expected = "(S, d) or (S, M, d)" if names.single else "(K, S, d) or (K, S, M, d)"
        raise ValueError(f"means has shape {names.shape(means.shape)}; it must be {expected}, none of them 0.")


def _check_shape(name: str, array: FloatArray, allowed: list[tuple[int, ...]], names: Names) -> None:
    if array.shape not in allowed:
        expected = " or ".join(str(names.shape(shape)) for shape in allowed)
        raise ValueError(f"{name} has shape {names.shape(array.shape)}, but means asks for {expected}.")


def _checked_sizes(n_states: npt.ArrayLike | None, K: int, S: int) -> IntArray:
    if n_states is None:
        return np.full(K, S, dtype=np.int64)
    sizes = np.asarray(n_states)
    if sizes.shape != (K,) or not np.issubdtype(sizes.dtype, np.integer):
        raise ValueError(f"n_states must be {K} integers, one per HMM, got {n_states!r}.")
    wrong = (sizes < 1) | (sizes > S)
    if wrong.any():
        k = int(np.argmax(wrong))
        raise ValueError(f"n_states of HMM {k} is {sizes[k]}; the arrays have room for 1 to {S} states.")
    return sizes.astype(np.int64)


def _check_finite(array: FloatArray, name: str, names: Names) -> None:
    bad = ~np.isfinite(array)
    if bad.any():
        index = [int(i) for i in np.argwhere(bad)[0]]
        raise ValueError(
            f"{names.place(*index[:2])}: {name} has {array[tuple(index)]}. Parameters must be finite; was "
            "the model fitted to constant or missing data?"
        )


def _probabilities(rows: FloatArray, used: BoolArray, columns: BoolArray, name: str, names: Names) -> FloatArray:
    """Return rows (K, R, L) normalised; rows not `used` and entries outside `columns` must be zero."""
    allowed = used[:, :, None] & columns[:, None, :]
    wrong = rows < 0 if allowed.all() else np.where(allowed, rows < 0, rows != 0)
    if wrong.any():
        k, r, column = (int(i) for i in np.argwhere(wrong)[0])
        cure = "probabilities are not negative" if allowed[k, r, column] else "padding beyond n_states must be 0"
        raise ValueError(f"{_row(names, name, k, r)}: {name} has {rows[k, r, column]} at {column}; {cure}.")
    sums = rows @ np.ones(rows.shape[-1])  # several times faster than sum over a short axis
    off = np.where(used, np.abs(sums - 1), 0.0)
    if off.max() > SUM_TOLERANCE:
        k, r = (int(i) for i in np.unravel_index(np.argmax(off > SUM_TOLERANCE), off.shape))
        cure = _cure_of_sum(name, float(sums[k, r]))
        raise ValueError(f"{_row(names, name, k, r)}: {name} sums to {sums[k, r]:.12g} instead of 1; {cure}.")
    return rows / np.where(off > ROUNDING, sums, 1.0)[..., None] if off.max() > ROUNDING else rows


def _cure_of_sum(name: str, total: float) -> str:
    if total == 0:
        return "a state that was never left may stay where it is (1 on the diagonal); padding is declared by n_states"
    if abs(total - 1) < 1e-3:
        return "divide it by its sum"
    rows = "row r holds the probabilities to go from state r to each state; " if name == "transmat" else ""
    return f"{rows}if it holds counts, divide it by its sum"


def _row(names: Names, argument: str, k: int, row: int) -> str:
    return names.place(k) if argument == "startprob" else names.place(k, row)


def _fill_padding(parameters: Parameters, used: BoolArray) -> Parameters:
    """Return means and covars whose padding is harmless: unit variances, and repeats of a real component."""
    means, covars, weights = parameters.means, parameters.covars, parameters.mix_weights
    d = means.shape[-1]
    means[~used] = 0.0
    covars[~used] = 1.0 if parameters.is_diagonal else np.eye(d)
    blank = (weights == 0) & ~covars.reshape(*weights.shape, -1).any(axis=-1)
    k, s, m = np.nonzero(blank)
    heaviest = weights[k, s].argmax(axis=-1)
    means[k, s, m] = means[k, s, heaviest]
    covars[k, s, m] = covars[k, s, heaviest]
    return parameters


def _checked_variances(covars: FloatArray, names: Names) -> FloatArray:
    if covars.min() < np.finfo(np.float64).tiny:
        k, s, m, j = (int(i) for i in np.unravel_index(np.argmin(covars), covars.shape))
        raise ValueError(
            f"{names.place(k, s, m)}: the variance of dimension {j} is {covars[k, s, m, j]}. Variances must "
            "be positive (at least 2.2e-308); give variances, not logarithms, and a floor where data never vary."
        )
    return covars


def _checked_matrices(covars: FloatArray, names: Names) -> FloatArray:
    transposed = np.swapaxes(covars, -1, -2)
    skew = np.abs(covars - transposed).max(axis=(-1, -2))
    if (skew > SYMMETRY_TOLERANCE * np.abs(covars).max(axis=(-1, -2))).any():
        k, s, m = (int(i) for i in np.unravel_index(np.argmax(skew), skew.shape))
        raise ValueError(
            f"{names.place(k, s, m)}: the covariance matrix is not symmetric (entries differ by "
            f"{skew[k, s, m]:.3g}); give (Σ + Σᵀ)/2."
        )
    symmetric = 0.5 * (covars + transposed)
    try:
        np.linalg.cholesky(symmetric)
    except np.linalg.LinAlgError:
        raise ValueError(_least_definite(symmetric, names)) from None
    return symmetric


def _least_definite(covars: FloatArray, names: Names) -> str:
    smallest = np.linalg.eigvalsh(covars)[..., 0]
    k, s, m = (int(i) for i in np.unravel_index(np.argmin(smallest), smallest.shape))
    return (
        f"{names.place(k, s, m)}: the covariance matrix is not positive definite (smallest eigenvalue "
        f"{smallest[k, s, m]:.3g}). Add a small constant to its diagonal, or drop dependent dimensions."
    )
