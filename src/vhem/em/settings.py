"""Settings that several algorithms share, one class per concept."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vhem._support.arrays import BoolArray
from vhem.em.grouped import Scale
from vhem.emissions.gaussian import GaussianPrior
from vhem.kernels.maximise import Prior

LEAST_FLOOR = 1e-8  # of the data's variance, whatever reg_covar is: below it, sums over frames are rounding errors


@dataclass(frozen=True, kw_only=True)
class Shape:
    """The shape of HMMs."""

    n_states: int
    n_mix: int = 1
    covariance_type: str = "diag"
    topology: str = "ergodic"


@dataclass(frozen=True, kw_only=True)
class Priors:
    """Pseudo-counts, and the floor of the variances, relative to the data's."""

    startprob: float = 0.0
    transmat: float = 0.0
    covars: float = 0.0
    reg_covar: float = 0.0

    @property
    def are_none(self) -> bool:
        """Whether nothing but the likelihood is maximised."""
        return not (self.startprob or self.transmat or self.covars or self.reg_covar)

    def spread(self, start: BoolArray, trans: BoolArray, scale: Scale) -> Prior:
        """Spread the pseudo-counts over what is possible; the masks of one HMM apply to all."""
        K, S = len(scale.mean), start.shape[-1]
        floor = max(self.reg_covar, LEAST_FLOOR) * scale.variance
        return Prior(
            np.broadcast_to(self.startprob * start / np.maximum(start.sum(-1, keepdims=True), 1), (K, S)),
            np.broadcast_to(self.transmat * trans / np.maximum(trans.sum(-1, keepdims=True), 1), (K, S, S)),
            GaussianPrior(count=self.covars, mean=scale.mean, scale=scale.variance, floor=floor),
        )
