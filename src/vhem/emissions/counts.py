"""What families of counts share: checks, log Γ as a sum of exponentials, and sums over all counts.

For y = 0, 1, … and any r > 0,

    log Γ(y+r) = log Γ(r) + ∫ [ y e^-t - e^-rt (1 - e^-yt) / (1 - e^-t) ] dt/t ,

in which r and y meet only in products. In the variable log t the trapezoidal rule converges geometrically: with the
nodes below it is exact to 1e-12 for counts up to 1e9. So log Γ(y+r) is linear in statistics of y, its expectation needs
only E e^-yt, which is known for the families here, and no sum over counts has to be cut.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import gammaln, logsumexp

from vhem._support.arrays import FloatArray
from vhem._support.errors import InputError
from vhem.emissions.components import Fault

_STEP = 0.35  # of log t: the error is about exp(-π²/step)
NODES = np.exp(np.arange(-45.0, 11.0, _STEP))  #: the t
RATIOS = -np.expm1(-NODES)  #: 1 - e^-t
SLOPE = _STEP * float(np.exp(-NODES).sum())  #: what y is multiplied by
_BLOCK = 1 << 21  # numbers held at a time
_TAIL = 14.0  # standard deviations: beyond, terms are below 1e-20 of the largest


def weights(r: FloatArray) -> FloatArray:
    """Return w(r) with log Γ(y+r) = log Γ(r) + SLOPE y - ⟨w(r), (1 - e^-yt) / (1 - e^-t)⟩, (…, nodes)."""
    return np.asarray(_STEP * np.exp(-r[..., None] * NODES))


def log_factorials(X: FloatArray) -> FloatArray:
    """Return Σ log y! over the counts of every frame; missing ones count as nothing."""
    return np.asarray(np.nan_to_num(gammaln(X + 1)).sum(axis=-1))


def expected_log_factorial(rates: FloatArray) -> FloatArray:
    """Return E log y! of Poisson distributions, of any shape."""
    flat = rates.ravel()
    out, w = np.empty_like(flat), weights(np.ones(()))
    for i in range(0, len(flat), _BLOCK // len(NODES)):
        part = flat[i : i + _BLOCK // len(NODES)]
        out[i : i + len(part)] = SLOPE * part + np.expm1(-part[:, None] * RATIOS) / RATIOS @ w
    return out.reshape(rates.shape)


def log_sum_over_counts(
    log_terms: Callable[[FloatArray, int], FloatArray], peak: FloatArray, spread: FloatArray
) -> FloatArray:
    """Return log Σ_y exp(log_terms(y, i)) of series i, each with a peak and a width, up to where terms vanish."""
    first = np.floor(np.maximum(peak - _TAIL * spread, 0.0))
    last = np.ceil(peak + _TAIL * spread + 60.0)
    return np.array(
        [logsumexp(log_terms(np.arange(a, b), i)) for i, (a, b) in enumerate(zip(first, last, strict=True))]
    )


def fault_of_counts(X: FloatArray) -> Fault | None:
    """Return the first value that is not a count."""
    with np.errstate(invalid="ignore"):
        wrong = (X < 0) | (np.floor(X) != X)
    wrong &= ~np.isnan(X)
    if not wrong.any():
        return None
    row, column = (int(i) for i in np.argwhere(wrong)[0])
    problem = "which is negative" if X[row, column] < 0 else "which is not an integer"
    cures = ("correct it", "write NaN for a missing value", "choose another family")
    return Fault(row, column, InputError("{problem}: counts are 0, 1, 2, …", *cures, problem=problem))
