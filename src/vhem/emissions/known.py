"""Emissions that are known exactly, such as areas of interest: learning leaves them as they are."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from vhem._support.arrays import FloatArray
from vhem.emissions.components import Components, Sums
from vhem.emissions.conjugate import Conjugate, Expected, Updated
from vhem.emissions.gaussian import Gaussian


class Known(Conjugate):
    """Gaussians without any uncertainty."""

    family: ClassVar[str] = "known gaussian"
    fields: ClassVar[tuple[str, ...]] = ("means", "covars")
    __slots__ = ("covars", "means")

    def __init__(self, means: FloatArray, covars: FloatArray) -> None:
        self.means, self.covars = means, covars

    def padding(self) -> Known:
        """Return a standard Gaussian."""
        standard = self.point().padding()
        return Known(standard.means, standard.covars)

    def expected(self) -> Expected:
        """Return the Gaussians themselves."""
        return Expected(self.point(), np.zeros(self.lead))

    def updated(self, sums: Sums, anchors: Components, extra: float = 0.0) -> Updated:
        """Return the same, whatever the data."""
        del sums, anchors, extra
        return Updated(self, far=False)

    def divergence(self, prior: Known) -> FloatArray:
        """Return zeros."""
        del prior
        return np.zeros(self.lead)

    def point(self) -> Gaussian:
        """Return the Gaussians."""
        return Gaussian(self.means, self.covars)

    predictive = point

    def drawn(self, rng: np.random.Generator) -> Gaussian:
        """Return the Gaussians."""
        del rng
        return self.point()

    def deviations(self) -> dict[str, FloatArray]:
        """Return zeros."""
        return {"means": np.zeros(self.means.shape), "covars": np.zeros(self.means.shape)}
