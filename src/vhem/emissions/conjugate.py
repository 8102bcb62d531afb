"""What is known about the parameters of components: conjugate distributions, as priors and as posteriors.

E log f(y; θ) under a conjugate distribution of θ is the log density of another member of the family, plus a constant:
that is why variational Bayes runs on the same kernels as maximum likelihood. A block of these has the leading axes
(K, S), one component per state; a prior has (K, 1) if it is the same for all states of an HMM.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import NamedTuple, Self

import numpy as np

from vhem._support.arrays import FloatArray
from vhem.emissions.block import Block
from vhem.emissions.components import Components, Sums


class Expected(NamedTuple):
    """E log f(y; θ) in a form that kernels can compute."""

    components: Components  #: (K, S)
    log_loss: FloatArray  #: (K, S) never positive; to be added to the log density of `components`


class Updated(NamedTuple):
    """A posterior, and whether the sums that it was made of have lost digits."""

    posterior: Conjugate
    far: bool


class Conjugate(Block):
    """Distributions of the parameters of one family's components."""

    @abstractmethod
    def padding(self) -> Self:
        """Return one distribution, without leading axes, that is harmless to compute with."""

    @abstractmethod
    def expected(self) -> Expected:
        """Return exp E log f."""

    def anchors(self) -> Components:
        """Return the components of `expected`, about which kernels make sums."""
        return self.expected().components

    @abstractmethod
    def updated(self, sums: Sums, anchors: Components, extra: float = 0.0) -> Updated:
        """Return the posterior of this prior after the sums of an E-step; `extra` is EMHMM's own degree of freedom."""

    @abstractmethod
    def divergence(self, prior: Self) -> FloatArray:
        """Return KL[self ‖ prior], (K, S)."""

    @abstractmethod
    def point(self) -> Components:
        """Return the components at the posterior means of their parameters."""

    @abstractmethod
    def predictive(self) -> Components:
        """Return components as wide as the predictive distribution of the next frame."""

    @abstractmethod
    def drawn(self, rng: np.random.Generator) -> Components:
        """Return components with parameters drawn at random."""

    @abstractmethod
    def deviations(self) -> dict[str, FloatArray]:
        """Return posterior standard deviations, by the name of the components' arrays."""
