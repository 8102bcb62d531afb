"""Linear dynamical systems as arrays, and what an E-step counts for them.

x_1 ~ N(μ, S), x_{t+1} = A x_t + v with v ~ N(0, Q), y_t = C x_t + ȳ + w with w ~ N(0, R), R diagonal.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vhem._support.arrays import FloatArray


class Systems(NamedTuple):
    """K linear dynamical systems with n-dimensional states and d-dimensional observations."""

    A: FloatArray  #: (K, n, n)
    C: FloatArray  #: (K, d, n)
    Q: FloatArray  #: (K, n, n)
    R: FloatArray  #: (K, d) variances
    mean: FloatArray  #: (K, n) μ
    covar: FloatArray  #: (K, n, n) S
    offset: FloatArray  #: (K, d) ȳ

    def take(self, index: np.ndarray | slice) -> Systems:
        """Return the systems at `index`."""
        return Systems._make(array[index] for array in self)


class Smoothed(NamedTuple):
    """The posterior moments of the states of one sequence."""

    means: FloatArray  #: (T, n) E[x_t | y]
    covars: FloatArray  #: (T, n, n) Cov(x_t | y)
    lag_covars: FloatArray  #: (T - 1, n, n) Cov(x_{t+1}, x_t | y)


class Sums(NamedTuple):
    """What an E-step leaves for the M-step: weighted sums over sequences, of every system. y is taken about ȳ.

    Missing values enter by their expectations.
    """

    mass: FloatArray  #: (K,) Σ z
    weight: FloatArray  #: (K,) Σ w
    frames: FloatArray  #: (K,) Σ w T
    steps: FloatArray  #: (K,) Σ w (T - 1)
    first: FloatArray  #: (K, n) Σ w E[x_1]
    first_second: FloatArray  #: (K, n, n) Σ w E[x_1 x_1ᵀ]
    x: FloatArray  #: (K, n) Σ w Σ_t E[x_t]
    xx: FloatArray  #: (K, n, n) Σ w Σ_t E[x_t x_tᵀ]
    xx_before: FloatArray  #: (K, n, n) the same without the last frame
    lag: FloatArray  #: (K, n, n) Σ w Σ_{t<T} E[x_{t+1} x_tᵀ]
    y: FloatArray  #: (K, d) Σ w Σ_t (y_t - ȳ)
    yx: FloatArray  #: (K, d, n) Σ w Σ_t E[(y_t - ȳ) x_tᵀ]
    yy: FloatArray  #: (K, d) Σ w Σ_t (y_t - ȳ)², per dimension

    @staticmethod
    def zeros(systems: Systems) -> Sums:
        """Return empty sums."""
        K, d, n = systems.C.shape
        vector, matrix = np.zeros((K, n)), np.zeros((K, n, n))
        seen = np.zeros((K, d)), np.zeros((K, d, n)), np.zeros((K, d))
        parts = (np.zeros(K),) * 4 + (vector, matrix, vector, matrix, matrix, matrix, *seen)
        return Sums._make(part.copy() for part in parts)

    def plus(self, other: Sums) -> Sums:
        """Return the sums of both."""
        return Sums._make(a + b for a, b in zip(self, other, strict=True))


def transposed(matrices: FloatArray) -> FloatArray:
    """Return the transposes of a stack of matrices."""
    return np.swapaxes(matrices, -1, -2)


def symmetric(matrices: FloatArray) -> FloatArray:
    """Return the matrices without the skewness that rounding left."""
    return 0.5 * (matrices + transposed(matrices))
