"""Means and covariances of models whose states emit Gaussians."""

from __future__ import annotations

from typing import Literal

from vhem._support.arrays import FloatArray
from vhem.emissions import Components, Gaussian


class GaussianView:
    """Mixin of models with `emissions`: the attributes that only Gaussian ones have."""

    emissions: Components

    @property
    def n_dims(self) -> int:
        """The number of dimensions d."""
        return self.emissions.n_dims

    @property
    def means(self) -> FloatArray:
        """Means of the Gaussians."""
        return self._gaussian("means").means

    @property
    def covars(self) -> FloatArray:
        """Variances of the Gaussians, or covariance matrices."""
        return self._gaussian("covars").covars

    @property
    def covariance_type(self) -> Literal["diag", "full"]:
        """The form of the covariances."""
        return "diag" if self._gaussian("covariance_type").is_diagonal else "full"

    def _gaussian(self, name: str) -> Gaussian:
        if isinstance(self.emissions, Gaussian):
            return self.emissions
        raise AttributeError(
            f"{name}: these states emit {self.emissions.family} distributions, not Gaussians. Their parameters are in "
            f"`emissions`: {', '.join(self.emissions.arrays())}."
        )

    def _emissions_in_words(self) -> str:
        """Return what `repr` says about the emissions."""
        if isinstance(self.emissions, Gaussian):
            return f"covariance_type={self.covariance_type!r}"
        return f"emissions={self.emissions.kind!r}"
