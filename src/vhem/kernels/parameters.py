"""The arrays of a set of HMMs, as the kernels take them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


class Parameters(NamedTuple):
    """K hidden Markov models with up to S states, M Gaussians a state, in d dimensions.

    Models with fewer than S states are padded with zeros; `n_states` has the true numbers. All arrays are
    C-contiguous float64.
    """

    startprob: FloatArray  #: (K, S)
    transmat: FloatArray  #: (K, S, S)
    mix_weights: FloatArray  #: (K, S, M)
    means: FloatArray  #: (K, S, M, d)
    covars: FloatArray  #: (K, S, M, d) diagonal, or (K, S, M, d, d) full
    n_states: IntArray  #: (K,)

    @property
    def is_diagonal(self) -> bool:
        """Whether the covariances are stored as variances."""
        return self.covars.ndim == 4

    def take(self, index: npt.NDArray[np.intp] | slice) -> Parameters:
        """Return the models at `index`."""
        return Parameters._make(array[index] for array in self)
