"""The arrays of Gaussian HMMs side by side, as the compiled module takes and fills them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from vhem._support.arrays import FloatArray, IntArray
from vhem.emissions.gaussian import Gaussian
from vhem.kernels.models import Models, ModelSums


class Parameters(NamedTuple):
    """K hidden Markov models with up to S states, M Gaussians per state, in d dimensions."""

    startprob: FloatArray  #: (K, S)
    transmat: FloatArray  #: (K, S, S)
    mix_weights: FloatArray  #: (K, S, M)
    means: FloatArray  #: (K, S, M, d)
    covars: FloatArray  #: (K, S, M, d) diagonal, or (K, S, M, d, d) full
    n_states: IntArray  #: (K,)

    @staticmethod
    def of(models: Models) -> Parameters:
        """Return the arrays of Gaussian models."""
        gaussian = models.components
        assert isinstance(gaussian, Gaussian)
        rows = (models.startprob, models.transmat, models.mix_weights)
        return Parameters(*rows, gaussian.means, gaussian.covars, models.n_states)

    @property
    def is_diagonal(self) -> bool:
        """Whether the covariances are stored as variances."""
        return self.covars.ndim == 4

    def take(self, index: Any) -> Parameters:
        """Return the models at `index`."""
        return Parameters._make(array[index] for array in self)


class Statistics(NamedTuple):
    """What one E-step of VHEM fills."""

    bound: float
    mass: FloatArray
    start: FloatArray
    trans: FloatArray
    occupancy: FloatArray
    first: FloatArray
    second: FloatArray
    responsibilities: FloatArray | None
    n_evaluated: int
    n_forward: int

    @staticmethod
    def zeros(reduced: Parameters) -> Statistics:
        """Return empty sums for these reduced models."""
        K, S, M, d = reduced.means.shape
        shapes = ((K,), (K, S), (K, S, S), (K, S, M), (K, S, M, d), reduced.covars.shape)
        mass, start, trans, occupancy, first, second = (np.zeros(shape) for shape in shapes)
        return Statistics(0.0, mass, start, trans, occupancy, first, second, None, 0, 0)

    @property
    def sums(self) -> ModelSums:
        """The sums of the M-step."""
        return _sums(self)


class Expectations(NamedTuple):
    """What one E-step of Baum-Welch fills."""

    log_likelihoods: FloatArray
    start: FloatArray
    trans: FloatArray
    occupancy: FloatArray
    first: FloatArray
    second: FloatArray

    @property
    def sums(self) -> ModelSums:
        """The sums of the M-step."""
        return _sums(self)


def _sums(e: Statistics | Expectations) -> ModelSums:
    return ModelSums(e.start, e.trans, {"count": e.occupancy, "first": e.first, "second": e.second})
