"""Distributions of the parameters of many HMMs, as priors and posteriors, and the HMMs exp E log made of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vhem._support.arrays import FloatArray, IntArray
from vhem.emissions import dirichlet
from vhem.emissions.components import Components
from vhem.emissions.conjugate import Conjugate
from vhem.kernels.models import Models


class Beliefs(NamedTuple):
    """Distributions of the parameters of F fits with C chains of S states: a prior or a posterior."""

    start: FloatArray  #: (C, S) α
    trans: FloatArray  #: (C, S, S) ε
    emissions: Conjugate  #: (F, S); a prior: (F, 1)

    def rows(self) -> FloatArray:
        """Return α and ε as rows of one array, (C, 1 + S, S)."""
        return np.concatenate([self.start[:, None], self.trans], axis=1)

    def copy(self) -> Beliefs:
        """Return a deep copy."""
        return Beliefs(self.start.copy(), self.trans.copy(), self.emissions.map(np.array))

    def arrays(self) -> dict[str, FloatArray]:
        """Return all arrays by name."""
        return {"start": self.start, "trans": self.trans, **self.emissions.arrays()}

    def take(self, chains: IntArray, fits: IntArray) -> Beliefs:
        """Return some of the fits."""
        return Beliefs(self.start[chains], self.trans[chains], self.emissions.take(fits))


def expected_models(start: FloatArray, trans: FloatArray, components: Components, log_loss: FloatArray) -> Models:
    """Return HMMs whose densities are exp E log: rows of probabilities sum to less than one.

    Kernels ignore the weight of a single component, so a state's loss is put on the ways into it.
    """
    return models_of_logs(dirichlet.expected_logs(start), dirichlet.expected_logs(trans), components, log_loss)


def models_of_logs(
    start_logs: FloatArray, trans_logs: FloatArray, components: Components, log_loss: FloatArray
) -> Models:
    """Return the same, of expected logs of the probabilities."""
    K, S = start_logs.shape
    return Models(
        np.exp(start_logs + log_loss),
        np.exp(trans_logs + log_loss[:, None, :]),
        np.ones((K, S, 1)),
        components.reshaped(K, S, 1),
        np.full(K, S, dtype=np.int64),
    )
