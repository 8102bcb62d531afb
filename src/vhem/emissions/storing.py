"""Emissions in files: Gaussians as the arrays `means` and `covars`, others as their family and its arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vhem._support.arrays import FloatArray
from vhem.emissions.components import Components
from vhem.emissions.families import of_layout
from vhem.emissions.gaussian import Gaussian

PREFIX = "emissions."  #: of the names of arrays; each has one row per member of a collection


def packed(components: Components) -> dict[str, Any]:
    """Return what a file holds of them."""
    if isinstance(components, Gaussian):
        return dict(components.arrays())
    arrays = {PREFIX + name: array for name, array in components.arrays().items()}
    return {"family": components.layout, **arrays}


def unpacked(state: Mapping[str, Any]) -> Components:
    """Return the components of a file, not yet checked."""
    if "family" not in state:
        return Gaussian(state["means"], state["covars"])
    arrays: dict[str, FloatArray] = {
        name.removeprefix(PREFIX): array for name, array in state.items() if name.startswith(PREFIX)
    }
    return of_layout(state["family"], arrays)
