"""The conjugate distribution of every family, by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from vhem._support.arrays import FloatArray
from vhem._support.errors import InputError
from vhem.emissions.components import Components
from vhem.emissions.conjugate import Conjugate
from vhem.emissions.families import arrays_of_part
from vhem.emissions.gaussian import Gaussian
from vhem.emissions.known import Known
from vhem.emissions.linear import LinearFamily
from vhem.emissions.natural import Categories, Durations, Events, Natural, Rates
from vhem.emissions.natural_shapes import Amounts, Angles, AnglesInDegrees, Counts, Shares
from vhem.emissions.normal_wishart import NormalWishart
from vhem.emissions.product_conjugate import ProductConjugate

#: Conjugate distributions of families that are linear in statistics.
NATURAL: dict[str, type[Natural]] = {
    cls.family: cls for cls in (Categories, Events, Rates, Durations, Amounts, Counts, Angles, AnglesInDegrees, Shares)
}
_CONJUGATES: dict[str, type[Conjugate]] = {**NATURAL, NormalWishart.family: NormalWishart, Known.family: Known}


def about(components: Components, n_frames: float) -> Conjugate:
    """Return what is known of components after so many frames that are typical of them."""
    if isinstance(components, Gaussian):
        return NormalWishart.about(components, n_frames)
    assert isinstance(components, LinearFamily)
    cls = NATURAL[components.family]
    shapes = (np.log(getattr(components, components.fields[1])) for _ in cls.fields[1:])
    return cls(n_frames * components.expected_statistics(), *shapes)


def conjugate_of(layout: Any, arrays: Mapping[str, FloatArray]) -> Conjugate:
    """Return distributions of the families that `layout` names, made of their arrays."""
    if isinstance(layout, list):
        parts = [conjugate_of(family, arrays_of_part(arrays, i)) for i, (family, _) in enumerate(layout)]
        return ProductConjugate(parts, [columns for _, columns in layout])
    cls: Any = _CONJUGATES.get(layout) if isinstance(layout, str) else None
    if cls is None or set(arrays) != set(cls.fields):
        raise InputError(
            "there is no posterior of {layout!r} with the arrays {found}", layout=layout, found=list(arrays)
        )
    made: Conjugate = cls(*(arrays[name] for name in cls.fields))
    if isinstance(made, Natural):
        _check(made)
    return made


def _check(made: Natural) -> None:
    """Refuse pseudo-sums of a file that no frames could have made."""
    sums = made.sums
    rest = [getattr(made, name) for name in made.fields[1:]]
    wrong = sums.ndim != 4 or sums.dtype != np.float64 or not np.isfinite(sums).all() or bool((sums[..., 0] < 0).any())
    wrong = wrong or any(array.shape != sums.shape[:3] for array in rest)
    if wrong or sums.shape[-1] != made.like.coefficients().shape[-1]:
        raise InputError("its posterior is not one of {family} emissions", family=made.family)
