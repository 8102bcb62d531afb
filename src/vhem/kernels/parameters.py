"""The arrays of a set of HMMs, as the kernels take them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from vhem._support.arrays import FloatArray, IntArray


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


class Statistics(NamedTuple):
    """What one E-step of VHEM leaves for the M-step: sums over base models i, for every reduced model j.

    With w = z_ij N_i and u = w ν̂(ρ,β) c_βm η(ℓ|m;β,ρ), in the letters of the equations. The moments are taken about
    anchors a, normally the present means, so that no digits are lost on data far from the origin.
    """

    bound: float  #: 𝒥
    mass: FloatArray  #: (K_r,) Σ z_ij, or Σ N_i z_ij in the second form of the weights
    start: FloatArray  #: (K_r, S) Σ w ν̂₁(σ)
    trans: FloatArray  #: (K_r, S, S) Σ w ξ̂(ρ,σ)
    occupancy: FloatArray  #: (K_r, S, M) Σ u
    first: FloatArray  #: (K_r, S, M, d) Σ u (μ_βm - a)
    second: FloatArray  #: (K_r, S, M, d) or (K_r, S, M, d, d) Σ u [Σ_βm + (μ_βm - a)(μ_βm - a)ᵀ]
    responsibilities: FloatArray | None  #: (K_b, K_r) z_ij, where asked for
    n_evaluated: int  #: pairs whose J was computed
    n_forward: int  #: pairs whose statistics were computed

    @staticmethod
    def zeros(reduced: Parameters) -> Statistics:
        """Return empty sums for these reduced models."""
        K, S, M, d = reduced.means.shape
        return Statistics(
            0.0,
            np.zeros(K),
            np.zeros((K, S)),
            np.zeros((K, S, S)),
            np.zeros((K, S, M)),
            np.zeros((K, S, M, d)),
            np.zeros_like(reduced.covars),
            None,
            0,
            0,
        )

    @staticmethod
    def total(parts: Iterable[Statistics]) -> Statistics:
        """Return the sums over several sets of base models, added up in the order given."""
        first, *rest = parts
        if not rest:
            return first
        every = [first, *rest]
        rows = [part.responsibilities for part in every if part.responsibilities is not None]
        return Statistics(
            sum(part.bound for part in every),
            _sum(part.mass for part in every),
            _sum(part.start for part in every),
            _sum(part.trans for part in every),
            _sum(part.occupancy for part in every),
            _sum(part.first for part in every),
            _sum(part.second for part in every),
            np.concatenate(rows) if rows else None,
            sum(part.n_evaluated for part in every),
            sum(part.n_forward for part in every),
        )


def _sum(arrays: Iterable[FloatArray]) -> FloatArray:
    return reduce(np.add, arrays)


class Expectations(NamedTuple):
    """What one E-step of Baum-Welch leaves for the M-step: weighted sums over sequences, for every HMM.

    γ_t(s) and ξ_t(r,s) are the posterior probabilities of states and of transitions, u = γ_t(s) η_t(m|s) that of
    component m. Missing values enter with their conditional mean and covariance. The moments are taken about anchors a.
    """

    log_likelihoods: FloatArray  #: (n_pairs,) log p(y) of every pair, without its weight
    start: FloatArray  #: (K, S) Σ w γ_1(s)
    trans: FloatArray  #: (K, S, S) Σ w ξ_t(r,s)
    occupancy: FloatArray  #: (K, S, M) Σ w u
    first: FloatArray  #: (K, S, M, d) Σ w u (y - a)
    second: FloatArray  #: (K, S, M, d) or (K, S, M, d, d) Σ w u (y - a)(y - a)ᵀ
