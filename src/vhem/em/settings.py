"""Settings that several algorithms share, one class per concept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from vhem._support.arrays import BoolArray
from vhem.em.grouped import Scale
from vhem.emissions import Components, Gaussian
from vhem.kernels.maximise import Prior

_WEAK = 0.1  # pseudo-counts, as in `fit_hmms`


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

    @staticmethod
    def weak(emissions: Components) -> Priors:
        """Return what EM adds to clusters of sequences unless told otherwise.

        Gaussians overlap, so nothing is impossible under them. A category or transition that a cluster merely has not
        seen would be, and people who take part in no fit would score absurdly.
        """
        amount = 0.0 if isinstance(emissions, Gaussian) else _WEAK
        return Priors(startprob=amount, transmat=amount, covars=amount, reg_covar=1e-3)

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
