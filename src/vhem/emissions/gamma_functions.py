"""ln Γ and ψ of the same numbers, together: variational Bayes needs both in every iteration.

Γ(x) = Γ(x + 8) / (x (x + 1) … (x + 7)), and from 8 on asymptotic series are exact to the last digits.
"""

from __future__ import annotations

import numpy as np

from vhem._support.arrays import FloatArray

_SHIFT = 8.0
_HALF_LOG_2PI = 0.5 * float(np.log(2 * np.pi))
# Coefficients of 1/y², highest power first, by Bernoulli numbers: B_2k / (2k (2k-1)) and B_2k / 2k.
_LOG_GAMMA = (1 / 156, -691 / 360360, 1 / 1188, -1 / 1680, 1 / 1260, -1 / 360, 1 / 12)
_DIGAMMA = (1 / 12, -691 / 32760, 1 / 132, -1 / 240, 1 / 252, -1 / 120, 1 / 12)


def log_gamma_and_digamma(x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return ln Γ(x) and ψ(x) of positive numbers."""
    u = x * (x + 7)  # x (x+7), (x+1) (x+6), … are u, u + 6, u + 10 and u + 12
    first, second = u * (u + 6), (u + 10) * (u + 12)
    y = x + _SHIFT
    log_y, one = np.log(y), 1 / y
    square = one * one
    log_gamma = _series(_LOG_GAMMA, square) * one + (y - 0.5) * log_y - y + _HALF_LOG_2PI
    digamma = log_y - 0.5 * one - _series(_DIGAMMA, square) * square
    steps = (2 * x + 7) * ((2 * u + 6) / first + (2 * u + 22) / second)  # Σ 1 / (x + k)
    return log_gamma - np.log(first) - np.log(second), digamma - steps


def _series(coefficients: tuple[float, ...], z: FloatArray) -> FloatArray:
    total = coefficients[0] * z + coefficients[1]
    for c in coefficients[2:]:
        total *= z
        total += c
    return total
