"""Settings that several algorithms share, one class per concept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from vhem._support.arrays import BoolArray
from vhem.em.grouped import Scale
from vhem.kernels.maximise import Prior


@dataclass(frozen=True, kw_only=True)
class Shape:
    """The shape of HMMs."""

    n_states: int
    n_mix: int = 1
    covariance_type: str = "diag"
    topology: str = "ergodic"
    emissions: Any = "gaussian"  #: as users say it


@dataclass(frozen=True, kw_only=True)
class Priors:
    """Pseudo-counts, and the floor of the variances (or another family's limits), relative to the data's."""

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
        return Prior(
            np.broadcast_to(self.startprob * start / np.maximum(start.sum(-1, keepdims=True), 1), (K, S)),
            np.broadcast_to(self.transmat * trans / np.maximum(trans.sum(-1, keepdims=True), 1), (K, S, S)),
            scale.emissions.prior(scale.typical, self.covars, self.reg_covar),
        )
